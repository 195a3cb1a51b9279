"""The tables of a warehouse, and a few rows of one, for people who set up a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.warehouse.checks import Columns, OpenSource, relation_of
from monitor.warehouse.dialects import DATED, Dialect, Expression, Kind, Statement, everything

SAMPLE = 2_000
_SYSTEM = ("information_schema", "INFORMATION_SCHEMA", "pg_catalog", "pg_toast", "system")


@dataclass(frozen=True, slots=True)
class ColumnSample:
    """A column: its name, its kind, and its values other than NULL in ``rows`` rows."""

    name: str
    kind: Kind
    values: tuple[Any, ...]
    rows: int


def table_names(connection: sa.Connection, dialect: Dialect) -> list[str]:
    """Tables and views as ``relation`` would name them, sorted, without those of the engine."""
    if dialect.name == "sqlite":
        master = sa.table("sqlite_master", sa.column("name"), sa.column("type"))
        kinds = master.c.type.in_(("table", "view"))
        names = sa.select(master.c.name).where(kinds, sa.not_(master.c.name.startswith("sqlite_", autoescape=True)))
        return sorted(_quoted(name) for (name,) in connection.execute(names))
    usual = dialect.default_schema(connection)  # first: DuckDB has one result at a time
    tables = sa.table("tables", sa.column("table_schema"), sa.column("table_name"), schema="information_schema")
    rows = connection.execute(
        sa.select(tables.c.table_schema, tables.c.table_name).where(tables.c.table_schema.not_in(_SYSTEM))
    )
    return sorted(_quoted(name) if schema == usual else f"{_quoted(schema)}.{_quoted(name)}" for schema, name in rows)


def samples(opened: OpenSource) -> Sequence[ColumnSample]:
    """The columns of a relation, with their values in the first rows that the engine gives. Raises RelationError."""
    connection, dialect, relation = opened.connection, opened.dialect, relation_of(opened)
    clause = dialect.at_hand(connection, relation)
    columns = dialect.columns(connection, relation, clause)
    rows = connection.execute(_readable(clause, columns, dialect).limit(SAMPLE)).all()
    by_column = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    return [
        ColumnSample(name, kind, tuple(map(_decoded, (value for value in values if value is not None))), len(rows))
        for (name, kind), values in zip(columns, by_column, strict=True)
    ]


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _readable(clause: FromClause, columns: Columns, dialect: Dialect) -> Statement:
    """All columns, without dates that Python does not have, such as PostgreSQL's infinity."""
    if not any(kind in DATED for _, kind in columns) or len({name for name, _ in columns}) < len(columns):
        return everything(clause)
    taken: list[Expression] = []
    for name, kind in columns:
        column: Expression = sa.column(name, _selectable=clause)
        of_date = kind in DATED
        taken.append(dialect.known_to_python(dialect.instant(column, kind), kind) if of_date else column)
    return sa.select(*(column.label(f"c{place}") for place, column in enumerate(taken))).select_from(clause)


def _quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
