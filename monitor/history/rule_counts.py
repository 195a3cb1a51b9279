"""How often each rule said what, window by window and label by label, counted by the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Integer, Row, and_, cast, func, select

from monitor.history import tables
from monitor.history.values import label_of


def outcomes(connection: Connection, since: datetime) -> list[Row[Any]]:
    """rule, schedule, window_start, outcome and how many labels, of windows from ``since`` on, by window.

    They are counted by the number of their evaluation, which is quicker to sort than times and names.
    """
    judged, series, evaluations = tables.judged.c, tables.verdict_series.c, tables.evaluations.c
    recent = select(evaluations.id).where(evaluations.window_start >= since)
    of = (judged.evaluation_id, series.rule, series.outcome)
    mine = (series.id == judged.series_id, judged.current.is_(True), judged.evaluation_id.in_(recent))
    each = select(*of, func.count().label("labels")).where(*mine).group_by(*of).subquery()
    by = (each.c.rule, evaluations.schedule, evaluations.window_start, each.c.outcome)
    statement = select(*by, cast(func.sum(each.c.labels), Integer).label("labels")).group_by(*by)
    together = statement.where(evaluations.id == each.c.evaluation_id)
    return list(connection.execute(together.order_by(evaluations.window_start)))


def breaches_of_labels(connection: Connection, since: datetime) -> list[tuple[str, str, str | None, int]]:
    """(rule, source, label, windows in breach) of windows from ``since`` on, most breaches first."""
    table = tables.verdicts
    by, count = (table.c.rule, table.c.source, table.c.label), func.count()
    statement = select(*by, count).where(_recent(since), table.c.outcome == "breach").group_by(*by)
    found = connection.execute(statement.order_by(count.desc(), table.c.source, table.c.label))
    return [(rule, source, label_of(label), int(windows)) for rule, source, label, windows in found]


def _recent(since: datetime) -> Any:
    return and_(tables.verdicts.c.current.is_(True), tables.verdicts.c.window_start >= since)
