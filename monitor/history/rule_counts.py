"""Outcomes of each rule by window and by label, counted by the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, Row, and_, cast, func, select

from monitor.history import tables
from monitor.history.values import label_of


def outcomes(connection: Connection, since: datetime) -> list[Row[Any]]:
    """rule, schedule, window_start, outcome and the number of labels, for windows from ``since`` on, by window.

    The database groups by the evaluation's id, which is quicker to sort than times and names.
    """
    judged, series, evaluations = tables.judged.c, tables.verdict_series.c, tables.evaluations.c
    recent = select(evaluations.id).where(evaluations.window_start >= since)
    keys = (judged.evaluation_id, series.rule, series.outcome)
    conditions = (series.id == judged.series_id, judged.current.is_(True), judged.evaluation_id.in_(recent))
    counted = select(*keys, func.count().label("labels")).where(*conditions).group_by(*keys).subquery()
    by = (counted.c.rule, evaluations.schedule, evaluations.window_start, counted.c.outcome)
    statement = select(*by, cast(func.sum(counted.c.labels), Integer).label("labels")).group_by(*by)
    joined = statement.where(evaluations.id == counted.c.evaluation_id)
    return list(connection.execute(joined.order_by(evaluations.window_start)))


def breaches_of_labels(connection: Connection, since: datetime) -> list[tuple[str, str, str | None, int]]:
    """(rule, source, label, number of windows in breach), for windows from ``since`` on, most breaches first."""
    table = tables.verdicts
    by, count = (table.c.rule, table.c.source, table.c.label), func.count()
    statement = select(*by, count).where(_recent(since), table.c.outcome == "breach").group_by(*by)
    found = connection.execute(statement.order_by(count.desc(), table.c.source, table.c.label))
    return [(rule, source, label_of(label), int(windows)) for rule, source, label, windows in found]


def _recent(since: datetime) -> Any:
    return and_(tables.verdicts.c.current.is_(True), tables.verdicts.c.window_start >= since)
