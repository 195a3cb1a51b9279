"""Spans in which automation was on: the same time as `time_on` finds, whatever the events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.automation.as_of import on_spans, time_on
from monitor.core.records import SwitchEvent

START = datetime(2026, 11, 2, tzinfo=UTC)
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
        verdict = draw(st.sampled_from([None, "v1"])) if kind == "enabled" else None
        events.append(
            SwitchEvent(f"k{number}", "tickets", label, at, kind, state, after, "ann", "why", lease_until=until,
                        verdict=verdict)
        )  # fmt: skip
        state = after
    return events


@given(own=histories("billing"), whole=histories(None), since=st.integers(0, 60), length=st.integers(1, 90))
def test_the_spans_are_as_long_as_the_time_on(
    own: list[SwitchEvent], whole: list[SwitchEvent], since: int, length: int
) -> None:
    start = START + timedelta(hours=since)
    end = start + timedelta(hours=length)
    spans = on_spans(own, whole, start, end)
    known = time_on({("tickets", "billing"): own, ("tickets", None): whole}, ("tickets", "billing"), start, end)
    total = sum((b - a for a, b in spans), timedelta())
    assert total / (end - start) == pytest.approx(known.share)
    assert all(a < b for a, b in spans)
