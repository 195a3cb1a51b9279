"""The distribution of the largest gap, the plug-in MCE, at given hit rates.

K hits of n rows have a binomial distribution, written with the incomplete beta function so that a
fractional n (weights, clusters) needs no rounding: P(K >= k) = I_p(k, n - k + 1).
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, betaincinv

from monitor.core.counts import Floats, Ints
from monitor.inference.gaps import ROUNDING, GapTables, each_at, with_gaps
from monitor.inference.search import crossing, scaled

_PRECISE = 1e-9  # standard errors
_WHOLE = 1e-6  # sums of weights are rounded


def clopper_pearson(hits: Floats, n: Floats, tail: Floats | float) -> tuple[Floats, Floats]:
    """Exact binomial limits with ``tail`` of probability on each side; ``n`` may be fractional.

    The arguments broadcast to one shape.

    >>> low, high = clopper_pearson(np.array([0.0]), np.array([10.0]), 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.0, 0.3085)
    """
    none, every = hits <= ROUNDING * n, hits >= n * (1 - ROUNDING)
    k = np.minimum(np.maximum(hits, 0.0), n)
    low = np.where(none, 0.0, betaincinv(np.where(none, 1.0, k), n - k + 1, tail))
    high = np.where(every, 1.0, betaincinv(k + 1, np.where(every, 1.0, n - k), 1 - np.asarray(tail)))
    return low, high


def strays(limit: Floats | float, n: Floats, score: Floats, rate: Floats) -> Floats:
    """P(|K/n - c| >= x) for K ~ Binomial(n, p), both tails with their digits; the arguments broadcast.

    For a whole n, K is whole; for a fractional n the incomplete beta function is used without rounding.

    >>> float(strays(0.3, np.array(2.0), np.array(0.5), np.array(0.5)))  # none or two hits of two
    0.5
    """
    slack, whole = ROUNDING * np.maximum(n, 1.0), np.abs(n - np.rint(n)) < _WHOLE
    over, under = n * (score + limit), n * (score - limit)
    more = np.where(whole, np.ceil(over - slack), over)
    few = np.where(whole, np.floor(under + slack), under) + 1
    k, j = np.minimum(np.maximum(more, 1e-9), n), np.minimum(np.maximum(few, 1.0), n)
    upper = np.where(more > n, 0.0, np.where(more <= 0, 1.0, betainc(k, n - k + 1, rate)))
    lower = np.where(few < 1, 0.0, np.where(few >= n + 1, 1.0, betainc(n - j + 1, j, 1 - rate)))
    return np.asarray(np.minimum(lower + upper, 1.0))


def stays_within(limit: Floats | float, n: Floats, score: Floats, rate: Floats) -> Floats:
    """F(x; n, c, p) = P(|K/n - c| < x) for K ~ Binomial(n, p); the arguments broadcast."""
    return np.asarray(1 - strays(limit, n, score, rate))


def largest_gap(table: GapTables) -> float:
    """The plug-in MCE of one table."""
    return float(np.abs(table.gap[0]).max(initial=0.0))


def points(tables: GapTables) -> Floats:
    """The median-unbiased MCE e of each table, shape (T,), all at once; empty bins do not count.

    e = M - a with P(MCE >= M) = 1/2 if the gaps were max(0, |d| - a); 0 where the MCE reaches M in
    half of the cases even without any gap.
    """
    largest = np.abs(tables.gap).max(axis=1, initial=0.0)
    empty = tables.share == 0

    def lead(position: Floats, which: Ints) -> Floats:
        part = each_at(tables, which)
        rate = with_gaps(part, np.maximum(np.abs(part.gap) + position[:, None], 0.0))
        within = stays_within(largest[which, None], part.n, part.score, rate)
        return -scaled(np.where(empty[which], 1.0, within).prod(axis=1))

    noise = 1 / np.sqrt(4 * np.where(empty, np.inf, tables.n).min(axis=1, initial=np.inf))
    position = crossing(lead, -largest, 2 * noise, near=_PRECISE)
    return np.asarray(np.maximum(largest + np.minimum(position, 0.0), 0.0))
