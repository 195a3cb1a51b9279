"""The threshold that meets a target accuracy, and the errors beyond what was promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from monitor.core.counts import Counts, counts_from_rows
from monitor.inference.selective import STARTS, lowest_safe, threshold_for
from monitor.metrics.selective import looked_at, risk_coverage


def rows(rng: np.random.Generator, n: int, power: float = 1.0, **more: object) -> Counts:
    """Predicted rows whose scores are uniform above .5; the accuracy at a score s is s ** power."""
    score = rng.uniform(0.5, 1.0, n).round(3)
    return counts_from_rows(score, rng.random(n) < score**power, **more)  # type: ignore[arg-type]


def true_accuracy(threshold: float, power: float) -> float:
    score = np.arange(round(threshold * 1000), 1001) / 1000
    return (score**power).mean()


@pytest.mark.parametrize(("power", "target"), [(1.0, 0.9), (0.5, 0.9), (3.0, 0.8), (0.2, 0.95)])
def test_the_chosen_threshold_misses_its_target_as_seldom_as_promised(power: float, target: float):
    rng = np.random.default_rng(int(power * 100))
    missed = found = outside = 0
    for _ in range(300):
        point = threshold_for(rows(rng, 2000, power), target)
        if point.threshold is not None:
            truth, share = true_accuracy(point.threshold, power), (1 - point.threshold) / 0.5
            found += 1
            missed += truth < target
            outside += not point.accuracy_low <= truth <= point.accuracy_high
            outside += not point.coverage_low - 0.001 <= share <= point.coverage_high + 0.001
    assert found > 150  # most samples of this size can show it
    assert missed <= binom.ppf(0.999, 300, 0.025)
    assert outside <= binom.ppf(0.999, 600, 0.05)


def test_the_naive_threshold_on_the_same_rows_would_miss_the_target_about_half_the_time():
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(100):
        curve = risk_coverage(rows(rng, 500))
        meets = np.flatnonzero(1 - curve.risk >= 0.9)
        missed += true_accuracy(float(curve.threshold[meets[-1]]), 1.0) < 0.9
    assert missed > 30


def test_a_threshold_never_passes_without_its_own_exact_limit_above_the_target():
    rng = np.random.default_rng(4)
    counts = rows(rng, 3000, 0.5)
    point = threshold_for(counts, 0.9)
    assert point.rows == int(counts.n[counts.cell >= round(point.threshold * 10_000)].sum())
    exact = binomtest(round(point.accuracy * point.rows), point.rows, 0.9, alternative="greater").pvalue
    assert exact <= 0.025 / STARTS


def test_why_no_threshold_is_named():
    assert threshold_for(counts_from_rows([], []), 0.9).reason == "no_rows"
    assert threshold_for(counts_from_rows([0.9] * 40, [1] * 40), 0.9).reason == "too_few_rows"
    assert threshold_for(counts_from_rows([0.9] * 400, [1, 0] * 200), 0.9).reason == "not_shown"
    found = threshold_for(counts_from_rows([0.9] * 400, [1] * 400), 0.9)
    assert (found.reason, found.threshold, found.coverage, found.accuracy) == ("met", 0.9, 1.0, 1.0)


def test_dependent_and_unequal_rows_count_for_fewer():
    score, right = [0.9] * 200, [1] * 196 + [0] * 4
    assert threshold_for(counts_from_rows(score, right), 0.9).reason == "met"
    assert threshold_for(counts_from_rows(score, right, design_effect=10.0), 0.9).reason == "too_few_rows"
    uneven = counts_from_rows(score, right, weight=[50.0] * 4 + [1.0] * 192 + [1.0] * 4)
    assert threshold_for(uneven, 0.9).reason == "too_few_rows"


@pytest.mark.parametrize("target", [0.0, 1.0, 95.0])
def test_an_impossible_target_is_refused_with_what_to_write(target: float):
    with pytest.raises(ValueError, match=r"0\.95 is right in 95 of 100"):
        threshold_for(counts_from_rows([], []), target)


def test_rows_without_the_label_are_not_looked_at_unless_the_score_is_confidence_in_the_prediction():
    score, outcome, predicted = [0.9, 0.8, 0.1, 0.2], [1, 0, 0, 1], [True, True, False, False]
    assert looked_at(counts_from_rows(score, outcome, predicted=predicted)).rows == 2
    confident = counts_from_rows(score, outcome, predicted=predicted, score_is="confidence_in_prediction")
    assert looked_at(confident).rows == 4


def test_a_perfect_order_is_the_oracle_s_and_a_blind_one_has_the_risk_of_all_rows():
    perfect = risk_coverage(counts_from_rows([0.9] * 8 + [0.6] * 2, [1] * 8 + [0] * 2))
    assert perfect.aurc == pytest.approx(perfect.oracle_aurc, abs=1e-12)
    assert perfect.risk.tolist() == pytest.approx(perfect.oracle.tolist())
    blind = risk_coverage(counts_from_rows([0.9] * 10, [1] * 8 + [0] * 2))
    assert blind.aurc == pytest.approx(0.2)


def test_a_point_names_its_target_also_where_there_is_no_row():
    empty = counts_from_rows(np.array([]), np.array([]))
    assert (threshold_for(empty, 0.9).target, threshold_for(empty, 0.9).reason) == (0.9, "no_rows")
    assert lowest_safe(empty, floor=None, margin=0.05).threshold is None


@pytest.mark.parametrize("margin", [0.0, 0.05])
def test_the_promise_holds_from_the_safe_score_on_as_often_as_promised(margin: float):
    rng = np.random.default_rng(8)
    score = np.arange(500, 1001) / 1000
    worth = np.where(score < 0.8, score - 0.2, score - 0.01)
    missed = found = 0
    for _ in range(300):
        drawn = rng.integers(len(score), size=1500)
        counts = counts_from_rows(score[drawn], rng.random(1500) < worth[drawn])
        point = lowest_safe(counts, floor=None, margin=margin, rate=0.05)
        if point.threshold is not None:
            found += 1
            from_there = score >= point.threshold
            missed += (score - worth)[from_there].mean() > margin
    # without a margin none keeps its promise: every score is .01 too high
    assert found >= 180 if margin else found <= 15, found
    assert missed <= 0.05 * 300


def test_an_owners_floor_is_tested_instead_of_the_scores():
    score = np.repeat([0.9, 0.6], 600)
    right = np.concatenate([np.arange(600) >= 30, np.arange(600) >= 90])  # 95% and 85%, so 90% together
    counts = counts_from_rows(score, right)
    found = [lowest_safe(counts, floor=floor, margin=0.05).threshold for floor in (0.85, 0.92, 0.96)]
    assert found == [0.6, 0.9, None]
    assert [binomtest(hits, n, p, alternative="greater").pvalue < 0.05 / STARTS for hits, n, p in (
        (1080, 1200, 0.85), (570, 600, 0.92), (570, 600, 0.96),
    )] == [True, True, False]  # fmt: skip
