"""Is a number the same in every part of the rows? k-fold evaluation, on counts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts, bin_counts, equal_frequency_edges
from monitor.inference.intervals import ece_intervals, mce_interval
from monitor.inference.levels import interval
from monitor.metrics.calibration import BINS
from monitor.recalibration.gain import FOLDS, folds


@dataclass(frozen=True, slots=True)
class Stability:
    """A metric in each of k folds: ``values`` (k,), debiased where the metric is; None where a fold does not define it.

    ``mean`` and ``deviation`` (over k - 1) are of the values that are defined, None of fewer than two.
    """

    metric: str
    values: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """The mean of the folds."""
        known = self._known
        return float(np.mean(known)) if len(known) > 1 else None

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the folds."""
        known = self._known
        return float(np.std(known, ddof=1)) if len(known) > 1 else None

    @property
    def standard_error(self) -> float | None:
        """What the folds say of the error of a mean over all rows: the deviation over the root of their number."""
        return None if self.deviation is None else self.deviation / math.sqrt(len(self._known))

    @property
    def _known(self) -> list[float]:
        return [value for value in self.values if value is not None]


def stability(metric: str, counts: Counts, rng: np.random.Generator, *, k: int = FOLDS) -> Stability:
    """A registered metric of counts in each of ``k`` random folds of (almost) equally many rows.

    The ECE and the MCE look through the 15 bins of equal row numbers of all rows, the same in every fold. Folds are of
    rows, not of clusters. Raises KeyError for a metric that needs whole rows, ValueError for fewer than two folds.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9] * 500 + [0.2] * 500, [1] * 450 + [0] * 50 + [1] * 100 + [0] * 400)
    >>> found = stability("accuracy", counts, np.random.default_rng(1))
    >>> len(found.values), round(found.mean, 6), 0 < found.deviation < 0.06
    (5, 0.85, True)
    """
    if k < 2:
        raise ValueError(f"at least two folds are needed to compare, not {k}")
    edges = equal_frequency_edges(counts, BINS)
    parts = [fold.held for fold in folds(counts, k, rng, decided=True)]
    return Stability(metric, tuple(_value(metric, part, edges) for part in parts))


def _value(metric: str, counts: Counts, edges: tuple[int, ...]) -> float | None:
    if metric == "ece":
        return ece_intervals([bin_counts(counts, edges)], [], form="analytic")[0].value
    if metric == "mce":
        return mce_interval(bin_counts(counts, edges)).interval.value
    return interval(metric, counts, 0.95).value
