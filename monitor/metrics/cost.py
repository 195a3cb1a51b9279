"""Cost: what wrong decisions cost, what cost the scores predict, and the threshold that costs least.

A cost matrix says what a decision costs by its outcome, in any unit (minutes, money, "a wrong alarm"). For tickets a
missed positive usually costs more than a wrong alarm: five times as much, unless said otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats, ProbabilityRows
from monitor.metrics.classification import confusion_of
from monitor.metrics.definition import Metric
from monitor.metrics.groups import Core, Groups, groups_of, on_counts, over
from monitor.metrics.row_sums import scores, top_label


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


# --- a cost matrix of K classes


_NEVER = 1.0001  # above every score


@dataclass(frozen=True, slots=True)
class CheapestFallback:
    """The threshold on an item's highest score from which taking its label costs least; below it a fallback is taken.

    Costs are means over items: ``cost`` with the threshold (above 1:
    never act), ``present`` of the highest-scored label always, ``by_scores`` of the label with the least expected cost
    under the scores (Elkan 2001), and ``expected`` what deciding at random by the scores would cost (the lecture's
    expected misclassification cost).
    """

    threshold: float
    fallback: str
    cost: float
    acting: float
    present: float
    by_scores: float
    expected: float


def matrix_of(labels: Sequence[str], costs: Mapping[str, Mapping[str, float]]) -> Floats:
    """The costs (K, K) by true label (rows) and decision (columns): 0 on the diagonal and 1 beside it unless given.

    Raises ValueError for a label that is not among ``labels``, and for a cost that is negative or not finite.

    >>> matrix_of(("bug", "spam"), {"bug": {"spam": 5}}).tolist()
    [[0.0, 5.0], [1.0, 0.0]]
    """
    place = {label: k for k, label in enumerate(labels)}
    found = 1.0 - np.eye(len(labels))
    for true, row in costs.items():
        for decided, cost in row.items():
            unknown = next((label for label in (true, decided) if label not in place), None)
            if unknown is not None:
                raise ValueError(f"the costs name {unknown!r}, which is no label here: {', '.join(labels)}")
            if not (np.isfinite(cost) and cost >= 0):
                raise ValueError(f"a cost is a number of at least 0, not {cost} ({true!r} decided as {decided!r})")
            found[place[true], place[decided]] = cost
    return found


def cheapest_fallback(rows: ProbabilityRows, costs: Floats) -> CheapestFallback | None:
    """The threshold and the decision below it of least mean cost on these items; None without items.

    ``costs`` has shape (K, K), as from :func:`matrix_of`. Items without a score take the fallback. Among equal costs
    the highest threshold is taken, which acts least, then the label first by name. Chosen and measured on the same
    rows, so ``cost`` is a little too low.

    >>> rows = ProbabilityRows(("a", "b"), np.array([[0.9, 0.1], [0.6, 0.4]]), np.eye(2)[[0, 1]], np.ones(2), 2)
    >>> found = cheapest_fallback(rows, matrix_of(("a", "b"), {"b": {"a": 5}}))
    >>> found.threshold, found.fallback, found.cost, found.present
    (0.9, 'b', 0.0, 2.5)
    """
    total = float(rows.weight.sum())
    if not total > 0:
        return None
    each = rows.weight[:, None] * (rows.truth @ costs)  # the cost of each decision for each item
    top, score = top_label(rows), scores(rows)
    scored = top >= 0
    acting = np.where(scored, each[np.arange(len(top)), top], 0.0)
    levels, index = np.unique(np.where(scored, score.max(axis=1), -1.0), return_inverse=True)
    # sums over the items that act, from "never act" down to the lowest score of a top label
    sums = np.zeros((len(levels) + 1, 2 + len(costs)))
    np.add.at(sums, len(levels) - index, np.column_stack((acting, rows.weight, each)))
    sums = np.cumsum(sums, axis=0)[: 1 + (levels >= 0).sum()]
    cost = (sums[:, :1] + each.sum(axis=0) - sums[:, 2:]) / total
    place, fallback = divmod(int(np.argmax(cost <= cost.min() + 1e-12)), len(costs))
    shares = np.nan_to_num(over(score, score.sum(axis=1, keepdims=True)))
    by_scores = np.round(shares @ costs, 9).argmin(axis=1)  # the first of equal ones, despite rounding
    return CheapestFallback(
        threshold=float([_NEVER, *levels[::-1]][place]),
        fallback=rows.labels[fallback],
        cost=float(cost[place, fallback]),
        acting=float(sums[place, 1] / total),
        present=_mean(acting, scored, rows),
        by_scores=_mean(each[np.arange(len(top)), by_scores], scored, rows),
        expected=_mean((shares * each).sum(axis=1), scored, rows),
    )


def _mean(cost: Floats, scored: np.ndarray[tuple[int], np.dtype[np.bool_]], rows: ProbabilityRows) -> float:
    """The mean over the items that have a score."""
    return float(over(np.asarray(cost[scored].sum()), np.asarray(rows.weight[scored].sum()), 0.0))
