"""A handful of clusters whose rows share one outcome: the truth is held although no bin's own noise is known.

A cluster has one outcome. Its rows have different scores, drawn from the scores of that outcome. So each row by itself
comes from the population, but all bins of a label are right or wrong together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np
import pytest

from benchmarks.populations import POPULATIONS, Bools, Curve, Floats, Ints, Population, endless, true_ece
from benchmarks.sampling import Sampling, sums_of_rows
from monitor.core.counts import CELLS, BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.dependence import design_effect
from monitor.inference.gaps import analytic_limits, stack
from monitor.inference.intervals import ece_intervals

Weighing = Literal["equal", "by row", "by cluster"]
"""Whether weights are equal, or 1 or 4 by chance for each row or for each cluster (one in ten weighs 4)."""
SEED = 20260104
BLIND = Population("blind", curve=Curve(1e6))
"""The hit rate is a half at every score."""
FAR = Population("shifted by -1.5", curve=Curve(offset=-1.5))


@dataclass(frozen=True, slots=True)
class OneOutcome(Sampling):
    """Clusters of ``rows`` rows with one outcome each; the relation has a `cluster` column."""

    rows: int
    weighing: Weighing = "equal"

    def drawn(self, population: Population, rng: np.random.Generator, n: int) -> tuple[Floats, Bools, Ints]:
        """(scores, outcomes, cluster) of the rows of n / ``rows`` clusters, each of shape (n,)."""
        key = np.repeat(np.arange(n // self.rows), self.rows)
        points = endless(population)
        outcome = (rng.random(n // self.rows) < points.worth.mean())[key]
        true, false = (np.cumsum(part) / part.sum() for part in (points.worth, 1 - points.worth))
        chance = rng.random(len(key))
        picked = np.where(outcome, np.searchsorted(true, chance), np.searchsorted(false, chance))
        return points.cell[np.minimum(picked, len(points.cell) - 1)] / CELLS, outcome, key

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of these rows, with the design effect that the warehouse would compute."""
        score, outcome, key = self.drawn(population, rng, n)
        weight = self._weights(rng, key)
        effect = design_effect(sums_of_rows(score, outcome, key, weight))
        return counts_from_rows(score, outcome, weight=weight, automate_at=population.automate_at, design_effect=effect)

    def _weights(self, rng: np.random.Generator, key: Ints) -> Floats:
        if self.weighing == "equal":
            return np.ones(len(key))
        chance = rng.random(len(key))
        return np.where((chance if self.weighing == "by row" else chance[key]) < 0.1, 4.0, 1.0)


@dataclass(frozen=True, slots=True)
class Held:
    """Coverage of intervals: with the noise of single bins only (``alone``), and as computed now."""

    alone: float
    found: float


def samples(
    population: Population, clusters: int, rows: int, repetitions: int, weighing: Weighing = "equal"
) -> tuple[list[BinCounts], Floats]:
    """Bin tables of ``repetitions`` samples, and the true ECE of the population in the bins of each."""
    tables = []
    for repetition in range(repetitions):
        rng = np.random.default_rng((SEED, crc32(population.name.encode()), clusters, rows, repetition))
        counts = OneOutcome(rows, weighing).draw(population, rng, clusters * rows)
        tables.append(bin_counts(counts, equal_frequency_edges(counts, 15)))
    return tables, np.array([true_ece(population, table.upper) for table in tables])


def held(population: Population, clusters: int, rows: int, repetitions: int, weighing: Weighing = "equal") -> Held:
    """Coverage of the analytic form on ``repetitions`` samples."""
    tables, truth = samples(population, clusters, rows, repetitions, weighing)
    low, _, high = analytic_limits(stack(tables), 0.95)
    found = np.array([(each.low, each.high) for each in ece_intervals(tables, [], form="analytic")], dtype=np.float64)
    alone, now = (
        float(((bottom <= truth + 1e-9) & (truth <= top + 1e-9)).mean()) for bottom, top in ((low, high), found.T)
    )
    return Held(alone, now)


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
