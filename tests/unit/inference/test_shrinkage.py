"""Empirical Bayes: what differs by chance alone is drawn together, and what does not keeps its order."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.inference.between_weeks import shrunk


def test_estimates_that_differ_by_chance_alone_become_their_mean() -> None:
    means, deviations = shrunk([0.1, 0.11, 0.09], [0.01, 0.02, 0.03])
    assert means == pytest.approx(np.full(3, means[0]))
    assert not deviations.any()


def test_it_is_closer_to_the_truth_than_the_estimates_are() -> None:
    rng = np.random.default_rng(2)
    truth = rng.normal(0.05, 0.05, 300)
    variances = rng.uniform(0.001, 0.02, 300)
    seen = truth + rng.normal(0, np.sqrt(variances))
    means, deviations = shrunk(seen, variances)
    assert ((means - truth) ** 2).mean() < 0.5 * ((seen - truth) ** 2).mean()
    assert (np.abs(means - truth) < 2 * deviations).mean() > 0.9


def test_a_noisy_estimate_is_drawn_further() -> None:
    means, _ = shrunk([0.0, 0.0, 0.0, 0.4, 0.4], [0.001, 0.001, 0.001, 0.001, 0.05])
    assert means[3] > means[4] > means[0]


@pytest.mark.parametrize(("values", "variances"), [([], []), ([0.1], [0.0])])
def test_nothing_to_shrink_is_an_error(values: list[float], variances: list[float]) -> None:
    with pytest.raises(ValueError, match="at least one estimate"):
        shrunk(values, variances)
