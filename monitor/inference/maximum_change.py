"""The distribution of a change in MCE between two windows in which nothing changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.counts import BinCounts, Floats
from monitor.inference.gaps import stack
from monitor.inference.maximum import all_within, largest_gap, only_filled, point
from monitor.inference.merging import pool_bins

CELLS = 48


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """Two windows with common gaps: bins of shape (2, M), baseline first.

    ``n``, ``score`` and ``rate`` are each window's own, ``gap`` (M,) the common signed gaps,
    ``error`` their largest; ``middle`` and ``mass`` (CELLS + 1,) are the values of the baseline's
    plug-in MCE and their probabilities.
    """

    n: Floats
    score: Floats
    rate: Floats
    gap: Floats
    error: float
    middle: Floats
    mass: Floats

    def p_value(self, change: float) -> float:
        """The probability that the plug-in MCE is larger by ``change`` or more in the window."""
        return self.chance(all_within(change + self.middle, self.n[1], self.score[1], self.rate[1]))

    def chance(self, within: Floats) -> float:
        """The same from P(window's MCE < change + middle), shape (CELLS + 1,)."""
        return float(np.clip((self.mass * (1 - within)).sum(), 0.0, 1.0))


def unchanged(window: BinCounts, baseline: BinCounts) -> Unchanged:
    """What two (merged) windows would be if both had the gaps of their pooled rows, debiased.

    A bin that only one window has is left out.
    """
    pooled, both = stack([pool_bins([window, baseline])]), stack([baseline, window])
    keep = (both.share > 0).all(axis=0)
    table = only_filled(pooled)
    error, largest = point(table), largest_gap(table)
    gap = (pooled.sign[0] * np.maximum(0.0, np.abs(pooled.gap[0]) - (largest - error)))[keep]
    n, score = both.n[:, keep], both.score[:, keep]
    rate = np.clip(score + gap, 0.0, 1.0)
    spread = np.sqrt(rate[0] * (1 - rate[0]) / n[0])
    edges = np.linspace(0.0, (np.abs(gap) + 5 * spread).max(initial=0.0), CELLS + 1)
    reached = np.append(all_within(edges, n[0], score[0], rate[0]), 1.0)
    middle = np.append((edges[1:] + edges[:-1]) / 2, edges[-1])
    return Unchanged(n, score, rate, gap, error, middle, np.diff(reached))
