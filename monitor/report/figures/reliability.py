"""The data of a reliability diagram: the mean score and the hit rate of each bin, with its size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import BinCounts, Counts, bin_counts
from monitor.core.records import Where
from monitor.inference.maximum import clopper_pearson


@dataclass(frozen=True, slots=True)
class ReliabilityPoint:
    """One bin: scores in (``lower``, ``upper``], their mean, the hit rate with its interval."""

    lower: float
    upper: float
    score: float
    rate: float
    low: float
    high: float
    n: int
    n_eff: float


@dataclass(frozen=True, slots=True)
class Reliability:
    """The filled bins of a window, and of its baseline on the same edges (empty without one)."""

    points: tuple[ReliabilityPoint, ...]
    baseline: tuple[ReliabilityPoint, ...] = ()

    @property
    def rows(self) -> int:
        """How many rows of the window are in the diagram."""
        return sum(point.n for point in self.points)


def fewer(edges: Sequence[int], most: int) -> tuple[int, ...]:
    """Edges of at most ``most`` bins: neighbours are merged, and the last edge stays.

    >>> fewer((10, 20, 30, 40, 50), 3), fewer((10, 20), 3)
    ((10, 30, 50), (10, 20))
    """
    step = -(-len(edges) // most)
    return tuple(reversed(tuple(reversed(edges))[::step]))


def reliability_data(bins: BinCounts, baseline: BinCounts | None = None, *, confidence: float = 0.95) -> Reliability:
    """The reliability diagram of ``bins``, beside the ``baseline`` on the same edges.

    Empty bins are left out. The interval of a bin's hit rate is Clopper & Pearson's (1934) at
    ``confidence``, on its effective rows. Raises ValueError if the edges differ.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> bins = bin_counts(counts_from_rows([0.9] * 10, [1] * 8 + [0] * 2), (5000, 10000))
    >>> [(round(p.score, 4), p.rate, round(p.low, 4), round(p.high, 4), p.n) for p in reliability_data(bins).points]
    [(0.9, 0.8, 0.4439, 0.9748, 10)]
    """
    if baseline is not None and not np.array_equal(bins.upper, baseline.upper):
        raise ValueError("the window and its baseline have other bin edges; bin both on the same")
    then = () if baseline is None else _points(baseline, confidence)
    return Reliability(_points(bins, confidence), then)


def reliability_beside(
    counts: Counts,
    other: Counts | None,
    baseline: Baseline | None,
    evaluation: EvaluationConfig,
    *,
    where: Where = "all",
    most: int | None = None,
) -> Reliability:
    """The diagram of these rows of one population beside ``other`` ones, on the edges of the baseline, else their own.

    ``most``: of at most so many bins.
    """
    edges = (edges_of(counts, evaluation) if baseline is None else baseline.edges)[where]
    edges = edges if most is None else fewer(edges, most)
    then = None if other is None else bin_counts(other.where(where), edges)
    return reliability_data(bin_counts(counts.where(where), edges), then, confidence=evaluation.confidence)


def _points(bins: BinCounts, confidence: float) -> tuple[ReliabilityPoint, ...]:
    filled = np.flatnonzero(bins.n > 0)
    score, rate, rows = bins.score[filled], bins.rate[filled], bins.n_eff[filled]
    low, high = clopper_pearson(rate * rows, rows - rate * rows, (1.0 - confidence) / 2.0)
    columns = (filled, score, rate, low, high, bins.n[filled], rows)
    parts = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(ReliabilityPoint(*bins.range_of(m), s, r, least, most, n, w) for m, s, r, least, most, n, w in parts)
