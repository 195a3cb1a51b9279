"""Calibration: do the scores mean what they say? ECE, MCE, Brier score and its parts, log loss, overconfidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import (
    BinCounts,
    Counts,
    Floats,
    bin_counts,
    equal_width_edges,
)
from monitor.metrics.definition import Band, Metric
from monitor.metrics.groups import Groups, over

EPSILON = 1e-15
BINS = 15  # for ace and equal_width_ece, independent of alerts.yaml
POSITIVE_WEIGHT = 5.0  # a positive (urgent) ticket weighs as much as five others


def ece(bins: BinCounts) -> float | None:
    """Expected calibration error (plug-in): sum of w_m / W * abs(y_m - c_m) over the bins.

    In [0, 1]; None where no bin holds a row. Naeini, Cooper & Hauskrecht 2015; Guo et al. 2017.
    With equal-frequency bins it is the adaptive ACE of Nixon et al. 2019.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> round(ece(bin_counts(counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0]), (5000, 10000))), 6)
    0.333333
    """
    total = float(bins.w.sum())
    return float((bins.w * np.abs(bins.rate - bins.score)).sum()) / total if total > 0 else None


def brier(counts: Counts) -> float | None:
    """Brier score from the exact sums: mean of s^2 - 2 s y + y.

    That is (s - y)^2 for a 0/1 outcome, and y (s - 1)^2 + (1 - y) s^2 for a soft one (y of a hit and
    1 - y of a miss). In [0, 1]; None without rows. Brier 1950.

    >>> from monitor.core.counts import counts_from_rows
    >>> round(brier(counts_from_rows([0.9, 0.2], [1, 0])), 6)
    0.025
    """
    total = float(counts.w.sum())
    if total <= 0:
        return None
    mean = float((counts.ws2 - 2 * counts.wsy + counts.wy).sum()) / total
    return min(max(mean, 0.0), 1.0)  # sums of floats may leave the range by a rounding error


def nll(counts: Counts) -> float | None:
    """Log loss: mean of -[y ln(s + eps) + (1 - y) ln(1 - s + eps)], eps 1e-15, s the mean of the cell.

    In nats, from 0 up to 34.5; None without rows. Good 1952.

    >>> from monitor.core.counts import counts_from_rows
    >>> round(nll(counts_from_rows([0.5, 0.5], [1, 0])), 6)
    0.693147
    """
    losses = log_losses(counts)
    return None if losses is None else max(losses.mean, 0.0)


@dataclass(frozen=True, slots=True)
class Losses:
    """The loss of a row, by group: ``hit`` where the outcome is 1, ``miss`` where it is 0, each (K,).

    ``weight``, ``square`` and ``rate`` are the groups' sum of w, sum of w^2 and share of outcomes
    that came true, each (K,); ``design_effect`` that of the counts.
    """

    hit: Floats
    miss: Floats
    weight: Floats
    square: Floats
    rate: Floats
    design_effect: float

    @property
    def mean(self) -> float:
        """The mean loss."""
        return float((self.weight * self._expected(self.hit, self.miss)).sum() / self.weight.sum())

    @property
    def rise(self) -> float:
        """By how much a row's loss would rise if its outcome became the more costly one; the mean over the rows.

        It is at least the mean loss, to allow for losses of scores that were not seen.
        """
        more = self.miss - self.hit
        rises = self._expected(np.maximum(more, 0.0), np.maximum(-more, 0.0))
        return max(float((self.weight * rises).sum() / self.weight.sum()), self.mean)

    def cumulants(self) -> tuple[float, float]:
        """Variance and third cumulant of the mean loss, if rows are drawn anew with score and outcome.

        Var = sum w^2 (L - mean)^2 / W^2, times the design effect and n / (n - 1) with n effective rows;
        the third likewise, with w2^2 / w for the sum of w^3 of a group (equal where weights are).
        """
        total, centre = float(self.weight.sum()), self.mean
        hit, miss = self.hit - centre, self.miss - centre
        variance = float((self.square * self._expected(hit**2, miss**2)).sum()) / total**2 * self.design_effect
        # products, since numpy's powers of negative numbers are slow, and differ in the last digit by processor
        cubes = self.square**2 / self.weight * self._expected(hit * hit * hit, miss * miss * miss)
        rows = total**2 / float(self.square.sum()) / self.design_effect
        return variance * bessel(rows), float(cubes.sum()) / total**3 * self.design_effect**2

    def _expected(self, hit: Floats, miss: Floats) -> Floats:
        return self.rate * hit + (1 - self.rate) * miss


def bessel(rows: float) -> float:
    """n / (n - 1), which makes a variance unbiased; at most 3, for fewer than 1.5 (effective) rows."""
    return 1 + 1 / max(rows - 1, 0.5)


def squared_losses(counts: Counts) -> Losses | None:
    """The Brier score's losses: (1 - s)^2 for a hit, s^2 for a miss; None without rows."""
    return _losses(counts, lambda score: ((1 - score) ** 2, score**2))


def log_losses(counts: Counts) -> Losses | None:
    """The log loss's losses: -ln(s + eps) for a hit, -ln(1 - s + eps) for a miss; None without rows."""
    return _losses(counts, _logs)


def _losses(counts: Counts, of: Callable[[Floats], tuple[Floats, Floats]]) -> Losses | None:
    counts = counts.weighted()
    if len(counts.w) == 0:
        return None
    return Losses(*of(counts.score), counts.w, counts.w2, counts.rate, counts.design_effect)


def _logs(score: Floats) -> tuple[Floats, Floats]:
    """The log loss of a hit and of a miss with these scores."""
    score = np.round(score, 14)  # or a rounding error of two sums makes 1 into 1 - eps
    return -np.log(score + EPSILON), -np.log(1 - score + EPSILON)


def equal_width_ece(counts: Counts, bins: int = BINS) -> float | None:
    """Expected calibration error (plug-in) over bins of equal width, whatever binning is configured.

    In [0, 1]; None without rows. Naeini, Cooper & Hauskrecht 2015; Guo et al. 2017.

    >>> from monitor.core.counts import counts_from_rows
    >>> round(equal_width_ece(counts_from_rows([0.61, 0.62, 0.2], [1, 0, 0])), 6)  # .61 and .62 share a bin
    0.143333
    """
    return ece(bin_counts(counts, equal_width_edges(bins)))


def reliability_core(groups: Groups) -> Floats:
    """Murphy's reliability, each group being a bin. Shape (...)."""
    held = groups.hit + groups.miss
    return over((held * (groups.score - over(groups.hit, held, 0.0)) ** 2).sum(axis=-1), held.sum(axis=-1))


def resolution_core(groups: Groups) -> Floats:
    """Murphy's resolution, each group being a bin. Shape (...)."""
    held = groups.hit + groups.miss
    total = held.sum(axis=-1)
    mean = over(groups.hit.sum(axis=-1), total, 0.0)[..., None]
    return over((held * (over(groups.hit, held, 0.0) - mean) ** 2).sum(axis=-1), total)


def uncertainty_core(groups: Groups) -> Floats:
    """Murphy's uncertainty: the variance of the outcomes. Shape (...)."""
    hit, miss = groups.hit.sum(axis=-1), groups.miss.sum(axis=-1)
    return over(hit * miss, (hit + miss) ** 2)


def class_weighted_nll_core(groups: Groups, positive_weight: float = POSITIVE_WEIGHT) -> Floats:
    """Log loss with the actual positives weighing ``positive_weight`` times as much as the negatives. Shape (...).

    sum k w loss / sum k w with k the weight of the true class: scikit-learn's ``log_loss`` with these sample weights.
    In nats, from 0 up to 34.5. King & Zeng 2001.
    """
    hit, miss = _logs(groups.score)
    of_hits = np.where(groups.truth_is_outcome, positive_weight, 1.0)
    of_misses = np.where(groups.truth_is_outcome, 1.0, positive_weight)
    loss = groups.hit @ (hit * of_hits) + groups.miss @ (miss * of_misses)
    return np.clip(over(loss, groups.hit @ of_hits + groups.miss @ of_misses), 0.0, -math.log(EPSILON))


BRIER_BANDS = (
    Band(0.0, 0.10, "good"),
    Band(0.10, 0.25, "not good"),
    Band(0.25, 1.0, "worse than always saying .5"),
)
CALIBRATION_BANDS = (
    Band(0.0, 0.05, "well calibrated"),
    Band(0.05, 0.10, "somewhat off"),
    Band(0.10, 0.20, "recalibrate"),
    Band(0.20, 1.0, "severely miscalibrated"),
)

REGISTERED: tuple[Metric, ...] = (
    Metric("ace", "Adaptive calibration error", "lower", CALIBRATION_BANDS),
    Metric("equal_width_ece", "Equal-width calibration error", "lower", CALIBRATION_BANDS),
    Metric("brier_reliability", "Reliability", "lower", core=reliability_core),
    Metric("brier_resolution", "Resolution", "higher", core=resolution_core),
    Metric("brier_uncertainty", "Uncertainty", "none", core=uncertainty_core),
    Metric("class_weighted_nll", "Class-weighted log loss", "lower", core=class_weighted_nll_core),
)
