"""Calibration: do the scores mean what they say? ECE, MCE, Brier score, log loss, shortfall."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.counts import BinCounts, Counts, Floats

EPSILON = 1e-15


def ece(bins: BinCounts) -> float | None:
    """Expected calibration error (plug-in): sum of w_m / W * abs(y_m - c_m) over the bins.

    In [0, 1]; None where no bin holds a row. Naeini, Cooper & Hauskrecht 2015; Guo et al. 2017.
    With equal-frequency bins it is the adaptive ACE of Nixon et al. 2019.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> round(ece(bin_counts(counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0]), (5000, 10000))), 6)
    0.333333
    """
    total = float(bins.w.sum())
    return float((bins.w * np.abs(bins.rate - bins.score)).sum()) / total if total > 0 else None


def mce(bins: BinCounts) -> float | None:
    """Maximum calibration error (plug-in): the largest abs(y_m - c_m) of a bin that holds rows.

    In [0, 1]; None where no bin does. Naeini, Cooper & Hauskrecht 2015.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> round(mce(bin_counts(counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0]), (5000, 10000))), 6)
    0.4
    """
    held = bins.w > 0
    return float(np.abs(bins.rate - bins.score)[held].max()) if held.any() else None


def brier(counts: Counts) -> float | None:
    """Brier score from the exact sums: mean of s^2 - 2 s y + y.

    That is (s - y)^2 for a 0/1 outcome, and y (s - 1)^2 + (1 - y) s^2 for a soft one (y of a hit and
    1 - y of a miss). In [0, 1]; None without rows. Brier 1950.

    >>> from monitor.counts import counts_from_rows
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

    >>> from monitor.counts import counts_from_rows
    >>> round(nll(counts_from_rows([0.5, 0.5], [1, 0])), 6)
    0.693147
    """
    losses = log_losses(counts)
    return None if losses is None else max(losses.mean, 0.0)


def shortfall(counts: Counts) -> float | None:
    """What was promised and not kept: mean score minus mean outcome, in [-1, 1]; None without rows.

    >>> from monitor.counts import counts_from_rows
    >>> round(shortfall(counts_from_rows([0.9, 0.9], [1, 0])), 6)
    0.4
    """
    total = float(counts.w.sum())
    return float((counts.ws - counts.wy).sum()) / total if total > 0 else None


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
        """By how much the loss of a row would rise if its outcome turned into the dearer one; the mean over the rows.

        At least the mean loss itself: it stands for losses that other scores, not seen, might bring.
        """
        more = self.miss - self.hit
        rises = self._expected(np.maximum(more, 0.0), np.maximum(-more, 0.0))
        return max(float((self.weight * rises).sum() / self.weight.sum()), self.mean)

    def cumulants(self) -> tuple[float, float]:
        """Variance and third cumulant of the mean loss, rows drawn afresh with score and outcome.

        Var = sum w^2 (L - mean)^2 / W^2, times the design effect and n / (n - 1) with n effective rows;
        the third likewise, with w2^2 / w for the sum of w^3 of a group (equal where weights are).
        """
        total, centre = float(self.weight.sum()), self.mean
        hit, miss = self.hit - centre, self.miss - centre
        variance = float((self.square * self._expected(hit**2, miss**2)).sum()) / total**2 * self.design_effect
        cubes = self.square**2 / self.weight * self._expected(hit**3, miss**3)
        rows = total**2 / float(self.square.sum()) / self.design_effect
        return variance * bessel(rows), float(cubes.sum()) / total**3 * self.design_effect**2

    def _expected(self, hit: Floats, miss: Floats) -> Floats:
        return self.rate * hit + (1 - self.rate) * miss


def bessel(rows: float) -> float:
    """n / (n - 1), which makes a variance unbiased; held at 3 below one and a half (effective) rows."""
    return 1 + 1 / max(rows - 1, 0.5)


def squared_losses(counts: Counts) -> Losses | None:
    """The Brier score's losses: (1 - s)^2 for a hit, s^2 for a miss; None without rows."""
    counts = counts.take(counts.w > 0)
    if len(counts.w) == 0:
        return None
    score = counts.score
    return Losses((1 - score) ** 2, score**2, counts.w, counts.w2, counts.rate, counts.design_effect)


def log_losses(counts: Counts) -> Losses | None:
    """The log loss's losses: -ln(s + eps) for a hit, -ln(1 - s + eps) for a miss; None without rows."""
    counts = counts.take(counts.w > 0)
    if len(counts.w) == 0:
        return None
    score = np.round(counts.score, 14)  # or a rounding error of two sums makes 1 into 1 - eps
    hit, miss = -np.log(score + EPSILON), -np.log(1 - score + EPSILON)
    return Losses(hit, miss, counts.w, counts.w2, counts.rate, counts.design_effect)
