"""The delay curve against Kaplan and Meier by statsmodels, and what a young window may expect."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from statsmodels.duration.survfunc import SurvfuncRight  # type: ignore[import-untyped]

from monitor.core.maturity import TruthDelays
from monitor.core.records import Subject, Window
from monitor.inference.delays import LEAST_WINDOWS, delay_curve, maturity_of

START, WEEK = datetime(2026, 1, 5, tzinfo=UTC), timedelta(days=7)
TICKETS = Subject("tickets", "billing")


def week(k: int) -> Window:
    return Window(START + k * WEEK, START + (k + 1) * WEEK, f"W{k}", "weekly")


def delays(window: Window, now: datetime, rng: np.random.Generator, items: int) -> tuple[TruthDelays, np.ndarray]:
    """Easy items in days, hard ones in weeks, 7% never; and the day of each truth (infinite: never)."""
    wait = rng.exponential(np.where(rng.random(items) < 0.4, 12.0, 1.5)) + rng.uniform(-7, 0, items)
    since_the_hour = wait - (now - window.end) / timedelta(days=1) % 1
    day = np.where(rng.random(items) < 0.93, np.maximum(np.ceil(since_the_hour), 0), np.inf)
    seen = day[day <= (now - window.end) / timedelta(days=1)]
    return TruthDelays(window, items, {int(d): int(n) for d, n in Counter(seen).items()}), day


def test_the_curve_is_that_of_kaplan_and_meier():
    rng, now = np.random.default_rng(5), week(12).end + timedelta(days=2, hours=5)
    times = []
    status = []
    past = []
    for k in range(12):
        found, day = delays(week(k), now, rng, 60)
        past.append(found)
        watched = int((now - week(k).end) / timedelta(days=1))
        times += list(np.minimum(day, watched + 0.5))
        status += list((day <= watched).astype(int))
    curve = delay_curve(past, now)
    oracle = SurvfuncRight(np.array(times), np.array(status))
    survives = [1.0, *oracle.surv_prob]
    wanted = [1.0 - survives[np.searchsorted(oracle.surv_times, d, side="right")] for d in range(curve.days)]
    assert curve.known_by() == pytest.approx(wanted, abs=1e-12)
    assert curve.days == int((now - week(LEAST_WINDOWS - 1).end) / timedelta(days=1)) + 1


def test_limits_hold_for_windows_that_differ():
    """Nominally 95%; 240 windows, of which 90% lie 3.5 standard errors below."""
    rng = np.random.default_rng(6)
    inside = 0
    for _ in range(240):
        now = week(16).end + timedelta(hours=6)
        past = [delays(week(k), now, rng, 150)[0] for k in range(16)]
        current, day = delays(week(16), now, rng, 150)
        found = maturity_of(TICKETS, current, delay_curve(past, now), now)
        assert not found.is_final
        inside += found.low <= np.isfinite(day).mean() <= found.high
    assert inside >= 0.9 * 240


def test_a_window_matures_and_is_final_when_no_truth_is_left_to_come():
    """All past weeks: half at once, 40% on the third day, a tenth never."""
    now = week(9).end
    past = [TruthDelays(week(k), 1000, {0: 500, 3: 400}) for k in range(9)]

    def at(day: float, known: dict[int, int]) -> float:
        moment = now + timedelta(days=day)
        found = maturity_of(TICKETS, TruthDelays(week(9), 1000, known), delay_curve(past, moment), moment)
        assert found.is_final == (day > 3)
        assert found.low <= 0.9 <= found.high
        assert found.high - found.low < 0.06
        return found.of_expected

    assert at(0.25, {0: 500}) == pytest.approx(0.5 / 0.9, abs=0.03)
    assert at(2.9, {0: 500}) == pytest.approx(0.5 / 0.9, abs=0.03)  # the third day is not over
    assert at(3.1, {0: 500, 3: 400}) > 0.99


@pytest.mark.parametrize("known", [0, 5, 10])
def test_without_past_windows_every_item_may_still_get_its_truth(known: int):
    now = week(3).end
    found = maturity_of(TICKETS, TruthDelays(week(3), 10, {0: known}), delay_curve([], now), now)
    assert (found.expected, found.low, found.high) == (None, None, None)
    assert found.of_expected == known / 10
    assert found.is_final == (known == 10)


def test_a_window_older_than_the_curve_is_final_whatever_it_holds():
    now = week(9).end + timedelta(days=1)
    past = [TruthDelays(week(k), 50, {0: 40}) for k in range(9)]
    old = maturity_of(TICKETS, TruthDelays(week(0), 50, {0: 10}), delay_curve(past, now), now)
    assert old.over
    assert old.is_final
    assert old.expected == old.share == 0.2


def test_a_curve_that_still_rises_says_nothing_of_the_end():
    now = week(12).end
    past = [TruthDelays(week(k), 100, dict.fromkeys(range(min(90, 7 * (12 - k))), 1)) for k in range(12)]
    curve = delay_curve(past, now)
    assert curve.days > 50
    assert not curve.has_ended
    found = maturity_of(TICKETS, TruthDelays(week(12), 100, {0: 95}), curve, now)
    assert found.expected is None
    assert found.of_expected == 0.95


def test_nothing_is_read_of_windows_that_are_not_over_or_empty():
    now = week(5).end
    past = [TruthDelays(week(k), 0 if k < 3 else 10, {0: 3}) for k in range(8)]
    assert len(delay_curve(past, now).parts) == 3
    assert delay_curve(past, now).days == 0


def test_an_empty_window_has_nothing_to_wait_for():
    now = week(5).end
    found = maturity_of(TICKETS, TruthDelays(week(5), 0, {}), delay_curve([], now), now)
    assert (found.share, found.of_expected) == (1.0, 1.0)
