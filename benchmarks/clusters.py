"""Few clusters of many rows: coverage of the ECE's interval with and without the noise that bins share.

A cluster has one outcome. Its rows have different scores, drawn from the scores of that outcome. So each row by itself
comes from the population, but all bins of a label are right or wrong together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np

from benchmarks.populations import Bools, Curve, Floats, Ints, Population, endless, true_ece
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
    """Coverage and mean width of intervals: with the noise of single bins only (``alone``), and as computed now."""

    alone: float
    found: float
    alone_width: float
    width: float


def samples(
    population: Population,
    clusters: int,
    rows: int,
    repetitions: int,
    seed: int = SEED,
    bins: int = 15,
    weighing: Weighing = "equal",
) -> tuple[list[BinCounts], Floats]:
    """Bin tables of ``repetitions`` samples, and the true ECE of the population in the bins of each."""
    tables = []
    for repetition in range(repetitions):
        rng = np.random.default_rng((seed, crc32(population.name.encode()), clusters, rows, repetition))
        counts = OneOutcome(rows, weighing).draw(population, rng, clusters * rows)
        tables.append(bin_counts(counts, equal_frequency_edges(counts, bins)))
    return tables, np.array([true_ece(population, table.upper) for table in tables])


def held(population: Population, clusters: int, rows: int, repetitions: int, weighing: Weighing = "equal") -> Held:
    """Coverage of the analytic form on ``repetitions`` samples."""
    tables, truth = samples(population, clusters, rows, repetitions, weighing=weighing)
    low, _, high = analytic_limits(stack(tables), 0.95)
    found = np.array([(each.low, each.high) for each in ece_intervals(tables, [], form="analytic")], dtype=np.float64)
    alone, now = (
        float(((bottom <= truth + 1e-9) & (truth <= top + 1e-9)).mean()) for bottom, top in ((low, high), found.T)
    )
    return Held(alone, now, float((high - low).mean()), float((found[:, 1] - found[:, 0]).mean()))
