"""A handful of clusters whose rows share one outcome: the truth is held although no bin's own noise is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.clusters import BLIND, FAR, OneOutcome, Weighing, held, samples
from benchmarks.populations import POPULATIONS, Population
from monitor.inference.gaps import analytic_limits, stack
from monitor.inference.intervals import ece_intervals

REPETITIONS = 100
MISSED = 0.035  # what so few repetitions may lie below .93
NAMED = {population.name: population for population in (*POPULATIONS, FAR, BLIND)}


@pytest.mark.parametrize(("clusters", "rows"), [(10, 100), (15, 600), (60, 100)])
@pytest.mark.parametrize("name", ["calibrated", "temperature 1.5", "shifted by -0.5", "blind"])
def test_the_interval_holds_the_truth_of_few_clusters(name: str, clusters: int, rows: int) -> None:
    assert held(NAMED[name], clusters, rows, REPETITIONS).found >= 0.93 - MISSED


@pytest.mark.parametrize("weighing", ["by row", "by cluster"])
@pytest.mark.parametrize("name", ["temperature 1.5", "shifted by -0.5", "blind"])
def test_the_interval_holds_the_truth_of_few_clusters_with_unequal_weights(name: str, weighing: Weighing) -> None:
    assert held(NAMED[name], 30, 100, REPETITIONS, weighing).found >= 0.93 - MISSED


def test_the_noise_of_single_bins_alone_would_not() -> None:
    found = held(BLIND, 10, 100, REPETITIONS)
    assert found.alone < 0.5
    assert found.found > 0.9


def test_the_bootstrap_form_holds_it_as_well() -> None:
    tables, truth = samples(BLIND, 10, 100, 40)
    alone = analytic_limits(stack(tables), 0.95)[2]
    rngs = [np.random.default_rng(k) for k in range(len(tables))]
    high = np.array([found.high for found in ece_intervals(tables, rngs)], dtype=np.float64)
    assert (alone < truth).mean() > 0.5
    assert (high < truth).mean() <= 0.07


@pytest.mark.parametrize("population", [NAMED["temperature 1.5"], BLIND], ids=lambda each: each.name)
def test_the_rows_of_these_clusters_are_rows_of_the_population(population: Population) -> None:
    score, outcome, key = OneOutcome(5).drawn(population, np.random.default_rng(3), 100_000)
    assert all(len(set(outcome[key == one])) == 1 for one in range(20))
    likely = (score > 0.6) & (score < 0.7)
    assert outcome[likely].mean() == pytest.approx(population.curve.worth(score[likely]).mean(), abs=0.02)
