"""Expected metrics of rows without a truth, from their scores and the chance that each comes true.

The chances come from a baseline's calibration map (:mod:`monitor.inference.before_truth`). So these are estimates, not
measurements: they are valid while calibration is as in the baseline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Bools, Floats, Ints
from monitor.core.records import ScoreIs
from monitor.metrics.definition import Metric


@dataclass(frozen=True, slots=True, eq=False)
class ExpectedOutcomes:
    """K groups of rows without a truth; every array has shape (K,).

    ``n`` counts rows, ``score`` is their mean score, ``chance`` the share of them that is expected to come true,
    ``predicted`` whether the label was decided for. ``bin`` is the index of the bin in which an ECE sees the group.
    """

    n: Ints
    score: Floats
    chance: Floats
    predicted: Bools
    bin: Ints
    score_is: ScoreIs = "probability_of_label"

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.n.sum())

    def mean(self, values: Floats) -> float | None:
        """The mean over the rows of a value of each group, shape (K,); None without rows."""
        return float((self.n * values).sum()) / self.rows if self.rows else None

    @property
    def right(self) -> Floats:
        """The share of each group whose decision is expected to be right, shape (K,)."""
        decided = self.predicted | (self.score_is == "confidence_in_prediction")
        return np.where(decided, self.chance, 1 - self.chance)


def expected_accuracy(found: ExpectedOutcomes) -> float | None:
    """The expected share of right decisions, in [0, 1]; None without rows.

    >>> two = np.array([1, 1]), np.array([0.9, 0.2]), np.array([0.8, 0.1]), np.array([True, False]), np.array([1, 0])
    >>> round(expected_accuracy(ExpectedOutcomes(*two)), 6)
    0.85
    """
    return found.mean(found.right)


def expected_overconfidence(found: ExpectedOutcomes) -> float | None:
    """Mean score minus the share that is expected to come true, in [-1, 1]; None without rows.

    >>> two = np.array([1, 1]), np.array([0.9, 0.2]), np.array([0.8, 0.1]), np.array([True, False]), np.array([1, 0])
    >>> round(expected_overconfidence(ExpectedOutcomes(*two)), 6)
    0.1
    """
    return found.mean(found.score - found.chance)


def expected_ece(found: ExpectedOutcomes) -> float | None:
    """The mean distance of score and expected share over the bins, in [0, 1]; None without rows.

    >>> two = np.array([1, 1]), np.array([0.9, 0.2]), np.array([0.8, 0.3]), np.array([True, False]), np.array([0, 0])
    >>> expected_ece(ExpectedOutcomes(*two))
    0.0
    """
    if not found.rows:
        return None
    gap = np.bincount(found.bin, weights=found.n * (found.score - found.chance))
    return float(np.abs(gap).sum()) / found.rows


REGISTERED = (
    Metric("expected_accuracy", "Expected accuracy", expected_accuracy, "higher"),
    Metric("expected_overconfidence", "Expected overconfidence", expected_overconfidence, "lower"),
    Metric("expected_ece", "Expected calibration error before the truth", expected_ece, "lower"),
)
