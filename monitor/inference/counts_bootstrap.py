"""The bootstrap on counts: the spread of any function of counts, at a cost that no number of rows changes.

Rows are not drawn but their cells: the hits and the misses of each group are Poisson counts of its
effective rows, each row worth the group's mean weight. That gives sums of weights the mean w and the
variance sum w^2 times the design effect, which is what drawing rows (or clusters) afresh would give. The total
varies too, which no ratio notices. Limits and p-values come from the standard error and the
skewness of the draws, never from counting draws: a thousand of them cannot tell a p-value of .0005.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from monitor.core.counts import Bools, Counts, Floats
from monitor.inference.change import Side
from monitor.inference.sampling import Skewed

UNSEEN = 1.0  # rows of each outcome, in all groups together, that draws may hold beyond those seen
_AT_ONCE = 2_000_000  # numbers drawn in one piece: 16 MB for hits and as much for misses
_DEFINED = 0.5  # of fewer defined draws than this share nothing is concluded


@dataclass(frozen=True, slots=True, eq=False)
class CountSamples:
    """B samples of one label. ``hit`` and ``miss`` are sums of weights of shape (B, G).

    ``score`` (mean score), ``predicted`` and ``automated`` of shape (G,) say what the groups are.
    """

    score: Floats
    predicted: Bools
    automated: Bools
    hit: Floats
    miss: Floats


Statistic = Callable[[Sequence[CountSamples]], Floats]
"""A function of counts: the draws of one label or of several -> shape (B,), NaN where it is not defined."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A statistic with the standard error and the skewness of its draws, ``least`` and ``most`` its range.

    The law of the truth has twice the skewness of the estimate and half a step more to either side, as the mid-P
    limits of a Poisson count have: exact to the second order for a weighted sum of counts.
    """

    value: float
    se: float
    skew: float
    least: float = 0.0
    most: float = 1.0

    @property
    def law(self) -> Skewed:
        """The law of the truth."""
        step = self.skew * self.se
        return Skewed(self.value + step / 2, self.se**2 + step**2 / 2, 2 * self.skew * self.se**3 + step**3)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Equal-tailed limits, brought into the range of the statistic and around its value."""
        tail = (1 - confidence) / 2
        low, high = self.law.quantile(tail), self.law.quantile(1 - tail)
        return min(max(low, self.least), self.value), max(min(high, self.most), self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold."""
        below = self.law.below(threshold)
        return below if side == "above" else 1 - below

    def detectable(self, threshold: float, side: Side, rate: float, power: float = 0.8) -> float | None:
        """The distance at which a truth is seen with ``power``, with the spread now found; None if out of range."""
        law = self.law
        if side == "above":
            distance = law.quantile(power) - law.quantile(rate)
            return distance if threshold + distance <= self.most else None
        distance = law.quantile(1 - rate) - law.quantile(1 - power)
        return distance if threshold - distance >= self.least else None


def bootstrap(
    parts: Sequence[Counts],
    statistic: Statistic,
    rng: np.random.Generator,
    *,
    resamples: int = 1000,
    unseen: float = UNSEEN,
    least: float = 0.0,
    most: float = 1.0,
) -> Spread | None:
    """The spread of a function of the counts of one label or of several.

    Draws hold ``unseen`` rows of each outcome more than were seen, spread evenly over the groups: where every row was
    right, the spread would otherwise be nothing. The value is that of the counts themselves. None where it is
    not defined, or in most draws.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9] * 100, [1] * 80 + [0] * 20)
    >>> def rate(drawn):
    ...     return drawn[0].hit.sum(axis=1) / (drawn[0].hit + drawn[0].miss).sum(axis=1)
    >>> found = bootstrap([counts], rate, np.random.default_rng(1))
    >>> found.value, bool(0.035 < found.se < 0.045)
    (0.8, True)
    """
    strata = [_Strata.of(part, unseen) for part in parts if part.w.sum() > 0]
    if not strata:
        return None
    value = float(statistic([part.seen() for part in strata])[0])
    if not math.isfinite(value):
        return None
    drawn = np.concatenate(list(_pieces(strata, statistic, rng, resamples)))
    drawn = drawn[np.isfinite(drawn)]
    if len(drawn) < _DEFINED * resamples:
        return None
    se = float(drawn.std(ddof=1))
    skew = float(((drawn - drawn.mean()) ** 3).mean()) / se**3 if se > 0 else 0.0
    return Spread(min(max(value, least), most), se, skew, least, most)


def draws(counts: Counts, rng: np.random.Generator, *, resamples: int = 1000, unseen: float = UNSEEN) -> CountSamples:
    """The draws of one label by themselves, for many statistics at once; counts must hold a row of some weight."""
    return _Strata.of(counts, unseen).drawn(rng, resamples)


def by_prediction(counts: Counts) -> Counts:
    """The counts summed into two groups, not predicted and predicted: all that a confusion matrix needs.

    Cells, scores and what was automated are lost; a bootstrap of them costs next to nothing.
    """
    sums: dict[str, Any] = {
        name: np.array([getattr(counts, name)[counts.predicted == value].sum() for value in (False, True)])
        for name in ("n", "w", "w2", "ws", "wy", "wsy", "ws2")
    }
    keys: dict[str, Any] = {"cell": np.zeros(2, dtype=np.int64), "predicted": np.array([False, True])}
    return replace(counts, **keys, automated=np.zeros(2, dtype=bool), **sums)


@dataclass(frozen=True, slots=True, eq=False)
class _Strata:
    """Of each group (G,): the weights of hits and misses, the rows they are worth, the weight of one of these."""

    counts: Counts
    hit: Floats
    miss: Floats
    hit_rows: Floats
    miss_rows: Floats
    unit: Floats

    @classmethod
    def of(cls, counts: Counts, unseen: float) -> _Strata:
        hit = np.clip(counts.wy, 0.0, counts.w)
        miss = counts.w - hit
        usual = float(counts.w2.sum() / counts.w.sum())  # an empty group's rows weigh as those of the others
        mean_weight = np.divide(counts.w2, counts.w, out=np.full_like(counts.w, usual), where=counts.w > 0)
        unit = mean_weight * counts.design_effect
        more = unseen / len(unit)
        return cls(counts, hit, miss, hit / unit + more, miss / unit + more, unit)

    def seen(self) -> CountSamples:
        return self._draws(self.hit[None, :], self.miss[None, :])

    def drawn(self, rng: np.random.Generator, size: int) -> CountSamples:
        shape = (size, len(self.unit))
        hit, miss = rng.poisson(self.hit_rows, shape), rng.poisson(self.miss_rows, shape)
        return self._draws(hit * self.unit, miss * self.unit)

    def _draws(self, hit: Floats, miss: Floats) -> CountSamples:
        held = np.where(self.counts.w > 0, self.counts.w, 1.0)
        score = np.clip(self.counts.ws / held, 0.0, 1.0)
        return CountSamples(score, self.counts.predicted, self.counts.automated, hit, miss)


def _pieces(strata: Sequence[_Strata], statistic: Statistic, rng: np.random.Generator, resamples: int) -> list[Floats]:
    """The statistic of all draws, a bounded number of them at a time."""
    groups = sum(len(part.unit) for part in strata)
    size = max(1, min(resamples, _AT_ONCE // groups))
    starts = range(0, resamples, size)
    return [statistic([part.drawn(rng, min(size, resamples - start)) for part in strata]) for start in starts]
