"""Certainty: how much of a classifier's performance comes from scores it was sure of (Aguilar-Ruiz 2024).

With T the truth and Q the scores of N items, CM* = T'Q is the confusion matrix that the scores themselves make. V
keeps of it each item's highest score, U the rest. Any measure of a confusion matrix can be taken of CM*, V and U.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.core.rows import Floats, ProbabilityRows
from monitor.metrics.definition import Metric
from monitor.metrics.groups import number, over
from monitor.metrics.multiclass import Measure, accuracy
from monitor.metrics.row_sums import RowStatistic, certain_confusion, closeness_sums, hard_confusion, soft_confusion


@dataclass(frozen=True, slots=True, eq=False)
class Certainty:
    """The four matrices (K, K), true labels in rows, and a measure of each; None where it is not defined.

    ``predicted`` is the ordinary confusion matrix CM, ``expected`` CM*, ``certain`` V, ``uncertain`` U = CM* - V.
    ``ratio`` is phi(V) / (phi(V) + phi(U)), ``share`` (lambda_v) what V holds of CM*, ``divergence`` the distance
    of CM and CM*, the root of the sum of squares over the number of items.
    """

    labels: tuple[str, ...]
    predicted: Floats
    expected: Floats
    certain: Floats
    uncertain: Floats
    of_predicted: float | None
    of_expected: float | None
    of_certain: float | None
    of_uncertain: float | None
    ratio: float | None
    share: float | None
    divergence: float | None


def certainty(rows: ProbabilityRows, measure: Measure = accuracy) -> Certainty:
    """The matrices of these items and the ``measure`` of each (any of ``monitor.metrics.multiclass``).

    Labels that were not scored have the score 0; an item without any score adds nothing.

    >>> from monitor.core.rows import ProbabilityRows
    >>> truth = np.eye(2)[[0, 0, 1]]
    >>> rows = ProbabilityRows(("a", "b"), np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), truth, np.ones(3), 3)
    >>> found = certainty(rows)
    >>> found.expected.round(1).tolist(), round(found.of_expected, 3), round(found.share, 3)
    ([[1.5, 0.5], [0.2, 0.8]], 0.767, 0.767)
    """
    hard, soft, certain = (sums(rows, 1) for sums in (hard_confusion, soft_confusion, certain_confusion))
    uncertain = _rest(soft, certain)
    values = (
        measure(hard),
        measure(soft),
        measure(certain),
        measure(uncertain),
        certainty_ratio(soft, certain, measure),
        certain_share(soft, certain),
        divergence(hard, soft),
    )
    matrices = (hard[0], soft[0], certain[0], uncertain[0])
    return Certainty(rows.labels, *matrices, *(number(value[0]) for value in values))


def certainty_ratio(soft: Floats, certain: Floats, measure: Measure = accuracy) -> Floats:
    """phi(V) / (phi(V) + phi(U)), shape (...); U counts for nothing where it is empty, as with one-hot scores.

    NaN where phi(V) is not defined, or U holds something but phi(U) is not defined.
    """
    uncertain = _rest(soft, certain)
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


def _rest(soft: Floats, certain: Floats) -> Floats:
    """U, with what two sums of the same rows differ by in rounding taken for nothing."""
    rest = soft - certain
    return np.where(rest > 1e-12 * soft, rest, 0.0)


def _uncertain_accuracy(soft: Floats, certain: Floats) -> Floats:
    return accuracy(_rest(soft, certain))


STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("certainty_accuracy", (soft_confusion,), accuracy),
    RowStatistic("certain_accuracy", (certain_confusion,), accuracy),
    RowStatistic("uncertain_accuracy", (soft_confusion, certain_confusion), _uncertain_accuracy),
    RowStatistic("certainty_ratio", (soft_confusion, certain_confusion), certainty_ratio),
    RowStatistic("certain_share", (soft_confusion, certain_confusion), certain_share),
    RowStatistic("certainty_divergence", (hard_confusion, soft_confusion), divergence, 0.0, math.sqrt(2), biased=True),
    RowStatistic("imcp_area", (closeness_sums,), imcp_area),
)
_BY_NAME = {statistic.name: statistic for statistic in STATISTICS}
_REFERENCE = "Aguilar-Ruiz 2024"

REGISTERED: tuple[Metric, ...] = (
    Metric(
        name="certainty_accuracy",
        summary="Accuracy of the scores: the mean score that the true label got",
        direction="higher",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="certainty_accuracy",
        needs="rows",
        point=_BY_NAME["certainty_accuracy"].point,
    ),
    Metric(
        name="certain_accuracy",
        summary="Accuracy of the certain part: the share of the highest scores that went to the true label",
        direction="higher",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="certain_accuracy",
        needs="rows",
        point=_BY_NAME["certain_accuracy"].point,
    ),
    Metric(
        name="uncertain_accuracy",
        summary="Accuracy of the uncertain part: the share of the other scores that went to the true label",
        direction="none",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="uncertain_accuracy",
        needs="rows",
        point=_BY_NAME["uncertain_accuracy"].point,
    ),
    Metric(
        name="certainty_ratio",
        summary="Certainty ratio: how much of the accuracy comes from the scores that the classifier was sure of",
        direction="higher",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="certainty_ratio",
        needs="rows",
        point=_BY_NAME["certainty_ratio"].point,
    ),
    Metric(
        name="certain_share",
        summary="Certain share: what the highest scores hold of all scores, lambda_v",
        direction="none",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="certain_share",
        needs="rows",
        point=_BY_NAME["certain_share"].point,
    ),
    Metric(
        name="certainty_divergence",
        summary="Divergence: how far the scores' own confusion matrix is from the ordinary one",
        direction="lower",
        bands=(),
        reference=_REFERENCE,
        docs_anchor="certainty_divergence",
        needs="rows",
        point=_BY_NAME["certainty_divergence"].point,
    ),
    Metric(
        name="imcp_area",
        summary="IMCP area: how near the scores of an item are to its truth, classes weighing the same",
        direction="higher",
        bands=(),
        reference="Aguilar-Ruiz & Michalak 2024",
        docs_anchor="imcp_area",
        needs="rows",
        point=_BY_NAME["imcp_area"].point,
    ),
)
