"""Costs of K classes, against all thresholds and fallbacks tried one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import ProbabilityRows, counts_from_rows
from monitor.metrics.cost import cheapest_fallback, matrix_of
from tests.fakes.points import point
from tests.fakes.whole_rows import any_rows, rows_of


@settings(max_examples=80)
@given(rows=any_rows(soft=True), seed=st.integers(0, 1000))
def test_no_threshold_and_no_fallback_costs_less(rows: ProbabilityRows, seed: int):
    costs = np.random.default_rng(seed).integers(0, 6, (3, 3)) * (1 - np.eye(3))
    found = cheapest_fallback(rows, costs)
    top, score = rows.probability.argmax(axis=1), rows.probability.max(axis=1)

    def cost_of(threshold: float, fallback: str) -> float:
        each = []
        for true, label, held in zip(rows.truth, top, score, strict=True):
            if held >= threshold:
                each.append(sum(true[y] * costs[y, label] for y in range(3)))
            else:
                each.append(sum(true[y] * costs[y, rows.labels.index(fallback)] for y in range(3)))
        return np.average(each, weights=rows.weight)

    tried = [cost_of(t, f) for t in [1.5, *np.unique(score)] for f in rows.labels]
    assert found.cost == pytest.approx(min(tried), abs=1e-9)
    assert cost_of(found.threshold, found.fallback) == pytest.approx(found.cost, abs=1e-9)
    assert found.present == pytest.approx(cost_of(0.0, rows.labels[0]), abs=1e-9)
    assert found.acting == pytest.approx(rows.weight[score >= found.threshold].sum() / rows.weight.sum())
    at_random = [(true @ costs) @ q for true, q in zip(rows.truth, rows.probability, strict=True)]
    assert found.expected == pytest.approx(np.average(at_random, weights=rows.weight), abs=1e-9)
    by_scores = [
        (true @ costs)[np.argmin(np.round(q @ costs, 9))] for true, q in zip(rows.truth, rows.probability, strict=True)
    ]
    assert found.by_scores == pytest.approx(np.average(by_scores, weights=rows.weight), abs=1e-9)


def test_the_lecture_s_smallest_case_of_two_classes():
    score, truth = np.array([0.9, 0.8, 0.2, 0.1]), np.array([1, 0, 0, 1])
    rows = rows_of(np.column_stack((1 - score, score)), truth, labels=["no", "yes"])
    costs = matrix_of(rows.labels, {"yes": {"no": 5}, "no": {"yes": 1}})
    found = cheapest_fallback(rows, costs)
    assert found.expected == pytest.approx(1.5)
    assert found.expected == pytest.approx(point("expected_misclassification_cost", counts_from_rows(score, truth)))
    assert found.present == pytest.approx(1.5)


def test_items_without_a_score_take_the_other_decision():
    rows = rows_of([[np.nan, np.nan], [0.9, 0.1]], [1, 0], labels=["a", "b"])
    found = cheapest_fallback(rows, matrix_of(("a", "b"), {}))
    assert (found.threshold, found.fallback, found.cost, found.acting) == (0.9, "b", 0.0, 0.5)
    assert found.present == 0.0, "of the item that has a score"


def test_one_class_and_no_items():
    alone = cheapest_fallback(rows_of([[0.7], [0.8]], [0, 0], labels=["a"]), np.zeros((1, 1)))
    assert (alone.cost, alone.threshold > 1) == (0.0, True)
    assert cheapest_fallback(rows_of(np.empty((0, 2)), np.empty((0, 2)), labels=["a", "b"]), np.zeros((2, 2))) is None


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ({"a": {"c": 1.0}}, "'c', which is no label"),
        ({"a": {"b": -1.0}}, "at least 0"),
        ({"a": {"b": np.inf}}, "0, not inf"),
    ],
)
def test_costs_that_are_none_are_refused_in_words(costs: dict[str, dict[str, float]], told: str):
    with pytest.raises(ValueError, match=told):
        matrix_of(("a", "b"), costs)
