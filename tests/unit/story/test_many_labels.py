"""The story of many labels in one incident, and the switch of a label whose lease was renewed too late."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.core.diagnoses import Cost, Diagnosis, DiagnosisState, LabelProblem, NextStep, Since
from monitor.core.records import SwitchState
from monitor.core.windows import week
from monitor.story.label import LabelStory, label_story, story_of_many
from monitor.story.switch import switch_story

NOW = datetime(2026, 1, 21, 6, 31, tzinfo=UTC)
WEEK = week("2026-W03", ZoneInfo("UTC"))
COST = Cost(188.0, 0.65, 0.94, 55.0, 40.0, 70.0, acted=False)
SINCE = Since("2026-W03", "2026-W03", "2026-W03")
BAD = Diagnosis("tickets", "queue-a", WEEK, DiagnosisState.UNSAFE, LabelProblem.OVERCONFIDENT, SINCE, cost=COST)


def story(label: str, *, on: bool) -> LabelStory:
    lease = NOW + timedelta(days=1)
    state = SwitchState(
        "tickets", label, state="on" if on else "off", lease_until=lease, changed_at=NOW, actor="weekly run"
    )
    return label_story(replace(BAD, label=label), as_of=NOW, switch=switch_story(state, NOW, whole=None))


def test_numbers_of_many_labels_name_the_label_that_they_are_of_and_automation_is_counted():
    told = story_of_many([story("queue-a", on=False), story("queue-b", on=True), story("queue-c", on=False)])
    assert told.facts.startswith("queue-b is 65% right"), "the one that still acts is the worst"
    assert told.cost == "queue-b: about 55 more would have been wrong than the scores claimed (40 to 70)"
    assert told.switch.words == "Automation is off for 2 of 3 labels"
    assert told.do_now == "turn automation off"


def test_a_lease_that_was_renewed_to_a_time_that_is_over_does_not_move_the_end_of_automation_later():
    """A late run renewed it, less long than usual, when it had ended six hours before."""
    ended, renewed = datetime(2026, 1, 21, tzinfo=UTC), NOW - timedelta(minutes=59)
    state = SwitchState("mails", "orders", state="on", lease_until=renewed, actor="weekly run", changed_at=ended)
    told = switch_story(state, NOW, whole=None, off_since=ended)
    assert told.words == "Automation is off since Wed 2026-01-21 00:00 UTC: its lease ended, no evaluation renewed it"


def test_a_label_that_is_fine_again_has_no_next_step():
    bad = replace(BAD, advice=NextStep("recalibrate", "platt", before=0.19, after=0.05))
    fine = Diagnosis("tickets", "queue-a", WEEK, DiagnosisState.FINE)
    assert label_story(bad, as_of=NOW, trouble=bad).next_step == "recalibrate by platt: ECE 0.190 to 0.050"
    assert label_story(fine, as_of=NOW, trouble=bad).next_step == ""
