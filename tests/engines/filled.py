"""Tables of test rows in the engines that come as extras: ClickHouse in this process (chDB)."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from tests.conftest import TYPES, Rows, values

_numbers = itertools.count()


def _types(rows: Rows, types: Mapping[str, str]) -> dict[str, str]:
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(types)
    return {name: types.get(name, TYPES.get(name, "TEXT")) for name in names}


def _texts(rows: Rows, types: Mapping[str, str]) -> list[list[Any]]:
    """The values of the rows; drivers that take no number for a text get its text."""
    kinds = list(types.values())
    return [
        [str(value) if kind == "TEXT" and value is not None else value for kind, value in zip(kinds, row, strict=True)]
        for row in values(rows)
    ]


def _translated(statement: str, engine: str) -> str:
    """A statement of a test, which is in the SQL that DuckDB and PostgreSQL share, for another engine."""
    import sqlglot

    (found,) = sqlglot.transpile(statement, read="duckdb", write=engine)
    return found


# --- ClickHouse

CLICKHOUSE_TYPES = {
    "TEXT": "String", "DOUBLE PRECISION": "Float64", "TIMESTAMP WITH TIME ZONE": "DateTime64(6, 'UTC')",
    "TIMESTAMP": "DateTime64(6)", "INTEGER": "Int32", "SMALLINT": "Int16", "BIGINT": "Int64", "BOOLEAN": "Bool",
    "DATE": "Date32",
}  # fmt: skip


@cache
def clickhouse_client() -> Any:
    """The engine in this process: one for all tests, since a process can have no second."""
    import clickhouse_connect

    return clickhouse_connect.get_client(interface="chdb", path=":memory:")


def fill_clickhouse(rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into a database of its own and returns its address."""
    client, database = clickhouse_client(), f"test_{next(_numbers)}"
    client.command(f"CREATE DATABASE {database}")
    client.command(f"USE {database}")
    known = _types(rows, types)
    columns = ", ".join(f'"{name}" Nullable({CLICKHOUSE_TYPES.get(kind, kind)})' for name, kind in known.items())
    client.command(f"CREATE TABLE {table} ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    if rows:
        client.insert(table, _texts(rows, known), [name.replace('""', '"') for name in known])
    for statement in then:
        translated = _translated(statement, "clickhouse")
        client.command(f"{translated} ENGINE = Memory" if translated.startswith("CREATE TABLE") else translated)
    return f"chdb:///:memory:?database={database}"


# --- Spark

SPARK_TYPES = {
    "TEXT": "string", "DOUBLE PRECISION": "double", "TIMESTAMP WITH TIME ZONE": "timestamp",
    "TIMESTAMP": "timestamp_ntz", "INTEGER": "int", "DATE": "date", "BOOLEAN": "boolean", "SMALLINT": "smallint",
    "BIGINT": "bigint",
}  # fmt: skip
SPARK_MASTER = "local-cluster[2,1,1024]"
"""A driver and two workers, each a process of its own, so that rows are shuffled between them."""


@cache
def spark_session() -> Any:
    """One for all tests of this process; its tables are in a folder that ends with it."""
    import tempfile

    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"  # for its workers too, which are processes of their own
    folder = tempfile.mkdtemp(prefix="calmon-spark-")
    os.environ["SPARK_WORKER_DIR"] = folder
    settings = {
        "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": f"{folder}/tables", "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false",
    }  # fmt: skip
    session = SparkSession.builder.master(SPARK_MASTER).config(map=settings).getOrCreate()

    def end() -> None:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(end)
    return session


def fill_spark(rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into a database of its own and returns its address."""
    session, database = spark_session(), f"test_{next(_numbers)}"
    session.sql(f"CREATE DATABASE {database}")
    session.sql(f"USE {database}")
    known = {name.replace('""', '"'): kind for name, kind in _types(rows, types).items()}
    columns = ", ".join(f"`{name.replace('`', '``')}` {SPARK_TYPES.get(kind, kind)}" for name, kind in known.items())
    quoted = "`" + table[1:-1].replace('""', '"') + "`" if table.startswith('"') else table
    frame = session.createDataFrame([tuple(row) for row in _texts(rows, known)], columns)
    frame.coalesce(2).write.saveAsTable(quoted)
    for statement in then:
        session.sql(_translated(statement, "spark"))
    return f"spark:///{database}?master={SPARK_MASTER}"


# --- Snowflake

OCTET_LENGTH = "CREATE OR REPLACE MACRO octet_length(t) AS length(hex(t)) // 2"
"""A function of Snowflake that fakesnow does not translate."""
SNOWFLAKE_TYPES = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMP_TZ", "TIMESTAMP": "TIMESTAMP_NTZ"}


@cache
def ready_for_snowflake() -> None:
    """fakesnow in this process: Snowflake's driver and SQL, translated for a DuckDB in memory."""
    import fakesnow

    from monitor.warehouse.cloud import Snowflake

    Snowflake.limit = lambda *_: None  # type: ignore[method-assign]  # fakesnow knows no ALTER SESSION SET
    server = fakesnow.patch()
    server.__enter__()
    atexit.register(server.__exit__, None, None, None)


def fill_snowflake(rows: Rows, types: Mapping[str, str], table: str, then: Sequence[str]) -> str:
    """Writes the rows into a database of its own and returns its address."""
    import snowflake.connector

    ready_for_snowflake()
    database = f"TEST_{next(_numbers)}"
    known = _types(rows, types)
    with snowflake.connector.connect(database=database, schema="PUBLIC") as connection:
        cursor = connection.cursor()
        columns = ", ".join(f'"{name}" {SNOWFLAKE_TYPES.get(kind, kind)}' for name, kind in known.items())
        cursor.execute(f"CREATE TABLE {table} ({columns})")
        connection._duck_conn.execute(OCTET_LENGTH)
        named = table if table.startswith('"') else table.upper()
        if rows:  # by the DuckDB below: in the SQL of Snowflake there is no literal for NaN
            marks = ", ".join("?" * len(known))
            connection._duck_conn.executemany(f"INSERT INTO {named} VALUES ({marks})", _texts(rows, known))
        for statement in then:
            cursor.execute(_translated(statement, "snowflake"))
    return f"snowflake://monitor:unused@account/{database}/PUBLIC"


FILLED = {"clickhouse": fill_clickhouse, "spark": fill_spark, "snowflake": fill_snowflake}
"""By the name of the engine: what writes rows into a table, and gives the address."""
