"""Connections to the history database: SQLite in a file, or PostgreSQL through psycopg 3.

SQLite runs in WAL mode, so that readers never wait for the one writer. A writing transaction
begins with BEGIN IMMEDIATE: it waits for the lock at its start, and cannot fail in the middle for lack of it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from datetime import datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from time import monotonic, sleep
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

from sqlalchemy import (
    Connection,
    Delete,
    Engine,
    Executable,
    Insert,
    RowMapping,
    Select,
    Table,
    Update,
    bindparam,
    create_engine,
    event,
    func,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from monitor.core.records import Subject, Window
from monitor.core.sessions import use_iso_dates
from monitor.core.windows import LENGTH
from monitor.history.errors import Ambiguous, LostRace, NotFound, WrongStoreAddress
from monitor.history.values import ANY, LabelFilter, plain

BUSY_TIMEOUT_MS = 30_000
WAL_RETRY_S = 0.02
CONNECT_TIMEOUT_S = 10
_SHOWN_CANDIDATES = 5
_IN_MEMORY = (None, "", ":memory:")
Row = dict[str, Any]
R = TypeVar("R")
S = TypeVar("S", Select[Any], Delete, Update)
Between: TypeAlias = tuple[datetime, datetime] | None
"""The starts of the first and the last window, both included; None: all windows."""


def store_url(url: str) -> URL:
    """The address with our driver: psycopg 3 for ``postgresql://``. Raises WrongStoreAddress.

    >>> store_url("postgresql://calmon@db/history").drivername
    'postgresql+psycopg'
    """
    try:
        # Hosting services give `postgres://` addresses, which SQLAlchemy no longer accepts.
        parsed = make_url(f"postgresql{url[8:]}" if url.startswith("postgres://") else url)
    except (ArgumentError, ValueError):  # a ValueError would show the text at the port's place: part of a password
        remedy = "write it like sqlite:///var/history.sqlite, and @ : / in a password as %40 %3A %2F"
        raise WrongStoreAddress(f"CALMON_STORE_URL is not a URL; {remedy}") from None
    backend = parsed.get_backend_name()
    if backend not in ("sqlite", "postgresql"):
        raise WrongStoreAddress(f"CALMON_STORE_URL: the history lives in SQLite or PostgreSQL, not in {backend}")
    return parsed.set(drivername={"postgresql": "postgresql+psycopg", "sqlite": "sqlite"}[backend])


def database_file(url: URL) -> Path | None:
    """The file of a SQLite address; None if it has no file on disk."""
    name = url.database
    if url.get_backend_name() != "sqlite" or name in _IN_MEMORY or name is None or name.startswith("file:"):
        return None
    return Path(name)


def open_engine(url: URL) -> Engine:
    """An engine that connects on first use."""
    if url.get_backend_name() == "postgresql":
        timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_TIMEOUT_S}
        engine = create_engine(url, pool_pre_ping=True, connect_args=timeout, json_serializer=_json)
        event.listen(engine, "connect", lambda connection, _: use_iso_dates(connection))
        return engine
    engine = create_engine(url, json_serializer=_json)
    event.listen(engine, "connect", _prepare_sqlite)
    event.listen(engine, "begin", _begin_sqlite)
    return engine


def _json(value: Any) -> str:
    """JSON without spaces, to save bytes. The value may have what JSON has not: see :func:`plain`."""
    return json.dumps(plain(value), separators=(",", ":"))


def for_reading(engine: Engine) -> Engine:
    """Transactions that read one snapshot while others write. In WAL mode SQLite does so by itself."""
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return engine


def for_writing(engine: Engine) -> Engine:
    """Transactions that take SQLite's write lock at their start. In PostgreSQL a statement sees what is stored by then.

    So one after a lock sees what those have stored for which it waited, whatever the database's own default.
    """
    if engine.dialect.name == "postgresql":
        return engine.execution_options(isolation_level="READ COMMITTED")
    return engine.execution_options(calmon_writes=True)


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver must not begin transactions by itself
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    _write_ahead(connection, until=monotonic() + BUSY_TIMEOUT_MS / 1000)


def _write_ahead(connection: Any, until: float) -> None:
    """Switch the file to WAL. Tries again while another connection uses the file.

    SQLite needs an exclusive lock to change the journal mode. While another connection uses the file, it
    answers "database is locked" at once, without its busy timeout.
    """
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or monotonic() > until:
                raise
            sleep(WAL_RETRY_S)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("calmon_writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def one_at_a_time(connection: Connection, what: str) -> None:
    """Take the lock named ``what`` until the end of this transaction; others that ask for it wait.

    SQLite has only one writer. PostgreSQL uses an advisory lock, so that two runs that replace
    the rows of one window cannot mix them.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock(_key_of(what))))


def beside_others(connection: Connection, what: str) -> None:
    """Share the lock named ``what`` until the end of this transaction: :func:`one_at_a_time` waits, and is waited for.

    In SQLite nothing is to be done: a transaction that writes has the only lock from its start.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(func.pg_advisory_xact_lock_shared(_key_of(what))))


def _key_of(what: str) -> int:
    return crc32(f"calmon {what}".encode())


def insert_missing(connection: Connection, table: Table) -> Insert:
    """INSERT ... ON CONFLICT DO NOTHING. The rows are passed at execution."""
    return _insert_missing(connection.dialect.name, table)


@cache
def _insert_missing(dialect: str, table: Table) -> Insert:
    return _inserts_missing(dialect)(table)


def is_added(connection: Connection, table: Table, row: Row) -> bool:
    """Insert a row unless its key exists. Returns whether it was inserted."""
    return connection.execute(_add_one(connection.dialect.name, table), row).first() is not None


@cache
def _add_one(dialect: str, table: Table) -> Executable:
    return _insert_missing(dialect, table).returning(*table.primary_key)


@cache
def _inserts_missing(dialect: str) -> type[Insert]:
    """An INSERT class whose SQL is cached. SQLAlchemy compiles a dialect's own INSERT each time, which takes 1 ms."""
    module = import_module(f"sqlalchemy.dialects.{dialect}.dml")
    do_nothing = type("DoNothing", (module.OnConflictDoNothing,), {"inherit_cache": True, "_traverse_internals": []})
    return type("InsertMissing", (module.Insert,), {"inherit_cache": True, "_post_values_clause": do_nothing()})


def row_of(table: Table, record: Any, **stored: Any) -> Row:
    """The row of a record: each column gets the field of its name, or its value in ``stored``.

    A number that the database generates is left out.
    """
    if hasattr(record, "subject"):
        stored = about(record.window, record.subject) | stored
    return {name: stored[name] if name in stored else getattr(record, name) for name in _given(table)}


@cache
def _given(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.columns if column.autoincrement is not True)


def about(window: Window, subject: Subject) -> Row:
    """The columns that say which window and subject a row is about."""
    return at_window(window) | {"source": subject.source, "label": subject.label, "segment": subject.segment}


def at_window(window: Window) -> Row:
    """The columns that say which window a row is about."""
    at = {"schedule": window.schedule, "window_start": window.start, "window_end": window.end}
    return at | {"window_name": window.name}


def record_of(kind: type[R], row: Mapping[str, Any] | RowMapping, **given: Any) -> R:
    """The record of a row: each field gets the column of its name, or its value in ``given``; others their default."""
    names = _fields(kind)  # type: ignore[arg-type]  # a class is hashable
    if "subject" in names:
        subject = Subject(row["source"], row["label"], row.get("segment"))
        given = {"subject": subject, "window": window_of(row), **given}
    return kind(**{name: value for name, value in row.items() if name in names} | given)


@cache
def _fields(kind: type) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


def window_of(row: Mapping[str, Any] | RowMapping) -> Window:
    """The window that a row is about; if its ``window_end`` is None (no run is stored), it has the usual length."""
    start: datetime = row["window_start"]
    return Window(start, row["window_end"] or start + LENGTH[row["schedule"]], row["window_name"], row["schedule"])


def records(connection: Connection, kind: type[R], statement: Executable) -> list[R]:
    """The records of the rows of a statement."""
    return [record_of(kind, row) for row in connection.execute(statement).mappings()]


def filtered(statement: S, table: Table, label: LabelFilter = ANY, between: Between = None, **equals: Any) -> S:
    """The rows of one label, of the windows in ``between``, whose columns have these values, or one of several.

    A value of None means any.
    """
    values = {name: value for name, value in equals.items() if value is not None}
    values |= {} if label is ANY else {"label": label}
    conditions = [
        table.c[name].in_(value)
        if isinstance(value, Sequence | Set) and not isinstance(value, str)
        else table.c[name] == value
        for name, value in values.items()
    ]
    return statement.where(*conditions, *([] if between is None else [table.c.window_start.between(*between)]))


def put_versions(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Write rows, each if the version before its own is still stored (version 1: if no row is).

    Raises :class:`LostRace` if one is not. Changed rows come before new ones, for which they may make room.
    """
    new = [row for row in rows if row["version"] == 1]
    keys = [column.name for column in table.primary_key]
    changed = [
        row | {f"key_{key}": row[key] for key in keys} | {"version_before": row["version"] - 1}
        for row in rows
        if row["version"] > 1
    ]
    parts = ((_update_version(table), changed), (insert_missing(connection, table), new))
    counted = {"preserve_rowcount": True}  # else psycopg does not say how many rows an INSERT added
    done = (connection.execute(each, part, execution_options=counted).rowcount for each, part in parts if part)
    if sum(done) != len(rows):
        raise LostRace


@cache
def _update_version(table: Table) -> Update:
    keys = [column == bindparam(f"key_{column.name}") for column in table.primary_key]
    return update(table).where(*keys, table.c.version == bindparam("version_before"))


def row_by_id(connection: Connection, table: Table, what: str, prefix: str, hint: str = "") -> RowMapping:
    """The row whose id is, or begins with, ``prefix``. Raises NotFound or Ambiguous, which name it a ``what``."""
    exact = connection.execute(select(table).where(table.c.id == prefix)).mappings().first()
    if exact is not None:
        return exact
    begins = select(table).where(table.c.id.startswith(prefix, autoescape=True)).order_by(table.c.id)
    found = connection.execute(begins.limit(_SHOWN_CANDIDATES)).mappings().all()
    if not found:
        raise NotFound(f"no {what} has an id that begins with {prefix!r}{hint}")
    if len(found) > 1:
        raise Ambiguous(f"several {what}s begin with {prefix!r}: {', '.join(row['id'] for row in found)} ...")
    return found[0]


def add_missing(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert the rows whose keys do not exist yet. Leaves existing rows as they are."""
    if rows:
        connection.execute(insert_missing(connection, table), rows)


def put(connection: Connection, table: Table, row: Row, on_conflict: Mapping[str, Any] | None = None) -> None:
    """Insert one row, or update the one with its primary key. ``on_conflict``: column -> expression for the update."""
    # imported here: a process with a SQLite history need not wait for PostgreSQL's dialect
    dialect = import_module(f"sqlalchemy.dialects.{connection.dialect.name}")
    statement = dialect.insert(table).values(row)
    keys = [column.name for column in table.primary_key]
    renewed = {name: statement.excluded[name] for name in row if name not in keys} | dict(on_conflict or {})
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=renewed))
