"""Runs with rows that wait for their truth: estimates that are called estimates, everywhere, and never switch."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from rich.console import Console

from monitor.alerting.health.issues import WatchReason, findings
from monitor.alerting.health.look import observed
from monitor.core.records import Estimate, Reason, Subject, Verdict
from monitor.core.windows import week
from monitor.core.wording import plain_words
from monitor.metrics.names import EXPECTED
from monitor.operations.collect import collect
from monitor.report.collect import collect_report
from monitor.report.tables import of_all
from monitor.report.terminal import run_summary
from monitor.run import Run, run_window
from monitor.warehouse.reader import Warehouse, WarehouseFailed
from tests.fakes.in_process import in_process
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world

# what is resolved within 60 hours after a week's end waits at its end
RELATION = "SELECT *, resolved_at - INTERVAL 60 HOUR AS predicted_at FROM tickets"
RULES = """\
  - {id: expected-accuracy, metric: expected_accuracy, condition: below, threshold: 0.95,
     min_samples: 50, severity: warning, actions: [slack]}
  - {id: expected-overconfidence, metric: expected_overconfidence, where: automated, threshold: 0.2,
     min_samples: 50, severity: warning, actions: [slack]}
  - {id: expected-ece, metric: expected_ece, threshold: 0.3,
     min_samples: 50, severity: warning, actions: [slack]}
automation:"""
WAITING = CONFIG.replace("relation: tickets\n", f'relation: "{RELATION}"\n    unresolved: true\n').replace(
    "automation:", RULES, 1
)
WEEK = WEEKS[8]
NOW = datetime(2026, 9, 2, tzinfo=UTC)
ZONE = ZoneInfo("UTC")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return pinned_world(tmp_path_factory.mktemp("waiting"), config=WAITING, pinned_under=WAITING)


@pytest.fixture(scope="module")
def run(world: World) -> Run:
    with world.opened(lambda: NOW) as monitor:
        return run_window(monitor, week(WEEK, monitor.config.zone))


def expected(run: Run) -> list[Estimate]:
    return [e for part in run.evaluated for e in part.estimates if e.metric in EXPECTED]


def verdicts(run: Run) -> list[Verdict]:
    return [v for part in run.evaluated for v in part.verdicts if v.metric in EXPECTED]


def test_each_label_has_its_estimates_and_they_say_that_they_are_estimates(run: Run) -> None:
    found = expected(run)
    assert {(e.subject.label, e.metric, e.where) for e in found} == {
        (label, metric, where)
        for label in ("rare", "slipping", "steady", None)
        for metric in EXPECTED
        for where in ("all", "predicted", "automated")
    }
    assert all(e.detail["before_truth"] for e in found)
    rows = [row for row in run.document["estimates"] if row["metric"] in EXPECTED]
    assert len(rows) == len(found)
    assert {row.get("before_truth") for row in run.document["estimates"] if row["metric"] not in EXPECTED} == {None}
    assert {row["before_truth"] for row in rows} == {True}
    assert {row.get("before_truth") for row in run.document["verdicts"]} == {True, None}
    assert json.dumps(run.document)


def test_a_rule_alerts_on_an_estimate_and_says_that_it_is_one(run: Run) -> None:
    by_rule = {(v.rule, v.subject.label): v for v in verdicts(run)}
    breach = by_rule["expected-accuracy", "steady"]
    assert (breach.outcome, breach.reason.value, breach.actions) == ("breach", "below_threshold", ("slack",))
    assert "expected accuracy (an estimate)" in plain_words(breach)
    estimate = next(
        e for e in expected(run) if (e.subject, e.metric, e.where) == (breach.subject, breach.metric, "all")
    )
    assert (breach.value, breach.low, breach.high, breach.n) == (
        estimate.interval.value, estimate.interval.low, estimate.interval.high, estimate.n
    )  # fmt: skip
    assert by_rule["expected-ece", "steady"].outcome == "ok"
    assert by_rule["expected-overconfidence", "steady"].outcome == "ok"
    assert not [a for a in run.actions if a.kind != "slack"]


def test_the_same_window_gives_the_same_estimates_and_verdicts_after_the_truths_came(world: World, run: Run) -> None:
    with world.opened(lambda: NOW + timedelta(days=60)) as monitor:
        again = run_window(monitor, week(WEEK, monitor.config.zone), dry_run=True)
    assert expected(again) == expected(run)
    assert [v.id for v in verdicts(again)] == [v.id for v in verdicts(run)]


def test_run_report_and_page_show_them_as_estimates(world: World, run: Run) -> None:
    with world.opened(lambda: NOW) as monitor:
        console = Console(width=160, record=True, file=io.StringIO())
        console.print(run_summary(run.evaluated, ()))
        printed = console.export_text()
        data = collect_report(monitor.store, monitor.config, week(WEEK, ZONE), NOW)
    assert f"had no truth at the end of {WEEK}; expected, an estimate: accuracy" in printed
    table = next(element for element in of_all(data) if element.title == "Before the truth (estimates)")
    assert {row[0] for row in table.rows} == {
        Subject("tickets", label) for label in ("rare", "slipping", "steady", None)
    }
    with in_process(world.settings(), clock=lambda: NOW) as asked:
        page = asked.get(f"/label/tickets/steady?week={WEEK}").text
        lines = list(csv.DictReader(io.StringIO(asked.get(f"/label/tickets/steady?week={WEEK}&csv=trend").text)))
    assert 'class="estimate"' in page
    assert "expected accuracy (an estimate) over" in page
    assert f"had no truth at the end of {WEEK}; expected, an estimate" in page
    assert {line["metric"] for line in lines} >= {"ece", "expected_ece", "expected_overconfidence", "expected_accuracy"}


def broken(*_: object, **__: object) -> None:
    raise WarehouseFailed("the connection was lost")


def test_items_that_cannot_be_read_leave_the_counts_judged_and_everything_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Warehouse, "unresolved", broken)
    with pinned_world(tmp_path, config=WAITING).opened(lambda: NOW) as monitor:
        run = run_window(monitor, week(WEEK, ZONE))
        (part,) = run.evaluated
        assert (part.problem, expected(run)) == (None, [])
        assert {v.reason for v in verdicts(run)} == {Reason.UNRESOLVED_FAILED}
        assert {v.reason for v in part.verdicts if v.metric == "overconfidence"} == {Reason.WITHIN_THRESHOLD}
        assert run.document["quality"] == [{"source": "tickets", "reason": "unresolved_failed", "rows": 0}]
        console = Console(record=True, width=400)
        console.print(run_summary(run.evaluated, ()))
        assert "could not be read (unresolved_failed): the connection was lost" in console.export_text()
        report = collect_report(monitor.store, monitor.config, week(WEEK, ZONE), now=NOW)
        assert any("(unresolved_failed): the connection was lost" in note for note in report.notes)
        seen = findings(observed(monitor.store, monitor.config, NOW), NOW)
        issues = [each for each in seen if each.reason == WatchReason.UNRESOLVED_FAILED]
        assert [each.severity for each in issues] == ["warning"]
        assert "could not judge" in issues[0].text


def test_a_warehouse_that_does_not_answer_for_them_is_asked_again_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Warehouse, "unresolved", broken)
    with pinned_world(tmp_path, config=WAITING).opened(lambda: NOW) as monitor:
        at = {"window": week(WEEK, ZONE), "names": ["tickets"], "store": True}
        with pytest.raises(WarehouseFailed, match="tickets: the connection was lost"):
            collect(monitor, **at, try_again=True)  # type: ignore[arg-type]
        (part,) = collect(monitor, **at)  # type: ignore[arg-type]
        assert part.data.problem is None
        assert part.data.current.not_read == {"unresolved_failed"}
