"""Label dependencies: how often one label comes with another, in truth and as predicted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from monitor.core.rows import Floats, ProbabilityRows
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


def label_dependencies(rows: ProbabilityRows, threshold: float = 0.5) -> Dependencies:
    """P(a | b) over the items on which both labels were scored; a label is predicted from ``threshold`` on.

    P(a | b) = sum w y_a y_b / sum w y_b. Shares of annotators are taken as they are: for soft outcomes this
    assumes that they judged the two labels independently, and P(a | a) is not 1.

    >>> rows = ProbabilityRows(("phishing", "spam"), np.array([[0.9, 0.8], [0.1, 0.7]]),
    ...                        np.array([[1.0, 1.0], [0.0, 1.0]]), np.ones(2), 2)
    >>> label_dependencies(rows).truth.tolist()
    [[1.0, 0.5], [1.0, 1.0]]
    """
    scored = ~np.isnan(rows.probability)
    held = scored.astype(np.float64)
    truth = np.where(scored, rows.truth, 0.0)
    predicted = np.where(scored, rows.probability, 0.0) >= threshold
    predicted &= scored
    given = _pairs(held, truth, rows.weight)
    decided = predicted.astype(np.float64)
    return Dependencies(
        labels=rows.labels,
        truth=over(_pairs(truth, truth, rows.weight), given),
        predicted=over(_pairs(decided, decided, rows.weight), _pairs(held, decided, rows.weight)),
        n=np.rint(held.T @ held).astype(np.int64),
        given=given,
    )


def _pairs(of: Floats, given: Floats, weight: Floats) -> Floats:
    return np.asarray(of.T @ (weight[:, None] * given))
