"""Writing estimates: a row holds numbers, what they are of is named once. They are read from the view ``estimates``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, delete, select

from monitor.history import tables
from monitor.history.connect import Row, add_missing, insert

_SERIES = ("source", "label", "segment", "metric", "population")
_NUMBERS = ("value", "low", "high", "n", "positives")


def replace(
    connection: Connection, schedule: str, start: datetime, sources: Sequence[str], rows: Sequence[Row]
) -> None:
    """Put these rows (of the view) in the place of what is stored of the sources in this window."""
    remove(connection, schedule, start, tables.estimate_series.c.source.in_(list(sources)))
    if not rows:
        return
    window = _number_of(connection, schedule, start, rows[0]["window_name"])
    known = _numbers_of(connection, rows)
    connection.execute(tables.estimated.insert(), [_stored(row, window, known[_key_of(row)]) for row in rows])


def remove(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Forget the estimates of one window whose series (of ``estimate_series``) fulfil the condition."""
    estimated, series = tables.estimated, tables.estimate_series
    mine = estimated.c.window_id == _window(schedule, start).scalar_subquery()
    connection.execute(delete(estimated).where(mine, estimated.c.series_id.in_(select(series.c.id).where(which))))


def _number_of(connection: Connection, schedule: str, start: datetime, name: str) -> int:
    """The number of a window, which gets one where it has none."""
    table = tables.estimate_windows
    new = insert(connection, table).values(schedule=schedule, window_start=start, window_name=name)
    named = new.on_conflict_do_update(index_elements=["schedule", "window_start"], set_={"window_name": name})
    return int(connection.execute(named.returning(table.c.id)).scalar_one())


def _window(schedule: str, start: datetime) -> Select[tuple[int]]:
    table = tables.estimate_windows
    return select(table.c.id).where(table.c.schedule == schedule, table.c.window_start == start)


def _numbers_of(connection: Connection, rows: Sequence[Row]) -> dict[tuple[Any, ...], int]:
    """What is estimated -> its number; what was never estimated before gets one."""
    table, keys = tables.estimate_series, dict.fromkeys(map(_key_of, rows))
    wanted = select(*(table.c[name] for name in _SERIES), table.c.id)
    wanted = wanted.where(table.c.source.in_(sorted({row["source"] for row in rows})))
    known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    new = [dict(zip(_SERIES, key, strict=True)) for key in keys if key not in known]
    if new:
        add_missing(connection, table, new)
        known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    return known


def _key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SERIES)


def _stored(row: Row, window: int, series: int) -> Row:
    numbers = {name: row[name] for name in _NUMBERS}
    kept = {"plug_in": _textbook(row["value"], row["plug_in"]), "detail": row["detail"] or None}
    return {"window_id": window, "series_id": series, **numbers, **kept}


def _textbook(value: float | None, plug_in: float | None) -> float | None:
    """NULL where it is the value, as for most metrics; infinity, which no estimate is, where it alone is missing."""
    if plug_in is None:
        return None if value is None else math.inf
    return None if plug_in == value else plug_in
