"""The ids of windows, by which rows of estimates and shift tests refer to them."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, Select, select

from monitor.history import tables
from monitor.history.connect import insert


def number_of(connection: Connection, schedule: str, start: datetime, name: str) -> int:
    """The id of a window. A new window gets one."""
    table = tables.estimate_windows
    new = insert(connection, table).values(schedule=schedule, window_start=start, window_name=name)
    named = new.on_conflict_do_update(index_elements=["schedule", "window_start"], set_={"window_name": name})
    return int(connection.execute(named.returning(table.c.id)).scalar_one())


def window_of(schedule: str, start: datetime) -> Select[tuple[int]]:
    """The query for the id of a window."""
    table = tables.estimate_windows
    return select(table.c.id).where(table.c.schedule == schedule, table.c.window_start == start)
