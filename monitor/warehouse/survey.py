"""A summary of a whole relation, in one query. It serves people who set up a source; runs do not use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from monitor.core.records import ROUNDING
from monitor.warehouse.checks import Layout, OpenSource
from monitor.warehouse.dates import has_zone
from monitor.warehouse.dialects import EMPTY, ONE, ZERO, Dialect, Expression, Kind, Statement, labelled

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
    date, kind = layout[opened.source.window_on]
    found = opened.connection.execute(_statement(date, kind, layout, opened.dialect)).mappings().one()
    return Survey(
        rows=int(found["rows_"]),
        items=int(found["items"]),
        labels=int(found.get("labels") or 0),
        first=opened.dialect.aware(found["first"]),
        last=opened.dialect.aware(found["last"]),
        unread=int(found["unread"]),
        unread_example=found["unread_example"],
        zone=_has_zone(kind, found["some_date"]),
        least=_number(found, "least"),
        greatest=_number(found, "greatest"),
        truths=int(found["truths"]),
        hits=int(found["hits"]),
        has_predicted="predicted" in layout,
        has_weight="weight" in layout,
        has_cluster="cluster" in layout,
        above=int(found.get("above") or 0),
        engine=opened.dialect.name,
        in_text=kind == "text",
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


def _number(found: Mapping[Any, Any], name: str) -> float | None:
    value = found.get(name)
    return None if value is None else float(value)


def _has_zone(kind: str, some_date: str | None) -> bool:
    """Whether dates have a time zone: by the type of the column, or by a value if they are text."""
    return kind == "timestamptz" or (kind in ("text", "unknown", "other") and has_zone(some_date or ""))
