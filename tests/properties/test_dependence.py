"""Laws of the design effect, over random rows, clusters and weights."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from benchmarks.sampling import sums_of_rows
from monitor.inference.dependence import MIN_CLUSTERS, design_effect, two_way_effect

Rows = list[tuple[float, int, int, float]]  # score, outcome, cluster, weight

SCORES = st.integers(0, 20).map(lambda x: x / 20)
ROWS = st.lists(
    st.tuples(SCORES, st.integers(0, 1), st.integers(0, 30), st.sampled_from([0.5, 1.0, 3.0])),
    min_size=1,
    max_size=120,
)


def effect(rows: Rows) -> float:
    score, outcome, cluster, weight = zip(*rows, strict=True)
    return design_effect(sums_of_rows(score, outcome, cluster, weight))


def naive(rows: Rows) -> float:
    """Row by row: squared cluster sums of the centred weighted residuals over the squared residuals."""
    weights = np.array([weight for *_, weight in rows])
    residual = np.array([outcome - score for score, outcome, *_ in rows])
    centred = weights * (residual - np.average(residual, weights=weights))
    sums = defaultdict(float)
    sizes = defaultdict(float)
    for (_, _, cluster, weight), value in zip(rows, centred, strict=True):
        sums[cluster] += value
        sizes[cluster] += weight
    alike = sum(size**2 for size in sizes.values())
    apart = (centred**2).sum()
    if weights.sum() ** 2 / alike < MIN_CLUSTERS or apart < 1e-12 * (weights**2).sum():
        return max(1.0, alike / (weights**2).sum())
    return max(1.0, sum(value**2 for value in sums.values()) / apart)


@given(ROWS)
def test_it_is_the_definition_row_by_row(rows: Rows):
    squares = sum(weight**2 for *_, weight in rows)
    clusters = defaultdict(float)
    for *_, cluster, weight in rows:
        clusters[cluster] += weight
    worth = sum(clusters.values()) ** 2 / sum(size**2 for size in clusters.values())
    assume(abs(worth - MIN_CLUSTERS) > 1e-9 and squares > 0)
    assert effect(rows) == pytest.approx(naive(rows), rel=1e-9)


@given(ROWS, st.randoms(use_true_random=False))
def test_the_order_of_rows_and_the_names_of_clusters_do_not_matter(rows: Rows, random: object):
    shuffled = [(score, outcome, 1000 - 7 * cluster, weight) for score, outcome, cluster, weight in rows]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert effect(shuffled) == pytest.approx(effect(rows), rel=1e-9)


@given(ROWS, st.integers(1, 7))
def test_a_cluster_of_k_copies_of_every_row_has_the_effect_k(rows: Rows, copies: int):
    own = [(score, outcome, index, 1.0) for index, (score, outcome, *_) in enumerate(rows)]
    assert effect(own) == pytest.approx(1.0)
    assert effect(own * copies) == pytest.approx(copies, rel=1e-9)


@given(ROWS, st.sampled_from([0.01, 4.0, 1e4]))
def test_the_scale_of_weights_does_not_matter(rows: Rows, scale: float):
    scaled = [(score, outcome, cluster, weight * scale) for score, outcome, cluster, weight in rows]
    assert effect(scaled) == pytest.approx(effect(rows), rel=1e-6)


@given(ROWS)
def test_it_is_at_least_one_and_leaves_at_least_one_effective_row(rows: Rows):
    weight = np.array([row[3] for row in rows])
    found = effect(rows)
    assert found >= 1.0
    if len({row[2] for row in rows}) == 1:
        assert weight.sum() ** 2 / (weight**2).sum() / found == pytest.approx(1.0)


@given(ROWS, st.lists(st.integers(0, 3), min_size=120, max_size=120))
def test_where_clusters_hold_whole_items_two_ways_are_one(rows: Rows, part: list[int]):
    score, outcome, cluster, weight = (np.array(column) for column in zip(*rows, strict=True))
    item = cluster * 10 + np.array(part[: len(rows)])  # an item lies in one cluster
    of = [sums_of_rows(score, outcome, key, weight) for key in (item, cluster, np.column_stack([item, cluster]))]
    if any(sums.silent for sums in of):
        return
    assert two_way_effect(*of) == pytest.approx(max(design_effect(of[0]), design_effect(of[1])), rel=1e-9)


@given(ROWS, st.lists(st.integers(0, 40), min_size=120, max_size=120))
def test_two_ways_never_give_a_smaller_design_effect_than_one(rows: Rows, item: list[int]):
    score, outcome, cluster, weight = (np.array(column) for column in zip(*rows, strict=True))
    first = np.array(item[: len(rows)])
    of = [sums_of_rows(score, outcome, key, weight) for key in (first, cluster, np.column_stack([first, cluster]))]
    assert two_way_effect(*of) >= max(design_effect(of[0]), design_effect(of[1]))
