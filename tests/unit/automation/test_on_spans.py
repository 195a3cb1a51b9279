"""Spans in which automation was on: those of the switch at each time, whatever the events."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.automation.as_of import off_since, on_spans, time_on
from monitor.core.records import EVERY_SOURCE, GATES_CLOSED, GATES_CONFIRMED, SwitchEvent
from tests.unit.automation.test_as_of import allowed_as_of

START = datetime(2026, 11, 2, tzinfo=UTC)
KEY = ("tickets", "billing")
KINDS = [("enabled", "off", "on"), ("disabled", "on", "off"), ("renewed", "on", "on"), ("not_renewed", "on", "on"),
         ("held", "on", "on"), ("counted", "off", "off"), ("would_disable", "on", "on")]  # fmt: skip


@st.composite
def histories(draw: st.DrawFn, label: str | None) -> list[SwitchEvent]:
    events, state = [], "never_set"
    at = START
    for number in range(draw(st.integers(0, 6))):
        at += timedelta(hours=draw(st.integers(0, 40)))
        fitting = [kind for kind in KINDS if kind[1] == kind[2] == state or (kind[2] != state and kind[1] != kind[2])]
        kind, _, after = draw(st.sampled_from(fitting))
        lease = draw(st.none() | st.integers(-5, 90))
        until = None if lease is None else at + timedelta(hours=lease)
        verdict = draw(st.sampled_from([None, "v1"])) if kind in ("enabled", "held") else None
        hold = at + timedelta(hours=draw(st.integers(-5, 90))) if kind in ("enabled", "held") else None
        actor = draw(st.sampled_from(["ann", "weekly run"]))
        events.append(
            SwitchEvent(f"k{number}", "tickets", label, at, kind, state, after, actor, "why", lease_until=until,
                        until=hold, verdict=verdict)
        )  # fmt: skip
        state = after
    return events


@st.composite
def closures(draw: st.DrawFn) -> list[SwitchEvent]:
    """When the gates of the whole history were closed and confirmed."""
    events, at = [], START
    for number in range(draw(st.integers(0, 4))):
        at += timedelta(hours=draw(st.integers(0, 40)))
        kind = draw(st.sampled_from([GATES_CLOSED, GATES_CONFIRMED]))
        events.append(SwitchEvent(f"h{number}", EVERY_SOURCE, None, at, kind, "", "", "ann", "why"))
    return events


@given(
    own=histories("billing"), whole=histories(None), closed=closures(), since=st.integers(0, 60),
    length=st.integers(1, 90),
)  # fmt: skip
def test_the_switch_was_on_within_the_spans_and_at_no_other_time(
    own: list[SwitchEvent], whole: list[SwitchEvent], closed: list[SwitchEvent], since: int, length: int
):
    start = START + timedelta(hours=since)
    end = start + timedelta(hours=length)
    spans = on_spans(own, whole, closed, start, end)
    events = {KEY: own, ("tickets", None): whole, (EVERY_SOURCE, None): closed}
    seen = [start + timedelta(minutes=30 + 60 * hour) for hour in range(length)]  # all events are at full hours
    on = [allowed_as_of(events, KEY, at).allowed for at in seen]
    assert [any(low <= at < high for low, high in spans) for at in seen] == on
    assert time_on(events, KEY, start, end) == pytest.approx(sum(on) / length)
    assert all(a < b for a, b in spans)
    ever = on_spans(own, whole, closed, START, end)
    assert off_since(events, KEY, end) == (ever[-1][1] if ever and ever[-1][1] < end else None)


def test_a_source_that_was_left_on_against_a_verdict_is_closed_when_its_hold_ends_whatever_a_run_noted_before():
    ends = START + timedelta(hours=24)
    on = SwitchEvent("k0", "tickets", "billing", START, "enabled", "off", "on", "ann", "why",
                     lease_until=START + timedelta(days=9))  # fmt: skip
    against = replace(on, label=None, lease_until=ends, until=ends, verdict="v1")
    noted = replace(against, key="k1", at=START + timedelta(hours=5), kind="not_renewed", from_state="on",
                    actor="weekly run", verdict=None)  # fmt: skip
    assert on_spans([on], [against, noted], [], START, START + timedelta(days=2)) == [(START, ends)]
