"""A report gathered from a real history (SQLite) that the real stages filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.config.model import AutomationConfig, Config, EvaluationConfig, Rule, RuleMatch, SourceConfig
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts, bin_counts, pool
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.records import Estimate, Interval, Reason, Subject, SwitchEvent, SwitchState, Window
from monitor.core.windows import before
from monitor.evaluation.data import SourceData, WindowCounts
from monitor.evaluation.evaluate import evaluate
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.inference.selective import threshold_for
from monitor.report.collect import collect_report
from monitor.report.html import html_report
from tests.fakes.judged import pinned
from tests.fakes.report_data import NOW, RULES, UTC_ZONE, Story, rows, windows

SPANS = windows(6)
CONFIG = Config(
    version=1,
    sources={
        "tickets": SourceConfig(relation="tickets", score_is="probability_of_label"),
        "mails": SourceConfig(relation="mails", score_is="probability_of_label"),
    },
    evaluation=EvaluationConfig(interval="analytic"),
    rules=(
        *RULES,
        Rule(id="missed", metric="false_negative_rate", threshold=0.9, match=RuleMatch(label="billing")),
        Rule(id="daily-one", metric="brier", threshold=0.9, schedule="daily"),
    ),
    automation=AutomationConfig(when_not_evaluated="keep"),
)
LABELS = {"account": Story("account", rows=4000), "billing": Story("billing", gap=0.12, since=5, rows=4000)}


def week_of(index: int) -> dict[str | None, Counts]:
    labels = {name: rows(np.random.default_rng([index, k]), s, index) for k, (name, s) in enumerate(LABELS.items())}
    return {**labels, None: pool(labels.values())}


WEEKS = [week_of(k) for k in range(6)]


def baseline(label: str | None) -> Baseline:
    names = {"start": SPANS[0].start, "first_window": SPANS[0].name, "last_window": SPANS[3].name}
    return pinned(pool(part[label] for part in WEEKS[:4]), label, end=SPANS[3].end, **names)


BASELINES = {label: baseline(label) for label in (*LABELS, None)}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("report") / "history.sqlite"
    with Store.from_url(f"sqlite:///{path}") as opened:
        opened.save_baselines(list(BASELINES.values()))
        for k, window in enumerate(SPANS):
            opened.save_reading(window, StoredReading("tickets", labels=WEEKS[k], versions={"v7": 4000}), NOW)
            current = WindowCounts(window, WEEKS[k], {"v7": 4000})
            part = evaluate(SourceData("tickets", current, baselines=BASELINES), CONFIG)
            opened.save_evaluation(window, ["tickets"], part.estimates, part.verdicts, part.shifts, NOW)
        broken = StoredReading("mails", state="relation_error", error="no column score")
        opened.save_reading(SPANS[-1], broken, NOW)
        on = SwitchState("tickets", "account", "on", lease_until=NOW + timedelta(days=2), changed_at=NOW, version=1)
        event = SwitchEvent("k", "tickets", "account", NOW, "enabled", "never_set", "on", "tester", "test")
        opened.apply_switch(SwitchState("tickets", "account"), on, event)
        yield opened


def test_segments_of_the_window_are_under_their_label_the_worst_first(tmp_path: Path):
    window, old = SPANS[-1], SPANS[-2]

    def told(where: Window, label: str, segment: tuple[str, str], ece: float) -> Estimate:
        return Estimate(Subject("tickets", label, segment), where, "ece", "all", Interval(ece, 0, 1, ece), 90, 9)

    estimates = [
        told(window, "billing", ("channel", "email"), 0.01), told(window, "billing", ("channel", "web"), 0.19),
        told(window, "account", ("channel", "web"), 0.02), told(old, "billing", ("channel", "fax"), 0.5),
        replace(told(window, "billing", ("channel", "web"), 0.19), subject=Subject("tickets", "billing")),
    ]  # fmt: skip
    with Store.from_url(f"sqlite:///{tmp_path}/segments.sqlite") as store:
        for where in (old, window):
            store.save_evaluation(where, ["tickets"], [e for e in estimates if e.window == where], [], [], NOW)
        (billing,) = collect_report(store, CONFIG, window, NOW).subjects
    assert [(s.column, s.value, s.rows, s.ece.value) for s in billing.segments] == [
        ("channel", "web", 90, 0.19), ("channel", "email", 90, 0.01),
    ]  # fmt: skip
    assert billing.segments[0].roc_auc.value is None


def test_the_baseline_line_is_the_number_the_verdict_compared_with(store: Store):
    data = collect_report(store, CONFIG, SPANS[-1], NOW)
    billing = data.subjects[2]
    verdict = next(v for v in billing.verdicts if v.rule == "ece-increase")
    trend = billing.trend
    assert trend.baseline == verdict.baseline
    assert trend.limits["ece-increase"] == verdict.baseline + 0.02


def test_the_reliability_diagram_is_on_the_edges_of_the_baseline(store: Store):
    report = collect_report(store, CONFIG, SPANS[-1], NOW).subjects[2]
    bins = bin_counts(WEEKS[5]["billing"], BASELINES["billing"].edges["all"]).filled()
    assert [p.n for p in report.reliability.points] == bins.n.tolist()
    assert [p.rate for p in report.reliability.points] == bins.rate.tolist()
    assert sum(p.n for p in report.reliability.baseline) == BASELINES["billing"].counts.rows


def test_an_earlier_window_is_shown_as_it_was_without_what_came_later(store: Store):
    data = collect_report(store, CONFIG, SPANS[4], NOW)
    trend = data.subjects[2].trend
    assert trend.points[-1].window == "2026-W45"
    assert "breach" not in {verdict.outcome for verdict in data.verdicts}


def test_windows_inside_the_baseline_are_grey_with_their_reason(store: Store):
    data = collect_report(store, CONFIG, SPANS[1], NOW)
    billing = data.subjects[2]
    increase = next(v for v in billing.verdicts if v.rule == "ece-increase")
    assert increase.reason is Reason.IN_BASELINE


def test_a_source_that_could_not_be_read_and_the_versions_are_noted(store: Store):
    notes = collect_report(store, CONFIG, SPANS[-1], NOW).notes
    assert notes == (
        "mails was not evaluated: no column score",
        "tickets, model versions in this window: v7 (4,000 rows).",
    )


def test_a_window_nobody_evaluated_gives_an_empty_report_and_a_page(store: Store):
    earlier = before(SPANS[0], 1, UTC_ZONE)[0]
    data = collect_report(store, CONFIG, earlier, NOW)
    assert data.subjects == ()
    assert "Nothing of this window is in the history." in html_report(data)


def test_every_label_has_its_trend_numbers_and_thresholds_from_what_is_stored(store: Store):
    data = collect_report(store, CONFIG, SPANS[-1], NOW, target=0.8)
    assert [r.subject.label for r in data.subjects] == [None, "account", "billing"]
    assert data.target == 0.8
    for report in data.subjects:
        label, trend = report.subject.label, report.trend
        series = store.estimates(metric="ece", where="all", source="tickets", label=label, schedule="weekly")
        wanted = [e.interval.value for e in series if e.subject == report.subject]
        assert [p.value for p in trend.points] == wanted
        assert {p.window for p in trend.points if p.breach} == ({"2026-W46"} if label == "billing" else set())
        stored = store.estimates(source="tickets", label=label, window_start=SPANS[-1].start)
        assert {(e.metric, e.where, e.interval) for e in report.estimates} == {
            (e.metric, e.where, e.interval)
            for e in stored
            if e.subject == report.subject and not e.metric.startswith("recalibrated_")
        }
        assert report.operating == threshold_for(WEEKS[5][label], 0.8)
        assert report.automate_at == 0.8


def test_a_story_has_the_switch_of_now_in_the_newest_window_and_that_of_its_run_in_a_past_one(store: Store):
    for window in SPANS[-2:]:
        diagnosis = Diagnosis("tickets", "account", window, DiagnosisState.UNSAFE)
        store.save_diagnoses(window, ["tickets"], [diagnosis], NOW)
    (now,) = collect_report(store, CONFIG, SPANS[-1], NOW).stories
    (then,) = collect_report(store, CONFIG, SPANS[-2], NOW).stories
    assert now.switch.state == "on"
    assert then.switch.words == "Automation is off: it was never turned on"  # it was turned on later
    assert (now.window, then.window) == ("2026-W46", "2026-W45")
