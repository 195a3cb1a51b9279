"""Multi-class sources: one label an item. Confusion matrix, averages over classes, agreement, and areas.

Functions of a confusion matrix take matrices of shape (..., K, K), true labels in rows and predicted ones in columns,
hard or soft, and give shape (...), NaN where no class defines them. An average leaves out classes that do not define
the measure (scikit-learn's ``zero_division=nan``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics.calibration import bessel
from monitor.metrics.definition import Metric
from monitor.metrics.discrimination import AUC_BANDS
from monitor.metrics.groups import number, over
from monitor.metrics.row_sums import RowStatistic, hard_confusion, scores

Places = npt.NDArray[np.intp]
Measure = Callable[[Floats], Floats]
"""A measure of confusion matrices: (..., K, K) -> (...)."""


def accuracy(matrix: Floats) -> Floats:
    """The share on the diagonal, in [0, 1]. (..., K, K) -> (...).

    >>> accuracy(np.array([[3.0, 0, 0], [1, 1, 0], [0, 1, 0]])).round(3)
    np.float64(0.667)
    """
    return over(np.trace(matrix, axis1=-2, axis2=-1), matrix.sum(axis=(-2, -1)))


def class_recall(matrix: Floats) -> Floats:
    """For each class, the share of its items that were predicted as it; shape (..., K)."""
    return over(_diagonal(matrix), matrix.sum(axis=-1))


def class_precision(matrix: Floats) -> Floats:
    """For each class, the share of its predictions that were right; shape (..., K)."""
    return over(_diagonal(matrix), matrix.sum(axis=-2))


def class_f1(matrix: Floats) -> Floats:
    """For each class, 2 TP / (2 TP + FP + FN); shape (..., K)."""
    return over(2 * _diagonal(matrix), matrix.sum(axis=-1) + matrix.sum(axis=-2))


def average(of: Measure, *, weighted: bool) -> Measure:
    """The mean over classes of a measure ``of`` each, of equal weight or each by its actual items."""
    return lambda matrix: _average(of(matrix), matrix.sum(axis=-1) if weighted else 1.0)


def kappa(matrix: Floats) -> Floats:
    """Cohen's kappa: agreement beyond chance with the same shares, in [-1, 1]. Cohen 1960.

    (..., K, K) -> (...).
    """
    total = matrix.sum(axis=(-2, -1))
    chance = (matrix.sum(axis=-1) * matrix.sum(axis=-2)).sum(axis=-1)
    chance = over(chance, total**2)
    return over(accuracy(matrix) - chance, 1 - chance)


def matthews(matrix: Floats) -> Floats:
    """Matthews' correlation of truth and prediction for K classes, in [-1, 1]. Gorodkin 2004. (..., K, K) -> (...)."""
    total = matrix.sum(axis=(-2, -1))
    actual, predicted = matrix.sum(axis=-1), matrix.sum(axis=-2)
    together = np.trace(matrix, axis1=-2, axis2=-1) * total - (actual * predicted).sum(axis=-1)
    spread = (total**2 - (actual**2).sum(axis=-1)) * (total**2 - (predicted**2).sum(axis=-1))
    return over(together, np.sqrt(np.maximum(spread, 0.0)))


def _diagonal(matrix: Floats) -> Floats:
    return np.diagonal(matrix, axis1=-2, axis2=-1)


def _average(values: Floats, weight: Floats | float) -> Floats:
    """The weighted mean over the last axis of all defined values; NaN if there is none."""
    held = np.where(np.isfinite(values), weight, 0.0)
    return over((held * np.where(np.isfinite(values), values, 0.0)).sum(axis=-1), held.sum(axis=-1))


@dataclass(frozen=True, slots=True)
class ClassMeasures:
    """One class: precision, recall and F1 (None where undefined) and ``support``, its actual weight."""

    label: str
    precision: float | None
    recall: float | None
    f1: float | None
    support: float


@dataclass(frozen=True, slots=True)
class AreaEstimate:
    """An average of areas under ROC curves with the standard error and the skewness of its estimate."""

    value: float
    se: float
    skew: float


@dataclass(frozen=True, slots=True, eq=False)
class ClassAreas:
    """The areas of K classes.

    ``pairs`` (K, K): P(an item of the class in the row scores higher on it than one of the class in the column),
    ties half; NaN on the diagonal and for classes without an item. ``rest`` (K,): each class against all other
    items. ``share`` (K,): the share of the weight whose true class it is.
    """

    pairs: Floats
    rest: Floats
    share: Floats


def class_areas(rows: ProbabilityRows, placements: Mapping[int, _Placed]) -> ClassAreas:
    """All areas at once, exact (scores are not rounded to cells). Hand & Till 2001; Fawcett 2006.

    An item with shares of several labels counts in each class by its share, and against each by the rest.
    """
    actual = rows.weight[:, None] * rows.truth
    total = actual.sum(axis=0)
    share = total / max(float(total.sum()), 1e-300)
    k = len(rows.labels)
    pairs, rest = np.full((k, k), np.nan), np.full(k, np.nan)
    for label, placed in placements.items():
        beaten = placed.above()
        pairs[label] = over(beaten @ actual, total)
        pairs[label, label] = np.nan
        others = rows.weight - actual[:, label]
        rest[label] = over(np.array(beaten @ others), np.array(others.sum()))
    return ClassAreas(pairs, rest, share)


def area_averages(areas: ClassAreas) -> dict[str, float | None]:
    """The averages of areas by their registered names, in [0, 1]; None unless two classes occur.

    ``auc_ovo`` is Hand & Till's: the mean over ordered pairs of classes of P(higher on the own class). The others are
    means over classes of the area against the rest: of equal weight, or each by its share of items. Classes without an
    item are left out.
    """
    return {
        "auc_ovo": _mean_of(areas.pairs),
        "auc_ovr_macro": _mean_of(areas.rest),
        "auc_ovr_weighted": number(_average(areas.rest, areas.share)),
    }


def _mean_of(areas: Floats) -> float | None:
    known = areas[np.isfinite(areas)]
    return float(known.mean()) if known.size else None


def area_estimates(rows: ProbabilityRows) -> dict[str, AreaEstimate]:
    """The three averages by their registered names, with standard error and skewness; empty unless two classes occur.

    From the influence function of each item, with each class's n / (n - 1); for two classes this is DeLong's variance
    (DeLong, DeLong & Clarke-Pearson 1988). Half an item is added to each class, out of order, so that perfectly
    separated classes do not have variance 0.
    """
    placements = _placements(rows)
    areas = class_areas(rows, placements)
    if not np.isfinite(areas.rest).any():
        return {}
    held = np.flatnonzero(areas.share > 0)
    influences = _influences(rows, areas, placements)
    parts = (np.full(len(held), 1 / len(held)),) * 2 + (areas.share[held],)
    sizes = _effective(rows, held)
    found = zip(area_averages(areas).items(), influences, parts, strict=True)
    return {name: _estimate(value, moves, part, sizes) for (name, value), moves, part in found if value is not None}


def _estimate(value: float, influence: Floats, part: Floats, sizes: Floats) -> AreaEstimate:
    variance = float((influence**2).sum() + 0.5 * ((part / sizes) ** 2).sum())
    third = float((influence**3).sum() - 0.5 * ((part / sizes) ** 3).sum())
    return AreaEstimate(value, math.sqrt(variance), third / variance**1.5)


def _effective(rows: ProbabilityRows, held: Places) -> Floats:
    """The effective number of items of each class, shape (held,)."""
    actual = rows.weight[:, None] * rows.truth[:, held]
    return np.asarray(actual.sum(axis=0) ** 2 / (rows.weight**2 @ rows.truth[:, held]))


def _influences(
    rows: ProbabilityRows, areas: ClassAreas, placements: Mapping[int, _Placed]
) -> tuple[Floats, Floats, Floats]:
    """The influence of each item on the three averages, in their order, each of shape (N,)."""
    weight, held = rows.weight, np.array(list(placements), dtype=np.intp)
    actual = weight[:, None] * rows.truth
    total, everything = actual.sum(axis=0), float(actual.sum())
    share = actual / np.where(total > 0, total, 1.0)
    shares = share.sum(axis=1)
    average = float(_average(areas.rest, areas.share))
    one, macro, weighted = (np.zeros(len(weight)) for _ in range(3))
    for label, placed in placements.items():
        above, mine, area = placed.above(), share[:, label], float(areas.rest[label])
        # against the rest
        others = weight - actual[:, label]
        against = float(others.sum())
        of_rest = others / against * (above - area) + mine * (placed.below(others) / against - area)
        macro += of_rest / len(held)
        moved = (actual[:, label] - weight * areas.share[label]) / everything
        weighted += areas.share[label] * of_rest + moved * (area - average)
        # against each other class
        rivals = np.nan_to_num(areas.pairs[label])
        spread = shares - mine
        one += above * spread - share @ rivals + mine * (placed.below(spread) - float(rivals.sum()))
    stretch = rows.truth[:, held] @ np.sqrt([bessel(size) for size in _effective(rows, held)])
    return one / (len(held) * (len(held) - 1)) * stretch, macro * stretch, weighted * stretch


def _placements(rows: ProbabilityRows) -> dict[int, _Placed]:
    """All items among the scores of each class that occurs, by its column."""
    score, actual = scores(rows), rows.weight[:, None] * rows.truth
    return {int(k): _Placed.of(score[:, k], actual[:, k]) for k in np.flatnonzero(actual.sum(axis=0) > 0)}


@dataclass(frozen=True, slots=True, eq=False)
class _Placed:
    """All items among the distinct scores of one class: 2 i between the (i-1)-th and the i-th, 2 i + 1 on the i-th."""

    place: Places
    mass: Floats

    @classmethod
    def of(cls, score: Floats, own: Floats) -> _Placed:
        held = own > 0
        levels, index = np.unique(score[held], return_inverse=True)
        mass = np.bincount(index, weights=own[held], minlength=len(levels)).astype(np.float64, copy=False)
        found = np.searchsorted(levels, score)
        tied = levels[np.minimum(found, len(levels) - 1)] == score
        return cls(2 * found + tied, mass)

    def above(self) -> Floats:
        """For each item the share of the class that scores higher, ties half; shape (N,)."""
        reached = np.concatenate(([0.0], np.cumsum(self.mass)))
        share = np.empty(2 * len(self.mass) + 1)
        share[0::2] = reached[-1] - reached
        share[1::2] = reached[-1] - reached[1:] + self.mass / 2
        return np.asarray(share[self.place] / reached[-1])

    def below(self, weight: Floats) -> Floats:
        """For each item the sum of ``weight`` that scores lower, ties half; right for items of the class alone."""
        at = np.bincount(self.place, weights=weight, minlength=2 * len(self.mass) + 1)
        return np.asarray((np.cumsum(at) - at / 2)[self.place])


def _of_matrix(name: str, title: str, of: Measure) -> RowStatistic:
    return RowStatistic(name, title, "higher", sums=(hard_confusion,), of=of)


STATISTICS: tuple[RowStatistic, ...] = (
    _of_matrix("top1_accuracy", "Top-1 accuracy", accuracy),
    _of_matrix("macro_precision", "Macro precision", average(class_precision, weighted=False)),
    _of_matrix("macro_recall", "Macro recall", average(class_recall, weighted=False)),
    _of_matrix("macro_f1", "Macro F1", average(class_f1, weighted=False)),
    _of_matrix("weighted_precision", "Weighted precision", average(class_precision, weighted=True)),
    _of_matrix("weighted_recall", "Weighted recall", accuracy),
    _of_matrix("weighted_f1", "Weighted F1", average(class_f1, weighted=True)),
    _of_matrix("micro_f1", "Micro F1", accuracy),
    _of_matrix("kappa", "Cohen's kappa", kappa),
    _of_matrix("multiclass_mcc", "Matthews correlation", matthews),
)
"""The weighted recall and the micro F1 of items with one label each are the accuracy."""
AREAS: Mapping[str, str] = {
    "auc_ovo": "One-vs-one AUC",
    "auc_ovr_macro": "One-vs-rest AUC",
    "auc_ovr_weighted": "Weighted one-vs-rest AUC",
}
"""The averages of areas, whose variance has a closed form, and their titles."""


REGISTERED: tuple[Metric, ...] = (
    *STATISTICS,
    *(Metric(name, title, "higher", AUC_BANDS) for name, title in AREAS.items()),
)
