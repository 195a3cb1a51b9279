"""Boxplots of the scores of right and wrong: numpy's quantiles on the rows, and what is drawn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import counts_from_rows
from monitor.report.figures.scores import FiveNumbers, box_text, score_boxes

CELLS = st.integers(0, 10_000)


@given(st.lists(st.tuples(CELLS, st.booleans(), st.integers(1, 4)), min_size=1, max_size=60))
def test_the_five_numbers_are_the_quantiles_of_the_rows_each_as_often_as_it_weighs(
    rows: list[tuple[int, bool, int]],
):
    score, right, weight = (np.array(part) for part in zip(*rows, strict=True))
    score = score / 10_000
    counts = counts_from_rows(score, right, weight=weight, score_is="confidence_in_prediction")
    found = score_boxes(counts)
    for name, mask in (("right", right), ("wrong", ~right)):
        if not mask.any():
            assert name not in found
            continue
        box = found[name]
        each = np.repeat(score[mask], weight[mask])
        assert list(box.scores) == list(np.quantile(each, (0, 0.25, 0.5, 0.75, 1), method="inverted_cdf"))
        assert box.weight == pytest.approx(weight[mask].sum())


def test_with_the_probability_of_a_label_only_what_was_predicted_is_looked_at():
    counts = counts_from_rows([0.9, 0.8, 0.2, 0.1], [1, 0, 1, 0])
    found = score_boxes(counts)
    assert (found["right"].median, found["right"].weight, found["wrong"].median) == (0.9, 1.0, 0.8)


def test_a_soft_outcome_is_partly_right():
    found = score_boxes(counts_from_rows([0.9, 0.7], [0.75, 0.0]))
    assert (found["right"].weight, found["wrong"].weight) == (0.75, 1.25)
    assert found["wrong"].scores == (0.7, 0.7, 0.7, 0.7, 0.9)


def test_no_rows_have_no_box():
    assert score_boxes(counts_from_rows([], [])) == {}


def test_a_box_of_one_score_is_one_mark():
    assert box_text(FiveNumbers(0.98, 0.98, 0.98, 0.98, 0.98, 3)).strip() == "┃"
