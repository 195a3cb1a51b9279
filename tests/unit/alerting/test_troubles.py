"""The life of the monitor's own incident: one for all health issues. Pure."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.health.message import automation_now
from monitor.alerting.health.troubles import decide, is_said_already, needing
from monitor.core.records import Incident, Severity, SwitchState
from monitor.incidents.life import IncidentDecision, acknowledge, event_of, silence

R = WatchReason
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def issue(reason: WatchReason, severity: Severity = "critical", source: str = "") -> HealthIssue:
    return HealthIssue(reason, severity, "text", "do", source)


def after(known: Incident | None, now: datetime, *issues: HealthIssue, ends: bool = True) -> IncidentDecision | None:
    return decide(issues, [] if known is None else [known], now, ends=ends)


def incident(known: Incident | None, now: datetime, *issues: HealthIssue) -> Incident:
    """The incident after a look."""
    return after(known, now, *issues).incident


def test_all_that_is_wrong_is_one_incident_of_the_most_severe():
    found = issue(R.SCORES_MOVED, "warning", "mail"), issue(R.RUN_MISSING), issue(R.DATA_SMALL, "info")
    made = after(None, NOON, *found)
    assert (made.kind, made.calls) == ("open", True)
    opened = incident(None, NOON, *found)
    assert (opened.severity, opened.reasons) == ("critical", ("run_missing", "scores_moved"))
    assert [each.reason for each in needing(found)] == [R.RUN_MISSING, R.SCORES_MOVED]


def test_what_needs_nobody_opens_nothing():
    assert after(None, NOON, issue(R.DATA_SMALL, "info")) is None
    assert after(None, NOON) is None


def test_the_same_again_changes_nothing_and_a_lesser_addition_calls_nobody():
    opened = incident(None, NOON, issue(R.RUN_MISSING))
    same = after(opened, NOON + HOUR, issue(R.RUN_MISSING))
    assert (same.incident, same.kind, same.changes) == (opened, "nothing", False)
    more = after(opened, NOON + HOUR, issue(R.RUN_MISSING), issue(R.SCORES_MOVED, "warning"))
    assert (more.kind, more.calls, more.incident and more.incident.version) == ("continue", False, 2)


@pytest.mark.parametrize("worse", [R.RUN_MISSING, R.DELIVERY_STUCK])
def test_what_was_acknowledged_or_silenced_calls_again_when_something_critical_is_new(worse: WatchReason):
    opened = incident(None, NOON, issue(R.SCORES_MOVED, "warning"))
    for held in (acknowledge(opened, "ana", NOON), silence(opened, "ana", NOON + DAY, NOON)):
        found = issue(R.SCORES_MOVED, "warning"), issue(worse)
        now_open = incident(held.incident, NOON + HOUR, *found)
        assert after(held.incident, NOON + HOUR, *found).calls
        assert (now_open.state, now_open.acknowledged_by, now_open.silenced_until) == ("open", None, None)
        again = after(held.incident, NOON + HOUR, found[0])
        assert (again.incident, again.calls) == (held.incident, False)


def test_an_acknowledgement_of_something_critical_does_not_hide_another_critical_reason():
    held = acknowledge(incident(None, NOON, issue(R.DELIVERY_STUCK)), "ana", NOON).incident
    made = after(held, NOON + HOUR, issue(R.DELIVERY_STUCK), issue(R.RUN_MISSING))
    assert (made.incident and made.incident.state, made.calls) == ("open", True)


def test_it_ends_at_once_and_comes_back_within_a_day():
    opened = incident(None, NOON, issue(R.RUN_MISSING))
    over = incident(opened, NOON + HOUR)
    assert (after(opened, NOON + HOUR).kind, over.state, over.resolved_at) == ("resolve", "resolved", NOON + HOUR)
    back = after(over, NOON + 24 * HOUR, issue(R.RUN_MISSING))
    again = incident(over, NOON + 24 * HOUR, issue(R.RUN_MISSING))
    assert (back.kind, back.calls, again.id, again.reopened) == ("reopen", True, opened.id, 1)
    new = after(over, NOON + 2 * DAY, issue(R.RUN_MISSING))
    assert (new.kind, new.incident and new.incident.id == opened.id) == ("open", False)


def test_one_that_keeps_coming_back_ends_after_six_quiet_hours():
    flapping = replace(incident(None, NOON, issue(R.RUN_MISSING)), reopened=2)
    held = incident(flapping, NOON + HOUR)
    assert (after(flapping, NOON + HOUR).kind, held.state, held.quiet_since) == ("continue", "open", NOON + HOUR)
    assert after(held, NOON + 6 * HOUR).kind == "nothing"
    assert after(held, NOON + 7 * HOUR).kind == "resolve"
    assert incident(held, NOON + 2 * HOUR, issue(R.RUN_MISSING)).quiet_since is None


def test_the_end_of_a_lease_is_said_on_its_last_day_or_where_nobody_was_called_today_for_its_cause():
    later, last_day = (issue(WatchReason.LEASE_ENDING, severity, "tickets") for severity in ("warning", "critical"))
    unread, mails = (issue(WatchReason.SOURCE_NOT_READ, source=source) for source in ("tickets", "mails"))
    assert is_said_already(later, (unread, later), NOON, NOON + 23 * HOUR)
    assert not is_said_already(last_day, (unread, later), NOON, NOON + 23 * HOUR)
    assert not is_said_already(later, (unread, later), NOON, NOON + 25 * HOUR)
    assert not is_said_already(later, (mails, later), NOON, NOON)
    assert is_said_already(later, (issue(WatchReason.RUN_MISSING), later), NOON, NOON)


def test_every_stored_change_has_an_event_of_its_own():
    opened = after(None, NOON, issue(R.RUN_MISSING))
    event = event_of(opened, NOON)
    assert (event.kind, event.reason, event.actor) == ("opened", "run_missing", "watchdog")
    assert event_of(after(opened.incident, NOON + HOUR, issue(R.RUN_MISSING)), NOON) is None


def test_what_automation_does_is_said_of_labels_whose_source_is_on():
    on = SwitchState("tickets", "billing", "on", lease_until=NOON + DAY)
    off = SwitchState("tickets", None, "off")
    assert automation_now([on], NOON).startswith("Automation is on for 1 label;")
    assert automation_now([on, off], NOON).startswith("No label acts alone now")
