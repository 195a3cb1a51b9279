"""What `calmon db prune` removes, and what it never touches, on SQLite and on PostgreSQL."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from monitor.cli import app, database
from monitor.config.load import parse_config
from monitor.config.model import HistoryConfig
from monitor.config.problems import ConfigProblems
from monitor.context import Monitor
from monitor.core.records import Refused, Subject, Window
from monitor.core.windows import day, week
from monitor.history import archive, tables
from monitor.history.connect import open_engine, store_url
from monitor.history.prune import Removed, Retention
from monitor.history.readings import COUNTS_REMOVED
from monitor.history.store import Store
from monitor.metrics.names import CONTRACT
from monitor.operations.prune import Pruned, prune, retention
from monitor.operations.recalibrate import from_windows
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.report.collect import collect_report
from monitor.run import run_window
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world

RULES = parse_config(CONFIG)
ZONE = RULES.zone
JUDGED = [*(week(name, ZONE) for name in WEEKS[7:9]), day("2026-08-05", ZONE)]
NEWEST = week(WEEKS[10], ZONE)
SOON = NEWEST.end + timedelta(days=2)
LATER = SOON + timedelta(weeks=80)
SHRINKS = {"counts", "cells", "estimates", "shifts", "quality", "notes", "history"}
KEPT_FOR_GOOD = [each for each in tables.metadata.sorted_tables if each.name not in SHRINKS]


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A history of some weeks, which the shipped actions have switched and notified."""
    world = pinned_world(tmp_path_factory.mktemp("judged"))
    with world.opened(lambda: SOON) as monitor:
        for window in (*JUDGED, NEWEST):
            run_window(monitor, window, act="always" if window == NEWEST else "never")
    archive.backup(world.store_url, world.folder / "copy.sqlite")
    return world


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path, judged: World) -> str:
    found = f"sqlite:///{tmp_path}/history.sqlite"
    if request.param == "postgresql":
        found = str(request.getfixturevalue("fresh_postgres_url"))
    archive.restore(found, judged.folder / "copy.sqlite", by="test", reason="test", now=SOON)
    return found


@contextmanager
def opened(judged: World, url: str, now: datetime) -> Iterator[Monitor]:
    with World(judged.folder, judged.warehouse_url, url).opened(lambda: now) as monitor:
        yield monitor


def content(url: str) -> dict[str, list[Any]]:
    """Every row of the tables of which nothing is ever removed, and what is left of the others for good."""
    estimates, counts = tables.estimates, tables.counts
    kept = sa.select(estimates).where(
        estimates.c.schedule == "weekly", estimates.c.segment == tables.WHOLE, estimates.c.metric.in_(CONTRACT)
    )
    promises = sa.select(*(c for c in counts.c if c.name != "segments"))
    asked = {each.name: sa.select(each) for each in KEPT_FOR_GOOD} | {"estimates": kept, "counts": promises}
    asked["verdicts"] = sa.select(tables.verdicts)
    engine = open_engine(store_url(url))
    with engine.connect() as connection:
        found = {name: sorted(connection.execute(query).all(), key=repr) for name, query in asked.items()}
    engine.dispose()
    return found


def promised(store: Store) -> list[object]:
    return [(each.window, each.labels, each.main_version) for each in store.past_promises("tickets", NEWEST, 51, ZONE)]


def rows_of(url: str, query: str) -> Any:
    engine = open_engine(store_url(url))
    with engine.connect() as connection:
        found = connection.execute(sa.text(query)).scalar_one()
    engine.dispose()
    return found


def test_nothing_is_removed_while_it_is_young(judged: World, url: str) -> None:
    with Store.from_url(url) as store:
        assert prune(store, RULES, SOON).removed == Removed()
        assert store.removed_until("weekly") is None


def test_what_is_old_goes_once_and_what_people_decided_by_stays(
    judged: World, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("monitor.history.prune.FREE_AT_LEAST", 0.0)  # most of this history is its baselines
    before = content(url)
    with Store.from_url(url) as store:
        past = promised(store)
        asked = prune(store, RULES, LATER, dry_run=True)
        assert store.removed_until("weekly") is None
        assert rows_of(url, "SELECT count(*) FROM cells") > 0
        done = prune(store, RULES, LATER)
        assert done.removed == asked.removed
        windows = int(rows_of(url, "SELECT count(*) FROM (SELECT DISTINCT schedule, window_start FROM counts) AS w"))
        assert done.removed.windows == windows
        assert done.removed.counts == len(before["counts"])
        assert min(done.removed.estimates, done.removed.shift_tests, done.removed.bytes_of_counts) > 0
        if url.startswith("sqlite"):  # PostgreSQL uses what is free for new rows
            assert (done.shrunk, done.after < done.before) == (True, True)
        assert content(url) == before
        assert promised(store) == past
        assert prune(store, RULES, LATER).removed == Removed()
    assert rows_of(url, "SELECT count(*) FROM estimates WHERE segment != ''") == 0
    assert rows_of(url, "SELECT count(*) FROM shifts WHERE test != 'ks'") == 0
    assert rows_of(url, "SELECT count(*) FROM shifts WHERE test = 'ks'") > 0
    assert archive.check(url).problems[0].startswith("not confirmed")  # as the fixture restored it: nothing else


def test_weeks_keep_their_counts_for_a_replay_of_a_year(judged: World, url: str) -> None:
    between = SOON + timedelta(weeks=40)  # older than keep_details, younger than a year and a quarter
    with Store.from_url(url) as store:
        assert prune(store, RULES, between).removed.estimates > 0
        kept = {w: store.load_reading(w.schedule, w.start, "tickets") for w in JUDGED}
        states = {w.schedule: reading.state for w, reading in kept.items() if reading is not None}
        assert states == {"weekly": "ok", "daily": COUNTS_REMOVED}
        assert store.is_removed(JUDGED[0])


def test_days_go_before_weeks_do_and_keep_what_their_rules_judge(judged: World, url: str) -> None:
    between = SOON + timedelta(weeks=14)  # older than keep_day_counts, younger than keep_details
    with Store.from_url(url) as store:
        estimates = store.estimates(segments=True)
        asked = {r.measure for r in RULES.rules_for("daily")} | {
            v.metric for v in store.verdicts(schedule="daily", source="tickets")
        }
        removed = prune(store, RULES, between).removed
        assert min(removed.counts, removed.estimates) > 0
        kept = [e for e in estimates if e.window.schedule == "weekly" or (e.metric in asked and not e.subject.segment)]
        reading = store.load_reading("daily", JUDGED[2].start, "tickets")
        assert reading.state == COUNTS_REMOVED
        assert store.estimates(segments=True) == kept
        assert (store.removed_until("weekly"), store.removed_until("daily")) == (None, JUDGED[2].start)
        assert [store.is_removed(window) for window in JUDGED] == [False, False, True]
        longer = RULES.model_copy(update={"history": HistoryConfig(keep_day_counts=26)})
        assert retention(store, longer, between).counts_from["daily"] < JUDGED[2].start


def test_what_only_describes_a_day_goes_before_its_counts(judged: World, url: str) -> None:
    with Store.from_url(url) as store:
        before = store.estimates(segments=True)
        begun = JUDGED[2].start
        soon, between = SOON + timedelta(weeks=4), SOON + timedelta(weeks=7)
        assert retention(store, RULES, soon).details_from["daily"] <= begun
        assert prune(store, RULES, soon).removed.estimates == 0
        kept = retention(store, RULES, between)
        assert kept.counts_from["daily"] <= begun < kept.details_from["daily"]
        removed = prune(store, RULES, between).removed
        assert (removed.counts, removed.estimates > 0) == (0, True)
        reading = store.load_reading("daily", begun, "tickets")
        assert reading.state == "ok"
        weekly = [each for each in before if each.window.schedule == "weekly"]
        assert [each for each in store.estimates(segments=True) if each.window.schedule == "weekly"] == weekly


class _Killed(Exception):
    pass


def test_ended_at_any_window_it_leaves_whole_ones_and_goes_on(judged: World, url: str) -> None:
    seen = []

    def die(name: str) -> None:
        seen.append(name)
        if len(seen) == 3:
            raise _Killed

    with Store.from_url(url) as store:
        keep = retention(store, RULES, LATER)
        due = store.windows_due(keep)
        with pytest.raises(_Killed):
            prune(store, RULES, LATER, progress=die)
        assert store.windows_due(keep) == due[2:]
        assert [store.removed_until(schedule) for schedule in ("weekly", "daily")] == [due[1][1], None]
        halves = "SELECT count(*) FROM cells c JOIN counts n ON n.schedule = c.schedule AND " \
                 "n.window_start = c.window_start WHERE n.label <> '' AND n.segments IS NULL"  # fmt: skip
        assert rows_of(url, halves) == 0
        assert prune(store, RULES, LATER).removed.windows == len(due) - 2


def notes_of(store: Store, window: Window) -> list[str]:
    return list(collect_report(store, RULES, window, LATER).notes)


def test_it_is_said_where_details_were_removed_and_another_run_brings_them_back(judged: World, tmp_path: Path) -> None:
    url, first = f"sqlite:///{tmp_path}/history.sqlite", JUDGED[0]
    archive.restore(url, judged.folder / "copy.sqlite", by="test", reason="test", now=SOON)
    with opened(judged, url, LATER) as monitor:
        store = monitor.store
        before = collect_report(store, RULES, first, LATER)
        prune(store, RULES, LATER)
        after = collect_report(store, RULES, first, LATER)
        gone = [
            f"estimates of segments and further metrics of {first.name} were removed since they are old",
            f"the counts of tickets in {first.name} were removed since they are old: no curves and no tables by score",
        ]
        assert list(after.notes) == [*gone, *before.notes]
        assert after.verdicts == before.verdicts
        assert [each.reliability for each in after.subjects] == [None] * len(before.subjects)
        plan = plan_of(RULES, RULES, first, 1)
        assert {each.reason for each in replay(store, plan).missing} == {COUNTS_REMOVED, "never_read"}
        with pytest.raises(Refused, match=rf"{first.name} were removed .*calmon backfill --from"):
            from_windows(store, Subject("tickets", "steady"), [first], {})
        run_window(monitor, first, act="never")
        assert not {*notes_of(store, first)} & {*gone}
        assert gone[0].replace(first.name, JUDGED[1].name) in notes_of(store, JUDGED[1])


def test_the_command_says_what_it_would_remove_and_removes_it(
    judged: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/history.sqlite"
    archive.restore(url, judged.folder / "copy.sqlite", by="test", reason="test", now=SOON)
    monkeypatch.setattr(database, "utc_now", lambda: LATER)
    monkeypatch.setattr("monitor.history.prune.FREE_AT_LEAST", 0.0)
    environment = judged.environment | {"CALMON_STORE_URL": url}

    def calmon(*options: str) -> str:
        done = CliRunner().invoke(app, ["db", "prune", *options], env=environment, catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    would = json.loads(calmon("--dry-run", "--json"))
    assert (would["dry_run"], would["bytes_before"]) == (True, would["bytes_after"])
    starts = [*would["details_from"].values(), *would["counts_from"].values()]
    assert [datetime.fromisoformat(each).isoformat() for each in starts] == starts
    counts = f"{would['windows']:,} windows: {would['counts']:,} counts of labels"
    assert f"\nwould be removed, of {counts}" in calmon("--dry-run")
    said = calmon()
    assert f"\nremoved, of {counts}" in said
    assert "its file was written anew" in said
    assert json.loads(calmon("--json"))["windows"] == 0


@pytest.mark.parametrize("option", ["--dry-run", "--json"])
def test_a_history_that_is_not_there_is_one_plain_error(judged: World, tmp_path: Path, option: str) -> None:
    environment = judged.environment | {"CALMON_STORE_URL": f"sqlite:///{tmp_path}/none.sqlite"}
    done = CliRunner().invoke(app, ["db", "prune", option], env=environment)
    assert (done.exit_code, done.stdout, list(tmp_path.iterdir())) == (1, "", [])
    assert "error: there is no history at" in done.stderr


def test_dates_are_those_of_the_zone_in_which_windows_begin() -> None:
    """A week in India begins on Sunday by UTC."""
    monday = week("2026-W46", ZoneInfo("Asia/Kolkata")).start
    starts = {"weekly": monday, "daily": monday}
    keep = Retention(starts, starts, {}, {}, {})
    found = Pruned(Removed(), keep, dry_run=True, before=0, after=0)
    line = next(database.pruned_lines(found, ZoneInfo("Asia/Kolkata")))
    assert line.count("2026-11-09") == 4


def test_a_time_that_is_too_short_for_evidence_is_refused() -> None:
    with pytest.raises(ConfigProblems, match="keep_details must be at least 16, not 8"):
        parse_config(CONFIG + "history: {keep_details: 8}\n")
    with pytest.raises(ConfigProblems, match="keep_day_counts must be at least 12, not 8"):
        parse_config(CONFIG + "history: {keep_day_counts: 8}\n")
    assert parse_config(CONFIG + "history: {keep_details: 52}\n").revision == RULES.revision
