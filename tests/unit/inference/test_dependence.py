"""Rows that are not independent: the design effect, its edges, and how windows are put together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.sampling import sums_of_rows
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges, pool
from monitor.core.records import WHERES
from monitor.history import counts_file
from monitor.inference.dependence import ClusterSums, design_effect, share_in_bands, two_way_effect
from monitor.inference.intervals import ece_intervals
from monitor.inference.levels import interval

NO_ROWS = ClusterSums(*[0.0] * 8)


def effect(residual: list[float], cluster: list[object], weight: list[float] | None = None) -> float:
    return design_effect(sums_of_rows(-np.array(residual, dtype=float), np.zeros(len(residual)), cluster, weight))


# --- hand-checked


# --- degenerate


def test_without_rows_or_weights_the_effect_is_one():
    assert design_effect(NO_ROWS) == 1.0
    assert design_effect(sums_of_rows([], [], [])) == 1.0
    assert effect([1, -1, 1], ["a", "b", "b"], [0, 0, 0]) == 1.0
    assert two_way_effect(NO_ROWS, NO_ROWS, NO_ROWS) == 1.0


def test_one_cluster_is_one_row_whatever_its_residuals():
    assert effect([1, -1] * 50, ["only"] * 100) == 100.0
    counts = counts_from_rows([0.7] * 100, [1] * 70 + [0] * 30, design_effect=effect([0.3] * 100, ["only"] * 100))
    assert counts.effective_rows == pytest.approx(1.0)
    found = interval("accuracy", counts, 0.95)
    assert found.high - found.low > 0.9  # one row says next to nothing


def test_few_clusters_count_as_copies_since_nothing_is_known_about_them():
    nine, ten = [index // 5 for index in range(45)], [index // 5 for index in range(50)]
    assert effect([1, -1, 1, -1, 0] * 9, nine) == 5.0
    assert effect([1, -1, 1, -1, 0] * 10, ten) == 1.0


def test_one_huge_cluster_among_small_ones_is_few():
    cluster = ["huge"] * 400 + list(range(100))
    assert effect([1, -1] * 250, cluster) == pytest.approx((400**2 + 100) / 500)


def test_residuals_that_cancel_out_in_a_cluster_never_make_rows_worth_more_than_they_are():
    assert effect([1, -1] * 50, [index // 2 for index in range(100)]) == 1.0


def test_residuals_that_are_all_equal_say_nothing_so_a_cluster_counts_once():
    assert effect([0.1] * 60, [index // 3 for index in range(60)]) == pytest.approx(3.0)


# --- item and cluster


def labels_and_threads(*, nested: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(score, outcome, item, cluster): items of two labels; threads of three whole items, or of one label each."""
    item = np.repeat(np.arange(3000), 2)
    label = np.tile([0, 1], 3000)
    thread = item // 3
    rng = np.random.default_rng(5)
    of_item, of_thread = rng.normal(size=3000)[item], rng.normal(size=2000)[thread if nested else thread * 2 + label]
    residual = of_item + of_thread + rng.normal(size=6000)
    return -residual, np.zeros(6000), item, thread if nested else thread * 2 + label


def effects(parts: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> tuple[float, float, float]:
    score, outcome, item, cluster = parts
    keys = (item, cluster, np.column_stack([item, cluster]))
    by_item, by_cluster, by_both = (sums_of_rows(score, outcome, key) for key in keys)
    return design_effect(by_item), design_effect(by_cluster), two_way_effect(by_item, by_cluster, by_both)


def test_where_a_cluster_holds_whole_items_it_alone_decides():
    by_item, by_cluster, both = effects(labels_and_threads(nested=True))
    assert by_item < by_cluster
    assert both == pytest.approx(by_cluster, rel=1e-12)


def test_where_items_and_clusters_cross_both_effects_count():
    # variances 1 each of item, thread and row: 1 + 2 x (1/3)(rows of the item - 1 = 1) ...
    by_item, by_cluster, both = effects(labels_and_threads(nested=False))
    assert by_item == pytest.approx(1 + 1 / 3, abs=0.1)
    assert by_cluster == pytest.approx(1 + 2 / 3, abs=0.15)
    assert both == pytest.approx(2.0, abs=0.2)


def test_too_few_clusters_decide_for_the_whole_source_too():
    item, cluster = list(range(100)), [0] * 100
    by_item, by_cluster, by_both = (sums_of_rows([0.5] * 100, [0, 1] * 50, key) for key in (item, cluster, item))
    assert two_way_effect(by_item, by_cluster, by_both) == 100.0


# --- windows put together


def window(copies: int, rows: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(score, outcome, cluster) with a mean residual of 0: each row has a mirror image."""
    score = np.random.default_rng(seed).choice([0.1, 0.2, 0.4], rows)
    score, outcome = np.concatenate([score, 1 - score]), np.repeat([1, 0], rows)
    cluster = np.arange(2 * rows) + 1_000_000 * seed
    return np.repeat(score, copies), np.repeat(outcome, copies), np.repeat(cluster, copies)


def test_pooled_windows_have_the_effect_of_all_their_rows_at_once():
    parts = [window(1, 400, seed=1), window(5, 100, seed=2), window(2, 300, seed=3)]
    together = [np.concatenate([part[index] for part in parts]) for index in range(3)]
    at_once = design_effect(sums_of_rows(*together))
    counted = [counts_from_rows(*part[:2], design_effect=design_effect(sums_of_rows(*part))) for part in parts]
    assert pool(counted).design_effect == pytest.approx(at_once, rel=1e-12)
    assert 1 < at_once < 5


def test_a_window_whose_residuals_are_large_counts_for_more():
    sure = counts_from_rows([0.01, 0.99] * 500, [0, 1] * 500, design_effect=5.0)
    doubtful = counts_from_rows([0.5] * 1000, [0, 1] * 500, design_effect=1.0)
    assert pool([sure, doubtful]).design_effect == pytest.approx(1 + 4 * 0.0001 / (0.0001 + 0.25))


def test_windows_without_any_difference_count_by_their_rows_and_nothing_has_an_effect_of_one():
    calm = [counts_from_rows([1.0] * rows, [1] * rows, design_effect=e) for rows, e in ((30, 1.0), (10, 5.0))]
    assert pool(calm).design_effect == pytest.approx(2.0)
    empty = [counts_from_rows([], [], design_effect=e) for e in (1.0, 2.0)]
    assert pool(empty).design_effect == 1.0


def test_an_effect_that_is_the_same_everywhere_stays_exactly_what_it_is():
    parts = [counts_from_rows([0.3, 0.7], [0, 1], design_effect=1.1) for _ in range(3)]
    assert pool(parts).design_effect == 1.1


def test_the_rows_that_act_have_the_larger_effect_of_their_own_and_the_labels():
    counts = replace(counts_from_rows([0.1, 0.6, 0.9], [0, 1, 1], automate_at=0.8), design_effect=2.0)
    effects = {where: replace(counts, acting_effects=(1.5, 4.0)).where(where).design_effect for where in WHERES}
    assert effects == {"all": 2.0, "predicted": 2.0, "automated": 4.0}


def test_the_effects_of_acting_rows_are_pooled_over_those_rows_and_kept_in_the_history():
    parts = [
        counts_from_rows([0.1, 0.9, 0.9] * 100, [0, 1, 0] * 100, automate_at=0.8, design_effect=1.5) for _ in range(2)
    ]
    pooled = pool([replace(part, acting_effects=(1.0, effect)) for part, effect in zip(parts, (2.0, 4.0), strict=True)])
    assert pooled.design_effect == 1.5
    assert pooled.where("automated").design_effect == pytest.approx(3.0)
    again = counts_file.from_bytes(counts_file.to_bytes({(): pooled}))[()]
    assert again.acting_effects == pooled.acting_effects
    assert again.digest() == pooled.digest() != replace(pooled, acting_effects=(1.0, 1.0)).digest()


# --- how much of it is in one band of scores


def banded(score: np.ndarray, outcome: np.ndarray, key: np.ndarray) -> Counts:
    """The counts of rows in clusters, with how much of their dependence is in one band, as a reading has them."""
    sums = sums_of_rows(score, outcome, key)
    bands = sums_of_rows(score, outcome, np.column_stack([key, np.floor(score * 20)]))
    counts = counts_from_rows(score, outcome, design_effect=design_effect(sums))
    return replace(counts, together=share_in_bands(sums, bands))


def threads(seed: int, size: int, *, one_score: bool) -> Counts:
    """1,000 rows of threads: in three of ten rows a thread has one luck. The truth is a half at every score."""
    rng = np.random.default_rng(seed)
    key = np.arange(1000) // size
    score = np.round(rng.random(1000), 3)[key if one_score else slice(None)]
    lucky = np.where(rng.random(1000) < 0.55, rng.random(1000)[key], rng.random(1000)) < 0.5
    return banded(score, lucky.astype(float), key)


def test_rows_of_one_score_have_all_of_their_dependence_in_a_band_and_others_hardly_any():
    assert threads(1, 10, one_score=True).together == 1.0
    assert threads(1, 10, one_score=False).together < 0.3
    assert banded(*window(5, 100)).together == 1.0
    few = banded(np.linspace(0, 0.9, 40), np.tile([0.0, 1.0], 20), np.arange(40) // 20)
    assert (few.design_effect, few.together) == (20.0, 1.0)


def test_the_point_of_an_ece_counts_only_the_rows_of_a_cluster_that_share_a_bin():
    counts = threads(2, 10, one_score=False)
    table = bin_counts(counts, equal_frequency_edges(counts, 15))
    full = replace(table, together=1.0)
    for form, rngs in (("analytic", []), ("bootstrap", [np.random.default_rng(3), np.random.default_rng(3)])):
        one, other = ece_intervals([table, full], rngs, form=form)
        assert one.value > other.value
        assert (one.low, one.high) == (other.low, other.high)
    assert (full.inside == full.n_eff).all()
    assert (table.n_eff < table.inside).all()
    assert (table.inside < table.n).all()


def test_the_share_in_bands_is_pooled_kept_and_lost_with_the_effect_it_is_of():
    one, other = (replace(threads(seed, 10, one_score=False), together=share) for seed, share in ((1, 0.2), (2, 0.6)))
    pooled = pool([one, other])
    assert pooled.together == pytest.approx(0.4)
    assert counts_file.from_bytes(counts_file.to_bytes({(): pooled}))[()].together == pooled.together
    assert pooled.where("predicted").together == pooled.together
    assert pooled.with_design_effect(3.0).together == 1.0


# --- effective sizes are used, rows are told


@pytest.mark.parametrize(
    "metric", ["brier", "nll", "roc_auc", "pr_auc", "accuracy", "overconfidence", "false_negative_rate", "ece"]
)
def test_copies_with_their_effect_give_the_interval_of_the_rows_they_are_copies_of(metric: str):
    rng = np.random.default_rng(3)
    score = np.round(rng.random(2000), 2)
    outcome = (rng.random(2000) < score).astype(float)
    both = [counts_from_rows(np.tile(score, k), np.tile(outcome, k), design_effect=k) for k in (1, 5)]
    tables = [bin_counts(each, (2000, 4000, 6000, 8000, 10000)) for each in both]
    closed = ece_intervals(tables, [], form="analytic")
    alone, found = closed if metric == "ece" else (interval(metric, each, 0.95) for each in both)
    near = 1e-9 if metric == "ece" else 2e-3
    assert (found.low, found.value, found.high) == pytest.approx((alone.low, alone.value, alone.high), rel=near)
    assert both[1].rows == tables[1].n.sum() == 10_000
