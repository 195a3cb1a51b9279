"""Entropy and mutual information against scipy and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from monitor.core.counts import ProbabilityRows, counts_from_rows
from monitor.metrics.information import entropy, mutual_information_of
from monitor.metrics.row_sums import hard_confusion
from tests.fakes.points import point
from tests.fakes.whole_rows import any_rows, as_plain_items, rows_of


@settings(max_examples=60)
@given(rows=any_rows(soft=True))
def test_entropies_of_rows_are_those_of_scipy(rows: ProbabilityRows):
    of_items = [stats.entropy(score) for score in rows.probability]
    assert point("score_entropy", rows) == pytest.approx(np.average(of_items, weights=rows.weight), abs=1e-12)
    assert point("class_entropy", rows) == pytest.approx(stats.entropy(rows.weight @ rows.truth), abs=1e-12)


@settings(max_examples=60)
@given(rows=any_rows(whole_weights=True))
def test_mutual_information_of_classes_is_that_of_scikit_learn(rows: ProbabilityRows):
    expected = sk.mutual_info_score(None, None, contingency=hard_confusion(rows, 1)[0])
    assert point("class_mutual_information", rows) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60)
@given(
    triples=st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 2, 3])), min_size=1, max_size=30),
    confidence=st.booleans(),
)
def test_mutual_information_of_counts_is_that_of_the_repeated_rows(
    triples: list[tuple[bool, bool, int]], confidence: bool
):
    truth, told, weight = (np.array(column) for column in zip(*triples, strict=True))
    outcome = truth == told if confidence else truth
    counts = counts_from_rows(
        np.full(len(truth), 0.5), outcome, predicted=told, weight=weight,
        score_is="confidence_in_prediction" if confidence else "probability_of_label",
    )  # fmt: skip
    repeated = np.repeat(truth, weight), np.repeat(told, weight)
    assert point("mutual_information", counts) == pytest.approx(sk.mutual_info_score(*repeated), abs=1e-12)


def test_known_values_in_nats():
    even = rows_of([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    assert point("score_entropy", even) == pytest.approx(0.5 * math.log(2))
    assert point("class_entropy", even) == pytest.approx(math.log(2))
    assert entropy(np.array([[1.0, 1.0], [0.5, 1.5]])) == pytest.approx([math.log(2), stats.entropy([0.25, 0.75])])
    perfect = np.diag([5.0, 3.0])
    assert mutual_information_of(perfect) == pytest.approx(stats.entropy([5, 3]))
    assert mutual_information_of(np.outer([1.0, 2.0], [3.0, 4.0])) == pytest.approx(0.0, abs=1e-15)


def test_scores_that_do_not_add_up_to_one_are_scaled_and_items_without_a_score_left_out():
    rows = rows_of([[0.2, 0.2, np.nan], [np.nan, np.nan, np.nan]], [0, 1])
    assert point("score_entropy", rows) == pytest.approx(math.log(2))


@settings(max_examples=60)
@given(rows=any_rows(soft=True))
def test_the_log_loss_of_classes_is_that_of_scikit_learn_on_rows(rows: ProbabilityRows):
    label, score, weight = as_plain_items(rows)
    classes = np.arange(len(rows.labels))

    def loss(by: np.ndarray) -> float:
        return sk.log_loss(label, np.clip(score, 1e-15, 1), labels=classes, sample_weight=by)

    assert point("class_nll", rows) == pytest.approx(loss(weight), rel=1e-6, abs=1e-9)
    uncertain = weight * np.array([stats.entropy(q) for q in score])
    weighted = point("entropy_weighted_nll", rows)
    if uncertain.sum() == 0:
        assert weighted is None
    else:
        assert weighted == pytest.approx(loss(uncertain), rel=1e-6, abs=1e-9)
