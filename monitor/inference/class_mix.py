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
from scipy.special import ndtr

from monitor.core.counts import BinCounts
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
    ``scores`` is the one-sided p-value for "the scores lie as before": with another share of true items they lie nearer
    to those of true items, or of the others, while a fault leaves them where they were.
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
    scores: float

    @property
    def is_separable(self) -> bool:
        """Whether true items have other scores than the rest in the baseline, so that a fault would not fit."""
        return self.separated < CHANGED

    @property
    def fits(self) -> bool:
        """Whether true items, and others, are scored as before, where that can be seen, and so all scores are not."""
        return self.fit >= FITS and self.is_separable and self.scores < CHANGED

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
        _moved(now.sum(axis=0), then, towards=math.copysign(1.0, share_now - share_then)),
    )


def _moved(now: Floats, then: Floats, towards: float) -> float:
    """The p-value for a mean of the baseline's hit rates at the scores that moved no more than by chance, one-sided.

    ``now`` (M,) are rows by bin, ``then`` (2, M) those of the baseline by class. Of all statistics of the scores this
    is the one in which a small change of the share of true items shows most.
    """
    before = then.sum(axis=0)
    rate = np.divide(then[0], before, out=np.zeros_like(before), where=before > 0)
    means, variances = zip(*(_mean_of(rate, rows) for rows in (now, before)), strict=True)
    deviation = math.sqrt(sum(variances))
    return float(ndtr(-towards * (means[0] - means[1]) / deviation)) if deviation > 0 else 1.0


def _mean_of(values: Floats, rows: Floats) -> tuple[float, float]:
    """The mean of the values of so many rows, and its variance."""
    total = float(rows.sum())
    mean = float(rows @ values) / total
    return mean, float(rows @ (values - mean) ** 2) / total / total


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
