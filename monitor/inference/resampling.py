"""The bootstrap form of the ECE interval: the hits of each bin are drawn many times, quickly.

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

    ``ordered`` holds each bin's uniforms in rising order (the b-th lies between b/B and (b+1)/B), ``rank`` the place of
    draw b in it.
    """

    ordered: Floats
    rank: npt.NDArray[np.intp]

    @property
    def normal(self) -> Floats:
        """The standard normal Z of draw b."""
        return np.take_along_axis(ndtri(np.maximum(self.ordered, 1e-300)), self.rank, axis=1)

    def take(self, bins: Bools | Ints) -> UniformDraws:
        """The draws of some bins."""
        return UniformDraws(self.ordered[bins], self.rank[bins])


def latin_hypercube(rng: np.random.Generator, bins: int, resamples: int) -> UniformDraws:
    """The uniforms of one table, from that table's own generator."""
    strata = np.tile(np.arange(resamples), (bins, 1))
    rank = rng.permuted(strata, axis=1)
    return UniformDraws((strata + rng.random((bins, resamples))) / resamples, rank)


class Resampling:
    """The draws of one table without empty bins, for many hit rates: what does not depend on these is made once."""

    def __init__(self, table: GapTables, draws: UniformDraws) -> None:
        self._columns = (*whole(table.n[0]), table.score[0], table.share[0])
        self._rows = self._columns[0]
        self._draws = draws
        self._normal: Floats | None = None
        self._ready: dict[bytes, list[tuple[Bools, _Expansion | _Exact]]] = {}

    def errors(self, rate: Floats) -> Floats:
        """The plug-in ECEs of B draws of the hits of each bin with these hit rates (M,)."""
        exact = self._rows * rate * (1 - rate) < EXACT_BELOW
        ready = self._ready.get(exact.tobytes())
        if ready is None:
            ready = self._ready[exact.tobytes()] = self._parts(exact)
        first, *rest = [part.errors(rate[chosen, None]) for chosen, part in ready]
        return first + rest[0] if rest else first

    def _parts(self, exact: Bools) -> list[tuple[Bools, _Expansion | _Exact]]:
        """The bins whose hits have an exact table, and those with an expansion."""
        found: list[tuple[Bools, _Expansion | _Exact]] = []
        if exact.any():
            found.append((exact, _Exact(*self._of(exact), self._draws.take(exact))))
        if not exact.all():
            if self._normal is None:
                self._normal = self._draws.normal
            found.append((~exact, _Expansion(*self._of(~exact), self._normal[~exact])))
        return found

    def _of(self, chosen: Bools) -> tuple[Floats, Floats, Floats, Floats]:
        n, stretch, score, share = (column[chosen, None] for column in self._columns)
        return n, stretch, score, share


class _Expansion:
    """Bins of many rows: sum of w |p + r (K/n - p) - c| with K = ceil(np + sd Z + (1 - 2p)(Z^2 - 1)/6 - 1/2).

    K need not be clipped to 0..n: at a variance of 50 both ends are seven standard deviations away.
    """

    def __init__(self, n: Floats, r: Floats, c: Floats, w: Floats, z: Floats) -> None:
        self._n, self._r, self._c = n, r, c
        self._weight = (w * r / n)[:, 0]
        self._z, self._skew = z, (z * z - 1) / 6
        self._hits, self._spread = np.empty((2, *z.shape))

    def errors(self, p: Floats) -> Floats:
        """The part of these bins in the ECE of each draw, (B,), with hit rates ``p`` (M, 1)."""
        n, hits = self._n, self._hits
        np.multiply(self._skew, 1 - 2 * p, out=hits)
        hits += n * p - 0.5
        hits += np.multiply(np.sqrt(n * p * (1 - p)), self._z, out=self._spread)
        np.ceil(hits, out=hits)
        hits -= n * (p + (self._c - p) / self._r)
        np.abs(hits, out=hits)
        return np.asarray(self._weight @ hits)


class _Exact:
    """Bins of few rows: the sum of w |p + r (K/n - p) - c| with K from the exact distribution function."""

    def __init__(self, n: Floats, r: Floats, c: Floats, w: Floats, draws: UniformDraws) -> None:
        self._n, self._r, self._c, self._w = n, r, c, w
        self._plain = bool((r == 1).all())
        bins, self._size = draws.rank.shape
        # where each bin begins in the flat arrays
        self._first: npt.NDArray[np.intp] = self._size * np.arange(bins)[:, None]
        self._ordered, self._place = draws.ordered.ravel(), draws.rank + self._first

    def errors(self, p: Floats) -> Floats:
        """The part of these bins in the ECE of each draw, (B,), with hit rates ``p`` (M, 1)."""
        upper, hits = _distribution(self._n, p)
        share = hits / self._n
        rate = share if self._plain else p + self._r * (share - p)
        part = self._w * np.abs(np.minimum(np.maximum(rate, 0), 1) - self._c)
        # counts the sorted draws up to each step of the distribution: only the draw of its stratum must be compared
        stratum = np.minimum((upper * self._size).astype(np.intp), self._size - 1)
        times = stratum + (self._ordered.take(stratum + self._first) <= upper)
        times[:, 1:] -= times[:, :-1].copy()
        rising = np.repeat(part.ravel(), times.ravel())
        return np.asarray(rising.take(self._place).sum(axis=0))


def _distribution(n: Floats, p: Floats) -> tuple[Floats, Floats]:
    """(P(K <= k), k) in rising order of hits k, each of shape (M, W); computed for the rarer of hit and miss."""
    flipped = p[:, 0] > 0.5
    rare = np.minimum(p, 1 - p)
    mean = n * rare
    width = int(np.ceil((mean + 9 * np.sqrt(mean) + 15).max()))
    k = np.arange(width, dtype=np.float64)
    ratio = np.empty((len(n), width))
    np.multiply((n - k[:-1]) / k[1:], rare / (1 - rare), out=ratio[:, 1:])
    ratio[:, :1] = np.exp(n * np.log1p(-rare))
    np.maximum(ratio, 0.0, out=ratio)
    upper = np.minimum(np.cumsum(np.cumprod(ratio, axis=1, out=ratio), axis=1), 1.0)
    upper[:, -1] = 1.0
    hits = np.empty_like(upper)
    hits[:] = k
    if flipped.any():
        # hits rise where the misses, the rarer outcome there, fall: P(K <= n - j) = 1 - P(misses <= j - 1)
        upper[flipped, :-1] = np.maximum.accumulate(1.0 - upper[flipped, -2::-1], axis=1)
        hits[flipped] = n[flipped] - k[::-1]
        upper[flipped, -1] = 1.0
    return upper, hits


def bootstrap_positions(questions: Curves, start: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The positions at which T of *one* table's four questions reaches its target, (4,), searched from ``start`` (4,).

    The upper limit is the larger one of two paths, so the second path is only searched beyond the
    limit of the first.
    """
    tables = questions.tables
    noise = max(float(tables.noise[0]), ROUNDING)  # a step of 0 cannot be widened
    bound = start_of(tables, questions.uniform)
    error = realised(tables, hypothetical(tables, start, questions.uniform))
    order = [0, 1, 2, 3] if error[2] >= error[3] else [0, 1, 3, 2]
    found = np.empty(4)
    four = _Questions(questions, rng, resamples)
    for row in order:
        if row == order[3]:
            bound[row] = _as_far(questions, order[2], float(found[order[2]]), row)
        found[row] = four.search(row, float(start[row]), noise, float(bound[row]))
    return found


def _draws(n: Floats, rng: np.random.Generator, resamples: int) -> UniformDraws:
    """One row of draws for each bin; bins that have one independent row between them share it."""
    block = together(n)
    draws = latin_hypercube(rng, int(block[-1]) + 1, resamples)
    return draws if len(draws.rank) == len(n) else draws.take(block)


def _as_far(questions: Curves, row: int, position: float, other: int) -> float:
    """The position of question ``other`` with the ECE that question ``row`` has at ``position``."""
    one, two = questions.take([row]), questions.take([other])
    error = realised(one.tables, hypothetical(one.tables, np.array([position]), one.uniform))
    return float(position_of(two.tables, error, two.uniform)[0])


class _Questions:
    """The four questions about one table: at which position does T reach its target? All use the same draws."""

    def __init__(self, questions: Curves, rng: np.random.Generator, resamples: int) -> None:
        table = questions.tables.filled()  # the four tables differ in their signs alone
        self._resampling = Resampling(table, _draws(table.n[0], rng, resamples))
        self._signs = questions.tables.sign[:, questions.tables.share[0] > 0]
        self._size, self._pace, self._score = np.abs(table.gap[0]), table.pace[0], table.score[0]
        self._uniform, self._strict = questions.uniform.tolist(), questions.strict.tolist()
        self._target, self._observed = questions.target.tolist(), questions.observed.tolist()

    def _rate(self, row: int, position: float) -> Floats:
        """The hit rates (M,) at a position on the path of a question, as ``gaps.hypothetical`` has them."""
        if self._uniform[row]:
            moved: Floats | float = self._signs[row] * position
        else:
            gap = self._size + position * (self._pace if position < 0 else 1.0)
            moved = self._signs[row] * np.maximum(gap, 0.0)
        return np.asarray(np.minimum(np.maximum(self._score + moved, 0.0), 1.0))

    def is_below_target(self, row: int, position: float) -> bool:
        """Whether T is still below the target of question ``row`` at ``position``."""
        error, observed = self._resampling.errors(self._rate(row, position)), self._observed[row]
        seen = error > observed + ROUNDING if self._strict[row] else error >= observed - ROUNDING
        return bool(np.count_nonzero(seen) < self._target[row] * len(error))

    def search(self, row: int, start: float, noise: float, bound: float) -> float:
        """The position where T reaches the target: a bracket around ``start`` is widened to include it, then halved."""
        width = noise * _FIRST
        low = min(max(start - width, bound), 1.0)
        high = max(min(start + width, 1.0), low)
        while not self.is_below_target(row, low):
            if low <= bound:
                return bound
            low, high, width = max(low - width, bound), low, width * 2
        while high < 1.0 and self.is_below_target(row, high):
            low, high, width = high, min(high + width, 1.0), width * 2
        while high - low > noise * _LAST:
            middle = (low + high) / 2
            low, high = (middle, high) if self.is_below_target(row, middle) else (low, middle)
        return (low + high) / 2
