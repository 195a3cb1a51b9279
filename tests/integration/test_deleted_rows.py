"""Rows that are gone from the warehouse are no news of a window: what was measured of it stays, and is said."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.cli import app

MONDAY = datetime(2026, 8, 3)  # noqa: DTZ001 - UTC
RULES = """\
version: 1
sources:
  mail: {relation: mail, score_is: probability_of_label, window_on: WINDOW}
rules:
  - {id: high, metric: overconfidence, where: automated, condition: above, threshold: 0.05, min_samples: 30,
     severity: critical, actions: [slack]}
automation: {when_not_evaluated: keep}
"""
Row = tuple[str, str, float, int | None, str, str | None]


def of_a_week(week: int, n: int = 200, *, late: int = 0) -> list[Row]:
    """Rows of one label, of which the first half of a week is half wrong; the truths of ``late`` come in the next."""
    start = MONDAY + timedelta(weeks=week)
    rows = []
    for number in range(n):
        at = start + timedelta(hours=number * 160 / n)
        known = at + timedelta(days=8 if number % n < late else 0, minutes=5)
        right = int(number >= n // 2 or number % 2 == 0)
        rows.append((f"w{week}-{number}", "spam", 0.95, right, str(at), str(known)))
    return rows


def fill(rows: Sequence[Row], now: datetime) -> None:
    Path("mail.sqlite").unlink(missing_ok=True)
    at = str(now)
    known = [
        (*row[:3], row[3] if str(row[5]) <= at else None, row[4], row[5] if str(row[5]) <= at else None)
        for row in rows
        if row[4] <= at
    ]
    with closing(sqlite3.connect("mail.sqlite")) as connection, connection:
        connection.execute(
            "CREATE TABLE mail (item, label, score REAL, actual REAL, predicted_at TEXT, resolved_at TEXT, channel)"
        )
        connection.executemany("INSERT INTO mail VALUES (?, ?, ?, ?, ?, ?, 'web')", known)


def calmon(*words: str) -> str:
    found = CliRunner(env={"COLUMNS": "200", "CALMON_WAREHOUSE_URL": "sqlite:///mail.sqlite",
                           "CALMON_STORE_URL": "sqlite:///history.sqlite"}).invoke(app, list(words))  # fmt: skip
    assert found.exit_code == 0, found.output
    return found.output


def measured(week: str) -> list[str]:
    """n and value of the label's overconfidence in a week."""
    lines = calmon(
        "history", "--metric", "overconfidence", "--where", "automated", "--label", "spam", "--format", "csv"
    )
    return [line for line in lines.splitlines() if week in line]


@pytest.mark.parametrize("window", ["predicted_at, unresolved: true", "resolved_at"])
@pytest.mark.parametrize("kept_days", [9, 11, 13])
def test_a_window_keeps_what_was_measured_of_rows_that_a_retention_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str, kept_days: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alerts.yaml").write_text(RULES.replace("WINDOW", window), encoding="utf-8")
    late = 20 if "unresolved" in window else 0
    rows = [row for week in range(2) for row in of_a_week(week, late=late)]
    first, second = MONDAY + timedelta(days=7, hours=7), MONDAY + timedelta(days=14, hours=7)
    fill(rows, first)
    calmon("run", "weekly", "--week", "2026-W32")
    before = measured("2026-W32")
    assert len(before) == 1
    fill([row for row in rows if row[4] >= str(second - timedelta(days=kept_days))], second)
    said = calmon("run", "weekly", "--week", "2026-W33")
    assert "The warehouse no longer holds " in said
    assert "of 2026-W32: what was measured of them stays." in " ".join(said.split())
    assert measured("2026-W32") == before
    report = calmon("report", "--week", "2026-W33")
    assert "no longer holds" in report


def test_late_truths_of_a_window_whose_rows_are_all_there_are_still_restated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alerts.yaml").write_text(RULES.replace("WINDOW", "predicted_at, unresolved: true"), encoding="utf-8")
    rows = [row for week in range(2) for row in of_a_week(week, late=60)]
    fill(rows, MONDAY + timedelta(days=7, hours=7))
    calmon("run", "weekly", "--week", "2026-W32")
    before = measured("2026-W32")
    fill(
        [row for row in rows if row[0] not in ("w0-199", "w0-198")], MONDAY + timedelta(days=16)
    )  # two were corrected away
    said = calmon("run", "weekly", "--week", "2026-W33")
    assert "Judged again, since truths came late: 2026-W32." in said
    assert "no longer holds" not in said
    assert measured("2026-W32") != before


@pytest.mark.parametrize("window", ["predicted_at, unresolved: true", "resolved_at"])
def test_a_window_that_is_run_again_by_its_name_keeps_what_was_measured_of_rows_that_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, window: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alerts.yaml").write_text(RULES.replace("WINDOW", f"{window}, segments: [channel]"), encoding="utf-8")
    now = MONDAY + timedelta(days=8)
    rows = [(*row[:2], 0.95 + place % 2 / 100, *row[3:]) for place, row in enumerate(of_a_week(0))]
    fill(rows, now)
    asked = ("run", "weekly", "--week", "2026-W32", "--json")
    first = json.loads(calmon(*asked))
    fill(rows[100:], now)  # of the first half of the week, where it was often wrong, nothing is left
    for words in (asked, ("backfill", "--from", "2026-W32", "--to", "2026-W32")):
        calmon(*words)
        assert "no longer holds 100 of 200 rows" in calmon("report", "--week", "2026-W32")
        again = json.loads(calmon(*asked))
        for part in ("estimates", "verdicts", "labels"):
            assert sorted(map(str, again[part])) == sorted(map(str, first[part])), part
    said = " ".join(calmon("run", "weekly", "--week", "2026-W32").split())
    assert "The warehouse no longer holds 100 of 200 rows of 2026-W32: what was measured of them stays." in said
    assert "spam" in calmon("incidents", "list")
    anew = json.loads(calmon(*asked, "--fewer-rows"))
    assert {e["n"] for e in anew["estimates"] if e["segment"] is None and e["where"] == "all"} == {100}
    assert [v["outcome"] for v in anew["verdicts"]] == ["ok"]


def test_rows_that_are_gone_behind_new_ones_are_said_where_scores_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alerts.yaml").write_text(RULES.replace("WINDOW", "resolved_at"), encoding="utf-8")
    rows, now = of_a_week(0), MONDAY + timedelta(days=8)
    fill(rows, now)
    calmon("run", "weekly", "--week", "2026-W32")
    others = [(f"new{place}", row[1], 0.9, *row[3:]) for place, row in enumerate(rows[:70])]
    fill([*rows[60:], *others], now)
    said = " ".join(calmon("run", "weekly", "--week", "2026-W32").split())
    assert "At least 60 of 200 rows of 2026-W32 are gone or have another score now, beside new rows" in said
    fill([*rows[60:], *others, *((f"late{place}", *row[1:]) for place, row in enumerate(rows[:70]))], now)
    assert "gone" not in calmon("run", "weekly", "--week", "2026-W32")


def test_several_windows_may_have_lost_rows_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alerts.yaml").write_text(RULES.replace("WINDOW", "resolved_at"), encoding="utf-8")
    now, rows = MONDAY + timedelta(days=15), [row for week in range(2) for row in of_a_week(week)]
    fill(rows, now)
    for week in ("2026-W32", "2026-W33"):
        calmon("run", "weekly", "--week", week)
    before = [measured(week) for week in ("2026-W32", "2026-W33")]
    fill([*rows[150:200], *rows[390:]], now)
    for _ in range(2):
        said = " ".join(calmon("run", "weekly", "--week", "2026-W33").split())
        assert said.count("no longer holds 150 of 200 rows of 2026-W32") == 1
        assert said.count("no longer holds 190 of 200 rows of 2026-W33") == 1
        assert [measured(week) for week in ("2026-W32", "2026-W33")] == before
