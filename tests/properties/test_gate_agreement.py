"""However a board came about, a gate's prepared answers are those of the one decision function."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.automation.gate.cache import SnapshotCache, hold, renew
from monitor.automation.gate.snapshot import SwitchSnapshot, decide, from_json, to_json
from monitor.automation.state import GateReason, effective
from monitor.core.records import SwitchState

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
SOURCES, LABELS = ("tickets", "mail"), ("billing", "spam", "a.b")
shares = st.one_of(st.sampled_from([0.0, 0.5, 0.8, 0.80004, 0.80005, 0.9, 1.0]), st.floats(0, 1))
microseconds = st.one_of(st.sampled_from([-1, 0, 1, 999, 1000, 1001]), st.integers(-60_000_000, 60_000_000))
moments = st.builds(lambda us: NOW + timedelta(microseconds=us), microseconds)
ranges = st.lists(st.tuples(shares, shares).map(lambda pair: (min(pair), max(pair))), max_size=3).map(tuple)
scores = st.one_of(shares, st.none(), st.floats(), st.integers(-1, 2), st.booleans(), st.just("0.9"))
elapsed = st.one_of(st.floats(0, 60), microseconds.map(lambda us: abs(us) / 1e6))


@st.composite
def boards(draw: st.DrawFn) -> SwitchSnapshot:
    keys = draw(st.lists(st.tuples(st.sampled_from(SOURCES), st.sampled_from([None, *LABELS])), unique=True))
    states = [
        SwitchState(
            source, label, draw(st.sampled_from(["on", "on", "off", "never_set"])), draw(ranges),
            draw(st.none() | moments), verdict=draw(st.sampled_from([None, "v1"])), version=1,
        )
        for source, label in keys
    ]  # fmt: skip
    thresholds = draw(st.dictionaries(st.tuples(st.sampled_from(SOURCES), st.sampled_from([None, *LABELS])), shares))
    return SwitchSnapshot(NOW, {(s.source, s.label): s for s in states}, thresholds)


@given(boards(), st.sampled_from(SOURCES), st.sampled_from([*LABELS, "unknown"]), scores, elapsed)
@settings(max_examples=400)
def test_the_quick_answer_is_the_decision_also_of_a_board_that_went_over_the_wire(
    board: SwitchSnapshot, source: str, label: str, score: Any, passed: float
):
    held, at = hold(board, began=500.0, ttl_s=30.0), 500.0 + passed
    found = held.answer(source, label, score, at)
    assert found == decide(board, source, label, score, held.time(at))
    assert found == decide(from_json(to_json(board)), source, label, score, held.time(at))
    if found:
        assert_everything_is_for_it(board, source, label, score, passed)
        assert found.until <= (board.switches[source, label].lease_until or NOW)
    else:
        assert found.reason is not GateReason.ON


def assert_everything_is_for_it(board: SwitchSnapshot, source: str, label: str, score: Any, passed: float) -> None:
    """What a yes asks for, once more, in other words than the code's."""
    state, whole = board.switches[source, label], board.switches.get((source, None))
    assert state.state == "on"
    assert state.lease_until > NOW + timedelta(seconds=passed, microseconds=-1)
    assert type(score) in (int, float)
    assert not math.isnan(score)
    assert board.automate_at.get((source, label), board.automate_at.get((source, None), 2.0)) <= score <= 1.0
    forbidden = state.blocked + (whole.blocked if whole else ())
    assert not any(low <= round(score, 10) <= high for low, high in forbidden if high - low > 0.001)
    assert whole is None or whole.state != "off"
    assert effective(state, NOW, whole=whole).allowed


@given(boards(), st.lists(st.tuples(st.floats(0, 30), st.none() | microseconds), min_size=1, max_size=8))
@settings(max_examples=100)
def test_time_never_goes_back_whatever_the_clock_of_the_boards_does(
    board: SwitchSnapshot, readings: list[tuple[float, int | None]]
):
    """Readings after some seconds each: a board whose clock is off by so much, or None, nothing new."""
    at, held = 500.0, hold(board, began=500.0, ttl_s=30.0)
    for pause, off in readings:
        before, at = held.time(at), at + pause
        held = _next(held, board, at, off)
        assert held.time(at) >= before + timedelta(seconds=pause) - timedelta(microseconds=2)
        assert held.is_fresh(at)
        assert not held.is_fresh(at + 30.0)


def _next(held: SnapshotCache, board: SwitchSnapshot, at: float, off: int | None) -> SnapshotCache:
    if off is None:
        return renew(held, began=at, ttl_s=30.0)
    true = NOW + timedelta(seconds=at - 500.0, microseconds=off)
    return hold(SwitchSnapshot(true, board.switches, board.automate_at), began=at, ttl_s=30.0, previous=held)
