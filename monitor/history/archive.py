"""Back up a history to one SQLite file, for either engine, and restore it with every gate closed.

A SQLite history is copied by SQLite's own backup interface, so that a journal (``-wal``) beside it is neither lost nor
mixed up with the copy. PostgreSQL is copied table by table in one transaction. A backup does not contain alerts.yaml,
reports, or the warehouse.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Table, delete, func, select, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import SQLAlchemyError

from monitor.core.records import Identity, Recorded
from monitor.history import identity, schema, tables
from monitor.history.connect import (
    Row,
    database_file,
    for_reading,
    for_writing,
    is_added,
    one_at_a_time,
    open_engine,
    store_url,
)
from monitor.history.errors import HistoryDamaged, StoreMissing, StoreUnreachable
from monitor.history.marker import marker_file, read_marker, write_marker
from monitor.history.switches import event_row, gate_events

CHUNK = 2_000
_NUMBERED = (
    ("switch_events", "id"),
    ("publications", "sequence"),
    ("estimate_series", "id"),
    ("estimate_windows", "id"),
    ("shift_series", "id"),
    ("verdict_series", "id"),
    ("evaluations", "id"),
)
"""(table, column) of the numbers that the database generates."""
BUSY_S = 30.0


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a history. ``problems`` is empty if it is sound; ``journal_bytes`` is SQLite's -wal."""

    revision: str | None
    identity: Identity | None
    rows: dict[str, int]
    journal_bytes: int
    problems: tuple[str, ...]


def backup(url: str, file: Path) -> None:
    """Write the whole history to a new file, while it is in use. Raises HistoryError, and then leaves no file."""
    address = store_url(url)
    with _draft(file.parent) as draft:
        source = database_file(address)
        if source is not None:
            _copy_file(_existing(source), draft)
        else:
            _copy_out(address, draft)
        _refuse_damaged(draft)
        draft.replace(file)


def restore(url: str, file: Path, *, by: str, reason: str, now: datetime) -> Identity:
    """Replace the history by a backup, all or nothing. Every gate is closed until an operator confirms.

    Processes that have the history open continue with the new one. An older schema is upgraded. A damaged SQLite
    history is kept beside it as ``.damaged``. Raises HistoryError, and then nothing has changed.
    """
    address = store_url(url)
    with _draft(Path(tempfile.gettempdir())) as draft:
        _copy_file(_existing(file), draft)
        _refuse_damaged(draft)
        recorded = read_marker(marker_file(address))
        beyond, why = recorded.mark.epoch if recorded else 0, f"restored from {file.name}: {reason}"
        restored = _prepare(draft, _gate_events(address), why=why, by=by, now=now, beyond=beyond)
        target = database_file(address)
        if target is not None:
            _put_file(draft, target)
        else:
            _copy_in(draft, address)
    write_marker(marker_file(address), restored)
    return restored


def check(url: str) -> Checked:
    """Check a history: whether all of it can be read, its identity, and the rows of each table. Changes nothing."""
    address = store_url(url)
    file = database_file(address)
    problems: list[str] = []
    journal = 0
    if file is not None:
        problems += _damage(_existing(file))
        wal = file.with_name(f"{file.name}-wal")
        journal = wal.stat().st_size if wal.exists() else 0
    if problems:
        return Checked(None, None, {}, journal, tuple(problems))
    seen = read_marker(marker_file(address))  # first: it must not be newer than what is read
    engine = open_engine(address)
    try:
        with for_reading(engine).begin() as connection:
            return _look(connection, seen, journal)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        return Checked(None, None, {}, journal, (f"it cannot be read: {cause}",))
    finally:
        engine.dispose()


def _look(connection: Connection, seen: Recorded | None, journal: int) -> Checked:
    revision, newest = schema.revision_of(connection), schema.head()
    if revision != newest:
        return Checked(revision, None, {}, journal, (f"schema revision {revision}, this program needs {newest}",))
    found = replace(identity.read(connection), seen=seen)
    problems = []
    if not found.confirmed:
        problems.append(f"not confirmed, so every gate is closed: {found.why}")
    elif found.is_mixed:
        problems.append("an older copy under the journal (-wal) of a newer one; restore it with `calmon db restore`")
    elif seen is not None and found.went_back:
        problems.append(f"an older copy: version {found.mark.version}, and {seen.mark.version} was there before")
    rows = {t.name: int(connection.scalar(select(func.count()).select_from(t)) or 0) for t in _all_tables()}
    return Checked(revision, found, rows, journal, tuple(problems))


def _all_tables() -> list[Table]:
    return list(tables.metadata.sorted_tables)


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise StoreMissing(f"there is no file {file}")
    return file


@contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """A new file in this folder. It is deleted afterwards, unless it was moved."""
    try:
        handle, name = tempfile.mkstemp(prefix=".calmon-", suffix=".sqlite", dir=folder)
    except OSError as error:
        raise StoreUnreachable(f"cannot write in {folder}: {error.strerror}") from error
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _copy_file(source: Path, target: Path) -> None:
    """Copy by SQLite's backup interface. It includes what is only in the journal; the copy has no journal."""
    try:
        with closing(sqlite3.connect(source, timeout=BUSY_S)) as before, closing(sqlite3.connect(target)) as after:
            before.backup(after)
            after.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        raise HistoryDamaged(f"{source} cannot be read as SQLite: {error}") from error


def _damage(file: Path) -> list[str]:
    try:
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as connection:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.DatabaseError as error:
        return [f"it cannot be read as SQLite: {error}"]
    except UnicodeDecodeError:  # SQLite's message quotes what it found in place of the schema
        return ["it cannot be read as SQLite: its schema is damaged"]
    return [f"damaged: {line}" for line in lines if line != "ok"]


def _refuse_damaged(file: Path) -> None:
    found = _damage(file)
    if found:
        raise HistoryDamaged(f"the copy is not whole: {found[0]}")


def _gate_events(address: URL) -> list[Row]:
    """When every gate of the history that is replaced was closed and confirmed; none where that cannot be read.

    These are no content of a history: nothing was automated in that time, whichever copy is there now.
    """
    file = database_file(address)
    if file is not None and not file.is_file():
        return []
    engine = open_engine(address)
    try:
        with for_reading(engine).begin() as connection:
            return [event_row(each) for each in gate_events(connection)]
    except (SQLAlchemyError, sqlite3.Error, ValueError):
        return []
    finally:
        engine.dispose()


def _prepare(draft: Path, gates: Sequence[Row], *, why: str, by: str, now: datetime, beyond: int) -> Identity:
    """Upgrade the copy to this program's schema, add the events about all gates, and mark it as not confirmed."""
    engine = open_engine(store_url(f"sqlite:///{draft}"))
    try:
        with for_reading(engine).begin() as connection:
            revision = schema.revision_of(connection)
        if revision is None:
            raise HistoryDamaged("the file is no backup of a history: it has no schema revision")
        schema.upgrade(engine)
        with for_writing(engine).begin() as connection:
            for row in gates:
                is_added(connection, tables.switch_events, row)
            return identity.close_until_confirmed(connection, why=why, by=by, now=now, beyond=beyond)
    finally:
        engine.dispose()
        with closing(sqlite3.connect(draft)) as plain:
            plain.execute("PRAGMA journal_mode = DELETE")


def _put_file(draft: Path, target: Path) -> None:
    """Write the copy into the live file through SQLite, which handles its journal: readers see the old or the new."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and _damage(target):
        for ending in ("-wal", "-shm", ""):
            part = target.with_name(target.name + ending)
            if part.exists():
                part.replace(part.with_name(f"{part.name}.damaged"))
    try:
        with closing(sqlite3.connect(draft)) as before, closing(sqlite3.connect(target, timeout=BUSY_S)) as after:
            before.backup(after, sleep=0.05)
    except sqlite3.DatabaseError as error:
        raise StoreUnreachable(f"the backup cannot be put into {target}: {error}") from error


def _copy_out(address: URL, draft: Path) -> None:
    with _both(address, store_url(f"sqlite:///{draft}")) as (source, target):
        found = schema.revision_of(source)
        if found is None:
            raise StoreMissing("there are no tables of a history in this database")
        schema.refuse_other_revision(found)
        _copy_tables(source, target)
    with closing(sqlite3.connect(draft)) as plain:
        plain.execute("PRAGMA journal_mode = DELETE")


def _copy_in(draft: Path, address: URL) -> None:
    with _both(store_url(f"sqlite:///{draft}"), address) as (source, target):
        for lock in ("schema", "thresholds"):
            one_at_a_time(target, lock)
        _copy_tables(source, target)
        # the next generated numbers follow the copied ones
        for table, column in _NUMBERED:
            newest = f"(SELECT coalesce(max({column}), 0) + 1 FROM {table})"
            target.execute(text(f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), {newest}, false)"))


@contextmanager
def _both(source: URL, target: URL) -> Iterator[tuple[Connection, Connection]]:
    """Two connections, each in one transaction: the first reads ``source``, the second writes ``target``."""
    source_engine, target_engine = open_engine(source), open_engine(target)
    try:
        schema.upgrade(target_engine)
        with for_reading(source_engine).begin() as reading, for_writing(target_engine).begin() as writing:
            yield reading, writing
    except SQLAlchemyError as error:
        raise StoreUnreachable(f"the history does not answer: {getattr(error, 'orig', error)}") from error
    finally:
        source_engine.dispose()
        target_engine.dispose()


def _copy_tables(source: Connection, target: Connection) -> None:
    """Replace every row of every table, in the caller's transaction."""
    for table in _all_tables():
        target.execute(delete(table))
        all_rows = source.execution_options(yield_per=CHUNK).execute(select(table)).mappings()
        for rows in all_rows.partitions(CHUNK):
            target.execute(table.insert(), [dict(row) for row in rows])
