"""What is wrong with the monitor itself: pure findings from what the history holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from monitor import windows
from monitor.records import Delivery, SwitchState
from monitor.watch import Finding, Observed, ReadingSeen, RunSeen, WatchReason, findings

BERLIN = ZoneInfo("Europe/Berlin")
MONDAY = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)  # two and a half hours after the weekly run
WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
DAY = windows.day("2026-11-15", ZoneInfo("UTC"))


def run(window: windows.Window = WEEK, *, state: str = "done", **changes: object) -> RunSeen:
    found = RunSeen(window.schedule, window.start, window.name, state, MONDAY - timedelta(hours=2), MONDAY)
    return replace(found, **changes)  # type: ignore[arg-type]


def reading(rows: int, week: int = 46, *, state: str = "ok", error: str | None = None) -> ReadingSeen:
    start = windows.week(f"2026-W{week}", ZoneInfo("UTC")).start
    return ReadingSeen("weekly", start, "tickets", state, rows, error)


def seen(**changes: object) -> Observed:
    calm = Observed(
        ZoneInfo("UTC"), ("weekly", "daily"), ("tickets",), runs=[run(), run(DAY)],
        since=datetime(2026, 9, 1, tzinfo=UTC),
    )  # fmt: skip
    return replace(calm, **changes)  # type: ignore[arg-type]


def reasons(found: list[Finding]) -> list[str]:
    return [finding.reason.value for finding in found]


def test_a_monitor_at_work_gives_no_finding():
    usual = [reading(1000, week) for week in (46, 45, 44, 43)]
    assert findings(seen(readings=usual), MONDAY) == []


def test_a_run_is_missing_only_after_its_time():
    gone = seen(runs=[run(windows.week("2026-W45", ZoneInfo("UTC"))), run(DAY)])
    assert reasons(findings(gone, datetime(2026, 11, 16, 11, 59, tzinfo=UTC))) == []
    late = findings(gone, datetime(2026, 11, 16, 12, 1, tzinfo=UTC))
    assert reasons(late) == ["run_missing"]
    assert "2026-W46" in late[0].text
    assert late[0].severity == "critical"


def test_a_history_that_began_after_the_window_misses_nothing():
    new = seen(runs=[run(DAY)], since=datetime(2026, 11, 16, 8, 0, tzinfo=UTC), scheduled=("weekly",))
    assert findings(new, datetime(2026, 11, 18, tzinfo=UTC)) == []
    assert reasons(findings(new, datetime(2026, 11, 24, tzinfo=UTC))) == ["run_missing"]


def test_a_window_is_late_by_the_zone_of_the_file():
    at = datetime(2026, 11, 16, 11, 30, tzinfo=UTC)  # twelve hours after the week's end in Berlin, not yet in UTC
    gone = seen(scheduled=("weekly",), runs=[run(windows.week("2026-W45", zone)) for zone in (ZoneInfo("UTC"), BERLIN)])
    assert findings(gone, at) == []
    assert reasons(findings(replace(gone, zone=BERLIN), at)) == ["run_missing"]


def test_a_failed_run_is_told_again_only_an_hour_later():
    failed = seen(runs=[run(state="failed", error="no such column"), run(DAY)])
    first, later = findings(failed, MONDAY), findings(failed, MONDAY + timedelta(minutes=61))
    assert [(f.reason, f.told) for f in (*first, *later)] == [("run_failed", True), ("run_failed", False)]
    assert "no such column" in later[0].text
    assert first[0].key == later[0].key


def test_a_run_that_never_ends_is_found():
    begun = run(state="running", finished_at=None)
    assert reasons(findings(seen(runs=[begun, run(DAY)]), MONDAY)) == []
    assert reasons(findings(seen(runs=[begun, run(DAY)]), MONDAY + timedelta(minutes=61))) == ["run_hung"]


def test_a_failure_of_an_old_window_is_seen_where_nothing_newer_was_run():
    old = run(windows.week("2026-W30", ZoneInfo("UTC")), state="failed", error="x")
    new = seen(runs=[old], scheduled=("weekly",), since=MONDAY)
    assert reasons(findings(new, MONDAY)) == ["run_failed"]


def test_data_that_run_dry_or_shrink_are_found():
    before = [reading(1000, 45), reading(900, 44), reading(1100, 43)]
    assert reasons(findings(seen(readings=[reading(0), *before]), MONDAY)) == ["data_stale"]
    assert reasons(findings(seen(readings=[reading(199), *before]), MONDAY)) == ["data_small"]
    assert reasons(findings(seen(readings=[reading(200), *before]), MONDAY)) == []
    assert "usual are 1,000" in findings(seen(readings=[reading(199), *before]), MONDAY)[0].text


def test_nobody_knows_what_is_usual_from_two_windows():
    assert findings(seen(readings=[reading(1), reading(1000, 45), reading(900, 44)]), MONDAY) == []


def test_a_source_that_always_was_empty_is_not_stale():
    assert findings(seen(readings=[reading(0, week) for week in (46, 45, 44, 43)]), MONDAY) == []


def test_a_source_that_could_not_be_read_is_shown_but_not_told_again():
    broken = reading(0, state="relation_error", error="column score is text")
    found = findings(seen(readings=[broken]), MONDAY)
    assert [(f.reason, f.told) for f in found] == [("source_not_read", True)]
    assert "column score is text" in found[0].text


def message(state: str, hours: float, channel: str = "#a", error: str | None = "channel_not_found") -> Delivery:
    at = MONDAY - timedelta(hours=hours)
    return Delivery(f"{state}{hours}{channel}", "incidents", channel, {}, at, state, error=error)  # type: ignore[arg-type]


def test_messages_that_do_not_get_through_are_found_once_a_channel():
    waiting = [message("failed", 2), message("pending", 3), message("failed", 0.5), message("dead", 5, "#b")]
    found = findings(seen(deliveries=waiting), MONDAY)
    assert [(f.reason, f.detail["channel"]) for f in found] == [("delivery_refused", "#b"), ("delivery_stuck", "#a")]
    assert found[1].text.startswith("2 messages to #a")


def test_a_message_refused_long_ago_is_history():
    assert findings(seen(deliveries=[message("dead", 24 * 8)]), MONDAY) == []


@pytest.mark.parametrize(
    ("hours", "expected"),
    [(49, []), (47, ["lease_ending"]), (25, ["lease_ending"]), (23, ["lease_ending"]), (-1, ["lease_ended"])],
)
def test_a_lease_is_warned_of_two_days_and_one_day_before_it_ends(hours: int, expected: list[str]):
    on = [SwitchState("tickets", label, "on", lease_until=MONDAY + timedelta(hours=hours)) for label in ("a", "b")]
    found = findings(seen(switches=on), MONDAY)
    assert reasons(found) == expected
    if found:
        assert "a, b" in found[0].text


def test_each_lease_is_warned_of_twice_and_then_said_to_have_ended():
    on = [SwitchState("tickets", "a", "on", lease_until=MONDAY + timedelta(hours=60))]
    keys = [
        finding.key
        for hour in range(0, 72)
        for finding in findings(seen(switches=on, scheduled=()), MONDAY + timedelta(hours=hour))
    ]
    assert len(dict.fromkeys(keys)) == 3


def test_what_is_off_has_no_lease_to_warn_of():
    off = [SwitchState("tickets", "a", "off", lease_until=MONDAY + timedelta(hours=5)), SwitchState("tickets", "b")]
    assert findings(seen(switches=off), MONDAY) == []


def test_the_gravest_comes_first_and_many_names_are_cut():
    on = [SwitchState("tickets", f"l{n:02}", "on", lease_until=MONDAY + timedelta(hours=40)) for n in range(20)]
    found = findings(seen(switches=on, runs=[run(state="failed"), run(DAY)]), MONDAY)
    assert reasons(found) == ["run_failed", "lease_ending"]
    assert "and 8 more" in found[1].text


@pytest.mark.parametrize("reason", list(WatchReason))
def test_every_reason_has_a_runbook_page_and_stands_in_the_overview(reason: WatchReason):
    docs = Path(__file__).parents[2] / "docs"
    assert (docs / "runbook" / f"{reason.value}.md").is_file()
    assert f"runbook/{reason.value}.md" in (docs / "watching.md").read_text("utf-8")
