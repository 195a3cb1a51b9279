"""Discrimination: do rows that came true score higher than the others? Areas and curves, Cohen's d, correlation.

The areas read cells as tied scores (but see :func:`classes`), so that they cost O(cells), and come
with the variance of their influence function, at the same cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts import Bools, Counts, Floats
from monitor.metrics.calibration import bessel
from monitor.metrics.definition import Band, Metric
from monitor.metrics.groups import Groups, over

_NOTHING = 1e-12  # a smaller share of weight is a rounding error of two sums of the same rows
_DISTINCT = 7.3e-7  # closer scores count as equal: the sums cannot resolve their squares
_ROUNDED = 4 * 2.0**-40  # by how much rounding to multiples of 2^-40 may change the spread of two rows


@dataclass(frozen=True, slots=True)
class Classes:
    """Hits and misses by tied score, lowest first, each array of shape (scores,).

    ``hit`` and ``miss`` are sums of weights, ``hit_square`` and ``miss_square`` sums of squared
    weights (a cell's sum shared out by its rate). ``hits`` and ``misses`` are how many independent rows
    each class is worth: Kish's effective size over the design effect.
    """

    hit: Floats
    miss: Floats
    hit_square: Floats
    miss_square: Floats
    design_effect: float

    @property
    def hits(self) -> float:
        """Effective number of hits."""
        return _effective(self.hit, self.hit_square, self.design_effect)

    @property
    def misses(self) -> float:
        """Effective number of misses."""
        return _effective(self.miss, self.miss_square, self.design_effect)


def _effective(weight: Floats, square: Floats, design_effect: float) -> float:
    squares = float(square.sum())
    return float(weight.sum()) ** 2 / squares / design_effect if squares > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Area:
    """An area under a curve, in [0, 1], with the variance of its estimate."""

    value: float
    variance: float


def classes(counts: Counts) -> Classes:
    """The two classes by cell; a soft outcome y is y of a hit and 1 - y of a miss.

    A cell is one tied score, unless its sums show two different scores: its hits at one and its misses at the
    other, or two hits apart. Then it becomes two entries: at 1,000 rows nearly all shared cells hold
    two rows, and their order would otherwise be lost.
    """
    cells = counts.by_cell().weighted()
    hit = np.clip(cells.wy, 0.0, cells.w)
    miss = cells.w - hit
    hit[hit < _NOTHING * cells.w] = 0.0
    miss[miss < _NOTHING * cells.w] = 0.0
    # the share of a cell's hits (misses) in the higher of its two entries
    order = _order(cells, hit, miss)
    hits_up = np.where(_twin_hits(cells, miss), 0.5, order > 0)
    misses_up = np.where(order < 0, 1.0, 0.0)
    squares = cells.w2 / cells.w
    hit_entries, miss_entries = _entries(hit, hits_up), _entries(miss, misses_up)
    hit_squares, miss_squares = _entries(squares * hit, hits_up), _entries(squares * miss, misses_up)
    held = hit_entries + miss_entries > 0
    return Classes(hit_entries[held], miss_entries[held], hit_squares[held], miss_squares[held], counts.design_effect)


def _entries(values: Floats, up: Floats) -> Floats:
    """Each cell's value shared between a lower and a higher entry; shape (2 K,)."""
    return np.column_stack((values * (1 - up), values * up)).ravel()


def _order(cells: Counts, hit: Floats, miss: Floats) -> Floats:
    """For each cell 1 where its hits score above its misses, -1 where below, 0 where tied or not known.

    Known where the spread of scores lies between the classes, not within them: sum w s^2 is then that of two points.
    Differences that an engine's rounding of the sums could make are ties.
    """
    both = (hit > 0) & (miss > 0)
    of_hits = np.divide(cells.wsy, hit, out=np.zeros_like(hit), where=both)
    of_misses = np.divide(cells.ws - cells.wsy, miss, out=np.zeros_like(hit), where=both)
    apart = of_hits - of_misses
    between = hit * miss / cells.w * apart**2
    within = cells.ws2 - hit * of_hits**2 - miss * of_misses**2
    known = both & (np.abs(apart) > _DISTINCT) & (np.abs(within) < 0.05 * between)
    return np.where(known, np.sign(apart), 0.0)


def _twin_hits(cells: Counts, miss: Floats) -> Bools:
    """Which cells hold two hits at different scores (and so two steps of the precision-recall curve).

    The spread of two hits at one score is nothing but the rounding of their sums.
    """
    spread = cells.ws2 - cells.ws**2 / cells.w
    return np.asarray((cells.n == 2) & (miss == 0) & (spread > _ROUNDED + cells.w / 4 * _DISTINCT**2))


def area_of_roc(two: Classes) -> Area:
    """The area under the ROC curve with DeLong's variance (DeLong, DeLong & Clarke-Pearson 1988).

    A hit's placement is the share of misses it beats, a miss's the share of hits that beat it (half
    for ties): Var = S10 / n1 + S01 / n0 with their sample variances. Needs both classes; weighted
    and clustered rows count by their effective number.
    """
    of_hits, of_misses = _share_below(two.miss), 1 - _share_below(two.hit)
    auc = _mean(of_hits, two.hit)
    from_hits = float((two.hit_square * (of_hits - auc) ** 2).sum()) / float(two.hit.sum()) ** 2
    from_misses = float((two.miss_square * (of_misses - auc) ** 2).sum()) / float(two.miss.sum()) ** 2
    effect = two.design_effect
    return Area(auc, effect * (from_hits * bessel(two.hits) + from_misses * bessel(two.misses)))


def _share_below(weight: Floats) -> Floats:
    """For each cell the share of ``weight`` in lower cells, plus half of the share in its own."""
    return np.asarray((np.cumsum(weight) - weight / 2) / weight.sum())


def _mean(values: Floats, weight: Floats) -> float:
    return min(max(float((values * weight).sum() / weight.sum()), 0.0), 1.0)


def _from_above(weight: Floats) -> Floats:
    """For each cell the weight in it and in all higher cells."""
    return np.asarray(np.cumsum(weight[::-1])[::-1])


def area_of_precision_recall(two: Classes) -> Area:
    """Average precision with its variance by the influence function (the infinitesimal jackknife).

    With T the hits and F the misses at or above a cell, H all hits, A the area: one more hit in cell j moves A
    by (T_j / (T_j + F_j) - A + sum over k <= j of h_k F_k / (T_k + F_k)^2) / H, one more miss by minus
    (sum over k <= j of h_k T_k / (T_k + F_k)^2) / H. Var = sum of w^2 times the square. Needs a hit.
    Jaeckel 1972, Efron 1982; the functional is that of Boyd, Eng & Page 2013.
    """
    hits, misses = _from_above(two.hit), _from_above(two.miss)
    reached, total = hits + misses, float(two.hit.sum())
    area = _mean(hits / reached, two.hit)
    of_hit = (hits / reached - area + np.cumsum(two.hit * misses / reached**2)) / total
    of_miss = -np.cumsum(two.hit * hits / reached**2) / total
    variance = float((two.hit_square * of_hit**2 + two.miss_square * of_miss**2).sum())
    return Area(area, variance * two.design_effect * bessel(two.hits))


def with_unseen_hit(two: Classes, *, at_top: bool = False, part: float = 0.5) -> Classes:
    """The classes with half a hit (or another ``part`` of one) more, below (or above) all scores.

    Variances estimated from few, well separated rows are too small, and zero if no pair is out of order, because no
    misplaced row has been seen yet. Half of one, as Agresti & Coull 1998 add successes and failures to a share, keeps
    the coverage of intervals from three hits on.
    """
    mass, square = (float(each.sum()) / two.hits * part for each in (two.hit, two.hit_square))
    place = len(two.hit) if at_top else 0
    return replace(
        two,
        hit=np.insert(two.hit, place, mass),
        hit_square=np.insert(two.hit_square, place, square),
        miss=np.insert(two.miss, place, 0.0),
        miss_square=np.insert(two.miss_square, place, 0.0),
    )


def with_unseen_miss_on_top(two: Classes) -> Classes:
    """The classes with a quarter of a miss more, above all scores.

    A precision-recall curve begins with the highest scores: a single miss there costs more than any other row, and if
    misses are rare there, none has been seen. Half a miss would widen intervals more than needed.
    """
    return _swap(with_unseen_hit(_swap(two), at_top=True, part=0.25))


def with_unseen_pair(two: Classes, area: float) -> Classes:
    """The classes with half a hit and half a miss more, both placed against the observed order.

    ``area`` is that under their ROC curve.
    """
    reversed_order = area < 0.5 - _NOTHING  # safe against rounding errors
    swapped = _swap(with_unseen_hit(two, at_top=reversed_order))
    return _swap(with_unseen_hit(swapped, at_top=not reversed_order))


def _swap(two: Classes) -> Classes:
    return Classes(two.miss, two.hit, two.miss_square, two.hit_square, two.design_effect)


_CONSTANT = 1e-15  # a smaller variance of scores is a rounding error: the scores are equal


def cohens_d_core(groups: Groups) -> Floats:
    """Cohen's d: (mean score of hits - that of misses) / sqrt(mean of both variances). Shape (...).

    How many standard deviations hits score above misses; any sign. Variances divide by W. Cohen 1988.
    """
    (mean1, var1), (mean0, var0) = _by_class(groups)
    pooled = (var1 + var0) / 2
    return over(mean1 - mean0, np.sqrt(np.where(pooled > _CONSTANT, pooled, np.nan)))


def point_biserial_core(groups: Groups) -> Floats:
    """Pearson's r of score and outcome: (mean score of hits - that of misses) / sd of all scores * sqrt(n1 n0) / N.

    In [-1, 1], shape (...). Tate 1954.
    """
    hits, misses = groups.hit.sum(axis=-1), groups.miss.sum(axis=-1)
    (mean1, var1), (mean0, var0) = _by_class(groups)
    share = over(hits, hits + misses)
    between = share * (1 - share) * (mean1 - mean0) ** 2
    variance = share * var1 + (1 - share) * var0 + between
    return np.sign(mean1 - mean0) * np.sqrt(over(between, np.where(variance > _CONSTANT, variance, np.nan), math.nan))


def _by_class(groups: Groups) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
    """Mean and variance (over W, not W - 1) of the scores of hits, and of misses; shapes () or (B,).

    Hits and misses of one group share its ``within``: exact where they spread alike, or are not in one group.
    """
    of_hits, of_misses = (groups.hit, groups.hit_score), (groups.miss, groups.miss_score)
    return _mean_and_variance(*of_hits, groups.within), _mean_and_variance(*of_misses, groups.within)


def _mean_and_variance(weight: Floats, score: Floats, within: Floats) -> tuple[Floats, Floats]:
    total = weight.sum(axis=-1)
    mean = over((weight * score).sum(axis=-1), total)
    # about a fixed centre: no difference of large sums
    centre = 0.5 if mean.ndim else float(mean)
    around = over((weight * ((score - centre) ** 2 + within)).sum(axis=-1), total)
    return mean, np.maximum(around - (mean - centre) ** 2, 0.0)


OF_THE_RANGE = frozenset({"roc_auc", "cohens_d", "point_biserial"})
"""Metrics that depend on the range of the scores: their bands are for rows of all scores."""

AUC_BANDS = (Band(0.9, 1.0, "strong"), Band(0.8, 0.9, "acceptable"), Band(0.0, 0.8, "weak: retrain"))

_D_BANDS = (
    Band(0.8, math.inf, "large"),
    Band(0.5, 0.8, "medium"),
    Band(0.2, 0.5, "small"),
    Band(-math.inf, 0.2, "negligible"),
)
_R_BANDS = (Band(0.5, 1.0, "strong"), Band(0.3, 0.5, "moderate"), Band(-1.0, 0.3, "weak"))

REGISTERED: tuple[Metric, ...] = (
    Metric("cohens_d", "Cohen's d", "higher", _D_BANDS, cohens_d_core),
    Metric("point_biserial", "Point-biserial correlation", "higher", _R_BANDS, point_biserial_core),
)
