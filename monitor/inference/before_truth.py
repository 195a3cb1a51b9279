"""Expected accuracy, overconfidence and ECE of rows without a truth yet, from the calibration map of a baseline.

This is confidence-based performance estimation (Garg et al. 2022, "Leveraging unlabeled data to predict
out-of-distribution performance", section 3; Humblot-Renaux et al. and NannyML call it CBPE), with the baseline's map in
place of the scores themselves, and an interval that includes the map's own error:

* **Map.** The baseline's rows, separate by decision, are put in bins k of equally many rows, with the mean score c and
  the hit rate y. The chance of a row of score s in bin k is s + y - c, clipped to [0, 1]: only the *gap* is taken from
  the baseline, so that scores that moved within a bin move their chances. A bin without rows has no gap.
* **Error of the map.** The hit rate of bin k is Beta(n y + 1/2, n (1 - y) + 1/2) (Jeffreys 1946), with mean q_k and
  variance v_k; bins are independent. The mean over N rows, N_k in bin k, has the variance sum (N_k / N)^2 v_k from it.
* **Error of the truth to come.** Even with an exact map, the hit rate of N rows has the variance
  D sum N_k q_k (1 - q_k) / N^2, where D is the baseline's design effect.

* **Another share.** If other scores come, either other items came, of the same chances, or the label became more or
  less frequent, and each class has its scores (prior shift: every chance changes). Scores tell only whether the second
  can be (:func:`at_told_share`). Where it can, both are computed, and the limits hold both (:class:`Either`).
* **Scores that the baseline hardly has.** A gap may change by :data:`SLOPE` of the distance to the baseline's scores.

Their sum is the variance V of what will be measured once all truths are known, around what is expected now. A share
u of rows is then treated as the binomial share of u (1 - u) / V rows (exact limits and p-values). An ECE gets its
spread from draws of the gaps, and its value is debiased for the error of the map.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monitor.core.counts import BinCounts, Bools, Counts, Floats, Ints, bin_counts, equal_frequency_edges
from monitor.core.records import ScoreIs
from monitor.inference.bootstrap import Spread
from monitor.inference.change import Side
from monitor.inference.class_mix import LEAST, alike, moved_share
from monitor.inference.gaps import ROUNDING, GapTables, analytic_points, each_at, stack
from monitor.inference.sampling import Limits, Proportion

BINS = 30
ROWS_A_BIN = 100
"""The fewest independent rows of a bin of the map; a baseline with few rows has fewer bins."""
RESAMPLES = 400
"""Draws of the textbook ECE to come."""
NODES = ((0.0416323, 1 / 6), (0.5, 2 / 3), (0.9583677, 1 / 6))
"""Probabilities and weights at which the debiased ECE of these draws is computed: Gauss-Hermite with three nodes."""
OF_BINS = ("gap", "rate", "variance", "score", "rows", "shared")
Law = Proportion | Spread
SLOPE = 0.5
"""By how much a gap may change over a distance of scores: its standard deviation for each unit."""
FITS = 0.01
"""The p-value below which scores are no mixture of those of true items and of others."""


@dataclass(frozen=True, slots=True, eq=False)
class CalibrationMap:
    """How often each score came true in a baseline, separate by decision.

    ``upper`` are the upper edges of the bins, in cells, for rows that were not predicted (0) and for predicted rows
    (1). The other arrays have one entry a bin, first those of 0, then those of 1, shape (K,): the ``gap`` (chance minus
    score), the mean ``rate`` and the ``variance`` of the hit rate, the baseline's mean ``score`` and effective
    ``rows``, and the standard deviation of an error that all share, that of the share of true items. ``design_effect``
    is the baseline's.
    """

    upper: tuple[tuple[int, ...], tuple[int, ...]]
    gap: Floats
    rate: Floats
    variance: Floats
    score: Floats
    rows: Floats
    shared: Floats
    design_effect: float
    score_is: ScoreIs

    def bins_of(self, scores: Counts) -> Ints:
        """The bin of the map in which each group of scores is, shape (K,)."""
        first, second = (np.searchsorted(np.asarray(upper), scores.cell, side="left") for upper in self.upper)
        return np.where(scores.predicted, len(self.upper[0]) + second, first)


def calibration_map(baseline: Counts) -> CalibrationMap:
    """The calibration map of a baseline's rows."""
    sides = [_side(baseline.take(baseline.predicted == decided)) for decided in (False, True)]
    edges = tuple(upper for upper, _ in sides)
    arrays = [np.concatenate(parts) for parts in zip(*(numbers for _, numbers in sides), strict=True)]
    of_bins = dict(zip(OF_BINS, [*arrays, np.zeros_like(arrays[0])], strict=True))
    return CalibrationMap(
        upper=(edges[0], edges[1]), design_effect=baseline.design_effect, score_is=baseline.score_is, **of_bins
    )


def at_told_share(by: CalibrationMap, scores: Counts) -> CalibrationMap | None:
    """The map if the label became more or less frequent in rows of these ``scores`` (all of it); None if it did not.

    The share is told by the scores alone (the moment equation of Saerens' mixture), and counts as far as it is larger
    than its error. It did not where scores are no mixture of the baseline's true items and others, or where every row
    is a label that was given: the share of true items is then the accuracy.
    """
    then = np.array([by.rows * by.rate, by.rows * (1 - by.rate)])
    now = np.bincount(by.bins_of(scores), weights=scores.n, minlength=len(by.rows)) / by.design_effect
    totals = then.sum(axis=1)
    of_labels = by.score_is == "probability_of_label" and by.rows[: len(by.upper[0])].any()
    if not (of_labels and now.any() and totals.min() >= LEAST):
        return None
    moved, error = moved_share(now, then)
    if not abs(moved) > error:
        return None
    share, kept = totals[0] / totals.sum(), 1 - (error / moved) ** 2
    least = LEAST / totals.sum()
    new = float(np.clip(share + kept * moved, least, 1 - least))
    of_true, of_others = new / share, (1 - new) / (1 - share)
    if alike(np.array([now, then[0] * of_true + then[1] * of_others])) < FITS:
        return None
    weighed = by.rate * of_true + (1 - by.rate) * of_others
    slope = of_true * of_others / weighed**2
    rate = by.rate * of_true / weighed
    of_share = rate * (1 - rate) / (new * (1 - new)) * math.sqrt(kept) * error
    return replace(by, gap=by.gap + rate - by.rate, rate=rate, variance=by.variance * slope**2, shared=of_share)


@dataclass(frozen=True, slots=True)
class Either:
    """A metric by several laws, of which one holds, nobody knows which: midway, with limits that hold under each."""

    laws: tuple[Law, ...]

    @property
    def value(self) -> float:
        """The mean of all."""
        return sum(law.value for law in self.laws) / len(self.laws)

    def interval(self, confidence: float) -> Limits:
        """From the lowest lower limit to the highest upper one."""
        low, high = zip(*(law.interval(confidence) for law in self.laws), strict=True)
        return min(low), max(high)

    def p_value(self, threshold: float, side: Side) -> float:
        """The largest p-value."""
        return max(law.p_value(threshold, side) for law in self.laws)

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The largest distance; None where one law has none."""
        found = [law.detectable(threshold, side, rate) for law in self.laws]
        return None if None in found else max(each for each in found if each is not None)


def _side(rows: Counts) -> tuple[tuple[int, ...], tuple[Floats, ...]]:
    """Upper edges, and gap, mean and variance of the hit rate, mean score and rows of each bin, shape (K,)."""
    bins = int(np.clip(rows.effective_rows // ROWS_A_BIN, 1, BINS))
    edges = equal_frequency_edges(rows, bins)
    table = bin_counts(rows, edges)
    n, hits = table.n_eff, table.n_eff * np.clip(table.rate, 0.0, 1.0)
    gap = np.where(table.n > 0, table.rate - table.score, 0.0)
    a, b = hits + 0.5, n - hits + 0.5
    return edges, (gap, a / (a + b), a * b / ((a + b) ** 2 * (a + b + 1)), table.score, n)


@dataclass(frozen=True, slots=True, eq=False)
class Expectation:
    """The expected outcomes of K groups of rows without a truth, with the variance of their mean.

    ``n`` counts rows, ``score`` is their mean score, ``chance`` the share of them that is expected to come true,
    ``predicted`` whether the label was decided for, ``bin`` the bin in which an ECE sees the group and ``key`` that of
    the map, each of shape (K,). ``edges`` are those of an ECE.
    """

    n: Ints
    score: Floats
    chance: Floats
    predicted: Bools
    bin: Ints
    key: Ints
    edges: tuple[int, ...]
    by: CalibrationMap = field(repr=False)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.n.sum())

    def mean(self, values: Floats) -> float | None:
        """The mean over the rows of a value of each group, shape (K,); None without rows."""
        return float((self.n * values).sum()) / self.rows if self.rows else None

    @property
    def _in_bins(self) -> Floats:
        """The rows in each bin of the map, shape (bins,)."""
        return np.bincount(self.key, weights=self.n, minlength=len(self.by.gap)).astype(np.float64)

    @property
    def variance(self) -> Floats:
        """The variance of the chances in each bin of the map, where scores are not those of the baseline, (bins,)."""
        n = self._in_bins
        score = np.bincount(self.key, weights=self.n * self.score, minlength=len(n))
        away = np.where((n > 0) & (self.by.rows > 0), score / np.maximum(n, 1.0) - self.by.score, 0.0)
        return self.by.variance + (SLOPE * away) ** 2

    @property
    def error_of_map(self) -> float:
        """The variance of the mean outcome that comes from the map."""
        return float((self._in_bins**2 * self.variance).sum()) / self.rows**2

    def independent_rows(self, way: Floats | float = 1.0) -> float:
        """The number of independent rows whose hit rate, at the mean chance, would have the same variance.

        ``way`` (K,) turns outcomes where it is below 0.
        """
        chance = self.by.rate[self.key]
        rate = self.mean(np.where(np.asarray(way) > 0, chance, 1 - chance)) or 0.0
        # of the map, of the truths to come if the map were exact, and of the share of true items
        noise = float((self._in_bins * self.by.rate * (1 - self.by.rate)).sum())
        of_share = float((self.n * way * self.by.shared[self.key]).sum() / self.rows) ** 2
        variance = self.error_of_map + self.by.design_effect * noise / self.rows**2 + of_share
        return rate * (1 - rate) / variance if variance > 0 else float(self.rows)


def expectation(by: CalibrationMap, scores: Counts, edges: Sequence[int]) -> Expectation:
    """The expectation of the rows of ``scores``; ``edges`` are the upper edges of the bins of an ECE, in cells."""
    key = by.bins_of(scores)
    score = scores.score
    chance = np.clip(score + by.gap[key], 0.0, 1.0)
    seen = np.minimum(np.searchsorted(np.asarray(edges), scores.cell, side="left"), len(edges) - 1)
    return Expectation(scores.n, score, chance, scores.predicted, seen, key, tuple(edges), by)


def together(parts: Sequence[Expectation], design_effect: float) -> Expectation:
    """The rows of several labels as those of one subject: each has the chances of its own label's map.

    All parts have the same ``edges``. Raises ValueError without parts.
    """
    if not parts:
        raise ValueError("nothing to put together: give at least one expectation")
    maps = [part.by for part in parts]
    first = np.cumsum([0, *(len(by.gap) for by in maps)])[:-1]
    of_bins: dict[str, Any] = {name: np.concatenate([getattr(by, name) for by in maps]) for name in OF_BINS}
    joined = replace(maps[0], design_effect=design_effect, **of_bins)
    names = ("n", "score", "chance", "predicted", "bin")
    n, score, chance, predicted, seen = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    key = np.concatenate([part.key + start for part, start in zip(parts, first, strict=True)])
    return Expectation(n, score, chance, predicted, seen, key, parts[0].edges, joined)


@dataclass(frozen=True, slots=True)
class ShareToCome(Proportion):
    """A share that ``total`` rows will have: its limits are shares that ``total`` rows can have."""

    total: int = 1

    def interval(self, confidence: float) -> Limits:
        """Limits, outwards to the next share of ``total`` rows."""
        low, high = Proportion(self.share, self.rows).interval(confidence)
        low, high = math.floor(low * self.total) / self.total, math.ceil(high * self.total) / self.total
        ends = self.offset + self.scale * low, self.offset + self.scale * high
        return min(ends), max(ends)


def accuracy_law(found: Expectation) -> Proportion | None:
    """The law of the accuracy that will be measured; None without rows."""
    decided = found.predicted | (found.by.score_is == "confidence_in_prediction")
    value = found.mean(np.where(decided, found.chance, 1 - found.chance))
    if value is None:
        return None
    return ShareToCome(value, found.independent_rows(np.where(decided, 1.0, -1.0)), total=found.rows)


def overconfidence_law(found: Expectation) -> Proportion | None:
    """The law of the overconfidence that will be measured; None without rows."""
    promised, kept = found.mean(found.score), found.mean(found.chance)
    if promised is None or kept is None:
        return None
    return ShareToCome(kept, found.independent_rows(), promised, -1.0, found.rows)


def ece_laws(expectations: Sequence[Expectation], rngs: Sequence[np.random.Generator]) -> list[Spread | None]:
    """The law of each ECE that will be measured, computed together; None without rows.

    ``rngs`` has one generator for each.
    """
    filled = [place for place, found in enumerate(expectations) if found.rows]
    laws: list[Spread | None] = [None] * len(expectations)
    if not filled:
        return laws
    tables = stack([_ece_table(expectations[place]) for place in filled])
    values = analytic_points(tables)
    later = [_future(expectations[at], each_at(tables, [row]), values[row], rngs[at]) for row, at in enumerate(filled)]
    measured = analytic_points(GapTables.joined(later)).reshape(len(filled), len(NODES))
    errors = np.sqrt((measured - values[:, None]) ** 2 @ np.array([weight for _, weight in NODES]))
    for place, value, error in zip(filled, values.tolist(), errors.tolist(), strict=True):
        found = expectations[place]
        gap = _by_bin(found, found.score - found.chance)
        laws[place] = Spread(value, error, 0.0, plug_in=float(np.abs(gap).sum()) / found.rows)
    return laws


def _future(found: Expectation, table: GapTables, value: float, rng: np.random.Generator) -> GapTables:
    """Tables that may be measured once all truths are known: a lower, a middle and a higher ECE, shape (3, bins).

    The draws have gaps that add up to ``value``, with the noise of the map and of the rows. Each table has a quantile
    of their textbook ECEs (:data:`NODES`) as its own.
    """
    width, padded = len(found.edges), table.gap.shape[1]
    n, hits = (_by_bin(found, each) for each in (np.ones(len(found.key)), found.by.rate[found.key]))
    rate = np.divide(hits, n, out=np.zeros_like(n), where=n > 0)
    of_truth = found.by.design_effect * rate * (1 - rate) / np.maximum(n, 1.0)
    noise, rows = np.zeros(padded), np.ones(padded)
    noise[:width] = np.where(n > 0, _map_variance(found) + of_truth, 0.0)
    rows[:width] = np.maximum(n / found.by.design_effect, 1.0)
    size = float(table.plug_in[0])
    gap = table.gap[0] * (value / size if size > 0 else 1.0)
    shared = np.zeros(padded)
    shared[:width] = _by_bin(found, found.by.shared[found.key]) / np.maximum(n, 1.0)
    drawn = gap + np.sqrt(noise) * rng.standard_normal((RESAMPLES, padded))
    drawn = np.abs(drawn + shared * rng.standard_normal((RESAMPLES, 1)) if shared.any() else drawn)
    usual, share = drawn.mean(axis=0), table.share[0]
    textbook = np.quantile(drawn @ share, [chance for chance, _ in NODES])
    scale = textbook / max(float(usual @ share), ROUNDING)
    sign = np.broadcast_to(table.sign, (len(NODES), padded))
    score, shares = (np.broadcast_to(part, sign.shape) for part in (table.score, table.share))
    gaps = np.clip(sign * usual * scale[:, None], -score, 1 - score)
    return GapTables(np.broadcast_to(rows, sign.shape), score, gaps, shares, sign)


def _by_bin(found: Expectation, values: Floats) -> Floats:
    """The sum over rows of a value of each group, shape (K,), by bin of the ECE."""
    sums = np.bincount(found.bin, weights=found.n * values, minlength=len(found.edges))
    return sums.astype(np.float64)


def _map_variance(found: Expectation) -> Floats:
    """The variance of each ECE bin's mean chance that comes from the map, shape (len(edges),); 0 where empty."""
    width = len(found.by.gap)
    pairs = found.bin * width + found.key
    shared = np.bincount(pairs, weights=found.n, minlength=len(found.edges) * width).reshape(-1, width)
    rows = np.maximum(shared.sum(axis=1), 1.0)
    return np.asarray((shared**2 * found.variance).sum(axis=1) / rows**2)


def _ece_table(found: Expectation) -> BinCounts:
    """The bins of the ECE with expected hits; their effective rows give the hit rates the variance of the map."""
    one = np.ones(len(found.key))
    n, ws, wy = (_by_bin(found, each) for each in (one, found.score, found.chance))
    rate = _by_bin(found, found.by.rate[found.key]) / np.maximum(n, 1.0)
    variance = _map_variance(found)
    worth = np.divide(rate * (1 - rate), variance, out=np.zeros_like(rate), where=variance > 0)
    upper = np.asarray(found.edges, dtype=np.int64)
    return BinCounts(upper, np.rint(n).astype(np.int64), n, ws, wy, np.where(n > 0, np.maximum(worth, 1.0), 0.0))
