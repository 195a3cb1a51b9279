"""Expected accuracy, overconfidence and ECE before the truth: plain sums, unbiased, and limits that hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.unresolved import NO_SCORES, score_counts
from monitor.inference.before_truth import (
    Either,
    accuracy_law,
    at_told_share,
    calibration_map,
    ece_laws,
    expectation,
    overconfidence_law,
    together,
)
from monitor.inference.gaps import analytic_points, stack
from monitor.inference.sampling import Proportion
from tests.fakes.points import point

Rng = np.random.Generator


def rows(rng: Rng, n: int, center: float = 1.0, design_effect: float = 1.0) -> Counts:
    """Overconfident scores about ``center``; chances depend on the score alone."""
    logit = rng.normal(center, 2.0, n)
    outcome = rng.random(n) < 1 / (1 + np.exp(0.2 - 0.8 * logit))
    return counts_from_rows(1 / (1 + np.exp(-logit)), outcome, automate_at=0.8, design_effect=design_effect)


def scores_of(counts: Counts) -> Counts:
    names = ("cell", "predicted", "automated", "n")
    return score_counts({**{name: getattr(counts, name) for name in names}, "s": counts.ws})


def test_expected_numbers_are_the_plain_sums_of_chances():
    baseline = counts_from_rows([0.2] * 100 + [0.9] * 100, [1] * 30 + [0] * 70 + [1] * 80 + [0] * 20)
    waiting = counts_from_rows([0.2] * 10 + [0.9] * 30, [0] * 40)
    low, high = 0.3, 0.8
    found = expectation(calibration_map(baseline), scores_of(waiting), (5_000, 10_000))
    accuracy, overconfidence = accuracy_law(found), overconfidence_law(found)
    (ece,) = ece_laws([found], [np.random.default_rng(1)])
    assert accuracy.value == pytest.approx((10 * (1 - low) + 30 * high) / 40)
    assert overconfidence.value == pytest.approx((10 * 0.2 + 30 * 0.9 - 10 * low - 30 * high) / 40)
    assert ece.plug_in == pytest.approx((10 * (low - 0.2) + 30 * (0.9 - high)) / 40)
    assert 0 <= ece.value <= ece.plug_in


def test_scores_that_move_within_a_bin_move_their_chances():
    baseline = counts_from_rows([0.6] * 20 + [0.7] * 20, [1] * 10 + [0] * 30)  # one bin of the map
    by = calibration_map(baseline)
    lower, higher = (
        accuracy_law(expectation(by, scores_of(counts_from_rows([s] * 9, [0] * 9)), (10_000,))) for s in (0.6, 0.7)
    )
    assert higher.value - lower.value == pytest.approx(0.1)


def test_where_scores_are_confidences_a_decision_is_right_as_often_as_they_come_true():
    baseline = counts_from_rows([0.3] * 100, [1] * 30 + [0] * 70, score_is="confidence_in_prediction")
    found = expectation(calibration_map(baseline), scores_of(baseline), (10_000,))
    assert accuracy_law(found).value == pytest.approx(0.3)  # type: ignore[union-attr]


def test_no_rows_have_no_expectation():
    by = calibration_map(rows(np.random.default_rng(1), 100))
    found = expectation(by, NO_SCORES, (10_000,))
    assert (accuracy_law(found), overconfidence_law(found)) == (None, None)
    assert ece_laws([found], [np.random.default_rng(1)]) == [None]


def test_a_baseline_without_decided_rows_trusts_the_scores_of_decided_ones_and_says_how_little_it_knows():
    baseline = counts_from_rows([0.2] * 100, [1] * 20 + [0] * 80)
    waiting = scores_of(counts_from_rows([0.9] * 50, [0] * 50))
    law = accuracy_law(expectation(calibration_map(baseline), waiting, (10_000,)))
    assert law.value == pytest.approx(0.9)
    low, high = law.interval(0.95)
    assert low < 0.2
    assert high == 1.0


def test_labels_together_have_the_chances_of_their_own_maps():
    often, seldom = (counts_from_rows([0.5] * 200, [1] * hits + [0] * (200 - hits)) for hits in (150, 50))
    waiting = {"often": counts_from_rows([0.5] * 30, [0] * 30), "seldom": counts_from_rows([0.5] * 10, [0] * 10)}
    parts = [
        expectation(calibration_map(baseline), scores_of(counts), (10_000,))
        for baseline, counts in zip((often, seldom), waiting.values(), strict=True)
    ]
    found = together(parts, 1.0)
    law = accuracy_law(found)
    assert law.value == pytest.approx((30 * 0.75 + 10 * 0.25) / 40)
    assert found.error_of_map == pytest.approx((30**2 * parts[0].error_of_map + 10**2 * parts[1].error_of_map) / 40**2)
    with pytest.raises(ValueError, match="nothing to put together"):
        together([], 1.0)


@pytest.mark.parametrize("rows_waiting", [1, 3, 10])
def test_limits_are_shares_that_so_few_rows_can_have(rows_waiting: int):
    rng = np.random.default_rng(2)
    by, waiting = calibration_map(rows(rng, 4_000)), scores_of(rows(rng, rows_waiting))
    law = accuracy_law(expectation(by, waiting, (10_000,)))
    for limit in law.interval(0.9):
        assert limit * rows_waiting == pytest.approx(round(limit * rows_waiting), abs=1e-9)


@pytest.mark.parametrize("baseline_rows", [1_500, 12_000])
@pytest.mark.parametrize("center", [1.0, 0.0], ids=["same scores", "other scores"])
def test_limits_hold_the_later_truth_and_there_is_no_bias(baseline_rows: int, center: float):
    rng = np.random.default_rng(baseline_rows)
    held = []
    errors = []
    for _ in range(150):
        by, later = calibration_map(rows(rng, baseline_rows)), rows(rng, 800, center)
        law = accuracy_law(expectation(by, scores_of(later), (10_000,)))
        truth = point("accuracy", later)
        low, high = law.interval(0.95)
        held.append(low <= truth <= high)
        errors.append(law.value - truth)
    assert np.mean(held) >= 0.90
    assert abs(np.mean(errors)) < 0.005


def test_limits_of_an_expected_ece_hold_the_debiased_one_that_is_measured_later():
    rng = np.random.default_rng(6)
    baselines, later = [rows(rng, 8_000) for _ in range(80)], [rows(rng, 1_000) for _ in range(80)]
    edges = [equal_frequency_edges(baseline, 15) for baseline in baselines]
    asked = [
        expectation(calibration_map(baseline), scores_of(counts), own)
        for baseline, counts, own in zip(baselines, later, edges, strict=True)
    ]
    laws = ece_laws(asked, [np.random.default_rng(seed) for seed in range(80)])
    truths = analytic_points(stack([bin_counts(counts, own) for counts, own in zip(later, edges, strict=True)]))
    limits = [law.interval(0.95) for law in laws if law is not None]
    assert np.mean([low <= truth <= high for (low, high), truth in zip(limits, truths, strict=True)]) >= 0.88


def two_scores(true: int, others: int) -> Counts:
    """Rows of which 7 of 8 true items have the score .8, and 3 of 4 others the score .3."""
    hits = [(0.8, 1, true * 7 // 8), (0.3, 1, true // 8), (0.8, 0, others // 4), (0.3, 0, others * 3 // 4)]
    score, truth, times = zip(*hits, strict=True)
    return counts_from_rows(np.repeat(score, times), np.repeat(truth, times), automate_at=0.8)


def test_if_the_label_became_more_frequent_the_chances_are_those_of_saerens():
    baseline = two_scores(100_000, 400_000)
    told = at_told_share(calibration_map(baseline), scores_of(two_scores(200_000, 300_000)))
    odds = (0.4 / 0.2) * (0.8 / 0.6)  # of a true item, from a share of .2 to one of .4
    then = np.array([12_500 / 312_500, 87_500 / 187_500])
    assert told.rate == pytest.approx(then * odds / (then * odds + 1 - then), abs=1e-3)
    assert told.gap == pytest.approx(told.rate - [0.3, 0.8], abs=1e-3)


@pytest.mark.parametrize("what", ["the same scores", "scores of neither", "labels that were given", "confidences"])
def test_another_share_of_true_items_is_no_explanation_of(what: str):
    baseline, waiting = two_scores(10_000, 40_000), two_scores(20_000, 30_000)
    if what == "the same scores":
        waiting = baseline
    if what == "scores of neither":
        waiting = counts_from_rows([0.8] * 5_000, [1] * 5_000)  # more than even true items alone have
    if what == "labels that were given":
        baseline, waiting = (replace(each, predicted=np.ones_like(each.predicted)) for each in (baseline, waiting))
    if what == "confidences":
        baseline = replace(baseline, score_is="confidence_in_prediction")
    assert at_told_share(calibration_map(baseline), scores_of(waiting)) is None


def of_share(rng: Rng, n: int, share: float) -> Counts:
    """Scores that lie about 1.6 on the logit scale for true items, and about -2 for others."""
    truth = rng.random(n) < share
    return counts_from_rows(1 / (1 + np.exp(-rng.normal(np.where(truth, 1.6, -2.0), 1.3))), truth, automate_at=0.8)


@pytest.mark.parametrize("world", ["twice as frequent", "half as frequent", "other items"])
def test_limits_hold_where_the_label_became_more_or_less_frequent_and_where_other_items_came(world: str):
    rng = np.random.default_rng(21)
    held = []
    for _ in range(120):
        if world == "other items":
            baseline, later = rows(rng, 12_000, -1.0), rows(rng, 1_500, -0.6)
        else:
            shares = (0.15, 0.3) if world == "twice as frequent" else (0.3, 0.15)
            baseline, later = of_share(rng, 12_000, shares[0]), of_share(rng, 1_500, shares[1])
        by = calibration_map(baseline)
        ways = [
            expectation(each, scores_of(later), (10_000,)) for each in (by, at_told_share(by, scores_of(later))) if each
        ]
        for name, law_of in (("accuracy", accuracy_law), ("overconfidence", overconfidence_law)):
            laws = tuple(law for law in map(law_of, ways) if law is not None)
            low, high = Either(laws).interval(0.95)
            truth = point(name, later)
            held.append(low - 1e-9 <= truth <= high + 1e-9)
    assert np.mean(held) >= 0.93


def test_where_nobody_knows_which_law_holds_nothing_is_surer_than_the_less_sure_one():
    one, other = Proportion(0.8, 400.0), Proportion(0.9, 100.0)
    both = Either((one, other))
    assert both.value == pytest.approx(0.85)
    assert both.interval(0.95) == (one.interval(0.95)[0], other.interval(0.95)[1])
    assert both.p_value(0.85, "below") == other.p_value(0.85, "below")
    assert both.detectable(0.85, "below", 0.01) == other.detectable(0.85, "below", 0.01)


def test_limits_are_wider_where_the_baseline_has_hardly_such_scores():
    baseline = counts_from_rows([0.1] * 9_000 + [0.6] * 100, [1] * 900 + [0] * 8_100 + [1] * 60 + [0] * 40)
    near, far = (
        expectation(calibration_map(baseline), scores_of(counts_from_rows([s] * 50, [0] * 50)), (10_000,))
        for s in (0.6, 0.9)
    )
    assert far.error_of_map - near.error_of_map == pytest.approx((0.5 * 0.3) ** 2)


@pytest.mark.parametrize("law_of", [accuracy_law, overconfidence_law])
def test_dependent_rows_and_a_small_baseline_make_limits_wider(law_of: Callable[..., object]):
    rng = np.random.default_rng(3)
    waiting = scores_of(rows(rng, 2_000))

    def width(n: int, effect: float) -> float:
        by = calibration_map(rows(np.random.default_rng(4), n, design_effect=effect))
        low, high = law_of(expectation(by, waiting, (10_000,))).interval(0.95)  # type: ignore[attr-defined]
        return float(high - low)

    assert width(20_000, 1.0) < width(1_000, 1.0)
    assert width(20_000, 1.0) < width(20_000, 4.0)
