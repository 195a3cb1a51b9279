"""The tables of a warehouse, a few rows of one, and a summary of a whole relation: for people who set up a source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.sql.expression import FromClause

from monitor.core.records import ROUNDING
from monitor.warehouse.checks import Columns, Layout, OpenSource, relation_of
from monitor.warehouse.dates import has_zone
from monitor.warehouse.dialects import (
    DATED,
    EMPTY,
    ONE,
    ZERO,
    Dialect,
    Expression,
    Kind,
    Statement,
    everything,
    labelled,
)

_FINITE: Expression = sa.literal_column("1e300")  # beyond: infinite, or NaN, which engines sort last


@dataclass(frozen=True, slots=True)
class Survey:
    """A summary of all rows of a source, rejected ones included.

    ``first`` and ``last`` are the range of the dates by which rows are put into windows, of those between the years 1
    and 9999. ``unread`` counts values that are no dates, and ``unread_example`` is one of them. ``zone`` says whether
    dates have a time zone. ``least`` and ``greatest`` are the range of scores after ``score_scale``, None without
    scores. ``truths`` counts rows with an outcome, ``hits`` those with an outcome above 0. ``has_predicted`` says
    whether there is a column ``predicted``, and so on. ``above`` counts scores above 1, but for rounding.
    ``engine`` is the name of the dialect, and ``in_text`` whether the
    column of dates is text. ``replaced`` counts the rows beside these that a newer one of their item
    replaces, ``ties`` the items with several newest rows that say different things.
    """

    rows: int
    items: int
    labels: int
    first: datetime | None
    last: datetime | None
    unread: int
    unread_example: str | None
    zone: bool
    least: float | None
    greatest: float | None
    truths: int
    hits: int
    has_predicted: bool
    has_weight: bool = False
    has_cluster: bool = False
    above: int = 0
    engine: str = "duckdb"
    in_text: bool = True
    replaced: int = 0
    ties: int = 0


def survey(opened: OpenSource, layout: Layout) -> Survey:
    """Read the whole relation once."""
    (date, kind), dialect = layout[opened.source.window_on], opened.dialect
    found = dict(opened.connection.execute(_statement(date, kind, layout, dialect)).mappings().one())
    first, last, some_date = (found.pop(name) for name in ("first", "last", "some_date"))
    return Survey(
        rows=found.pop("rows_"),
        first=dialect.aware(first),
        last=dialect.aware(last),
        # by the type of the column, or by a value if dates are text
        zone=kind == "timestamptz" or (kind in ("text", "unknown", "other") and has_zone(some_date or "")),
        has_predicted="predicted" in layout,
        has_weight="weight" in layout,
        has_cluster="cluster" in layout,
        engine=dialect.name,
        in_text=kind == "text",
        **{"labels": 0, "least": None, "greatest": None} | found,
    )


def _statement(date: Expression, kind: Kind, layout: Layout, dialect: Dialect) -> Statement:
    instant = dialect.instant(date, kind)
    known = dialect.known_to_python(instant, kind)
    unread = sa.and_(date.is_not(None), instant.is_(None))
    actual = dialect.number(*layout["actual"])
    columns: dict[str, Expression] = {
        "rows_": sa.func.count(),
        "items": sa.func.count(sa.distinct(layout.expression("item"))),
        "first": sa.func.min(known),
        "last": sa.func.max(known),
        "some_date": sa.func.max(sa.case((instant.is_not(None), dialect.text(date)))),
        "unread": sa.func.count(sa.case((unread, ONE))),
        # the least, since digits come before letters: a date in another form before "unknown"
        "unread_example": sa.func.min(sa.func.nullif(sa.case((unread, dialect.text(date))), EMPTY)),
        "truths": sa.func.count(layout.expression("actual")),
        "hits": sa.func.count(sa.case((actual > ZERO, ONE))),
    }
    if "label" in layout:
        columns["labels"] = sa.func.count(sa.distinct(layout.expression("label")))
    if "score" in layout:
        score = dialect.number(*layout["score"])
        finite = sa.case((score.between(-_FINITE, _FINITE), score))
        columns |= {"least": sa.func.min(finite), "greatest": sa.func.max(finite)}
        above = finite > sa.literal_column(repr(1 + ROUNDING))
        columns["above"] = sa.func.count(sa.case((above, ONE)))
    return sa.select(*labelled(columns)).select_from(layout.relation)


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
        ColumnSample(name, kind, tuple(_decoded(value) for value in values if value is not None), len(rows))
        for (name, kind), values in zip(columns, by_column, strict=True)
    ]


def _decoded(value: Any) -> Any:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _readable(clause: FromClause, columns: Columns, dialect: Dialect) -> Statement:
    """All columns, without dates that Python does not have, such as PostgreSQL's infinity."""
    if not any(kind in DATED for _, kind in columns) or len({name for name, _ in columns}) < len(columns):
        return everything(clause)
    typed: list[tuple[Expression, Kind]] = [(sa.column(name, _selectable=clause), kind) for name, kind in columns]
    known = (
        dialect.known_to_python(dialect.instant(column, kind), kind) if kind in DATED else column
        for column, kind in typed
    )
    return sa.select(*(value.label(f"c{place}") for place, value in enumerate(known))).select_from(clause)


def _quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit() and name == name.lower()
    return name if plain else '"' + name.replace('"', '""') + '"'
