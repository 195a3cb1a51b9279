"""The distribution of the largest gap: what the MCE would be if the hit rates were known.

K hits of n rows have a binomial distribution, written with the incomplete beta function so that a
fractional n (weights, clusters) needs no rounding: P(K >= k) = I_p(k, n - k + 1).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from monitor.counts import Floats
from monitor.inference.gaps import ROUNDING, GapTables

_HALVINGS = 24


def clopper_pearson(hits: Floats, n: Floats, tail: float) -> tuple[Floats, Floats]:
    """Exact binomial limits with ``tail`` of probability on each side; ``n`` may be fractional.

    >>> low, high = clopper_pearson(np.array([0.0]), np.array([10.0]), 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.0, 0.3085)
    """
    none, every = hits <= ROUNDING * n, hits >= n * (1 - ROUNDING)
    k = np.clip(hits, 0.0, n)
    low = np.where(none, 0.0, betaincinv(np.where(none, 1.0, k), n - k + 1, tail))
    high = np.where(every, 1.0, betaincinv(k + 1, np.where(every, 1.0, n - k), 1 - tail))
    return low, high


def _exceeds(k: Floats, n: Floats, p: Floats) -> Floats:
    """P(K >= k) for 0 < k < n + 1 (other k must be set by the caller)."""
    inside = np.clip(k, 1e-12, n + 1 - 1e-12)
    return np.asarray(betainc(inside, n - inside + 1, p), dtype=np.float64)


def stays_within(limit: npt.ArrayLike, n: Floats, score: Floats, rate: Floats) -> Floats:
    """F(x; n, c, p) = P(|K/n - c| < x) for K ~ Binomial(n, p); the arguments broadcast.

    A whole n has whole K; for a fractional n the incomplete beta function is taken as it is.
    """
    x = np.asarray(limit, dtype=np.float64)
    whole = np.abs(n - np.rint(n)) < 1e-6
    slack = ROUNDING * np.maximum(n, 1.0)
    over, under = n * (score + x), n * (score - x)
    over_step = np.where(whole, np.ceil(over - slack), over)
    under_step = np.where(whole, np.floor(under + slack), under)
    too_high = np.where(over_step > n, 0.0, np.where(over_step <= 0, 1.0, _exceeds(over_step, n, rate)))
    not_low = np.where(under_step < 0, 1.0, np.where(under_step >= n, 0.0, _exceeds(under_step + 1, n, rate)))
    return np.where(x <= 0, 0.0, np.clip(not_low - too_high, 0.0, 1.0))


def all_within(limit: npt.ArrayLike, n: Floats, score: Floats, rate: Floats) -> Floats:
    """P(MCE < x) = product of F over the bins (the last axis), for every x (another last axis)."""
    x = np.asarray(limit, dtype=np.float64)[..., None]
    return np.asarray(np.prod(stays_within(x, n, score, rate), axis=-1), dtype=np.float64)


def only_filled(tables: GapTables) -> GapTables:
    """One table (the first) as it is, without its empty bins."""
    filled = tables.share[0] > 0
    return GapTables(
        tables.n[:, filled], tables.score[:, filled], tables.gap[:, filled],
        tables.share[:, filled], tables.sign[:, filled],
    )  # fmt: skip


def largest_gap(table: GapTables) -> float:
    """The plug-in MCE of one table."""
    return float(np.abs(table.gap[0]).max(initial=0.0))


def point(table: GapTables) -> float:
    """The median-unbiased MCE e of one table whose bins are all filled.

    e = M - a with P(MCE >= M) = 1/2 if the gaps were max(0, |d| - a); 0 where even no gap at all
    reaches M in half of the cases.
    """
    n, score, gap, sign = table.n[0], table.score[0], table.gap[0], table.sign[0]
    largest = largest_gap(table)

    def seldom(error: float) -> bool:
        rate = np.clip(score + sign * np.maximum(0.0, np.abs(gap) - (largest - error)), 0.0, 1.0)
        return bool(1 - all_within(largest, n, score, rate) < 0.5)

    if not seldom(0.0):
        return 0.0
    low, high = 0.0, largest
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if seldom(middle) else (low, middle)
    return (low + high) / 2
