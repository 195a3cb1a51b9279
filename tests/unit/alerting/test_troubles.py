"""The life of the monitor's own incident: one for all health issues. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.health.message import automation_now
from monitor.alerting.health.troubles import TroubleChange, change_of, event_of, is_said_already
from monitor.core.records import Incident, Severity, SwitchState
from monitor.incidents.life import acknowledge, silence

R = WatchReason
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def issue(reason: WatchReason, severity: Severity = "critical", source: str = "") -> HealthIssue:
    return HealthIssue(reason, severity, f"{reason}:{source}", "text", "do", source)


def after(known: Incident | None, now: datetime, *findings: HealthIssue, ends: bool = True) -> TroubleChange | None:
    return change_of(findings, [] if known is None else [known], now, ends=ends)


def changed(known: Incident | None, now: datetime, *findings: HealthIssue) -> TroubleChange:
    made = after(known, now, *findings)
    assert made is not None
    return made


def test_all_that_is_wrong_is_one_incident_of_the_most_severe() -> None:
    made = changed(
        None, NOON, issue(R.SCORES_MOVED, "warning", "mail"), issue(R.RUN_MISSING), issue(R.DATA_SMALL, "info")
    )
    assert (made.event, made.calls, made.before) == ("opened", True, None)
    assert (made.after.severity, made.after.reasons) == ("critical", ("run_missing", "scores_moved"))
    assert [each.reason for each in made.findings] == [R.RUN_MISSING, R.SCORES_MOVED]


def test_what_needs_nobody_opens_nothing() -> None:
    assert after(None, NOON, issue(R.DATA_SMALL, "info")) is None
    assert after(None, NOON) is None


def test_the_same_again_changes_nothing_and_a_lesser_addition_calls_nobody() -> None:
    opened = changed(None, NOON, issue(R.RUN_MISSING)).after
    same = changed(opened, NOON + HOUR, issue(R.RUN_MISSING))
    assert (same.after, same.event) == (opened, "")
    more = changed(opened, NOON + HOUR, issue(R.RUN_MISSING), issue(R.SCORES_MOVED, "warning"))
    assert (more.event, more.calls, more.after.version) == ("continued", False, 2)


@pytest.mark.parametrize("worse", [R.RUN_MISSING, R.DELIVERY_STUCK])
def test_what_was_acknowledged_or_silenced_calls_again_when_something_critical_is_new(worse: WatchReason) -> None:
    opened = changed(None, NOON, issue(R.SCORES_MOVED, "warning")).after
    for held in (acknowledge(opened, "ana", NOON), silence(opened, "ana", NOON + DAY, NOON)):
        assert held.incident is not None
        made = changed(held.incident, NOON + HOUR, issue(R.SCORES_MOVED, "warning"), issue(worse))
        assert (made.after.state, made.calls, made.after.acknowledged_by, made.after.silenced_until) == (
            "open", True, None, None,
        )  # fmt: skip
        again = changed(held.incident, NOON + HOUR, issue(R.SCORES_MOVED, "warning"))
        assert (again.after.state, again.calls) == (held.incident.state, False)


def test_an_acknowledgement_of_something_critical_does_not_hide_another_critical_reason() -> None:
    held = acknowledge(changed(None, NOON, issue(R.DELIVERY_STUCK)).after, "ana", NOON).incident
    made = changed(held, NOON + HOUR, issue(R.DELIVERY_STUCK), issue(R.RUN_MISSING))
    assert (made.after.state, made.calls) == ("open", True)


def test_it_ends_at_once_and_comes_back_within_a_day() -> None:
    opened = changed(None, NOON, issue(R.RUN_MISSING)).after
    over = changed(opened, NOON + HOUR)
    assert (over.event, over.after.state, over.after.resolved_at) == ("resolved", "resolved", NOON + HOUR)
    back = changed(over.after, NOON + 24 * HOUR, issue(R.RUN_MISSING))
    assert (back.event, back.calls, back.after.id, back.after.reopened) == ("reopened", True, opened.id, 1)
    new = changed(over.after, NOON + 2 * DAY, issue(R.RUN_MISSING))
    assert (new.event, new.before, new.after.id == opened.id) == ("opened", None, False)


def test_one_that_keeps_coming_back_ends_after_six_quiet_hours() -> None:
    flapping = replace(changed(None, NOON, issue(R.RUN_MISSING)).after, reopened=2)
    held = changed(flapping, NOON + HOUR)
    assert (held.event, held.after.quiet_since) == ("held_back", NOON + HOUR)
    assert changed(held.after, NOON + 6 * HOUR).event == ""
    assert changed(held.after, NOON + 7 * HOUR).event == "resolved"
    seen = changed(held.after, NOON + 2 * HOUR, issue(R.RUN_MISSING))
    assert seen.after.quiet_since is None


def test_a_look_at_runs_alone_ends_nothing() -> None:
    opened = changed(None, NOON, issue(R.SOURCE_NOT_READ, source="mail")).after
    assert after(opened, NOON + HOUR, ends=False) is None


def test_the_end_of_a_lease_is_said_on_its_last_day_or_where_nobody_was_called_today_for_its_cause() -> None:
    later, last_day = (issue(WatchReason.LEASE_ENDING, severity, "tickets") for severity in ("warning", "critical"))
    unread, mails = (issue(WatchReason.SOURCE_NOT_READ, source=source) for source in ("tickets", "mails"))
    both = changed(None, NOON, unread, later)
    assert is_said_already(later, both, NOON + 23 * HOUR)
    assert not is_said_already(last_day, both, NOON + 23 * HOUR)
    assert not is_said_already(later, both, NOON + 25 * HOUR)
    assert not is_said_already(later, changed(None, NOON, mails, later), NOON)
    assert is_said_already(later, changed(None, NOON, issue(WatchReason.RUN_MISSING), later), NOON)


def test_every_stored_change_has_an_event_of_its_own() -> None:
    opened = changed(None, NOON, issue(R.RUN_MISSING))
    event = event_of(opened, NOON)
    assert event is not None
    assert (event.kind, event.reason, event.actor) == ("opened", "run_missing", "watchdog")
    assert event_of(changed(opened.after, NOON + HOUR, issue(R.RUN_MISSING)), NOON) is None


def test_what_automation_does_is_said_of_labels_whose_source_is_on() -> None:
    on = SwitchState("tickets", "billing", "on", lease_until=NOON + DAY)
    off = SwitchState("tickets", None, "off")
    assert automation_now([on], NOON).startswith("Automation is on for 1 label;")
    assert automation_now([on, off], NOON).startswith("No label acts alone now")
