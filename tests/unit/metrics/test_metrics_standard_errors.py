"""Standard errors against row-by-row computations that were written differently."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from monitor.core.counts import counts_from_rows
from monitor.metrics.discrimination import (
    area_of_precision_recall,
    area_of_roc,
    classes,
    with_unseen_hit,
    with_unseen_pair,
)
from tests.fakes.standard_errors import delong_by_pairs, moments


def rows(seed: int, n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = np.round(rng.beta(1.2, 1.6, n), 2)  # many ties
    return score, (rng.random(n) < score).astype(float)


@pytest.mark.parametrize("seed", range(4))
def test_the_area_and_its_error_are_those_of_delong_over_all_pairs_of_rows(seed: int):
    score, truth = rows(seed)
    found = moments("roc_auc", counts_from_rows(score, truth))
    by_pairs = delong_by_pairs(score[truth == 1], score[truth == 0])
    assert (found.value, found.se**2) == pytest.approx(by_pairs, rel=1e-10)


def test_the_influence_function_is_the_derivative_of_the_average_precision():
    score, truth = rows(6, 60)
    base, step = counts_from_rows(score, truth), 1e-6
    squares = 0.0
    for i in range(60):
        heavier = np.ones(60)
        heavier[i] += step
        moved = area_of_precision_recall(classes(counts_from_rows(score, truth, weight=heavier))).value
        squares += ((moved - area_of_precision_recall(classes(base)).value) / step) ** 2
    hits = truth.sum()
    found = area_of_precision_recall(classes(base)).variance
    assert found == pytest.approx(squares * hits / (hits - 1), rel=1e-4)


@pytest.mark.parametrize("name", ["brier", "nll"])
def test_the_moments_of_a_mean_loss_are_those_of_the_rows(name: str):
    score, truth = rows(7)
    score = np.clip(score, 0.01, 0.99)
    right = np.where(truth == 1, score, 1 - score)
    loss = (1 - right) ** 2 if name == "brier" else -np.log(right)
    found = moments(name, counts_from_rows(score, truth))
    assert found.value == pytest.approx(loss.mean(), rel=1e-9)
    assert found.se == pytest.approx(stats.sem(loss), rel=1e-9)
    assert found.skew == pytest.approx(stats.skew(loss) / np.sqrt(300) * (299 / 300) ** 1.5, rel=1e-9)


@pytest.mark.parametrize("name", ["brier", "nll", "roc_auc", "pr_auc"])
def test_unequal_weights_widen_as_a_bootstrap_on_rows_says(name: str):
    rng = np.random.default_rng(2)
    score, truth = rows(9, 600)
    score, weight = np.clip(score, 0.02, 0.98), rng.choice([1.0, 8.0], 600)
    counts = counts_from_rows(score, truth, weight=weight)
    found = moments(name, counts)
    values = []
    for _ in range(300):
        index = rng.integers(0, 600, 600)
        resampled = moments(name, counts_from_rows(score[index], truth[index], weight=weight[index]))
        values.append(resampled.value)
    assert found.se == pytest.approx(np.std(values), rel=0.15)


def test_an_unseen_row_gives_a_perfect_order_an_error_and_pulls_the_area_inwards():
    two = classes(counts_from_rows([0.9, 0.8, 0.2, 0.1], [1, 1, 0, 0]))
    assert (area_of_roc(two).value, area_of_roc(two).variance) == (1.0, 0.0)
    for wider in (
        area_of_roc(with_unseen_pair(two, area_of_roc(two).value)),
        area_of_precision_recall(with_unseen_hit(two)),
    ):
        assert 0.5 < wider.value < 1
        assert wider.variance > 0


def test_moments_are_none_where_the_metric_is_and_another_name_is_an_error():
    assert [moments(name, counts_from_rows([], [])) for name in ("brier", "nll", "roc_auc", "pr_auc")] == [None] * 4
    assert moments("roc_auc", counts_from_rows([0.4, 0.6], [1, 1])) is None
    with pytest.raises(KeyError):
        moments("accuracy", counts_from_rows([], []))
