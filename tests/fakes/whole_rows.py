"""Whole rows for tests: of any shape for hypothesis, and of a plausible classifier."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from monitor.core.counts import Bools, Counts, ProbabilityRows, counts_from_rows

LABELS = ("ask", "bug", "invoice", "spam")


def rows_of(
    probability: object, truth: object, weight: object = None, labels: Sequence[str] | None = None
) -> ProbabilityRows:
    q = np.asarray(probability, dtype=np.float64)
    t = np.asarray(truth)
    shares = np.eye(q.shape[1])[t] if t.ndim == 1 else t.astype(np.float64)
    w = np.ones(len(q)) if weight is None else np.asarray(weight, dtype=np.float64)
    return ProbabilityRows(tuple(labels or LABELS[: q.shape[1]]), q, shares, w, len(q))


def classifier(seed: int, n: int, classes: int = 4, sharpness: float = 1.5) -> ProbabilityRows:
    """Scores that add up to 1 and favour the truth; later classes are more frequent."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=(n, classes))
    share = np.arange(1, classes + 1) / np.arange(1, classes + 1).sum()
    label = rng.choice(classes, n, p=share)
    logit[np.arange(n), label] += sharpness
    score = np.exp(logit) / np.exp(logit).sum(axis=1, keepdims=True)
    return rows_of(score, label, labels=[f"class {index:02}" for index in range(classes)])


@st.composite
def any_rows(draw: st.DrawFn, *, soft: bool = False, whole_weights: bool = False, classes: int = 3) -> ProbabilityRows:
    """Few items with tied scores that add up to 1; every class occurs; weights; shares of labels where ``soft``."""
    n = draw(st.integers(classes, 25))
    parts = draw(st.lists(st.lists(st.integers(0, 4), min_size=classes, max_size=classes), min_size=n, max_size=n))
    q = np.array(parts, dtype=np.float64)
    q[q.sum(axis=1) == 0] = 1.0
    q /= q.sum(axis=1, keepdims=True)
    label = list(range(classes)) + draw(
        st.lists(st.integers(0, classes - 1), min_size=n - classes, max_size=n - classes)
    )
    weight = draw(st.lists(st.sampled_from([1, 2, 3] if whole_weights else [0.3, 1.0, 2.5]), min_size=n, max_size=n))
    truth = np.eye(classes)[label]
    if soft:
        lean = np.array(draw(st.lists(st.sampled_from([0.0, 0.25, 0.5]), min_size=n, max_size=n)))[:, None]
        truth = (1 - lean) * truth + lean * np.roll(truth, 1, axis=1)
    return rows_of(q, truth, weight)


def as_plain_items(rows: ProbabilityRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(label, scores, weight), with each item once for every label in which it has a share."""
    item, label = np.nonzero(rows.truth)
    return label, rows.probability[item], rows.weight[item] * rows.truth[item, label]


def within_rank(rows: ProbabilityRows, k: int) -> Bools:
    """Which scores are among their item's k highest, shape (N, K); ties: the label first by name ranks higher.

    Labels that were not scored have no rank.
    """
    order = sorted(range(len(rows.labels)), key=rows.labels.__getitem__)
    left = np.where(np.isnan(rows.probability), -1.0, rows.probability)[:, order]
    chosen = np.zeros(left.shape, dtype=bool)
    every = np.arange(len(left))
    for _ in range(min(k, left.shape[1])):
        best = left.argmax(axis=1)
        scored = left[every, best] >= 0
        chosen[every[scored], best[scored]] = True
        left[every, best] = -1.0
    return np.asarray(chosen[:, np.argsort(order)])


def ranked_counts(rows: ProbabilityRows, k: int) -> Counts:
    """The counts of each item's k highest scores, as the warehouse makes them."""
    chosen = within_rank(rows, k)
    weight = np.broadcast_to(rows.weight[:, None], chosen.shape)[chosen]
    return counts_from_rows(rows.probability[chosen], rows.truth[chosen], weight=weight)
