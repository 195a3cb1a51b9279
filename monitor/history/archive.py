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
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from time import monotonic

from sqlalchemy import Connection, Engine, delete, func, select, text
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
    row_of,
    store_url,
)
from monitor.history.errors import HistoryDamaged, StoreMissing, StoreUnreachable
from monitor.history.marker import marker_file, read_marker, write_marker
from monitor.history.reader import REVISION, revision_of
from monitor.history.switches import gate_events

CHUNK = 2_000
_NUMBERED = (("switch_events", "id"), ("publications", "sequence"))
"""(table, column) of the numbers that the database generates."""
BUSY_S = 30.0
OLD_DRAFT_S = 24 * 3600.0
_DAMAGE = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR})
"""Primary results of SQLite that say something of the file's content; the others say something of its surroundings."""
_LOCKS = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_RIGHTS = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM})


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking a history. ``problems`` is empty if it is sound."""

    revision: str | None
    identity: Identity | None
    rows: dict[str, int]
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
    """Check a history: whether all of it can be read, its identity, and the rows of each table. Changes nothing.

    Raises StoreMissing, and StoreUnreachable for a file that is locked, or that this user may not open.
    """
    address = store_url(url)
    file = database_file(address)
    problems = [] if file is None else _damage(_existing(file))
    if problems:
        return Checked(None, None, {}, tuple(problems))
    seen = read_marker(marker_file(address))  # first: it must not be newer than what is read
    engine = open_engine(address)
    try:
        with for_reading(engine).begin() as connection:
            return _look(connection, seen)
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", None) or type(error).__name__
        return Checked(None, None, {}, (f"it cannot be read: {cause}",))
    finally:
        engine.dispose()


def _look(connection: Connection, seen: Recorded | None) -> Checked:
    revision = revision_of(connection)
    if revision is None:
        return Checked(None, None, {}, ("there is no history in it: `calmon db upgrade` makes one",))
    if revision != REVISION:
        return Checked(revision, None, {}, (f"schema revision {revision}, this program needs {REVISION}",))
    found = replace(identity.read(connection), seen=seen)
    problems = []
    if not found.confirmed:
        problems.append(f"not confirmed, so every gate is closed: {found.why}")
    elif found.is_mixed:
        problems.append("an older copy under the journal (-wal) of a newer one; restore it with `calmon db restore`")
    elif seen is not None and found.went_back:
        problems.append(f"an older copy: version {found.mark.version}, and {seen.mark.version} was there before")
    rows = {
        t.name: int(connection.scalar(select(func.count()).select_from(t)) or 0) for t in tables.metadata.sorted_tables
    }
    return Checked(revision, found, rows, tuple(problems))


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
    _remove_old_drafts(draft)
    try:
        yield draft
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)


def _remove_old_drafts(draft: Path) -> None:
    """Remove what killed commands left in the folder of a new draft: files much older than it, by the disk's clock."""
    now = draft.stat().st_mtime
    for each in draft.parent.glob(".calmon-*.sqlite*"):
        with suppress(OSError):  # somebody else's, in a folder that many write in
            if now - each.stat().st_mtime > OLD_DRAFT_S:
                each.unlink()


def _copy_file(source: Path, target: Path) -> None:
    """Copy by SQLite's backup interface. It includes what is only in the journal; the copy has no journal."""
    try:
        with closing(sqlite3.connect(source, timeout=BUSY_S)) as before, closing(sqlite3.connect(target)) as after:
            _copy_pages(before, after)
            after.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            raise HistoryDamaged(f"{source} cannot be read as SQLite: {error}") from error
        raise _refused(error, source, into=target) from error


def _copy_pages(source: sqlite3.Connection, target: sqlite3.Connection) -> None:
    """SQLite's backup interface, which by itself waits for a lock for ever."""
    until = monotonic() + BUSY_S

    def give_up(status: int, _remaining: int, _total: int) -> None:
        if status in _LOCKS and monotonic() > until:
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = status
            raise error

    source.backup(target, progress=give_up, sleep=0.05)


def _is_damage(error: sqlite3.Error) -> bool:
    """Whether an error says that the file itself is damaged: those without a result of SQLite are of its text."""
    code = getattr(error, "sqlite_errorcode", None)
    return code is None or code & 0xFF in _DAMAGE


def _refused(error: sqlite3.Error, file: Path, *, into: Path | None = None) -> StoreUnreachable:
    """Why SQLite could not use a sound ``file``, or write a copy ``into`` another, with what to do."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _LOCKS:
        return StoreUnreachable(
            f"the history is in use: another process keeps {file} locked; try again when it has ended"
        )
    if code == sqlite3.SQLITE_FULL:
        return StoreUnreachable(f"there is no room left in {(into or file).absolute().parent}")
    if code in _RIGHTS:
        needs = f"this user must be allowed to write to it and to {file.absolute().parent}, where its journal (-wal) is"
        return StoreUnreachable(f"{file} cannot be opened: {error}; {needs}")
    return StoreUnreachable(f"{file} cannot be used: {error}")


def _damage(file: Path) -> list[str]:
    """What is wrong with the content of a file. Raises StoreUnreachable if it is locked, or cannot be opened."""
    try:
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as connection:
            lines = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(5)")]
    except sqlite3.DatabaseError as error:
        if _is_damage(error):
            return [f"it cannot be read as SQLite: {error}"]
        raise _refused(error, file) from error
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
            return [row_of(tables.switch_events, each) for each in gate_events(connection)]
    except (SQLAlchemyError, sqlite3.Error, ValueError):
        return []
    finally:
        engine.dispose()


def _prepare(draft: Path, gates: Sequence[Row], *, why: str, by: str, now: datetime, beyond: int) -> Identity:
    """Upgrade the copy to this program's schema, add the events about all gates, and mark it as not confirmed."""
    engine = open_engine(store_url(f"sqlite:///{draft}"))
    try:
        with _without_statements(draft):
            with for_reading(engine).begin() as connection:
                revision = revision_of(connection)
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
    aside = _set_aside(target) if target.exists() and _damage(target) else {}
    try:
        with closing(sqlite3.connect(draft)) as before, closing(sqlite3.connect(target, timeout=BUSY_S)) as after:
            _copy_pages(before, after)
    except sqlite3.DatabaseError as error:
        for part, kept in aside.items():
            kept.replace(part)
        raise _refused(error, target) from error


def _set_aside(file: Path) -> dict[Path, Path]:
    """Rename a damaged history and its journal to ``.damaged``: the name before -> the name now."""
    parts = (file.with_name(file.name + ending) for ending in ("-wal", "-shm", ""))
    moved = {part: part.with_name(f"{part.name}.damaged") for part in parts if part.exists()}
    for part, kept in moved.items():
        part.replace(kept)
    return moved


def _copy_out(address: URL, draft: Path) -> None:
    """Copy every row from PostgreSQL. Raises SchemaOutdated for tables of another revision."""
    with (
        _engines(address, store_url(f"sqlite:///{draft}")) as (source_engine, target_engine),
        for_reading(source_engine).begin() as source,
    ):
        found = revision_of(source)
        if found is None:
            raise StoreMissing("there are no tables of a history in this database")
        schema.refuse_other_revision(found)
        schema.upgrade(target_engine)
        with for_writing(target_engine).begin() as target:
            _copy_tables(source, target)
    with closing(sqlite3.connect(draft)) as plain:
        plain.execute("PRAGMA journal_mode = DELETE")


def _copy_in(draft: Path, address: URL) -> None:
    with _engines(store_url(f"sqlite:///{draft}"), address) as (source_engine, target_engine):
        schema.upgrade(target_engine)
        with for_reading(source_engine).begin() as source, for_writing(target_engine).begin() as target:
            for lock in (schema.LOCK, "thresholds"):
                one_at_a_time(target, lock)
            _copy_tables(source, target)
            # the next generated numbers follow the copied ones
            for name, number in _NUMBERED:
                newest = f"(SELECT coalesce(max({number}), 0) + 1 FROM {name})"
                target.execute(text(f"SELECT setval(pg_get_serial_sequence('{name}', '{number}'), {newest}, false)"))


@contextmanager
def _engines(source: URL, target: URL) -> Iterator[tuple[Engine, Engine]]:
    """Engines of PostgreSQL and a SQLite file, either way. Their errors become HistoryErrors."""
    source_engine, target_engine = open_engine(source), open_engine(target)
    served = source_engine if source_engine.dialect.name == "postgresql" else target_engine
    try:
        with (
            _without_statements(database_file(target) or database_file(source)),
            schema.explained(served, schema.missing_grant),
        ):
            yield source_engine, target_engine
    finally:
        source_engine.dispose()
        target_engine.dispose()


@contextmanager
def _without_statements(file: Path | None) -> Iterator[None]:
    """Raise StoreUnreachable for errors of SQLAlchemy, with the driver's words; ``file`` is the SQLite file, if any."""
    try:
        yield
    except SQLAlchemyError as error:
        cause = getattr(error, "orig", error)
        if isinstance(cause, sqlite3.Error) and file is not None:
            raise _refused(cause, file) from error
        raise StoreUnreachable(f"the history does not answer: {cause}") from error


def _copy_tables(source: Connection, target: Connection) -> None:
    """Replace every row of the tables, in the caller's transaction."""
    for each in tables.metadata.sorted_tables:
        target.execute(delete(each))
        all_rows = source.execution_options(yield_per=CHUNK).execute(select(each)).mappings()
        for rows in all_rows.partitions(CHUNK):
            target.execute(each.insert(), [dict(row) for row in rows])
