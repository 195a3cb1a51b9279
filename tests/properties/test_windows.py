"""Windows against plain dates and zoneinfo: zones of half and quarter hours, clocks that change, long years, leap days.

The oracle asks zoneinfo for the local date of moments and never for a local midnight, as the code does.
"""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monitor.core import windows
from monitor.core.records import Schedule, Window
from monitor.core.schedules import zone_of
from monitor.core.windows import WindowError

ZONES = [
    ZoneInfo(name)
    for name in (
        "UTC", "Asia/Kolkata", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Chatham", "America/St_Johns",
        "Europe/Berlin", "Pacific/Auckland", "America/Santiago", "Africa/Cairo", "America/Havana", "Asia/Beirut",
        "Pacific/Kiritimati", "Pacific/Marquesas",
    )
]  # fmt: skip
SCHEDULES = ("weekly", "daily")
LONG_YEARS = (2015, 2020, 2026, 2032, 2037)
SECOND = timedelta(seconds=1)
zones, schedules = st.sampled_from(ZONES), st.sampled_from(SCHEDULES)
dates = st.dates(date(2015, 1, 1), date(2037, 12, 31))
moments = st.datetimes(datetime(2015, 1, 1), datetime(2037, 12, 31)).map(lambda at: at.replace(tzinfo=UTC))  # noqa: DTZ001


def first_and_length(schedule: Schedule, day: date) -> tuple[date, int]:
    """The first date of the window of a date, and its number of dates: plain dates."""
    return (day, 1) if schedule == "daily" else (day - timedelta(days=day.weekday()), 7)


def name_of(schedule: Schedule, first: date) -> str:
    return first.isoformat() if schedule == "daily" else f"{first:%G-W%V}"


def dates_of(window: Window, zone: ZoneInfo) -> tuple[date, date, date, date]:
    """The local dates just before the window, at its start, at its last second and at its end."""
    at = (window.start - SECOND, window.start, window.end - SECOND, window.end)
    before, first, last, after = ((moment.astimezone(zone)).date() for moment in at)
    return before, first, last, after


@given(schedules, zones, moments)
@example(
    "weekly", ZoneInfo("Australia/Lord_Howe"), datetime(2026, 4, 4, 15, 15, tzinfo=UTC)
)  # half an hour comes twice
@example("weekly", ZoneInfo("Asia/Kathmandu"), datetime(2026, 12, 31, 18, 15, tzinfo=UTC))
@example("daily", ZoneInfo("America/Santiago"), datetime(2026, 9, 6, 4, tzinfo=UTC))  # 00:00 does not exist
@example("daily", ZoneInfo("America/Havana"), datetime(2026, 11, 1, 4, 30, tzinfo=UTC))  # 00:00 comes twice
@example("daily", ZoneInfo("Asia/Kolkata"), datetime(2028, 2, 28, 18, 30, tzinfo=UTC))
def test_the_window_of_a_moment_has_its_local_date_and_begins_and_ends_where_the_date_changes(
    schedule: Schedule, zone: ZoneInfo, moment: datetime
):
    found = windows.containing(schedule, moment, zone)
    first, length = first_and_length(schedule, moment.astimezone(zone).date())
    assert found.start <= moment < found.end
    assert found.name == name_of(schedule, first)
    assert windows.nominal(found) == first
    day = timedelta(days=1)
    assert dates_of(found, zone) == (first - day, first, first + (length - 1) * day, first + length * day)
    assert windows.named(schedule, found.name, zone) == found


@given(schedules, zones, dates, st.integers(1, 60))
@example("weekly", ZoneInfo("Australia/Lord_Howe"), date(2027, 1, 4), 53)
@example("daily", ZoneInfo("Asia/Kathmandu"), date(2028, 3, 1), 2)
def test_the_windows_before_and_after_follow_without_a_gap_and_are_named_by_plain_dates(
    schedule: Schedule, zone: ZoneInfo, day: date, count: int
):
    first, length = first_and_length(schedule, day)
    window = windows.named(schedule, name_of(schedule, first), zone)
    before = windows.before(window, count, zone)
    firsts = [first - timedelta(days=length * back) for back in range(1, count + 1)]
    assert [each.name for each in before] == [name_of(schedule, each) for each in firsts]
    row = [*reversed(before), window]
    assert all(one.end == next_.start for one, next_ in itertools.pairwise(row))
    assert windows.span(row[0], window, zone) == row
    assert windows.series_of(row) == [tuple(row)]
    assert windows.following(window, zone).name == name_of(schedule, first + timedelta(days=length))


@given(schedules, zones, moments)
def test_the_last_ready_window_is_the_newest_that_ended_six_hours_before(
    schedule: Schedule, zone: ZoneInfo, now: datetime
):
    found = windows.last_ready(schedule, now, zone)
    assert found.end <= now - windows.SETTLE < windows.following(found, zone).end


@given(zones, dates)
@example(ZoneInfo("Australia/Lord_Howe"), date(2026, 10, 4))
@example(ZoneInfo("Africa/Cairo"), date(2026, 4, 24))
def test_the_shipped_schedules_find_the_window_that_has_just_ended(zone: ZoneInfo, day: date):
    """Weekly at 06:30 on Mondays and daily at 07:15, in the zone of alerts.yaml, also where clocks change that day."""
    assert zone_of("30 6 * * 1", zone.key) == zone_of("15 7 * * *", zone.key) == zone.key
    fires = datetime(day.year, day.month, day.day, 7, 15, tzinfo=zone).astimezone(UTC)
    assert windows.last_ready("daily", fires, zone).name == (day - timedelta(days=1)).isoformat()
    monday, _ = first_and_length("weekly", day)
    fires = datetime(monday.year, monday.month, monday.day, 6, 30, tzinfo=zone).astimezone(UTC)
    assert windows.last_ready("weekly", fires, zone).name == name_of("weekly", monday - timedelta(days=7))


@pytest.mark.parametrize("year", range(2015, 2038))
def test_a_week_53_exists_only_in_long_years(year: int):
    if year not in LONG_YEARS:
        with pytest.raises(WindowError, match=f"the year {year} has no week 53"):
            windows.first_day("weekly", f"{year}-W53")
        return
    for zone in ZONES:
        last = windows.week(f"{year}-W53", zone)
        assert windows.following(last, zone).name == f"{year + 1}-W01"
        assert windows.previous(last, zone).name == f"{year}-W52"


@pytest.mark.parametrize("name", ["2026-02-29", "2100-02-29", "2026-W00", "2026-W54", "2025-W53"])
def test_a_date_or_week_that_does_not_exist_is_refused(name: str):
    with pytest.raises(WindowError):
        windows.first_day("weekly" if "W" in name else "daily", name)
