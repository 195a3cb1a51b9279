"""The switch of a past time is the one that held then, and the time that it was on is cut with the window."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.automation.as_of import by_switch, identity_as_of, off_since, switch_as_of, time_on, times_on
from monitor.automation.state import Allowed, effective
from monitor.automation.switch import Evidence, after_run, operator_change
from monitor.config.model import AutomationConfig, ReEnableAfter
from monitor.core.records import (
    EVERY_SOURCE,
    GATES_CLOSED,
    GATES_CONFIRMED,
    SwitchEvent,
    SwitchState,
    Verdict,
    Window,
)
from tests.fakes import judged

START = datetime(2026, 11, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
KEY = ("tickets", "billing")


def allowed_as_of(
    events: dict[tuple[str, str | None], list[SwitchEvent]], key: tuple[str, str], at: datetime
) -> Allowed:
    """Whether automation could act at that time, from the states at that one time."""
    own, whole = (
        switch_as_of(events.get((key[0], label), ()), at, source=key[0], label=label) for label in (key[1], None)
    )
    return effective(own, at, whole=whole, identity=identity_as_of(events, at))


def event(at: datetime, kind: str, to_state: str, lease: datetime | None = None, **more: object) -> SwitchEvent:
    label = more.pop("label", "billing")
    return SwitchEvent(
        f"{at}{kind}{label}", "tickets", label, at, kind, "off", to_state, "ana", "why", lease_until=lease, **more  # type: ignore[arg-type]
    )  # fmt: skip


ON = event(START, "enabled", "on", START + 9 * DAY)
OFF = event(START + 3 * DAY, "disabled", "off")


def on_for(*events: SwitchEvent, start: datetime = START, end: datetime = START + 7 * DAY) -> float:
    return time_on(by_switch(events), KEY, start, end)


def test_before_its_first_event_a_switch_was_never_set():
    state = switch_as_of([ON], START - HOUR, source="tickets", label="billing")
    assert (state.state, state.changed_at) == ("never_set", None)


def test_a_renewal_keeps_who_changed_it_and_why():
    renewed = replace(event(START + DAY, "renewed", "on", START + 20 * DAY), actor="weekly run", reason="renewed")
    state = switch_as_of([ON, renewed], START + 2 * DAY, source="tickets", label="billing")
    assert (state.actor, state.reason, state.lease_until) == ("ana", "why", START + 20 * DAY)


def test_the_time_on_is_cut_with_the_window():
    assert on_for(ON) == 1.0
    assert on_for(ON, OFF) == pytest.approx(3 / 7)
    assert on_for(ON, OFF, start=START + 3 * DAY) == 0.0
    assert on_for() == 0.0
    assert on_for(ON, end=START) == 0.0


def test_the_time_on_is_told_apart_by_the_scores_that_were_blocked():
    blocks = event(START + 2 * DAY, "blocked", "on", START + 9 * DAY, blocked=((0.8, 0.9),))
    more = event(START + 4 * DAY, "blocked", "on", START + 9 * DAY, blocked=((0.7, 0.8),), label=None)
    found = times_on(by_switch([ON, blocks, more, replace(OFF, at=START + 6 * DAY)]), KEY, START, START + 7 * DAY)
    assert found == pytest.approx({(): 2 / 7, ((0.8, 0.9),): 2 / 7, ((0.7, 0.9),): 2 / 7})


def test_the_source_s_own_switch_forbids_its_labels():
    whole = event(START + DAY, "disabled", "off", label=None)
    assert on_for(ON, whole) == pytest.approx(1 / 7)
    assert not allowed_as_of(by_switch([ON, whole]), KEY, START + 2 * DAY).allowed


def gates(at: datetime, kind: str) -> SwitchEvent:
    return SwitchEvent(f"{at}{kind}", EVERY_SOURCE, None, at, kind, "", "", "ana", "restored")


CLOSED, CONFIRMED = gates(START + DAY, GATES_CLOSED), gates(START + 3 * DAY, GATES_CONFIRMED)


def test_nothing_was_on_from_a_restore_until_somebody_confirmed_it():
    assert on_for(ON, CLOSED, CONFIRMED) == pytest.approx(5 / 7)
    assert on_for(ON, CLOSED) == pytest.approx(1 / 7)
    then = [allowed_as_of(by_switch([ON, CLOSED, CONFIRMED]), KEY, START + days * DAY) for days in (0, 1, 2, 3)]
    assert [each.reason for each in then] == ["on", "history_restored", "history_restored", "on"]


def test_a_history_that_is_closed_once_more_is_closed_since_the_first_time():
    again = gates(START + 2 * DAY, GATES_CLOSED)
    assert on_for(ON, CLOSED, again, CONFIRMED) == pytest.approx(5 / 7)
    # what a restore takes over from the history that it replaces is stored behind the backup's own events
    assert on_for(ON, again, CONFIRMED, CLOSED) == pytest.approx(5 / 7)


def test_a_switch_that_was_turned_off_under_an_unconfirmed_history_was_off_since_the_restore():
    events = by_switch([ON, CLOSED, replace(OFF, at=START + 2 * DAY), CONFIRMED])
    assert off_since(events, KEY, START + 4 * DAY) == CLOSED.at


def test_a_clock_that_is_behind_does_not_say_that_a_label_is_off_since_now():
    events = by_switch([ON, replace(OFF, at=START + 2 * DAY)])
    assert off_since(events, KEY, START + 2 * DAY - timedelta(minutes=5)) is None
    assert off_since(events, KEY, START + 2 * DAY + timedelta(minutes=5)) == START + 2 * DAY


# Against the switch itself: whatever it decides, its events alone give the same answer at any later time.
STEPS = st.lists(
    st.tuples(st.sampled_from(["ok", "breach", "block", "unconfirmed", "not_evaluated", "on", "off", "pass"]),
              st.integers(1, 200)), max_size=14,
)  # fmt: skip


def verdict(kind: str, window: Window) -> Verdict:
    actions = {"breach": ("disable_automation",), "block": ("block_scores",)}.get(kind, ())
    outcome, blocked = "breach" if kind == "block" else kind, {"blocked": [[0.8, 0.9]]}
    return judged.verdict(outcome, window, id=f"{kind}{window.end}", actions=actions, detail=blocked)


def step(state: SwitchState, kind: str, now: datetime, automation: AutomationConfig, key: str):  # type: ignore[no-untyped-def]
    if kind in ("on", "off"):
        return operator_change(
            state, enable=kind == "on", by="ana", reason="why", now=now, automation=automation, key=key
        )
    window = Window(now - 7 * DAY, now, "2026-W45", "weekly")
    evidence = Evidence(now, "weekly", (verdict(kind, window),), key)
    return after_run(state, evidence, automation, critical=False, now=now)


@settings(max_examples=150, deadline=None)
@given(STEPS, STEPS, st.booleans(), st.booleans(), st.booleans())
def test_the_events_alone_give_what_the_switch_says_at_any_time(
    mine: list[tuple[str, int]], whole: list[tuple[str, int]], back: bool, dry: bool, disable: bool
):
    automation = AutomationConfig(
        when_not_evaluated="disable" if disable else "keep", re_enable=ReEnableAfter(after=2) if back else "manual",
        dry_run=dry, initial="on_first_ok",
    )  # fmt: skip
    states = {"billing": SwitchState("tickets", "billing"), None: SwitchState("tickets", None)}
    events = []
    known = [(START, states["billing"], states[None])]
    plan = sorted(
        (START + sum(hours for _, hours in steps[: k + 1]) * HOUR, label is None, label, kind)
        for label, steps in (("billing", mine), (None, whole)) for k, (kind, _) in enumerate(steps)
    )  # fmt: skip
    for k, (at, _, label, kind) in enumerate(plan):
        if kind != "pass":
            decision = step(states[label], kind, at, automation, str(k))
            states[label] = decision.after
            events += [] if decision.event is None else [decision.event]
        known.append((at, states["billing"], states[None]))
    stored = by_switch(events)
    ends = [known[-1][0] + timedelta(days=d) for d in (0, 1, 4, 9, 12)]
    for at in [each[0] for each in known] + ends:
        last = [each for each in known if each[0] <= at][-1]
        assert allowed_as_of(stored, KEY, at) == effective(last[1], at, whole=last[2])
