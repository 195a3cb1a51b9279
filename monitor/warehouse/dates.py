"""What a date is where a column has text or numbers: one definition for files, DuckDB, SQLite and ``init``.

An ISO date is read: ``2026-11-17``, or with a time (also with fractions of a second, after a point or a comma), and
with
a time zone or without: ``Z``, ``UTC``, an offset (``+01``, ``-0300``, ``+01:00``) or a name such as ``Europe/Berlin``.
Every other form is refused; :func:`form_of` names the usual ones, with what makes dates of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import product
from zoneinfo import ZoneInfo, available_timezones

_ZONE = r"[Zz]|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?|(?i:UTC|GMT)|[A-Za-z_]+/[A-Za-z_/+-]+\d*"
_TIME = r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::(?P<second>[0-5]\d)(?:[.,](?P<fraction>\d+))?)?"
ISO = rf"(?P<day>\d{{4}}-\d{{2}}-\d{{2}})(?:(?:[Tt]| +){_TIME}(?: *(?P<zone>{_ZONE}))?)?"
"""A regular expression for the whole text, without blanks at its ends; also one of DuckDB's."""
BEFORE_ZONE = r" +([+-]|Z$)"
"""Blanks before an offset, which DuckDB's cast to a timestamp does not take."""
_ISO = re.compile(ISO, re.ASCII)
_PLAIN = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?", re.ASCII)  # the usual, and quick

_DAYS = (
    "%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y/%m/%d", "%Y.%m.%d", "%d-%m-%Y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%d. %B %Y", "%b %d, %Y", "%B %d, %Y", "%b %d %Y",
)  # fmt: skip
_TIMES = (" %H:%M:%S", " %H:%M", " %I:%M:%S %p", " %I:%M %p", "")
PATTERNS = (
    *(f"{day}{time}" for time, day in product(_TIMES, _DAYS)),
    "%a, %d %b %Y %H:%M:%S %z", "%a %b %d %H:%M:%S %Y", "%Y-%m-%d %I:%M:%S %p", "%Y-%m-%d %I:%M %p",
)  # fmt: skip
"""Other forms of text, as strptime writes them; where day and month may be exchanged, the day first."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Dates as numbers from ``least`` to below ``most``: seconds since 1970 are (number - ``zero``) * ``seconds``."""

    name: str
    least: float
    most: float
    zero: float = 0
    seconds: float = 1

    def in_seconds(self, column: str) -> str:
        """SQL for seconds since 1970."""
        moved = f"({column} - {self.zero})" if self.zero else column
        if self.seconds >= 1:
            return moved if self.seconds == 1 else f"{moved} * {self.seconds:g}"
        return f"{moved} / {1 / self.seconds:.1f}"


SECONDS = Numbers("seconds since 1970", 1e8, 1e11)
NUMBERS = (
    SECONDS,
    Numbers("milliseconds since 1970", 1e11, 1e14, seconds=1e-3),
    Numbers("microseconds since 1970", 1e14, 1e17, seconds=1e-6),
    Numbers("nanoseconds since 1970", 1e17, 1e19, seconds=1e-9),
    Numbers("days of Excel", 20_000, 80_000, zero=25_569, seconds=86_400),
    Numbers("Julian days", 2_400_000, 2_600_000, zero=2_440_587.5, seconds=86_400),
)
"""Forms of numbers that cannot be taken for each other: none of their ranges overlap."""


def instant_of(value: object) -> datetime | None:
    """The moment of an ISO date, or of a number of seconds since 1970; None for all else. Without a zone it is UTC.

    >>> instant_of("2026-11-17 9:00:00,5 -0300").isoformat(), instant_of("2026-11-17").isoformat()
    ('2026-11-17T09:00:00.500000-03:00', '2026-11-17T00:00:00+00:00')
    >>> instant_of(1794909600).isoformat(), instant_of(46343.5), instant_of("now")
    ('2026-11-17T10:00:00+00:00', None, None)
    """
    if isinstance(value, str):
        return _of_text(value.strip(" "))
    if isinstance(value, int | float) and SECONDS.least <= value < SECONDS.most:
        return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=round(value * 1_000_000))
    return None


def form_of(value: object) -> Numbers | str | None:
    """The form of a date that is no ISO date: of numbers, or a pattern of strptime; None if it is not known.

    >>> form_of("46343.604").name, form_of("1794909600000").name, form_of("11/17/2026 2:30 PM"), form_of("soon")
    ('days of Excel', 'milliseconds since 1970', '%m/%d/%Y %I:%M %p', None)
    """
    text = str(value).strip()
    try:
        number = float(text)
    except ValueError:
        return next((pattern for pattern in PATTERNS if fits(text, pattern)), None)
    return next((form for form in NUMBERS if form.least <= number < form.most), None)


def fits(text: str, pattern: str) -> bool:
    """Whether a text is a date in a form of strptime."""
    return instant_by(text, pattern) is not None


def instant_by(text: str, pattern: str) -> datetime | None:
    """The moment of a text in a form of strptime; None if it has another. Without a zone it is UTC."""
    try:
        moment = datetime.strptime(text, pattern)  # noqa: DTZ007 - a zone is added
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def is_iso(text: str) -> bool:
    """Whether a text has the form of an ISO date."""
    return _ISO.fullmatch(text.strip(" ")) is not None


def has_zone(text: str) -> bool:
    """Whether a date says its time zone.

    >>> has_zone("2026-11-17 10:00 Europe/Berlin"), has_zone("2026-11-17T10:00Z"), has_zone("2026-11-17")
    (True, True, False)
    """
    match = _ISO.fullmatch(text.strip(" "))
    return match is not None and match["zone"] is not None


def in_words(value: object) -> str:
    """What a value is that is no ISO date, for people.

    >>> in_words("2461362.1"), in_words("17 Nov 2026"), in_words("soon")
    ('Julian days', 'written as %d %b %Y', 'no ISO dates')
    """
    form = form_of(value)
    return form.name if isinstance(form, Numbers) else "no ISO dates" if form is None else f"written as {form}"


def remedy_for(value: object, column: str, engine: str, *, is_text: bool, file: bool = False) -> str:  # noqa: PLR0911 - one for each engine
    """What makes dates of a column whose values are like ``value``, in the dialect of an engine.

    >>> remedy_for(1794909600, "closed_at", "postgresql", is_text=False)
    'make dates of them in a view or a SELECT: to_timestamp(closed_at)'
    >>> remedy_for("46343.6", "closed_at", "sqlite", is_text=True)
    'make dates of them in a view or a SELECT: (CAST(closed_at AS REAL) - 25569) * 86400'
    >>> remedy_for("17.11.2026", "closed_at", "duckdb", is_text=True, file=True)
    'write types: {closed_at: "%d.%m.%Y"}'
    >>> remedy_for("unknown", "closed_at", "duckdb", is_text=True, file=True)
    'correct them where they come from: no form of a date fits such a value'
    """
    form = form_of(value)
    if form is None and value is not None and not any(map(str.isdigit, str(value))):
        return "correct them where they come from: no form of a date fits such a value"
    if isinstance(form, Numbers):
        kind = "REAL" if engine == "sqlite" else "DOUBLE PRECISION"
        seconds = form.in_seconds(f"CAST({column} AS {kind})" if is_text else column)
        return (
            f"make dates of them in a view or a SELECT: {seconds if engine == 'sqlite' else f'to_timestamp({seconds})'}"
        )
    if file:
        return f'write types: {{{column}: "{form or "%d.%m.%Y"}"}}' + ("" if form else ", as the dates are written")
    if engine == "duckdb":
        return f"make dates of them in a view or a SELECT: strptime({column}, '{form or '%d.%m.%Y'}')"
    if engine == "postgresql":
        if form is None:
            return f"cast it in a view or a SELECT: CAST({column} AS TIMESTAMP WITH TIME ZONE)"
        return f"make dates of them in a view or a SELECT: to_timestamp({column}, '{to_postgres(form)}')"
    if engine == "sqlite":
        return f"write {column} as 2026-11-17 14:30:00 where the table is filled, since SQLite cannot read another form"
    return f"cast {column} in a view or a SELECT"


_POSTGRES = {
    "%Y": "YYYY", "%y": "YY", "%m": "MM", "%d": "DD", "%H": "HH24", "%I": "HH12", "%M": "MI", "%S": "SS", "%p": "AM",
    "%b": "Mon", "%B": "Month", "%a": "Dy", "%z": "TZH:TZM",
}  # fmt: skip


def to_postgres(pattern: str) -> str:
    """How ``to_timestamp`` of PostgreSQL is told the form of dates.

    >>> to_postgres("%d.%m.%Y %H:%M")
    'DD.MM.YYYY HH24:MI'
    """
    return re.sub("%[A-Za-z]", lambda part: _POSTGRES[part[0]], pattern)


def _of_text(text: str) -> datetime | None:
    if _PLAIN.fullmatch(text):
        return _read(text)
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    hour, zone = match["hour"], match["zone"]
    if zone is not None and len(zone) > 1 and zone[0] not in "+-":
        return _in_zone(text[: match.start("zone")].rstrip(), zone.upper())
    if hour is not None and (len(hour) == 1 or match.start("hour") != len("2026-11-17T")):
        text = f"{match['day']}T{hour:0>2}{text[match.end('hour') :]}"
    if zone is not None:
        text = re.sub(BEFORE_ZONE, r"\1", text)
    return _read(text.replace(",", ".").upper())


def _read(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _in_zone(plain: str, zone: str) -> datetime | None:
    """The moment of a clock's time. Of an hour that there is twice it is the later one, as in DuckDB."""
    moment, known = _of_text(plain), UTC if zone in ("UTC", "GMT") else _zone(zone)
    if moment is None or known is None:
        return None
    return max(moment.replace(tzinfo=known, fold=fold).astimezone(UTC) for fold in (0, 1))


@lru_cache(1)
def _zones() -> dict[str, str]:
    return {name.upper(): name for name in available_timezones()}


@lru_cache(64)
def _zone(name: str) -> ZoneInfo | None:
    found = _zones().get(name)
    return None if found is None else ZoneInfo(found)
