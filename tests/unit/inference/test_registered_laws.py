"""The laws of metrics without a closed form: their spread, their costs, and what a run computes of them."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from monitor.config.load import parse_config
from monitor.config.model import Config, CostConfig, LabelConfig, Rule, SourceConfig
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Subject
from monitor.core.windows import week
from monitor.evaluation.comparisons import compare
from monitor.evaluation.data import RuleInput, SourceData, WholeSource, WindowCounts
from monitor.evaluation.evaluate import estimates_of, evaluate
from monitor.evaluation.row_comparisons import comparisons_of
from monitor.inference.levels import interval
from monitor.metrics import cost
from monitor.metrics.calibration import equal_width_ece
from monitor.metrics.definition import MetricSpec
from monitor.metrics.groups import on_counts
from monitor.metrics.registry import CONTRACT, GIVES, METRICS, WHOLE, range_of
from tests.fakes.changes import increase_test
from tests.fakes.judged import pinned
from tests.fakes.one_table import level_detectable, level_p
from tests.fakes.points import point

WEEK = week("2026-W46", ZoneInfo("UTC"))
# of items, which counts of rows do not hold, the laws are those of rows: tests/unit/metrics
OF_LABELS = [metric.name for metric in METRICS.values() if metric.needs in GIVES["multilabel"] - WHOLE]
OF_COUNTS = [name for name in OF_LABELS if name not in CONTRACT]
DRAWN = [name for name in OF_COUNTS if name not in ("ace", "equal_width_ece")]


def sample(rng: np.random.Generator, n: int = 1500, tilt: float = 1.2, flipped: float = 0.0) -> Counts:
    """Rows of a classifier whose hit rate is score ** tilt, with a share of outcomes flipped."""
    score = rng.beta(1.2, 1.8, n)
    outcome = (rng.random(n) < score**tilt) ^ (rng.random(n) < flipped)
    return counts_from_rows(score, outcome.astype(float), automate_at=0.7)


def config(**source: object) -> Config:
    text = (
        "version: 1\nsources: {t: {relation: t, score_is: probability_of_label}}\n"
        "rules: [{id: a, metric: ece, threshold: 0.2}]\nautomation: {when_not_evaluated: keep}\n"
    )
    plain = parse_config(text)
    return plain.model_copy(update={"sources": {"t": plain.sources["t"].model_copy(update=source)}})


EVALUATION = config().evaluation


@pytest.fixture(scope="module")
def drawn_again() -> tuple[Counts, list[Counts]]:
    rng = np.random.default_rng(4)
    return sample(rng), [sample(rng) for _ in range(250)]


@pytest.mark.parametrize("name", DRAWN)
def test_beside_the_value_is_the_textbook_one_which_only_the_parts_of_the_brier_score_differ_from(
    name: str, drawn_again: tuple[Counts, list[Counts]]
):
    counts = drawn_again[0]
    found = interval(name, counts, 0.95)
    own = bin_counts(counts, equal_frequency_edges(counts, 15)) if METRICS[name].needs == "bins" else counts
    assert found.plug_in == pytest.approx(point(name, own), abs=1e-12)
    debiased = name in ("brier_reliability", "brier_resolution")
    assert found.value < found.plug_in if debiased else found.value == pytest.approx(found.plug_in, abs=1e-12)


@pytest.mark.parametrize("name", DRAWN)
def test_the_width_of_an_interval_is_what_samples_vary_by(name: str, drawn_again: tuple[Counts, list[Counts]]):
    if METRICS[name].needs == "bins":
        values = [interval(name, counts, 0.95).value for counts in drawn_again[1]]
    else:
        values = [point(name, counts) for counts in drawn_again[1]]
    spread = np.std(np.array(values, dtype=float))
    widths = [i.high - i.low for i in (interval(name, c, 0.95) for c in drawn_again[1][:20])]
    # the sd of 250 values is known to 4.5%; two proportions are conservative by construction
    conservative = name in ("automated_accuracy", "share_to_people", "brier_reliability")
    assert 0.85 < np.mean(widths) / 3.92 / spread < (1.6 if conservative else 1.2)


@pytest.mark.parametrize("name", [name for name in DRAWN if METRICS[name].needs == "counts"])
def test_the_value_is_that_of_the_metric_itself(name: str):
    counts = sample(np.random.default_rng(1))
    assert interval(name, counts, 0.95).value == pytest.approx(point(name, counts), abs=1e-9)


def test_the_reliability_of_calibrated_scores_is_debiased():
    rng = np.random.default_rng(8)
    found = [interval("brier_reliability", sample(rng, n=400, tilt=1.0), 0.95).value for _ in range(60)]
    plug_in = [counts for counts in found if counts is not None]
    assert len(plug_in) == 60
    assert np.median(plug_in) < 0.002  # the textbook value is about .006 at 400 rows


@pytest.mark.parametrize("name", DRAWN)
def test_rows_that_count_for_less_make_every_interval_wider(name: str):
    counts = sample(np.random.default_rng(3))
    fewer = replace(counts, design_effect=9.0, acting_effects=(9.0, 9.0))
    one, three = ((i.high - i.low) for i in (interval(name, c, 0.95) for c in (counts, fewer)))
    assert three > (1.5 if name == "brier_reliability" else 2) * one


@pytest.mark.parametrize("name", DRAWN)
def test_a_change_is_seen_and_no_change_is_not(name: str):
    rng = np.random.default_rng(6)
    before_, same, worse = sample(rng, 8000), sample(rng, 8000), sample(rng, 8000, flipped=0.4)
    unchanged = increase_test(name, same, before_, 0.95)
    changed = increase_test(name, worse, before_, 0.95)
    assert 0.001 < unchanged.p_value < 0.999
    assert changed.p_value is not None
    if name not in ("share_to_people", "expected_cost"):  # decisions and promises are of scores, which are as before
        assert min(changed.p_value, 1 - changed.p_value) < 1e-4


@pytest.mark.parametrize("name", DRAWN)
def test_the_same_counts_give_the_same_numbers(name: str):
    one, two = (sample(np.random.default_rng(9)) for _ in range(2))
    assert interval(name, one, 0.95) == interval(name, two, 0.95)
    threshold = interval(name, one, 0.95).value * 0.9
    assert level_p(name, one, threshold, "above") == level_p(name, two, threshold, "above")
    distance = level_detectable(name, one, threshold, "above", 0.01)
    assert distance is None or distance > 0


def test_without_a_row_that_defines_it_there_is_no_law():
    none_predicted = counts_from_rows([0.1, 0.2], [0, 1])
    assert interval("precision", none_predicted, 0.95).value is None
    assert interval("automated_accuracy", none_predicted, 0.95).value is None
    assert interval("cohens_d", counts_from_rows([0.1, 0.2], [1, 1]), 0.95).value is None


def test_of_very_many_labels_only_what_rules_name_is_computed_beside_the_contract(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("monitor.evaluation.evaluate.EVERYTHING_UP_TO", 9)
    one = sample(np.random.default_rng(5), 30)
    labels = dict.fromkeys((*(f"l{i}" for i in range(10)), None), one)
    rule = Rule(id="b", metric="f1", threshold=0.1, condition="below")
    settings = config()
    settings = settings.model_copy(update={"rules": (*settings.rules, rule)})
    found = estimates_of(SourceData("t", WindowCounts(WEEK, labels)), settings)
    assert {e.metric for e in found if e.subject.label == "l7"} == {*CONTRACT, "f1"}
    assert {e.metric for e in found if e.subject.label is None} == set(OF_LABELS)


def test_a_metric_of_cost_takes_the_costs_of_its_label_then_of_its_source():
    source = SourceConfig(
        relation="t", score_is="probability_of_label", costs=CostConfig(false_negative=3.0),
        labels={"a": LabelConfig(costs=CostConfig(false_negative=20.0)), "b": LabelConfig(critical=True)},
    )  # fmt: skip
    assert [source.costs_of(label) for label in ("a", "b", "c", None)] == [
        CostConfig(false_negative=each) for each in (20.0, 3.0, 3.0, 3.0)
    ]
    counts = sample(np.random.default_rng(7))
    own = MetricSpec("misclassification_cost", (20.0, 1.0))
    expected = on_counts(cost.cost_core(cost.Costs(false_negative=20.0)), counts)
    assert interval(own, counts, 0.95).value == pytest.approx(expected)


@pytest.mark.parametrize("configured", ["equal_frequency", "equal_width"])
def test_an_ece_of_its_own_binning_is_compared_with_the_baseline_in_those_bins(configured: str):
    rng = np.random.default_rng(10)
    evaluation = config().evaluation.model_copy(update={"binning": configured, "resamples": 200})
    now, then = sample(rng, 3000, flipped=0.3), sample(rng, 12_000)
    material = RuleInput(Subject("t", "a"), WEEK, (now,), pinned(then, "a", evaluation=evaluation))
    rule = Rule(id="a", metric="equal_width_ece", condition="increase", threshold=0.02)
    found = comparisons_of(rule, [material], WholeSource(), config().sources["t"], evaluation)
    assert found[0].plug_in == pytest.approx(equal_width_ece(now))
    assert found[0].p_value < 1e-6
    ordinary = compare(rule.model_copy(update={"metric": "ece"}), material, evaluation)
    assert (ordinary.plug_in == pytest.approx(found[0].plug_in)) == (configured == "equal_width")


def test_a_total_is_of_one_window_however_few_rows_it_has():
    rng = np.random.default_rng(14)
    weeks = tuple(sample(rng, 400, flipped=0.2) for _ in range(4))
    rule = Rule(id="a", metric="excess_errors", threshold=0.5, min_samples=50_000)
    found = comparisons_of(
        rule, [RuleInput(Subject("t", "a"), WEEK, weeks)], WholeSource(), config().sources["t"], EVALUATION
    )
    assert (found[0].windows, found[0].n) == (1, 400)
    assert found[0].value == pytest.approx(point("excess_errors", weeks[0]))


def test_the_revision_of_a_file_is_of_all_its_settings():
    assert config().revision != config(costs=CostConfig()).revision
    assert config().revision != config(kind="top_k").revision


def test_every_drawn_metric_says_its_range_and_keeps_to_it():
    counts = sample(np.random.default_rng(12), n=60)
    for name in DRAWN:
        low, high = range_of(name)
        found = interval(name, counts, 0.999)
        assert found.value is None or low <= found.low <= found.value <= found.high <= high


def test_a_source_is_judged_by_those_rules_only_whose_metric_it_can_give():
    settings = config(kind="regression")
    judged = evaluate(SourceData("t", WindowCounts(WEEK)), settings)
    assert judged.verdicts == ()
