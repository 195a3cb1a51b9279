"""The three laws by which a metric that is not binned varies from sample to sample.

Each answers the same questions in closed form: an interval, the evidence that the truth is beyond a
threshold, and how far beyond it must be to be seen. :class:`Proportion` is exact, for shares of
rows; :class:`Mean` is normal with a correction for skewness, for mean losses; :class:`Area` is normal on two
scales, for areas under curves.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import betainc, betaincinv, expit, logit, ndtr, ndtri

from monitor.inference.change import Side


@dataclass(frozen=True, slots=True)
class Proportion:
    """A metric offset + scale * share, where ``share`` of ``rows`` independent rows is binomial.

    ``rows`` need not be whole: the incomplete beta takes a fraction as it is. ``scale`` may be negative (the
    shortfall falls as hits rise), but not zero.
    """

    share: float
    rows: float
    offset: float = 0.0
    scale: float = 1.0

    @property
    def value(self) -> float:
        """The metric."""
        return self.offset + self.scale * self.share

    @property
    def variance(self) -> float:
        """Variance of the metric at (k + 1/2) / (n + 1), which is zero for no k."""
        return self.variance_at((self.share * self.rows + 0.5) / (self.rows + 1))

    def variance_at(self, share: float) -> float:
        """Variance of the metric if ``share`` were the true one; infinite without rows."""
        return self.scale**2 * share * (1 - share) / self.rows if self.rows > 0 else math.inf

    def share_at(self, value: float) -> float:
        """The share at which the metric has this value, brought into [0, 1]."""
        return min(max((value - self.offset) / self.scale, 0.0), 1.0)

    def interval(self, confidence: float) -> tuple[float, float]:
        """Limits by Clopper & Pearson 1934."""
        low, high = clopper_pearson(self.share, self.rows, confidence)
        ends = self.offset + self.scale * low, self.offset + self.scale * high
        return min(ends), max(ends)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided exact binomial p-value for a truth beyond the threshold."""
        share, at = self._upwards(threshold, side)
        return binomial_tail(share, self.rows, at)

    def detectable(self, threshold: float, side: Side, rate: float, power: float) -> float | None:
        """The smallest distance seen with ``power``; 0 where no truth can be beyond the threshold."""
        _, at = self._upwards(threshold, side)
        if at < 0 or at >= 1:
            return 0.0
        least = _critical(self.rows, at, rate)
        if least is None:
            return None
        return float(betaincinv(least, self.rows - least + 1, power) - at) * abs(self.scale)

    def _upwards(self, threshold: float, side: Side) -> tuple[float, float]:
        # "beyond" always as a share that is too high: the share of the others where it is too low
        at = (threshold - self.offset) / self.scale
        return (self.share, at) if (side == "above") == (self.scale > 0) else (1 - self.share, 1 - at)


def clopper_pearson(share: float, rows: float, confidence: float) -> tuple[float, float]:
    """Clopper & Pearson's limits of a share seen in so many rows (a fraction is allowed).

    >>> low, high = clopper_pearson(0.9, 100.0, 0.95)
    >>> round(low, 4), round(high, 4)
    (0.8238, 0.951)
    """
    tail = (1 - confidence) / 2
    hits, misses = share * rows, (1 - share) * rows
    low = float(betaincinv(hits, misses + 1, tail)) if hits > 0 else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if misses > 0 else 1.0
    return min(low, share), max(high, share)


def binomial_tail(share: float, rows: float, at: float) -> float:
    """P(K / rows >= share) where K is binomial with probability ``at`` (outside [0, 1]: certain).

    >>> round(binomial_tail(0.9, 10, 0.5), 6)  # 11 / 1024
    0.010742
    """
    hits = share * rows
    if hits <= 0 or at >= 1:
        return 1.0
    return float(betainc(hits, rows - hits + 1, at)) if at > 0 else 0.0


def _critical(rows: float, at: float, rate: float) -> int | None:
    """The smallest whole number of hits whose tail is at most ``rate``; None where all hits are not enough."""
    low, high = 0, math.floor(rows)
    if high < 1 or betainc(high, rows - high + 1, at) > rate:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if betainc(middle, rows - middle + 1, at) <= rate else (middle, high)
    return high


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean loss: normal after Hall's transformation, which removes the skewness (Hall 1992).

    g(T) = T + k T^2 / 3 + k^2 T^3 / 27 + k / 6 of the studentized mean T, with k the skewness of the mean, is
    closer to normal than T. It is the Cornish-Fisher correction made monotone, so that no tail is negative.
    ``most`` is the largest value the metric can have; the smallest is 0.
    """

    value: float
    se: float
    skew: float
    most: float = math.inf

    @property
    def variance(self) -> float:
        """Variance of the metric."""
        return self.se**2

    @property
    def third(self) -> float:
        """Third cumulant of the metric."""
        return self.skew * self.se**3

    def interval(self, confidence: float) -> tuple[float, float]:
        """Limits by inverting Hall's transformation."""
        z = float(ndtri((1 + confidence) / 2))
        low = self.value - self.se * from_normal(z, self.skew)
        high = self.value - self.se * from_normal(-z, self.skew)
        return min(max(low, 0.0), self.value), max(min(high, self.most), self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold."""
        z = to_normal((self.value - threshold) / self.se, self.skew)
        return float(ndtr(-z if side == "above" else z))

    def detectable(self, threshold: float, side: Side, rate: float, power: float) -> float | None:
        """The distance at which a truth is seen with ``power``, with the variance now found."""
        sign = 1 if side == "above" else -1
        needed = from_normal(-sign * float(ndtri(rate)), self.skew)
        likely = from_normal(-sign * float(ndtri(power)), self.skew)
        distance = sign * self.se * (needed - likely)
        return distance if 0 <= threshold + sign * distance <= self.most else None


def to_normal(studentized: float, skew: float) -> float:
    """Hall's transformation of a studentized mean."""
    return studentized + skew * studentized**2 / 3 + skew**2 * studentized**3 / 27 + skew / 6


def from_normal(z: float, skew: float) -> float:
    """The inverse of :func:`to_normal`.

    >>> round(to_normal(from_normal(1.96, 0.3), 0.3), 6)
    1.96
    """
    if abs(skew) < 1e-6:  # the closed form would divide rounding errors by the skewness
        return z
    return float(np.cbrt(1 + skew * (z - skew / 6)) - 1) * 3 / skew


@dataclass(frozen=True, slots=True)
class Area:
    """An area under a curve: ``value`` as found, ``centre`` in (0, 1) and ``se`` > 0 with an unseen row added.

    The interval is Wald's on the logit scale. The p-value is the larger one of the plain and of the logit scale:
    against "above" the plain one is too small near 1, against "below" the logit one is.
    """

    value: float
    centre: float
    se: float

    @property
    def variance(self) -> float:
        """Variance of the metric."""
        return self.se**2

    @property
    def _logit_se(self) -> float:
        return self.se / (self.centre * (1 - self.centre))

    def interval(self, confidence: float) -> tuple[float, float]:
        """Limits in (0, 1), widened to the value where it is 0 or 1."""
        half = float(ndtri((1 + confidence) / 2)) * self._logit_se
        low, high = (float(expit(logit(self.centre) + step)) for step in (-half, half))
        return min(low, self.value), max(high, self.value)

    def p_value(self, threshold: float, side: Side) -> float:
        """One-sided p-value for a truth beyond the threshold."""
        if not 0 < threshold < 1:
            return 0.0 if _beyond(0.5, threshold, side) else 1.0
        sign = -1 if side == "above" else 1
        plain = (self.value - threshold) / self.se
        logits = float(logit(self.centre) - logit(threshold)) / self._logit_se
        return float(max(ndtr(sign * plain), ndtr(sign * logits)))

    def detectable(self, threshold: float, side: Side, rate: float, power: float) -> float | None:
        """The distance seen with ``power``: at the threshold areas vary more than near 0 or 1."""
        ratio = threshold * (1 - threshold) / (self.centre * (1 - self.centre))
        distance = self.se * math.sqrt(max(ratio, 1.0)) * float(ndtri(power) - ndtri(rate))
        room = 1 - threshold if side == "above" else threshold
        return distance if distance <= room else None


def _beyond(value: float, threshold: float, side: Side) -> bool:
    return value > threshold if side == "above" else value < threshold
