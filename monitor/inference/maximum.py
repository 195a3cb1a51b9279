"""The distribution of the largest gap: what the MCE would be if the hit rates were known.

K hits of n rows have a binomial distribution, written with the incomplete beta function so that a
fractional n (weights, clusters) needs no rounding: P(K >= k) = I_p(k, n - k + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import betainc, betaincinv, ndtri

from monitor.counts import Bools, Floats, Ints
from monitor.inference.gaps import ROUNDING, GapTables, crossing, with_gaps

_PRECISE = 1e-9  # standard errors
_LEAST = 1e-15
_MANY = 1000.0  # hits and misses from which a beta quantile is nearly normal


def clopper_pearson(hits: Floats, n: Floats, tail: Floats | float) -> tuple[Floats, Floats]:
    """Exact binomial limits with ``tail`` of probability on each side; ``n`` may be fractional.

    >>> low, high = clopper_pearson(np.array([0.0]), np.array([10.0]), 0.025)
    >>> round(float(low[0]), 4), round(float(high[0]), 4)
    (0.0, 0.3085)
    """
    none, every = hits <= ROUNDING * n, hits >= n * (1 - ROUNDING)
    k = np.minimum(np.maximum(hits, 0.0), n)
    low = np.where(none, 0.0, _beta_quantile(np.where(none, 1.0, k), n - k + 1, tail))
    high = np.where(every, 1.0, _beta_quantile(k + 1, np.where(every, 1.0, n - k), 1 - np.asarray(tail)))
    return low, high


def _beta_quantile(a: npt.ArrayLike, b: npt.ArrayLike, tail: npt.ArrayLike) -> Floats:
    """scipy's ``betaincinv``, whose cost grows with the rows; where a and b are large, Newton steps instead.

    They start from the Cornish-Fisher expansion, on the scale of normal quantiles, where the distribution
    function is nearly a line: the error is below 1e-9 standard errors.
    """
    a, b, tail = (np.asarray(each, dtype=np.float64) for each in np.broadcast_arrays(a, b, tail))
    many = np.minimum(a, b) >= _MANY
    found = np.empty(a.shape)
    found[~many] = betaincinv(a[~many], b[~many], tail[~many])
    a, b, z = a[many], b[many], ndtri(tail[many])
    total, mean = a + b, a / (a + b)
    sd = np.sqrt(mean * (1 - mean) / (total + 1))
    skew = 2 * (b - a) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(a * b))
    at, slope = mean + sd * (z + skew * (z * z - 1) / 6), sd * (1 + skew * z / 3)
    for _ in range(3):
        at = at - (ndtri(betainc(a, b, at)) - z) * slope
    found[many] = at
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Bounds:
    """Which numbers of hits keep |K/n - c| below x: P(K >= k) less P(K >= l); arrays of shape (2, ...).

    The first row is of the smallest such k, the second of the smallest l that is too large. ``a``
    and ``b`` are the incomplete beta function's arguments; where ``known``, the probability is
    ``sure`` (one or none) whatever the hit rate.
    """

    a: Floats
    b: Floats
    known: Bools
    sure: Bools

    def chance(self, rate: Floats) -> Floats:
        """P(|K/n - c| < x) at these hit rates."""
        reached = betainc(self.a, self.b, rate)
        np.copyto(reached, self.sure, where=self.known)
        return np.asarray(np.maximum(reached[0] - reached[1], 0.0))

    def take(self, rows: Ints) -> Bounds:
        """Those of some tables, where the shape is (2, T, M)."""
        return Bounds(self.a[:, rows], self.b[:, rows], self.known[:, rows], self.sure[:, rows])

    def column(self, index: int) -> Bounds:
        """Those of one bin, the last axis."""
        return Bounds(self.a[..., index], self.b[..., index], self.known[..., index], self.sure[..., index])


def bounds(limit: npt.ArrayLike, n: Floats, score: Floats) -> Bounds:
    """The hits of which :func:`stays_within` speaks, ready for many hit rates; the arguments broadcast.

    A whole n has whole K; for a fractional n the incomplete beta function is taken as it is.
    """
    x = np.asarray(limit, dtype=np.float64)
    rows = np.asarray(n, dtype=np.float64)
    slack = ROUNDING * np.maximum(rows, 1.0)
    over, under = rows * (score + x), rows * (score - x)
    high, low = np.ceil(over - slack), np.floor(under + slack)
    fractional = np.abs(rows - np.rint(rows)) >= 1e-6
    if fractional.any():
        high, low = np.where(fractional, over, high), np.where(fractional, under, low)
    sure = np.array([low < 0, high <= 0])
    known = sure | np.array([low >= rows, high > rows])
    a = np.where(known, 1.0, np.array([low + 1, high]))
    return Bounds(a, np.where(known, 1.0, rows + 1 - a), known, sure)


def stays_within(limit: npt.ArrayLike, n: Floats, score: Floats, rate: Floats) -> Floats:
    """F(x; n, c, p) = P(|K/n - c| < x) for K ~ Binomial(n, p); the arguments broadcast.

    >>> float(stays_within(0.3, np.array(2.0), np.array(0.5), np.array(0.5)))  # one hit of two
    0.5
    """
    return bounds(limit, n, score).chance(rate)


def all_within(limit: npt.ArrayLike, n: Floats, score: Floats, rate: Floats) -> Floats:
    """P(MCE < x) = product of F over the bins (the last axis), for every x (another last axis)."""
    x = np.asarray(limit, dtype=np.float64)[..., None]
    return np.asarray(stays_within(x, n, score, rate).prod(axis=-1))


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
    size, score, sign = np.abs(table.gap[0]), table.score[0], table.sign[0]
    largest = largest_gap(table)
    ready = bounds(largest, table.n[0], score)

    def lead(error: float) -> float:
        gap = sign * np.maximum(size - (largest - error), 0.0)
        within = float(ready.chance(np.minimum(np.maximum(score + gap, 0.0), 1.0)).prod())
        return -float(ndtri(min(max(within, _LEAST), 1 - _LEAST)))

    if lead(0.0) >= 0:
        return 0.0
    return largest if lead(largest) <= 0 else float(brentq(lead, 0.0, largest, xtol=1e-12))


def points(tables: GapTables) -> Floats:
    """The same of each table, shape (T,), worked out together; empty bins do not count."""
    if len(tables.n) == 1:
        return np.array([point(only_filled(tables))])
    largest = np.abs(tables.gap).max(axis=1, initial=0.0)
    ready = bounds(largest[:, None], tables.n, tables.score)
    empty = tables.share == 0

    def lead(position: Floats, which: Ints) -> Floats:
        asked = tables.take(which)
        rate = with_gaps(asked, np.maximum(np.abs(asked.gap) + position[:, None], 0.0))
        within = np.where(empty[which], 1.0, ready.take(which).chance(rate)).prod(axis=1)
        return np.asarray(-ndtri(np.clip(within, _LEAST, 1 - _LEAST)))

    noise = 1 / np.sqrt(4 * np.where(empty, np.inf, tables.n).min(axis=1, initial=np.inf))
    position = crossing(lead, -largest, 2 * noise, near=_PRECISE)
    return np.asarray(np.maximum(largest + np.minimum(position, 0.0), 0.0))
