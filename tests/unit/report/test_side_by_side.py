"""Two sides beside each other: limits by MOVER, and no more false differences than were asked for."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.records import Interval
from monitor.inference.change import mover
from monitor.report.side_by_side import Measured, SideKey, differences, mean_of


def side(values: np.ndarray, width: float) -> dict[SideKey, Measured]:
    return {
        (f"label {k}", "roc_auc", "all"): Measured(Interval(v, v - width, v + width, v), 1000)
        for k, v in enumerate(values.tolist())
    }


def test_limits_are_those_of_mover_and_a_fall_of_the_auc_is_worse():
    a, b = side(np.array([0.9]), 0.01), side(np.array([0.8]), 0.02)
    (found,) = differences(a, b, confidence=0.95, rate=0.01)
    key = ("label 0", "roc_auc", "all")
    assert (found.low, found.high) == pytest.approx(mover(a[key].interval, b[key].interval))
    assert found.significant
    assert found.worse is True


def test_where_nothing_differs_hardly_ever_anything_is_significant():
    rng, width = np.random.default_rng(20260101), 0.02
    spread, wrong = width / 1.959964, 0
    for _ in range(300):
        a, b = (side(0.9 + rng.normal(0, spread, 20), width) for _ in range(2))
        wrong += any(each.significant for each in differences(a, b, confidence=0.95, rate=0.05))
    assert wrong / 300 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 300)
    assert wrong > 0


def test_what_one_side_has_not_is_left_out_and_a_number_without_limits_is_never_significant():
    a, b = side(np.array([0.9, 0.8]), 0.01), side(np.array([0.7]), 0.01)
    assert [each.label for each in differences(a, b, confidence=0.95, rate=0.01)] == ["label 0"]
    bare = {key: Measured(Interval(0.7, None, None, 0.7), 10) for key in b}
    (found,) = differences(a, bare, confidence=0.95, rate=0.01)
    assert (found.significant, found.p_adjusted, round(found.change, 6)) == (False, None, -0.2)


def test_weeks_are_put_together_by_rows_and_the_interval_shrinks_as_it_does_for_independent_ones():
    weeks = [Measured(Interval(v, v - 0.1, v + 0.1, v), 100) for v in (0.4, 0.5, 0.6, 0.5)]
    found = mean_of([*weeks, Measured(Interval(None, None, None, None), 7)])
    assert (found.interval.value, found.interval.low, found.rows) == pytest.approx((0.5, 0.45, 400))
    assert mean_of([]) is None
