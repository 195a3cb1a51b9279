"""Outcomes of each rule by window and by label, counted by the database."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from monitor.core.records import SCHEDULES
from monitor.history import tables
from monitor.history.values import label_of


def outcomes(connection: Connection, since: datetime) -> list[Row[Any]]:
    """rule, schedule, window_start, outcome and the number of labels, for windows from ``since`` on, by window."""
    table = tables.verdicts
    by = (table.c.rule, table.c.schedule, table.c.window_start, table.c.outcome)
    statement = select(*by, func.count().label("labels")).where(_recent(since)).group_by(*by)
    return list(connection.execute(statement.order_by(table.c.window_start)))


def breaches_of_labels(connection: Connection, since: datetime) -> list[tuple[str, str, str | None, int]]:
    """(rule, source, label, number of windows in breach), for windows from ``since`` on, most breaches first."""
    table = tables.verdicts
    by, count = (table.c.rule, table.c.source, table.c.label), func.count()
    statement = select(*by, count).where(_recent(since), table.c.outcome == "breach").group_by(*by)
    found = connection.execute(statement.order_by(count.desc(), table.c.source, table.c.label))
    return [(rule, source, label_of(label), int(windows)) for rule, source, label, windows in found]


def _recent(since: datetime) -> Any:
    table = tables.verdicts
    # names both schedules, since the index begins with the schedule
    return and_(table.c.schedule.in_(SCHEDULES), table.c.window_start >= since, table.c.current.is_(True))
