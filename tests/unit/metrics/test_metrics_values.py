"""Point values against scikit-learn and plain numpy on the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn import metrics as sk

from monitor.core.counts import RegressionRows, bin_counts, counts_from_rows, equal_width_edges
from monitor.metrics.calibration import brier, ece, nll
from monitor.metrics.registry import CONTRACT, METRICS
from tests.fakes.one_table import table
from tests.fakes.points import mce, overconfidence, point, pr_auc, roc_auc
from tests.fakes.whole_rows import rows_of

UNBINNED = [name for name in CONTRACT if METRICS[name].needs != "bins"]


def discrete_rows(seed: int, n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = rng.choice([0.05, 0.1, 0.35, 0.5, 0.6, 0.8, 0.95], n)
    return score, (rng.random(n) < score**1.3).astype(float), rng.uniform(0.2, 4.0, n)


def soft_as_hits_and_misses(
    score: np.ndarray, share: np.ndarray, weight: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    truth = np.concatenate([np.ones_like(share), np.zeros_like(share)])
    return np.tile(score, 2), truth, np.concatenate([weight * share, weight * (1 - share)])


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_discrete_scores_agree_with_scikit_learn_to_the_ninth_digit(seed: int, weighted: bool, soft: bool):
    score, truth, weight = discrete_rows(seed)
    weight = weight if weighted else np.ones_like(weight)
    outcome = np.random.default_rng(seed).choice([0.0, 0.25, 0.5, 1.0], len(score)) if soft else truth
    counts = counts_from_rows(score, outcome, weight=weight)
    s, y, w = soft_as_hits_and_misses(score, outcome, weight)
    expected = {
        "brier": sk.brier_score_loss(y, s, sample_weight=w),
        "nll": sk.log_loss(y, s, sample_weight=w),
        "roc_auc": sk.roc_auc_score(y, s, sample_weight=w),
        "pr_auc": sk.average_precision_score(y, s, sample_weight=w),
        "accuracy": sk.accuracy_score(y, s >= 0.5, sample_weight=w),
        "overconfidence": np.average(s, weights=w) - np.average(y, weights=w),
        "false_negative_rate": 1 - sk.recall_score(y, s >= 0.5, sample_weight=w),
    }
    found = {name: point(name, counts) for name in expected}
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [1000, 20_000])
def test_continuous_scores_agree_with_the_rows_to_a_ten_thousandth(seed: int, n: int):
    rng = np.random.default_rng(seed)
    score = rng.beta(1.5, 2.5, n)
    truth = (rng.random(n) < score).astype(float)
    counts = counts_from_rows(score, truth)
    assert brier(counts) == pytest.approx(sk.brier_score_loss(truth, score), abs=1e-9)
    assert nll(counts) == pytest.approx(sk.log_loss(truth, score), abs=1e-4)
    assert roc_auc(counts) == pytest.approx(sk.roc_auc_score(truth, score), abs=1e-4)
    assert pr_auc(counts) == pytest.approx(sk.average_precision_score(truth, score), abs=1e-4)


def test_two_rows_of_one_cell_keep_their_order():
    score = [0.30001, 0.30002, 0.6, 0.60001]
    assert roc_auc(counts_from_rows(score, [0, 1, 0, 1])) == sk.roc_auc_score([0, 1, 0, 1], score)
    assert roc_auc(counts_from_rows(score, [1, 0, 1, 0])) == sk.roc_auc_score([1, 0, 1, 0], score)
    assert roc_auc(counts_from_rows([0.3, 0.3, 0.6, 0.6], [1, 0, 1, 0])) == 0.5
    score = [0.30001, 0.30002, 0.6, 0.2]
    assert pr_auc(counts_from_rows(score, [1, 1, 0, 0])) == sk.average_precision_score([1, 1, 0, 0], score)


def test_binned_errors_agree_with_a_plain_loop_over_the_rows():
    score, truth, weight = discrete_rows(4)
    bins = bin_counts(counts_from_rows(score, truth, weight=weight), equal_width_edges(10))
    gaps, shares = [], []
    for k in range(10):
        inside = (score > k / 10) & (score <= (k + 1) / 10)
        if inside.any():
            w = weight[inside]
            gaps.append(abs(np.average(truth[inside], weights=w) - np.average(score[inside], weights=w)))
            shares.append(w.sum() / weight.sum())
    assert ece(bins) == pytest.approx(np.dot(gaps, shares), abs=1e-9)
    assert mce(bins) == pytest.approx(max(gaps), abs=1e-9)


def test_the_log_loss_of_a_certain_error_is_that_of_the_documented_epsilon():
    assert nll(counts_from_rows([1.0], [0])) == pytest.approx(-math.log(1e-15), rel=1e-9)
    assert nll(counts_from_rows([0.0], [1])) == pytest.approx(-math.log(1e-15), rel=1e-9)
    assert nll(counts_from_rows([1.0, 0.0], [1, 0])) == 0.0


EMPTY = counts_from_rows([], [])
NOTHING = dict.fromkeys(("counts", "ranked", "items", "ranked_items"), EMPTY) | {
    "bins": table([0], [0], [0]), "rows": rows_of(np.empty((0, 2)), np.empty((0, 2))),
    "regression": RegressionRows(*np.empty((4, 0)), items=0),
}  # fmt: skip


def test_without_rows_every_metric_is_none():
    of = [metric for metric in METRICS.values() if metric.needs in NOTHING]
    assert {m.name: point(m.name, NOTHING[m.needs]) for m in of} == dict.fromkeys(m.name for m in of)


@pytest.mark.parametrize(
    ("outcome", "undefined"), [(0, {"roc_auc", "pr_auc", "false_negative_rate"}), (1, {"roc_auc"})]
)
def test_with_one_class_only_the_metrics_that_need_both_are_none(outcome: int, undefined: set[str]):
    counts = counts_from_rows([0.2, 0.7, 0.7, 0.9], [outcome] * 4, weight=[0.1, 0.2, 0.3, 0.7])
    found = {name: point(name, counts) for name in UNBINNED}
    assert {name for name, value in found.items() if value is None} == undefined
    assert all(math.isfinite(value) for value in found.values() if value is not None)


def test_a_score_that_never_varies_discriminates_nothing():
    counts = counts_from_rows([0.7] * 8, [1, 0, 1, 1, 0, 1, 1, 1])
    assert (roc_auc(counts), pr_auc(counts)) == (0.5, 0.75)


def test_the_overconfidence_is_negative_where_more_is_kept_than_promised():
    assert overconfidence(counts_from_rows([0.6, 0.6], [1, 1])) == pytest.approx(-0.4)


def test_the_registry_lists_the_metrics_in_the_order_of_the_contract():
    expected = "ece mce brier nll roc_auc pr_auc accuracy overconfidence false_negative_rate"
    assert list(CONTRACT) == list(METRICS)[:9] == expected.split()
    assert {name for name in CONTRACT if METRICS[name].direction == "higher"} == {"roc_auc", "pr_auc", "accuracy"}


def test_bands_cover_the_whole_scale_and_the_better_one_holds_on_a_border():
    for metric in METRICS.values():
        values = [] if not metric.bands else np.linspace(0, 1, 101).tolist()
        assert all(metric.reading(value) is not None for value in values)
    borders = {name: METRICS[name].reading(value) for name, value in (("ece", 0.1), ("mce", 0.2), ("roc_auc", 0.8))}
    assert borders == {"ece": "somewhat off", "mce": "risky", "roc_auc": "acceptable"}
    assert METRICS["ece"].reading(None) is None
