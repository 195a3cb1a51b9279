"""Write shift tests. The view ``shifts`` reads them.

A series is what is tested: source, label, test, column. It is named once; a row has its id and the numbers.
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
    """Replace the stored shift tests of the sources in this window by these rows (of the view)."""
    remove(connection, schedule, start, tables.shift_series.c.source.in_(list(sources)))
    if not rows:
        return
    window = number_of(connection, schedule, start, rows[0]["window_name"])
    ids = _series_ids(connection, rows)
    new_rows = [{"window_id": window, "series_id": ids[_key_of(row)], **_stored(row)} for row in rows]
    connection.execute(tables.shifted.insert(), new_rows)


def remove(connection: Connection, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Remove the shift tests of one window whose series meet the condition."""
    table, series = tables.shifted, tables.shift_series
    is_window = table.c.window_id == window_of(schedule, start).scalar_subquery()
    connection.execute(delete(table).where(is_window, table.c.series_id.in_(select(series.c.id).where(which))))


def _stored(row: Row) -> Row:
    return {**{name: row[name] for name in _NUMBERS}, "detail": row["detail"] or None}


def _series_ids(connection: Connection, rows: Sequence[Row]) -> dict[tuple[Any, ...], int]:
    """Series -> its id. A new series gets one."""
    table, keys = tables.shift_series, dict.fromkeys(map(_key_of, rows))
    series = select(*(table.c[name] for name in _NAMES), table.c.id)
    series = series.where(table.c.source.in_(sorted({row["source"] for row in rows})))
    known = {tuple(found[:-1]): found[-1] for found in connection.execute(series)}
    new = [dict(zip(_NAMES, key, strict=True)) for key in keys if key not in known]
    if new:
        add_missing(connection, table, new)
        known = {tuple(found[:-1]): found[-1] for found in connection.execute(series)}
    return known


def _key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _NAMES)
