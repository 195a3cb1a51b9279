"""A cost matrix of K classes: the cost of decisions, and the threshold on the top score at which it is least."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics.groups import over
from monitor.metrics.row_sums import scores, top_label

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
