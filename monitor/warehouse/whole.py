"""Whole rows from columns of the warehouse: the size of the sample, and the matrices."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats, ProbabilityRows, RegressionRows
from monitor.warehouse.dialects import Arrays

ITEMS_AT_MOST = 200_000
NUMBERS_AT_MOST = 20_000_000
"""The most probabilities in one matrix: 160 MB, and as much again for the truths."""


def sampling(items: int, true: int, scored: int) -> tuple[float, float]:
    """(share, least): of a label that is true of n items, ``share * n + least`` items are taken.

    Half of the sample is divided equally among the ``true`` labels, half by their frequency, so that rare labels have
    enough items. ``true`` and ``scored`` are numbers of labels; a row has ``scored`` probabilities.

    >>> sampling(1_000, 5, 5), sampling(1_000_000, 5, 20)
    ((1.0, 0.0), (0.1, 20000.0))
    """
    limit = min(ITEMS_AT_MOST, max(1, NUMBERS_AT_MOST // max(scored, 1)))
    if items <= limit:
        return 1.0, 0.0
    return limit / 2 / items, max(1.0, limit / 2 / true)


def probability_rows(columns: Arrays, items: int) -> ProbabilityRows:
    """The matrices of N items over K labels, both sorted.

    ``columns`` are number, label, s, y, w, truth and frequency, of shape (rows,), from
    :meth:`~monitor.warehouse.items.WholeStatements.whole_rows`. An item's weight is multiplied by the number of items
    of its true label that it represents.
    """
    import pandas as pd  # noqa: PLC0415 - takes long to import, and most commands read no warehouse

    row, numbers = pd.factorize(np.asarray(columns["number"], dtype=np.int64), sort=True)
    column, labels = pd.factorize(np.asarray(columns["label"], dtype=object).astype(str), sort=True)
    shape = (len(numbers), len(labels))
    probability, truth = np.full(shape, np.nan), np.zeros(shape)
    probability[row, column] = _floats(columns["s"])
    truth[row, column] = _floats(columns["y"])
    _, first = np.unique(row, return_index=True)
    weight, frequency = _floats(columns["w"])[first], _floats(columns["frequency"])[first]
    true = truth.argmax(axis=1)
    taken = np.bincount(true, minlength=len(labels))[true]
    return ProbabilityRows(tuple(str(label) for label in labels), probability, truth, weight * frequency / taken, items)


def regression_rows(columns: Arrays, items: int) -> RegressionRows:
    """Rows of numbers. If they are a sample of ``items``, each represents as many of them."""
    predicted, deviation, actual, weight = (
        _floats(columns[name]) for name in ("predicted", "deviation", "actual", "weight")
    )
    return RegressionRows(predicted, deviation, actual, weight * (items / max(len(predicted), 1)), items)


def _floats(column: npt.ArrayLike) -> Floats:
    return np.asarray(column, dtype=np.float64)
