"""When a change began: a step or a slope, with the windows that the data allow."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.diagnoses import Since
from monitor.evaluation.shift.onset import Level, _misfits, onset


def levels(*values: float, variance: float = 1e-4) -> list[Level]:
    return [Level(f"W{place}", value, variance) for place, value in enumerate(values)]


def least_squares(values: np.ndarray, weights: np.ndarray, shape: np.ndarray) -> float:
    """The misfit of a level and a change of this shape, by another way than the code's."""
    root = np.sqrt(weights)
    design = np.stack([root, root * shape], axis=1)
    fitted, *_ = np.linalg.lstsq(design, root * values, rcond=None)
    return ((root * values - design @ fitted) ** 2).sum()


def test_the_misfit_of_each_first_and_complete_window_is_that_of_least_squares():
    rng = np.random.default_rng(4)
    values, weights = rng.normal(size=7), rng.uniform(0.5, 4.0, 7)
    found = _misfits(values, weights)
    for first in range(1, 7):
        for complete in range(1, 7):
            if complete < first:
                assert found[first - 1, complete - 1] == np.inf
                continue
            shape = [min(max((at - first + 1) / (complete - first + 1), 0.0), 1.0) for at in range(7)]
            expected = least_squares(values, weights, np.array(shape))
            assert found[first - 1, complete - 1] == pytest.approx(expected, abs=1e-9)


def test_a_clear_slope_is_said_to_have_grown_from_its_first_window_on():
    base = Level("baseline", 0.0, 1e-6)
    slow = onset(base, levels(0.0, 0.01, 0.0, 0.04, 0.09, 0.14, 0.18, 0.23, 0.28, 0.32))
    assert (slow.window, slow.gradual) == ("W3", True)
    assert slow.low <= "W3" <= slow.high
    half = onset(base, levels(0.0, 0.01, 0.0, 0.1, 0.2, 0.2, 0.21, 0.2))  # at once, in the middle of a window
    assert not half.gradual


@pytest.mark.parametrize("growth", [1, 3, 6, 12])
def test_the_stated_span_holds_the_first_window_of_a_change_at_once_and_of_a_slow_one(growth: int):
    rng, held, gradual = np.random.default_rng(growth), 0, 0
    for _ in range(300):
        first, size = int(rng.integers(0, 12)), rng.uniform(4.0, 12.0)
        shares = np.clip((np.arange(first + growth + 2) - first + 1) / growth, 0.0, 1.0)
        series = [
            Level(f"{at:02}", value, 1.0) for at, value in enumerate(size * shares + rng.normal(size=len(shares)))
        ]
        found = onset(Level("baseline", rng.normal(0.0, 0.3), 0.09), series)
        held += found.low <= f"{first:02}" <= found.high
        gradual += found.gradual
    assert held >= 0.95 * 300
    assert growth > 1 or gradual <= 0.02 * 300


def test_the_onset_is_the_window_of_the_step_with_those_that_fit_as_well():
    base = Level("baseline", 0.0, 1e-6)
    clear = onset(base, levels(0.0, 0.01, -0.01, 0.1, 0.11, 0.1))
    assert clear == Since("W3", "W3", "W3")
    slow = onset(base, levels(0.0, 0.02, 0.04, 0.06, 0.08, 0.1))
    assert slow.low < slow.high
    assert (slow.window, slow.gradual) == ("W1", True)
    assert onset(None, levels(0.1)) is None
    assert onset(base, []) is None
    assert onset(None, levels(0.0, 0.0, 0.2, 0.2)) == Since("W2", "W2", "W2")
