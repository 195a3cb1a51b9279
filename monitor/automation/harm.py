"""The harm of wrong automation: counted while it was on, "would have been" while it was off. Pure.

Counts have no time within their window. So if automation was on for a part of it, the harm is estimated by the share of
time, and the sentence says so. ``monitor.automation.as_of`` finds that share.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from monitor.core.records import Schedule
from monitor.core.score_ranges import Ranges, merged, ranges_text
from monitor.core.wording import segment_name

UNITS: dict[Schedule, str] = {"weekly": "week", "daily": "day"}
_ALWAYS, _NEVER = 1 - 1e-9, 1e-9


@dataclass(frozen=True, slots=True)
class TimeOn:
    """The share of a window, 0 to 1, in which automation was on.

    ``blocked`` are score ranges and ``segments`` (column, value) that were closed meanwhile: for some of that time, or
    for all of it (``throughout``). ``mixed``: the share is over several labels, weighted by their rows. ``scores`` are
    those from which the label acted meanwhile, each with its share of the window; empty: not known.
    """

    share: float
    blocked: Ranges = ()
    mixed: bool = False
    segments: tuple[tuple[str, str], ...] = ()
    throughout: bool = False
    scores: tuple[tuple[float, float], ...] = ()

    @property
    def closed(self) -> bool:
        """Whether some items could not be automated while automation was on."""
        return bool(self.blocked or self.segments)

    @property
    def closed_text(self) -> str:
        """What was closed, in words, and that the errors there are counted too: rows have no time within a window."""
        scores = f"scores {ranges_text(self.blocked)} blocked" if self.blocked else ""
        segments = ", ".join(segment_name(*each) for each in self.segments)
        what = " and ".join(part for part in (scores, f"{segments} off" if segments else "") if part)
        return f"{what} for {'all' if self.throughout else 'some'} of it, but counted" if what else ""


class HarmKind(StrEnum):
    """Whether automation made the errors that the rows show."""

    HAPPENED = "happened"
    """Automation was on during the whole window: it made these errors."""
    ESTIMATED = "estimated"
    """It was on for a part of the window, or with blocked scores: it made a share of the errors, estimated by time."""
    AVERTED = "averted"
    """It was off during the whole window: it would have made these errors."""


@dataclass(frozen=True, slots=True)
class Harm:
    """Errors beyond those that scores claimed, among the rows with scores from ``automate_at`` on, whoever decided.

    ``excess`` is a number of rows (negative: fewer errors than claimed), with its limits; ``wrong`` of ``rows`` were
    wrong, ``expected`` were expected. Rows with weights count as the items that they represent. None: not known.
    ``on`` says how long automation was on. Where gates acted from another score, the rows are those from that score on
    (of several the lowest), and ``counted_from`` names it. ``made`` is how many excess errors automation made, where
    time alone does not say it: gates acted from several scores, or several labels were on for different times.
    """

    excess: float
    on: TimeOn
    schedule: Schedule
    low: float | None = None
    high: float | None = None
    wrong: float | None = None
    expected: float | None = None
    rows: int | None = None
    counted_from: str = ""
    made: float | None = None

    @property
    def kind(self) -> HarmKind:
        """Whether automation made all of these errors, a part, or none."""
        if self.on.share <= _NEVER:
            return HarmKind.AVERTED
        whole = self.on.share >= _ALWAYS and not self.on.closed and self.made is None
        return HarmKind.HAPPENED if whole else HarmKind.ESTIMATED

    @property
    def done(self) -> float:
        """How many of the excess errors automation made, as far as known: all, a share by time, or none."""
        part = self.excess * self.on.share if self.made is None else self.made
        return {HarmKind.HAPPENED: self.excess, HarmKind.AVERTED: 0.0}.get(self.kind, part)

    @property
    def short(self) -> str:
        """One clause without its full stop.

        >>> Harm(37.8, TimeOn(1.0), "weekly").short
        'about 38 more wrong than scores claimed'
        >>> Harm(37.8, TimeOn(0.43), "weekly").short
        'about 38 more wrong than scores claimed, an estimated 16 of them while automation was on (43% of the week)'
        >>> Harm(37.8, TimeOn(0.0), "daily").short
        'automation was off the whole day: about 38 more would have been wrong than scores claimed'
        >>> Harm(37.8, TimeOn(0.43, mixed=True), "weekly", made=-9.0).short
        'about 38 more wrong than scores claimed, but an estimated 9 fewer while automation was on (some labels or some of the week)'
        """  # noqa: E501
        return self._clause("")

    @property
    def sentence(self) -> str:
        """The finding in words, with its limits and counts, without its full stop.

        >>> Harm(37.8, TimeOn(1.0), "weekly", 21.0, 56.2, 68.0, 30.2, 900).sentence
        'about 38 more wrong than scores claimed (21 to 56): 68 of 900 automated were wrong, 30 were to be expected'
        >>> Harm(37.8, TimeOn(0.0), "weekly", 21.0, 56.2, 68.0, 30.2, 900).sentence.split("; ")[1]
        '68 of 900 items were wrong, 30 were to be expected'
        >>> Harm(37.8, TimeOn(1.0), "weekly", counted_from="0.9, the score from which gates acted").sentence
        'about 38 more wrong than scores claimed; counted from 0.9, the score from which gates acted'
        """
        source = f"; counted from {self.counted_from}" if self.counted_from else ""
        return self._counted() + source

    def _counted(self) -> str:
        limits = "" if self.low is None or self.high is None else f" ({round(self.low):,} to {round(self.high):,})"
        text = self._clause(limits)
        if self.wrong is None or self.rows is None or self.expected is None:
            return text
        sign, what = (": ", "automated") if self.kind is HarmKind.HAPPENED else ("; ", "items")
        counts = f"{self.wrong:,.0f} of {self.rows:,} {what} were wrong, {self.expected:,.0f} were to be expected"
        return f"{text}{sign}{counts}"

    def _clause(self, limits: str) -> str:
        count, unit = (
            f"about {round(abs(self.excess)):,} {'more' if self.excess >= 0 else 'fewer'}",
            UNITS[self.schedule],
        )
        if self.kind is HarmKind.HAPPENED:
            return f"{count} wrong than scores claimed{limits}"
        if self.kind is HarmKind.AVERTED:
            return f"automation was off the whole {unit}: {count} would have been wrong than scores claimed{limits}"
        when = f"{_part(self.on.share)} of the {unit}" if self.on.share < _ALWAYS else f"the whole {unit}"
        when = f"some labels or some of the {unit}" if self.on.mixed else when
        when += f", {self.on.closed_text}" if self.on.closed and not self.on.mixed else ""
        when += ", from higher scores for some of it" if self.made is not None and not self.on.mixed else ""
        return f"{count} wrong than scores claimed{limits}, {self._part_made} while automation was on ({when})"

    @property
    def _part_made(self) -> str:
        """How many errors automation made: a part of the excess, unless labels that were off made up for it."""
        made = f"an estimated {round(abs(self.done)):,}"
        if 0 <= self.done <= self.excess or self.excess <= self.done <= 0:
            return f"{made} of them"
        return f"but {made} {'more' if self.done >= 0 else 'fewer'}"


def _part(share: float) -> str:
    """A share that is neither 0 nor 1, in words that are neither.

    >>> _part(0.43), _part(0.002), _part(0.998)
    ('43%', 'less than 1%', 'more than 99%')
    """
    if 0.005 <= share < 0.995:
        return f"{100 * share:.0f}%"
    return "less than 1%" if share < 0.5 else "more than 99%"


def together(parts: Iterable[tuple[float, TimeOn]]) -> TimeOn:
    """The time on of several labels together, weighted by their rows; off without rows.

    >>> together([(300, TimeOn(1.0)), (100, TimeOn(0.0))])
    TimeOn(share=0.75, blocked=(), mixed=True, segments=(), throughout=False, scores=())
    """
    known = [(rows, on) for rows, on in parts if rows > 0]
    whole = sum(rows for rows, _ in known)
    share = sum(rows * on.share for rows, on in known) / whole if whole else 0.0
    blocked = merged(each for _, on in known for each in on.blocked)
    off = tuple(dict.fromkeys(segment for _, on in known for segment in on.segments))
    return TimeOn(share, blocked, mixed=True, segments=off)
