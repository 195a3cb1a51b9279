"""Cost: what wrong decisions cost, what cost the scores predict, and the threshold that costs least.

A cost matrix says what a decision costs by its outcome, in any unit (minutes, money, "a wrong alarm"). For tickets a
missed positive usually costs more than a wrong alarm: five times as much, unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats
from monitor.metrics.classification import confusion_of
from monitor.metrics.definition import Metric
from monitor.metrics.groups import Core, Groups, groups_of, on_counts, over


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a decision by its outcome. All are finite and not negative; right decisions usually cost nothing.

    Raises ValueError for another number.
    """

    false_negative: float = 5.0
    false_positive: float = 1.0
    true_positive: float = 0.0
    true_negative: float = 0.0

    def __post_init__(self) -> None:
        if not all(math.isfinite(cost) and cost >= 0 for cost in astuple(self)):
            raise ValueError(f"costs must be finite numbers of at least 0, not {astuple(self)}")

    @property
    def indifference(self) -> float | None:
        """The probability of the label at which predicting costs as much as not; None where it never matters.

        (c_fp - c_tn) / (c_fp - c_tn + c_fn - c_tp): where scores are calibrated, the threshold that costs least.
        Elkan 2001.

        >>> round(Costs(false_negative=5, false_positive=1).indifference, 4)
        0.1667
        """
        alarm, miss = self.false_positive - self.true_negative, self.false_negative - self.true_positive
        return alarm / (alarm + miss) if alarm >= 0 and miss >= 0 and alarm + miss > 0 else None


DEFAULT = Costs()


def cost_core(costs: Costs) -> Core:
    """What the decisions cost a row: (c_fn fn + c_fp fp + c_tp tp + c_tn tn) / all. Elkan 2001."""

    def mean(groups: Groups) -> Floats:
        found = confusion_of(groups)
        wrong = costs.false_negative * found.fn + costs.false_positive * found.fp
        return over(wrong + costs.true_positive * found.tp + costs.true_negative * found.tn, found.total)

    return mean


def expected_cost_core(costs: Costs) -> Core:
    """What the decisions should cost a row if the scores were right: the mean of p c_tp + (1 - p) c_fp where predicted,
    of p c_fn + (1 - p) c_tn where not, p being the probability of the label by the score.

    It asks for no truth; :func:`expected_misclassification_core` asks for no decision. Less than what they did cost:
    the scores are overconfident where it is dear. Elkan 2001.
    """

    def mean(groups: Groups) -> Floats:
        p = probability_of_label(groups)
        yes = p * costs.true_positive + (1 - p) * costs.false_positive
        no = p * costs.false_negative + (1 - p) * costs.true_negative
        held = groups.hit + groups.miss
        return over(held @ np.where(groups.predicted, yes, no), held.sum(axis=-1))

    return mean


def expected_misclassification_core(costs: Costs) -> Core:
    """What deciding at random by the scores would cost a row: the mean of p c_tp + (1 - p) c_fn where the label is
    true, of p c_fp + (1 - p) c_tn where not, p being the probability of the label by the score.

    The sum over y' of P(y' | x) C[y, y'], the mean of which is taken over the rows, with the truth y as the row of the
    cost matrix. COMPSCI 589 (UMass), lecture 14.
    """

    def mean(groups: Groups) -> Floats:
        p = probability_of_label(groups)
        true = p * costs.true_positive + (1 - p) * costs.false_negative
        false = p * costs.false_positive + (1 - p) * costs.true_negative
        hit = np.where(groups.truth_is_outcome, true, false)
        miss = np.where(groups.truth_is_outcome, false, true)
        return over(groups.hit @ hit + groups.miss @ miss, (groups.hit + groups.miss).sum(axis=-1))

    return mean


def probability_of_label(groups: Groups) -> Floats:
    """The probability of the label by the score of each group, shape (G,): 1 - s where s is confidence in "not"."""
    return np.where(groups.truth_is_outcome, groups.score, 1 - groups.score)


@dataclass(frozen=True, slots=True)
class CheapestThreshold:
    """The threshold on the probability of the label from which predicting would have cost least.

    ``threshold`` is a cell's score (above 1: never predict), ``cost`` what it would have cost a row, ``present_cost``
    what the decisions did cost, ``by_scores`` the threshold that would be best if the scores were calibrated.
    """

    threshold: float
    cost: float
    present_cost: float
    by_scores: float | None


def cheapest_threshold(counts: Counts, costs: Costs = DEFAULT) -> CheapestThreshold | None:
    """The threshold "predict where the probability of the label >= t" of least mean cost on these rows.

    It is chosen and measured on the same rows, so ``cost`` is a little too low: check the threshold on another window
    before you use it. Among equal costs the highest threshold is taken, which acts least. None without rows. Elkan
    2001; Fawcett 2006.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = cheapest_threshold(counts_from_rows([0.9, 0.8, 0.4, 0.3, 0.1], [1, 0, 1, 0, 0]))
    >>> found.threshold, found.cost, found.present_cost  # one wrong alarm; now a missed positive too
    (0.4, 0.2, 1.2)
    """
    groups = groups_of(counts)
    present = on_counts(cost_core(costs), counts)
    if present is None:
        return None
    cells = np.where(groups.truth_is_outcome, groups.cell, CELLS - groups.cell)
    positive = np.where(groups.truth_is_outcome, groups.hit, groups.miss)
    negative = np.where(groups.truth_is_outcome, groups.miss, groups.hit)
    distinct, index = np.unique(cells, return_inverse=True)
    yes = _from_top(index, positive * costs.true_positive + negative * costs.false_positive)
    no = _from_top(index, positive * costs.false_negative + negative * costs.true_negative)
    # from "never predict" (one cell above all) down to the lowest cell
    thresholds = np.concatenate(([CELLS + 1], distinct[::-1]))
    cost = (no[-1] - no + yes) / float((groups.hit + groups.miss).sum())
    best = int(np.argmax(cost <= cost.min() + 1e-12))
    return CheapestThreshold(float(thresholds[best] / CELLS), float(cost[best]), present, costs.indifference)


def _from_top(index: np.ndarray[tuple[int], np.dtype[np.intp]], values: Floats) -> Floats:
    """0, then the sums of the values of the highest k distinct cells, k = 1, 2, ...; shape (cells + 1,)."""
    sums = np.bincount(index, weights=values)
    return np.concatenate(([0.0], np.cumsum(sums[::-1])))


ON_GROUPS: Mapping[str, Callable[[Costs], Core]] = {
    "misclassification_cost": cost_core,
    "expected_cost": expected_cost_core,
    "expected_misclassification_cost": expected_misclassification_core,
}
"""Metrics of a cost, which a source may set: functions of groups, once the costs are known."""

_TITLES = ("Misclassification cost", "Expected cost of the decisions", "Expected misclassification cost")
REGISTERED: tuple[Metric, ...] = tuple(
    Metric(name, title, "lower", core=core(DEFAULT))
    for title, (name, core) in zip(_TITLES, ON_GROUPS.items(), strict=True)
)
