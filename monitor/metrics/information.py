"""Information: how uncertain the scores and the labels are, and how much the prediction says about the truth.

Everything is in nats (bits are nats / ln 2; the functions with a ``unit`` convert).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

import numpy as np

from monitor.core.counts import Counts
from monitor.core.rows import Floats, ProbabilityRows
from monitor.metrics.classification import Confusion, confusion_of
from monitor.metrics.definition import Metric
from monitor.metrics.groups import Core, Groups, number, on_counts, over
from monitor.metrics.multiclass import confusion_matrix
from monitor.metrics.row_sums import RowStatistic, entropy_sums, hard_confusion

Unit = Literal["nats", "bits"]


def entropy(shares: Floats, unit: Unit = "nats") -> Floats:
    """Shannon's entropy -sum p ln p over the last axis, of shares made to add up to 1; NaN where all are 0.

    Shannon 1948; scipy.stats.entropy is the same.

    >>> float(entropy(np.array([0.5, 0.5]), "bits"))
    1.0
    """
    p = over(shares, shares.sum(axis=-1, keepdims=True))
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(-(p * logs).sum(axis=-1) / _nats(unit)) + 0.0


def mutual_information_of(matrix: Floats, unit: Unit = "nats") -> Floats:
    """Mutual information of the row and the column of a table of weights (..., K, L); NaN where it is empty.

    sum p_ab ln(p_ab / (p_a p_b)) = H(rows) + H(columns) - H(both), never below 0. Shannon 1948;
    sklearn.metrics.mutual_info_score is the same.
    """
    both = matrix.reshape(*matrix.shape[:-2], -1)
    found = entropy(matrix.sum(axis=-1)) + entropy(matrix.sum(axis=-2)) - entropy(both)
    return np.maximum(found, 0.0) / _nats(unit)


def score_entropy(rows: ProbabilityRows, unit: Unit = "nats") -> float | None:
    """The mean over items of the entropy of their scores, from 0 to ln K; None where no label is scored."""
    value = _BY_NAME["score_entropy"].point(rows)
    return None if value is None else value / _nats(unit)


def class_entropy(rows: ProbabilityRows, unit: Unit = "nats") -> float | None:
    """The entropy of the true labels' shares, from 0 to ln K; None without rows."""
    value = _BY_NAME["class_entropy"].point(rows)
    return None if value is None else value / _nats(unit)


def class_mutual_information(rows: ProbabilityRows, unit: Unit = "nats") -> float | None:
    """Mutual information of the true and of the highest-scored label, at most their entropies; None without rows."""
    return number(mutual_information_of(confusion_matrix(rows), unit))


def outcome_entropy(counts: Counts, unit: Unit = "nats") -> float | None:
    """The entropy of one label's outcome, from 0 to ln 2; None without rows."""
    return number(entropy(np.array([counts.wy.sum(), (counts.w - counts.wy).sum()]).clip(0.0), unit))


def mutual_information(counts: Counts) -> float | None:
    """Mutual information, in nats, of one label's truth and of whether it was predicted; None without rows.

    From 0 to ln 2. With ``confidence_in_prediction`` the truth is y where predicted and 1 - y where not.

    >>> from monitor.core.counts import counts_from_rows
    >>> round(mutual_information(counts_from_rows([0.9, 0.9, 0.1, 0.1], [1, 1, 0, 0])), 6)
    0.693147
    """
    return on_counts(mutual_information_core, counts)


def mutual_information_core(groups: Groups) -> Floats:
    """:func:`mutual_information` of groups, shape () or (B,); NaN where there are none."""
    return mutual_information_of(_table(confusion_of(groups)))


def _table(found: Confusion) -> Floats:
    """Weights by truth (no, yes) and decision (no, yes), shape (..., 2, 2)."""
    return np.stack((np.stack((found.tn, found.fp), axis=-1), np.stack((found.fn, found.tp), axis=-1)), axis=-2)


def _nats(unit: Unit) -> float:
    """One unit in nats."""
    return math.log(2) if unit == "bits" else 1.0


def _mean_entropy(sums: Floats) -> Floats:
    return over(sums[..., 0], sums[..., 1])


def _truth_entropy(matrix: Floats) -> Floats:
    return entropy(matrix.sum(axis=-1))


STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("score_entropy", (entropy_sums,), _mean_entropy, 0.0, math.inf),
    RowStatistic("class_entropy", (hard_confusion,), _truth_entropy, 0.0, math.inf, biased=True),
    RowStatistic("class_mutual_information", (hard_confusion,), mutual_information_of, 0.0, math.inf, biased=True),
)
_BY_NAME = {statistic.name: statistic for statistic in STATISTICS}

ON_GROUPS: Mapping[str, Core] = MappingProxyType({"mutual_information": mutual_information_core})
"""Metrics that a bootstrap may draw many samples of at once."""

REGISTERED: tuple[Metric, ...] = (
    Metric(
        name="mutual_information",
        summary="Mutual information: how much the decision on a label says about its truth, in nats",
        direction="higher",
        bands=(),
        reference="Shannon 1948",
        docs_anchor="mutual_information",
        needs="counts",
        point=mutual_information,
    ),
    Metric(
        name="class_mutual_information",
        summary="Mutual information of the classes: how much the predicted class says about the true one, in nats",
        direction="higher",
        bands=(),
        reference="Shannon 1948",
        docs_anchor="class_mutual_information",
        needs="rows",
        point=_BY_NAME["class_mutual_information"].point,
    ),
    Metric(
        name="class_entropy",
        summary="Entropy of the classes: how evenly the true labels are spread, in nats",
        direction="none",
        bands=(),
        reference="Shannon 1948",
        docs_anchor="class_entropy",
        needs="rows",
        point=_BY_NAME["class_entropy"].point,
    ),
    Metric(
        name="score_entropy",
        summary="Entropy of the scores: how undecided the classifier is about an item, in nats",
        direction="none",
        bands=(),
        reference="Shannon 1948",
        docs_anchor="score_entropy",
        needs="rows",
        point=_BY_NAME["score_entropy"].point,
    ),
)
