"""The engines that can be a warehouse: their dialects, and how each is opened for reading only."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, exc
from sqlalchemy.pool import NullPool

from monitor.config.relation import is_files
from monitor.core.sessions import use_iso_dates
from monitor.warehouse.clickhouse import ChDB, ClickHouse, chdb_engine, clickhouse_engine
from monitor.warehouse.cloud import BigQuery, Redshift, Snowflake, Trino, plain_engine, snowflake_engine
from monitor.warehouse.confined import confine
from monitor.warehouse.dialects import Dialect
from monitor.warehouse.duckdb import DuckDB
from monitor.warehouse.postgresql import BINARY, PostgreSQL
from monitor.warehouse.spark import Spark, databricks_engine, spark_engine
from monitor.warehouse.sqlite import SQLite, add_functions
from monitor.warehouse.sqlite_files import check_at_rest, open_for_reading

CONNECT_TIMEOUT_S = 10
_POSTGRES_MEMORY = """\
SELECT set_config('work_mem', '64MB', false) FROM pg_catalog.pg_settings
WHERE name = 'work_mem' AND setting::bigint < 65536 AND source IN ('default', 'configuration file')"""
"""With the default of 4 MB the sums of 100,000 items use temporary files and take 1.5 times as long.

A value that the owner set for the role, the database or the address is kept.
"""
KEEPS_FOR = "relations"
"""The key of a connection's ``info`` for the sorted relations that it may read while it is open, or None."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """One kind of address: its dialect, how it is opened, and the extra that installs its driver."""

    dialect: Dialect
    opened: Callable[[sa.URL, set[str]], sa.Engine]
    extra: str | None = None


def _duckdb_engine(url: sa.URL, relations: set[str]) -> sa.Engine:
    import duckdb_engine  # noqa: PLC0415 - takes long to import, as duckdb does

    duckdb_engine.Dialect.supports_statement_cache = True  # else long statements are compiled again for each window
    only_files = bool(relations) and all(map(is_files, relations)) and not Path(url.database or "").exists()
    in_memory = url.database in (None, "", ":memory:") or only_files
    url = url.set(database=":memory:") if in_memory else url
    # No pool: an open file locks its one writer out, so it is open only while it is read
    engine = sa.create_engine(url, poolclass=NullPool, connect_args={} if in_memory else {"read_only": True})

    def prepared(connection: Any, record: Any) -> None:
        connection.execute("SET enable_progress_bar = false")  # DuckDB would draw one on the output of a worker process
        named = sorted(relations)
        record.info[KEEPS_FOR] = named if confine(connection, named) else None

    event.listen(engine, "connect", prepared)
    return engine


def _sqlite_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    file = None if url.database in (None, "", ":memory:") else Path(url.database or "").absolute()

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(":memory:", isolation_level=None) if file is None else open_for_reading(file)
        add_functions(connection)
        return connection

    def still_at_rest(connection: sa.Connection) -> None:
        try:
            check_at_rest(connection.connection.driver_connection)
        except sqlite3.Error as error:
            raise exc.OperationalError("COMMIT", None, error) from error

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    event.listen(engine, "commit", still_at_rest)
    return engine


def _postgres_engine(url: sa.URL, _: set[str]) -> sa.Engine:
    # TCP notices a server that is gone; without it a cancelled query would still be waited for
    given: dict[str, Any] = {"connect_timeout": CONNECT_TIMEOUT_S, "keepalives_idle": 60, "keepalives_interval": 10}
    given["prepare_threshold"] = None  # what is prepared fails once a column of its table has another type
    engine = sa.create_engine(
        url.set(drivername="postgresql+psycopg"),
        pool_size=2,
        pool_pre_ping=True,
        isolation_level="REPEATABLE READ",
        connect_args={name: value for name, value in given.items() if name not in url.query},
    )

    def prepared(connection: Any, _: Any) -> None:
        use_iso_dates(connection)
        connection.execute("SET TIME ZONE 'UTC'")
        connection.execute(_POSTGRES_MEMORY)
        connection.commit()

    def formatted(_: Any, cursor: Any, _sql: str, _values: Any, context: Any, _many: bool) -> None:
        if context is not None and context.execution_options.get(BINARY):
            cursor.format = 1  # psycopg.pq.Format.BINARY

    event.listen(engine, "connect", prepared)
    event.listen(engine, "before_cursor_execute", formatted)
    return engine.execution_options(postgresql_readonly=True)


ENGINES: Mapping[str, EngineKind] = {
    "duckdb": EngineKind(DuckDB(), _duckdb_engine),
    "sqlite": EngineKind(SQLite(), _sqlite_engine),
    "postgresql": EngineKind(PostgreSQL(), _postgres_engine),
    "clickhouse": EngineKind(ClickHouse(), clickhouse_engine, extra="clickhouse"),
    "spark": EngineKind(Spark(), spark_engine, extra="spark"),
    "databricks": EngineKind(Spark(), databricks_engine, extra="spark"),
    "snowflake": EngineKind(Snowflake(), snowflake_engine, extra="snowflake"),
    "bigquery": EngineKind(BigQuery(), plain_engine, extra="bigquery"),
    "redshift": EngineKind(Redshift(), plain_engine, extra="redshift"),
    "trino": EngineKind(Trino(), plain_engine, extra="trino"),
    "chdb": EngineKind(ChDB(), chdb_engine, extra="chdb"),
}
"""The engines by the kind of address, which is the part before ``://``."""

OTHER_NAMES: Mapping[str, str] = {"postgres": "postgresql", "clickhousedb": "clickhouse"}
"""Other names of kinds, which some tools use."""
