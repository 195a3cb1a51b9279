"""The sums of metrics of whole rows: weighted sums over items, one for each block of items.

A confusion matrix, hard or soft, is a sum over items, and so is a mean. A metric that is a function of such sums
(:class:`RowStatistic`) needs one pass over the rows, and its bootstrap needs no second one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics.calibration import EPSILON
from monitor.metrics.definition import Metric
from monitor.metrics.groups import over
from monitor.metrics.names import range_of

Sums = Callable[[Any, int], Floats]
"""(rows, blocks) -> sums over the items of each block, shape (blocks, ...). Blocks are consecutive items, equally many
in each: ``blocks`` divides N."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowStatistic(Metric):
    """A metric of whole rows: the function ``of`` the sums, over any leading axis, NaN where it is not defined.

    ``biased``: with few items its textbook value is on average too large (or too small), so estimates are debiased.
    ``of_labels``: it is at most ln K where there are K labels, as an entropy.
    """

    sums: tuple[Sums, ...]
    of: Callable[..., Floats]
    biased: bool = False
    of_labels: bool = False

    def value(self, *sums: Floats) -> float | None:
        """The value of sums over all items, without the axis of blocks; None if they do not define it."""
        value = float(self.of(*sums))
        least, most = range_of(self.name)
        return min(max(value, least), most) if math.isfinite(value) else None


def ratio(part: int, whole: int) -> Callable[[Floats], Floats]:
    """The metric that is one of several sums over another: (..., sums) -> (...)."""
    return lambda sums: over(sums[..., part], sums[..., whole])


def scores(rows: ProbabilityRows) -> Floats:
    """The scores with 0 for labels that were not scored, shape (N, K)."""
    return np.where(np.isnan(rows.probability), 0.0, rows.probability)


def top_label(rows: ProbabilityRows) -> npt.NDArray[np.intp]:
    """The column of each item's highest score, shape (N,); ties: the label first by name; -1 without any score."""
    order = np.array(sorted(range(len(rows.labels)), key=rows.labels.__getitem__), dtype=np.intp)
    scored = np.where(np.isnan(rows.probability), -1.0, rows.probability)
    sorted_already = bool((order == np.arange(len(order))).all())
    best = scored.argmax(axis=1) if sorted_already else order[scored[:, order].argmax(axis=1)]
    return np.where(np.take_along_axis(scored, best[:, None], axis=1)[:, 0] < 0, -1, best)


def hard_confusion(rows: ProbabilityRows, blocks: int) -> Floats:
    """CM: weight by true label (rows) and highest-scored label (columns), shape (blocks, K, K).

    An item with shares of several labels counts in each by its share; one without a score adds nothing.
    """
    chosen = np.zeros(rows.probability.shape)
    decided = top_label(rows)
    held = decided >= 0
    chosen[np.flatnonzero(held), decided[held]] = 1.0
    return _crossed(rows, chosen, blocks)


def soft_confusion(rows: ProbabilityRows, blocks: int) -> Floats:
    """CM* = T'Q: weight by true label and by the scores of all labels, shape (blocks, K, K)."""
    return _crossed(rows, scores(rows), blocks)


def certain_confusion(rows: ProbabilityRows, blocks: int) -> Floats:
    """V = T'Q+: as CM*, with each item's highest score alone (every one of tied ones), shape (blocks, K, K)."""
    score = scores(rows)
    return _crossed(rows, np.where(score == score.max(axis=1, keepdims=True), score, 0.0), blocks)


def closeness_sums(rows: ProbabilityRows, blocks: int) -> Floats:
    """By true label the sums of w (1 - Hellinger's distance of scores and truth) and of w; shape (blocks, K, 2).

    Of scores q made to add up to 1 the distance from "label k with score 1" is sqrt(1 - sqrt(q_k)). An item without
    any score adds nothing.
    """
    size = len(rows.labels)
    total = scores(rows).sum(axis=1)
    # only the scores of true labels are needed: one for each item, unless truths are shared
    item, label = np.nonzero(rows.truth * (total > 0)[:, None])
    share = np.nan_to_num(rows.probability[item, label]) / total[item]
    near = 1 - np.sqrt(np.maximum(1 - np.sqrt(share), 0.0))
    weight = rows.weight[item] * rows.truth[item, label]
    place = item // max(len(total) // blocks, 1) * size + label
    sums = [np.bincount(place, weights=each, minlength=blocks * size) for each in (weight * near, weight)]
    return np.stack(sums, axis=-1).reshape(blocks, size, 2).astype(np.float64, copy=False)


def loss_sums(rows: ProbabilityRows, blocks: int) -> Floats:
    """The sums of w l, w, w H l and w H over items with a score and a true label, in nats; shape (blocks, 4).

    Of scores q made to add up to 1, l is -sum t_k ln(q_k + eps) over the item's shares t of labels (made to add up
    to 1), eps 1e-15, and H the entropy of q.
    """
    total, true = scores(rows).sum(axis=1), rows.truth.sum(axis=1)
    held = (total > 0) & (true > 0)
    item, label = np.nonzero(rows.truth * held[:, None])
    share = np.nan_to_num(rows.probability[item, label]) / total[item]
    each = -rows.truth[item, label] / true[item] * np.log(share + EPSILON)
    loss = np.bincount(item, weights=each, minlength=len(total)).astype(np.float64, copy=False)
    weight, entropy = np.where(held, rows.weight, 0.0), item_entropies(rows)
    terms = np.column_stack((weight * loss, weight, weight * entropy * loss, weight * entropy))
    return np.asarray(terms.reshape(blocks, -1, 4).sum(axis=1))


def entropy_sums(rows: ProbabilityRows, blocks: int) -> Floats:
    """The sums of w H(scores) in nats, scores made to add up to 1, and of w, over scored items; shape (blocks, 2)."""
    weight = np.where(scores(rows).sum(axis=1) > 0, rows.weight, 0.0)
    entropy = item_entropies(rows)
    return np.asarray(np.column_stack((weight * entropy, weight)).reshape(blocks, -1, 2).sum(axis=1))


def item_entropies(rows: ProbabilityRows) -> Floats:
    """H of each item's scores, made to add up to 1, in nats; 0 for an item without any score; shape (N,)."""
    score = scores(rows)
    total = score.sum(axis=1)
    logs = np.log(score, out=np.zeros_like(score), where=score > 0)
    # H(q / Q) = ln Q - sum q ln q / Q
    inner = np.einsum("ik,ik->i", score, logs)
    held = total > 0
    return np.asarray(
        np.log(total, out=np.zeros_like(total), where=held)
        - np.divide(inner, total, out=np.zeros_like(total), where=held)
    )


def _crossed(rows: ProbabilityRows, columns: Floats, blocks: int) -> Floats:
    k = columns.shape[1]
    actual = (rows.weight[:, None] * rows.truth).reshape(blocks, -1, k)
    return np.asarray(np.matmul(actual.transpose(0, 2, 1), columns.reshape(blocks, -1, k)))
