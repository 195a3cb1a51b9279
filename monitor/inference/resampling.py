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

from monitor.core.counts import Bools, Floats, Ints
from monitor.inference.binomial import together, whole
from monitor.inference.gaps import (
    EXACT_BELOW,
    ROUNDING,
    Curves,
    GapTables,
    hypothetical,
    position_of,
    realised,
    start_of,
)

_FIRST = 1 / 8  # of the noise: how far around the analytic answer the search begins,
_LAST = 1 / 32  # and how wide its bracket is at the end


@dataclass(frozen=True, slots=True, eq=False)
class UniformDraws:
    """A Latin hypercube of uniforms for one table of M bins; every array has shape (M, B).

    ``ordered`` holds each bin's uniforms in rising order (the b-th lies between b/B and (b+1)/B),
    ``rank`` the place of draw b in it, ``z`` the standard normal of draw b, ``skew`` its (z^2-1)/6.
    """

    ordered: Floats
    rank: npt.NDArray[np.intp]
    z: Floats
    skew: Floats

    @property
    def place(self) -> npt.NDArray[np.intp]:
        """The place of draw b of each bin when all bins are written one after the other, shape (M, B)."""
        bins, size = self.rank.shape
        return np.asarray(self.rank + size * np.arange(bins)[:, None])

    def take(self, bins: Bools | Ints) -> UniformDraws:
        """The draws of some bins."""
        return UniformDraws(self.ordered[bins], self.rank[bins], self.z[bins], self.skew[bins])


def latin_hypercube(rng: np.random.Generator, bins: int, resamples: int) -> UniformDraws:
    """The uniforms of one table, from that table's own generator."""
    strata = np.tile(np.arange(resamples), (bins, 1))
    rank = rng.permuted(strata, axis=1)
    ordered = (strata + rng.random((bins, resamples))) / resamples
    z = np.take_along_axis(ndtri(np.maximum(ordered, 1e-300)), rank, axis=1)
    return UniformDraws(ordered, rank, z, (z * z - 1) / 6)


def resampled(table: GapTables, rate: Floats, draws: UniformDraws) -> Floats:
    """B plug-in ECEs of one table (all its bins filled) with hit rates ``rate`` (M,)."""
    rows, stretch = whole(table.n[0])
    exact = rows * rate * (1 - rate) < EXACT_BELOW
    total = np.zeros(draws.z.shape[1])
    for chosen, part in ((exact, _by_table), (~exact, _by_expansion)):
        if chosen.any():
            columns = (rows, rate, stretch, table.score[0], table.share[0])
            n, p, r, c, w = (column[chosen, None] for column in columns)
            total += part(n, p, r, c, w, draws if chosen.all() else draws.take(chosen))
    return total


def _by_expansion(n: Floats, p: Floats, r: Floats, c: Floats, w: Floats, draws: UniformDraws) -> Floats:
    """sum of w |p + r (K/n - p) - c| with K = ceil(np + sd Z + (1 - 2p)(Z^2 - 1)/6 - 1/2).

    No K needs to be clipped to 0..n: at a variance of 50 both ends are seven standard deviations away.
    """
    hits = draws.skew * (1 - 2 * p)
    hits += n * p - 0.5
    hits += np.sqrt(n * p * (1 - p)) * draws.z
    np.ceil(hits, out=hits)
    hits -= n * (p + (c - p) / r)
    np.abs(hits, out=hits)
    return np.asarray((w * r / n)[:, 0] @ hits)


def _by_table(n: Floats, p: Floats, r: Floats, c: Floats, w: Floats, draws: UniformDraws) -> Floats:
    """The sum of w |p + r (K/n - p) - c| with K from the exact distribution function of the rarer of hit and miss."""
    upper, count = _distribution(n, p)
    hits = np.where(p > 0.5, n - count, count)
    part = w * np.abs(np.clip(hits / n if (r == 1).all() else p + r * (hits / n - p), 0, 1) - c)
    # sorted draws up to each step of the distribution: those of the stratum it falls in need a look
    size = draws.z.shape[1]
    stratum = np.minimum((upper * size).astype(np.intp), size - 1)
    reached = stratum + (np.take_along_axis(draws.ordered, stratum, axis=1) <= upper)
    times = np.diff(reached, axis=1, prepend=0)
    rising = np.repeat(part.ravel(), times.ravel())
    return np.asarray(rising[draws.place].sum(axis=0))


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


def bootstrap_positions(asked: Curves, start: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The positions at which T of *one* table's four questions reaches its target, (4,), searched from ``start`` (4,).

    The upper limit is the larger one of two paths, so that the second path is only asked whether it
    reaches further than the first.
    """
    tables = asked.tables
    draws = _draws(tables.filled().n[0], rng, resamples)
    noise = max(float(tables.noise[0]), ROUNDING)  # nothing widens a step of 0
    bound = start_of(tables, asked.uniform)
    error = realised(tables, hypothetical(tables, start, asked.uniform))
    order = [0, 1, 2, 3] if error[2] >= error[3] else [0, 1, 3, 2]
    found = np.empty(4)
    for row in order:
        if row == order[3]:
            bound[row] = _as_far(asked, order[2], float(found[order[2]]), row)
        found[row] = _Question(asked.take([row]), draws).search(float(start[row]), noise, float(bound[row]))
    return found


def _draws(n: Floats, rng: np.random.Generator, resamples: int) -> UniformDraws:
    """One row of draws for each bin, the same one for bins that hold less than one row together."""
    block = together(n)
    draws = latin_hypercube(rng, int(block[-1]) + 1, resamples)
    return draws if len(draws.z) == len(n) else draws.take(block)


def _as_far(asked: Curves, row: int, position: float, other: int) -> float:
    """The position of question ``other`` with the ECE that question ``row`` has at ``position``."""
    one, two = asked.take([row]), asked.take([other])
    error = realised(one.tables, hypothetical(one.tables, np.array([position]), one.uniform))
    return float(position_of(two.tables, error, two.uniform)[0])


class _Question:
    """One limit of one table: at which position does T reach the target?"""

    def __init__(self, asked: Curves, draws: UniformDraws) -> None:
        self._table = asked.tables.filled()
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

    def search(self, start: float, noise: float, bound: float) -> float:
        """The position: a bracket around ``start`` is widened until it holds the position, then halved."""
        width = noise * _FIRST
        low = min(max(start - width, bound), 1.0)
        high = max(min(start + width, 1.0), low)
        while not self.short(low):
            if low <= bound:
                return bound
            low, high, width = max(low - width, bound), low, width * 2
        while high < 1.0 and self.short(high):
            low, high, width = high, min(high + width, 1.0), width * 2
        while high - low > noise * _LAST:
            middle = (low + high) / 2
            low, high = (middle, high) if self.short(middle) else (low, middle)
        return (low + high) / 2
