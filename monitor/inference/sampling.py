"""The laws by which a metric that is not binned varies from sample to sample.

Each law gives in closed form an interval, a p-value for a truth beyond a threshold, and how far
beyond it the truth must be to be seen. :class:`Proportion` is exact, for shares of
rows; :class:`Mean` is a gamma law with the skewness of the losses; :class:`Ranking` is a share of pairs, for the
area under the ROC curve; :class:`LogitArea` is Student's t on the logit scale, for average precision.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from scipy.special import (
    betainc,
    betaincinv,
    expit,
    gammainc,
    gammaincc,
    gammaincinv,
    logit,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
)

from monitor.inference.change import Side
from monitor.inference.maximum import clopper_pearson
from monitor.inference.search import POWER
from monitor.metrics.classification import Share, f1_of, jaccard_of

if TYPE_CHECKING:
    from monitor.inference.weighted_shares import WeightedShare

_STRAIGHT = 1e7  # a gamma of this shape is normal to the last digit that matters
_HALVINGS = 60
Limits = tuple[float, float]
"""A lower and an upper limit."""
_NEARLY_ONE = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Proportion:
    """A metric offset + scale * share, where ``share`` of ``rows`` independent rows is binomial.

    ``rows`` need not be whole: the incomplete beta takes a fraction as it is. ``scale`` may be negative (the
    overconfidence falls as hits rise), but not zero.
    """

    share: float
    rows: float
    offset: float = 0.0
    scale: float = 1.0

    @property
    def value(self) -> float:
        """The metric."""
        return self.offset + self.scale * self.share

    @classmethod
    def of(cls, share: Share | None) -> Proportion | None:
        """The share itself as the metric; None for None."""
        return None if share is None else cls(share.value, share.rows)

    @property
    def variance(self) -> float:
        """Variance of the metric at (k + 1/2) / (n + 1), so that it is never zero."""
        return self.variance_at((self.share * self.rows + 0.5) / (self.rows + 1))

    @property
    def above(self) -> Skewed:
        """The law that bounds the truth from above."""
        return self._law(1.0 if self.scale > 0 else 0.0)

    @property
    def below(self) -> Skewed:
        """The law that bounds the truth from below."""
        return self._law(0.0 if self.scale > 0 else 1.0)

    def _law(self, more: float) -> Skewed:
        # a quarter of a row from Jeffreys' law on either side: half-way to the exact limits
        hits = self.share * self.rows + 0.25 + more / 2
        share = of_beta(hits, self.rows + 1 - hits)
        return Skewed(
            self.offset + self.scale * share.mean, self.scale**2 * share.variance, self.scale**3 * share.third
        )

    def variance_at(self, share: float) -> float:
        """Variance of the metric if the true share were ``share``; infinite without rows."""
        return self.scale**2 * share * (1 - share) / self.rows if self.rows > 0 else math.inf

    def share_at(self, value: float) -> float:
        """The share at which the metric has this value, clipped to [0, 1]."""
        return min(max((value - self.offset) / self.scale, 0.0), 1.0)

    def interval(self, confidence: float) -> Limits:
        """Limits by Clopper & Pearson 1934."""
        hits, misses = self.share * self.rows, (1 - self.share) * self.rows
        low, high = (float(limit) for limit in clopper_pearson(hits, misses, (1 - confidence) / 2))
        ends = self.offset + self.scale * min(low, self.share), self.offset + self.scale * max(high, self.share)
        return min(ends), max(ends)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided exact binomial p-value for a truth beyond the threshold."""
        share, at = self._upwards(threshold, side)
        return binomial_tail(share, self.rows, at)

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``; 0 where no truth can be beyond the threshold."""
        _, at = self._upwards(threshold, side)
        if at < 0 or at >= 1:
            return 0.0
        rows = self.rows
        if not rows > 0 or betainc(rows, 1, at) > rate:
            return None
        hits = range(1, math.floor(rows) + 1)
        # the smallest whole number of hits (or all rows) with a tail of at most the rate
        first = bisect_left(hits, True, key=lambda k: bool(betainc(k, rows - k + 1, at) <= rate))
        least = min(first + 1, rows)
        return float(betaincinv(least, rows - least + 1, POWER) - at) * abs(self.scale)

    def _upwards(self, threshold: float, side: Side) -> tuple[float, float]:
        # "beyond" always means too high a share: where it is too low, the share of the other rows is too high
        at = (threshold - self.offset) / self.scale
        return (self.share, at) if (side == "above") == (self.scale > 0) else (1 - self.share, 1 - at)


@dataclass(frozen=True, slots=True)
class FScore:
    """An F1: 2 J / (1 + J) of the Jaccard index J, the share of true positives among rows positive or predicted.

    F1 rises with J, so limits and p-values are the exact ones of J.
    """

    jaccard: Proportion | WeightedShare

    @property
    def value(self) -> float:
        """The metric."""
        return f1_of(self.jaccard.value)

    @property
    def above(self) -> Skewed:
        """The law that bounds the truth from above."""
        return self._law(self.jaccard.above)

    @property
    def below(self) -> Skewed:
        """The law that bounds the truth from below."""
        return self._law(self.jaccard.below)

    def _law(self, law: Skewed) -> Skewed:
        # moments of F1 = f(J) to the second order around the mean of J
        slope, bend = 2 / (1 + law.mean) ** 2, -4 / (1 + law.mean) ** 3
        third = slope**3 * law.third + 3 * slope**2 * bend * law.variance**2
        return Skewed(f1_of(law.mean) + bend * law.variance / 2, slope**2 * law.variance, third)

    def interval(self, confidence: float) -> Limits:
        """Limits by Clopper & Pearson 1934, of J."""
        low, high = self.jaccard.interval(confidence)
        return f1_of(low), f1_of(high)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided exact binomial p-value for a truth beyond the threshold."""
        return self.jaccard.p_value(_jaccard(threshold), side)

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``; 0 where no truth can be beyond the threshold."""
        at = _jaccard(threshold)
        distance = self.jaccard.detectable(at, side, rate)
        if distance is None or distance == 0:
            return distance
        return abs(f1_of(at + distance if side == "above" else at - distance) - threshold)


def _jaccard(threshold: float) -> float:
    return jaccard_of(min(threshold, 1.5))  # beyond 1 in either, and f1_of has a pole at 2


def binomial_tail(share: float, rows: float, at: float) -> float:
    """P(K / rows >= share) where K is binomial with probability ``at`` (1 or 0 where ``at`` is outside [0, 1]).

    >>> round(binomial_tail(0.9, 10, 0.5), 6)  # 11 / 1024
    0.010742
    """
    hits = share * rows
    if hits <= 0 or at >= 1:
        return 1.0
    return float(betainc(hits, rows - hits + 1, at)) if at > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Skewed:
    """A law with three given cumulants: a shifted and, if necessary, mirrored gamma law (Pearson's type III).

    ``third`` is the third cumulant, of either sign. The law is normal where it is 0, and a single value where
    ``variance`` is 0.
    """

    mean: float
    variance: float
    third: float

    def quantile(self, probability: float) -> float:
        """The value below which the law has this ``probability``.

        >>> round(Skewed(3.0, 3.0, 6.0).quantile(0.975), 4)  # Garwood's upper limit of two events seen
        7.2247
        """
        shape, unit = self._gamma
        if not shape < _STRAIGHT:
            return self.mean + math.sqrt(self.variance) * float(ndtri(probability))
        above_least = float(gammaincinv(shape, probability if unit > 0 else 1 - probability))
        return self.mean + unit * (above_least - shape)

    def below(self, value: float) -> float:
        """The probability of lying below ``value``."""
        shape, unit = self._gamma
        if self.variance <= 0:
            return float(self.mean <= value)
        if not shape < _STRAIGHT:
            return float(ndtr((value - self.mean) / math.sqrt(self.variance)))
        above_least = max(shape + (value - self.mean) / unit, 0.0)
        return float(gammainc(shape, above_least) if unit > 0 else gammaincc(shape, above_least))

    def minus(self, other: Skewed) -> Skewed:
        """The law of the difference from an independent one: cumulants add."""
        return Skewed(self.mean - other.mean, self.variance + other.variance, self.third - other.third)

    @property
    def _gamma(self) -> tuple[float, float]:
        # a gamma of shape a and unit b has variance a b^2 and third cumulant 2 a b^3
        skew = self.third / self.variance**1.5 if self.variance > 0 else 0.0
        if abs(skew) < 2 / math.sqrt(_STRAIGHT):
            return math.inf, 1.0
        return 4 / skew**2, self.third / self.variance / 2


def of_beta(hits: float, misses: float) -> Skewed:
    """The law with the cumulants of Beta(hits, misses).

    >>> law = of_beta(2.0, 8.0)
    >>> round(law.mean, 3), round(law.variance, 5), law.third > 0
    (0.2, 0.01455, True)
    """
    rows = hits + misses
    variance = hits * misses / rows**2 / (rows + 1)
    return Skewed(hits / rows, variance, 2 * variance * (misses - hits) / rows / (rows + 2))


class OfMoments:
    """A law by value, standard error and skewness, of values from ``least`` to ``most``.

    The truth is bounded from below and from above by a law with three cumulants.
    """

    __slots__ = ()

    value: float
    least: float
    most: float

    @property
    def above(self) -> Skewed:
        """The law that bounds the truth from above."""
        raise NotImplementedError

    @property
    def below(self) -> Skewed:
        """The law that bounds the truth from below."""
        raise NotImplementedError

    def interval(self, confidence: float) -> Limits:
        """Equal-tailed limits, clipped to the range of the metric and widened to include its value."""
        tail = (1 - confidence) / 2
        low, high = self.below.quantile(tail), self.above.quantile(1 - tail)
        return min(max(low, self.least), self.value), max(min(high, self.most), self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold."""
        return self.below.below(threshold) if side == "above" else 1 - self.above.below(threshold)

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``, at the present variance; 0 as for a share, None out of range."""
        room = self.most - threshold if side == "above" else threshold - self.least
        if room <= 0:
            return 0.0
        reached = (POWER, rate) if side == "above" else (1 - rate, 1 - POWER)
        distance = self.above.quantile(reached[0]) - self.below.quantile(reached[1])
        return distance if distance <= room else None


@dataclass(frozen=True, slots=True)
class Mean(OfMoments):
    """A mean loss: as for a weighted sum of Poisson counts, by gamma laws (Fay & Feuer 1997).

    ``se`` and ``skew`` are those of the mean. ``rise`` > 0 says by how much the mean would rise if one row had the
    outcome that was not seen, ``fall`` by how much it would fall with one more row without loss. The upper law allows
    for ``rise`` and the lower law for ``fall``, as the exact limits of a Poisson count do: otherwise a loss whose
    rare, large terms were not seen would look certain.
    """

    value: float
    se: float
    skew: float
    rise: float
    fall: float
    most: float = math.inf
    least: float = 0.0

    @property
    def above(self) -> Skewed:
        """The law that bounds the truth from above."""
        return self._moved(self.rise)

    @property
    def below(self) -> Skewed:
        """The law that bounds the truth from below."""
        return self._moved(-self.fall)

    def _moved(self, step: float) -> Skewed:
        # a Poisson count K is bounded by gamma laws of shape K + 1 and K: third cumulants are twice the count's
        third = self.skew * self.se**3 + step**3
        return Skewed(self.value + step, self.se**2 + step**2, 2 * third)


@dataclass(frozen=True, slots=True)
class Ranking:
    """An area under the ROC curve: the share of pairs in order, worth ``rows`` > 0 independent pairs.

    ``rows`` is centre (1 - centre) / variance, as Korn & Graubard 1998 do for shares from surveys. The law of the
    truth is Jeffreys' beta law, Beta(k + 1/2, rows - k + 1/2) with k = value * rows (Brown, Cai & DasGupta 2001): it
    stays within 0 and 1, is skewed near them, and has a width above 0 for a perfect order.
    """

    value: float
    rows: float

    @property
    def above(self) -> Skewed:
        """The first three cumulants of the law, which bounds the truth from above and from below."""
        return of_beta(self.value * self.rows + 0.5, (1 - self.value) * self.rows + 0.5)

    below = above

    def interval(self, confidence: float) -> Limits:
        """Equal-tailed limits, widened to the value where it is 0 or 1."""
        tail = (1 - confidence) / 2
        low, high = (_of_ranking(self.value, self.rows, chance) for chance in (tail, 1 - tail))
        return min(low, self.value), max(high, self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold: the tail of the interval's own law."""
        below = _below_ranking(self.value, self.rows, threshold)
        return below if side == "above" else 1 - below

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``; 0 where no truth can be beyond the threshold."""
        at = threshold if side == "above" else 1 - threshold
        if not 0 < at < 1:
            return 0.0
        if _below_ranking(1.0, self.rows, at) > rate:
            return None
        low, critical = at, 1.0
        for _ in range(_HALVINGS):
            middle = (low + critical) / 2
            low, critical = (low, middle) if _below_ranking(middle, self.rows, at) <= rate else (middle, critical)
        return _of_ranking(critical, self.rows, POWER) - at


def _of_ranking(value: float, rows: float, chance: float) -> float:
    return float(betaincinv(value * rows + 0.5, (1 - value) * rows + 0.5, chance))


def _below_ranking(value: float, rows: float, threshold: float) -> float:
    return float(betainc(value * rows + 0.5, (1 - value) * rows + 0.5, min(max(threshold, 0.0), 1.0)))


@dataclass(frozen=True, slots=True)
class LogitArea:
    """An average precision: ``value`` as found, ``centre`` in (0, 1) and ``se`` > 0 with an unseen hit added.

    ``low_centre`` and ``low_se`` also have part of an unseen miss on top added, the row that would cost most. They
    bound the truth from below, ``centre`` and ``se`` from above.
    The interval is on the logit scale (Boyd, Eng & Page 2013) with Student's quantile instead of the normal one.
    ``freedom`` is about the number of rows of the rarer class: with few of them ``se`` is a poor guess. The p-value
    is the larger of the plain scale and of the logit scale: for "above" the plain one is too small near 1, for "below"
    the logit one.
    """

    value: float
    centre: float
    se: float
    freedom: float
    low_centre: float
    low_se: float

    @property
    def variance(self) -> float:
        """Variance of the metric; with an unseen miss where that is larger."""
        return max(self.se, self.low_se) ** 2

    @property
    def _below(self) -> tuple[float, float]:
        # centre and standard error of the logit that bounds the truth from below
        return float(logit(self.low_centre)), self.low_se / (self.low_centre * (1 - self.low_centre))

    @property
    def _above(self) -> tuple[float, float]:
        return float(logit(self.centre)), self.se / (self.centre * (1 - self.centre))

    def interval(self, confidence: float) -> Limits:
        """Limits in [0, 1], widened to include the value."""
        quantile = float(stdtrit(self.freedom, (1 + confidence) / 2))
        ends = [centre - quantile * se for centre, se in (self._below, self._above)]
        centre, se = self._above
        low, high = float(expit(min(ends))), float(expit(centre + quantile * se))
        return min(low, self.value), max(high, self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold."""
        if not 0 < threshold < 1:
            certain = threshold <= 0 if side == "above" else threshold >= 1
            return 0.0 if certain else 1.0
        at = float(logit(threshold))
        if side == "above":
            steps = [(self.value - threshold) / self.se, *((c - at) / se for c, se in (self._below, self._above))]
        else:
            steps = [(threshold - self.value) / self.se, (at - self._above[0]) / self._above[1]]
        return float(stdtr(self.freedom, -min(steps)))

    def risen_from(self, other: LogitArea, by: float = 0.0) -> float:
        """One-sided p-value for a truth more than ``by`` above that of an independent area.

        It is the larger of the plain scale and of the logit scale.
        """
        if by > 0:
            other = replace(other, value=other.value + by, centre=min(other.centre + by, _NEARLY_ONE))
        plain = (self.value - other.value) / math.hypot(self.se, other.se)
        centre, se = other._above
        logits = [(at - centre) / math.hypot(spread, se) for at, spread in (self._below, self._above)]
        return float(stdtr(self.freedom_with(other), -min(plain, *logits)))

    def freedom_with(self, other: LogitArea) -> float:
        """Degrees of freedom of the difference of two areas (Satterthwaite 1946)."""
        parts = self.variance**2 / self.freedom + other.variance**2 / other.freedom
        return (self.variance + other.variance) ** 2 / parts

    def detectable(self, threshold: float, side: Side, rate: float) -> float | None:
        """The smallest distance seen with ``power``; areas vary more at the threshold than near 0 or 1."""
        if not 0 < threshold < 1:
            return 0.0
        ratio = threshold * (1 - threshold) / (self.centre * (1 - self.centre))
        reach = float(ndtri(POWER) - stdtrit(self.freedom, rate))
        distance = (math.sqrt(self.variance) if side == "above" else self.se) * math.sqrt(max(ratio, 1.0)) * reach
        room = 1 - threshold if side == "above" else threshold
        return distance if distance <= room else None
