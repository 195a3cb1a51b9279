"""What rules can show at a volume is what a verdict on as many rows says that it could have shown."""

from __future__ import annotations

from datetime import timedelta

import numpy as np
import pytest

from monitor.config.model import BaselineConfig, EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Subject, Window
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput
from monitor.evaluation.visible_changes import LADDER, Typical, Visible, scaled, visible_changes
from monitor.operations.describe_changes import legend_of, lines_of
from tests.fakes.judged import config, pinned, window

WEEK = window()
LEVEL = Rule(id="level", metric="ece", condition="above", threshold=0.05)
RISE = Rule(id="rise", metric="ece", condition="increase", threshold=0.02)
SHORT = Rule(id="short", metric="overconfidence", where="automated", condition="above", threshold=0.05, min_samples=30)


def rows(n: int, seed: int = 1) -> Counts:
    rng = np.random.default_rng(seed)
    score = rng.beta(8, 2, n)
    return counts_from_rows(score, rng.random(n) < score, automate_at=0.8)


def typical(weeks: int, **labels: Counts) -> Typical:
    span = Window(WEEK.end - timedelta(weeks=weeks), WEEK.end, "span", "weekly")
    return Typical(span, weeks, {**labels, None: pool(labels.values())})


def one(found: list[Visible], label: str | None = "a") -> Visible:
    return next(each for each in found if each.subject.label == label)


@pytest.mark.parametrize("rule", [LEVEL, SHORT])
def test_a_level_is_seen_as_well_as_a_verdict_on_these_rows_says(rule: Rule):
    week, settings = rows(800), config(rule)
    found = one(visible_changes("tickets", settings, typical(1, a=week)))
    said = compare(rule, RuleInput(Subject("tickets", "a"), WEEK, (week,)), settings.evaluation)
    assert (found.windows, found.lacks) == (1, "")
    assert found.detectable == pytest.approx(said.detectable)


def test_the_rows_to_see_five_points_are_those_in_which_a_verdict_sees_them():
    rule, week = SHORT.model_copy(update={"where": "all"}), rows(800)
    found = one(visible_changes("tickets", config(rule), typical(1, a=week), see=0.05))

    def seen_in(weeks: int) -> float:
        said = compare(rule, RuleInput(Subject("tickets", "a"), WEEK, (scaled(week, weeks),)), config(rule).evaluation)
        return said.detectable

    assert seen_in(found.windows) == pytest.approx(found.detectable)
    assert found.detectable <= 0.05
    assert seen_in(max(each for each in LADDER if each < found.windows)) > 0.05


def test_overconfidence_beyond_the_threshold_cannot_occur_where_the_mean_score_is_lower():
    rule = SHORT.model_copy(update={"where": "all"})
    low = counts_from_rows([0.02] * 400, [0] * 392 + [1] * 8)  # overconfident by .02 at most
    found = visible_changes("tickets", config(rule), typical(1, low=low, a=rows(400)))
    cells = {line[0]: line[-1] for line in lines_of(found, typical(1, low=low, a=rows(400)), config(rule))[1]}
    assert cells["low"] == "cannot occur"
    assert cells["a"].startswith(">0.")
    said = compare(rule, RuleInput(Subject("tickets", "low"), WEEK, (low,)), config(rule).evaluation)
    assert (one(found, "low").out_of_reach, one(found, "a").out_of_reach) == (True, False)
    assert said.detectable == 0


def test_a_threshold_that_every_truth_is_beyond_is_not_said_to_be_out_of_reach():
    under = SHORT.model_copy(update={"where": "all", "condition": "below", "threshold": 0.5})
    low = counts_from_rows([0.02] * 400, [0] * 392 + [1] * 8)
    assert not one(visible_changes("tickets", config(under), typical(1, low=low)), "low").out_of_reach


def test_the_legend_explains_what_cannot_occur_where_it_is_said():
    assert "cannot occur" not in legend_of([["a", "400", ">0.093 1w"]])
    assert legend_of([["a", "400", "cannot occur"]]).endswith("no truth is beyond the threshold")


def test_an_increase_is_seen_as_well_as_a_verdict_against_such_a_baseline_says():
    eight, settings = [rows(4_000, seed) for seed in range(8)], config(RISE)
    found = one(visible_changes("tickets", settings, typical(8, a=pool(eight))))
    given = RuleInput(Subject("tickets", "a"), WEEK, (rows(4_000, 99),), pinned(pool(eight), "a"))
    said = compare(RISE, given, settings.evaluation)
    assert found.windows == said.windows
    assert found.detectable == pytest.approx(said.detectable, rel=0.15)


def test_fewer_rows_need_more_weeks_and_too_few_are_never_enough():
    labels = {"a": rows(8 * 600), "b": rows(8 * 200), "c": rows(8 * 40), "d": rows(8)}
    found = visible_changes("tickets", config(LEVEL), typical(8, **labels))
    assert [each.windows for each in found] == [1, 3, 13, None]
    assert [each.rows for each in found] == [600, 200, 40, 1]
    assert [each.within(EvaluationConfig()) for each in found] == [True, True, False, False]
    assert [each.within(EvaluationConfig(pool_weeks=13)) for each in found] == [True, True, True, False]
    assert found[3].lacks == "rows"


def test_without_rows_enough_for_a_baseline_an_increase_is_not_seen():
    few, enough = (
        one(visible_changes("tickets", config(RISE, baseline=BaselineConfig(min_pairs=n)), typical(8, a=rows(8_000))))
        for n in (10_000, 8_000)
    )
    assert (few.windows, few.lacks, enough.lacks) == (None, "baseline", "")


def test_rules_are_about_labels_or_all_of_them_together_and_days_are_days():
    whole = LEVEL.model_copy(update={"id": "whole", "scope": "source"})
    daily = LEVEL.model_copy(update={"id": "daily", "schedule": "daily", "for_windows": 2})
    unknown = [
        Rule(id="shift", test="ks", threshold=0.1),
        LEVEL.model_copy(update={"id": "plain", "certainty": "none"}),
        LEVEL.model_copy(update={"id": "long", "metric": "overconfidence", "condition": "accumulated"}),
    ]
    found = visible_changes("tickets", config(whole, daily, *unknown), typical(8, a=rows(8 * 700)))
    assert [(each.rule.id, each.subject.label, each.rows, each.windows) for each in found] == [
        ("whole", None, 700, 1),
        ("daily", "a", 100, 6),
    ]
