"""Windows of time: ISO weeks and days in the configured time zone, and when they are ready."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from monitor.core.records import Schedule, Window, WrongRequest

SETTLE = timedelta(hours=6)
CATCH_UP = timedelta(weeks=4)
"""How far back a run judges the windows that were missed, and ``calmon health`` reports them."""

LENGTH: Mapping[Schedule, timedelta] = {"weekly": timedelta(days=7), "daily": timedelta(days=1)}
"""How long windows are, but for the days on which clocks change."""

_OTHER_ZONE = timedelta.max
_LENGTH: Mapping[Schedule, timedelta] = {"weekly": timedelta(weeks=1), "daily": timedelta(days=1)}
# A week may be compared with days, which end a day apart, or an hour less where clocks change.
_ZONES_APART: Mapping[Schedule, timedelta] = {"weekly": timedelta(hours=23), "daily": timedelta(hours=12)}
FIRST_YEAR, LAST_YEAR = 1970, 9000
"""Years of windows: far from the ends of the calendar, where "the week before" has no date."""

_DAY = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")
_WEEK = re.compile(r"([0-9]{4})-W([0-9]{2})")


class WindowError(WrongRequest):
    """The text does not name a window; the message says how to write one."""


def _midnight(day: date, zone: ZoneInfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _check_year(year: int) -> None:
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise WindowError(f"the year {year:04d} is out of range: from {FIRST_YEAR} to {LAST_YEAR}")


def moment(text: str, zone: ZoneInfo) -> datetime:
    """An ISO date and time; without an offset it is of ``zone``. Raises :class:`WindowError`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise WindowError(f"{text[:40]!r} is not a time; write it like 2026-11-21T18:00") from error
    _check_year(found.year)
    return found if found.tzinfo else found.replace(tzinfo=zone)


def _shown(name: str) -> str:
    return repr(name if len(name) <= 40 else f"{name[:40]}…")


def week(name: str, zone: ZoneInfo) -> Window:
    """The ISO week ``2026-W46``: Monday 00:00 to Monday 00:00 in ``zone``, as UTC instants.

    Raises :class:`WindowError` where the text is not such a name or the year has no such week.

    >>> week("2026-W46", ZoneInfo("Europe/Berlin")).start.isoformat()
    '2026-11-08T23:00:00+00:00'
    """
    return named("weekly", name, zone)


def day(name: str, zone: ZoneInfo) -> Window:
    """The day ``2026-11-16`` in ``zone``, as UTC instants (23 or 25 hours where clocks change).

    >>> day("2026-10-25", ZoneInfo("Europe/Berlin")).end - day("2026-10-25", ZoneInfo("Europe/Berlin")).start
    datetime.timedelta(days=1, seconds=3600)
    """
    return named("daily", name, zone)


def named(schedule: Schedule, name: str, zone: ZoneInfo) -> Window:
    """The window of that name on that schedule."""
    start = first_day(schedule, name)
    known_as = start.isoformat() if schedule == "daily" else name.strip()
    return Window(_midnight(start, zone), _midnight(start + _LENGTH[schedule], zone), known_as, schedule)


def containing(schedule: Schedule, moment: datetime, zone: ZoneInfo) -> Window:
    """The window of ``schedule`` in which ``moment`` (time zone aware) lies."""
    local = moment.astimezone(zone).date()
    if schedule == "daily":
        return day(local.isoformat(), zone)
    year, number, _ = local.isocalendar()
    return week(f"{year}-W{number:02d}", zone)


def begun(schedule: Schedule, start: datetime, zone: ZoneInfo) -> Window:
    """The window of ``schedule`` that begins at ``start``; of a start in another time zone, the one that shares most.

    >>> begun("weekly", datetime(2026, 11, 9, tzinfo=UTC), ZoneInfo("America/New_York")).name
    '2026-W46'
    """
    return containing(schedule, start + _LENGTH[schedule] / 2, zone)


def ended(schedule: Schedule, end: datetime, zone: ZoneInfo) -> Window:
    """The window of ``schedule`` that ends at ``end``; of an end in another time zone, the one that shares most.

    >>> ended("weekly", datetime(2026, 11, 15, 23, tzinfo=UTC), ZoneInfo("Europe/Berlin")).name
    '2026-W46'
    """
    return containing(schedule, end - _LENGTH[schedule] / 2, zone)


def are_same(schedule: Schedule, one: datetime, other: datetime) -> bool:
    """Whether two starts (or ends) are of the same window, maybe in two time zones: alerts.yaml may get another one.

    Two days of time zones that are farther apart than half a day share less with each other than with their neighbours.

    >>> are_same("weekly", datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 9, 5, tzinfo=UTC))
    True
    >>> are_same("daily", datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 10, tzinfo=UTC))
    False
    """
    return abs(one - other) < _ZONES_APART[schedule]


def previous(window: Window, zone: ZoneInfo) -> Window:
    """The window just before."""
    return containing(window.schedule, window.start - timedelta(seconds=1), zone)


def following(window: Window, zone: ZoneInfo) -> Window:
    """The window just after."""
    return containing(window.schedule, window.end, zone)


def last_ready(schedule: Schedule, now: datetime, zone: ZoneInfo, settle: timedelta = SETTLE) -> Window:
    """The newest window that ended at least ``settle`` before ``now``.

    >>> last_ready("weekly", datetime(2026, 11, 16, 5, 59, tzinfo=UTC), ZoneInfo("UTC")).name
    '2026-W45'
    >>> last_ready("weekly", datetime(2026, 11, 16, 6, 0, tzinfo=UTC), ZoneInfo("UTC")).name
    '2026-W46'
    """
    return previous(containing(schedule, now - settle, zone), zone)


def span(first: Window, last: Window, zone: ZoneInfo) -> list[Window]:
    """Every window from ``first`` to ``last``, both included, oldest first.

    Raises :class:`WindowError` where the first is later than the last.
    """
    if first.start > last.start:
        raise WindowError(f"{first.name} is later than {last.name}; give the earlier one first")
    windows = [first]
    while windows[-1].start < last.start:
        windows.append(following(windows[-1], zone))
    return windows


def missed(
    schedule: Schedule, judged: Iterable[datetime], last: Window, zone: ZoneInfo, back: timedelta
) -> list[Window]:
    """The windows after the first judged one up to ``last`` that were not judged, oldest first; ``judged`` are starts.

    Windows that begin more than ``back`` before the end of ``last`` are left out.

    >>> starts = [week(f"2026-W{number}", ZoneInfo("UTC")).start for number in (45, 46, 48)]
    >>> [each.name for each in missed("weekly", starts, week("2026-W49", ZoneInfo("UTC")), ZoneInfo("UTC"), CATCH_UP)]
    ['2026-W47', '2026-W49']
    """
    known = sorted(judged)
    if not known or known[0] > last.start:
        return []
    first = begun(schedule, max(known[0], last.end - back), zone)
    return [each for each in span(first, last, zone) if not any(are_same(schedule, each.start, at) for at in known)]


def with_gaps(found: Iterable[Window]) -> list[Window]:
    """These windows of one schedule, oldest first, and those missing between them, of which only the names are right.

    >>> utc = ZoneInfo("UTC")
    >>> [each.name for each in with_gaps([day("2026-12-05", utc), day("2026-12-02", utc)])]
    ['2026-12-02', '2026-12-03', '2026-12-04', '2026-12-05']
    """
    known = sorted(found)
    by_name, utc = {each.name: each for each in known}, ZoneInfo("UTC")
    first, last = (named(each.schedule, each.name, utc) for each in (known[0], known[-1]))
    return [by_name.get(each.name, each) for each in span(first, last, utc)]


def before(window: Window, count: int, zone: ZoneInfo) -> list[Window]:
    """The ``count`` windows before ``window``, newest first."""
    windows: list[Window] = []
    current = window
    for _ in range(count):
        current = previous(current, zone)
        windows.append(current)
    return windows


def up_to(last: Window, count: int, zone: ZoneInfo) -> list[Window]:
    """The ``count`` windows that end with ``last``, oldest first."""
    return [*before(last, count - 1, zone)[::-1], last]


def run_command(schedule: Schedule, name: str) -> str:
    """The command that judges a window.

    >>> run_command("daily", "2026-11-16")
    'calmon run daily --date 2026-11-16'
    """
    return f"calmon run {schedule} --{'week' if schedule == 'weekly' else 'date'} {name}"


def nominal(window: Window) -> date:
    """The first day of a window by its name, in any time zone."""
    return first_day(window.schedule, window.name)


def first_day(schedule: Schedule, name: str) -> date:
    """The first day of a window by its name; no time zone is needed. Raises :class:`WindowError`.

    >>> first_day("weekly", "2026-W46"), first_day("daily", "2026-11-16")
    (datetime.date(2026, 11, 9), datetime.date(2026, 11, 16))
    """
    if schedule == "daily":
        try:  # no other ISO forms: "2026-W46" is a week, not a day
            written = name.strip() if _DAY.fullmatch(name.strip()) else ""
            day = datetime.strptime(written, "%Y-%m-%d").date()  # noqa: DTZ007 - a date has no time zone
        except ValueError as error:
            raise WindowError(f"{_shown(name)} is not a date; write it like 2026-11-16") from error
        _check_year(day.year)
        return day
    found = _WEEK.fullmatch(name.strip())
    if not found:
        raise WindowError(f"{_shown(name)} is not an ISO week; write it like 2026-W46")
    _check_year(int(found[1]))
    try:
        return date.fromisocalendar(int(found[1]), int(found[2]), 1)
    except ValueError as error:
        raise WindowError(f"{name!r}: the year {found[1]} has no week {found[2]}") from error


def days_of(name: str) -> tuple[date, date]:
    """The first and the last day of a week or a day by its name: names of both kinds cannot be compared as texts.

    >>> days_of("2026-W46")
    (datetime.date(2026, 11, 9), datetime.date(2026, 11, 15))

    Raises :class:`WindowError`.
    """
    schedule: Schedule = "weekly" if "-W" in name else "daily"
    first = first_day(schedule, name)
    return first, first + LENGTH[schedule] - timedelta(days=1)


def series_of(found: Iterable[Window]) -> list[tuple[Window, ...]]:
    """Split windows of one schedule into series of one time zone: each oldest first, the newest series first.

    Windows of one zone follow each other without gaps or overlaps (apart from missing ones); windows of different zones
    do not. Across missing windows a difference of an hour is allowed, since clocks may have changed.

    >>> utc = [week(f"2026-W{k}", ZoneInfo("UTC")) for k in (30, 31, 33)]
    >>> berlin = [week(f"2026-W{k}", ZoneInfo("Europe/Berlin")) for k in (34, 35)]
    >>> [[each.name for each in series] for series in series_of([*utc, *berlin])]
    [['2026-W34', '2026-W35'], ['2026-W30', '2026-W31', '2026-W33']]
    """
    series: list[list[Window]] = []
    for window in sorted(set(found)):
        near = [(_misfit(each[-1], window), place) for place, each in enumerate(series)]
        misfit, place = min(near, default=(_OTHER_ZONE, 0))
        if misfit < _OTHER_ZONE:
            series[place].append(window)
        else:
            series.append([window])
    return sorted((tuple(each) for each in series), key=lambda each: each[-1].start, reverse=True)


def _misfit(before: Window, after: Window) -> timedelta:
    """How far the later window's start is from its start in the earlier window's time zone."""
    days = 7 if before.schedule == "weekly" else 1
    missing = nominal(after) - nominal(before) - timedelta(days=days)
    misfit = abs(after.start - before.end - missing)
    allowed = timedelta(0) if not missing else timedelta(hours=1)
    return misfit if missing >= timedelta(0) and misfit <= allowed else _OTHER_ZONE
