"""Scores that are computed in this process, from arrays that databases read in different ways.

The rows of the window are fetched in chunks, get their score (see ``score_construction``), and are written to a DuckDB
database in memory. The usual statements run there, so rejected rows, duplicates, counts and segments mean the same as
in other sources.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from monitor.config.model import ScoreFrom
from monitor.config.relation import TableName
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.dates import instant_of
from monitor.warehouse.dialects import FIRST, NUMERIC, Kind
from monitor.warehouse.duckdb import DuckDB
from monitor.warehouse.relation import from_clause
from monitor.warehouse.score_construction import CONSTRUCTIONS, BadArray
from monitor.warehouse.statements import Asked, Rows, Statements

CHUNK = 50_000
_TABLE = "scored"
_DATES = ("resolved_at", "predicted_at")
_NUMBERS = ("score", "actual", "predicted", "weight")


@contextmanager
def localised(rows: Rows[Asked]) -> Iterator[Rows[Asked]]:
    """The same rows; of a source whose scores are made, a copy with its scores, which exists within the block only."""
    plain = rows.statements
    made = plain.source.score
    if made is None:
        yield rows
        return
    names = ["score" if name == made.source else name for name in plain.layout.columns]
    in_copy = {name: Column(f"c{place}", _kind(plain, name)) for place, name in enumerate(names)}
    layout = Layout(from_clause(TableName((_TABLE,))), in_copy)
    engine = sa.create_engine("duckdb:///:memory:", poolclass=NullPool)
    try:
        with engine.connect() as local, local.begin():
            local.exec_driver_sql("SET TimeZone = 'UTC'")
            kinds = {"number": "DOUBLE", "text": "VARCHAR"}
            columns = ", ".join(f"{column.name} {kinds[column.kind]}" for column in layout.columns.values())
            local.exec_driver_sql(f"CREATE TABLE {_TABLE} ({columns})")
            chunked = rows.connection.execution_options(yield_per=CHUNK)
            result = chunked.execute(plain.raw(tuple(plain.layout.columns)))
            for part in result.partitions(CHUNK):
                _insert(local, layout, _scored([tuple(row) for row in part], plain, made))
            config = plain.source.model_copy(update={"score": None, "columns": {}})
            yield Rows(local, replace(plain, source=config, layout=layout, dialect=DuckDB()))
    finally:
        engine.dispose()


def _kind(plain: Statements, name: str) -> Kind:
    if name in _NUMBERS:
        return "number"
    kind = plain.layout.columns[name].kind
    is_feature = name in plain.source.features and kind in NUMERIC
    return "number" if is_feature else "text"


def _scored(rows: Sequence[Sequence[Any]], plain: Statements, made: ScoreFrom) -> dict[str, list[Any]]:
    """The columns of some rows by canonical name: dates as ISO text; scores, NaN if an array gives none."""
    columns = dict(zip(plain.layout.columns, map(list, zip(*rows, strict=True)), strict=True))
    found = map(CONSTRUCTIONS[made.method].score, columns.pop(made.source))
    none = {BadArray.MISSING: None}
    columns["score"] = [none.get(each, math.nan) if isinstance(each, BadArray) else each for each in found]
    for name in _DATES:
        if name in columns:
            columns[name] = [_date_text(value) for value in columns[name]]
    return columns


def _date_text(value: Any) -> str | None:
    """A date as ISO text, of seconds since 1970 too, as SQLite stores dates. The first date stands for earlier ones."""
    if isinstance(value, datetime) and value.replace(tzinfo=UTC) == FIRST:
        return "before the year 1"
    if isinstance(value, datetime | date):
        return value.isoformat()
    moment = instant_of(value) if isinstance(value, int | float) else None
    if moment is not None:
        return moment.isoformat()
    return None if value is None else str(value)


def _insert(local: sa.Connection, layout: Layout, columns: dict[str, list[Any]]) -> None:
    """Add rows as texts, of which DuckDB makes what each column has: so NaN and NULL stay apart."""
    import pandas as pd  # noqa: PLC0415 - takes long to import, and most commands read no warehouse

    driver: Any = local.connection.driver_connection
    texts = ([None if value is None else str(value) for value in columns[name]] for name in layout.columns)
    frame = pd.DataFrame({place: pd.Series(values, dtype="object") for place, values in enumerate(texts)})
    driver.register("chunk", frame.add_prefix("c"))
    driver.execute(f"INSERT INTO {_TABLE} SELECT * FROM chunk")
    driver.unregister("chunk")
