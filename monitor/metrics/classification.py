"""Classification: was the decision right? Accuracy and the false-negative rate.

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
    actual = counts.wy if counts.score_is == "probability_of_label" else _where_predicted(counts)
    total = float(actual.sum())
    if total <= 0:
        return None
    held = counts.w > 0
    squares = float((counts.w2[held] * actual[held] / counts.w[held]).sum())
    value = float(actual[~counts.predicted].sum()) / total
    return Share(_within_one(value), total**2 / squares / counts.design_effect)


def _where_predicted(counts: Counts) -> Floats:
    """wy of the groups that were predicted, w - wy of the others; shape (K,)."""
    return np.clip(np.where(counts.predicted, counts.wy, counts.w - counts.wy), 0.0, None)


def _within_one(share: float) -> float:
    return min(max(share, 0.0), 1.0)
