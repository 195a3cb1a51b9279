"""Certainty: how much of a classifier's performance comes from confident scores (Aguilar-Ruiz 2024).

With T the truth and Q the scores of N items, CM* = T'Q is the confusion matrix of the scores. V is the part of it from
each item's highest score, U the rest. Any measure of a confusion matrix can be computed for CM*, V and U.
"""

from __future__ import annotations

import numpy as np

from monitor.core.counts import Floats
from monitor.metrics.definition import Metric
from monitor.metrics.groups import over
from monitor.metrics.multiclass import Measure, accuracy
from monitor.metrics.row_sums import RowStatistic, certain_confusion, closeness_sums, hard_confusion, soft_confusion


def certainty_ratio(soft: Floats, certain: Floats, measure: Measure = accuracy) -> Floats:
    """phi(V) / (phi(V) + phi(U)), shape (...); phi(U) is 0 if U is empty, as with one-hot scores.

    NaN if phi(V) is not defined, or if U is not empty and phi(U) is not defined.
    """
    uncertain = uncertain_part(soft, certain)
    empty = uncertain.sum(axis=(-2, -1)) <= 0
    of_certain = measure(certain)
    of_uncertain = np.where(empty, 0.0, measure(uncertain))
    return over(of_certain, of_certain + of_uncertain)


def certain_share(soft: Floats, certain: Floats) -> Floats:
    """lambda_v = sum V / sum (U + V), shape (...)."""
    return over(certain.sum(axis=(-2, -1)), soft.sum(axis=(-2, -1)))


def divergence(hard: Floats, soft: Floats) -> Floats:
    """d = sqrt(sum (CM - CM*)^2) / n, shape (...)."""
    return over(np.sqrt(((hard - soft) ** 2).sum(axis=(-2, -1))), hard.sum(axis=(-2, -1)))


def imcp_area(sums: Floats) -> Floats:
    """The area under the IMCP curve: the mean over classes of 1 - Hellinger's distance of scores and truth; (...).

    ``sums`` (..., K, 2) are :func:`~monitor.metrics.row_sums.closeness_sums`. Each item is a step of the curve, as wide
    as 1 / (K n) in a class of n items; classes without an item are left out. Aguilar-Ruiz & Michalak 2024.
    """
    near = over(sums[..., 0], sums[..., 1])
    held = np.isfinite(near)
    return over(np.where(held, near, 0.0).sum(axis=-1), held.sum(axis=-1))


def uncertain_part(soft: Floats, certain: Floats) -> Floats:
    """U, with rounding differences of two sums of the same rows set to 0; shape (..., K, K)."""
    rest = soft - certain
    return np.where(rest > 1e-12 * soft, rest, 0.0)


def uncertain_accuracy(soft: Floats, certain: Floats) -> Floats:
    """The accuracy of U, shape (...)."""
    return accuracy(uncertain_part(soft, certain))


_BOTH = (soft_confusion, certain_confusion)
STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("certainty_accuracy", "Accuracy of the scores", "higher", (soft_confusion,), accuracy),
    RowStatistic("certain_accuracy", "Accuracy of the certain part", "higher", (certain_confusion,), accuracy),
    RowStatistic("uncertain_accuracy", "Accuracy of the uncertain part", "none", _BOTH, uncertain_accuracy),
    RowStatistic("certainty_ratio", "Certainty ratio", "higher", _BOTH, certainty_ratio),
    RowStatistic("certain_share", "Certain share", "none", _BOTH, certain_share),
    RowStatistic("certainty_divergence", "Divergence", "lower", (hard_confusion, soft_confusion), divergence, True),
    RowStatistic("imcp_area", "IMCP area", "higher", (closeness_sums,), imcp_area),
)
REGISTERED: tuple[Metric, ...] = tuple(statistic.metric() for statistic in STATISTICS)
