"""Classification: was the decision right? The confusion matrix and its metrics.

With ``probability_of_label`` the outcome y is the truth of the label: a predicted row is right if y = 1, any other row
if y = 0. With ``confidence_in_prediction`` y already says whether the decision was right; the truth is y if the label
was predicted, else 1 - y.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts, Floats
from monitor.core.records import Where
from monitor.metrics.definition import Direction, Metric
from monitor.metrics.groups import Groups, over

POSITIVE_WEIGHT = 5.0  # a missed positive (an urgent ticket) is as bad as five wrong alarms


@dataclass(frozen=True, slots=True)
class Share:
    """A weighted share: ``value`` in [0, 1], from rows that are worth ``rows`` independent ones."""

    value: float
    rows: float


def of_decisions(name: str, title: str, core: Callable[[Confusion], Floats], direction: Direction) -> Metric:
    """The registry's row of a metric of the confusion matrix."""
    return Metric(name, title, direction, core=lambda groups: core(confusion_of(groups)))


def share_of(counts: Counts, part: Floats) -> Share | None:
    """The share of the counts' weight that ``part`` adds up to, with their effective rows; None without rows.

    ``part`` has shape (K,).
    """
    total = float(counts.w.sum())
    return Share(_within_one(float(part.sum()) / total), counts.effective_rows) if total > 0 else None


def others(share: Share | None) -> Share | None:
    """The share of the other rows; None for None."""
    return None if share is None else Share(1 - share.value, share.rows)


def right(counts: Counts) -> Share | None:
    """The share of right decisions with its effective rows; None without rows."""
    return share_of(counts, counts.wy if counts.score_is == "confidence_in_prediction" else _where_predicted(counts))


def missed(counts: Counts) -> Share | None:
    """The share of missed positives with the effective number of positives; None without one."""
    actual = actual_weights(counts)
    return _share_among(counts, actual, actual[~counts.predicted])


def came_true(where: Where) -> Callable[[Counts], Share | None]:
    """The share of the rows of a population whose outcome came true, as the precision; None without rows."""

    def share(counts: Counts) -> Share | None:
        chosen = counts.where(where)
        return share_of(chosen, chosen.wy)

    return share


def agreed(counts: Counts) -> Share | None:
    """The Jaccard index: the share of true positives among all rows that are positive or predicted; None without one.

    F1 is 2 J / (1 + J) of this share, so that F1 has the exact limits of a share.
    """
    counts = counts.weighted()
    actual = actual_weights(counts)
    return _share_among(counts, np.where(counts.predicted, counts.w, actual), actual[counts.predicted])


def alarmed(counts: Counts) -> Share | None:
    """The predicted share of the actual negatives, with their effective number; None without one."""
    counts = counts.weighted()
    negative = counts.w - np.minimum(actual_weights(counts), counts.w)
    return _share_among(counts, negative, negative[counts.predicted])


def f1_of(jaccard: float) -> float:
    """F1 from the Jaccard index; it rises with it from 0 to 1."""
    return 2 * jaccard / (1 + jaccard)


def jaccard_of(f1_score: float) -> float:
    """The Jaccard index from F1."""
    return f1_score / (2 - f1_score)


def _share_among(counts: Counts, among: Floats, part: Floats) -> Share | None:
    """The share of the weight ``among`` (K,) that ``part`` adds up to, with its effective rows; None without any.

    The squared weights of a group's chosen rows are taken as their share of the group's.
    """
    total = float(among.sum())
    if total <= 0:
        return None
    held = counts.w > 0
    w2, chosen, w = (each if held.all() else each[held] for each in (counts.w2, among, counts.w))
    squares = float((w2 * chosen / w).sum())
    return Share(_within_one(float(part.sum()) / total), total**2 / squares / counts.design_effect)


def actual_weights(counts: Counts) -> Floats:
    """The weight of actual positives in each group, shape (K,)."""
    return counts.wy if counts.score_is == "probability_of_label" else _where_predicted(counts)


def _where_predicted(counts: Counts) -> Floats:
    """wy of the groups that were predicted, w - wy of the others; shape (K,)."""
    return np.clip(np.where(counts.predicted, counts.wy, counts.w - counts.wy), 0.0, None)


def _within_one(share: float) -> float:
    return min(max(share, 0.0), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Confusion:
    """The weights of true and false positives and negatives: numbers, or (B,) of draws.

    A soft outcome y counts as y of a positive and 1 - y of a negative.
    """

    tp: Floats
    fp: Floats
    fn: Floats
    tn: Floats

    @property
    def total(self) -> Floats:
        """The weight of all rows."""
        return self.tp + self.fp + self.fn + self.tn

    @property
    def positives(self) -> Floats:
        """The weight of the actual positives."""
        return self.tp + self.fn

    @property
    def negatives(self) -> Floats:
        """The weight of the actual negatives."""
        return self.fp + self.tn


def confusion_of(groups: Groups) -> Confusion:
    """The confusion matrix of groups, of shape () or (B,)."""
    yes = groups.predicted.astype(np.float64)
    tp, fp = groups.hit @ yes, groups.miss @ yes
    first, second = groups.hit @ (1 - yes), groups.miss @ (1 - yes)
    fn, tn = (second, first) if groups.score_is == "confidence_in_prediction" else (first, second)
    return Confusion(tp, fp, fn, tn)


def true_positive_rate(found: Confusion) -> Floats:
    """tp / (tp + fn): the recall, or sensitivity. Shape (...)."""
    return over(found.tp, found.positives)


def specificity(found: Confusion) -> Floats:
    """tn / (fp + tn): the true-negative rate, or the recall of the negatives. Shape (...)."""
    return over(found.tn, found.negatives)


def balanced_accuracy(found: Confusion) -> Floats:
    """The mean of the true-positive and the true-negative rate. Brodersen et al. 2010. Shape (...)."""
    return (true_positive_rate(found) + specificity(found)) / 2


def class_weighted_error(found: Confusion, positive_weight: float = POSITIVE_WEIGHT) -> Floats:
    """The error with an actual positive weighing ``positive_weight`` times a negative: (k fn + fp) / (k P + N).

    Shape (...).

    With k = N / P it is the balanced error.

    >>> one = Confusion(*(np.array(x) for x in (3.0, 2.0, 1.0, 14.0)))
    >>> float(class_weighted_error(one, 1.0)), round(float(class_weighted_error(one, 5.0)), 6)
    (0.15, 0.194444)
    """
    wrong = positive_weight * found.fn + found.fp
    return over(wrong, positive_weight * found.positives + found.negatives)


def matthews(found: Confusion) -> Floats:
    """Matthews' correlation: (tp tn - fp fn) / sqrt(predicted * not predicted * P * N). Shape (...).

    In [-1, 1]; NaN where nothing (or everything) is predicted or positive, where scikit-learn says 0. Matthews 1975.

    >>> round(float(matthews(Confusion(*(np.array(x) for x in (2.0, 0.0, 0.0, 3.0))))), 6)
    1.0
    """
    yes, no = found.tp + found.fp, found.fn + found.tn
    # roots before products, since those of millions of rows would overflow floats
    whole = np.sqrt(yes) * np.sqrt(no) * np.sqrt(found.positives) * np.sqrt(found.negatives)
    return np.clip(over(found.tp * found.tn - found.fp * found.fn, whole), -1.0, 1.0)


ACCURACY = Metric("accuracy", "Accuracy", "higher", share=right)
FALSE_NEGATIVE_RATE = Metric("false_negative_rate", "False-negative rate", "lower", share=missed)
REGISTERED: tuple[Metric, ...] = (
    Metric("error_rate", "Error rate", "lower", share=lambda counts: others(right(counts))),
    Metric("precision", "Precision", "higher", share=came_true("predicted")),
    Metric("recall", "Recall", "higher", share=lambda counts: others(missed(counts))),
    Metric("f1", "F1", "higher"),
    Metric("false_positive_rate", "False-positive rate", "lower", share=alarmed),
    Metric("specificity", "Specificity", "higher", share=lambda counts: others(alarmed(counts))),
    of_decisions("balanced_accuracy", "Balanced accuracy", balanced_accuracy, "higher"),
    of_decisions("balanced_error", "Balanced error", lambda found: 1 - balanced_accuracy(found), "lower"),
    of_decisions("class_weighted_error", "Class-weighted error", class_weighted_error, "lower"),
    Metric("prevalence", "Prevalence", "none", share=lambda counts: share_of(counts, actual_weights(counts))),
    of_decisions("matthews_correlation", "Matthews' correlation", matthews, "higher"),
)
