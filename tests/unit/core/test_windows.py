"""Windows: ISO weeks and days in a time zone, daylight saving included, and when they are ready."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from monitor.core import windows
from monitor.core.windows import WindowError

BERLIN, UTC_ZONE, AUCKLAND = ZoneInfo("Europe/Berlin"), ZoneInfo("UTC"), ZoneInfo("Pacific/Auckland")


@pytest.mark.parametrize(("name", "hours"), [("2026-W13", 167), ("2026-W43", 169), ("2026-W44", 168)])
def test_a_week_in_which_clocks_change_is_an_hour_shorter_or_longer(name: str, hours: int) -> None:
    found = windows.week(name, BERLIN)
    assert found.end - found.start == timedelta(hours=hours)


@pytest.mark.parametrize("text", ["2026-46", "W46", "2026-W4", "", "2026-W46; DROP"])
def test_what_is_no_week_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(WindowError, match="write it like 2026-W46"):
        windows.week(text, UTC_ZONE)


def test_a_window_is_ready_six_hours_after_its_end_in_its_own_zone() -> None:
    end = windows.week("2026-W46", BERLIN).end
    assert windows.last_ready("weekly", end + timedelta(hours=6), BERLIN).name == "2026-W46"
    assert windows.last_ready("weekly", end + timedelta(hours=5, minutes=59), BERLIN).name == "2026-W45"
    assert windows.last_ready("daily", datetime(2026, 11, 17, 5, tzinfo=UTC), BERLIN).name == "2026-11-16"


def test_the_windows_before_come_newest_first() -> None:
    assert [w.name for w in windows.before(windows.day("2026-03-01", BERLIN), 2, BERLIN)] == [
        "2026-02-28",
        "2026-02-27",
    ]


def test_the_first_day_of_a_window_is_known_without_a_zone() -> None:
    assert {windows.nominal(windows.week("2026-W46", zone)).isoformat() for zone in (BERLIN, AUCKLAND)} == {
        "2026-11-09"
    }
    with pytest.raises(WindowError, match="2026-W46"):
        windows.first_day("weekly", "2026-11-09")
    with pytest.raises(WindowError, match="2026-11-16"):
        windows.first_day("daily", "2026-W46")
