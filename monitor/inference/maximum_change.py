"""The distribution of a change in MCE between two windows in which nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import BinCounts, Bools, Floats
from monitor.inference.gaps import GapTables, stack
from monitor.inference.maximum import points, strays
from monitor.inference.merging import pool_bins

CELLS = 48

Pair = tuple[BinCounts, BinCounts]
"""A window and its baseline, in the same (merged) bins."""


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
