"""Does a changed share of true items alone explain a change of calibration?

Under *prior shift* a label becomes more or less frequent, while items with it and items without it are scored as
before. Then the odds of a hit at each score are multiplied by one factor: a classifier that was calibrated at the old
share is not calibrated at the new one (Saerens, Latinne & Decaestecker 2002).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.counts import BinCounts, Counts
from monitor.inference.tails import chi_square

Floats = npt.NDArray[np.float64]

LEAST = 5.0
"""The expected rows of a cell below which bins are merged, as usual for a chi-square test."""
CHANGED = 0.01
"""The p-value below which the share of true items counts as changed."""
FITS = 0.05
"""The p-value from which on the scores of true items and of other items count as unchanged."""


@dataclass(frozen=True, slots=True)
class ClassMix:
    """The share of true items ``now`` and ``then``, the p-value of their difference, and the errors that they imply.

    ``fit`` is the p-value for "true items, and others, are scored as before". ``ece`` and ``mce`` are those of the
    baseline's rows, without noise, at the new share, ``ece_then`` and ``mce_then`` at their own. ``separated`` is the
    p-value for "true items, and others, have the same scores" in the baseline: then any fault looks like another share.
    """

    now: float
    then: float
    p_value: float
    fit: float
    ece: float
    mce: float
    ece_then: float
    mce_then: float
    separated: float

    @property
    def is_separable(self) -> bool:
        """Whether true items have other scores than the rest in the baseline, so that a fault would not fit."""
        return self.separated < CHANGED

    @property
    def fits(self) -> bool:
        """Whether true items, and others, are scored as before, where that can be seen."""
        return self.fit >= FITS and self.is_separable

    @property
    def only_share_changed(self) -> bool:
        """Whether only the share of true items changed, as far as these rows show."""
        return self.p_value < CHANGED and self.fits

    def expected_rise(self, metric: str) -> float:
        """The rise of ``metric`` (ece or mce) at the new share."""
        return self.ece - self.ece_then if metric == "ece" else self.mce - self.mce_then


def class_mix(window: BinCounts, baseline: BinCounts) -> ClassMix | None:
    """The class mix of two samples in the same bins; None where one of them has no true items, or no others."""
    now, then = _by_class(window), _by_class(baseline)
    if not (now.sum(axis=1) > 0).all() or not (then.sum(axis=1) > 0).all():
        return None
    share_now, share_then = (float(each[0].sum() / each.sum()) for each in (now, then))
    statistic, freedom = _table(np.array([now.sum(axis=1), then.sum(axis=1)]))
    fit = [_table(_merged(np.array([now[k], then[k]]))) for k in (0, 1)]
    shape = then / then.sum(axis=1, keepdims=True)
    apart = _table(_merged(then))
    return ClassMix(
        share_now,
        share_then,
        _p_value(statistic, freedom),
        _p_value(sum(s for s, _ in fit), sum(f for _, f in fit)) if any(f for _, f in fit) else 1.0,
        *_errors(shape, share_now, baseline),
        *_errors(shape, share_then, baseline),
        _p_value(*apart) if apart[1] else 1.0,
    )


def _by_class(bins: BinCounts) -> Floats:
    """Independent rows of true items (first) and others, by bin, shape (2, M)."""
    total = float(bins.w.sum())
    worth = float(bins.n_eff.sum()) / total if total > 0 else 0.0
    return np.array([bins.wy, bins.w - bins.wy]).clip(0.0) * worth


def _merged(table: Floats) -> Floats:
    """The table with neighbouring columns merged until each cell expects :data:`LEAST` rows, shape (2, K)."""
    share = table.sum(axis=1).min() / table.sum()
    found: list[Floats] = []
    for column in table.T:
        if found and found[-1].sum() * share < LEAST:
            found[-1] = found[-1] + column
        else:
            found.append(column)
    if len(found) > 1 and found[-1].sum() * share < LEAST:
        last = found.pop()
        found[-1] = found[-1] + last
    return np.array(found).T


def _table(table: Floats) -> tuple[float, int]:
    """The chi-square statistic of homogeneity of a table of two rows, and its degrees of freedom."""
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0, keepdims=True) / table.sum()
    parts = np.divide((table - expected) ** 2, expected, out=np.zeros_like(table), where=expected > 0)
    return float(parts.sum()), max(0, int((table.sum(axis=0) > 0).sum()) - 1)


def _p_value(statistic: float, freedom: int) -> float:
    """The p-value of a chi-square test; NaN without degrees of freedom."""
    return chi_square(statistic, freedom) if freedom > 0 else math.nan


def _errors(shape: Floats, share: float, bins: BinCounts) -> tuple[float, float]:
    """ECE and MCE if ``share`` of the items is true and each class has its scores of ``shape`` (2, M)."""
    true, all_ = share * shape[0], share * shape[0] + (1 - share) * shape[1]
    gap = np.abs(np.divide(true, all_, out=np.zeros_like(all_), where=all_ > 0) - bins.score)[all_ > 0]
    return float((all_[all_ > 0] * gap).sum()), float(gap.max(initial=0.0))


@dataclass(frozen=True, slots=True)
class PriorShift:
    """The effect of another share of true items on some rows of a baseline, if each class is scored as before.

    ``then`` is the share of true items in all rows of the baseline. ``sums`` are the sums (weight, score, hits, score
    of hits) of the rows in question. ``outside`` has the shares of all true items, and of all other items, that lie
    outside of these rows.
    """

    then: float
    sums: tuple[float, float, float, float]
    outside: tuple[float, float]

    def rise(self, share: float) -> float:
        """The rise of mean score minus hit rate of these rows if ``share`` of all items is true."""
        return self._overconfidence(share) - self._overconfidence(self.then)

    def _overconfidence(self, share: float) -> float:
        weight, score, hits, hit_score = self.sums
        true, false = share / self.then, (1 - share) / (1 - self.then)
        rows = true * hits + false * (weight - hits)
        return (true * hit_score + false * (score - hit_score) - true * hits) / rows if rows > 0 else 0.0

    def share_of(self, outside: float, whole: float) -> float:
        """The share of true items, from the hit rate ``outside`` these rows; else the hit rate of the ``whole``.

        So a fault of these rows, fewer of which are then true, is not mistaken for a smaller share of true items.

        >>> half = PriorShift(0.5, (10.0, 9.0, 8.0, 7.5), (0.2, 0.8))
        >>> round(half.share_of(0.2, 0.5), 3), round(half.share_of(1 / 13, 0.5), 3)
        (0.5, 0.25)
        """
        true, false = self.outside
        if not (true > 0 and false > 0):
            return whole
        odds = outside * false, (1 - outside) * true
        return odds[0] / sum(odds)


def prior_shift(baseline: Counts, part: Counts) -> PriorShift | None:
    """The prior shift of ``part`` of the rows of a ``baseline``; None where that has no true items, or no others."""
    weight, hits = float(baseline.w.sum()), float(baseline.wy.sum())
    if not 0 < hits < weight:
        return None
    sums = tuple(float(each.sum()) for each in (part.w, part.ws, part.wy, part.wsy))
    others = max(0.0, 1 - sums[2] / hits), max(0.0, 1 - (sums[0] - sums[2]) / (weight - hits))
    return PriorShift(hits / weight, (sums[0], sums[1], sums[2], sums[3]), others)


def share_p(now: tuple[float, float], then: tuple[float, float]) -> float:
    """The p-value for "the share of true items is unchanged"; each side is (share, independent rows).

    >>> share_p((0.3, 100.0), (0.3, 1000.0))
    1.0
    """
    statistic, freedom = _table(np.array([[share * rows, (1 - share) * rows] for share, rows in (now, then)]))
    return _p_value(statistic, freedom)
