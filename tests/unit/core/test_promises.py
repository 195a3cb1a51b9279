"""What scores claimed and what came true, in four numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import counts_from_rows
from monitor.core.promises import Promise, pooled_promise, promise_of, promises_of

rows = st.lists(
    st.tuples(st.floats(0, 1), st.integers(0, 1), st.floats(0.1, 100)), min_size=1, max_size=40
)  # fmt: skip


@given(rows)
def test_a_promise_is_the_weighted_mean_score_and_hit_rate_of_the_rows(drawn):
    score, outcome, weight = (np.array(part) for part in zip(*drawn, strict=True))
    found = promise_of(counts_from_rows(score, outcome, weight=weight))
    assert found.promised == pytest.approx(np.average(score, weights=weight))
    assert found.kept == pytest.approx(np.average(outcome, weights=weight))
    assert found.rows == len(drawn)


@given(rows, st.floats(1, 10))
def test_effective_rows_are_never_more_than_kish_says_or_than_the_heaviest_row_allows(drawn, effect):
    _, outcome, weight = (np.array(part) for part in zip(*drawn, strict=True))
    # every row a cell of its own: the heaviest cell is the heaviest row
    counts = counts_from_rows(np.arange(len(drawn)) / 100, outcome, weight=weight, design_effect=effect)
    found = promise_of(counts)
    assert found.effective <= counts.effective_rows * (1 + 1e-9)
    assert found.effective <= weight.sum() / weight.max() / effect * (1 + 1e-9)


def test_rows_of_equal_weight_count_one_each():
    counts = counts_from_rows([0.9] * 60 + [0.2] * 40, [1] * 50 + [0] * 50, weight=[3.0] * 100)
    assert promise_of(counts).effective == pytest.approx(100)


def test_populations_without_rows_are_left_out():
    found = promises_of(counts_from_rows([0.9, 0.6, 0.2], [1, 0, 0], automate_at=0.95))
    assert set(found) == {"all", "predicted"}
    assert found["predicted"].rows == 2
    assert promises_of(counts_from_rows([], [])) == {}


def test_pooled_windows_weigh_as_their_effective_rows():
    assert pooled_promise([Promise(10, 10.0, 0.9, 0.9), Promise(60, 30.0, 0.9, 0.5)]) == Promise(70, 40.0, 0.9, 0.6)
    with pytest.raises(ValueError, match="nothing to pool"):
        pooled_promise([])
