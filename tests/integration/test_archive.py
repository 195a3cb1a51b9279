"""Backup, restore and check of a history, while others use it: SQLite with a journal beside it, and PostgreSQL."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa

from monitor.automation import Gate
from monitor.automation.gate.sources import StoreSource
from monitor.config.load import parse_config
from monitor.core.windows import week
from monitor.history import archive, schema
from monitor.history.errors import HistoryDamaged
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange, operate
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes import forked
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world

ROOT = Path(__file__).parents[2]
RULES = parse_config(CONFIG)


def turn(store: Store, *, enable: bool) -> None:
    operate(store, RULES, SwitchChange("tickets", "billing", enable, "ann", "looked"), lambda: datetime.now(UTC))


def asked(url: str) -> str:
    with Gate(StoreSource(url), ttl_s=20.0) as gate:
        return gate.allows("tickets", "billing", score=0.93).reason.value


def calmon(url: str, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(folder, os.environ | {"CALMON_STORE_URL": url}, "db", *words)


def test_a_backup_put_back_while_a_journal_is_beside_it_is_what_everybody_reads_and_closed(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "copy.sqlite"
    with Store.from_url(url) as store:  # open all the time: the journal is never moved into the file
        store.publish_thresholds({("tickets", None): 0.8}, datetime.now(UTC))
        turn(store, enable=True)
        assert calmon(url, tmp_path, "backup", str(copy)).returncode == 0
        turn(store, enable=False)
        assert (tmp_path / "history.sqlite-wal").stat().st_size > 0
        done = calmon(url, tmp_path, "restore", str(copy), "--reason", "a drill", "--by", "ann")
        assert done.returncode == 0, done.stderr
        assert store.switch("tickets", "billing").state == "on"  # the process that had it open reads the backup
        assert asked(url) == "history_restored"
        assert "a drill" in store.identity().why
        checked = calmon(url, tmp_path, "check", "--json")
        assert checked.returncode == 1
        assert "every gate is closed" in json.loads(checked.stdout)["problems"][0]
        turn(store, enable=False)
        assert calmon(url, tmp_path, "confirm", "--reason", "looked at it").returncode == 0
        assert asked(url) == "off"
        assert calmon(url, tmp_path, "check").returncode == 0
    assert archive.check(url).problems == ()


def test_a_switch_that_turns_while_a_history_is_checked_makes_it_no_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, before = f"sqlite:///{tmp_path / 'history.sqlite'}", schema.revision_of
    with Store.from_url(url) as store:

        def and_then_it_turns(connection: sa.Connection) -> str | None:
            found = before(connection)
            monkeypatch.setattr(schema, "revision_of", before)
            turn(store, enable=True)
            return found

        monkeypatch.setattr(schema, "revision_of", and_then_it_turns)
        assert archive.check(url).problems == ()
        assert store.switch("tickets", "billing").state == "on"


def test_a_schema_that_is_no_text_any_more_is_damage_like_any_other(tmp_path: Path) -> None:
    url, copy, file = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "copy.sqlite", tmp_path / "history.sqlite"
    with Store.from_url(url) as store:
        turn(store, enable=True)
    archive.backup(url, copy)
    whole = copy.read_bytes()  # the backup has no journal beside it
    file.with_name("history.sqlite-wal").unlink(missing_ok=True)
    file.write_bytes(whole.replace(b"CREATE TABLE readings", b"CREATE \xff\xfe\xfdLE readings"))
    assert archive.check(url).problems == ("it cannot be read as SQLite: its schema is damaged",)
    with pytest.raises(HistoryDamaged, match="the schema of the history cannot be read; `calmon db check`"):
        Store.from_url(url)
    archive.restore(url, copy, by="ann", reason="damaged", now=datetime.now(UTC))
    assert (tmp_path / "history.sqlite.damaged").exists()
    with Store.from_url(url) as store:
        assert store.switch("tickets", "billing").state == "on"


def test_a_damaged_history_is_kept_beside_and_a_lost_one_can_be_restored(tmp_path: Path) -> None:
    url, copy = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "copy.sqlite"
    with Store.from_url(url) as store:
        turn(store, enable=True)
    archive.backup(url, copy)
    file = tmp_path / "history.sqlite"
    file.write_bytes(b"no database at all" * 1000)
    assert "cannot be read as SQLite" in archive.check(url).problems[0]
    archive.restore(url, copy, by="ann", reason="damaged", now=datetime.now(UTC))
    assert (tmp_path / "history.sqlite.damaged").exists()
    file.unlink()
    archive.restore(url, copy, by="ann", reason="lost", now=datetime.now(UTC))
    with Store.from_url(url) as store:
        assert store.switch("tickets", "billing").state == "on"
        assert not store.identity().confirmed


def test_what_is_no_backup_changes_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    with Store.from_url(url) as store:
        turn(store, enable=True)
    (tmp_path / "text").write_text("hello" * 1000, "utf-8")
    with closing(sqlite3.connect(tmp_path / "other.sqlite")) as other, other:
        other.execute("CREATE TABLE t (x)")
    for name in ("text", "other.sqlite"):
        with pytest.raises(HistoryDamaged):
            archive.restore(url, tmp_path / name, by="ann", reason="x", now=datetime.now(UTC))
    assert archive.check(url).problems == ()
    done = calmon(url, tmp_path, "backup", str(tmp_path / "text"))
    assert (done.returncode, (tmp_path / "text").read_text()) == (2, "hello" * 1000)


def rows_of(url: str) -> dict[str, list[str]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = {
            table.name: sorted(str(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in archive._all_tables()
            if table.name != "history"
        }
    engine.dispose()
    return found


def evaluated(world: World) -> None:
    with world.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="test", reason="test")
        run_window(monitor, week(WEEKS[10], zone))


@pytest.mark.postgres
def test_a_history_of_postgresql_goes_through_a_file_and_back(tmp_path: Path, fresh_postgres_url: str) -> None:
    world = make_world(tmp_path, store_url=fresh_postgres_url)
    evaluated(world)
    before = rows_of(fresh_postgres_url)
    assert before["judged"]
    assert before["baselines"]
    archive.backup(fresh_postgres_url, tmp_path / "copy.sqlite")
    with Store.from_url(fresh_postgres_url) as store:
        turn(store, enable=True)
    archive.restore(fresh_postgres_url, tmp_path / "copy.sqlite", by="ann", reason="x", now=datetime.now(UTC))
    after = rows_of(fresh_postgres_url)
    (closed,) = set(after["switch_events"]) - set(before["switch_events"])
    assert "gates_closed" in closed
    assert after | {"switch_events": before["switch_events"]} == before
    with Store.from_url(fresh_postgres_url) as store:
        assert not store.identity().confirmed
        turn(store, enable=True)  # numbers of events go on behind those that were restored
        assert store.switch("tickets", "billing").state == "on"
    with Store.from_url(f"sqlite:///{tmp_path / 'copy.sqlite'}") as copied:
        assert copied.verdicts()
