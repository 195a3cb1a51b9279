"""Windows: ISO weeks and days in a time zone, daylight saving included, and when they are ready."""

from __future__ import annotations

from zoneinfo import ZoneInfo

import pytest

from monitor.core import windows
from monitor.core.records import Window
from monitor.core.windows import WindowError

BERLIN, UTC_ZONE, AUCKLAND = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), ZoneInfo("Pacific/Auckland")


@pytest.mark.parametrize("text", ["2026-46", "W46", "2026-W4", "", "2026-W46; DROP"])
def test_what_is_no_week_is_refused_with_how_to_write_one(text: str):
    with pytest.raises(WindowError, match="write it like 2026-W46"):
        windows.week(text, UTC_ZONE)


@pytest.mark.parametrize("zone", [BERLIN, AUCKLAND, UTC_ZONE])
def test_two_years_of_one_zone_are_one_series_also_with_windows_missing(zone: ZoneInfo):
    weeks = windows.span(windows.week("2025-W01", zone), windows.week("2026-W53", zone), zone)
    assert windows.series_of(weeks) == [tuple(weeks)]
    some = [each for k, each in enumerate(weeks) if k % 5]
    assert windows.series_of(reversed(some)) == [tuple(some)]
    days = windows.span(windows.day("2026-03-20", zone), windows.day("2026-11-10", zone), zone)
    assert windows.series_of(days) == [tuple(days)]


def test_a_changed_zone_begins_another_series_and_going_back_goes_on_with_the_first():
    def some(zone: ZoneInfo, *numbers: int) -> tuple[Window, ...]:
        return tuple(windows.week(f"2026-W{number}", zone) for number in numbers)

    utc, berlin = some(UTC_ZONE, 38, 39, 40, 50, 51), some(BERLIN, 41, 42, 43, 44, 45)
    assert windows.series_of([*utc, *berlin]) == [utc, berlin]
    again = some(BERLIN, 38, 39, 40)  # the same weeks, evaluated in another zone as well
    assert windows.series_of([*utc[:3], *again]) == [utc[:3], again]


def test_the_first_day_of_a_window_is_known_without_a_zone():
    assert {windows.nominal(windows.week("2026-W46", zone)).isoformat() for zone in (BERLIN, AUCKLAND)} == {
        "2026-11-09"
    }
    with pytest.raises(WindowError, match="2026-W46"):
        windows.first_day("weekly", "2026-11-09")
    with pytest.raises(WindowError, match="2026-11-16"):
        windows.first_day("daily", "2026-W46")
