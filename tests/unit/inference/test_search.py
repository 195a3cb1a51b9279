"""The smallest distance that is seen, against a fine grid, and how often it has to look."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from monitor.inference.search import PRECISION
from tests.fakes.one_table import smallest


@pytest.mark.parametrize("step", [0.0, 1e-4, 1e-3])
def test_the_answer_reaches_the_target_and_little_less_does_not(step: float) -> None:
    rng = np.random.default_rng(1)
    looks = []
    for _ in range(200):
        middle, sd, target = rng.uniform(0.01, 0.6), rng.uniform(0.005, 0.1), rng.uniform(0.3, 0.99)
        asked: list[float] = []

        def chance(distance: float, middle: float = middle, sd: float = sd, asked: list[float] = asked) -> float:
            asked.append(distance)
            at = np.floor(distance / step + 1e-9) * step if step else distance
            return float(ndtr((at - middle) / sd))

        found = smallest(chance, target, 1.0, guess=middle, sd=sd)
        looks.append(len(asked))
        assert found is not None
        assert chance(found) >= target
        less = found - 1.001 * PRECISION
        assert less < 0 or chance(less) < target
    assert np.mean(looks) < (8 if step < 1e-3 else 12)
    assert max(looks) < 20


def test_a_bad_guess_costs_time_only() -> None:
    for guess, sd in ((0.0, 1e-4), (1.0, 1e-4), (0.9, 0.5), (7.0, 3.0)):
        found = smallest(lambda x: float(ndtr((x - 0.4) / 0.02)), 0.8, 1.0, guess, sd)
        assert found == pytest.approx(0.4 + 0.02 * 0.841621, abs=PRECISION)


def test_the_ends() -> None:
    assert smallest(lambda x: 0.9, 0.8, 1.0, 0.5, 0.1) == 0.0
    assert smallest(lambda x: 0.7, 0.8, 1.0, 0.5, 0.1) is None
    assert smallest(lambda x: 0.9, 0.8, -0.1, 0.5, 0.1) is None
    assert smallest(lambda x: float(x >= 0.25), 0.8, 1.0, 0.1, 0.1) == pytest.approx(0.25, abs=PRECISION)
