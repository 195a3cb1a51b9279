"""A fall since the baseline: its p-value by other ways, the outcomes, and what is said of it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import Reason, Subject, Verdict
from monitor.core.wording import plain_words
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput
from monitor.evaluation.verdicts import decide
from monitor.inference.change import mover
from monitor.inference.levels import detectable_change, interval
from monitor.report.explanation import unconfirmed_words
from monitor.report.figures.trend import trend_data
from tests.fakes.changes import decrease_test, increase_test
from tests.fakes.judged import pinned, window

FALLING = ("roc_auc", "pr_auc", "accuracy")
WEEK = window()
EVALUATION = EvaluationConfig(resamples=100, min_samples=200)


def rule_of(metric: str, threshold: float = 0.03) -> Rule:
    return Rule(id="fall", metric=metric, condition="decrease", threshold=threshold)


def rows(rng: np.random.Generator, n: int, blur: float = 0.0) -> Counts:
    """Rows whose outcome is as likely as the score, of a share of them (``blur``) as likely as one half."""
    score = rng.beta(0.6, 0.9, n).round(4)
    truth = np.where(rng.random(n) < blur, 0.5, score)
    return counts_from_rows(score, (rng.random(n) < truth).astype(float))


@pytest.mark.parametrize("metric", FALLING)
def test_a_fall_of_the_detectable_size_is_seen_about_four_times_in_five(metric: str):
    rng, large = np.random.default_rng(22), np.random.default_rng(220)
    needed = detectable_change(metric, rows(rng, 800), rows(rng, 4000), 0.05, falls=True)
    blurs = np.linspace(0.0, 0.5, 6)
    values = [interval(metric, rows(large, 150_000, blur), 0.95).value for blur in blurs]
    blur = np.interp(-(values[0] - needed), [-value for value in values], blurs)
    tests = [decrease_test(metric, rows(rng, 800, blur), rows(rng, 4000), 0.95) for _ in range(150)]
    seen = sum(test.p_value <= 0.05 for test in tests)
    assert stats.binom.ppf(0.001, 150, 0.7) <= seen <= stats.binom.ppf(0.999, 150, 0.9)


@pytest.mark.parametrize("metric", FALLING)
def test_a_fall_is_a_rise_from_the_window_to_the_baseline(metric: str):
    rng = np.random.default_rng(24)
    window, baseline = rows(rng, 400, 0.1), rows(rng, 2000)
    fall, rise = decrease_test(metric, window, baseline, 0.95), increase_test(metric, baseline, window, 0.95)
    assert fall.p_value == rise.p_value
    assert fall.change == pytest.approx(-rise.change)
    assert (fall.low, fall.high) == mover(interval(metric, baseline, 0.95), interval(metric, window, 0.95))
    up = increase_test(metric, window, baseline, 0.95)
    assert fall.p_value + up.p_value >= 0.95  # two sides of one question, each on the safe side


def judged(metric: str, window: Counts, baseline: Counts | None, threshold: float = 0.03) -> Verdict:
    frozen = None if baseline is None else pinned(baseline)
    found = compare(
        rule_of(metric, threshold), RuleInput(Subject("tickets", "billing"), WEEK, (window,), frozen), EVALUATION
    )
    return decide(rule_of(metric, threshold), [found], rate=0.01, decision_rules=7, revision="r")[0]


@pytest.mark.parametrize("metric", FALLING)
def test_a_fall_that_matters_and_is_significant_is_a_breach(metric: str):
    rng = np.random.default_rng(25)
    found = judged(metric, rows(rng, 4000, 0.4), rows(rng, 20_000))
    assert (found.outcome, found.reason) == ("breach", Reason.DECREASED)
    assert found.change < -0.03
    assert found.change_high < 0


@pytest.mark.parametrize("metric", FALLING)
def test_a_rise_and_a_small_fall_are_ok(metric: str):
    rng = np.random.default_rng(26)
    blurred = rows(rng, 20_000, 0.3)
    assert judged(metric, rows(rng, 10_000), blurred).outcome == "ok"
    assert judged(metric, rows(rng, 10_000, 0.3), blurred).outcome == "ok"


def test_a_fall_in_few_rows_is_not_confirmed_and_in_hardly_any_not_evaluated():
    baseline = counts_from_rows([0.9] * 3000, [1] * 2700 + [0] * 300)
    unsure = judged("accuracy", counts_from_rows([0.9] * 700, [1] * 607 + [0] * 93), baseline)
    assert (unsure.outcome, unsure.reason) == ("unconfirmed", Reason.NOT_SIGNIFICANT_IN_FAMILY)
    assert unconfirmed_words(unsure) == "below the limit, not confirmed"
    few = judged("accuracy", counts_from_rows([0.9] * 40, [1] * 34 + [0] * 6), baseline)
    assert (few.outcome, few.reason) == ("not_evaluated", Reason.TOO_FEW_ROWS)
    assert judged("accuracy", counts_from_rows([0.9] * 700, [1] * 600 + [0] * 100), None).reason == Reason.NO_BASELINE


def test_a_breach_says_how_it_was_and_how_it_is():
    rng = np.random.default_rng(28)
    verdict = judged("accuracy", rows(rng, 4000, 0.4), rows(rng, 20_000))
    assert plain_words(verdict).startswith("billing is correct less often than before: accuracy ")
    assert "in the baseline" in plain_words(verdict)
    area = judged("roc_auc", rows(rng, 4000, 0.4), rows(rng, 20_000))
    assert plain_words(area).startswith("billing separates right from wrong worse than before: ROC AUC ")


def test_the_threshold_is_drawn_below_the_baseline():
    trend = trend_data("roc_auc", "all", [], [], windows=[WEEK], baseline=0.9, rules=[rule_of("roc_auc")])
    assert list(trend.limits.values()) == [pytest.approx(0.87)]
