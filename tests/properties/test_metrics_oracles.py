"""Metrics of decisions, order, cost and selection against scikit-learn, scipy and plain loops, on any rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from sklearn import metrics as sk

from monitor.core.counts import CELLS, Counts, bin_counts, counts_from_rows, equal_frequency_edges, equal_width_edges
from monitor.inference.bootstrap import Spread
from monitor.inference.registered import law
from monitor.metrics import calibration, classification, cost, discrimination, selective
from monitor.metrics.calibration import brier, class_weighted_nll_core
from monitor.metrics.classification import confusion_of
from monitor.metrics.cost import Costs, cheapest_threshold
from monitor.metrics.groups import groups_of, number, on_counts
from monitor.metrics.selective import risk_coverage
from tests.fakes.points import groups_of_bins, point, pr_auc, roc_auc

MODULES = (calibration, discrimination, classification, cost, selective)
REGISTERED = {metric.name: metric for module in MODULES for metric in module.REGISTERED}
ON_GROUPS = {name: metric.core for name, metric in REGISTERED.items() if metric.core is not None}
SHARES = {name: metric.share for name, metric in REGISTERED.items() if metric.share is not None}
cohens_d, point_biserial, aurc, e_aurc, excess_errors, automated_accuracy, share_to_people = (
    partial(point, name)
    for name in (
        "cohens_d", "point_biserial", "aurc", "e_aurc", "excess_errors", "automated_accuracy", "share_to_people",
    )
)  # fmt: skip


def class_weighted_nll(counts: Counts, weight: float = 5.0) -> float | None:
    return on_counts(lambda groups: class_weighted_nll_core(groups, weight), counts)


def cost_of(name: str, counts: Counts, costs: Costs) -> float | None:
    return on_counts(cost.ON_GROUPS[name](costs), counts)


ROW = st.tuples(
    st.sampled_from([0.0, 0.05, 0.1, 0.35, 0.5, 0.6, 0.8, 0.95, 1.0]),
    st.sampled_from([0.0, 1.0, 0.0, 1.0, 0.25, 0.5]),
    st.sampled_from([1.0, 1.0, 0.3, 4.0]),
    st.booleans(),
)
Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@st.composite
def tables(draw: st.DrawFn) -> Table:
    rows = draw(st.lists(ROW, min_size=1, max_size=30))
    score, outcome, weight, predicted = (np.array(column) for column in zip(*rows, strict=True))
    return score, outcome, weight, predicted


def counted(table: Table, **more: object) -> Counts:
    score, outcome, weight, predicted = table
    return counts_from_rows(score, outcome, weight=weight, predicted=predicted, **more)  # type: ignore[arg-type]


def doubled(table: Table) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Score, 0/1 truth, weight and decision, a soft row being two: y of a hit and 1 - y of a miss."""
    score, outcome, weight, predicted = table
    truth = np.concatenate([np.ones_like(outcome), np.zeros_like(outcome)])
    w = np.concatenate([weight * outcome, weight * (1 - outcome)])
    held = w > 0
    return np.tile(score, 2)[held], truth[held], w[held], np.tile(predicted, 2)[held]


def same(found: float | None, expected: float | None, within: float = 1e-9) -> None:
    assert (found is None) == (expected is None)
    assert found == pytest.approx(expected, abs=within)


@given(table=tables())
@settings(deadline=None, max_examples=50)
def test_decisions_agree_with_scikit_learn(table: Table):
    _, y, w, predicted = doubled(table)
    (tn, fp), (fn, tp) = sk.confusion_matrix(y, predicted, sample_weight=w, labels=[0, 1])
    counts = counted(table)
    matrix = confusion_of(groups_of(counts))
    assert [float(x) for x in (matrix.tp, matrix.fp, matrix.fn, matrix.tn)] == pytest.approx([tp, fp, fn, tn], abs=1e-9)
    both, some = y.min() != y.max(), predicted.any()
    full = both and predicted.min() != predicted.max()
    k = np.where(y == 1, 5.0, 1.0)
    expected = {
        "error_rate": sk.zero_one_loss(y, predicted, sample_weight=w),
        "precision": sk.precision_score(y, predicted, sample_weight=w) if some else None,
        "recall": sk.recall_score(y, predicted, sample_weight=w) if y.any() else None,
        "f1": sk.f1_score(y, predicted, sample_weight=w) if y.any() or some else None,
        "false_positive_rate": 1 - sk.recall_score(1 - y, ~predicted, sample_weight=w) if not y.all() else None,
        "specificity": sk.recall_score(1 - y, ~predicted, sample_weight=w) if not y.all() else None,
        "balanced_accuracy": sk.balanced_accuracy_score(y, predicted, sample_weight=w) if both else None,
        "balanced_error": 1 - sk.balanced_accuracy_score(y, predicted, sample_weight=w) if both else None,
        "class_weighted_error": sk.zero_one_loss(y, predicted, sample_weight=w * k),
        "prevalence": np.average(y, weights=w),
        "matthews_correlation": sk.matthews_corrcoef(y, predicted, sample_weight=w) if full else None,
    }
    for name, value in expected.items():
        same(point(name, counts), value)


@given(table=tables())
def test_confidence_in_the_prediction_gives_the_same_decisions_and_costs_as_the_truth(table: Table):
    score, outcome, weight, predicted = table
    truth = counted(table)
    confidence = counted(
        (np.where(predicted, score, 1 - score), np.where(predicted, outcome, 1 - outcome), weight, predicted),
        score_is="confidence_in_prediction",
    )
    for metric in (*classification.REGISTERED, *cost.REGISTERED):
        same(point(metric.name, confidence), point(metric.name, truth))
    same(class_weighted_nll(confidence), class_weighted_nll(truth))
    one, other = cheapest_threshold(truth), cheapest_threshold(confidence)
    assert (other.threshold, other.cost) == pytest.approx((one.threshold, one.cost))


@given(table=tables())
def test_shares_of_rows_have_the_value_of_their_metric_and_no_more_rows_than_there_are(table: Table):
    counts = counted(table, automate_at=0.7)
    for name, share_of in SHARES.items():
        share = share_of(counts)
        same(None if share is None else share.value, point(name, counts))
        assert share is None or 0 < share.rows <= counts.rows * (1 + 1e-9)


@given(table=tables())
def test_the_areas_under_the_curves_are_those_of_scikit_learn(table: Table):
    s, y, w, _ = doubled(table)
    counts = counted(table)
    of_roc = sk.roc_auc_score(y, s, sample_weight=w) if y.min() < y.max() else None
    assert roc_auc(counts) == (None if of_roc is None else pytest.approx(of_roc, abs=1e-9))
    of_precision = sk.average_precision_score(y, s, sample_weight=w) if y.any() else None
    assert pr_auc(counts) == (None if of_precision is None else pytest.approx(of_precision))


@given(table=tables())
def test_cohens_d_and_the_point_biserial_correlation_follow_from_the_moments_of_the_rows(table: Table):
    s, y, w, _ = doubled(table)
    counts = counted(table)
    if y.min() == y.max() or s.min() == s.max():
        assert point_biserial(counts) is None
    else:
        expected = np.cov(s, y, aweights=w)
        same(point_biserial(counts), expected[0, 1] / math.sqrt(expected[0, 0] * expected[1, 1]))
    groups = [(np.average(s[y == k], weights=w[y == k]), s[y == k], w[y == k]) for k in (1, 0) if (y == k).any()]
    variances = [np.average((part - mean) ** 2, weights=weight) for mean, part, weight in groups]
    if len(groups) < 2 or sum(variances) < 1e-12:
        assert cohens_d(counts) is None
    else:
        same(cohens_d(counts), (groups[0][0] - groups[1][0]) / math.sqrt(sum(variances) / 2))


@pytest.mark.parametrize("near", [1e-5, 1e-4, 1e-3])
def test_scores_crowded_within_a_few_cells_have_the_separation_and_the_correlation_of_their_rows(near: float):
    rng = np.random.default_rng(3)
    y = (rng.random(2000) < 0.7).astype(float)
    below = rng.random(2000) - 0.3 * rng.random(2000) * y
    counts = counts_from_rows(1 - near * below.clip(0.0), y)
    hits, misses = -below.clip(0.0)[y == 1], -below.clip(0.0)[y == 0]
    same(point_biserial(counts), float(np.corrcoef(-below.clip(0.0), y)[0, 1]), within=5e-5)
    expected = (hits.mean() - misses.mean()) / math.sqrt((hits.var() + misses.var()) / 2)
    # which class a cell's spread belongs to is not known where both are in it
    assert cohens_d(counts) == pytest.approx(expected, rel=5e-3)
    spread = law("cohens_d", counts)
    assert isinstance(spread, Spread)
    assert spread.value == cohens_d(counts)
    assert spread.se == pytest.approx(math.sqrt(1 / len(hits) + 1 / len(misses)), rel=0.15)


def brier_parts(counts: Counts, edges: Sequence[int]) -> tuple[float, float, float, float]:
    """Murphy's (1973) parts of the Brier score over bins with these upper edges.

    With c_m, y_m and w_m of a bin: reliability = sum w_m / W (c_m - y_m)^2, resolution = sum w_m / W (y_m - ybar)^2,
    uncertainty = ybar (1 - ybar); the rest within bins is their variance of scores minus twice their covariance of
    score and outcome (Stephenson, Coelho & Jolliffe 2008).
    """
    bins, total = bin_counts(counts, edges), counts.w.sum()
    rate = counts.wy.sum() / total
    reliability = (bins.w * (bins.score - bins.rate) ** 2).sum() / total
    resolution = (bins.w * (bins.rate - rate) ** 2).sum() / total
    between = (bins.w * bins.score * (bins.score - 2 * bins.rate)).sum()
    within = ((counts.ws2 - 2 * counts.wsy).sum() - between) / total
    return reliability, resolution, rate * (1 - rate), within


@given(table=tables(), bins=st.integers(1, 12))
def test_the_parts_of_the_brier_score_add_up_to_it(table: Table, bins: int):
    counts = counted(table)
    for edges in (equal_frequency_edges(counts, bins), equal_width_edges(bins), tuple(range(1, CELLS + 1))):
        reliability, resolution, uncertainty, within = brier_parts(counts, edges)
        assert reliability - resolution + uncertainty + within == pytest.approx(brier(counts), abs=1e-12)
        table_of_bins = bin_counts(counts, edges)
        same(point("brier_reliability", table_of_bins), reliability)
        same(point("brier_resolution", table_of_bins), resolution)
        same(point("brier_uncertainty", counts), uncertainty)
        assert resolution <= uncertainty + 1e-12
    assert within == pytest.approx(0, abs=1e-12)  # a bin a cell: scores are constant in each


@given(table=tables(), weight=st.sampled_from([1.0, 5.0, 0.2]))
def test_the_class_weighted_log_loss_is_scikit_learn_s_with_class_weights(table: Table, weight: float):
    s, y, w, _ = doubled(table)
    eps = calibration.EPSILON
    losses = -np.where(y == 1, np.log(s + eps), np.log(1 - s + eps))  # scikit-learn's epsilon is another one
    expected = np.average(losses, weights=w * np.where(y == 1, weight, 1.0))
    assert class_weighted_nll(counted(table), weight) == pytest.approx(expected, abs=1e-9)
    if s.min() > 0 and s.max() < 1:
        by_sklearn = sk.log_loss(y, s, sample_weight=w * np.where(y == 1, weight, 1.0), labels=[0, 1])
        assert class_weighted_nll(counted(table), weight) == pytest.approx(by_sklearn, abs=1e-9)


COSTS = st.builds(Costs, *(st.sampled_from([0.0, 1.0, 5.0, 2.5]) for _ in range(4)))


@given(table=tables(), costs=COSTS)
def test_costs_are_those_of_a_plain_loop_and_no_threshold_is_cheaper_than_the_cheapest(table: Table, costs: Costs):
    s, y, w, predicted = doubled(table)
    counts = counted(table)

    def of(decision: np.ndarray, p: np.ndarray) -> float:
        yes = p * costs.true_positive + (1 - p) * costs.false_positive
        no = p * costs.false_negative + (1 - p) * costs.true_negative
        return np.average(np.where(decision, yes, no), weights=w)

    assert cost_of("misclassification_cost", counts, costs) == pytest.approx(of(predicted, y), abs=1e-9)
    assert cost_of("expected_cost", counts, costs) == pytest.approx(of(predicted, s), abs=1e-9)
    found = cheapest_threshold(counts, costs)
    every = [of(s >= threshold, y) for threshold in (*np.unique(s), 1.1)]
    assert found.cost == pytest.approx(min(every), abs=1e-9)
    assert of(s >= found.threshold - 1e-9, y) == pytest.approx(found.cost, abs=1e-9)
    assert found.present_cost == pytest.approx(of(predicted, y), abs=1e-9)


@given(table=tables(), costs=COSTS)
def test_the_expected_misclassification_cost_is_the_mean_over_rows_of_scores_times_the_costs_of_their_truth(
    table: Table, costs: Costs
):
    score, outcome, weight, _ = table
    matrix = np.array([[costs.true_negative, costs.false_positive], [costs.false_negative, costs.true_positive]])
    probability, truth = np.column_stack([1 - score, score]), np.column_stack([1 - outcome, outcome])
    every = np.einsum("iy,yz,iz->i", truth, matrix, probability)
    found = cost_of("expected_misclassification_cost", counted(table), costs)
    assert found == pytest.approx(np.average(every, weights=weight), abs=1e-9)


@given(table=tables())
def test_the_expected_misclassification_cost_of_confidences_is_that_of_the_probabilities_they_stand_for(
    table: Table,
):
    score, outcome, weight, predicted = table
    # what was not predicted has the confidence in "not", and is right where the label is not true
    confidence, right = np.where(predicted, score, 1 - score), np.where(predicted, outcome, 1 - outcome)
    counts = counted((confidence, right, weight, predicted), score_is="confidence_in_prediction")
    name = "expected_misclassification_cost"
    assert point(name, counts) == pytest.approx(point(name, counted(table)), abs=1e-9)


@given(table=tables())
@settings(deadline=None, max_examples=50)
def test_the_area_under_risk_over_coverage_is_its_integral_and_that_of_the_oracle_is_the_least(table: Table):
    score, outcome, weight, predicted = table
    counts = counted(table)
    curve = risk_coverage(counts)
    assert (curve is None) == (not predicted.any())
    if curve is None:
        assert aurc(counts) is None
        return
    s, wrong, w = score[predicted], 1 - outcome[predicted], weight[predicted]
    levels = np.unique(s)[::-1]
    held, errors = (np.array([part[s >= level].sum() for level in levels]) for part in (w, w * wrong))
    np.testing.assert_allclose(curve.coverage, held / w.sum(), atol=1e-12)
    np.testing.assert_allclose(curve.risk, errors / held, atol=1e-12)
    # the oracle puts every wrong row last: at a coverage only what the right ones cannot fill is wrong
    np.testing.assert_allclose(curve.oracle, np.maximum(held - (w * (1 - wrong)).sum(), 0) / held, atol=1e-9)
    ends, made = np.concatenate(([0.0], held)), np.concatenate(([0.0], errors))
    area = sum(integrate.quad(lambda c: np.interp(c, ends, made) / c, a, b)[0] for a, b in pairwise(ends))
    assert aurc(counts) == pytest.approx(area / w.sum(), abs=1e-7)
    risk = errors[-1] / w.sum()
    oracle = integrate.quad(lambda c: max(c - (1 - risk), 0) / c, 0, 1, points=[1 - risk], limit=200)[0]
    assert curve.oracle_aurc == pytest.approx(oracle, abs=1e-7)
    assert e_aurc(counts) == pytest.approx(curve.aurc - oracle, abs=1e-6)
    assert (curve.risk >= curve.oracle - 1e-12).all()


@given(table=tables())
def test_the_automated_part_agrees_with_a_plain_loop_over_the_rows(table: Table):
    score, outcome, weight, predicted = table
    counts = counted(table, automate_at=0.7)
    acted = predicted & (score >= 0.7)
    w = weight[acted]
    accuracy = np.average(outcome[acted], weights=w) if acted.any() else None
    to_people = 1 - w.sum() / weight[predicted].sum() if predicted.any() else None
    more = (w * (1 - outcome[acted])).sum() - (w * (1 - score[acted])).sum() if acted.any() else None
    assert automated_accuracy(counts) == pytest.approx(accuracy, abs=1e-9)
    assert share_to_people(counts) == pytest.approx(to_people, abs=1e-9)
    assert excess_errors(counts) == pytest.approx(more, abs=1e-9)


@given(table=tables(), seed=st.integers(0, 99))
def test_many_draws_at_once_give_what_each_gives_alone(table: Table, seed: int):
    counts = counted(table, automate_at=0.7)
    bins = bin_counts(counts, equal_width_edges(5))
    for name, core in ON_GROUPS.items():
        groups = groups_of_bins(bins) if REGISTERED[name].needs == "bins" else groups_of(counts)
        rng = np.random.default_rng(seed)
        hit, miss = (rng.poisson(2.0, (4, len(groups.cell))).astype(float) for _ in range(2))
        together = core(groups.drawn(hit, miss))
        alone = [number(core(groups.drawn(one, other))) for one, other in zip(hit, miss, strict=True)]
        assert together.shape == (4,)
        for value, single in zip(together, alone, strict=True):
            same(number(value), single, within=1e-8)
        same(number(core(groups)), point(name, bins if REGISTERED[name].needs == "bins" else counts))
