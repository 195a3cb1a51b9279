"""Rows that were set aside decide nothing: no breach, nothing turned on, and the cause is named."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pandas as pd
import pytest

from monitor.alerting.health.issues import WatchReason, findings
from monitor.alerting.health.look import observed
from monitor.automation.state import effective
from monitor.core import windows
from monitor.core.records import Window
from monitor.core.rejection_records import RejectionCause, Why
from monitor.report.collect import collect_report
from monitor.run import Run, run_window
from tests.fakes.world import World, make_world, write_duckdb

pytestmark = pytest.mark.slow

WEEK = "2026-W35"
NOW = datetime(2026, 8, 31, 7, tzinfo=UTC)
LABELS = ("billing", "outage", "phishing")
ROWS = 500


def week(name: str) -> Window:
    return windows.week(name, ZoneInfo("UTC"))


def frame(weeks: tuple[str, ...] = (WEEK,)) -> pd.DataFrame:
    """Overconfident rows: scores .85 to .99, right 53% of the time; a third of them scored low and calibrated."""
    rng, parts = np.random.default_rng(11), []
    for name in weeks:
        monday = week(name).start
        for label in LABELS:
            high = 0.85 + 0.14 * rng.random(ROWS)
            low = rng.random(ROWS) * 0.3
            score = np.where(np.arange(ROWS) % 3 == 0, low, high).round(4)
            truth = rng.random(ROWS) < np.where(score > 0.5, 0.53, score)
            parts.append(pd.DataFrame({
                "item": [f"{name}-{i}" for i in range(ROWS)], "label": label, "score": score,
                "actual": truth.astype(int), "predicted": (score >= 0.5).astype(int),
                "resolved_at": [monday + timedelta(minutes=i) for i in range(ROWS)], "channel": "web",
            }))  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def minus_one(rows: pd.DataFrame) -> pd.DataFrame:
    """What is wrong is coded -1, so that all that is left is right."""
    return rows.assign(actual=np.where((rows["score"] > 0.5) & (rows["actual"] == 0), -1, rows["actual"]))


def percent(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(score=(rows["score"] * 100).round(2))


def half_null(rows: pd.DataFrame) -> pd.DataFrame:
    truths = [None if i % 2 else int(y) for i, y in enumerate(rows["actual"])]
    return rows.assign(actual=pd.Series(truths, dtype=object))


def one_score(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(score=0.99)


def one_truth(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(actual=0)


def one_item(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(item="ticket")


FAULTS = {
    RejectionCause.TRUTH_MINUS_ONE: minus_one,
    RejectionCause.SCORE_IN_PERCENT: percent,
    RejectionCause.TRUTH_MISSING: half_null,
    RejectionCause.SCORE_CONSTANT: one_score,
    RejectionCause.TRUTH_CONSTANT: one_truth,
    RejectionCause.ITEM_CONSTANT: one_item,
}


SAID = {
    RejectionCause.TRUTH_MINUS_ONE: ("are -1 (for example 2026-W35-", "Find out what -1 means."),
    RejectionCause.SCORE_IN_PERCENT: ("as percentages are (for example 2026-W35-", "score / 100"),
    RejectionCause.TRUTH_MISSING: ("are NULL (for example 2026-W35-", "unresolved: true"),
    RejectionCause.SCORE_CONSTANT: (
        "every score is the same",
        "Check that the view or file has the score of each item",
    ),
    RejectionCause.TRUTH_CONSTANT: ("is the same", "Check the join that gives the truth"),
    RejectionCause.ITEM_CONSTANT: ("every row has the same item", "Check which column `item` is mapped to"),
}
"""Cause and remedy as the message and `calmon health` name them."""


def run(world: World, name: str = WEEK, now: datetime = NOW) -> Run:
    with world.opened(lambda: now) as monitor:
        return run_window(monitor, week(name))


@pytest.mark.parametrize("cause", FAULTS)
def test_a_faulty_column_breaches_nothing_turns_nothing_on_and_is_named(cause: RejectionCause, tmp_path: Path) -> None:
    world = make_world(tmp_path, warehouse_url=write_duckdb(tmp_path / "warehouse.duckdb", FAULTS[cause](frame())))
    result = run(world)
    (part,) = result.evaluated
    assert {(v.outcome, v.reason.value) for v in part.verdicts} == {("not_evaluated", "rejected_rows")}
    assert {v.subject.label for v in part.verdicts} == set(LABELS)
    assert {v.detail["rejected"]["cause"] for v in part.verdicts} == {cause.value}
    with world.opened(lambda: NOW) as monitor:
        assert not [s for s in monitor.store.switches() if effective(s, NOW, whole=None).allowed]
        kept = monitor.store.load_reading("weekly", week(WEEK).start, "tickets")
        (incident,) = monitor.store.incidents(of_monitor=True)
        (post,) = monitor.store.deliveries()
        unhealthy = findings(observed(monitor.store, monitor.config, NOW), NOW)
        assert monitor.store.incidents() == []
    assert (incident.state, incident.reason) == ("open", "rejected_rows")
    assert post.operation == "post"
    said = json.dumps(post.payload)
    (told,) = [f for f in unhealthy if f.reason == WatchReason.REJECTED_ROWS]
    assert (told.severity, told.is_unhealthy) == ("warning", True)  # nothing has ever acted here
    for text in (said, f"{told.text} {told.do_now}"):
        assert SAID[cause][0] in text
        assert SAID[cause][1] in text
        assert "billing, outage, phishing" in text
    assert kept.rejected == part.rejected
    assert kept.rejected.gravest.cause is cause


def test_the_same_rows_without_a_fault_are_judged(tmp_path: Path) -> None:
    """Else the tests above would prove nothing."""
    world = make_world(tmp_path, warehouse_url=write_duckdb(tmp_path / "w.duckdb", frame()))
    assert {v.rule for part in run(world).evaluated for v in part.verdicts if v.outcome == "breach"} == {
        "automated-overconfidence"
    }


def test_a_report_names_the_labels_and_judges_nothing(tmp_path: Path) -> None:
    world = make_world(tmp_path, warehouse_url=write_duckdb(tmp_path / "w.duckdb", minus_one(frame())))
    run(world)
    with world.opened(lambda: NOW) as monitor:
        data = collect_report(monitor.store, monitor.config, week(WEEK), NOW)
    (whole,) = (each for each in data.subjects if each.subject.label is None)
    assert whole.story is None
    assert whole.level == "grey", "its rows were not accepted either"
    assert any("not judged: billing, outage, phishing" in note for note in data.notes)


def test_a_week_that_was_rejected_is_never_pooled_with_the_next(tmp_path: Path) -> None:
    """What was left of it is perfect: pooled with a thin week it would hide what that week shows."""
    weeks = ("2026-W34", WEEK)
    rows = frame(weeks)
    broken = rows["resolved_at"] < week(WEEK).start
    rows = pd.concat([minus_one(rows[broken]), rows[~broken].groupby("label").head(60)], ignore_index=True)
    world = make_world(tmp_path, warehouse_url=write_duckdb(tmp_path / "w.duckdb", rows))
    run(world, weeks[0], NOW - timedelta(weeks=1))
    (part,) = run(world).evaluated
    overconfidences = [v for v in part.verdicts if v.rule == "automated-overconfidence"]
    assert {v.windows for v in overconfidences} == {1}
    assert not [v for v in overconfidences if v.outcome == "ok"]


def test_rows_without_a_readable_label_stop_all_labels(tmp_path: Path) -> None:
    rows = frame()
    rows["label"] = [None if i % 10 == 0 else label for i, label in rows["label"].items()]
    world = make_world(tmp_path, warehouse_url=write_duckdb(tmp_path / "w.duckdb", rows))
    (part,) = run(world).evaluated
    assert {v.reason.value for v in part.verdicts} == {"rejected_rows"}
    assert part.rejected.everywhere.why is Why.LABEL_UNREADABLE


def test_the_rows_that_leave_the_warehouse_are_few_however_many_are_rejected(tmp_path: Path) -> None:
    path = tmp_path / "w.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TABLE tickets AS SELECT 't' || i AS item, 'l' || i % 5 AS label, (i % 997) * 0.3 AS score, "
            "CASE i % 4 WHEN 0 THEN -1 WHEN 1 THEN NULL ELSE i % 2 END AS actual, 1 AS predicted, 'web' AS channel, "
            "TIMESTAMPTZ '2026-08-25 00:00:00+00' AS resolved_at FROM range(200000) AS r(i)"
        )
    world = make_world(tmp_path, warehouse_url=f"duckdb:///{path}")
    with world.opened(lambda: NOW) as monitor:
        reading = monitor.warehouse.read("tickets", monitor.config.sources["tickets"], week(WEEK), now=NOW)
    assert sum(cell.rows for cell in reading.rejected) > 190_000
    assert len(reading.rejected) < 5 * 60
