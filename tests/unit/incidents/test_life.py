"""When an incident opens, goes on, ends and comes back, and what people do to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest

from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import Incident, IncidentReason
from monitor.core.windows import day, week
from monitor.incidents import life
from monitor.incidents.life import Finding, IncidentDecision, decide

UTC = ZoneInfo("UTC")
HOURS = timedelta(hours=7)
STATES = {
    "U": DiagnosisState.UNSAFE, "D": DiagnosisState.DEGRADED, "F": DiagnosisState.FINE,
    "C": DiagnosisState.CANNOT_TELL, "B": DiagnosisState.CANNOT_TELL,
}  # fmt: skip


def finding(letter: str, number: int, kind: str = "label") -> Finding:
    """Unsafe, Degraded, Fine, Cannot tell, or cannot tell though Beyond its limit, in that week."""
    severity = "critical" if letter == "U" else "warning"
    reason = {"U": "overconfident", "D": "less_accurate"}.get(letter, "")
    window = week(f"2026-W{number:02d}", UTC)
    return Finding(
        kind, "mail", "billing", window, STATES[letter], reason, severity, ("rule",), within_limits=letter != "B"
    )


def after(letters: str, incident: Incident | None = None, first: int = 10, kind: str = "label") -> IncidentDecision:
    """The last decision of a week a letter."""
    assert letters
    for at, letter in enumerate(letters):
        told = finding(letter, first + at, kind)
        decision = decide(told, incident, told.window.end + HOURS)
        incident = decision.incident
    return decision


def opened(letter: str = "D") -> Incident:
    return after(letter).incident


def seen(decision: IncidentDecision) -> tuple[str, str, bool]:
    return decision.kind, decision.reason.value, decision.calls


@pytest.mark.parametrize(
    ("letters", "expected"),
    [
        ("F", ("nothing", "no_trouble", False)),
        ("C", ("nothing", "no_trouble", False)),
        ("D", ("open", "opened", True)),
        ("DD", ("continue", "continues", False)),
        ("UD", ("continue", "other_problem", False)),
        ("DU", ("continue", "worse", True)),
        ("DF", ("resolve", "fine_again", False)),
        ("DFF", ("nothing", "no_trouble", False)),
        ("DC", ("continue", "cannot_tell", False)),
        ("DCC", ("continue", "continues", False)),
        ("DCCCC", ("resolve", "not_seen", False)),
        ("DCCBCCC", ("continue", "continues", False)),
        ("DCCBCCCC", ("resolve", "not_seen", False)),
        ("DFFFFD", ("reopen", "came_back", True)),
        ("DFFFFFD", ("open", "opened", True)),
        ("DFCCCD", ("reopen", "came_back", True)),
    ],
)
def test_what_a_week_does(letters: str, expected: tuple[str, str, bool]) -> None:
    assert seen(after(letters)) == expected


def test_a_window_counts_once_unless_it_says_something_else_and_an_older_one_never() -> None:
    incident = after("DD").incident
    now = finding("D", 11).window.end + HOURS
    assert seen(decide(finding("D", 11), incident, now)) == ("nothing", "already_counted", False)
    assert seen(decide(finding("F", 11), incident, now)) == ("resolve", "fine_again", False)
    assert seen(decide(finding("U", 11), incident, now)) == ("continue", "worse", True)
    assert seen(decide(finding("F", 10), incident, now)) == ("nothing", "older_window", False)
    silent = after("DC").incident
    assert seen(decide(finding("C", 11), silent, now)) == ("nothing", "already_counted", False)


def test_an_acknowledgement_lasts_until_the_end_or_until_it_is_more_severe() -> None:
    now = finding("D", 10).window.end + 2 * HOURS
    taken = life.acknowledge(opened(), "ana", now).incident
    for letters in ("D", "DC", "DCD"):
        found = after(letters, taken, 11).incident
        assert (found.state, found.acknowledged_by) == ("acknowledged", "ana")
    for letters in ("U", "FD"):
        found = after(letters, taken, 11).incident
        assert (found.state, found.acknowledged_by, found.acknowledged_at) == ("open", None, None)


def test_a_silence_holds_until_its_end_and_what_becomes_more_severe_calls_all_the_same() -> None:
    now = finding("D", 10).window.end + HOURS
    silent = life.silence(opened(), "ana", now + timedelta(weeks=2), now).incident
    assert not life.wake(silent, now + timedelta(days=13)).changes
    woken = life.wake(silent, now + timedelta(weeks=2))
    assert (woken.incident and woken.incident.state, woken.calls) == ("open", False)
    worse = after("U", silent, 11)
    assert (worse.calls, worse.incident and worse.incident.state) == (True, "open")
    same = after("D", silent, 11)
    assert (same.calls, same.incident and same.incident.silenced_by) == (False, "ana")


def test_what_a_person_ended_comes_back_with_new_rows_and_not_with_those_that_the_person_knew() -> None:
    now = finding("D", 10).window.end + 2 * HOURS
    ended = life.resolve(opened(), "ana", "recalibrated", now).incident
    assert seen(decide(finding("D", 10), ended, now)) == ("nothing", "already_counted", False)
    tuesday = replace(finding("D", 10), window=day("2026-03-09", UTC), evidence_until=finding("D", 10).window.end)
    assert tuesday.window.end > finding("D", 10).window.end
    assert seen(decide(tuesday, ended, tuesday.window.end)) == ("nothing", "already_counted", False)
    new = replace(tuesday, evidence_until=tuesday.window.end)
    assert seen(decide(new, ended, new.window.end)) == ("reopen", "came_back", True)
    assert seen(after("D", ended, 11)) == ("reopen", "came_back", True)


@pytest.mark.parametrize(
    ("decision", "reason"),
    [
        (lambda one, now: life.acknowledge(one, " ", now), "name_missing"),
        (lambda one, now: life.silence(one, "ana", now, now), "end_not_ahead"),
        (lambda one, now: life.resolve(one, "ana", " ", now), "reason_missing"),
        (lambda one, now: life.resolve(one, "", "why", now), "name_missing"),
        (lambda one, now: life.resolve(replace(one, kind="monitor"), "ana", "why", now), "ends_by_itself"),
        (lambda one, now: life.acknowledge(replace(one, state="resolved"), "ana", now), "already_resolved"),
        (lambda one, _: life.note(one, "ana", ""), "reason_missing"),
    ],
)
def test_what_people_may_not_do_is_refused_with_its_reason(decision, reason: str) -> None:  # type: ignore[no-untyped-def]
    made = decision(opened(), finding("D", 10).window.end)
    assert (made.kind, made.reason, made.changes) == ("refuse", reason, False)


def test_people_who_do_the_same_twice_change_nothing_the_second_time() -> None:
    now = finding("D", 10).window.end
    taken = life.acknowledge(opened(), "ana", now).incident
    assert life.acknowledge(taken, "ben", now).reason is IncidentReason.ALREADY_ACKNOWLEDGED
    silent = life.silence(taken, "ana", now + 2 * HOURS, now).incident
    assert life.silence(silent, "ben", now + HOURS, now).reason is IncidentReason.ALREADY_SILENCED
    ended = life.resolve(silent, "ana", "why", now).incident
    assert life.resolve(ended, "ben", "why", now).reason is IncidentReason.ALREADY_RESOLVED


def test_reminders_are_of_open_incidents_that_somebody_can_act_on() -> None:
    now, daily = finding("D", 10).window.end, timedelta(days=1)
    assert life.repeat_is_due(opened(), now - daily, daily, now)
    assert not life.repeat_is_due(opened(), now - HOURS, daily, now)
    assert not life.repeat_is_due(opened(), now - daily, None, now)
    for other in ({"state": "acknowledged"}, {"state": "silenced"}, {"state": "resolved"}, {"kind": "vanished"}):
        assert not life.repeat_is_due(replace(opened(), **other), now - daily, daily, now)  # type: ignore[arg-type]


def test_a_call_waits_while_it_is_still_news_to_whoever_acknowledged_before() -> None:
    now = finding("D", 10).window.end
    taken = life.acknowledge(opened(), "ana", now).incident
    assert life.still_waits(opened(), now)
    assert life.still_waits(taken, now + HOURS)
    assert not life.still_waits(taken, now - HOURS)
    assert not life.still_waits(replace(opened(), state="resolved"), now)


def test_an_incident_about_which_no_rule_says_anything_ends_by_calmon_and_says_why() -> None:
    ended = life.retire(opened(), "no rule", finding("D", 10).window.end)
    assert (ended.kind, ended.reason, ended.why) == ("resolve", IncidentReason.NOT_WATCHED, "no rule")
    assert (ended.incident.resolved_by, ended.incident.version) == ("calmon", 2)
