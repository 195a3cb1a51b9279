"""Label dependencies: how often one label comes with another, in truth and as predicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Floats
from monitor.metrics.groups import over


@dataclass(frozen=True, slots=True, eq=False)
class Dependencies:
    """Conditional shares of pairs of labels, each matrix (K, K): entry [a, b] is P(a | b), NaN where b never occurs.

    ``truth`` is of the outcomes, ``predicted`` of the decisions, ``gap`` predicted - truth: how far the classifier
    is from the dependence that is really there. ``n`` (K, K) counts the items on which both were scored, ``given``
    (K, K) the weight of those among them on which b is true.
    """

    labels: tuple[str, ...]
    truth: Floats
    predicted: Floats
    n: npt.NDArray[np.int64]
    given: Floats

    @property
    def gap(self) -> Floats:
        """predicted - truth, shape (K, K)."""
        return self.predicted - self.truth


def label_dependencies(pairs: Mapping[str, npt.ArrayLike]) -> Dependencies:
    """P(a | b) over the items on which both labels were scored, from sums by pair of labels.

    ``pairs`` are columns of shape (pairs,): the labels ``a`` and ``b``, the items ``n``, and sums of weights where b is
    true (``true``), where both are (``both_true``), where b was predicted (``predicted``) and where both were
    (``both_predicted``). P(a | b) = sum w y_a y_b / sum w y_b. Shares of annotators are taken as they are: for soft
    outcomes this assumes that they judged the two labels independently, and P(a | a) is not 1.

    >>> sums = {"a": ["x", "x", "y", "y"], "b": ["x", "y", "x", "y"], "n": [2, 2, 2, 2], "true": [1.0, 2.0, 1.0, 2.0],
    ...         "both_true": [1.0, 1.0, 1.0, 2.0], "predicted": [1, 1, 1, 1], "both_predicted": [1, 0, 0, 1]}
    >>> label_dependencies(sums).truth.tolist()
    [[1.0, 0.5], [1.0, 1.0]]
    """
    first, second = (np.asarray(pairs[name], dtype=object).astype(str) for name in ("a", "b"))
    labels = np.unique(np.concatenate((first, second)))
    row, column = np.searchsorted(labels, first), np.searchsorted(labels, second)

    def table(name: str) -> Floats:
        found = np.zeros((len(labels), len(labels)))
        found[row, column] = np.asarray(pairs[name], dtype=np.float64)
        return found

    sums: dict[str, Any] = {name: table(name) for name in ("n", "true", "both_true", "predicted", "both_predicted")}
    return Dependencies(
        labels=tuple(str(label) for label in labels),
        truth=over(sums["both_true"], sums["true"]),
        predicted=over(sums["both_predicted"], sums["predicted"]),
        n=np.rint(sums["n"]).astype(np.int64),
        given=sums["true"],
    )
