"""Diagnoses: one row for each window and subject. Diagnosing a window again replaces its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, and_, delete, func, or_, select

from monitor.core.diagnoses import Diagnosis, DiagnosisState, as_json, from_json
from monitor.core.records import Subject, Window
from monitor.history import tables
from monitor.history.connect import Row, about, filtered, one_at_a_time, window_of

table = tables.diagnoses
_TROUBLES = (DiagnosisState.UNSAFE.value, DiagnosisState.DEGRADED.value)


def save(
    connection: Connection, window: Window, sources: Sequence[str], diagnoses: Sequence[Diagnosis], now: datetime
) -> None:
    """Replace the diagnoses of these sources in this window."""
    one_at_a_time(connection, f"diagnoses {window.schedule} {window.start.isoformat()}")
    of_window: Row = {"schedule": window.schedule, "window_start": window.start, "source": sources}
    connection.execute(filtered(delete(table), table, **of_window))
    if diagnoses:
        connection.execute(table.insert(), [_row(diagnosis, now) for diagnosis in diagnoses])


def of_window(connection: Connection, window: Window, source: str | None = None) -> list[Diagnosis]:
    """The diagnoses of one window, by source and label."""
    every = select(table).order_by(table.c.source, table.c.label)
    statement = filtered(every, table, schedule=window.schedule, window_start=window.start, source=source)
    return _diagnoses(connection, statement)


def of_troubled(connection: Connection, source: str, before: Window, since: datetime) -> list[Diagnosis]:
    """The diagnoses of each label that was in trouble after ``since``, oldest first, of windows before ``before``.

    A week comes after the days that end with it. Labels that had no trouble are left out.
    """
    same = table.c.source == source
    earlier = or_(
        table.c.window_end < before.end, and_(table.c.window_end == before.end, table.c.schedule < before.schedule)
    )
    span = and_(same, table.c.window_end > since, earlier)
    troubled = select(table.c.label).where(span, table.c.state.in_(_TROUBLES)).distinct()
    statement = select(table).where(span, table.c.label.in_(troubled)).order_by(table.c.window_end, table.c.schedule)
    return _diagnoses(connection, statement)


def of_label(connection: Connection, source: str, label: str | None, *, since: datetime) -> list[Diagnosis]:
    """The diagnoses of one label after ``since``, oldest first; a week comes after the days that end with it."""
    of_label = (table.c.source == source, table.c.label == label, table.c.window_end > since)
    statement = select(table).where(*of_label).order_by(table.c.window_end, table.c.schedule)
    return _diagnoses(connection, statement)


def newest(connection: Connection, *, back: timedelta, until: datetime) -> list[Diagnosis]:
    """The newest diagnosis of each label, of the windows that end at ``until`` at the latest.

    Those that end ``back`` or longer before the newest of them are left out, however long ago that is.
    """
    end = connection.execute(select(func.max(table.c.window_end)).where(table.c.window_end <= until)).scalar_one()
    if end is None:
        return []
    span = (table.c.window_end > end - back, table.c.window_end <= until)
    latest = (table.c.window_end.desc(), table.c.schedule.desc())
    place = func.row_number().over(partition_by=(table.c.source, table.c.label), order_by=latest)
    placed = select(table, place.label("place")).where(*span).subquery()
    statement = select(placed).where(placed.c.place == 1).order_by(placed.c.source, placed.c.label)
    return _diagnoses(connection, statement)


class StateOfWeek(NamedTuple):
    """The state of a label in the week that begins at ``start``."""

    source: str
    label: str | None
    start: datetime
    state: str


def states_of_weeks(connection: Connection, *, since: datetime, until: datetime) -> list[StateOfWeek]:
    """The state of each label in each week that begins at ``since`` or later and ends at ``until`` at the latest."""
    columns = (table.c.source, table.c.label, table.c.window_start, table.c.state)
    span = (table.c.schedule == "weekly", table.c.window_start >= since, table.c.window_end <= until)
    return [StateOfWeek(*row) for row in connection.execute(select(*columns).where(*span))]


def _row(diagnosis: Diagnosis, now: datetime) -> Row:
    found, since, cost = diagnosis, diagnosis.since, diagnosis.cost
    began = (None, None, None) if since is None else (since.window, since.low, since.high)
    numbers = (None,) * 7 if cost is None else astuple(cost)
    return about(found.window, Subject(found.source, found.label)) | {
        "state": found.state.value, "problem": found.problem and found.problem.value,
        **dict(zip(("since", "since_low", "since_high"), began, strict=True)),
        "found": found.found or None, "cause": found.cause and found.cause.text,
        "advice": found.advice and found.advice.step, "reason": found.reason and found.reason.value,
        **dict(zip((*tables.COST_OF_TROUBLE, "acted"), numbers, strict=True)),
        "segment": found.segment and dict([found.segment]), "because": found.because, "detail": as_json(found),
        "diagnosed_at": now,
    }  # fmt: skip


def _diagnoses(connection: Connection, statement: Select[Any]) -> list[Diagnosis]:
    rows = connection.execute(statement).mappings()
    return [from_json(row["source"], row["label"], window_of(row), row["detail"]) for row in rows]
