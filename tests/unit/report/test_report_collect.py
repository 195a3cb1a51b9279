"""A report gathered from a real history (SQLite) that the real stages filled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from monitor.automation.harm import HarmKind
from monitor.config.model import AutomationConfig, Config, EvaluationConfig, Rule, RuleMatch, SourceConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, bin_counts, pool
from monitor.core.records import Estimate, Interval, Reason, SegmentSwitch, Subject, SwitchEvent, SwitchState, Window
from monitor.core.windows import before, day, week
from monitor.evaluation.evaluate import Evaluated, SourceData, WindowCounts, evaluate
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.inference.selective import excess_errors, threshold_for
from monitor.report.collect import collect_report
from monitor.report.data import headline, now_text, switch_line
from monitor.report.html import html_report
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
    counts = pool(part[label] for part in WEEKS[:4])
    return Baseline(
        "tickets", label, 1, SPANS[0].start, SPANS[3].end, SPANS[0].name, SPANS[3].name, counts,
        edges_of(counts, CONFIG.evaluation), NOW, "tester", "test",
    )  # fmt: skip


BASELINES = {label: baseline(label) for label in (*LABELS, None)}


def judged(index: int) -> Evaluated:
    data = SourceData("tickets", WindowCounts(SPANS[index], WEEKS[index], {"v7": 4000}), baselines=BASELINES)
    return evaluate(data, CONFIG)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    path: Path = tmp_path_factory.mktemp("report") / "history.sqlite"
    with Store.from_url(f"sqlite:///{path}") as opened:
        opened.save_baselines(list(BASELINES.values()))
        for k, window in enumerate(SPANS):
            opened.save_reading(window, StoredReading("tickets", labels=WEEKS[k], versions={"v7": 4000}), NOW)
            part = judged(k)
            opened.save_evaluation(window, ["tickets"], part.estimates, part.verdicts, part.shifts, NOW)
        broken = StoredReading("mails", state="relation_error", error="no column score")
        opened.save_reading(SPANS[-1], broken, NOW)
        on = SwitchState("tickets", "account", "on", lease_until=NOW + timedelta(days=2), changed_at=NOW, version=1)
        event = SwitchEvent("k", "tickets", "account", NOW, "enabled", "never_set", "on", "tester", "test")
        opened.apply_switch(SwitchState("tickets", "account"), on, event)
        yield opened


def test_the_report_has_every_subject_with_the_trends_that_rules_watch(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW)
    assert [r.subject.label for r in data.subjects] == [None, "account", "billing"]
    watched = [(t.metric, t.where) for t in data.subjects[2].trends]
    assert watched == [
        ("ece", "all"), ("mce", "all"), ("roc_auc", "all"), ("overconfidence", "automated"),
        ("false_negative_rate", "all"),
    ]  # fmt: skip
    assert "false_negative_rate" not in [t.metric for t in data.subjects[1].trends]


def test_trends_are_the_stored_estimates(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW)
    for report in data.subjects:
        for trend in report.trends:
            stored = store.estimates(
                metric=trend.metric, where=trend.where, source="tickets", label=report.subject.label, schedule="weekly"
            )
            assert [p.value for p in trend.points] == [e.interval.value for e in stored]
            assert [p.window for p in trend.points] == [w.name for w in SPANS]


def test_segments_of_the_window_are_under_their_label_the_worst_first(tmp_path: Path) -> None:
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


def test_the_planted_change_is_marked_in_its_week_and_nothing_else(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW)
    marked = {
        (r.subject.label, p.window)
        for r in data.subjects
        for t in r.trends
        for p in t.points
        if p.breach and r.subject.label is not None
    }
    assert marked == {("billing", "2026-W46")}


def test_the_baseline_line_is_the_number_the_verdict_compared_with(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW)
    billing = data.subjects[2]
    verdict = next(v for v in billing.verdicts if v.rule == "ece-increase")
    trend = billing.trend("ece")
    assert trend is not None
    assert verdict.baseline is not None
    assert trend.baseline == verdict.baseline
    assert trend.thresholds[0].level == verdict.baseline + 0.02
    assert billing.baseline is not None
    assert (billing.baseline.version, billing.baseline.first_window, billing.baseline.last_window) == (
        1, "2026-W41", "2026-W44",
    )  # fmt: skip


def test_the_reliability_diagram_is_on_the_edges_of_the_baseline(store: Store) -> None:
    report = collect_report(store, CONFIG, SPANS[-1], NOW).subjects[2]
    bins = bin_counts(WEEKS[5]["billing"], BASELINES["billing"].edges["all"]).filled()
    assert report.reliability is not None
    assert [p.n for p in report.reliability.points] == bins.n.tolist()
    assert [p.rate for p in report.reliability.points] == bins.rate.tolist()
    assert sum(p.n for p in report.reliability.baseline) == BASELINES["billing"].counts.rows


def test_an_earlier_window_is_shown_as_it_was_without_what_came_later(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[4], NOW)
    trend = data.subjects[2].trend("ece")
    assert trend is not None
    assert trend.points[-1].window == "2026-W45"
    assert not data.breaches


def test_windows_inside_the_baseline_are_grey_with_their_reason(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[1], NOW)
    billing = data.subjects[2]
    increase = next(v for v in billing.verdicts if v.rule == "ece-increase")
    assert increase.reason is Reason.IN_BASELINE


def test_only_as_many_windows_as_asked_for_are_shown(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW, history=3)
    assert [p.window for p in data.subjects[0].trends[0].points] == ["2026-W44", "2026-W45", "2026-W46"]


def test_switches_never_set_show_as_off_and_the_whole_source_has_none(store: Store) -> None:
    lines = {line.label: line.words for line in collect_report(store, CONFIG, SPANS[-1], NOW).automation}
    assert lines == {"account": "on", "billing": "off (never set)"}
    later = collect_report(store, CONFIG, SPANS[-1], NOW + timedelta(days=2)).automation
    assert {line.label: line.words for line in later}["account"] == "off (lease ended)"


def test_a_source_that_could_not_be_read_and_the_versions_are_noted(store: Store) -> None:
    notes = collect_report(store, CONFIG, SPANS[-1], NOW).notes
    assert notes == (
        "mails was not evaluated: no column score",
        "tickets, model versions in this window: v7 (4,000 rows).",
    )


def test_a_window_nobody_evaluated_gives_an_empty_report_and_a_page(store: Store) -> None:
    earlier: Window = before(SPANS[0], 1, UTC_ZONE)[0]
    data = collect_report(store, CONFIG, earlier, NOW)
    assert data.subjects == ()
    assert "No label was read in this window." in html_report(data)


def test_a_label_of_which_only_a_segment_was_changed_was_never_set_by_anybody() -> None:
    part = SegmentSwitch("channel", "web", NOW, None, True, "ana", "audit")
    line = switch_line(SwitchState("tickets", "billing", changed_at=NOW, segments=(part,)), NOW)
    assert (line.words, line.changed_at, line.actor, line.reason) == ("off (never set)", None, "", "")


def test_a_report_of_a_past_week_shows_the_switch_at_its_run_and_now_apart(tmp_path: Path) -> None:
    ran, later = NOW, NOW + timedelta(days=30)
    lease = SPANS[-1].end + timedelta(days=9)
    with Store.from_url(f"sqlite:///{tmp_path}/past.sqlite") as store:
        window, part = SPANS[-1], judged(5)
        store.begin_run(window, ["tickets"], run="r", acts=True, rules_revision="1", now=ran)
        store.save_reading(window, StoredReading("tickets", labels=WEEKS[5], versions={"v7": 4000}), ran)
        store.save_evaluation(window, ["tickets"], part.estimates, part.verdicts, part.shifts, ran)
        store.finish_run(window, ["tickets"], state="done", now=ran)
        state = SwitchState("tickets", "billing")
        before, after_it = window.start - timedelta(days=1), ran + timedelta(hours=1)
        for at, kind, to_state, until in ((before, "enabled", "on", lease), (after_it, "disabled", "off", None)):
            after = replace(
                state, state=to_state, lease_until=until, changed_at=at, actor="ana", version=state.version + 1
            )
            event = SwitchEvent(
                kind, "tickets", "billing", at, kind, state.state, to_state, "ana", "x", lease_until=until
            )
            store.apply_switch(state, after, event)
            state = after
        data = collect_report(store, CONFIG, window, later)
    billing = next(r for r in data.subjects if r.subject.label == "billing")
    account = next(r for r in data.subjects if r.subject.label == "account")
    assert billing.switch is not None
    assert billing.switch_now is not None
    assert (billing.switch.words, billing.switch_now.words) == ("on", "off")
    assert data.switched_at == ran
    assert headline(data).endswith("automation off for 1 of 2 labels at the run (16 Nov 2026 06:30).")
    assert now_text(data) == "Automation now (16 Dec 2026 06:30): off for 2 of 2 labels."
    assert billing.detail is not None
    assert billing.detail.harm is not None
    assert billing.detail.harm.kind is HarmKind.HAPPENED
    assert account.detail is not None
    assert account.detail.harm is not None
    assert account.detail.harm.kind is HarmKind.AVERTED
    assert "would have been wrong" in account.detail.harm.sentence
    whole = next(r for r in data.subjects if r.subject.label is None)
    assert whole.detail is not None
    assert whole.detail.harm is not None
    assert whole.detail.harm.kind is HarmKind.ESTIMATED


def test_only_traffic_seems_to_have_moved_but_the_model_version_is_another(tmp_path: Path) -> None:
    with Store.from_url(f"sqlite:///{tmp_path}/versions.sqlite") as store:
        store.save_baselines(list(BASELINES.values()))
        for k, version in ((3, "v7"), (5, "v8")):
            store.save_reading(SPANS[k], StoredReading("tickets", labels=WEEKS[k], versions={version: 4000}), NOW)
        part = judged(5)
        moved = [
            replace(v, outcome="breach", reason=Reason.TRAFFIC_MIX)
            if (v.rule, v.subject.label) == ("ece-increase", "billing") else v
            for v in part.verdicts
        ]  # fmt: skip
        store.save_evaluation(SPANS[5], ["tickets"], part.estimates, moved, [], NOW)
        data = collect_report(store, CONFIG, SPANS[5], NOW)
    billing = next(r for r in data.subjects if r.subject.label == "billing")
    assert billing.detail is not None
    told = [one.sentence for one in billing.detail.conclusion.advice if one.reason == "version_changed"]
    assert told == [
        "compare the model versions: the main model version was v7 in 2026-W44 and is v8; no row is of v7 any more"
    ]


def test_windows_of_another_time_zone_are_named_and_not_drawn(tmp_path: Path) -> None:
    berlin = CONFIG.model_copy(update={"timezone": "Europe/Berlin"})
    last = week(SPANS[-1].name, berlin.zone)
    with Store.from_url(f"sqlite:///{tmp_path}/zones.sqlite") as store:
        for k, window in enumerate(SPANS[:5]):
            store.save_evaluation(window, ["tickets"], judged(k).estimates, [], [], NOW)
        mine = [replace(e, window=last) for e in judged(5).estimates]
        store.save_evaluation(last, ["tickets"], mine, [], [], NOW)
        data = collect_report(store, berlin, last, NOW)
    trend = data.subjects[1].trend("ece")
    assert trend is not None
    assert sum(value is not None for value in trend.values) == 1
    assert "Not in the trends: 5 windows of another time zone, 2026-W41 to 2026-W45." in data.notes


def test_the_source_as_a_whole_without_rules_has_a_level_and_pairs_count_over_all_labels(store: Store) -> None:
    data = collect_report(store, CONFIG.model_copy(update={"rules": ()}), SPANS[-1], NOW)
    whole = replace(data.subjects[0], verdicts=())
    assert whole.subject.label is None
    assert whole.level != "grey"
    account = data.subjects[1]
    assert account.detail is not None
    few = [band.sentence for band in account.detail.conclusion.bands if band.reason == "few_pairs"]
    assert few == ["fewer than 10,000 pairs over all labels of this evaluation: 8,000"]


def test_the_report_of_an_empty_history_is_empty() -> None:
    with Store.from_url("sqlite://") as empty:
        assert collect_report(empty, CONFIG, SPANS[-1], NOW).subjects == ()


def test_every_label_has_its_numbers_thresholds_and_advice_from_what_is_stored(store: Store) -> None:
    data = collect_report(store, CONFIG, SPANS[-1], NOW, target=0.8)
    for report in data.subjects:
        counts, detail = WEEKS[5][report.subject.label], report.detail
        assert detail is not None
        stored = store.estimates(source="tickets", label=report.subject.label, window_start=SPANS[-1].start)
        assert {(e.metric, e.where, e.interval) for e in detail.estimates} == {
            (e.metric, e.where, e.interval) for e in stored if not e.metric.startswith("recalibrated_")
        }
        assert detail.operating == threshold_for(counts, 0.8)
        assert detail.excess == excess_errors(counts)
        assert detail.conclusion.level == report.level
        assert detail.automate_at == 0.8
    assert data.target == 0.8
    billing = data.subjects[2].detail
    assert billing is not None
    assert "something_changed" in [one.reason for one in billing.conclusion.advice]
    assert "ece_rose" in [one.reason for one in billing.conclusion.bands]


def test_the_matrix_of_gaps_is_on_the_edges_of_the_baselines(store: Store) -> None:
    gaps = collect_report(store, CONFIG, SPANS[-1], NOW).gaps
    assert gaps is not None
    assert gaps.labels == ("tickets (all labels)", "tickets/account", "tickets/billing")
    bins = bin_counts(WEEKS[5]["billing"], BASELINES["billing"].edges["all"])
    assert gaps.rows[2, : len(bins.n)].tolist() == bins.n.tolist()


def test_the_last_two_days_of_a_week_are_those_that_a_band_looks_at(store: Store, tmp_path: Path) -> None:
    def daily(name: str, ece: float) -> Estimate:
        subject, where = Subject("tickets", "billing"), day(name, UTC_ZONE)
        return Estimate(subject, where, "ece", "all", Interval(ece, 0.0, 1.0, ece), 900, 90)

    def advised(*eces: tuple[str, float]) -> list[str]:
        with Store.from_url(f"sqlite:///{tmp_path}/{len(list(tmp_path.iterdir()))}.sqlite") as other:
            verdicts = store.verdicts(schedule="weekly", window_start=last.start)
            other.save_evaluation(last, ["tickets"], store.estimates(window_start=last.start), verdicts, [], NOW)
            for name, ece in eces:
                made = daily(name, ece)
                other.save_evaluation(made.window, ["tickets"], [made], [], [], NOW)
            detail = collect_report(other, CONFIG, last, NOW).subjects[2].detail
        assert detail is not None
        return [one.reason for one in detail.conclusion.bands]

    last = SPANS[-1]
    assert "ece_high_two_days" in advised(("2026-11-14", 0.09), ("2026-11-15", 0.1))
    assert "ece_high_two_days" not in advised(("2026-11-13", 0.09), ("2026-11-14", 0.1))
    assert "ece_high_two_days" not in advised(("2026-11-14", 0.07), ("2026-11-15", 0.1))
