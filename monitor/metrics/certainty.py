"""Certainty: how much of a classifier's performance comes from confident scores (Aguilar-Ruiz 2024).

With T the truth and Q the scores of N items, CM* = T'Q is the confusion matrix of the scores. V is the part of it from
each item's highest score, U the rest. Any measure of a confusion matrix can be computed for CM*, V and U.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics import multiclass
from monitor.metrics.definition import Metric
from monitor.metrics.groups import number, over
from monitor.metrics.multiclass import ClassMeasures, Measure, accuracy, class_f1, class_precision, class_recall
from monitor.metrics.row_sums import RowStatistic, certain_confusion, closeness_sums, hard_confusion, soft_confusion


def certainty_ratio(soft: Floats, certain: Floats, measure: Measure = accuracy) -> Floats:
    """phi(V) / (phi(V) + phi(U)), shape (...); phi(U) is 0 if U is empty, as with one-hot scores.

    NaN if phi(V) is not defined, or if U is not empty and phi(U) is not defined.
    """
    uncertain = uncertain_part(soft, certain)
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


def uncertain_part(soft: Floats, certain: Floats) -> Floats:
    """U, with rounding differences of two sums of the same rows set to 0; shape (..., K, K)."""
    rest = soft - certain
    return np.where(rest > 1e-12 * soft, rest, 0.0)


_BOTH = (soft_confusion, certain_confusion)
STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("certainty_accuracy", "Accuracy of the scores", "higher", sums=(soft_confusion,), of=accuracy),
    RowStatistic("certain_accuracy", "Accuracy of the certain part", "higher", sums=(certain_confusion,), of=accuracy),
    RowStatistic(
        "uncertain_accuracy",
        "Accuracy of the uncertain part",
        "none",
        sums=_BOTH,
        of=lambda soft, certain: accuracy(uncertain_part(soft, certain)),
    ),
    RowStatistic("certainty_ratio", "Certainty ratio", "higher", sums=_BOTH, of=certainty_ratio),
    RowStatistic("certain_share", "Certain share", "none", sums=_BOTH, of=certain_share),
    RowStatistic(
        "certainty_divergence", "Divergence", "lower", sums=(hard_confusion, soft_confusion), of=divergence, biased=True
    ),
    RowStatistic("imcp_area", "IMCP area", "higher", sums=(closeness_sums,), of=imcp_area),
)
REGISTERED: tuple[Metric, ...] = STATISTICS


# --- the K x K tables of a multiclass source


MOST_CLASSES = 50
"""With more classes no table is stored: it would be larger than all other numbers of a window together."""
KEPT_IN = "top1_accuracy"
"""The estimate with which the tables are stored."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassTables:
    """Weights by true label (rows) and by what follows, all of shape (K, K), in the order of ``labels``.

    ``hard``: the highest-scored label; ``soft``: the scores of all labels (CM*); ``certain``: each item's highest score
    alone (V). What is left of CM* is ``uncertain`` (U). Aguilar-Ruiz 2024.
    """

    labels: tuple[str, ...]
    hard: Floats
    soft: Floats
    certain: Floats

    @property
    def uncertain(self) -> Floats:
        """U = CM* - V."""
        return uncertain_part(self.soft, self.certain)

    @property
    def shares(self) -> Floats:
        """``hard``, each row made to add up to 1; NaN in the row of a label that is true of nothing."""
        return over(self.hard, self.hard.sum(axis=1, keepdims=True))

    @property
    def classes(self) -> tuple[ClassMeasures, ...]:
        """Precision, recall and F1 of each class."""
        columns = (of(self.hard) for of in (class_precision, class_recall, class_f1))
        named = ([number(value) for value in column] for column in columns)
        support = self.hard.sum(axis=1).tolist()
        return tuple(ClassMeasures(*values) for values in zip(self.labels, *named, support, strict=True))

    @property
    def certainty(self) -> tuple[Certainty, ...]:
        """Every measure of a confusion matrix, for CM, CM*, V and U, with its certainty ratio."""
        return tuple(
            Certainty(
                measure=statistic.name,
                hard=number(statistic.of(self.hard)),
                soft=number(statistic.of(self.soft)),
                certain=number(statistic.of(self.certain)),
                uncertain=number(statistic.of(self.uncertain)),
                ratio=number(certainty_ratio(self.soft, self.certain, statistic.of)),
            )
            for statistic in multiclass.STATISTICS
        )


@dataclass(frozen=True, slots=True)
class Certainty:
    """One measure of CM, CM*, V and U, and V's part of it: phi(V) / (phi(V) + phi(U)). None where undefined."""

    measure: str
    hard: float | None
    soft: float | None
    certain: float | None
    uncertain: float | None
    ratio: float | None


def class_tables(rows: ProbabilityRows) -> ClassTables | None:
    """The tables of whole rows; None for more than :data:`MOST_CLASSES` classes.

    >>> rows = ProbabilityRows(("a", "b"), np.array([[0.9, 0.1], [0.4, 0.6]]), np.eye(2)[[0, 0]], np.ones(2), 2)
    >>> found = class_tables(rows)
    >>> found.hard.tolist(), found.soft.round(6).tolist(), found.uncertain.round(6).tolist()
    ([[1.0, 1.0], [0.0, 0.0]], [[1.3, 0.7], [0.0, 0.0]], [[0.4, 0.1], [0.0, 0.0]])
    """
    if len(rows.labels) > MOST_CLASSES:
        return None
    made = (sums(rows, 1)[0] for sums in (hard_confusion, soft_confusion, certain_confusion))
    return ClassTables(rows.labels, *made)


def as_detail(tables: ClassTables) -> dict[str, Any]:
    """The tables as plain data, for the history."""
    names = ("hard", "soft", "certain")
    return {"labels": list(tables.labels), **{name: getattr(tables, name).tolist() for name in names}}


def of_detail(detail: Mapping[str, Any]) -> ClassTables | None:
    """The tables in an estimate's detail; None if there are none."""
    if "labels" not in detail:
        return None
    return ClassTables(
        tuple(detail["labels"]), *(np.asarray(detail[name], dtype=np.float64) for name in ("hard", "soft", "certain"))
    )
