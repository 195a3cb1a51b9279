"""Classification: was the decision right? Accuracy, false-negative rate, precision, recall and F1.

With ``probability_of_label`` the outcome y is the truth of the label, so a row that was predicted is
right where y = 1 and one that was not where y = 0. With ``confidence_in_prediction`` y already says
whether the decision was right, and the truth is y where predicted, 1 - y where not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.counts import Counts, Floats


@dataclass(frozen=True, slots=True)
class Share:
    """A weighted share: ``value`` in [0, 1] of what ``rows`` independent rows are worth."""

    value: float
    rows: float


def accuracy(counts: Counts) -> float | None:
    """Share of rows whose decision was right, in [0, 1]; None without rows.

    >>> from monitor.counts import counts_from_rows
    >>> accuracy(counts_from_rows([0.9, 0.8, 0.2, 0.1], [1, 0, 0, 1]))
    0.5
    """
    share = right(counts)
    return None if share is None else share.value


def false_negative_rate(counts: Counts) -> float | None:
    """Share of the actual positives that were not predicted, in [0, 1]; None without a positive.

    >>> from monitor.counts import counts_from_rows
    >>> false_negative_rate(counts_from_rows([0.9, 0.8, 0.2, 0.1], [1, 0, 0, 1]))
    0.5
    """
    share = missed(counts)
    return None if share is None else share.value


def right(counts: Counts) -> Share | None:
    """The share of right decisions with its effective rows; None without rows."""
    total = float(counts.w.sum())
    if total <= 0:
        return None
    hits = counts.wy if counts.score_is == "confidence_in_prediction" else _where_predicted(counts)
    return Share(_within_one(float(hits.sum()) / total), counts.effective_rows)


def missed(counts: Counts) -> Share | None:
    """The share of missed positives with the effective number of positives; None without one.

    The squared weights of a group's positives are taken as their share of the group's.
    """
    actual = _actual(counts)
    total = float(actual.sum())
    if total <= 0:
        return None
    held = counts.w > 0
    squares = float((counts.w2[held] * actual[held] / counts.w[held]).sum())
    value = float(actual[~counts.predicted].sum()) / total
    return Share(_within_one(value), total**2 / squares / counts.design_effect)


def predicted_right(counts: Counts) -> Share | None:
    """The precision as a share of the predicted rows; None where nothing was predicted."""
    chosen = counts.where("predicted")
    total = float(chosen.w.sum())
    return Share(_within_one(float(chosen.wy.sum()) / total), chosen.effective_rows) if total > 0 else None


def positives_found(counts: Counts) -> Share | None:
    """The recall as a share of the actual positives; None without one."""
    share = missed(counts)
    return None if share is None else Share(1 - share.value, share.rows)


def agreed(counts: Counts) -> Share | None:
    """The Jaccard index: the share of true positives among all rows that are positive or predicted; None without one.

    F1 is 2 J / (1 + J) of this share, so that F1 has the exact limits of a share. The squared weights of a group's
    positives are taken as their share of the group's.
    """
    counts = counts.take(counts.w > 0)
    either = np.where(counts.predicted, counts.w, _actual(counts))
    total = float(either.sum())
    if total <= 0:
        return None
    both = float(_actual(counts)[counts.predicted].sum())
    squares = float((counts.w2 * either / counts.w).sum())
    return Share(_within_one(both / total), total**2 / squares / counts.design_effect)


def precision(counts: Counts) -> float | None:
    """Share of the predicted rows that are positive, in [0, 1]; None where nothing was predicted.

    >>> from monitor.counts import counts_from_rows
    >>> precision(counts_from_rows([0.9, 0.8, 0.2, 0.1], [1, 0, 0, 1]))
    0.5
    """
    share = predicted_right(counts)
    return None if share is None else share.value


def recall(counts: Counts) -> float | None:
    """Share of the actual positives that were predicted, in [0, 1]; None without a positive.

    >>> from monitor.counts import counts_from_rows
    >>> round(recall(counts_from_rows([0.9, 0.8, 0.2, 0.1, 0.1], [1, 0, 0, 1, 1])), 6)
    0.333333
    """
    share = positives_found(counts)
    return None if share is None else share.value


def f1(counts: Counts) -> float | None:
    """Harmonic mean of precision and recall, 2 TP / (2 TP + FP + FN); None without a positive and a prediction.

    >>> from monitor.counts import counts_from_rows
    >>> round(f1(counts_from_rows([0.9, 0.8, 0.2, 0.1, 0.1], [1, 0, 0, 1, 1])), 6)
    0.4
    """
    share = agreed(counts)
    return None if share is None else f1_of(share.value)


def f1_of(jaccard: float) -> float:
    """F1 from the Jaccard index; it rises with it from 0 to 1."""
    return 2 * jaccard / (1 + jaccard)


def jaccard_of(f1_score: float) -> float:
    """The Jaccard index from F1."""
    return f1_score / (2 - f1_score)


def _actual(counts: Counts) -> Floats:
    """The weight of actual positives in each group, shape (K,)."""
    return counts.wy if counts.score_is == "probability_of_label" else _where_predicted(counts)


def _where_predicted(counts: Counts) -> Floats:
    """wy of the groups that were predicted, w - wy of the others; shape (K,)."""
    return np.clip(np.where(counts.predicted, counts.wy, counts.w - counts.wy), 0.0, None)


def _within_one(share: float) -> float:
    return min(max(share, 0.0), 1.0)
