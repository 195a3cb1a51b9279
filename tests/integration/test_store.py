"""The history on SQLite and on a real PostgreSQL: what is stored comes back, twice is once, one wins."""

from __future__ import annotations

import concurrent.futures
import hashlib
import math
import os
import sqlite3
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from monitor.core import windows
from monitor.core.baseline import Baseline
from monitor.core.counts import counts_from_rows
from monitor.core.records import (
    LABEL_BYTES,
    Delivery,
    Estimate,
    Incident,
    Interval,
    Note,
    Reason,
    RejectedRows,
    ShiftResult,
    Subject,
    SwitchEvent,
    SwitchState,
    Verdict,
    WeekSpread,
    Window,
)
from monitor.history import connect, reader, schema, tables
from monitor.history.connect import for_writing, open_engine, store_url
from monitor.history.errors import (
    Ambiguous,
    HistoryError,
    NotFound,
    SchemaOutdated,
    StoreMissing,
    StoreUnreachable,
    VersionClash,
)
from monitor.history.readings import StoredReading
from monitor.history.store import Store

START = datetime(2026, 11, 9, tzinfo=UTC)
NOW = datetime(2026, 11, 16, 7, 30, 15, 250_000, tzinfo=UTC)
WEEK = timedelta(weeks=1)


def week(number: int = 0) -> Window:
    start = START + number * WEEK
    return Window(start, start + WEEK, f"2026-W{46 + number:02d}", "weekly")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of an empty place for a history: a file, or a schema of its own."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/var/history.sqlite"
        return
    base = store_url(request.getfixturevalue("postgres_url"))
    name = f"history_{uuid.uuid4().hex[:12]}"
    engine = create_engine(base)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE SCHEMA {name}"))
    yield base.update_query_dict({"options": f"-csearch_path={name}"}).render_as_string(hide_password=False)
    with engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {name} CASCADE"))
    engine.dispose()


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with Store.from_url(url) as opened:
        yield opened


def verdict(id: str = "a1b2c3d4", window: Window | None = None, **changes: Any) -> Verdict:
    plain = Verdict(
        id=id, rule="ece-increase", subject=Subject("tickets", "billing"), window=window or week(), metric="ece",
        where="all", outcome="breach", reason=Reason.INCREASED, severity="warning", threshold=0.02, value=0.06,
        low=0.04, high=0.08, plug_in=0.07, baseline=0.01, change=0.05, change_low=0.02, change_high=0.07,
        p_value=1e-12, p_adjusted=2e-11, detectable=0.015, n=1200, windows=2, baseline_version=3,
        rules_revision="r1", data_digest="d1", actions=("slack", "disable_automation"),
        detail={"worst_gap": 0.9, "blocked": [[0.8, 0.9]]},
    )  # fmt: skip
    return replace(plain, **changes)


def estimate(
    label: str | None = "billing", *, metric: str = "ece", window: Window | None = None, **changes: Any
) -> Estimate:
    plain = Estimate(
        Subject("tickets", label), window or week(), metric, "all", Interval(0.05, 0.03, 0.07, 0.06), 1000, 81.5,
        {"bins": 15},
    )  # fmt: skip
    return replace(plain, **changes)


def delivery(id: str = "m1", **changes: Any) -> Delivery:
    return replace(Delivery(id, "incidents", "#ml", {"text": "ECE of “billing” rose"}, NOW), **changes)


def incident(id: str = "i1", **changes: Any) -> Incident:
    plain = Incident(
        id=id, kind="label", source="tickets", label="billing", severity="warning", state="open", opened_at=NOW,
        opened_window="2026-W46", window="2026-W46", window_end=START + WEEK, seen_until=START + WEEK,
        reason="overconfident", rules=("ece-increase",),
    )  # fmt: skip
    return replace(plain, **changes)


def event(key: str = "weekly:2026-W46:d1", **changes: Any) -> SwitchEvent:
    plain = SwitchEvent(
        key=key, source="tickets", label="billing", at=NOW, kind="disabled", from_state="on", to_state="off",
        actor="weekly run", reason="automated-overconfidence: above_threshold", blocked=((0.8, 0.9),),
        lease_until=NOW + WEEK, until=NOW, verdict="a1",
    )  # fmt: skip
    return replace(plain, **changes)


ON = SwitchState(
    "tickets", "billing", state="on", blocked=((0.8, 0.9),), lease_until=NOW + WEEK, hold_until=NOW,
    by_operator=True, actor="ana", reason="first time", verdict="a1", ok_streak=1, last_window_end=START,
    changed_at=NOW,
)  # fmt: skip


def save(
    store: Store, verdicts: Sequence[Verdict], window: Window | None = None, sources: Sequence[str] = ("tickets",)
):
    store.save_evaluation(window or week(), sources, [], verdicts, [], NOW)


# Opening and the schema


def test_a_new_store_is_made_with_its_folders_and_answers(url: str):
    with Store.from_url(url) as store:
        store.ping()
        assert store.revision() == schema.head()
        assert store.runs() == []
    with Store.from_url(url, create=False) as again:
        assert again.revision() == schema.head()


def test_a_store_that_nobody_made_is_missing_and_is_not_made_by_looking(url: str):
    with pytest.raises(StoreMissing, match="no history at"):
        Store.from_url(url, create=False)
    file = make_url(url).database
    assert "postgresql" in url or not Path(str(file)).exists()


def test_the_migrations_make_exactly_the_tables(url: str):
    Store.from_url(url).close()
    engine = open_engine(store_url(url))
    with engine.connect() as connection:
        options = {"version_table": reader.VERSION_TABLE, "compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, tables.metadata) == []
    engine.dispose()


def test_a_store_of_another_revision_is_refused_with_the_remedy(url: str):
    Store.from_url(url).close()
    _set_revision(url, "0000")
    with pytest.raises(SchemaOutdated, match=r"schema revision 0000.*another version"):
        Store.from_url(url)
    with Store.from_url(url, check=False) as unchecked:
        assert unchecked.revision() == "0000"


def test_a_store_that_is_open_refuses_tables_that_were_upgraded_meanwhile(store: Store, url: str):
    _set_revision(url, "0099")
    for use in (store.stored_switches, store.runs, lambda: store.put_note(Note("n", NOW, {})), store.ping):
        with pytest.raises(SchemaOutdated, match=r"schema revision 0099.*another version"):
            use()
    _set_revision(url, schema.head())
    assert store.notes() == {}


class BeforeUpgrade:
    """A PostgreSQL history, a program that writes it, and an upgrade by a newer program, each in a thread."""

    def __init__(self, url: str, pool: concurrent.futures.Executor) -> None:
        self.engine, self.pool, self.program = open_engine(store_url(url)), pool, Store.from_url(url)

    def close(self) -> None:
        self.program.close()
        self.engine.dispose()

    def upgrade(self) -> concurrent.futures.Future[None]:
        return self.pool.submit(schema.upgrade, self.engine)

    def write(self) -> concurrent.futures.Future[None]:
        return self.pool.submit(self.program.put_note, Note("n", NOW, {}))

    def wait_until_waiting(self, count: int) -> None:
        """Until ``count`` sessions of this test wait for a lock."""
        waiting = text("SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted")
        for _ in range(300):
            with self.engine.connect() as connection:
                if connection.execute(waiting).scalar_one() >= count:
                    return
            time.sleep(0.05)
        raise AssertionError(f"{count} sessions never waited at the same time")


def migrated(config: Config, _: str) -> None:
    """What a migration of a newer program does."""
    connection = config.attributes["connection"]
    connection.execute(text("ALTER TABLE runs ADD COLUMN more text"))
    connection.execute(text(f"UPDATE {reader.VERSION_TABLE} SET version_num = '0099'"))


@pytest.fixture
def before(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[BeforeUpgrade]:
    if url.startswith("sqlite"):
        pytest.skip("SQLite has one writer: its transaction begins with the only lock, for an upgrade too")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        made = BeforeUpgrade(url, pool)
        monkeypatch.setattr(command, "upgrade", migrated)
        yield made
        made.close()


def test_who_writes_while_the_tables_are_upgraded_waits_and_is_refused(before: BeforeUpgrade):
    with before.engine.begin() as reader:
        reader.execute(text("SELECT count(*) FROM runs"))  # which the migration changes: it waits
        upgrade = before.upgrade()
        before.wait_until_waiting(1)
        writer = before.write()
        before.wait_until_waiting(2)
    upgrade.result(timeout=60)
    with pytest.raises(SchemaOutdated, match="the history is at schema revision 0099"):
        writer.result(timeout=60)
    with before.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM notes")).scalar_one() == 0


def test_an_upgrade_waits_for_who_has_begun_to_write(before: BeforeUpgrade):
    with before.engine.begin() as other:
        other.execute(text("LOCK TABLE notes IN EXCLUSIVE MODE"))
        writer = before.write()
        before.wait_until_waiting(1)
        upgrade = before.upgrade()
        before.wait_until_waiting(2)
        with before.engine.connect() as connection:
            assert reader.revision_of(connection) == schema.head()
    writer.result(timeout=60)
    upgrade.result(timeout=60)
    with before.engine.connect() as connection:
        assert connection.execute(text("SELECT key FROM notes")).scalars().all() == ["n"]
        assert reader.revision_of(connection) == "0099"


def test_a_database_whose_transactions_see_one_moment_by_default_is_written_as_any_other(url: str):
    if url.startswith("sqlite"):
        pytest.skip("SQLite has no such setting")
    options = make_url(url).query["options"] + " -cdefault_transaction_isolation=serializable"
    engine = open_engine(make_url(url).update_query_dict({"options": options}))
    with for_writing(engine).begin() as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"
    engine.dispose()


def test_an_older_revision_asks_for_the_upgrade(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(schema, "REVISION", "9999")
    with pytest.raises(SchemaOutdated, match="run `calmon db upgrade`"):
        schema.refuse_other_revision("0001")


def _set_revision(url: str, revision: str) -> None:
    engine = open_engine(store_url(url))
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {reader.VERSION_TABLE} SET version_num = '{revision}'"))
    engine.dispose()


def test_upgrading_twice_and_down_and_up_again_is_the_same(store: Store, url: str):
    store.upgrade()
    assert store.revision() == schema.head()
    engine = open_engine(store_url(url))
    with engine.begin() as connection:
        command.downgrade(schema.alembic_config(connection), "base")
    engine.dispose()
    assert store.revision() is None
    store.upgrade()
    assert store.runs() == []


def test_several_long_reasons_of_one_trouble_are_kept_whole(store: Store):
    reasons = ("nothing_judged", "turned_off_unjudged", "rejected_rows", "source_not_read", "data_stale", "data_small")
    made = incident("i1", kind="monitor", reason=reasons[0], further_reasons=reasons[1:])
    assert len(", ".join(reasons)) > 64
    assert store.apply_incidents([made], []) == "applied"
    assert [each.reasons for each in store.incidents(of_monitor=True)] == [reasons]


def test_ten_at_once_make_one_store(url: str):
    def open_and_close(_: int) -> str | None:
        with Store.from_url(url) as opened:
            return opened.revision()

    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        assert set(pool.map(open_and_close, range(10))) == {schema.head()}


def another_makes_it_after(look: str, kind: type, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look finds nothing, and before anything is done about it another process makes the history."""
    before = getattr(kind, look)

    def outdated(of: object) -> object:
        found = before(of)
        monkeypatch.setattr(kind, look, before)
        Store.from_url(url).close()
        return found

    monkeypatch.setattr(kind, look, outdated)


def test_tables_that_another_makes_while_one_looks_are_not_lost(url: str, monkeypatch: pytest.MonkeyPatch):
    another_makes_it_after("revision", Store, url, monkeypatch)
    with Store.from_url(url) as opened:
        assert opened.revision() == schema.head()


def test_a_file_that_another_makes_while_one_looks_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    url = f"sqlite:///{tmp_path}/history.sqlite"
    another_makes_it_after("exists", Path, url, monkeypatch)
    with Store.from_url(url) as opened:
        assert opened.revision() == schema.head()


def test_other_databases_and_unreachable_ones_are_named():
    with pytest.raises(HistoryError, match="not in duckdb"):
        Store.from_url("duckdb:///x.duckdb")
    with pytest.raises(HistoryError, match="is not a URL"):
        Store.from_url("history.sqlite")
    with pytest.raises(HistoryError, match="is not a URL") as raised:
        Store.from_url("postgresql://calmon:se@cret:word@db/history")  # what stands where the port should
    assert "word" not in str(raised.value).replace("a password", "")
    with pytest.raises(StoreUnreachable, match=r"calmon:\*\*\*@127.0.0.1:1/history does not answer"):
        Store.from_url("postgresql://calmon:secret@127.0.0.1:1/history")


def test_sqlite_writes_ahead_and_waits_for_the_lock(tmp_path: Path):
    with Store.from_url(f"sqlite:///{tmp_path}/h.sqlite") as store, store._write() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
        assert connection.execute(text("PRAGMA busy_timeout")).scalar_one() == 30_000


def test_opening_waits_while_somebody_is_in_a_file_that_is_not_in_wal_mode_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # SQLite refuses this change of the journal mode at once, whatever the busy timeout says.
    file = tmp_path / "h.sqlite"
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("CREATE TABLE elsewhere (x)")
    other.execute("BEGIN IMMEDIATE")
    waited = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 3:
            other.rollback()

    monkeypatch.setattr(connect, "sleep", wait)
    with Store.from_url(f"sqlite:///{file}") as store:
        assert len(waited) == 3
        assert store.revision() == schema.head()
    other.close()


def test_the_migrations_belong_to_the_installed_package(tmp_path: Path):
    code = (
        "from monitor.history.store import Store\n"
        f"with Store.from_url('sqlite:///{tmp_path}/h.sqlite') as store: print(store.revision())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == schema.head()


# Runs


def test_a_repeated_run_renews_its_row(store: Store):
    store.begin_run(week(), ["tickets"], run="r1", acts=True, rules_revision="x", now=NOW)
    store.finish_run(week(), ["tickets"], state="failed", now=NOW, error="warehouse away")
    store.begin_run(week(), ["tickets"], run="r2", acts=False, rules_revision="y", now=NOW + WEEK)
    store.begin_run(week(), ["tickets"], run="r2", acts=False, rules_revision="y", now=NOW + WEEK)
    row = store.run_of(week(), "tickets")
    assert (row["run"], row["attempts"], row["state"], row["error"]) == ("r2", 2, "running", None)
    assert (row["acts"], row["started_at"], row["finished_at"]) == (False, NOW + WEEK, None)
    store.finish_run(week(), ["tickets"], state="done", now=NOW + WEEK)
    assert [r["state"] for r in store.runs()] == ["done"]


def test_runs_come_newest_first_and_by_schedule(store: Store):
    day = Window(START, START + timedelta(days=1), "2026-11-09", "daily")
    for window in (week(0), week(1), day):
        store.begin_run(window, ["tickets"], run="r", acts=True, rules_revision="x", now=NOW)
    assert [r["window_name"] for r in store.runs("weekly")] == ["2026-W47", "2026-W46"]
    assert [r["window_name"] for r in store.runs(limit=1)] == ["2026-W47"]
    assert store.run_of(week(5), "tickets") is None


def test_finishing_what_was_never_begun_is_an_error(store: Store):
    with pytest.raises(NotFound, match=r"\(`calmon run weekly --week 2026-W46`\)"):
        store.finish_run(week(), ["tickets"], state="done", now=NOW)
    daily = windows.day("2026-11-16", ZoneInfo("UTC"))
    with pytest.raises(NotFound, match=r"\(`calmon run daily --date 2026-11-16`\)"):
        store.finish_run(daily, ["tickets"], state="done", now=NOW)


# Readings


def test_a_reading_comes_back_with_its_cells_and_bad_rows(store: Store):
    counts = counts_from_rows([0.9, 0.9, 0.2], [1, 0, 0], design_effect=1.3)
    bad = RejectedRows("tickets", "score_missing", 4, ({"item": "t-1", "score": None},))
    reading = StoredReading(
        "tickets", labels={"billing": counts, None: counts_from_rows([], [])}, versions={"v2": 3}, quality=(bad,),
        rows=3, digest="d1",
    )  # fmt: skip
    store.save_reading(week(), reading, NOW)
    found = store.load_reading("weekly", START, "tickets")
    assert {label: part.digest() for label, part in found.labels.items()} == {
        "billing": counts.digest(), None: counts_from_rows([], []).digest(),
    }  # fmt: skip
    assert found.labels["billing"].design_effect == 1.3
    assert (found.versions, found.quality, found.rows, found.digest) == ({"v2": 3}, (bad,), 3, "d1")
    assert store.quality("weekly", START) == [bad]
    assert store.load_reading("daily", START, "tickets") is None


def test_reading_again_replaces_only_that_source_in_that_window(store: Store):
    one = StoredReading("tickets", labels={"a": counts_from_rows([], []), "b": counts_from_rows([], [])}, digest="old",
                        quality=(RejectedRows("tickets", "duplicate", 1),))  # fmt: skip
    for window in (week(0), week(1)):
        store.save_reading(window, one, NOW)
        store.save_reading(window, replace(one, source="mail"), NOW)
    store.save_reading(week(), StoredReading("tickets", state="warehouse_failed", error="timeout"), NOW)
    again = store.load_reading("weekly", START, "tickets")
    assert (again.state, again.error, dict(again.labels), again.quality) == ("warehouse_failed", "timeout", {}, ())
    for window, source in ((week(1), "tickets"), (week(0), "mail")):
        kept = store.load_reading("weekly", window.start, source)
        assert set(kept.labels) == {"a", "b"}


def test_rows_that_lie_in_no_window_are_not_added_up_over_windows(store: Store):
    """Each reading counts them over the whole source, so that the newest count is what there is."""
    for number, (duplicates, undated) in enumerate([(1, 312), (2, 312), (4, 300)]):
        bad = (RejectedRows("tickets", "duplicate", duplicates), RejectedRows("tickets", "date_missing", undated))
        store.save_reading(week(number), StoredReading("tickets", quality=bad), NOW)
    found = {each["reason"]: each for each in store.rejected_by_reason(week(0).start, week(2).start)}
    assert (found["duplicate"]["rows"], found["duplicate"]["windows"], found["duplicate"]["of"]) == (
        7,
        3,
        "its windows",
    )
    missing = found["date_missing"]
    assert (missing["rows"], missing["windows"], missing["of"]) == (300, 3, "the whole source")


def test_names_as_long_as_they_may_be_are_kept_in_every_table(store: Store):
    # no repetitions: PostgreSQL would compress them, and its index entries hold about 2,700 bytes
    digits = "".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(60))
    source, label, person = digits[:900], digits[1000 : 1000 + LABEL_BYTES], digits[:3000]
    subject = Subject(source, label)
    store.save_reading(week(), StoredReading(source, labels={label: counts_from_rows([0.5], [1])}), NOW)
    store.save_evaluation(
        week(), [source],
        [replace(estimate(), subject=replace(subject, segment=("channel", digits)))], [verdict(subject=subject)],
        [ShiftResult(subject, week(), "ks", "score", 0.1, 0.5, 10, 10)], NOW,
    )  # fmt: skip
    store.save_baselines([replace(baseline(label), source=source, pinned_by=person)])
    before = SwitchState(source, label)
    assert store.apply_switch(before, replace(ON, source=source, label=label, actor=person),
                              event(source=source, label=label, actor=person)) == "applied"  # fmt: skip
    store.apply_incidents([incident(source=source, label=label)], [delivery(channel=person)])
    assert store.claim_delivery("m1", from_state="pending", worker=person, now=NOW)
    reading = store.load_reading("weekly", START, source)
    found = [
        store.verdict("a1b2c3d4").subject.label, store.switch(source, label).label, store.incidents()[0].label,
        store.estimates(source=source, segments=True)[0].subject.label, store.shifts()[0].subject.label,
        store.switch_events(source)[0].label, *reading.labels, *store.latest_baselines(source),
    ]  # fmt: skip
    assert found == [label] * 8


def test_an_empty_label_is_refused_since_it_would_be_the_whole_source(store: Store):
    with pytest.raises(ValueError, match="empty label"):
        store.save_reading(week(), StoredReading("tickets", labels={"": counts_from_rows([], [])}), NOW)


# Evaluations


def test_verdicts_estimates_and_shifts_come_back_as_they_were(store: Store):
    store.begin_run(week(), ["tickets"], run="r", acts=True, rules_revision="x", now=NOW)
    whole = estimate(None, metric="mce")
    shift = ShiftResult(Subject("tickets", None), week(), "psi", "channel", 0.2, None, 900, 8000, {"worst": "web"})
    store.save_evaluation(week(), ["tickets"], [estimate(), whole], [verdict()], [shift], NOW)
    assert store.verdicts() == [verdict()]
    assert store.verdict("a1b2c3d4") == verdict()
    assert store.estimates() == [whole, estimate()]
    assert store.shifts("weekly", START, "tickets") == [shift]
    assert store.shifts(source="mail") == []


def test_verdicts_of_several_evaluations_of_a_window_are_counted_together(store: Store):
    mail = verdict("m1", subject=Subject("mail", "billing"), outcome="ok", reason=Reason.WITHIN_THRESHOLD)
    for at, source, judged in (
        (NOW, "tickets", [verdict("t1"), verdict("t2", subject=Subject("tickets", "refund"), value=0.01)]),
        (NOW + WEEK, "mail", [mail]),
        (NOW + WEEK, "tickets", [verdict("t3"), verdict("t2", subject=Subject("tickets", "refund"), value=0.01)]),
    ):
        store.save_evaluation(week(), [source], [], judged, [], at)
    store.save_evaluation(week(1), ["tickets"], [], [verdict("t4", week(1), value=0.03)], [], NOW)
    counted = store.rule_outcomes(START)
    assert sorted(counted) == [("ece-increase", "weekly", "breach", 3), ("ece-increase", "weekly", "ok", 1)]
    assert store.rule_outcomes(START + WEEK) == [("ece-increase", "weekly", "breach", 1)]


def test_shift_tests_of_a_window_are_replaced(store: Store):
    made = [ShiftResult(Subject("tickets", label), week(), test, "score", 0.2, None, 900, 8000, detail)
            for label, test, detail in ((None, "psi", {"bins": 10}), ("billing", "ks", {}))]  # fmt: skip
    store.save_evaluation(week(), ["tickets"], [], [], made, NOW)
    assert store.shifts() == made
    store.save_evaluation(week(), ["tickets"], [], [], made[:1], NOW)
    assert store.shifts() == made[:1]


def test_the_end_of_a_day_of_25_hours_comes_back(store: Store):
    start = datetime(2026, 10, 24, 22, tzinfo=UTC)
    day = Window(start, start + timedelta(hours=25), "2026-10-25", "daily")
    store.begin_run(day, ["tickets"], run="r", acts=True, rules_revision="x", now=NOW)
    store.save_evaluation(day, ["tickets"], [estimate(window=day)], [], [], NOW)
    assert store.estimates()[0].window == day


def test_nan_is_never_stored(store: Store):
    nan = math.nan
    vague = estimate(
        interval=Interval(nan, -math.inf, math.inf, nan), positives=nan, detail={"gap": [nan, np.float64(1)]}
    )
    store.save_evaluation(
        week(), ["tickets"], [vague], [verdict(value=nan, p_value=np.float64("nan"), detail={"x": nan})],
        [ShiftResult(Subject("tickets", None), week(), "ks", "score", nan, nan, 1, 1)], NOW,
    )  # fmt: skip
    found = store.estimates()[0]
    assert found.interval == Interval(None, None, None, None)
    assert found.detail == {"gap": [None, 1.0]}
    assert (store.verdicts()[0].value, store.verdicts()[0].p_value, store.verdicts()[0].detail) == (
        None,
        None,
        {"x": None},
    )
    assert (store.shifts()[0].statistic, store.shifts()[0].p_value) == (None, None)


def test_numbers_come_back_to_the_last_bit(store: Store):
    exact = 0.1 + 0.2
    store.save_evaluation(week(), ["tickets"], [estimate(positives=exact)], [verdict(p_value=1e-300)], [], NOW)
    assert store.estimates()[0].positives == exact
    assert store.verdicts()[0].p_value == 1e-300


def test_instants_of_any_zone_come_back_in_utc_and_naive_ones_are_refused(store: Store):
    berlin = NOW.astimezone(timezone(timedelta(hours=1)))
    store.begin_run(week(), ["tickets"], run="r", acts=True, rules_revision="x", now=berlin)
    row = store.run_of(week(), "tickets")
    assert (row["started_at"], row["started_at"].tzinfo) == (NOW, UTC)
    with pytest.raises(Exception, match="has no time zone"):
        store.finish_run(week(), ["tickets"], state="done", now=NOW.replace(tzinfo=None))


def test_the_same_evaluation_twice_is_stored_once(store: Store):
    for _ in range(2):
        store.save_evaluation(week(), ["tickets"], [estimate()], [verdict()], [], NOW)
    assert len(store.estimates()) == len(store.verdicts(current_only=False)) == 1


def test_judging_again_on_other_data_keeps_the_old_verdict_but_not_as_current(store: Store):
    old, new, other = (
        verdict("old"),
        verdict("new", data_digest="d2"),
        verdict("mail", subject=Subject("mail", "billing")),
    )
    save(store, [old, other], sources=["tickets", "mail"])
    save(store, [new])
    assert [v.id for v in store.verdicts()] == ["mail", "new"]
    assert {v.id for v in store.verdicts(current_only=False)} == {"mail", "new", "old"}
    save(store, [old])
    assert [v.id for v in store.verdicts()] == ["mail", "old"]


def test_a_verdict_of_another_window_stays_current(store: Store):
    save(store, [verdict("v0")])
    save(store, [verdict("v1", week(1))], week(1))
    assert [v.id for v in store.verdicts()] == ["v0", "v1"]
    assert store.newest_evaluated("weekly", "tickets") == week(1).start
    assert store.newest_evaluated("daily", "tickets") is None
    assert store.newest_evaluated("weekly", "mail") is None


def test_the_newest_window_of_a_source_is_that_of_its_newest_verdict_or_estimate(store: Store):
    assert store.newest_window("weekly", "tickets") is None
    save(store, [verdict("v0", outcome="not_evaluated")])
    save(store, [verdict("mail", week(2), subject=Subject("mail", "billing"))], week(2), sources=["mail"])
    assert store.newest_window("weekly", "tickets") == week().name
    store.save_evaluation(week(1), ["tickets"], [replace(estimate(), window=week(1))], [], [], NOW)
    assert store.newest_window("weekly", "tickets") == week(1).name
    assert store.newest_window("daily", "tickets") is None


def test_estimates_of_one_source_are_replaced_and_of_the_others_kept(store: Store):
    mail = estimate("spam", subject=Subject("mail", "spam"))
    store.save_evaluation(week(), ["tickets", "mail"], [estimate(), mail], [], [], NOW)
    store.save_evaluation(week(), ["tickets"], [estimate("refund")], [verdict()], [], NOW)
    assert [e.subject.label for e in store.estimates()] == ["spam", "refund"]
    store.replace_estimates(week(), "tickets", [estimate("late")])
    assert [e.subject.label for e in store.estimates()] == ["spam", "late"]
    assert len(store.verdicts()) == 1


def test_verdicts_and_estimates_are_filtered(store: Store):
    whole = verdict(
        "w1", subject=Subject("tickets", None), rule="score-shift", outcome="ok", reason=Reason.WITHIN_THRESHOLD
    )
    segment = estimate(subject=Subject("tickets", "billing", ("channel", "web=1")))
    found = [estimate(), estimate(metric="mce", where="automated"), estimate(None), segment]
    store.save_evaluation(week(), ["tickets"], found, [verdict(), whole], [], NOW)

    def ids(**wanted: Any) -> list[str]:
        return [v.id for v in store.verdicts(**wanted)]

    assert ids(label=None) == ids(outcome="ok") == ids(rule="score-shift") == ["w1"]
    assert ids(label="billing") == ["a1b2c3d4"]
    assert ids(source="tickets", schedule="weekly", window_start=START) == ["w1", "a1b2c3d4"]
    assert ids(schedule="daily") == ids(source="mail") == ids(window_start=week(1).start) == []
    assert store.estimates(label=None) == [estimate(None)]
    assert store.estimates(metric="mce", where="automated", source="tickets", schedule="weekly") == [found[1]]
    assert store.estimates(label="billing", metric="ece", segments=True) == [estimate(), segment]
    assert store.estimates(window_start=week(1).start) == []


def test_segment_values_of_any_length_are_stored_and_stay_apart(store: Store):
    long = 'é"' * 400
    found = [estimate(subject=Subject("tickets", "a", ("url", long + end))) for end in "xy"]
    store.save_evaluation(week(), ["tickets"], found, [], [], NOW)
    segments = {e.subject.segment for e in store.estimates(segments=True)}
    assert len(segments) == 2
    assert all(segment is not None and segment[1].startswith(long[:20]) for segment in segments)


def test_a_verdict_is_found_by_the_beginning_of_its_id(store: Store):
    save(
        store,
        [verdict("abc1", rule="r1"), verdict("abc2", rule="r2"), verdict("abc", rule="r3"), verdict("x_1", rule="r4")],
    )
    assert store.verdict("abc1").id == "abc1"
    assert store.verdict("abc").id == "abc"
    assert store.verdict("x_").id == "x_1"
    with pytest.raises(Ambiguous, match=r"abc, abc1, abc2"):
        store.verdict("ab")
    with pytest.raises(NotFound):
        store.verdict("a_c")


def test_a_failed_evaluation_leaves_everything_as_it_was(store: Store):
    store.save_evaluation(week(), ["tickets"], [estimate()], [verdict()], [], NOW)
    with pytest.raises(TypeError, match="cannot be stored"):
        store.save_evaluation(week(), ["tickets"], [estimate("new", detail={"x": object()})], [], [], NOW)
    assert store.estimates() == [estimate()]


# Baselines


def baseline(label: str | None = "billing", version: int = 1) -> Baseline:
    return Baseline(
        source="tickets", label=label, version=version, start=START, end=START + 8 * WEEK, first_window="2026-W46",
        last_window="2026-W53", counts=counts_from_rows([0.5, 0.9], [0, 1]),
        edges={"all": (5000, 10000), "predicted": (10000,), "automated": (10000,)}, pinned_at=NOW, pinned_by="ana",
        reason="new model", weeks={"ece all": WeekSpread(12.5, 8.0, 1600.25, 8)},
    )  # fmt: skip


def test_baselines_keep_cells_edges_and_every_version(store: Store):
    store.save_baselines([baseline(), baseline(None)])
    store.save_baselines([baseline(version=2)])
    assert [(b.label, b.version) for b in store.baselines("tickets")] == [(None, 1), ("billing", 1), ("billing", 2)]
    assert [b.version for b in store.baselines(label="billing")] == [1, 2]
    assert store.baselines("mail") == []
    latest = store.latest_baselines("tickets")
    assert {label: found.version for label, found in latest.items()} == {None: 1, "billing": 2}
    assert latest["billing"].edges == baseline().edges
    assert latest["billing"].digest == baseline().digest
    assert latest["billing"].weeks == baseline().weeks != {}
    assert (latest["billing"].start, latest["billing"].pinned_by, latest["billing"].reason) == (
        START,
        "ana",
        "new model",
    )


@pytest.mark.parametrize(
    ("zone", "known"),
    [("Europe/Berlin", ["2026-W47", "2026-W45"]), ("America/New_York", ["2026-W47", "2026-W46", "2026-W45"])],
)
def test_past_weeks_of_another_time_zone_are_known_but_none_that_shares_time_with_a_newer_one(
    store: Store, zone: str, known: list[str]
):
    for number in (-1, 0, 1):  # 2026-W45 to W47 in UTC
        store.save_reading(week(number), StoredReading("tickets"), NOW)
    elsewhere = [windows.week(name, ZoneInfo(zone)) for name in ("2026-W47", "2026-W48")]
    store.save_reading(elsewhere[0], StoredReading("tickets"), NOW)
    found = store.past_promises("tickets", elsewhere[1], 51, ZoneInfo(zone))
    assert ([each.window.name for each in found], found[0].window) == (known, elsewhere[0])


def test_a_version_is_never_overwritten_and_a_clash_stores_nothing(store: Store):
    store.save_baselines([baseline()])
    with pytest.raises(VersionClash, match="tickets/billing v1"):
        store.save_baselines([baseline("refund"), baseline()])
    assert [b.label for b in store.baselines()] == ["billing"]


# Switches


def test_a_switch_that_was_never_set_has_version_zero(store: Store):
    assert store.switch("tickets", "billing") == SwitchState("tickets", "billing")
    assert store.switches() == []


def test_a_switch_and_its_event_come_back_as_they_were(store: Store):
    before = store.switch("tickets", "billing")
    assert store.apply_switch(before, ON, event()) == "applied"
    assert store.switch("tickets", "billing") == replace(ON, version=1)
    assert store.switch_events() == [event()]
    whole = replace(ON, label=None)
    assert store.apply_switch(store.switch("tickets", None), whole, event(label=None)) == "applied"
    assert [s.label for s in store.switches()] == [None, "billing"]
    assert store.switch_events("tickets", None) == [event(label=None)]
    assert store.switch_events("mail") == []


def test_the_same_event_is_applied_once(store: Store):
    never = store.switch("tickets", "billing")
    assert store.apply_switch(never, ON, event()) == "applied"
    current = store.switch("tickets", "billing")
    assert store.apply_switch(current, replace(ON, state="off"), event()) == "already"
    assert store.switch("tickets", "billing") == current
    assert store.switch_events() == [event()]


def test_a_stale_change_is_a_conflict_and_leaves_no_event(store: Store):
    never = store.switch("tickets", "billing")
    store.apply_switch(never, ON, event())
    assert store.apply_switch(never, ON, event("other")) == "conflict"
    assert store.apply_switch(replace(ON, version=7), ON, event("third")) == "conflict"
    assert [e.key for e in store.switch_events()] == [event().key]
    assert store.apply_switch(store.switch("tickets", "billing"), replace(ON, state="off"), event("other")) == "applied"
    assert store.switch("tickets", "billing").version == 2


def test_bookkeeping_without_an_event_is_conditional_too(store: Store):
    never = store.switch("tickets", "billing")
    assert store.apply_switch(never, ON, None) == "applied"
    assert store.apply_switch(never, ON, None) == "conflict"


def at_once(work: Callable[[int], Any], times: int = 8) -> list[Any]:
    """The results of as many threads that start together."""
    barrier = threading.Barrier(times)

    def one(number: int) -> Any:
        barrier.wait()
        return work(number)

    with concurrent.futures.ThreadPoolExecutor(times) as pool:
        return list(pool.map(one, range(times)))


def test_of_many_that_apply_the_same_change_one_does_it(store: Store):
    never = store.switch("tickets", "billing")
    results = at_once(lambda _: store.apply_switch(never, ON, event()))
    assert sorted(results) == ["already"] * 7 + ["applied"]
    assert store.switch_events() == [event()]
    assert store.switch("tickets", "billing").version == 1


def test_of_many_that_apply_different_changes_one_does_it(store: Store):
    store.apply_switch(store.switch("tickets", "billing"), ON, event())
    seen = store.switch("tickets", "billing")
    results = at_once(lambda number: store.apply_switch(seen, replace(ON, actor=f"a{number}"), event(f"k{number}")))
    assert sorted(results) == ["applied"] + ["conflict"] * 7
    assert len(store.switch_events()) == 2
    assert store.switch("tickets", "billing").version == 2


# Incidents and messages


def test_incidents_and_their_messages_are_stored_together_and_once(store: Store):
    for _ in range(2):
        store.apply_incidents([incident()], [delivery()])
    assert store.incidents() == [incident()]
    assert store.unresolved_incidents() == [incident()]
    assert store.deliveries() == [delivery(next_attempt_at=NOW)]


def test_a_resolved_incident_makes_room_for_the_next_and_stays_resolved(store: Store):
    store.apply_incidents([incident()], [])
    resolved = incident(state="resolved", resolved_at=NOW, resolved_window="2026-W47", version=2)
    store.apply_incidents([incident("i2", opened_at=NOW + WEEK), resolved], [])
    assert [each for each in store.incidents() if not each.is_open] == [resolved]
    assert [i.id for i in store.unresolved_incidents()] == ["i2"]
    store.apply_incidents([incident(), incident(reopened=5, version=2)], [])
    assert [each for each in store.incidents() if not each.is_open] == [resolved]


def test_one_subject_has_one_open_incident(store: Store):
    store.apply_incidents([incident()], [])
    store.apply_incidents([incident("i2", opened_window="2026-W47")], [])
    assert [i.id for i in store.incidents()] == ["i1"]
    store.apply_incidents([incident("i3", source="s" * 200, label="l" * 255)], [])
    assert len(store.unresolved_incidents()) == 2


def test_a_continued_incident_is_updated(store: Store):
    store.apply_incidents([incident()], [])
    store.apply_incidents([incident(window="2026-W47", window_end=week(1).end, version=2)], [])
    assert store.incidents()[0].window == "2026-W47"


def test_a_broken_message_keeps_the_incident_from_being_stored(store: Store):
    with pytest.raises(TypeError):
        store.apply_incidents([incident()], [delivery(payload={"x": object()})])
    assert store.incidents() == []


def test_deliveries_are_found_by_their_states(store: Store):
    for state in ("pending", "failed", "sent", "dead", "not_sent", "sending"):
        store.add_delivery(delivery(state, state=state))
        store.add_delivery(delivery(state, state=state, channel="#elsewhere"))
    assert {d.id for d in store.deliveries(["sent", "dead"])} == {"sent", "dead"}
    assert {d.channel for d in store.deliveries()} == {"#ml"}


def test_a_message_goes_from_pending_through_failed_to_sent(store: Store):
    store.add_delivery(delivery())
    assert store.claim_delivery("m1", from_state="pending", worker="w", now=NOW)
    retry = NOW + timedelta(minutes=2)
    assert store.settle_delivery("m1", worker="w", state="failed", now=NOW, next_attempt_at=retry, error="429")
    assert [(d.state, d.error, d.attempts, d.next_attempt_at) for d in store.deliveries()] == [
        ("failed", "429", 1, retry)
    ]
    assert not store.claim_delivery("m1", from_state="pending", worker="w", now=retry)
    assert store.claim_delivery("m1", from_state="failed", worker="w2", now=retry)
    assert not store.settle_delivery("m1", worker="w", state="sent", now=retry)
    assert store.settle_delivery("m1", worker="w2", state="sent", now=retry, external_channel="C1", external_id="1.2")
    (sent,) = store.deliveries()
    assert (sent.state, sent.sent_at, sent.error, sent.attempts) == ("sent", retry, None, 2)
    assert (sent.external_channel, sent.external_id) == ("C1", "1.2")
    assert not store.settle_delivery("m1", worker="w2", state="failed", now=retry)


def test_a_message_being_sent_is_taken_over_only_once_it_was_released_in_the_name_of_its_sender(store: Store):
    store.add_delivery(delivery())
    store.claim_delivery("m1", from_state="pending", worker="w1", now=NOW)
    late = NOW + WEEK
    for worker in ("w1", "w2"):
        assert not store.claim_delivery("m1", from_state="sending", worker=worker, now=late)
    assert not store.settle_delivery("m1", worker="w2", state="failed", now=late)
    assert store.settle_delivery("m1", worker="w1", state="failed", now=late)
    assert store.claim_delivery("m1", from_state="failed", worker="w2", now=late)


@pytest.mark.parametrize("from_state", ["pending", "failed"])
def test_of_many_that_claim_a_message_one_gets_it(store: Store, from_state: Any):
    store.add_delivery(delivery(state=from_state, claimed_at=NOW - WEEK, claimed_by="gone"))
    won = at_once(lambda i: store.claim_delivery("m1", from_state=from_state, worker=f"w{i}", now=NOW))
    assert sorted(won) == [False] * 7 + [True]
    assert store.deliveries()[0].attempts == 1


def test_two_evaluations_of_one_window_at_once_leave_the_rows_of_one(store: Store):
    def evaluate(number: int) -> None:
        labels = [f"{number}-{i}" for i in range(20)]
        found = [estimate(label) for label in labels]
        judged = [verdict(label, subject=Subject("tickets", label)) for label in labels]
        store.save_evaluation(week(), ["tickets"], found, judged, [], NOW)
        empty = dict.fromkeys(labels, counts_from_rows([], []))
        store.save_reading(week(), StoredReading("tickets", labels=empty), NOW)

    at_once(evaluate, 4)
    assert len({str(e.subject.label).split("-")[0] for e in store.estimates()}) == 1
    assert len(store.estimates()) == len(store.verdicts()) == 20
    reading = store.load_reading("weekly", START, "tickets")
    assert len(reading.labels) == 20


def test_pages_read_the_estimates_of_many_windows_and_the_steps_of_switches_at_once(store: Store):
    for number in (0, 1):
        each = [estimate(window=week(number)), estimate(metric="mce", window=week(number)), estimate("legal")]
        store.save_evaluation(week(number), ["tickets"], each[: 3 - number], [], [], NOW)
    assert store.apply_switch(store.switch("tickets", "billing"), ON, event()) == "applied"
    starts = [week(number).start for number in range(3)]
    numbers = store.grid_numbers(starts, "tickets", ["billing"], [("ece", "all"), ("nll", "all")], schedule="weekly")
    assert [(row.label, row.window_start, row.metric, row.value) for row in numbers] == [
        ("billing", starts[0], "ece", 0.05), ("billing", starts[1], "ece", 0.05)
    ]  # fmt: skip
    assert store.switch_events("tickets", "billing", since=event().at) == [event()]
    assert store.switch_events("tickets", "legal") == []
    whole = SwitchState("tickets", None)
    store.apply_switch(whole, replace(whole, state="off", changed_at=NOW, version=1), event(label=None))
    late = NOW + WEEK  # what the source's own switch has been since long ago still counts
    assert [(s.label, s.to_state) for s in store.switch_events("tickets", None, since=late)] == [(None, "off")]


def test_a_history_on_a_read_only_file_system_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "history.sqlite").mkdir()  # which SQLite cannot open either
    address = f"sqlite:///{tmp_path}/history.sqlite"
    with pytest.raises(StoreUnreachable, match="unable to open database file"):
        Store.from_url(address)
    found = os.statvfs(tmp_path)
    read_only = os.statvfs_result((*found[:8], found.f_flag | os.ST_RDONLY, *found[9:]))
    monkeypatch.setattr(os, "statvfs", lambda path: read_only)
    with pytest.raises(StoreUnreachable, match=f"the file system of {tmp_path} is read-only, and SQLite writes beside"):
        Store.from_url(address)
