"""The bootstrap form of the ECE interval: each bin's hits drawn anew, many times, quickly.

One Latin hypercube of uniforms serves every hypothesis about a table (common random numbers), so
that T moves smoothly along a path. A binomial quantile is a Cornish-Fisher expansion where the
variance is large and an exact table where it is not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from monitor.counts import Bools, Floats
from monitor.inference.gaps import ROUNDING, Curves, GapTables, hypothetical, start_of

EXACT_BELOW = 50.0  # the variance n p (1 - p) under which the expansion is not trusted
HALVINGS = 6


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """A Latin hypercube of uniforms for one table of M bins; every array has shape (M, B).

    ``ordered`` holds each bin's uniforms in rising order (the b-th lies between b/B and (b+1)/B),
    ``rank`` where draw b stands in it, ``z`` the standard normal of draw b, ``skew`` its (z^2-1)/6.
    """

    ordered: Floats
    rank: npt.NDArray[np.intp]
    z: Floats
    skew: Floats


def latin_hypercube(rng: np.random.Generator, bins: int, resamples: int) -> Draws:
    """The uniforms of one table, from that table's own generator."""
    strata = np.tile(np.arange(resamples), (bins, 1))
    rank = rng.permuted(strata, axis=1)
    ordered = (strata + rng.random((bins, resamples))) / resamples
    z = np.take_along_axis(ndtri(np.maximum(ordered, 1e-300)), rank, axis=1)
    return Draws(ordered, rank, z, (z * z - 1) / 6)


def resampled(table: GapTables, rate: Floats, draws: Draws) -> Floats:
    """B plug-in ECEs of one table (all its bins filled, n whole) with hit rates ``rate`` (M,)."""
    n = table.n[0]
    exact = n * rate * (1 - rate) < EXACT_BELOW
    parts = np.empty_like(draws.z)
    parts[exact] = _by_table(table, rate, draws, exact)
    parts[~exact] = _by_expansion(table, rate, draws, ~exact)
    total: Floats = parts.sum(axis=0)
    return total


def _by_expansion(table: GapTables, rate: Floats, draws: Draws, rows: Bools) -> Floats:
    """w |K/n - c| with K = ceil(np + sd Z + (1 - 2p)(Z^2 - 1)/6 - 1/2), clipped to 0..n."""
    n, p = table.n[0, rows, None], rate[rows, None]
    hits = np.sqrt(n * p * (1 - p)) * draws.z[rows]
    hits += (1 - 2 * p) * draws.skew[rows]
    hits += n * p - 0.5
    np.ceil(hits, out=hits)
    np.clip(hits, 0.0, n, out=hits)
    hits /= n
    hits -= table.score[0, rows, None]
    np.abs(hits, out=hits)
    hits *= table.share[0, rows, None]
    return hits


def _by_table(table: GapTables, rate: Floats, draws: Draws, rows: Bools) -> Floats:
    """w |K/n - c| by the exact distribution function, tabulated from the rarer of hit and miss."""
    if not rows.any():
        return np.empty((0, draws.z.shape[1]))
    n, p = table.n[0, rows, None], rate[rows, None]
    upper, count = _distribution(n, p)
    flipped = p > 0.5
    hits = np.where(flipped, n - count, count)
    part = table.share[0, rows, None] * np.abs(hits / n - table.score[0, rows, None])
    # sorted draws up to each step of the distribution: those of the stratum it falls in need a look
    size = draws.z.shape[1]
    ordered = draws.ordered[rows]
    stratum = np.minimum((upper * size).astype(np.intp), size - 1)
    reached = stratum + (np.take_along_axis(ordered, stratum, axis=1) <= upper)
    times = np.diff(reached, axis=1, prepend=0)
    rising = np.repeat(part.ravel(), times.ravel()).reshape(ordered.shape)
    return np.take_along_axis(rising, draws.rank[rows], axis=1)


def _distribution(n: Floats, p: Floats) -> tuple[Floats, Floats]:
    """(P(K <= k), number of the rarer outcome) in rising order of hits k, each of shape (M, W)."""
    rare = np.minimum(p, 1 - p)
    mean = n * rare
    width = int(np.ceil((mean + 9 * np.sqrt(mean) + 15).max()))
    k = np.arange(width, dtype=np.float64)
    ratio = np.ones((len(n), width))
    ratio[:, 1:] = (n - k[:-1]) / k[1:] * (rare / (1 - rare))
    ratio[:, :1] = np.exp(n * np.log1p(-rare))
    below = np.minimum(np.cumsum(np.cumprod(np.maximum(ratio, 0.0), axis=1), axis=1), 1.0)
    below[:, -1] = 1.0
    # hits rise where the misses, the rarer outcome there, fall: P(K <= n - j) = 1 - P(misses <= j - 1)
    above = 1.0 - np.concatenate([np.zeros((len(n), 1)), below[:, :-1]], axis=1)
    flipped = p > 0.5
    upper = np.where(flipped, above[:, ::-1], below)
    return np.maximum.accumulate(upper, axis=1), np.where(flipped, k[::-1], k)


def whole_rows(table: GapTables) -> GapTables:
    """One table (the first) without empty bins and with whole numbers of rows, at least 1."""
    filled = table.share[0] > 0
    n = np.maximum(np.rint(table.n[:, filled]), 1.0)
    return GapTables(n, table.score[:, filled], table.gap[:, filled], table.share[:, filled], table.sign[:, filled])


def bootstrap_positions(asked: Curves, start: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The answering positions of *one* table's questions, shape (4,), sought around ``start`` (4,)."""
    first = whole_rows(asked.tables.take([0]))
    draws = latin_hypercube(rng, first.n.shape[1], resamples)
    bound = start_of(asked.tables, asked.uniform)
    found = np.empty(len(start))
    for row in range(len(start)):
        question = _Question(asked.take([row]), draws)
        found[row] = question.search(float(start[row]), float(first.noise[0]), float(bound[row]))
    return found


class _Question:
    """One limit of one table: at which position does T reach the target?"""

    def __init__(self, asked: Curves, draws: Draws) -> None:
        self._table = whole_rows(asked.tables)
        self._draws = draws
        self._asked = asked
        self._target = float(asked.target[0])
        self._observed = float(asked.observed[0])

    def short(self, position: float) -> bool:
        """Whether T is still below the target there."""
        rate = hypothetical(self._table, np.array([position]), self._asked.uniform)[0]
        error = resampled(self._table, rate, self._draws)
        seen = error > self._observed + ROUNDING if self._asked.strict[0] else error >= self._observed - ROUNDING
        return bool(np.count_nonzero(seen) < self._target * len(error))

    def search(self, start: float, step: float, bound: float) -> float:
        """The position: ``start`` -+ ``step``, widened until it holds the answer, halved."""
        step = max(step, ROUNDING)  # nothing widens a step of 0
        low, high = max(start - step, bound), min(start + step, 1.0)
        width = step
        while not self.short(low):
            if low <= bound:
                return bound
            low, high, width = max(low - width, bound), low, width * 2
        width = step
        while high < 1.0 and self.short(high):
            low, high, width = high, min(high + width, 1.0), width * 2
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.short(middle) else (low, middle)
        return (low + high) / 2
