"""Columns from the warehouse -> whole rows: how many of them, and the matrices they make."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats
from monitor.core.rows import ProbabilityRows, RegressionRows
from monitor.warehouse.dialects import Arrays

ITEMS_AT_MOST = 200_000
NUMBERS_AT_MOST = 20_000_000
"""Probabilities in one matrix: 160 MB, and its truth as much again."""


def sampling(items: int, true: int, scored: int) -> tuple[float, float]:
    """(share, least): of a label that is true of n items, ``share * n + least`` items are taken.

    Half of the sample goes in equal parts to the ``true`` labels, half by their frequency: of a rare label enough is
    seen, of frequent ones as much as in a plain sample. ``scored`` labels make up a row.

    >>> sampling(1_000, 5, 5), sampling(1_000_000, 5, 20)
    ((1.0, 0.0), (0.1, 20000.0))
    """
    limit = min(ITEMS_AT_MOST, max(1, NUMBERS_AT_MOST // max(scored, 1)))
    if items <= limit:
        return 1.0, 0.0
    return limit / 2 / items, max(1.0, limit / 2 / true)


def probability_rows(columns: Arrays, items: int) -> ProbabilityRows:
    """The matrices of N items over K labels, both in a fixed order.

    ``columns`` are number, label, s, y, w, truth and frequency of shape (rows,), as
    :meth:`~monitor.warehouse.items.WholeStatements.whole_rows` gives them. An item's weight is its own times the
    number of items that it represents among those of its true label.
    """
    import pandas as pd  # noqa: PLC0415 - takes long to import, and most commands read no warehouse

    row, numbers = pd.factorize(np.asarray(columns["number"], dtype=np.int64), sort=True)
    column, labels = pd.factorize(np.asarray(columns["label"], dtype=object).astype(str), sort=True)
    shape = (len(numbers), len(labels))
    probability, truth = np.full(shape, np.nan), np.zeros(shape)
    probability[row, column] = _floats(columns["s"])
    truth[row, column] = _floats(columns["y"])
    _, first = np.unique(row, return_index=True)
    own, frequency = _floats(columns["w"])[first], _floats(columns["frequency"])[first]
    true = truth.argmax(axis=1)
    taken = np.bincount(true, minlength=len(labels))[true]
    return ProbabilityRows(tuple(str(label) for label in labels), probability, truth, own * frequency / taken, items)


def regression_rows(columns: Arrays, items: int) -> RegressionRows:
    """Rows of numbers; where they are a sample of ``items``, each represents as many as the others."""
    predicted, deviation, actual, weight = (
        _floats(columns[name]) for name in ("predicted", "deviation", "actual", "weight")
    )
    return RegressionRows(predicted, deviation, actual, weight * (items / max(len(predicted), 1)), items)


def _floats(column: npt.ArrayLike) -> Floats:
    return np.asarray(column, dtype=np.float64)
