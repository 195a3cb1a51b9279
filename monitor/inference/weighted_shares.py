"""The law of a share whose two parts have unequal weights, as after a review of one in K of some rows.

Missed items are found among rows of which one in K was reviewed, each with weight K; the other items have weight 1.
Kish's size of both together shows neither how uncertain the few missed items are nor in which direction. Here each part
has its own size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import betainc, betaincinv

from monitor.core.counts import Bools, Counts, Floats
from monitor.inference.change import Side
from monitor.inference.sampling import Limits, Proportion, Skewed
from monitor.metrics.classification import actual_weights

_EQUAL = 1e-9
_GRID = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True, slots=True)
class WeightedPart:
    """The weights of some rows: the sum, the sum of squares, and the largest weight that a row could have.

    With a design effect, ``squares`` and ``heaviest`` are multiplied by it.
    """

    total: float
    squares: float
    heaviest: float

    @property
    def rows(self) -> float:
        """The number of rows of equal weight that these are worth; 0 without rows."""
        return self.total**2 / self.squares if self.squares > 0 else 0.0

    @property
    def unit(self) -> float:
        """The weight of each of these; without rows, the largest that a row could have."""
        return self.squares / self.total if self.total > 0 else self.heaviest

    @property
    def with_unseen(self) -> WeightedPart:
        """The part with one more row, of the largest weight: an upper limit must allow for it."""
        return WeightedPart(self.total + self.heaviest, self.squares + self.heaviest**2, self.heaviest)


@dataclass(frozen=True, slots=True)
class WeightedShare:
    """A share a / (a + b) of weights, where a and b are sums of Poisson numbers of rows.

    If all rows of ``part`` weigh u times a row of ``rest``, its rows are a binomial number of all rows, with chance
    x / (x + u (1 - x)) for the share x: exact limits of that chance (Clopper & Pearson 1934) are exact limits of the
    share. Where weights differ within a part as well, the part counts as the rows that its sum is worth, and an upper
    limit allows for one more row of the largest weight (Fay & Feuer 1997).
    """

    part: WeightedPart
    rest: WeightedPart

    @property
    def value(self) -> float:
        """The share."""
        return self.part.total / (self.part.total + self.rest.total)

    @property
    def others(self) -> WeightedShare:
        """The share of the rest."""
        return WeightedShare(self.rest, self.part)

    @property
    def is_plain(self) -> bool:
        """Whether all rows weigh the same: then it is a proportion."""
        return math.isclose(self.part.heaviest, self.rest.heaviest, rel_tol=_EQUAL) and all(
            side.total == 0 or math.isclose(side.unit, side.heaviest, rel_tol=_EQUAL) for side in (self.part, self.rest)
        )

    @property
    def _raised(self) -> WeightedShare:
        return replace(self, part=self.part.with_unseen)

    @property
    def _lowered(self) -> WeightedShare:
        return replace(self, rest=self.rest.with_unseen)

    def _of_rows(self, rows_share: float) -> float:
        """The share of the weights, from the share of the rows."""
        one, other = rows_share * self.part.unit, (1 - rows_share) * self.rest.unit
        return one / (one + other)

    def _in_rows(self, share: float) -> float:
        """The share of the rows, from the share of the weights."""
        one, other = share / self.part.unit, (1 - share) / self.rest.unit
        return one / (one + other)

    def _quantile(self, probability: float) -> float:
        return self._of_rows(float(betaincinv(self.part.rows, self.rest.rows, probability)))

    def _below(self, share: float) -> float:
        return float(betainc(self.part.rows, self.rest.rows, self._in_rows(share)))

    def interval(self, confidence: float) -> Limits:
        """Limits of the share."""
        tail = (1 - confidence) / 2
        low = self._lowered._quantile(tail) if self.part.rows > 0 else 0.0
        high = self._raised._quantile(1 - tail) if self.rest.rows > 0 else 1.0
        return low, high

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a share beyond the threshold."""
        if not 0 < threshold < 1:
            beyond = threshold <= 0 if side == "above" else threshold >= 1
            return 0.0 if beyond and self.value != threshold else 1.0
        if side == "above":
            return self._lowered._below(threshold) if self.part.rows > 0 else 1.0
        return 1 - self._raised._below(threshold) if self.rest.rows > 0 else 1.0

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``, with the present numbers of rows."""
        if side == "below":
            return self.others.detectable(1 - threshold, "above", rate)
        if not 0 <= threshold < 1:
            return 0.0
        rows, at = self.part.rows + self.rest.rows, self._in_rows(threshold)
        moved = Proportion(at, rows).detectable(at, "above", rate)
        return None if moved is None else self._of_rows(min(at + moved, 1.0)) - threshold

    @property
    def above(self) -> Skewed:
        """The law that bounds the truth from above."""
        return self._raised._law(self.rest.rows > 0, 1.0)

    @property
    def below(self) -> Skewed:
        """The law that bounds the truth from below."""
        return self._lowered._law(self.part.rows > 0, 0.0)

    def _law(self, varies: bool, otherwise: float) -> Skewed:
        if not varies:
            return Skewed(otherwise, 0.0, 0.0)
        rows = betaincinv(self.part.rows, self.rest.rows, _GRID)
        shares = rows * self.part.unit / (rows * self.part.unit + (1 - rows) * self.rest.unit)
        mean = float(shares.mean())
        return Skewed(mean, float(((shares - mean) ** 2).mean()), float(((shares - mean) ** 3).mean()))


def unequal_share(metric: str, counts: Counts) -> WeightedShare | None:
    """The law of a share of rows (for an F1, of its Jaccard index) where weights differ.

    None where all weights are equal, without rows, and for other metrics: both parts of an accuracy or an
    overconfidence have rows of all weights, and effective rows are enough.
    """
    made = _SHARES.get(metric)
    if made is None:
        return None
    kept = counts.weighted()
    if not len(kept.cell):
        return None
    found = made(kept)
    return None if found.is_plain or not found.part.total + found.rest.total > 0 else found


def _shares(counts: Counts, one: Floats, other: Floats, may_be_one: Bools, may_be_other: Bools) -> WeightedShare:
    """The share of the weights ``one`` against ``other``, both (K,); the masks say which rows may be of each."""
    unit, effect = counts.w2 / counts.w, counts.design_effect

    def part(weights: Floats, may_be: Bools) -> WeightedPart:
        heaviest = float(unit[may_be].max()) if may_be.any() else float(unit.max())
        return WeightedPart(float(weights.sum()), float((unit * weights).sum()) * effect, heaviest * effect)

    return WeightedShare(part(one, may_be_one), part(other, may_be_other))


def _missed(counts: Counts) -> WeightedShare:
    actual, predicted = np.minimum(actual_weights(counts), counts.w), counts.predicted
    return _shares(counts, actual * ~predicted, actual * predicted, ~predicted, predicted)


def _alarmed(counts: Counts) -> WeightedShare:
    negative, predicted = counts.w - np.minimum(actual_weights(counts), counts.w), counts.predicted
    return _shares(counts, negative * predicted, negative * ~predicted, predicted, ~predicted)


def _agreed(counts: Counts) -> WeightedShare:
    actual, predicted = np.minimum(actual_weights(counts), counts.w), counts.predicted
    rest = np.where(predicted, counts.w - actual, actual)
    return _shares(counts, actual * predicted, rest, predicted, np.ones_like(predicted))


_SHARES: Mapping[str, Callable[[Counts], WeightedShare]] = {
    "false_negative_rate": _missed,
    "recall": lambda counts: _missed(counts).others,
    "false_positive_rate": _alarmed,
    "specificity": lambda counts: _alarmed(counts).others,
    "f1": _agreed,
}
