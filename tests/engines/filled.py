"""Tables of test rows in the engines that come as extras: ClickHouse in this process (chDB)."""

from __future__ import annotations

import itertools
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


FILLED = {"clickhouse": fill_clickhouse}
"""By the name of the engine: what writes rows into a table, and gives the address."""
