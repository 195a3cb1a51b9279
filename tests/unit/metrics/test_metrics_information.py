"""Entropy and mutual information against scipy and scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from monitor.core.counts import counts_from_rows
from monitor.core.rows import ProbabilityRows
from monitor.metrics.information import REGISTERED, entropy, mutual_information, mutual_information_of
from monitor.metrics.multiclass import confusion_matrix
from tests.fakes.whole_rows import any_rows, rows_of

POINTS = {metric.name: metric.point for metric in REGISTERED}


@settings(max_examples=60)
@given(rows=any_rows(soft=True))
def test_entropies_of_rows_are_those_of_scipy(rows: ProbabilityRows) -> None:
    of_items = [stats.entropy(score) for score in rows.probability]
    assert POINTS["score_entropy"](rows) == pytest.approx(np.average(of_items, weights=rows.weight), abs=1e-12)
    assert POINTS["class_entropy"](rows) == pytest.approx(stats.entropy(rows.weight @ rows.truth), abs=1e-12)


@settings(max_examples=60)
@given(rows=any_rows(soft=True))
def test_mutual_information_of_classes_is_the_divergence_of_the_table_from_independence(rows: ProbabilityRows) -> None:
    table = confusion_matrix(rows)
    apart = np.outer(table.sum(axis=1), table.sum(axis=0))
    held = apart > 0
    expected = stats.entropy(table[held], apart[held])
    assert POINTS["class_mutual_information"](rows) == pytest.approx(expected, abs=1e-9)


@settings(max_examples=60)
@given(rows=any_rows(whole_weights=True))
def test_mutual_information_of_classes_is_that_of_scikit_learn(rows: ProbabilityRows) -> None:
    expected = sk.mutual_info_score(None, None, contingency=confusion_matrix(rows))
    assert POINTS["class_mutual_information"](rows) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60)
@given(
    triples=st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from([1, 2, 3])), min_size=1, max_size=30),
    confidence=st.booleans(),
)
def test_mutual_information_of_counts_is_that_of_the_repeated_rows(
    triples: list[tuple[bool, bool, int]], confidence: bool
) -> None:
    truth, told, weight = (np.array(column) for column in zip(*triples, strict=True))
    outcome = truth == told if confidence else truth
    counts = counts_from_rows(
        np.full(len(truth), 0.5), outcome, predicted=told, weight=weight,
        score_is="confidence_in_prediction" if confidence else "probability_of_label",
    )  # fmt: skip
    repeated = np.repeat(truth, weight), np.repeat(told, weight)
    assert mutual_information(counts) == pytest.approx(sk.mutual_info_score(*repeated), abs=1e-12)


def test_known_values_in_nats() -> None:
    even = rows_of([[0.5, 0.5], [1.0, 0.0]], [0, 1])
    assert POINTS["score_entropy"](even) == pytest.approx(0.5 * math.log(2))
    assert POINTS["class_entropy"](even) == pytest.approx(math.log(2))
    assert entropy(np.array([[1.0, 1.0], [0.5, 1.5]])) == pytest.approx([math.log(2), stats.entropy([0.25, 0.75])])
    perfect = np.diag([5.0, 3.0])
    assert mutual_information_of(perfect) == pytest.approx(stats.entropy([5, 3]))
    assert mutual_information_of(np.outer([1.0, 2.0], [3.0, 4.0])) == pytest.approx(0.0, abs=1e-15)


def test_scores_that_do_not_add_up_to_one_are_scaled_and_items_without_a_score_left_out() -> None:
    rows = rows_of([[0.2, 0.2, np.nan], [np.nan, np.nan, np.nan]], [0, 1])
    assert POINTS["score_entropy"](rows) == pytest.approx(math.log(2))


def test_without_rows_nothing_is_defined() -> None:
    nothing = rows_of(np.empty((0, 2)), np.empty((0, 2)))
    assert mutual_information(counts_from_rows([], [])) is None
    of_rows = ("score_entropy", "class_entropy", "class_mutual_information")
    assert [POINTS[name](nothing) for name in of_rows] == [None, None, None]
