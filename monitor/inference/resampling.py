"""The bootstrap form of the ECE interval: the hits of each bin are drawn many times, quickly.

One Latin hypercube of uniforms serves every hypothesis about a table (common random numbers), so
that T moves smoothly along a path. A binomial quantile is a Cornish-Fisher expansion where the
variance is large and is read from the distribution function where it is not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Floats, Ints
from monitor.inference.binomial import together, whole
from monitor.inference.gaps import (
    EXACT_BELOW,
    ROUNDING,
    Curves,
    GapTables,
    each_at,
    hypothetical,
    position_of,
    realised,
    start_of,
)

_FIRST = 1 / 8  # of the noise: how far around the analytic answer the search begins,
_LAST = 1 / 32  # and how wide its bracket is at the end


class Resampling:
    """B draws of the hits of each bin of one table without empty bins, for many hit rates."""

    def __init__(self, table: GapTables, rng: np.random.Generator, resamples: int) -> None:
        self._rows, self._stretch = (part[:, None] for part in whole(table.n[0]))
        self._score, self._share = table.score[0][:, None], table.share[0]
        block = together(table.n[0])  # bins that have one independent row between them share their draws
        strata = np.tile(np.arange(resamples), (int(block[-1]) + 1, 1))
        rank = rng.permuted(strata, axis=1)
        ordered = (strata + rng.random(strata.shape)) / resamples
        self._ordered, self._rank = ordered[block], rank[block]
        self._normal = np.take_along_axis(ndtri(np.maximum(ordered, 1e-300)), rank, axis=1)[block]
        self._bend = (self._normal**2 - 1) / 6

    def errors(self, rate: Floats) -> Floats:
        """The plug-in ECEs of the draws with these hit rates (M,); shape (B,)."""
        n, p = self._rows, rate[:, None]
        variance = n * p * (1 - p)
        many = variance[:, 0] >= EXACT_BELOW
        hits = np.empty_like(self._normal)
        # ceil(np + sd Z + (1 - 2p)(Z^2 - 1)/6 - 1/2)
        middle, spread = (n * p - 0.5)[many], np.sqrt(variance[many])
        hits[many] = np.ceil(self._bend[many] * (1 - 2 * p[many]) + middle + spread * self._normal[many])
        if not many.all():
            self._read(hits, np.flatnonzero(~many), p[~many])
        drawn = np.minimum(np.maximum(p + self._stretch * (hits / n - p), 0), 1)
        return np.asarray(self._share @ np.abs(drawn - self._score))

    def _read(self, hits: Floats, bins: Ints, p: Floats) -> None:
        """Sets the hits (M, B) of these bins: the smallest k with P(K <= k) of at least each uniform."""
        n = self._rows[bins]
        wide = 9 * np.sqrt(n * p * (1 - p)) + 15
        first = np.maximum(np.floor(n * p - wide), 0.0)
        k = first + np.arange(int((np.minimum(np.ceil(n * p + wide), n) - first).max()) + 1)
        odds = np.log(np.maximum(p, 1e-300) / np.maximum(1 - p, 1e-300))
        steps = np.log(np.maximum(n - k[:, :-1], 1e-9) / k[:, 1:]) + odds
        chance = np.cumsum(np.hstack([np.zeros_like(p), steps]), axis=1)
        chance = np.exp(chance - chance.max(axis=1, keepdims=True))
        upper = np.cumsum(chance / chance.sum(axis=1, keepdims=True), axis=1)
        upper[:, -1] = 1.0
        for row, at in enumerate(bins.tolist()):
            hits[at] = k[row].take(np.searchsorted(upper[row], self._ordered[at])).take(self._rank[at])


def bootstrap_positions(questions: Curves, start: Floats, rng: np.random.Generator, resamples: int) -> Floats:
    """The positions at which T of *one* table's four questions reaches its target, (4,), searched from ``start`` (4,).

    The upper limit is the larger one of two paths, so the second path is only searched beyond the
    limit of the first.
    """
    tables = questions.tables
    noise = max(float(tables.noise[0]), ROUNDING)  # a step of 0 cannot be widened
    bound = start_of(tables, questions.uniform)
    error = realised(tables, hypothetical(tables, start, questions.uniform))
    resampling = of_point = Resampling(tables.filled(), rng, resamples)  # tables differ in their signs alone,
    if (tables.n[0] != tables.n[1]).any():  # that of the point also in its rows
        of_point = Resampling(each_at(tables, [1]).filled(), rng, resamples)
    found = np.empty(4)
    order = [0, 1, 2, 3] if error[2] >= error[3] else [0, 1, 3, 2]
    for row in order:
        if row == order[3]:
            # the position with the ECE that the first of both has at its own
            one, two = each_at(questions, [order[2]]), each_at(questions, [row])
            reached = realised(one.tables, hypothetical(one.tables, found[order[2] : order[2] + 1], one.uniform))
            bound[row] = position_of(two.tables, reached, two.uniform)[0]
        is_below = _is_below(each_at(questions, [row]), of_point if row == 1 else resampling)
        found[row] = _search(is_below, float(start[row]), noise, float(bound[row]))
    return found


def _is_below(question: Curves, resampling: Resampling) -> Callable[[float], bool]:
    """Whether T of one question is still below its target at a position on its path."""
    table, uniform, observed = question.tables.filled(), bool(question.uniform[0]), float(question.observed[0])

    def is_below(position: float) -> bool:
        error = resampling.errors(hypothetical(table, np.array([position]), uniform)[0])
        seen = error > observed + ROUNDING if question.strict[0] else error >= observed - ROUNDING
        return bool(np.count_nonzero(seen) < float(question.target[0]) * len(error))

    return is_below


def _search(is_below: Callable[[float], bool], start: float, noise: float, bound: float) -> float:
    """The position where T reaches the target: a bracket around ``start`` is widened to include it, then halved."""
    width = noise * _FIRST
    low = min(max(start - width, bound), 1.0)
    high = max(min(start + width, 1.0), low)
    while not is_below(low):
        if low <= bound:
            return bound
        low, high, width = max(low - width, bound), low, width * 2
    while high < 1.0 and is_below(high):
        low, high, width = high, min(high + width, 1.0), width * 2
    while high - low > noise * _LAST:
        middle = (low + high) / 2
        low, high = (middle, high) if is_below(middle) else (low, middle)
    return (low + high) / 2
