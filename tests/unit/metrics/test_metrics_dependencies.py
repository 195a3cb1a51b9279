"""P(a | b) of truth and of prediction, against loops over items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import ProbabilityRows
from monitor.metrics.dependencies import Dependencies
from monitor.metrics.dependencies import label_dependencies as of_pairs
from tests.fakes.whole_rows import rows_of

LABELS = ("invoice", "phishing", "spam")


def label_dependencies(rows: ProbabilityRows, threshold: float = 0.5) -> Dependencies:
    """P(a | b) from the sums by pair that the warehouse takes, here of rows."""
    columns = {name: [] for name in ("a", "b", "n", "true", "both_true", "predicted", "both_predicted")}
    scored, told = ~np.isnan(rows.probability), rows.probability >= threshold
    for a, first in enumerate(rows.labels):
        for b, second in enumerate(rows.labels):
            held = scored[:, a] & scored[:, b]
            w, of_a, of_b = rows.weight[held], rows.truth[held, a], rows.truth[held, b]
            one, other = told[held, a], told[held, b]
            sums = (held.sum(), w @ of_b, w @ (of_a * of_b), w @ other, w @ (one & other))
            for name, value in zip(columns, (first, second, *sums), strict=True):
                columns[name].append(value)
    return of_pairs(columns)


def share(numerator: np.ndarray, condition: np.ndarray, weight: np.ndarray) -> float:
    total = (weight * condition).sum()
    return (weight * numerator * condition).sum() / total if total > 0 else float("nan")


@settings(max_examples=60)
@given(seed=st.integers(0, 2**30), n=st.integers(1, 30), threshold=st.sampled_from([0.3, 0.5, 0.9]))
def test_every_pair_is_the_share_among_items_on_which_both_were_scored(seed: int, n: int, threshold: float):
    rng = np.random.default_rng(seed)
    score = rng.choice([0.1, 0.3, 0.5, 0.9, np.nan], (n, 3))
    truth = rng.choice([0.0, 1.0, 0.5], (n, 3), p=[0.45, 0.45, 0.1])
    weight = rng.choice([0.5, 1.0, 3.0], n)
    found = label_dependencies(rows_of(score, truth, weight, LABELS), threshold)
    for a in range(3):
        for b in range(3):
            both = ~np.isnan(score[:, a]) & ~np.isnan(score[:, b])
            told = score >= threshold
            expected = share(truth[both, a], truth[both, b], weight[both])
            predicted = share(told[both, a], told[both, b], weight[both])
            assert found.truth[a, b] == pytest.approx(expected, nan_ok=True)
            assert found.predicted[a, b] == pytest.approx(predicted, nan_ok=True)
            assert found.n[a, b] == both.sum()
            assert found.given[a, b] == pytest.approx((weight * truth[:, b])[both].sum())


def test_phishing_that_is_always_spam_shows_in_one_direction_only():
    truth = [[0, 1, 1], [0, 0, 1], [0, 0, 1], [1, 0, 0]]
    score = [[0.1, 0.9, 0.9], [0.1, 0.8, 0.9], [0.1, 0.2, 0.9], [0.9, 0.1, 0.2]]
    found = label_dependencies(rows_of(score, truth, labels=LABELS))
    assert found.truth[LABELS.index("spam"), LABELS.index("phishing")] == 1.0
    assert found.truth[LABELS.index("phishing"), LABELS.index("spam")] == pytest.approx(1 / 3)
    assert found.predicted[LABELS.index("phishing"), LABELS.index("spam")] == pytest.approx(2 / 3)
    assert found.gap[LABELS.index("phishing"), LABELS.index("spam")] == pytest.approx(1 / 3)


def test_a_label_that_never_occurs_conditions_nothing():
    found = label_dependencies(rows_of([[0.9, 0.1, 0.2]], [[1, 0, 0]], labels=LABELS))
    assert np.isnan(found.truth[:, 1]).all()
    assert found.truth[:, 0].tolist() == [1.0, 0.0, 0.0]
