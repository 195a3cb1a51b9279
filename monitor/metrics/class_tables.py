"""The K x K tables of a multiclass source: predicted labels, scores, and the certain part of the scores.

They are stored with a window's estimates, so that reports of any week have them although rows are not stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from monitor.core.counts import Floats, ProbabilityRows
from monitor.metrics.certainty import certainty_ratio, uncertain_part
from monitor.metrics.groups import number, over
from monitor.metrics.multiclass import STATISTICS, ClassMeasures, measures_of
from monitor.metrics.row_sums import certain_confusion, hard_confusion, soft_confusion

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
        return measures_of(self.labels, self.hard)

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
            for statistic in STATISTICS
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
