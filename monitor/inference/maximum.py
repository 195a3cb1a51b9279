"""The distribution of the largest gap, the plug-in MCE, at given hit rates.

K hits of n rows have a binomial distribution, written with the incomplete beta function so that a
fractional n (weights, clusters) needs no rounding: P(K >= k) = I_p(k, n - k + 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded at first use, and most commands never use them
from scipy.special import betainc, betaincinv, ndtri

from monitor.core.counts import Bools, Floats, Ints
from monitor.inference.gaps import ROUNDING, GapTables, crossing, with_gaps
from monitor.inference.search import scaled

_PRECISE = 1e-9  # standard errors
_WHOLE = 1e-6  # sums of weights are rounded
_FAR, _FEW = 8.0, 15.0  # standard deviations, and hits, that are summed up on either side of the mean
_WIDEST = 4_096  # the most numbers of hits tabulated for a bin; longer sums would grow with the rows
_AT_ONCE = 32  # bins summed up together: their arrays stay in the processor's cache
_MANY = 1000.0  # hits and misses from which a beta quantile is nearly normal


def clopper_pearson(hits: Floats, n: Floats, tail: Floats | float) -> tuple[Floats, Floats]:
    """Exact binomial limits with ``tail`` of probability on each side; ``n`` may be fractional.

    The arguments broadcast to one shape.

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
    """The beta quantile: scipy's ``betaincinv``, whose cost grows with the rows, or Newton steps for large a and b.

    The steps start from the Cornish-Fisher expansion, on the scale of normal quantiles, where the distribution
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
    """The numbers of hits that keep |K/n - c| below x: P(K >= k) minus P(K >= l); arrays of shape (2, ...).

    The first row is for the smallest such k, the second for the smallest l that is too large. ``a``
    and ``b`` are the incomplete beta function's arguments; where ``known``, the probability is 1 where
    ``certain`` and else 0, at any hit rate.
    """

    a: Floats
    b: Floats
    known: Bools
    certain: Bools

    def chance(self, rate: Floats) -> Floats:
        """P(|K/n - c| < x) at these hit rates."""
        reached = betainc(self.a, self.b, rate)
        np.copyto(reached, self.certain, where=self.known)
        return np.asarray(np.maximum(reached[0] - reached[1], 0.0))

    def take(self, rows: Ints) -> Bounds:
        """The bounds of these tables (the second axis)."""
        return Bounds(self.a[:, rows], self.b[:, rows], self.known[:, rows], self.certain[:, rows])


def bounds(limit: npt.ArrayLike, n: Floats, score: Floats) -> Bounds:
    """The numbers of hits that keep |K/n - c| below ``limit``, ready for many hit rates; the arguments broadcast.

    For a whole n, K is whole; for a fractional n the incomplete beta function is used without rounding.
    """
    x = np.asarray(limit, dtype=np.float64)
    rows = np.asarray(n, dtype=np.float64)
    slack = ROUNDING * np.maximum(rows, 1.0)
    over, under = rows * (score + x), rows * (score - x)
    high, low = np.ceil(over - slack), np.floor(under + slack)
    fractional = _fractional(rows)
    if fractional.any():
        high, low = np.where(fractional, over, high), np.where(fractional, under, low)
    certain = np.array([low < 0, high <= 0])
    known = certain | np.array([low >= rows, high > rows])
    a = np.where(known, 1.0, np.array([low + 1, high]))
    return Bounds(a, np.where(known, 1.0, rows + 1 - a), known, certain)


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """K ~ Binomial(n, p) of T tables of M bins, for many limits at the same hit rates; arrays of shape (T, M).

    ``first`` is the fewest hits that are tabulated, ``row`` where a bin's table begins in ``lower`` and ``upper``,
    which hold P(K < first + i) and P(K >= first + i), one bin after the other. Where more hits than misses are
    expected, misses are counted instead: ``score`` and ``rate`` are theirs. The part that is left out on either side,
    beyond eight standard deviations and fifteen hits, has a probability of about 1e-15.
    """

    n: Floats
    score: Floats
    rate: Floats
    first: Floats
    row: Ints
    lower: Floats
    upper: Floats

    def beyond(self, limit: Floats, which: Ints | slice = slice(None)) -> Floats:
        """P(|K/n - c| >= x) of the tables ``which`` at J limits each: (K, J) -> (K, J, M)."""
        n, score, first, row = (getattr(self, name)[which][:, None, :] for name in ("n", "score", "first", "row"))
        slack = ROUNDING * np.maximum(n, 1.0)
        centre, reach = n * score - first, n * limit[:, :, None]
        most = len(self.lower) // self.row.size - 1
        fewer = np.floor(centre - reach + slack) + 1
        more = np.ceil(centre + reach - slack)
        places = [(row + np.minimum(np.maximum(place, 0), most)).astype(np.intp) for place in (fewer, more)]
        found = np.minimum(self.lower[places[0]] + self.upper[places[1]], 1.0)
        for is_special, chance in ((_fractional, _beyond), (_too_wide, _tails)):
            table, bin_ = np.nonzero(is_special(self.n[which], self.rate[which]))
            if len(table):
                columns = [getattr(self, name)[which][table, bin_, None] for name in ("n", "score", "rate")]
                found[table, :, bin_] = chance(limit[table], *columns)
        return np.asarray(found)


def hits(n: Floats, score: Floats, rate: Floats) -> Hits:
    """The distribution functions of all bins, each summed up once. The arguments broadcast to one shape.

    From the ratios of neighbouring probabilities, (n - k + 1) p / (k (1 - p)): no logarithm, and both tails keep their
    digits. A fractional n has no whole hits, and very many rows have too many: there the incomplete beta function is
    evaluated at every limit.

    >>> one = np.array([[2.0]]), np.array([[0.5]]), np.array([[0.5]])
    >>> hits(*one).beyond(np.array([[0.3, 0.6]])).tolist()  # none or two hits of two
    [[[0.5], [0.0]]]
    """
    flipped = rate > 0.5
    score, rate = np.where(flipped, 1 - score, score), np.where(flipped, 1 - rate, rate)
    rows = np.where(_fractional(n) | _too_wide(n, rate), 1.0, np.rint(n))
    mean, wide = rows * rate, _reach(rows, rate)
    first = np.maximum(np.floor(mean - wide), 0.0)
    width = int((np.minimum(np.ceil(mean + wide), rows) - first).max(initial=0.0)) + 1
    lower, upper = np.zeros((2, n.size, width + 1))
    odds = (rate / (1 - rate)).reshape(-1, 1)
    for part in (slice(at, at + _AT_ONCE) for at in range(0, n.size, _AT_ONCE)):
        k = first.reshape(-1, 1)[part] + np.arange(width)
        k[:, 0] = 1.0  # the first probability is set below, and k may be 0
        ratio: Floats = (rows.reshape(-1, 1)[part] + 1) * odds[part] / k - odds[part]
        ratio[:, 0] = 1.0
        chance = np.cumprod(np.maximum(ratio, 0.0, out=ratio), axis=1, out=ratio)
        chance = np.divide(chance, chance.sum(axis=1, keepdims=True), out=chance)
        np.cumsum(chance, axis=1, out=lower[part, 1:])
        np.cumsum(chance[:, ::-1], axis=1, out=upper[part, -2::-1])
    row = (np.arange(n.size) * (width + 1)).reshape(n.shape)
    return Hits(n, score, rate, first, row, lower.ravel(), upper.ravel())


def _reach(n: Floats, rate: Floats) -> Floats:
    """The distance from the mean up to which numbers of hits are tabulated."""
    return np.asarray(_FAR * np.sqrt(n * rate * (1 - rate)) + _FEW)


def _fractional(n: Floats, _rate: Floats | None = None) -> Bools:
    return np.asarray(np.abs(n - np.rint(n)) >= _WHOLE)


def _too_wide(n: Floats, rate: Floats) -> Bools:
    return ~_fractional(n) & (2 * _reach(n, rate) > _WIDEST)


def _beyond(limit: Floats, n: Floats, score: Floats, rate: Floats) -> Floats:
    return np.asarray(1 - stays_within(limit, n, score, rate))


def _tails(limit: Floats, n: Floats, score: Floats, rate: Floats) -> Floats:
    """P(|K/n - c| >= x) for a whole n: each tail on its own, so that both keep their digits."""
    slack = ROUNDING * n
    fewer, more = np.floor(n * (score - limit) + slack) + 1, np.ceil(n * (score + limit) - slack)
    k, few = np.clip(more, 1, n), np.clip(fewer, 1, n)
    upper = np.where(more > n, 0.0, np.where(more <= 0, 1.0, betainc(k, n - k + 1, rate)))
    lower = np.where(fewer <= 0, 0.0, np.where(fewer > n, 1.0, betainc(n - few + 1, few, 1 - rate)))
    return np.asarray(np.minimum(lower + upper, 1.0))


def stays_within(limit: npt.ArrayLike, n: Floats, score: Floats, rate: Floats) -> Floats:
    """F(x; n, c, p) = P(|K/n - c| < x) for K ~ Binomial(n, p); the arguments broadcast.

    >>> float(stays_within(0.3, np.array(2.0), np.array(0.5), np.array(0.5)))  # one hit of two
    0.5
    """
    return bounds(limit, n, score).chance(rate)


def largest_gap(table: GapTables) -> float:
    """The plug-in MCE of one table."""
    return float(np.abs(table.gap[0]).max(initial=0.0))


def point(table: GapTables) -> float:
    """The median-unbiased MCE e of one table whose bins are all filled.

    e = M - a with P(MCE >= M) = 1/2 if the gaps were max(0, |d| - a); 0 where the MCE reaches M in
    half of the cases even without any gap.
    """
    size, score, sign = np.abs(table.gap[0]), table.score[0], table.sign[0]
    largest = largest_gap(table)
    ready = bounds(largest, table.n[0], score)

    def lead(error: float) -> float:
        gap = sign * np.maximum(size - (largest - error), 0.0)
        within = float(ready.chance(np.minimum(np.maximum(score + gap, 0.0), 1.0)).prod())
        return -float(scaled(np.array(within)))

    if lead(0.0) >= 0:
        return 0.0
    return largest if lead(largest) <= 0 else float(scipy.optimize.brentq(lead, 0.0, largest, xtol=1e-12))


def points(tables: GapTables) -> Floats:
    """The median-unbiased MCE of each table, shape (T,), all at once; empty bins do not count."""
    if len(tables.n) == 1:
        return np.array([point(tables.filled())])
    largest = np.abs(tables.gap).max(axis=1, initial=0.0)
    ready = bounds(largest[:, None], tables.n, tables.score)
    empty = tables.share == 0

    def lead(position: Floats, which: Ints) -> Floats:
        part = tables.take(which)
        rate = with_gaps(part, np.maximum(np.abs(part.gap) + position[:, None], 0.0))
        within = np.where(empty[which], 1.0, ready.take(which).chance(rate)).prod(axis=1)
        return -scaled(within)

    noise = 1 / np.sqrt(4 * np.where(empty, np.inf, tables.n).min(axis=1, initial=np.inf))
    position = crossing(lead, -largest, 2 * noise, near=_PRECISE)
    return np.asarray(np.maximum(largest + np.minimum(position, 0.0), 0.0))
