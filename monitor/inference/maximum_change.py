"""The distribution of a change in MCE between two windows in which nothing changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts import BinCounts, Bools, Floats, Ints
from monitor.inference.gaps import GapTables, stack
from monitor.inference.maximum import Hits, hits, points
from monitor.inference.memory import each_by_content
from monitor.inference.merging import pool_bins
from monitor.inference.search import smallest_of_each

CELLS = 48
LEAST_P = 1e-10  # bound on cells left out and rounding: no smaller p-value is computed
STEP = 1e-7  # two steps of a p-value that are closer than this count as one
_UNSEEN = 1e-12  # cells of the baseline's distribution with less probability are left out

Pair = tuple[BinCounts, BinCounts]
"""A window and its baseline, in the same (merged) bins."""


@dataclass(frozen=True, slots=True, eq=False)
class Unchanged:
    """Two windows with common gaps: bins of shape (2, M), baseline first.

    ``n``, ``score`` and ``rate`` are each window's own, ``gap`` (M,) the common signed gaps,
    ``error`` their largest; ``middle`` and ``mass`` (at most CELLS + 1) are the values of the baseline's
    plug-in MCE and their probabilities, ``lost`` is the probability of those that were left out.
    """

    n: Floats
    score: Floats
    rate: Floats
    gap: Floats
    error: float
    middle: Floats
    mass: Floats
    lost: float


@dataclass(frozen=True, slots=True, eq=False)
class Nulls:
    """T pairs that did not change: the window's bins (T, M), J values of the baseline's MCE each (T, J).

    A bin that is not ``filled`` has one row without a hit at a score of 0, and so no gap. ``error`` and ``lost`` (T,)
    as in :class:`Unchanged`.
    """

    hits: Hits
    n: Floats
    score: Floats
    rate: Floats
    filled: Bools
    error: Floats
    middle: Floats
    mass: Floats
    lost: Floats

    @property
    def noise(self) -> Floats:
        """The largest standard deviation of a hit rate of each window, (T,)."""
        return np.asarray(np.sqrt(self.rate * (1 - self.rate) / self.n).max(axis=1, initial=0.0))

    def beyond(self, change: Floats, which: Ints) -> Floats:
        """P(a bin's gap >= change + each value of the baseline's MCE) of the pairs ``which``: (K,) -> (K, J, M)."""
        return self.hits.beyond(change[:, None] + self.middle[which], which)

    def chance(self, within: Floats, which: Ints) -> Floats:
        """The probability of a change, from that of staying below it for each of the baseline's values (K, J)."""
        found = (self.mass[which] * (1 - within)).sum(axis=1) + self.lost[which]
        return np.asarray(np.minimum(np.maximum(found, 0.0), 1.0))

    def reached(self, change: Floats, which: Ints) -> Floats:
        """The probability of at least this ``change`` in the pairs ``which``: (K,) -> (K,)."""
        return self.chance((1 - self.beyond(change, which)).prod(axis=2), which)

    def p_values(self, change: Floats) -> Floats:
        """The p-value of the ``change`` of every pair, exact also where it is small: (T,) -> (T,); not below 1e-10."""
        every = np.arange(len(change))
        with np.errstate(divide="ignore"):  # a bin that is certainly beyond
            beyond = -np.expm1(np.log1p(-self.beyond(change, every)).sum(axis=2))
        found = (self.mass * beyond).sum(axis=1) + self.lost
        return np.asarray(np.minimum(np.maximum(found, LEAST_P), 1.0))

    def critical(self, rate: float, guess: Floats, which: Ints | None = None) -> Floats:
        """The smallest change of the pairs ``which`` with a p-value of at most ``rate``, to 1e-7; NaN: there is none.

        The p-value falls in steps, at each number of hits of each bin, so that a nearby change may have another
        p-value and another power: the search goes on until it finds the step.
        """
        chosen = np.arange(len(self.n)) if which is None else which

        def chance(change: Floats, some: Ints) -> Floats:
            return 1 - self.reached(change, chosen[some])

        sd = 0.8 * self.noise[chosen]
        return smallest_of_each(chance, 1 - rate, np.ones(len(chosen)), guess, sd, near=STEP)


def together(nulls: Sequence[Unchanged]) -> Nulls:
    """Several pairs as one record, padded with bins without rows and values of the baseline's MCE of probability 0."""
    bins, values = max(1, *(len(null.gap) for null in nulls)), max(len(null.mass) for null in nulls)
    score, rate = np.zeros((2, len(nulls), bins))
    n, filled = np.ones((len(nulls), bins)), np.zeros((len(nulls), bins), dtype=bool)
    middle, mass = np.zeros((2, len(nulls), values))
    for row, null in enumerate(nulls):
        count, size = len(null.gap), len(null.mass)
        n[row, :count], score[row, :count], rate[row, :count] = null.n[1], null.score[1], null.rate[1]
        filled[row, :count] = True
        middle[row, :size], mass[row, :size] = null.middle, null.mass
    error, lost = np.array([null.error for null in nulls]), np.array([null.lost for null in nulls])
    return Nulls(hits(n, score, rate), n, score, rate, filled, error, middle, mass, lost)


@each_by_content
def each_unchanged(pairs: Sequence[Pair]) -> list[Unchanged]:
    """Each pair of (merged) windows if both had the debiased gaps of their pooled rows.

    A bin that only one window has is left out.
    """
    pooled = stack([pool_bins([window, baseline]) for window, baseline in pairs])
    both = [stack([pair[place] for pair in pairs]) for place in (1, 0)]
    keep = (both[0].share > 0) & (both[1].share > 0)
    error = points(pooled)
    gap = np.where(keep, _common_gaps(pooled, error), 0.0)
    rates = [np.minimum(np.maximum(table.score + gap, 0.0), 1.0) for table in both]
    spread = np.sqrt(rates[0] * (1 - rates[0]) / both[0].n)
    top = np.where(keep, np.abs(gap) + 5 * spread, 0.0).max(axis=1, initial=0.0)
    edges = np.linspace(0.0, top, CELLS + 1, axis=1)
    # a bin that is left out has one row without a hit at a score of 0, and so no gap
    columns = ((both[0].n, 1.0), (both[0].score, 0.0), (rates[0], 0.0))
    frozen = hits(*(np.where(keep, column, empty) for column, empty in columns))
    reached = np.concatenate([(1 - frozen.beyond(edges)).prod(axis=2), np.ones((len(pairs), 1))], axis=1)
    middle = np.concatenate([(edges[:, 1:] + edges[:, :-1]) / 2, edges[:, -1:]], axis=1)
    mass = np.diff(reached, axis=1)
    # n, score and rate of each pair, baseline first: shape (3, T, 2, M)
    bins = np.array([[table.n for table in both], [table.score for table in both], rates]).swapaxes(1, 2)
    every = []
    for row, kept_bins in enumerate(keep):
        n, score, rate = bins[:, row][..., kept_bins]
        every.append(Unchanged(n, score, rate, gap[row, kept_bins], float(error[row]), middle[row], mass[row], 0.0))
    return [_without_rare(full, _UNSEEN) for full in every]


def _without_rare(full: Unchanged, least: float) -> Unchanged:
    """The pair without the values of the baseline's MCE that have a probability of ``least`` or less."""
    seen = full.mass > least
    mass = full.mass[seen]
    return replace(full, middle=full.middle[seen], mass=mass, lost=max(0.0, 1.0 - float(mass.sum())))


def for_planning(full: Unchanged, rate: float) -> Unchanged:
    """The pair with fewer values of the baseline's MCE: enough for a p-value of ``rate`` to half a percent."""
    return replace(_without_rare(full, 1e-4 * rate), lost=0.0)


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
