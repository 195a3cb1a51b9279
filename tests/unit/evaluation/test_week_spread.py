"""How the weeks of a baseline differ enters every rule that compares with it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, counts_from_rows, pool
from monitor.core.records import Verdict
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import verdicts_of
from monitor.evaluation.week_spread import compared_by, correlations_for, spreads_of
from tests.fakes.judged import config, pinned, window

FALL = Rule(id="fall", metric="automated_accuracy", condition="decrease", threshold=0.03)
RISE = Rule(id="rise", metric="ece", condition="increase", threshold=0.02)
LARGEST = Rule(id="largest", metric="mce", condition="increase", threshold=0.05)
AREA = Rule(id="area", metric="roc_auc", condition="decrease", threshold=0.03)
OTHER = Rule(id="other", metric="brier", where="predicted", condition="increase", threshold=0.03)
FLOOR = Rule(id="floor", metric="accuracy", condition="below", threshold=0.7)
CONFIG = config(FALL, RISE, LARGEST, AREA, OTHER, FLOOR, evaluation=EvaluationConfig(interval="analytic"))


def week(rng: np.random.Generator, shift: float, n: int = 2_000) -> Counts:
    score = rng.choice(np.arange(0.05, 1, 0.1).round(2), n)
    rate = 1 / (1 + np.exp(-(np.log(score / (1 - score)) + shift)))
    return counts_from_rows(score, rng.random(n) < rate, automate_at=0.8)


def baseline(wobble: float, *, seed: int = 1) -> Baseline:
    rng = np.random.default_rng(seed)
    weeks = [week(rng, rng.normal(0, wobble)) for _ in range(8)]
    found = pinned(pool(weeks))
    return replace(found, weeks=spreads_of(weeks, found.edges, compared_by(CONFIG)))


def verdict(rule: Rule, base: Baseline) -> Verdict:
    now = week(np.random.default_rng(9), -0.5)
    labels = WindowCounts(window(), {"billing": now})
    (found,) = verdicts_of(rule, SourceData("tickets", labels, baselines={"billing": base}), CONFIG, ())
    return found


@pytest.mark.parametrize("rule", [FALL, RISE, LARGEST, OTHER], ids=lambda rule: str(rule.id))
def test_a_change_counts_less_where_weeks_differ(rule: Rule):
    base = baseline(0.5)
    plain, found = verdict(rule, replace(base, weeks={})), verdict(rule, base)
    assert found.detail["week_effect"] > 1
    assert found.detail["baseline_weeks"] == 8
    assert "week_effect" not in plain.detail
    assert found.p_value > plain.p_value
    assert found.detectable > plain.detectable
    for name in ("value", "low", "high", "change", "change_low", "change_high"):
        assert getattr(found, name) == getattr(plain, name)


def test_a_level_is_of_this_week_whatever_weeks_do():
    base = baseline(0.5)
    assert verdict(FLOOR, base) == verdict(FLOOR, replace(base, weeks={}))


def test_a_ranking_does_not_differ_where_only_calibration_does():
    known = correlations_for(AREA, {"billing": baseline(0.3), "sales": baseline(0.3, seed=2)})
    assert max(each.correlation for each in known.values()) * 2_000 < 1


def test_the_source_as_a_whole_borrows_nothing_from_its_labels():
    base = baseline(0.5)
    alone = correlations_for(RISE, {"billing": base})
    both = correlations_for(RISE, {"billing": base, None: baseline(0.0, seed=4)})
    assert both["billing"] == alone["billing"]
    assert both[None].correlation < both["billing"].correlation


def test_what_rules_compare_is_kept_whatever_they_are_about():
    assert set(compared_by(CONFIG)) >= {("brier", "predicted"), ("roc_auc", "all"), ("mce", "automated")}
    rng = np.random.default_rng(3)
    few = [week(rng, 0) for _ in range(2)]
    assert spreads_of(few, edges_of(pool(few), CONFIG.evaluation), compared_by(CONFIG)) == {}


@pytest.mark.parametrize("metric", ["ace", "equal_width_ece"])
def test_an_ece_in_bins_of_its_own_has_no_spread_of_its_own(metric: str):
    own = Rule(id="own", metric=metric, condition="increase", threshold=0.02)
    weeks = [week(np.random.default_rng(seed), 0.0) for seed in range(4)]
    edges = edges_of(pool(weeks), CONFIG.evaluation)
    found = [
        spreads_of(weeks, edges, compared_by(CONFIG.model_copy(update={"rules": rules}))) for rules in ((), (own,))
    ]
    assert found[0] == found[1]
