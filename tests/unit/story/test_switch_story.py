"""What a message says of the switch: since when, by whom, until when and why, and never something else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.core.records import SwitchState
from monitor.story.switch import switch_story

NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)


def state(**given: Any) -> SwitchState:
    return SwitchState("tickets", **({"label": "billing", "changed_at": NOW - 3 * HOUR} | given))


OFF = state(state="off", actor="weekly run", reason="in breach in 2026-W46: automated-overconfidence")
ON = state(state="on", actor="weekly run", lease_until=NOW + 30 * HOUR)
LEFT_ON = state(
    state="on", by_operator=True, actor="ana", reason="a bad import", verdict="v", lease_until=NOW + 20 * HOUR,
    hold_until=NOW + 20 * HOUR,
)  # fmt: skip
ENABLED = replace(LEFT_ON, verdict=None, lease_until=NOW + 200 * HOUR)
WHOLE_OFF = state(label=None, state="off", by_operator=True, actor="ben", reason="new model")


@pytest.mark.parametrize(
    ("given", "more", "words", "button"),
    [
        (OFF, {}, "Automation is off since Mon 2026-11-16 06:30 UTC (weekly run)", "off"),
        (OFF, {"off_since": NOW - 20 * HOUR}, "Automation is off since Sun 2026-11-15 13:30 UTC", "off"),
        (replace(OFF, by_operator=True, actor="ana", reason="look"), {},
         "Automation is off since Mon 2026-11-16 06:30 UTC: turned off by ana: look", "off"),
        (replace(OFF, actor="ana", reason="look"), {},  # its time is over: from then on a run may end it
         "Automation is off since Mon 2026-11-16 06:30 UTC: turned off by ana: look", "off"),
        (SwitchState("tickets", "billing"), {}, "Automation is off: it was never turned on", None),
        (replace(OFF, by_operator=True), {},
         "Automation is off: it was never turned on, and was found in breach", "off"),
        (replace(OFF, by_operator=True, not_evaluated="no_rows"), {},
         "Automation is off: it was never turned on", "off"),
        (ON, {}, "Automation is on, until Tue 2026-11-17 15:30 UTC unless an evaluation renews it", "on"),
        (replace(ON, blocked=((0.7, 0.8),)), {}, "Automation is on, but not for scores 0.7 to 0.8, until "
         "Tue 2026-11-17 15:30 UTC unless an evaluation renews it", "on"),
        (replace(ON, lease_until=NOW), {}, "Automation is off since Mon 2026-11-16 09:30 UTC: its lease ended, no "
         "evaluation renewed it", "off"),
        (LEFT_ON, {}, "Automation is left on: enabled by ana until Tue 2026-11-17 05:30 UTC: a bad import", "on"),
        (LEFT_ON, {"against": True}, "Automation is left on against this finding: enabled by ana until "
         "Tue 2026-11-17 05:30 UTC: a bad import", "on"),
        (replace(LEFT_ON, lease_until=NOW - HOUR), {}, "Automation is off since Mon 2026-11-16 08:30 UTC: the enable "
         "by ana has ended", "off"),
        (ENABLED, {}, "Automation is on, until Tue 2026-11-24 17:30 UTC unless an evaluation renews it: enabled by "
         "ana: a bad import", "on"),
        (ON, {"whole": WHOLE_OFF}, "Automation is off for all of tickets since Mon 2026-11-16 06:30 UTC: turned off by "
         "ben: new model", None),
        (ON, {"whole": replace(LEFT_ON, label=None, lease_until=NOW - HOUR)},
         "Automation is off for all of tickets since Mon 2026-11-16 08:30 UTC: the enable by ana has ended", None),
        (ON, {"dry_run": True}, "Automation is on, until Tue 2026-11-17 15:30 UTC unless an evaluation renews it "
         "(dry run: runs change no switch)", "on"),
    ],
)  # fmt: skip
def test_a_switch_in_one_line(given: SwitchState, more: dict[str, Any], words: str, button: str | None):
    found = switch_story(given, NOW, **({"whole": None} | more))
    assert (found.words, found.button) == (words, button)
    assert found.allowed == words.startswith(("Automation is on", "Automation is left on"))


@pytest.mark.parametrize("whole", [WHOLE_OFF, replace(LEFT_ON, label=None, lease_until=NOW - HOUR)])
def test_where_the_source_is_off_the_command_opens_the_source_and_nothing_else(whole: SwitchState):
    assert switch_story(ON, NOW, whole=whole).command == "calmon automation enable --source tickets --reason TEXT"
    assert switch_story(whole, NOW, whole=None).command == "calmon automation enable --source tickets --reason TEXT"
    of_label = "calmon automation enable --source tickets --label billing --reason TEXT"
    assert switch_story(OFF, NOW, whole=None).command == of_label


def test_the_end_of_an_enable_is_known_with_its_name():
    ended = switch_story(replace(LEFT_ON, lease_until=NOW - HOUR), NOW, whole=None)
    assert ended.held_until is None
    assert switch_story(LEFT_ON, NOW, whole=None).held_until == NOW + 20 * HOUR


def test_a_source_is_off_since_it_was_turned_off_and_not_since_one_of_its_labels_was():
    turned = datetime(2026, 2, 23, 6, tzinfo=UTC)
    off = SwitchState("tickets", None, "off", actor="weekly run", changed_at=turned)
    label = SwitchState("tickets", "billing", "on", lease_until=turned - timedelta(days=30))
    found = switch_story(label, turned + timedelta(hours=1), whole=off, off_since=turned - timedelta(days=30))
    assert found.words == "Automation is off for all of tickets since Mon 2026-02-23 06:00 UTC (weekly run)"
