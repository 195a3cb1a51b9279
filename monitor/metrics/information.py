"""Information: how uncertain the scores and the labels are, and how much the prediction says about the truth.

Everything is in nats (bits are nats / ln 2).
"""

from __future__ import annotations

import numpy as np

from monitor.core.counts import Floats
from monitor.metrics.classification import confusion_of
from monitor.metrics.definition import Metric
from monitor.metrics.groups import Groups, over
from monitor.metrics.row_sums import RowStatistic, entropy_sums, hard_confusion, loss_sums, ratio


def entropy(shares: Floats) -> Floats:
    """Shannon's entropy -sum p ln p over the last axis, of shares made to add up to 1; NaN where all are 0.

    (..., K) -> (...).

    Shannon 1948; scipy.stats.entropy is the same.

    >>> round(float(entropy(np.array([0.5, 0.5]))), 6)
    0.693147
    """
    p = over(shares, shares.sum(axis=-1, keepdims=True))
    logs = np.log(p, out=np.zeros_like(p), where=p > 0)
    return np.asarray(-(p * logs).sum(axis=-1)) + 0.0


def mutual_information_of(matrix: Floats) -> Floats:
    """Mutual information of the row and the column of a table of weights (..., K, L); NaN where it is empty.

    sum p_ab ln(p_ab / (p_a p_b)) = H(rows) + H(columns) - H(both), never below 0. Shannon 1948;
    sklearn.metrics.mutual_info_score is the same.
    """
    both = matrix.reshape(*matrix.shape[:-2], -1)
    found = entropy(matrix.sum(axis=-1)) + entropy(matrix.sum(axis=-2)) - entropy(both)
    return np.maximum(found, 0.0)


def mutual_information_core(groups: Groups) -> Floats:
    """Mutual information, in nats, of one label's truth and of whether it was predicted, from 0 to ln 2.

    Of groups, shape () or (B,); NaN where there are none. With ``confidence_in_prediction`` the truth is y where
    predicted and 1 - y where not.
    """
    found = confusion_of(groups)
    # weights by truth (no, yes) and decision (no, yes), shape (..., 2, 2)
    table = np.stack((np.stack((found.tn, found.fp), axis=-1), np.stack((found.fn, found.tp), axis=-1)), axis=-2)
    return mutual_information_of(table)


def class_entropy(matrix: Floats) -> Floats:
    """The entropy of the true labels' shares, from 0 to ln K; matrices (..., K, K) -> (...)."""
    return entropy(matrix.sum(axis=-1))


STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic(
        "class_mutual_information",
        "Mutual information of the classes",
        "higher",
        sums=(hard_confusion,),
        of=mutual_information_of,
        biased=True,
        of_labels=True,
    ),
    RowStatistic(
        "class_entropy",
        "Entropy of the classes",
        "none",
        sums=(hard_confusion,),
        of=class_entropy,
        biased=True,
        of_labels=True,
    ),
    RowStatistic(
        "score_entropy", "Entropy of the scores", "none", sums=(entropy_sums,), of=ratio(0, 1), of_labels=True
    ),
    RowStatistic("class_nll", "Log loss of the classes", "lower", sums=(loss_sums,), of=ratio(0, 1)),
    RowStatistic("entropy_weighted_nll", "Entropy-weighted log loss", "lower", sums=(loss_sums,), of=ratio(2, 3)),
)

REGISTERED: tuple[Metric, ...] = (
    Metric("mutual_information", "Mutual information", "higher", core=mutual_information_core),
    *STATISTICS,
)
