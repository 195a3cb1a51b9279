"""Writing shift tests: a row holds numbers, what they are of is named once.

They are read from the view ``shifts``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select

from monitor.history import tables
from monitor.history.connect import Row, add_missing
from monitor.history.window_numbers import number_of, window_of

_NAMES = ("source", "label", "test", "column")
_NUMBERS = ("statistic", "p_value", "n", "n_baseline")


def replace(
    connection: Connection, schedule: str, start: datetime, sources: Sequence[str], rows: Sequence[Row]
) -> None:
    """Put these rows (of the view) in the place of what is stored of the sources in this window."""
    remove(connection, schedule, start, tables.shift_series.c.source.in_(list(sources)))
    if not rows:
        return
    window = number_of(connection, schedule, start, rows[0]["window_name"])
    known = _numbers_of(connection, rows)
    made = [{"window_id": window, "series_id": known[_key_of(row)], **_stored(row)} for row in rows]
    connection.execute(tables.shifted.insert(), made)


def remove(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Forget the shift tests of one window whose series fulfil the condition."""
    table, series = tables.shifted, tables.shift_series
    mine = table.c.window_id == window_of(schedule, start).scalar_subquery()
    connection.execute(delete(table).where(mine, table.c.series_id.in_(select(series.c.id).where(which))))


def _stored(row: Row) -> Row:
    return {**{name: row[name] for name in _NUMBERS}, "detail": row["detail"] or None}


def _numbers_of(connection: Connection, rows: Sequence[Row]) -> dict[tuple[Any, ...], int]:
    """What is tested -> its number; what was never tested before gets one."""
    table, keys = tables.shift_series, dict.fromkeys(map(_key_of, rows))
    wanted = select(*(table.c[name] for name in _NAMES), table.c.id)
    wanted = wanted.where(table.c.source.in_(sorted({row["source"] for row in rows})))
    known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    new = [dict(zip(_NAMES, key, strict=True)) for key in keys if key not in known]
    if new:
        add_missing(connection, table, new)
        known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    return known


def _key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _NAMES)
