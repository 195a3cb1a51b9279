"""Hits and misses by group: one sample, or many draws of it at once.

A metric written as a function of :class:`Groups` gives one value for ``hit`` and ``miss`` of shape (G,) and B values
for shape (B, G). So a bootstrap of B draws is one call, and the value and its spread have the same code.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts import Bools, Counts, Floats, Ints
from monitor.core.records import ScoreIs

ROUNDED = 2 * 2.0**-40
"""By how much a row's share of a sum of squares about a mean may differ from it, as engines round to 2^-40."""


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The groups of one sample, lowest cell first.

    ``cell``, ``score`` (mean score), ``predicted`` and ``automated`` have shape (G,). ``hit`` and ``miss`` are the
    weights of hits and misses, shape (G,) or (B, G); a soft outcome y is y of a hit and 1 - y of a miss. Their mean
    scores are ``hit_score`` and ``miss_score``, of the same shape, and ``within`` is the variance of scores about
    these, shape (G,).
    """

    cell: Ints
    score: Floats
    predicted: Bools
    automated: Bools
    hit: Floats
    miss: Floats
    hit_score: Floats
    miss_score: Floats
    within: Floats
    score_is: ScoreIs

    def drawn(self, hit: Floats, miss: Floats) -> Groups:
        """The same groups with other sums of weights, of shape (B, G)."""
        return replace(self, hit=hit, miss=miss)

    @property
    def truth_is_outcome(self) -> Bools:
        """Whether a hit is an actual positive, shape (G,); false for a right decision against the label."""
        return self.predicted if self.score_is == "confidence_in_prediction" else np.ones_like(self.predicted)


Core = Callable[[Groups], Floats]
"""A metric of groups: shape (G,) -> (), shape (B, G) -> (B,); NaN where it is not defined."""


def groups_of(counts: Counts) -> Groups:
    """The groups of counts, in their order.

    >>> from monitor.core.counts import counts_from_rows
    >>> groups = groups_of(counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0]))
    >>> groups.hit.tolist(), groups.miss.tolist()
    ([0.0, 1.0], [1.0, 1.0])
    """
    hit = np.clip(counts.wy, 0.0, counts.w)
    score = np.clip(over(counts.ws, counts.w, 0.0), 0.0, 1.0)
    miss = counts.w - hit
    means = _mean_score(counts.wsy, hit, score), _mean_score(counts.ws - counts.wsy, miss, score)
    around = counts.ws2 - hit * means[0] ** 2 - miss * means[1] ** 2
    within = over(np.where(around > ROUNDED * counts.n, around, 0.0), counts.w, 0.0)
    return Groups(
        counts.cell, score, counts.predicted, counts.automated, hit, miss, *means, within, score_is=counts.score_is
    )


def _mean_score(total: Floats, weight: Floats, otherwise: Floats) -> Floats:
    """The mean score of the hits, or of the misses, of each group; ``otherwise`` where it has none. Shape (G,)."""
    return np.clip(np.divide(total, weight, out=otherwise.copy(), where=weight > 0), 0.0, 1.0)


def on_counts(core: Core, counts: Counts) -> float | None:
    """The metric of these counts; None where it is not defined."""
    return number(core(groups_of(counts)))


def number(value: Floats | float) -> float | None:
    """A plain number, None for NaN. Of shape ()."""
    found = float(value)
    return found if math.isfinite(found) else None


def over(part: Floats, whole: Floats, otherwise: float = math.nan) -> Floats:
    """``part / whole``, or ``otherwise`` where the whole is 0. The arguments broadcast to one shape."""
    part, whole = np.asarray(part, dtype=np.float64), np.asarray(whole, dtype=np.float64)
    if part.shape != whole.shape:
        part, whole = np.broadcast_arrays(part, whole)
    return np.asarray(np.divide(part, whole, out=np.full(whole.shape, otherwise), where=whole > 0))
