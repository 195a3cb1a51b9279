"""Ways to sample rows from a population: independently, in clusters, with weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.populations import Bools, Floats, Ints, Population, endless
from monitor.core.counts import CELLS, Counts, counts_from_rows
from monitor.inference.dependence import ClusterSums, design_effect

COPIES = 5


@dataclass(frozen=True, slots=True)
class Sampling:
    """Samples independent rows."""

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` rows."""
        return population.draw(rng, n)


PLAIN = Sampling()


@dataclass(frozen=True, slots=True)
class Clustered(Sampling):
    """Samples a ``share`` of the rows in clusters of five copies; ``known``: the relation has a `cluster` column.

    The design effect is computed from the same sums as in the warehouse.
    """

    share: float
    known: bool

    def rows(self, population: Population, rng: np.random.Generator, n: int) -> tuple[Floats, Bools, Ints]:
        """(scores, outcomes, cluster) of ``n`` rows, each of shape (n,)."""
        clusters = round(self.share * n / COPIES)
        cells, outcomes = population.rows(rng, n - clusters * (COPIES - 1))
        key = np.repeat(np.arange(len(cells)), np.where(np.arange(len(cells)) < clusters, COPIES, 1))
        return cells[key] / CELLS, outcomes[key], key

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` rows: the same rows whether the clusters are known or not."""
        score, outcome, key = self.rows(population, rng, n)
        effect = design_effect(sums_of_rows(score, outcome, key)) if self.known else 1.0
        return counts_from_rows(score, outcome, automate_at=population.automate_at, design_effect=effect)


@dataclass(frozen=True, slots=True)
class Weighted(Sampling):
    """Samples rows with log-normal weights, independent of the scores; ``spread`` is the standard deviation of logs."""

    spread: float

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` rows."""
        cells, outcomes = population.rows(rng, n)
        weight = rng.lognormal(0.0, self.spread, n)
        return counts_from_rows(cells / CELLS, outcomes, weight=weight, automate_at=population.automate_at)


@dataclass(frozen=True, slots=True)
class Thinned(Sampling):
    """Samples all rows scored from .5 on and one in ``keep`` of the others, with a weight of ``keep``."""

    keep: int

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of ``n`` rows that were kept."""
        points = endless(population)
        easy = points.cell < CELLS // 2
        chance = np.where(easy, 1.0 / self.keep, 1.0)
        picked = np.searchsorted(np.cumsum(chance) / chance.sum(), rng.random(n), side="right")
        score, outcome = points.cell[picked] / CELLS, rng.random(n) < points.worth[picked]
        weight = np.where(easy[picked], float(self.keep), 1.0)
        return counts_from_rows(score, outcome, weight=weight, automate_at=population.automate_at)


def sums_of_rows(
    score: npt.ArrayLike,
    outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
) -> ClusterSums:
    """The sums for a design effect from plain rows. The warehouse computes the same in SQL.

    ``score``, ``outcome`` and ``weight`` (1 by default) have shape (n,); ``cluster`` has n keys (or n rows
    of keys, which must then be equal in all columns). A row without a cluster needs a key of its own.
    """
    s, y = np.asarray(score, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    w = np.ones_like(s) if weight is None else np.asarray(weight, dtype=np.float64)
    r = w * (y - s)
    key = _codes(np.asarray(cluster))
    a, c = (np.bincount(key, weights=values).astype(np.float64) for values in (r, w))
    products = {"aa": (a, a), "aw": (a, c), "cc": (c, c), "rr": (r, r), "rw": (r, w), "ww": (w, w)}
    squares = {name: float(np.dot(left, right)) for name, (left, right) in products.items()}
    return ClusterSums(r=float(r.sum()), w=float(w.sum()), **squares)


def _codes(keys: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
    if len(keys) == 0:
        return np.zeros(0, dtype=np.intp)
    _, codes = np.unique(keys, axis=0, return_inverse=True)
    return np.asarray(codes, dtype=np.intp).reshape(-1)
