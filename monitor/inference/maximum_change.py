"""The distribution of a change in MCE between two windows in which nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from monitor.counts import BinCounts, Floats
from monitor.inference.gaps import GapTables, stack
from monitor.inference.maximum import Bounds, all_within, bounds, only_filled, point
from monitor.inference.memory import by_content
from monitor.inference.merging import pool_bins
from monitor.inference.search import smallest

CELLS = 48
_UNSEEN = 1e-12  # cells of the baseline's distribution with less probability are left out


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """Two windows with common gaps: bins of shape (2, M), baseline first.

    ``n``, ``score`` and ``rate`` are each window's own, ``gap`` (M,) the common signed gaps,
    ``error`` their largest; ``middle`` and ``mass`` (at most CELLS + 1) are the values of the baseline's
    plug-in MCE and their probabilities.
    """

    n: Floats
    score: Floats
    rate: Floats
    gap: Floats
    error: float
    middle: Floats
    mass: Floats

    @property
    def noise(self) -> float:
        """The largest standard deviation of a hit rate of the window."""
        return float(np.sqrt(self.rate[1] * (1 - self.rate[1]) / self.n[1]).max(initial=0.0))

    def p_value(self, change: float) -> float:
        """The probability that the plug-in MCE is larger by ``change`` or more in the window."""
        return self.at(change).p_value

    def at(self, change: float) -> Reached:
        """What the bins of the window say about this change."""
        ready = bounds((change + self.middle)[:, None], self.n[1], self.score[1])
        return Reached(self.mass, ready, ready.chance(self.rate[1]))

    def critical(self, rate: float, guess: float) -> float | None:
        """The smallest change with a p-value of at most ``rate``, to 4e-5; None where there is none.

        The p-value falls in steps, at each number of hits of each bin, so that neither it nor what a change shows
        can be read off the one a little beside it: the search goes on until it has the step.
        """
        return smallest(lambda change: 1 - self.p_value(change), 1 - rate, 1.0, guess, 0.8 * self.noise)


@dataclass(frozen=True, slots=True, eq=False)
class Reached:
    """A change + each of J values of the baseline's MCE, and how likely the window's M bins stay below it.

    ``mass`` (J,) as in :class:`Unchanged`, ``ready`` what is needed for other hit rates, ``within`` (J, M) the
    probabilities with the window's own.
    """

    mass: Floats
    ready: Bounds
    within: Floats

    @property
    def p_value(self) -> float:
        """The probability of this change or more."""
        return self._chance(self.within.prod(axis=1))

    def power_of(self, moved: int) -> Callable[[float], float]:
        """The same as a function of the hit rate of the bin ``moved``, the others at their own."""
        rest = np.delete(self.within, moved, axis=1).prod(axis=1)
        alone = self.ready.column(moved)
        return lambda rate: self._chance(rest * alone.chance(np.asarray(min(max(rate, 0.0), 1.0))))

    def _chance(self, within: Floats) -> float:
        return min(max(float(self.mass @ (1 - within)), 0.0), 1.0)


@by_content
def unchanged(window: BinCounts, baseline: BinCounts) -> Unchanged:
    """What two (merged) windows would be if both had the gaps of their pooled rows, debiased.

    A bin that only one window has is left out.
    """
    tables = stack([pool_bins([window, baseline]), baseline, window])
    both = tables.take([1, 2])
    keep = (both.share > 0).all(axis=0)
    error = point(only_filled(tables))
    gap = _common_gaps(tables, error)[keep]
    n, score = both.n[:, keep], both.score[:, keep]
    rate = np.minimum(np.maximum(score + gap, 0.0), 1.0)
    spread = np.sqrt(rate[0] * (1 - rate[0]) / n[0])
    edges = np.linspace(0.0, (np.abs(gap) + 5 * spread).max(initial=0.0), CELLS + 1)
    reached = np.append(all_within(edges, n[0], score[0], rate[0]), 1.0)
    middle, mass = np.append((edges[1:] + edges[:-1]) / 2, edges[-1]), np.diff(reached)
    return _without_rare(Unchanged(n, score, rate, gap, error, middle, mass), _UNSEEN)


def _without_rare(full: Unchanged, least: float) -> Unchanged:
    """Without the values of the baseline's MCE that have less probability than ``least``."""
    seen = full.mass > least
    return replace(full, middle=full.middle[seen], mass=full.mass[seen])


def for_planning(full: Unchanged, rate: float) -> Unchanged:
    """With fewer values of the baseline's MCE, enough for what is asked at p-values of ``rate``: to half a percent."""
    return _without_rare(full, 1e-4 * rate)


def _common_gaps(pooled: GapTables, error: float) -> Floats:
    """The signed gaps (M,) of one table (the first) if its MCE is ``error``, the largest ones nearly alike.

    All are shrunk by the same amount, which leaves their noise in them: one bin then stands out more than it
    does in truth, while of several with nearly the same gap the largest one varies upwards. So each gap is taken
    one of its standard errors larger, up to ``error``. Without this the level of .05 was .053 on average.
    """
    size = np.abs(pooled.gap[0])
    shrunk = np.maximum(0.0, size - (size.max(initial=0.0) - error))
    rate = np.minimum(np.maximum(pooled.score[0] + pooled.sign[0] * shrunk, 0.0), 1.0)
    return np.asarray(pooled.sign[0] * np.minimum(shrunk + np.sqrt(rate * (1 - rate) / pooled.n[0]), error))
