"""Does a changed share of true items alone explain what changed, and what would the baseline be at the new share?

Under *prior shift* (label shift) a label becomes more or less frequent, while items with it and items without it are
scored as before. Then the odds of a hit at each score are multiplied by one factor: a classifier that was calibrated at
the old share is not calibrated at the new one (Saerens, Latinne & Decaestecker 2002). The baseline's rows, true ones
and others weighed anew (Lipton, Wang & Smola 2018), are what the window's would be: every metric of them follows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from monitor.core.counts import BinCounts, Counts, Floats
from monitor.core.promises import APART, Promise, columns
from monitor.inference.tables import chi_square, contingency

LEAST = 5.0
"""The expected rows of a cell below which bins are merged, as usual for a chi-square test."""
CHANGED = 0.01
"""The p-value below which the share of true items counts as changed."""
FITS = 0.001
"""The p-value from which on the scores of true items and of other items count as unchanged."""
WITHIN = 2.0
"""The standard errors of the share that scores tell by which the share used may differ from it."""


@dataclass(frozen=True, slots=True)
class ClassMix:
    """The share of true items ``now`` and ``then``, and the p-value of their difference.

    ``told`` is the share nearest to that of now which the scores alone allow: a fault loses true items, but its scores
    do not lie as those of fewer true items would.

    ``fit`` is the p-value for "true items, and others, are scored as before". ``separated`` is the p-value for "true
    items, and others, have the same scores" in the baseline: then any fault looks like another share.
    ``scores`` is the one-sided p-value for "the scores lie as before": with another share of true items they lie nearer
    to those of true items, or of the others, while a fault leaves them where they were.
    """

    now: float
    then: float
    told: float
    p_value: float
    fit: float
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


def class_mix(window: BinCounts, baseline: BinCounts, recent: BinCounts | None = None) -> ClassMix | None:
    """The class mix of two samples in the same bins; None where one of them has no true items, or no others.

    ``recent`` are the window and some before it, which tell whether share and scores changed: one window may have too
    few rows to tell a season from a fault.
    """
    now, then, lately = (_by_class(each) for each in (window, baseline, recent or window))
    if not (now.sum(axis=1) > 0).all() or not (then.sum(axis=1) > 0).all():
        return None
    share_now, share_then, share_lately = (float(each[0].sum() / each.sum()) for each in (now, then, lately))
    statistic, freedom = contingency(np.array([lately.sum(axis=1), then.sum(axis=1)]))
    fit = [contingency(_merged(np.array([now[k], then[k]]))) for k in (0, 1)]
    moved, error = moved_share(lately.sum(axis=0), then)
    nearest = float(np.clip(share_now, share_then + moved - WITHIN * error, share_then + moved + WITHIN * error))
    towards = math.copysign(1.0, share_lately - share_then)
    return ClassMix(
        share_now,
        share_then,
        float(np.clip(nearest, min(share_now, share_then), max(share_now, share_then))),
        _p_value(statistic, freedom),
        _p_value(sum(s for s, _ in fit), sum(f for _, f in fit)) if any(f for _, f in fit) else 1.0,
        alike(then),
        float(ndtr(-towards * moved / error)) if math.isfinite(error) else 1.0,
    )


def in_bands(parts: Mapping[str, Promise]) -> BinCounts:
    """The bins of promises by band of scores; bands without rows are empty."""
    _, n, promised, kept = columns([[parts.get(name) for name in APART]])[:, 0]
    return BinCounts(np.arange(len(n)), np.rint(n), n, n * promised, n * kept, n)


def at_share(counts: Counts, share: float) -> Counts:
    """The rows as they would be if this ``share`` of them were true and both classes were scored as they are.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = at_share(counts_from_rows([0.8] * 10, [1] * 8 + [0] * 2), 0.5)
    >>> round(float(found.w.sum()), 9), round(float(found.wy.sum()), 9)
    (10.0, 5.0)
    """
    total, true = float(counts.w.sum()), counts.positives
    of_true, of_others = share * total / true, (1 - share) * total / (total - true)
    times = counts.rate * of_true + (1 - counts.rate) * of_others
    squares = counts.rate * of_true**2 + (1 - counts.rate) * of_others**2
    return replace(
        counts, w=counts.w * times, w2=counts.w2 * squares, ws=counts.ws * times, wy=counts.wy * of_true,
        wsy=counts.wsy * of_true, ws2=counts.ws2 * times, wy2=counts.wy2 * of_true,
    )  # fmt: skip


def moved_share(now: Floats, then: Floats) -> tuple[float, float]:
    """By how much the scores say that the share of true items changed, with its standard error (infinite: not at all).

    ``now`` (M,) are rows by bin, ``then`` (2, M) those of the baseline by class. It is by the mean of the baseline's
    hit rates at the scores, which lies between that of true items and that of others as the share does (Saerens' moment
    equation). Of all statistics of the scores this is the one in which a small change of the share shows most.
    """
    before = then.sum(axis=0)
    rate = np.divide(then[0], before, out=np.zeros_like(before), where=before > 0)
    means, variances = zip(*(_mean_of(rate, rows) for rows in (now, before)), strict=True)
    apart = _mean_of(rate, then[0])[0] - _mean_of(rate, then[1])[0]
    deviation = math.sqrt(sum(variances))
    if not (apart > 0 and deviation > 0):
        return 0.0, math.inf
    return (means[0] - means[1]) / apart, deviation / apart


def _mean_of(values: Floats, rows: Floats) -> tuple[float, float]:
    """The mean of the values of so many rows, and its variance."""
    total = float(rows.sum())
    mean = float(rows @ values) / total
    return mean, float(rows @ (values - mean) ** 2) / total / total


def _by_class(bins: BinCounts) -> Floats:
    """Independent rows of true items (first) and others, by bin, shape (2, M)."""
    total = float(bins.w.sum())
    worth = float(np.minimum(bins.n_eff, bins.n).sum()) / total if total > 0 else 0.0
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


def alike(table: Floats) -> float:
    """The p-value for rows of a table (2, K) that are samples of one distribution; 1 where too few rows tell."""
    statistic, freedom = contingency(_merged(table))
    return _p_value(statistic, freedom) if freedom else 1.0


def _p_value(statistic: float, freedom: int) -> float:
    """The p-value of a chi-square test; NaN without degrees of freedom."""
    return chi_square(statistic, freedom) if freedom > 0 else math.nan
