"""The smallest distance that is seen, against the formula, and how often it has to look."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from monitor.inference.search import smallest

NEAR = 1.001e-4  # of a standard error


def found(chance: Callable[[float], float], target: float, sd: float) -> float | None:
    (answer,) = smallest(lambda x, _: np.array([chance(float(x[0]))]), target, np.array([sd])).tolist()
    return None if np.isnan(answer) else answer


@pytest.mark.parametrize("step", [0.0, 1e-3, 1e-2])
def test_the_answer_reaches_the_target_and_little_less_does_not(step: float):
    rng = np.random.default_rng(1)
    looks = []
    for _ in range(200):
        middle, sd, target = rng.uniform(0.01, 0.6), rng.uniform(0.005, 0.1), rng.uniform(0.3, 0.99)
        asked = []

        def chance(distance: float, middle: float = middle, sd: float = sd, asked: list[float] = asked) -> float:
            asked.append(distance)
            at = np.floor(distance / step + 1e-9) * step if step else distance
            return ndtr((at - middle) / sd)

        answer = found(chance, target, sd)
        looks.append(len(asked))
        assert ndtri(chance(answer)) >= ndtri(target) - NEAR
        less = answer - 2 * NEAR * sd
        assert less < 0 or ndtri(chance(less)) < ndtri(target) + NEAR
    assert np.mean(looks) < 25


def test_a_bad_stride_costs_time_only():
    for stride in (1e-4, 0.5, 3.0):
        answer = found(lambda x: ndtr((x - 0.4) / 0.02), 0.8, stride)
        assert answer == pytest.approx(0.4 + 0.02 * 0.841621, abs=NEAR * max(stride, 0.1))


def test_the_ends():
    assert found(lambda x: 0.9, 0.8, 0.1) == pytest.approx(0.0, abs=1e-4)
    assert found(lambda x: 0.7, 0.8, 0.1) is None
    assert found(lambda x: float(x >= 0.25), 0.8, 0.1) == pytest.approx(0.25, abs=1e-4)
