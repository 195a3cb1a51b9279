"""The distribution of the largest gap, the plug-in MCE, at given hit rates.

K hits of n rows have a binomial distribution, written with the incomplete beta function so that a
fractional n (weights, clusters) needs no rounding: P(K >= k) = I_p(k, n - k + 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, betaincinv

from monitor.core.counts import BinCounts, Bools, Floats, Ints
from monitor.inference.bins import pool_bins
from monitor.inference.gaps import ROUNDING, GapTables, each_at, stack, with_gaps
from monitor.inference.search import crossing, scaled

CELLS = 48
_PRECISE = 1e-9  # standard errors
_WHOLE = 1e-6  # sums of weights are rounded

Pair = tuple[BinCounts, BinCounts]
"""A window and its baseline, in the same (merged) bins."""


def clopper_pearson(hits: npt.ArrayLike, misses: npt.ArrayLike, tail: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Exact binomial limits with ``tail`` of probability on each side; hits and misses may be fractional.

    The arguments broadcast to one shape.

    >>> low, high = clopper_pearson(0.0, 10.0, 0.025)
    >>> float(low), round(float(high), 4)
    (0.0, 0.3085)
    """
    k, rest, tail = np.maximum(hits, 0.0), np.maximum(misses, 0.0), np.asarray(tail)
    none, every = (part <= ROUNDING * (k + rest) for part in (k, rest))
    low = np.where(none, 0.0, betaincinv(np.where(none, 1.0, k), rest + 1, tail))
    return low, np.where(every, 1.0, betaincinv(k + 1, np.where(every, 1.0, rest), 1 - tail))


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


# --- the change between two windows in which nothing changed


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """T pairs of windows with the same gaps: the window's bins (T, M), J values of the baseline's MCE each (T, J).

    A bin that is not ``filled``, since only one window has it, has one row without a hit at a score of 0, and so no
    gap. ``error`` (T,) is the largest gap; ``middle`` and ``mass`` are the values of the baseline's plug-in MCE and
    their probabilities.
    """

    n: Floats
    score: Floats
    rate: Floats
    filled: Bools
    error: Floats
    middle: Floats
    mass: Floats

    def chance(self, change: Floats) -> Floats:
        """The probability of at least the ``change`` of every pair: (T,) -> (T,); also a small one has its digits."""
        limit = (change[:, None] + self.middle)[:, :, None]
        beyond = strays(limit, *(part[:, None, :] for part in (self.n, self.score, self.rate)))
        with np.errstate(divide="ignore"):  # a bin that is certainly beyond
            any_beyond = -np.expm1(np.log1p(-beyond).sum(axis=2))
        return np.asarray(np.minimum((self.mass * any_beyond).sum(axis=1), 1.0))


def unchanged(pairs: Sequence[Pair], cells: int = CELLS) -> Unchanged:
    """The pairs of (merged) windows if both windows of each had the debiased gaps of their pooled rows.

    The baseline's MCE has one value for each of so many ``cells``.
    """
    pooled = stack([pool_bins([window, baseline]) for window, baseline in pairs])
    now, then = (stack([pair[place] for pair in pairs]) for place in (0, 1))
    filled, error = (now.share > 0) & (then.share > 0), points(pooled)
    gap = np.where(filled, _common_gaps(pooled, error), 0.0)
    bins = []
    for table in (now, then):
        n, score = np.where(filled, table.n, 1.0), np.where(filled, table.score, 0.0)
        bins.append((n, score, np.where(filled, np.minimum(np.maximum(score + gap, 0.0), 1.0), 0.0)))
    n, _, rate = bins[1]
    top = np.where(filled, np.abs(gap) + 5 * np.sqrt(rate * (1 - rate) / n), 0.0).max(axis=1, initial=0.0)
    edges = np.linspace(0.0, top, cells + 1, axis=1)
    within = (1 - strays(edges[:, :, None], *(part[:, None, :] for part in bins[1]))).prod(axis=2)
    mass = np.diff(within, axis=1, append=1.0)
    middle = np.concatenate([(edges[:, 1:] + edges[:, :-1]) / 2, edges[:, -1:]], axis=1)
    return Unchanged(*bins[0], filled, error, middle, mass)


def _common_gaps(pooled: GapTables, error: Floats) -> Floats:
    """The signed gaps (T, M) of tables if their MCE is ``error`` (T,), the largest ones nearly alike.

    All are shrunk by the same amount, which leaves their noise in them: one bin then differs more than it
    does in truth, while the largest of several similar gaps is biased upwards. So each gap is increased by
    one standard error, up to ``error``. Without this the level of .05 was .053 on average.
    """
    size = np.abs(pooled.gap)
    shrunk = np.maximum(0.0, size - (size.max(axis=1, initial=0.0) - error)[:, None])
    rate = np.minimum(np.maximum(pooled.score + pooled.sign * shrunk, 0.0), 1.0)
    return np.asarray(pooled.sign * np.minimum(shrunk + np.sqrt(rate * (1 - rate) / pooled.n), error[:, None]))
