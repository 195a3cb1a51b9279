"""Counts: nothing is lost, ties are never torn, and the same rows have the same digest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import (  # fmt: skip
    CELLS,
    bin_counts,
    counts_from_rows,
    equal_frequency_edges,
    equal_width_edges,
    pool,
)
from monitor.core.records import WHERES

ROWS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 1)), min_size=1, max_size=200)


def test_an_empty_population_is_binned_like_any_other():
    nothing = counts_from_rows([0.1, 0.2], [0, 1]).where("automated")
    table = bin_counts(nothing, equal_width_edges(4))
    assert table.n.tolist() == [0, 0, 0, 0]
    assert table.score.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert equal_frequency_edges(counts_from_rows([], []), 15) == (CELLS,)


@given(ROWS, st.integers(1, 20))
def test_bins_hold_every_row_once_and_never_tear_a_tie(rows: list[tuple[float, int]], bins: int):
    score, outcome = np.array(rows).T
    counts = counts_from_rows(score, outcome)
    edges = equal_frequency_edges(counts, bins)
    table = bin_counts(counts, edges)
    assert list(edges) == sorted(set(edges))
    assert len(edges) <= bins
    assert table.n.sum() == len(rows)
    assert table.wy.sum() == pytest.approx(outcome.sum())
    assert table.ws.sum() == pytest.approx(score.sum())
    cell = np.floor(score * CELLS + 0.5)
    for m, upper in enumerate(edges):
        lower = edges[m - 1] if m else -1
        assert table.n[m] == np.sum((cell > lower) & (cell <= upper))


WEIGHTS = {"whole": range(1, 9), "fractional": [0.1, 0.7], "too large to add exactly": [2.0**52 + 1, 2.0**52 + 2]}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS.keys())
@pytest.mark.parametrize("bins", [1, 4, 9, 10_000])
def test_the_sums_of_bins_are_those_of_adding_group_by_group(weights: Sequence[float], bins: int):
    random = np.random.default_rng(bins)
    score, weight = random.random(3_000) ** 4, random.choice(np.asarray(weights, dtype=np.float64), 3_000)
    counts = counts_from_rows(score, random.random(3_000) < score, weight=weight)
    edges = equal_width_edges(bins)
    table, place = bin_counts(counts, edges), np.searchsorted(edges, counts.cell)
    for name in ("n", "w", "ws", "wy"):
        expected = np.zeros(bins)
        for bin_, value in zip(place.tolist(), getattr(counts, name).tolist(), strict=True):
            expected[bin_] += value
        assert getattr(table, name).tolist() == expected.tolist(), name


@given(ROWS, st.integers(1, 20))
def test_a_cell_is_in_the_bin_of_its_middle_row(rows: list[tuple[float, int]], bins: int):
    score, outcome = np.array(rows).T
    counts = counts_from_rows(score, outcome, predicted=outcome > 0)  # a cell may have two groups
    cells = np.sort(np.floor(score * CELLS + 0.5).astype(int)).tolist()
    middles = {cell: Fraction(cells.index(cell) + cells.index(cell) + cells.count(cell), 2) for cell in set(cells)}
    numbers = {cell: math.ceil(middle * bins / len(cells)) for cell, middle in middles.items()}
    last = {number: max(cell for cell in numbers if numbers[cell] == number) for number in numbers.values()}
    assert equal_frequency_edges(counts, bins) == (*sorted(last.values())[:-1], CELLS)


@given(ROWS, ROWS)
def test_pooling_is_counting_all_rows_at_once(one: list[tuple[float, int]], two: list[tuple[float, int]]):
    def of(rows: list[tuple[float, int]]) -> tuple[list[float], list[int]]:
        return [s for s, _ in rows], [y for _, y in rows]

    together, apart = counts_from_rows(*of(one + two)), pool([counts_from_rows(*of(one)), counts_from_rows(*of(two))])
    assert together.n.tolist() == apart.n.tolist()
    for where in WHERES:
        assert together.where(where).rows == apart.where(where).rows
    np.testing.assert_allclose(together.ws2, apart.ws2, atol=1e-12)


def test_digests_stay_as_they_are_stored():
    """The history compares them with those of other versions, and names verdicts by them."""
    weight = 10.0 ** (np.arange(999) % 13 - 3)  # sums of all sizes
    counts = counts_from_rows(np.arange(1, 1000) / 1000, np.arange(999) % 3 == 0, weight=weight, automate_at=0.8)
    assert counts.digest() == counts.digest() == "488f83542c366248"
    assert counts.with_design_effect(1.25).digest() == "6ea5d222df1fb88f"


def test_groups_without_weight_are_left_out_and_counts_that_have_none_stay_themselves():
    counts = counts_from_rows([0.1, 0.5, 0.9], [0, 1, 1], weight=[1.0, 0.0, 2.0])
    held = counts.weighted()
    assert (held.cell.tolist(), held.w.tolist(), held.n.tolist()) == ([1000, 9000], [1.0, 2.0], [1, 1])
    assert held.weighted() is held


def test_the_digest_does_not_see_the_order_in_which_an_engine_added():
    counts = counts_from_rows([0.3] * 10, [0, 1] * 5)
    nudged = replace(counts, ws=counts.ws * (1 + 1e-15))
    assert nudged.digest() == counts.digest()
    assert counts_from_rows([0.3] * 10, [0, 1] * 4 + [1, 1]).digest() != counts.digest()


def test_weights_shrink_the_effective_rows_as_kish_says():
    counts = counts_from_rows([0.5] * 4, [0, 1, 0, 1], weight=[1, 1, 1, 3], design_effect=2.0)
    assert counts.effective_rows == pytest.approx(6**2 / 12 / 2)
    assert bin_counts(counts, (CELLS,)).n_eff.tolist() == [pytest.approx(1.5)]


def test_pooling_nothing_is_an_error():
    with pytest.raises(ValueError, match="nothing to pool"):
        pool([])


@given(ROWS, st.floats(1.0, 4.0))
def test_outcomes_of_0_and_1_count_as_many_rows_as_before_soft_ones_were_known(
    rows: list[tuple[float, int]], effect: float
):
    score, outcome = np.array(rows).T
    weight = np.linspace(0.1, 3.7, len(rows))
    counts = counts_from_rows(score, outcome, weight=weight, design_effect=effect)
    assert counts.wy2.tobytes() == counts.wy.tobytes()
    table = bin_counts(counts, equal_width_edges(3))
    squares = bin_counts(replace(counts, w=counts.w2), equal_width_edges(3)).w
    expected = np.divide(table.w * table.w, squares, out=np.zeros(3), where=squares > 0)
    assert table.independent.tobytes() == expected.tobytes()
    assert table.n_eff.tobytes() == (expected / effect).tobytes()


def test_the_mean_of_five_votes_is_worth_five_rows():
    rng = np.random.default_rng(7)
    votes = rng.random((20_000, 5)) < 0.3
    soft = bin_counts(counts_from_rows(np.full(20_000, 0.3), votes.mean(axis=1), design_effect=2.0), (CELLS,))
    assert soft.independent[0] == pytest.approx(100_000, rel=0.03)
    assert soft.design_effect == pytest.approx(2.0)


def test_no_bin_is_sure_because_its_soft_outcomes_are_equal():
    table = bin_counts(counts_from_rows([0.2] * 30 + [0.8] * 30, [0.2] * 30 + [0.6, 1.0] * 15), (5000, CELLS))
    assert (table.independent > 30).all()
    assert table.independent[0] < 30 * 60  # as if one of all rows were 0 or 1
    alike = bin_counts(counts_from_rows([0.2] * 30, [0.2] * 30), (CELLS,))
    assert alike.independent[0] == pytest.approx(30 * 75)
