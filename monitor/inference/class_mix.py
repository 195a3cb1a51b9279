"""Is a change of calibration what another share of true items alone would bring about?

Under *prior shift* a label becomes more or less frequent while items that have it, and items that have it not, get the
scores that they always got. Then the odds of a hit at each score are multiplied by one factor, lawfully: a classifier
that was calibrated at the old share is not at the new one (Saerens, Latinne & Decaestecker 2002).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import chi2

from monitor.core.counts import BinCounts

Floats = npt.NDArray[np.float64]

LEAST = 5.0
"""Expected rows of a cell below which bins are put together, as usual for a chi-square test."""
CHANGED = 0.01
"""The p-value below which the share of true items is another one."""
FITS = 0.05
"""The p-value from which on the scores of true and of other items are taken for unchanged."""


@dataclass(frozen=True, slots=True)
class ClassMix:
    """The share of true items ``now`` and ``then``, with the p-value of their difference, and what it would bring.

    ``fit`` is the p-value for "true items, and others, are scored as they were". ``ece`` and ``mce`` are what the
    baseline's rows would show, without noise, at the new share, ``ece_then`` and ``mce_then`` at their own.
    """

    now: float
    then: float
    p_value: float
    fit: float
    ece: float
    mce: float
    ece_then: float
    mce_then: float

    @property
    def is_all(self) -> bool:
        """Whether only the share of true items changed, as far as these rows show."""
        return self.p_value < CHANGED and self.fit >= FITS

    def expected_rise(self, metric: str) -> float:
        """By how much ``metric`` (ece or mce) rises at the new share."""
        return self.ece - self.ece_then if metric == "ece" else self.mce - self.mce_then


def class_mix(window: BinCounts, baseline: BinCounts) -> ClassMix | None:
    """The change between two samples in the same bins; None where one has no true item, or none that is not true."""
    now, then = _by_class(window), _by_class(baseline)
    if not (now.sum(axis=1) > 0).all() or not (then.sum(axis=1) > 0).all():
        return None
    share_now, share_then = (float(each[0].sum() / each.sum()) for each in (now, then))
    statistic, freedom = _table(np.array([now.sum(axis=1), then.sum(axis=1)]))
    fit = [_table(_merged(np.array([now[k], then[k]]))) for k in (0, 1)]
    shape = then / then.sum(axis=1, keepdims=True)
    return ClassMix(
        share_now, share_then, float(chi2.sf(statistic, freedom)),
        float(chi2.sf(sum(s for s, _ in fit), sum(f for _, f in fit))) if any(f for _, f in fit) else 1.0,
        *_errors(shape, share_now, baseline), *_errors(shape, share_then, baseline),
    )  # fmt: skip


def _by_class(bins: BinCounts) -> Floats:
    """Independent rows of true items (first) and others, by bin, shape (2, M)."""
    total = float(bins.w.sum())
    worth = float(bins.n_eff.sum()) / total if total > 0 else 0.0
    return np.array([bins.wy, bins.w - bins.wy]).clip(0.0) * worth


def _merged(table: Floats) -> Floats:
    """Neighbouring columns put together until each row of each expects :data:`LEAST` rows, shape (2, K)."""
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


def _errors(shape: Floats, share: float, bins: BinCounts) -> tuple[float, float]:
    """ECE and MCE where so large a share of items is true and each class has these scores."""
    true, all_ = share * shape[0], share * shape[0] + (1 - share) * shape[1]
    gap = np.abs(np.divide(true, all_, out=np.zeros_like(all_), where=all_ > 0) - bins.score)[all_ > 0]
    return float((all_[all_ > 0] * gap).sum()), float(gap.max(initial=0.0))
