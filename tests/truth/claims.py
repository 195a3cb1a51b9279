"""Reading claims: a text is matched with known templates, and what it says is compared with the facts.

A grammar is a list of templates. Each is a pattern with named groups and a function that checks what they say; a text
that fits no template is a false claim as well, since nobody could tell whether it is true. Numbers are compared to the
precision that is printed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.truth.facts import Facts, Row

UNKNOWN = "–"


@dataclass(frozen=True)
class FalseClaim:
    """A text that is not so: where it was, what it says, what is true."""

    origin: str
    text: str
    fact: str
    kind: str

    def __str__(self) -> str:
        return f"[{self.origin}] {self.text!r}: {self.kind}: {self.fact}"


@dataclass
class Reader:
    """Reads texts of one history against its facts, counts claims and keeps those that are false."""

    facts: Facts
    origin: str = ""
    texts: int = 0
    claims: Counter[str] = field(default_factory=Counter)
    false: list[FalseClaim] = field(default_factory=list)
    #: When the text was made, by the clock of then: in one step the clock may be set back and forth again.
    made_at: datetime | None = None

    def check(self, holds: bool, kind: str, text: str, fact: object) -> bool:
        """One claim: whether it holds, of which kind it is, the text, and what is true."""
        self.claims[kind] += 1
        if not holds:
            self.false.append(FalseClaim(self.origin, text, str(fact), kind))
        return holds

    def unknown(self, text: str) -> None:
        """A text that no template knows."""
        self.check(False, "unknown sentence", text, "no template fits; add one to tests/truth")

    def number(self, kind: str, text: str, printed: str | None, true: float | None, *, scale: float = 1.0) -> None:
        """A printed number is the stored one, to the digits that are printed."""
        if printed is None:
            return
        said = parsed(printed)
        if said is None or true is None:
            self.check(said is None and true is None, kind, text, f"says {printed}, is {true}")
            return
        step = 10.0 ** -digits(printed)
        self.check(
            abs(said - scale * true) <= 0.5000001 * step + 1e-12, kind, text, f"says {printed}, is {scale * true}"
        )

    def equal(self, kind: str, text: str, said: object, true: object) -> None:
        """What is said is what is stored."""
        self.check(said == true, kind, text, f"says {said}, is {true}")


def parsed(printed: str) -> float | None:
    """A number as people write it; None for an en dash."""
    plain = printed.strip().replace("−", "-").replace(",", "").removesuffix("%").removesuffix("×")
    if plain in ("", UNKNOWN, "-", "unknown", "undefined", "None"):
        return None
    return float(plain)


def digits(printed: str) -> float:
    """How many decimals are printed; of a number in scientific or ``:g`` form, those of its last digit."""
    plain = printed.strip().replace("−", "-").replace(",", "").removesuffix("%").lower()
    mantissa, _, exponent = plain.partition("e")
    decimals = len(mantissa.partition(".")[2])
    return decimals - int(exponent) if exponent else decimals


def minute(text: str) -> datetime:
    """``2026-03-27 10:00`` in UTC."""
    return datetime.strptime(text.removesuffix(" UTC"), "%Y-%m-%d %H:%M").replace(tzinfo=UTC)


def same_minute(printed: str, true: datetime | None) -> bool:
    """Whether a printed minute is that of an instant."""
    return true is not None and true.strftime("%Y-%m-%d %H:%M") == printed.removesuffix(" UTC").replace("T", " ")


Check = Callable[..., None]


@dataclass
class Grammar:
    """Templates in their order; the first that fits the whole text is taken."""

    name: str
    templates: list[tuple[re.Pattern[str], Check]] = field(default_factory=list)

    def add(self, pattern: str) -> Callable[[Check], Check]:
        """A template: ``pattern`` must fit the whole text, the function gets (reader, text, context, **groups)."""

        def keep(check: Check) -> Check:
            self.templates.append((re.compile(pattern, re.DOTALL), check))
            return check

        return keep

    def fits(self, text: str) -> bool:
        """Whether any template fits."""
        return any(pattern.fullmatch(text) for pattern, _ in self.templates)

    def read(self, reader: Reader, text: str, context: Any = None) -> None:
        """Check what a text says; unknown texts are kept as false."""
        for pattern, check in self.templates:
            found = pattern.fullmatch(text)
            if found:
                try:
                    check(reader, text, context, **found.groupdict())
                except (KeyError, TypeError, IndexError) as error:  # the stored row has no such thing at all
                    reader.check(False, "claim without a fact", text, repr(error))
                return
        reader.unknown(f"{self.name}: {text}")


def fixed(*texts: str) -> str:
    """A pattern of texts that claim nothing about the history (headings, how to read a table)."""
    return "|".join(re.escape(text) for text in texts)


def nothing(reader: Reader, text: str, context: Any, **_: str | None) -> None:
    """A sentence without a claim."""
    reader.claims["fixed sentence"] += 1


def name_of(row: Row) -> str:
    """``tickets/billing`` or ``tickets (all labels)``."""
    return f"{row['source']}/{row['label']}" if row["label"] else f"{row['source']} (all labels)"


def who_of(row: Row) -> str:
    """The subject as a sentence begins with it."""
    return str(row["label"] or f"{row['source']} (all labels)")


def subject_of(name: str) -> tuple[str, str | None]:
    """(source, label) of a name."""
    if name.endswith(" (all labels)"):
        return name.removesuffix(" (all labels)"), None
    source, _, label = name.partition("/")
    return source, label


def listed(rows: Sequence[Row]) -> str:
    return ", ".join(f"{name_of(r)} {r['rule']} {r['outcome']} in {r['window_name']}" for r in rows) or "nothing"
