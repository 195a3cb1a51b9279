"""What the study is made of: populations with the truth they say, and short cuts that change nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from benchmarks.populations import (
    LABELS,
    PHISHING,
    POPULATIONS,
    SIX_PERCENT,
    WALLS,
    Population,
    endless,
    endless_edges,
    less_precise,
    raised,
    true_ece,
    true_gaps,
    true_mce,
    with_ece,
)
from benchmarks.quiet import weekly_rules
from benchmarks.sampling import Clustered, Thinned, Weighted
from benchmarks.weeks import drawn, judged, opened, setting, shipped
from monitor.config.model import SourceConfig
from monitor.core.counts import CELLS, bin_counts, counts_from_rows, pool
from monitor.core.windows import week
from monitor.evaluation.evaluate import evaluate
from tests.fakes.alerts_world import Judged, verdict_of

WEEKLY = weekly_rules(shipped())


@pytest.mark.parametrize("population", [*POPULATIONS[::2], *WALLS[::2]], ids=lambda each: each.name)
def test_the_truth_of_bins_is_what_very_many_rows_come_to(population: Population) -> None:
    cells, outcomes = population.rows(np.random.default_rng(3), 1_000_000)
    upper = endless_edges(population, 12)
    index = np.digitize(cells, upper, right=True)
    n = np.bincount(index, minlength=len(upper))
    gap = np.bincount(index, weights=outcomes - cells / CELLS, minlength=len(upper)) / n
    assert true_gaps(population, upper)[1] == pytest.approx(gap, abs=0.012)
    assert true_ece(population, upper) == pytest.approx(float((n * np.abs(gap)).sum() / n.sum()), abs=0.003)
    assert true_mce(population, upper) == pytest.approx(float(np.abs(gap).max()), abs=0.012)


def test_a_calibrated_population_has_no_error_in_any_bins() -> None:
    for population in (POPULATIONS[0], PHISHING, SIX_PERCENT):
        assert true_ece(population, (123, 4567, 10_000)) == pytest.approx(0, abs=1e-12)


def test_rows_drawn_for_the_study_are_counted_as_the_warehouse_counts_them() -> None:
    for population in (POPULATIONS[0], PHISHING):
        cells, outcomes = population.rows(np.random.default_rng(4), 3000)
        drawn_counts = population.draw(np.random.default_rng(4), 3000)
        plain = counts_from_rows(cells / CELLS, outcomes, automate_at=population.automate_at)
        assert drawn_counts.digest() == plain.digest()
        assert (drawn_counts.cell == plain.cell).all()


def test_the_twenty_labels_are_those_of_which_the_docs_speak() -> None:
    assert len({label.name for label in LABELS}) == len(LABELS) == 20
    assert [label.name for label in LABELS if shipped().sources["mail"].is_critical(label.name)] == [PHISHING.name]
    assert shipped().sources["mail"].automate_from(PHISHING.name) == PHISHING.automate_at
    made = endless(PHISHING)
    assert made.worth[made.cell < CELLS // 2].sum() / made.worth.sum() < 0.02  # what missed-phishing allows
    rare, fallen = endless(SIX_PERCENT), endless(less_precise(SIX_PERCENT, 0.59, 0.8))
    high = rare.cell > 0.8 * CELLS
    assert float(rare.worth.mean()) == pytest.approx(0.06, abs=0.005)
    assert float(rare.worth[high].mean()) == pytest.approx(0.89, abs=0.01)
    assert float(fallen.worth[high].mean()) == pytest.approx(0.59, abs=0.01)
    for label in LABELS:
        automated = endless(label).cell >= label.automate_at * CELLS
        gap = endless(label).cell[automated] / CELLS - endless(label).worth[automated]
        assert float(gap.mean()) < 0.05, label.name  # nothing that a rule should ring about
        assert true_mce(label, endless_edges(label)) < 0.2


def test_a_planted_error_is_as_large_as_it_says() -> None:
    for label in LABELS:
        edges = endless_edges(label)
        before = true_ece(label, edges)
        assert true_ece(raised(label, 0.05), edges) == pytest.approx(before + 0.05, abs=0.002)
        assert true_ece(with_ece(label, 0.16), edges) == pytest.approx(0.16, abs=0.002)


# --- ways of sampling


def test_clusters_have_the_design_effect_of_the_warehouse(load: Callable[..., dict[str, Any]]) -> None:
    way, population = Clustered(0.3, known=True), POPULATIONS[3]
    counts = way.draw(population, np.random.default_rng(6), 400)
    score, outcome, key = way.rows(population, np.random.default_rng(6), 400)
    rows = [
        {
            "item": f"i{index}", "label": "billing", "score": float(s), "actual": float(y), "cluster": f"c{k}",
            "resolved_at": "2026-11-10 12:00:00+00", "predicted_at": "2026-11-10 11:00:00+00",
        }
        for index, (s, y, k) in enumerate(zip(score, outcome, key, strict=True))
    ]  # fmt: skip
    source = SourceConfig(relation="resolved_tickets", score_is="probability_of_label")
    window = week("2026-W46", shipped().zone)
    read = load(rows, engines=("duckdb",))["duckdb"].read("tickets", source, window, now=window.end)
    assert counts.design_effect > 1.5
    assert read.labels["billing"].design_effect == pytest.approx(counts.design_effect, rel=1e-9)
    assert (read.labels["billing"].n == counts.n).all()
    assert Clustered(0.3, known=False).draw(population, np.random.default_rng(6), 400).design_effect == 1


def test_weights_do_not_change_what_is_true() -> None:
    population = POPULATIONS[3]
    for way in (Weighted(0.8), Thinned(5)):
        counts = way.draw(population, np.random.default_rng(7), 400_000)
        bins = bin_counts(counts, endless_edges(population))
        seen = float(np.abs(bins.ws - bins.wy).sum() / bins.w.sum())
        assert seen == pytest.approx(true_ece(population, bins.upper), abs=0.006)
        assert counts.effective_rows < 0.85 * counts.rows


# --- weeks and days


def test_a_week_is_judged_as_a_run_judges_it() -> None:
    rng = np.random.default_rng(8)
    year = setting(LABELS, 600, 3, rng)
    rows = drawn([raised(label, 0.08) if label.name == "label 10" else label for label in LABELS], 3, 600, rng)
    run = {(v.rule, v.subject.label): v for v in evaluate(year.data(rows, 2), year.config).verdicts}
    study = judged(year.data(rows, 2), year.config, WEEKLY)
    found = {(v.rule, v.subject.label): v for v in study}
    same = ("outcome", "p_value", "p_adjusted", "detectable", "n", "windows", "severity", "actions")
    for key, verdict in found.items():
        assert [getattr(verdict, name) for name in same] == [getattr(run[key], name) for name in same]
        # a family without a breach may keep the other form's interval, which says nothing about the outcome
        assert verdict == run[key] or verdict.metric == "ece"
    assert found.keys() == {key for key in run if key[0] != "score-shift"}  # which sends nothing
    assert found["ece-increase", "label 10"] == run["ece-increase", "label 10"]
    assert found["ece-increase", "label 10"].outcome == "breach"
    assert len(study) == 11 * 20 + 1  # eleven rules on all labels, one on phishing
    assert any(v.outcome == "breach" for v in study)


def test_baselines_are_as_long_as_the_shipped_file_asks_for() -> None:
    few, many = (setting(LABELS[:1], n, 1, np.random.default_rng(9)) for n in (500, 2000))
    assert [each.baselines[PHISHING.name].counts.rows for each in (few, many)] == [10_000, 16_000]
    assert few.baselines[PHISHING.name].end == few.windows[0].start


def test_days_hold_the_rows_of_their_weeks() -> None:
    rows = drawn(LABELS[:1], 2, 500, np.random.default_rng(10))[PHISHING.name]
    days = rows.in_days()
    assert np.diff(days.starts).tolist() == [71, 71, 72, 71, 72, 71, 72] * 2
    assert pool([days.counts(day) for day in range(7)]).digest() == rows.counts(0).digest()


def test_what_comes_back_soon_is_counted_as_the_incident_it_was_and_what_comes_much_later_as_another() -> None:
    rule = next(each for each in shipped().rules if each.id == "ece-increase")
    open_now = {}
    counted = []
    for name, outcome in (("W10", "breach"), ("W11", "ok"), ("W13", "breach"), ("W14", "ok"), ("W24", "breach")):
        verdict = verdict_of(rule, week(f"2026-{name}", shipped().zone), Judged("label 01", rule.id, outcome, 0.05))
        counted.append(opened([verdict], open_now)[rule.id])
    assert counted == [1, 0, 0, 0, 1]
