"""Writing estimates and shift tests: a row holds numbers, what they are of is named once.

They are read from the views ``estimates`` and ``shifts``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, select

from monitor.history import tables
from monitor.history.connect import Row, add_missing, insert


@dataclass(frozen=True, slots=True)
class Kind:
    """A table of numbers, that of what they are of, its columns (without the number), and a row of the first."""

    values: Table
    series: Table
    names: tuple[str, ...]
    stored: Callable[[Row], Row]


def replace(
    connection: Connection, kind: Kind, schedule: str, start: datetime, sources: Sequence[str], rows: Sequence[Row]
) -> None:
    """Put these rows (of the view) in the place of what is stored of the sources in this window."""
    remove(connection, kind, schedule, start, kind.series.c.source.in_(list(sources)))
    if not rows:
        return
    window = _number_of(connection, schedule, start, rows[0]["window_name"])
    known = _numbers_of(connection, kind, rows)
    made = [{"window_id": window, "series_id": known[_key_of(kind, row)], **kind.stored(row)} for row in rows]
    connection.execute(kind.values.insert(), made)


def remove(connection: Connection, kind: Kind, schedule: str, start: datetime, which: ColumnElement[bool]) -> None:
    """Forget what is stored of one window whose series fulfil the condition."""
    values, series = kind.values, kind.series
    mine = values.c.window_id == _window(schedule, start).scalar_subquery()
    connection.execute(delete(values).where(mine, values.c.series_id.in_(select(series.c.id).where(which))))


def _number_of(connection: Connection, schedule: str, start: datetime, name: str) -> int:
    """The number of a window, which gets one where it has none."""
    table = tables.estimate_windows
    new = insert(connection, table).values(schedule=schedule, window_start=start, window_name=name)
    named = new.on_conflict_do_update(index_elements=["schedule", "window_start"], set_={"window_name": name})
    return int(connection.execute(named.returning(table.c.id)).scalar_one())


def _window(schedule: str, start: datetime) -> Select[tuple[int]]:
    table = tables.estimate_windows
    return select(table.c.id).where(table.c.schedule == schedule, table.c.window_start == start)


def _numbers_of(connection: Connection, kind: Kind, rows: Sequence[Row]) -> dict[tuple[Any, ...], int]:
    """What is measured -> its number; what was never measured before gets one."""
    table, keys = kind.series, dict.fromkeys(_key_of(kind, row) for row in rows)
    wanted = select(*(table.c[name] for name in kind.names), table.c.id)
    wanted = wanted.where(table.c.source.in_(sorted({row["source"] for row in rows})))
    known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    new = [dict(zip(kind.names, key, strict=True)) for key in keys if key not in known]
    if new:
        add_missing(connection, table, new)
        known = {tuple(found[:-1]): found[-1] for found in connection.execute(wanted)}
    return known


def _key_of(kind: Kind, row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in kind.names)


def _estimated(row: Row) -> Row:
    numbers = {name: row[name] for name in ("value", "low", "high", "n", "positives")}
    return {**numbers, "plug_in": _textbook(row["value"], row["plug_in"]), "detail": row["detail"] or None}


def _textbook(value: float | None, plug_in: float | None) -> float | None:
    """NULL where it is the value, as for most metrics; infinity, which no estimate is, where it alone is missing."""
    if plug_in is None:
        return None if value is None else math.inf
    return None if plug_in == value else plug_in


def _shifted(row: Row) -> Row:
    numbers = {name: row[name] for name in ("statistic", "p_value", "n", "n_baseline")}
    return {**numbers, "detail": row["detail"] or None}


ESTIMATES = Kind(
    tables.estimated, tables.estimate_series, ("source", "label", "segment", "metric", "population"), _estimated
)
SHIFTS = Kind(tables.shifted, tables.shift_series, ("source", "label", "test", "column"), _shifted)
