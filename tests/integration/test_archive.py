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
from monitor.history import archive, reader, schema, tables
from monitor.history.errors import HistoryDamaged, SchemaOutdated, StoreUnreachable
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange, operate
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes import forked
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world

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
        assert calmon(url, tmp_path, "check", "--schema").returncode == 0, "it can be read, and confirmed"
        turn(store, enable=False)
        for said in ("accept this history again (epoch", "it was confirmed already (epoch"):
            done = calmon(url, tmp_path, "confirm", "--reason", "looked at it")
            assert (done.returncode, said in done.stdout) == (0, True), done
        assert asked(url) == "off"
        assert calmon(url, tmp_path, "check").returncode == 0
    assert archive.check(url).problems == ()


def test_a_history_is_of_the_schema_of_this_version_or_a_check_of_the_schema_fails(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'history.sqlite'}"
    missing = calmon(url, tmp_path, "check", "--schema")
    assert missing.returncode == 1
    assert list(tmp_path.iterdir()) == []
    with Store.from_url(url):
        pass
    there = calmon(url, tmp_path, "check", "--schema", "--json")
    assert (there.returncode, json.loads(there.stdout)) == (0, {"revision": schema.head()})
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as older, older:
        older.execute(f"UPDATE {reader.VERSION_TABLE} SET version_num = '0010'")
    outdated = calmon(url, tmp_path, "check", "--schema")
    assert outdated.returncode == 1
    assert "install that one" in outdated.stderr
    with closing(sqlite3.connect(tmp_path / "history.sqlite")) as emptied, emptied:
        emptied.execute(f"DROP TABLE {reader.VERSION_TABLE}")
    assert calmon(url, tmp_path, "check", "--schema").returncode == 1


def test_a_switch_that_turns_while_a_history_is_checked_makes_it_no_older_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, before = f"sqlite:///{tmp_path / 'history.sqlite'}", reader.revision_of
    with Store.from_url(url) as store:

        def and_then_it_turns(connection: sa.Connection) -> str | None:
            found = before(connection)
            monkeypatch.setattr(archive, "revision_of", before)
            turn(store, enable=True)
            return found

        monkeypatch.setattr(archive, "revision_of", and_then_it_turns)
        assert archive.check(url).problems == ()
        assert store.switch("tickets", "billing").state == "on"


def test_a_database_without_a_history_is_said_to_have_none_and_how_one_is_made(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "history.sqlite"
    file.touch()
    told = calmon(url, tmp_path, "check")
    assert (told.returncode, told.stdout) == (1, "")
    assert "there is no history in it: `calmon db upgrade` makes one" in told.stderr
    assert calmon(url, tmp_path, "upgrade").returncode == 0
    assert archive.check(url).problems == ()


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


def test_a_damaged_history_is_put_back_where_there_is_no_room_for_the_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, copy, file = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "copy.sqlite", tmp_path / "history.sqlite"
    with Store.from_url(url) as store:
        turn(store, enable=True)
    archive.backup(url, copy)
    file.write_bytes(damaged := b"no database at all" * 1000)
    plain = archive._copy_pages

    def no_room(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
        if target.execute("PRAGMA database_list").fetchone()[2] != str(file):
            return plain(source, target)
        target.execute("CREATE TABLE half (written)")
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(archive, "_copy_pages", no_room)
    with pytest.raises(StoreUnreachable, match="no room left"):
        archive.restore(url, copy, by="ann", reason="damaged", now=datetime.now(UTC))
    assert file.read_bytes() == damaged
    assert not list(tmp_path.glob("*.damaged"))


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


def made(tmp_path: Path) -> tuple[str, Path, Path]:
    """The address of a history at rest, its file, and a backup of it."""
    url, copy = f"sqlite:///{tmp_path / 'history.sqlite'}", tmp_path / "copy.sqlite"
    with Store.from_url(url) as store:
        turn(store, enable=True)
    archive.backup(url, copy)
    return url, tmp_path / "history.sqlite", copy


def restored(url: str, copy: Path) -> None:
    archive.restore(url, copy, by="ann", reason="x", now=datetime.now(UTC))


def test_a_history_that_is_locked_is_in_use_and_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BUSY_S", 0.2)
    url, file, copy = made(tmp_path)
    files = {each.name for each in tmp_path.iterdir()}
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE of_the_other (x)")
        for use in (
            lambda: restored(url, copy),
            lambda: archive.backup(url, tmp_path / "second.sqlite"),
            lambda: archive.check(url),
        ):
            with pytest.raises(StoreUnreachable, match=f"the history is in use: another process keeps {file} locked"):
                use()
        other.execute("COMMIT")
    assert {each.name for each in tmp_path.iterdir()} == files
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM of_the_other").fetchone() == (0,)
    assert archive.check(url).problems == ()


@pytest.mark.parametrize("locked", ["source", "target"])
def test_a_copy_does_not_wait_for_a_lock_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: str) -> None:
    monkeypatch.setattr(archive, "BUSY_S", 0.2)
    _, file, copy = made(tmp_path)
    sound = []
    monkeypatch.setattr(archive, "_damage", lambda _: sound)  # locked only after it was looked at
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = DELETE")
        other.execute("BEGIN EXCLUSIVE")
        copied = {"source": (archive._copy_file, file, tmp_path / "b"), "target": (archive._put_file, copy, file)}
        use, source, target = copied[locked]
        with pytest.raises(StoreUnreachable, match="the history is in use"):
            use(source, target)


def test_a_folder_without_room_for_a_backup_is_named_and_not_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, _, _ = made(tmp_path)
    (tmp_path / "backups").mkdir()
    connect = sqlite3.connect

    def with_little_room(file: Path, **how: float) -> sqlite3.Connection:
        connection = connect(file, **how)  # type: ignore[call-overload]
        if Path(file).parent.name == "backups":
            connection.execute("PRAGMA max_page_count = 2")
        return connection

    monkeypatch.setattr(sqlite3, "connect", with_little_room)
    with pytest.raises(StoreUnreachable, match=f"there is no room left in {tmp_path / 'backups'}$"):
        archive.backup(url, tmp_path / "backups" / "copy.sqlite")
    assert list((tmp_path / "backups").iterdir()) == []


def test_a_history_whose_journal_cannot_be_opened_is_not_damaged(tmp_path: Path) -> None:
    url, file, copy = made(tmp_path)
    file.with_name(f"{file.name}-wal").mkdir()  # as where this user may not write into the folder
    why = f"{file} cannot be opened: unable to open database file; this user must be allowed to write to it and to "
    for use in (lambda: archive.check(url), lambda: restored(url, copy), lambda: archive.backup(url, tmp_path / "b")):
        with pytest.raises(StoreUnreachable, match=f"{why}{tmp_path}, where its journal"):
            use()
    assert not list(tmp_path.glob("*.damaged"))


def test_what_a_killed_backup_left_is_removed_a_day_later(tmp_path: Path) -> None:
    url, _, copy = made(tmp_path)
    old = [tmp_path / f".calmon-a1{ending}" for ending in (".sqlite", ".sqlite-wal", ".sqlite-shm")]
    new, other = tmp_path / ".calmon-b2.sqlite", tmp_path / ".calmon-a1.txt"
    yesterday = datetime.now(UTC).timestamp() - archive.OLD_DRAFT_S - 60
    for each in (*old, new, other):
        each.touch()
        if each != new:
            os.utime(each, (yesterday, yesterday))
    os.utime(copy, (yesterday, yesterday))
    archive.backup(url, tmp_path / "second.sqlite")
    assert not any(each.exists() for each in old)
    assert new.exists()  # perhaps of a backup that is being made
    assert other.exists()
    assert copy.exists()


def rows_of(url: str) -> dict[str, list[str]]:
    engine = sa.create_engine(url)
    with engine.connect() as connection:
        found = {
            table.name: sorted(str(tuple(row)) for row in connection.execute(sa.select(table)))
            for table in tables.metadata.sorted_tables
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
    assert before["verdicts"]
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


def execute(url: str, statement: str) -> None:
    with sa.create_engine(url, poolclass=sa.NullPool).begin() as connection:
        connection.exec_driver_sql(statement)


@pytest.mark.postgres
def test_a_history_of_another_version_is_not_copied(tmp_path: Path, fresh_postgres_url: str) -> None:
    Store.from_url(fresh_postgres_url).close()
    execute(fresh_postgres_url, "UPDATE calmon_revision SET version_num = '0099'")
    with pytest.raises(SchemaOutdated, match="it was written by another version: install that one"):
        archive.backup(fresh_postgres_url, tmp_path / "copy.sqlite")
    assert not (tmp_path / "copy.sqlite").exists()
