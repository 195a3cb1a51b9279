"""One run under a clock that is ahead must stop nothing: neither then, nor afterwards, nor of an older version."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.health import issues
from monitor.alerting.health.look import observed
from monitor.context import Monitor, utc_now
from monitor.core import windows
from monitor.core.records import Reason, Schedule, Window
from monitor.core.windows import week
from monitor.history.readings import StoredReading
from monitor.operations.change_switch import change_switch
from monitor.operations.refuse_premature import WindowRefusal, WindowRefused, refuse_premature
from monitor.run import run_window
from monitor.warehouse.reader import Warehouse
from tests.fakes import judged
from tests.fakes import world as worlds
from tests.fakes.world import WEEKS, make_world

LAST = WEEKS[10]  # the first week in which "slipping" is wrong
NOW = datetime(2026, 9, 2, tzinfo=UTC)  # the week after the last one


def window(monitor: Monitor, name: str) -> Window:
    return week(name, monitor.config.zone)


def of_a_year_ahead(monitor: Monitor) -> Window:
    return windows.last_ready("weekly", NOW + timedelta(days=365), monitor.config.zone)


def poison(monitor: Monitor) -> Window:
    """What a run at +365 days left behind in a history of the version before: everything ``no_rows``."""
    ahead, store = of_a_year_ahead(monitor), monitor.store
    when = NOW + timedelta(days=365)
    revision = monitor.config.revision
    store.begin_run(ahead, ["tickets"], run="ahead", acts=True, rules_revision=revision, now=when)
    rule, reason = "automated-overconfidence", Reason.NO_ROWS
    none = [
        judged.verdict("not_evaluated", ahead, label, id=f"ahead-{label}", rule=rule, reason=reason)
        for label in worlds.LABELS
    ]
    store.save_evaluation(ahead, ["tickets"], [], none, [], when)
    store.finish_run(ahead, ["tickets"], state="done", now=when)
    return ahead


def test_a_process_a_year_ahead_is_refused_and_the_next_runs_switch_and_alert(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, window(monitor, WEEKS[9]))
        before = monitor.store.runs(), monitor.store.switches(), monitor.store.deliveries()
    ahead = subprocess.run(
        [sys.executable, "-m", "tests.fakes.moved_clock", "365", "run", "weekly"],
        capture_output=True, text=True, timeout=300, check=False, cwd=world.folder,
        env=os.environ | world.environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    assert ahead.returncode == 2, ahead.stderr
    assert WindowRefusal.AFTER_NEWEST_DATA.value in ahead.stderr
    with world.opened(lambda: NOW) as monitor:
        assert (monitor.store.runs(), monitor.store.switches(), monitor.store.deliveries()) == before
        result = run_window(monitor, window(monitor, LAST))
        assert {(a.kind, a.state) for a in result.actions} == {
            ("slack", "not sent: no token"), ("disable_automation", "turned off")
        }  # fmt: skip


@pytest.mark.parametrize("says", ["keep", "disable"])
def test_a_history_that_such_a_run_has_spoiled_is_right_again_without_a_command(tmp_path: Path, says: str) -> None:
    world = make_world(tmp_path, config=worlds.CONFIG.replace("keep", says))
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, window(monitor, WEEKS[9]))
        ahead = poison(monitor)
        spoiled = monitor.store.switch("tickets", "slipping")
        monitor.store.apply_switch(spoiled, replace(spoiled, last_window_end=ahead.end), None)
        run_window(monitor, window(monitor, LAST))
        found = monitor.store.switch("tickets", "slipping")
        assert (found.state, found.last_window_end) == ("off", window(monitor, LAST).end)
        assert [(i.label, i.state) for i in monitor.store.incidents()] == [("slipping", "open")]
        seen = observed(monitor.store, monitor.config, NOW)
        assert ahead.start not in {run.window_start for run in seen.runs} | {
            reading.window_start for reading in seen.readings
        }
        assert "2027" not in " ".join(finding.text for finding in issues.findings(seen, NOW))
        shown = monitor.store.evaluated_windows("weekly", limit=9, until=NOW)
    assert [each.name for each in shown] == [LAST, WEEKS[9]]


@pytest.mark.parametrize("hours", [6, 173], ids=["at once", "before the next week is ready"])
@pytest.mark.parametrize(("schedule", "ahead"), [("weekly", timedelta(weeks=2)), ("daily", timedelta(days=8))])
def test_a_clock_ahead_by_a_week_and_a_window_is_refused_and_not_a_second_less(
    tmp_path: Path, schedule: Schedule, ahead: timedelta, hours: int
) -> None:
    """The newest row is of this second: a weekly run under a clock exactly two weeks ahead was not refused."""
    newest = datetime(2026, 8, 17, tzinfo=UTC) + timedelta(hours=hours)  # a Monday
    frame = worlds.rows(WEEKS[:10], per_week=3)
    frame.loc[frame.index[-1], "resolved_at"] = newest
    world = make_world(tmp_path, warehouse_url=worlds.write_duckdb(tmp_path / "until_now.duckdb", frame))
    moved = newest + ahead
    with world.opened(lambda: moved) as monitor:
        store, zone = monitor.store, monitor.config.zone
        for day in (windows.containing("daily", newest - timedelta(days=back), zone) for back in (2, 3)):
            store.save_reading(day, StoredReading("tickets", rows=9), newest)  # what true runs have read
        refuse_premature(monitor, windows.last_ready(schedule, moved, zone), ["tickets"])
        moved += timedelta(seconds=1)
        with pytest.raises(WindowRefused, match=f"which is {ahead.days} days old"):
            refuse_premature(monitor, windows.last_ready(schedule, moved, zone), ["tickets"])


def test_a_window_that_is_not_over_by_the_databases_clock_is_refused(tmp_path: Path, fresh_postgres_url: str) -> None:
    world = make_world(tmp_path, store_url=fresh_postgres_url)
    with world.opened(lambda: utc_now() + timedelta(days=8)) as monitor:
        assert abs((monitor.store.now() or NOW) - utc_now()) < timedelta(minutes=1)
        soon = windows.last_ready("weekly", monitor.clock(), monitor.config.zone)
        with pytest.raises(WindowRefused) as refused:
            run_window(monitor, soon)
        assert refused.value.reason is WindowRefusal.AFTER_DATABASE_CLOCK
        assert monitor.store.runs() == []


def test_a_source_without_rows_and_one_that_is_late_are_evaluated_where_another_is_up_to_date(tmp_path: Path) -> None:
    frame = worlds.rows()
    old = frame[frame["item"].str.startswith(WEEKS[0])]
    url = worlds.write_duckdb(tmp_path / "warehouse.duckdb", frame)
    import duckdb

    with duckdb.connect(str(tmp_path / "warehouse.duckdb")) as connection:
        connection.register("old", old)
        connection.execute("CREATE TABLE late AS SELECT * FROM old")
        connection.execute("CREATE TABLE empty AS SELECT * FROM old WHERE false")
    source = "  {0}: {{relation: {0}, score_is: probability_of_label, automate_at: 0.8}}\n"
    config = worlds.CONFIG.replace("sources:\n", "sources:\n" + source.format("late") + source.format("empty"))
    world = make_world(tmp_path, config=config, warehouse_url=url)
    with world.opened(lambda: NOW) as monitor:
        result = run_window(monitor, window(monitor, WEEKS[9]))
        assert {part.source: part.problem for part in result.evaluated} == dict.fromkeys(("tickets", "late", "empty"))
        run_window(monitor, window(monitor, WEEKS[9]), sources=["empty"])
        with pytest.raises(WindowRefused, match="days after the newest row"):
            run_window(monitor, window(monitor, WEEKS[9]), sources=["late"])


def newest_asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources whose newest row the warehouse is asked for, from now on."""
    asked = []
    ask = Warehouse.newest

    def noted(warehouse: Warehouse, name: str, *arguments: object, **options: object) -> datetime | None:
        asked.append(name)
        return ask(warehouse, name, *arguments, **options)  # type: ignore[arg-type]  # what it was called with

    monkeypatch.setattr(Warehouse, "newest", noted)
    return asked


def test_the_warehouse_is_asked_only_where_the_history_has_no_rows_of_the_week_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, asked = make_world(tmp_path), newest_asked(monkeypatch)
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, window(monitor, WEEKS[3]), act="never")
        assert asked == ["tickets"]
        run_window(monitor, window(monitor, WEEKS[4]), act="never")
        assert asked == ["tickets"], "the history has rows of the week before"
        run_window(monitor, window(monitor, WEEKS[4]), act="never")
        assert asked == ["tickets"], "the history has rows of the window"
        run_window(monitor, window(monitor, WEEKS[8]), act="never")
        assert asked == ["tickets"] * 2, "the history has rows, but only of earlier weeks"
        monitor.store.save_reading(window(monitor, WEEKS[10]), StoredReading("tickets"), NOW)
        run_window(monitor, window(monitor, WEEKS[11]), act="never")
        assert asked == ["tickets"] * 3, "a reading without rows shows nothing"


def test_one_source_that_is_up_to_date_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "  {0}: {{relation: tickets, score_is: probability_of_label, automate_at: 0.8}}\n"
    config = worlds.CONFIG.replace("sources:\n", "sources:\n" + source.format("first") + source.format("second"))
    world, asked = make_world(tmp_path, config=config), newest_asked(monkeypatch)
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, window(monitor, WEEKS[3]), act="never")
    assert asked == ["first"]


@pytest.mark.parametrize("engine", ["duckdb", "sqlite", "postgresql"])
def test_every_engine_says_when_its_newest_row_is_from(tmp_path: Path, engine: str, postgres_url: str) -> None:
    from tests.conftest import new_postgres_database

    frame = worlds.rows(WEEKS[:2], per_week=20)
    writers = {"duckdb": worlds.write_duckdb, "sqlite": worlds.write_sqlite}
    if engine == "postgresql":
        url = worlds.write_postgresql(new_postgres_database(postgres_url), frame)
    else:
        url = writers[engine](tmp_path / f"other.{engine}", frame)
    world = make_world(tmp_path, warehouse_url=url)
    newest = max(frame["resolved_at"]).to_pydatetime()
    with world.opened(lambda: NOW) as monitor:
        asked = {"name": "tickets", "source": monitor.config.sources["tickets"], "now": NOW}
        found = monitor.warehouse.newest(near=NOW - timedelta(days=7), **asked)
        assert abs(found - newest) < timedelta(milliseconds=1)
        assert monitor.warehouse.newest(near=newest - timedelta(days=1), **asked) == newest - timedelta(days=1)


def test_an_operator_can_turn_on_what_was_off_under_a_clock_ahead_and_runs_go_on_from_there(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    with world.opened(lambda: NOW) as monitor:
        run_window(monitor, window(monitor, WEEKS[8]))
        spoiled = monitor.store.switch("tickets", "steady")
        late = replace(spoiled, state="off", last_window_end=NOW + timedelta(days=365))
        monitor.store.apply_switch(spoiled, late, None)
        change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="the clock was wrong")
        run_window(monitor, window(monitor, WEEKS[9]))
        assert monitor.store.switch("tickets", "steady").last_window_end == window(monitor, WEEKS[9]).end
