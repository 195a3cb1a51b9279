"""The noise that the rows of one cluster share: an upper limit of the ECE that holds wherever these rows lie.

A design effect is measured for a label as a whole: it says how uncertain the *sum* of its residuals is, not in
which bins. To divide every bin's rows by it assumes that the noise of each bin is independent of the others'.
That is one extreme. Where the rows of one cluster lie in many bins, bins are right or wrong together, and each
bin alone is much less noisy than assumed. The plug-in ECE is then less noisy than expected, the table looks
better than calibrated labels do, and the upper limit falls below the truth.

Here the other extreme is assumed. A bin's hit rate varies by its own n rows, as if all of them were independent
(with weights, by Kish's number of them), and by one number Z that all bins share::

    hit rate ~ p + u sqrt(p (1 - p)) tau Z + noise of n rows,   tau^2 = (effect - 1) / rows,   Z ~ N(0, 1)

so that the sum of the residuals is as uncertain as measured. The bins of the lower half of the rows have one
direction u, those of the upper half another: that of the half's net gap, in which Z moves the ECE most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from monitor.core.counts import BinCounts, Floats, Ints
from monitor.inference.gaps import (
    GapTables,
    away_from_walls,
    each_at,
    hypothetical,
    moments,
    position_of,
    realised,
    stack,
)
from monitor.inference.search import crossing, scaled

_NEARLY = 1e-6  # a design effect that is above 1 by no more is none
_STEP = 0.6
_NODES = _STEP * np.arange(-6, 7)  # standard normal values that represent Z
_CHANCE = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


@dataclass(frozen=True, slots=True, eq=False)
class SharedNoise:
    """T tables whose ``tables.n`` counts every row as independent, and what their bins share.

    ``reach`` (T, M) is u tau: by how many standard deviations of one row a bin's hit rate moves where Z = 1.
    """

    tables: GapTables
    reach: Floats

    def given(self, rate: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of the plug-in ECE at each value of Z, with hit rates (T, M); shapes (T, 13)."""
        size, bins = rate.shape
        moved = rate[:, None] + (self.reach * np.sqrt(rate * (1 - rate)))[:, None] * _NODES[:, None]
        each = each_at(self.tables, np.repeat(np.arange(size), len(_NODES)))
        found = moments(each, np.clip(moved, 0.0, 1.0).reshape(-1, bins))
        mean = found.mean.reshape(size, -1)
        # a node represents an interval of values, along which the mean moves
        along = np.asarray(np.gradient(mean, axis=1))
        return mean, found.variance.reshape(size, -1) + along**2 / 12

    def above(self, observed: Floats, rate: Floats) -> Floats:
        """T: the probability of a plug-in ECE above ``observed`` (T,) with these hit rates (T, M); shape (T,)."""
        mean, variance = self.given(rate)
        return np.asarray(ndtr((mean - observed[:, None]) / np.sqrt(np.maximum(variance, 1e-24))) @ _CHANCE)

    def floor(self) -> Floats:
        """The ECE from which the upper limit is computed, as in ``gaps.floor_of_upper``; shape (T,)."""
        mean, variance = self.given(self.tables.score)
        centre = mean @ _CHANCE
        spread = np.sqrt(np.maximum((variance + mean**2) @ _CHANCE - centre**2, 0.0))
        return np.asarray(np.maximum(self.tables.plug_in, centre - spread))


def shared_noise(tables: Sequence[BinCounts], effects: Floats) -> SharedNoise:
    """The tables with the noise that clusters with these design effects (T,) share among bins."""
    stacked = stack(tables)
    n, rows = np.ones_like(stacked.n), np.ones(len(tables))
    for row, table in enumerate(tables):
        independent = np.maximum(table.independent, 1.0)
        n[row, : len(table.n)] = independent
        rows[row] = table.w.sum() ** 2 / (table.w**2 / independent).sum()  # Kish's number of all bins together
    tau = np.sqrt(np.maximum(effects - 1, 0.0) / np.maximum(rows, 1.0))
    # the direction of the net gap of each bin's half of the rows
    upper = np.cumsum(stacked.share, axis=1) - stacked.share / 2 > 0.5
    gap = stacked.share * stacked.gap
    net = np.where(upper, (gap * upper).sum(axis=1, keepdims=True), (gap * ~upper).sum(axis=1, keepdims=True))
    return SharedNoise(replace(stacked, n=n), tau[:, None] * np.where(net < 0, -1.0, 1.0))


def at_least_shared(tables: Sequence[BinCounts], high: Floats, confidence: float) -> Floats:
    """The upper limits ``high`` (T,), raised where noise that bins share allows for a larger ECE; shape (T,).

    A limit is the larger one of the two paths of ``gaps``, with T above 1 - alpha / 2. Tables without clusters keep
    theirs.
    """
    effects = np.array([table.design_effect for table in tables], dtype=np.float64)
    clustered = np.flatnonzero(effects > 1 + _NEARLY)
    if not clustered.size:
        return high
    noise = shared_noise([tables[index] for index in clustered.tolist()], effects[clustered])
    raised = high.copy()
    raised[clustered] = np.maximum(high[clustered], _reached(noise, high[clustered], confidence))
    return np.minimum(raised, 1.0)


def _reached(noise: SharedNoise, high: Floats, confidence: float) -> Floats:
    """The ECE at which T reaches 1 - alpha / 2 on the path that goes farther, at least ``high``."""
    size = len(high)
    observed = np.tile(noise.floor(), 2)
    upper = SharedNoise(away_from_walls(noise.tables, observed[:size]), noise.reach)
    both = each_at(upper, np.tile(np.arange(size), 2))
    uniform = np.repeat([False, True], size)
    goal = float(ndtri((1 + confidence) / 2))

    def lead(position: Floats, which: Ints) -> Floats:
        part = each_at(both, which)
        chance = part.above(observed[which], hypothetical(part.tables, position, uniform[which]))
        return scaled(chance) - goal

    start = position_of(both.tables, np.tile(high, 2), uniform)
    stride = np.maximum(both.tables.noise, np.abs(both.reach).max(axis=1) / 4)
    found = crossing(lead, start, stride, near=1e-3)
    error = realised(both.tables, hypothetical(both.tables, found, uniform))
    return np.asarray(error.reshape(2, size).max(axis=0))
