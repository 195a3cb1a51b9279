"""A new history with the tables that the migrations make, without running the migrations again.

The real migrations run once in each process. Tests of migrations call :data:`REAL`, or begin with tables of an older
revision.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import psycopg
import sqlalchemy as sa

from monitor.history import identity, schema
from monitor.history.connect import for_writing, one_at_a_time, open_engine, store_url

REAL = schema.upgrade
#: What the migrations executed in the first empty PostgreSQL schema of this process.
RECORDED: list[str] = []
RELATIONS = "SELECT 1 FROM pg_class WHERE relnamespace = current_schema()::regnamespace"


def upgrade(engine: sa.Engine, *, by_operator: bool = False) -> None:
    """Like :func:`monitor.history.schema.upgrade`, but an empty database gets the recorded result."""
    if engine.dialect.name == "sqlite" and _from_made(engine, by_operator):
        return
    if engine.dialect.name == "postgresql" and RECORDED and _from_recorded(engine, by_operator):
        return
    with _recording(engine):
        REAL(engine, by_operator=by_operator)


def _from_recorded(engine: sa.Engine, by_operator: bool) -> bool:
    """Whether the schema was empty. If so, it now has its tables, from one call of the server, and its own id."""
    with for_writing(engine).begin() as connection:
        one_at_a_time(connection, "schema")
        if connection.exec_driver_sql(RELATIONS).first() is not None:
            return False
        connection.exec_driver_sql(";\n".join(RECORDED).replace("%", "%%"))
        connection.exec_driver_sql("UPDATE history SET history_id = %s", (str(uuid.uuid4()),))
        if by_operator:
            identity.vouch(connection)
        return True


def _is_empty(engine: sa.Engine) -> bool:
    with engine.connect() as connection:
        return connection.exec_driver_sql(RELATIONS).first() is None


@contextmanager
def _recording(engine: sa.Engine) -> Iterator[None]:
    """Record the migrations' changes of an empty schema in :data:`RECORDED`, when all are done."""
    if RECORDED or engine.dialect.name != "postgresql" or not _is_empty(engine):
        yield
        return
    found: list[str] = []

    def note(connection: sa.Connection, _cursor: Any, statement: str, values: Any, _context: Any, many: bool) -> None:
        if not statement.lstrip().upper().startswith("SELECT"):
            driver = psycopg.ClientCursor(connection.connection.driver_connection)
            found.extend(driver.mogrify(statement, each) for each in (values if many else [values]))

    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield
        RECORDED[:] = found
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


def _from_made(engine: sa.Engine, by_operator: bool) -> bool:
    """Whether the database was empty. If so, it now has its tables, all or none, and its own id."""
    with for_writing(engine).begin() as connection:
        if connection.exec_driver_sql("SELECT 1 FROM sqlite_master").first() is not None:
            return False
        tables, rows, others = _made()
        for statement in tables:
            connection.exec_driver_sql(statement)
        for statement, values in rows:
            connection.exec_driver_sql(statement, values)
        connection.exec_driver_sql("UPDATE history SET history_id = ?", (str(uuid.uuid4()),))
        for statement in others:
            connection.exec_driver_sql(statement)
        if by_operator:
            identity.vouch(connection)
        return True


@cache
def _made() -> tuple[list[str], list[tuple[str, tuple[object, ...]]], list[str]]:
    """The statements for the tables, rows, indexes, views and triggers of an empty history."""
    engine = open_engine(store_url("sqlite://"))
    REAL(engine)
    with engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY rowid"
        ).all()
        tables = {name: sql for kind, name, sql in found if kind == "table"}
        rows = [
            (f'INSERT INTO "{name}" VALUES ({", ".join("?" * len(row))})', tuple(row))
            for name in tables
            for row in connection.exec_driver_sql(f'SELECT * FROM "{name}"')
        ]
    engine.dispose()
    return list(tables.values()), rows, [sql for kind, _, sql in found if kind != "table"]
