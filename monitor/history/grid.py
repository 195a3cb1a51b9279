"""Queries for pages that show many windows at once. They do not read the details of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import Connection, func, or_, select

from monitor.core.records import Schedule, Where
from monitor.history import tables
from monitor.history.values import label_key, segment_key, segment_of


class GridNumber(NamedTuple):
    """An estimate; ``label`` is its key. Its fields are read much sooner than those of a row of SQLAlchemy."""

    label: str
    window_start: datetime
    metric: str
    population: Where
    value: float | None
    low: float | None
    high: float | None
    n: int


def numbers(
    connection: Connection,
    windows: Sequence[datetime],
    source: str,
    labels: Collection[str | None],
    series: Collection[tuple[str, Where]],
    *,
    schedule: Schedule,
    segment: tuple[str, str] | None = None,
) -> list[GridNumber]:
    """The estimates of these windows and series, by window.

    Of all rows, or of one ``segment``. Each is found by its key, so the cost does not grow with the history.
    """
    table = tables.estimates
    conditions = (
        table.c.schedule == schedule,
        table.c.window_start.in_(list(windows)),
        table.c.source == source,
        table.c.label.in_([label_key(label) for label in labels]),
        table.c.segment == segment_key(segment),
        table.c.metric.in_({metric for metric, _ in series}),
        table.c.population.in_({where for _, where in series}),
    )
    statement = select(*(table.c[name] for name in GridNumber._fields)).where(*conditions)
    return [GridNumber._make(row) for row in connection.execute(statement.order_by(table.c.window_start)).all()]


class StoredStep(NamedTuple):
    """An event of a switch without reason and exceptions; ``label`` is its key."""

    label: str
    at: datetime
    kind: str
    from_state: str
    to_state: str
    lease_until: datetime | None
    until: datetime | None
    verdict: str | None
    actor: str


def switch_steps(
    connection: Connection, source: str, labels: Collection[str | None] | None = None, *, since: datetime | None = None
) -> list[StoredStep]:
    """Every event of these labels (None: all) and of the source's own switch (""), in order.

    ``since`` leaves out earlier ones of labels, but none of the source: its switch may have been off for years.
    """
    table = tables.switch_events
    conditions = [table.c.source == source]
    if labels is not None:
        conditions.append(table.c.label.in_(["", *(label_key(label) for label in labels)]))
    if since is not None:
        conditions.append(or_(table.c.at >= since, table.c.label == ""))
    statement = select(*(table.c[name] for name in StoredStep._fields)).where(*conditions)
    return [StoredStep._make(row) for row in connection.execute(statement.order_by(table.c.id)).all()]


def first_on(connection: Connection, source: str) -> dict[str, datetime]:
    """When each label of a source was turned on for the first time, by the label's key."""
    table = tables.switch_events
    found = select(table.c.label, func.min(table.c.at)).where(table.c.source == source, table.c.to_state == "on")
    return dict(connection.execute(found.group_by(table.c.label)).tuples().all())


def steps_by_label(steps: Iterable[StoredStep]) -> dict[str, list[StoredStep]]:
    """The events of each label's switch by the label's key, in order."""
    found: dict[str, list[StoredStep]] = {}
    for step in steps:
        found.setdefault(step.label, []).append(step)
    return found


def versions_seen(
    connection: Connection, source: str, since: datetime, until: datetime, *, schedule: Schedule
) -> list[tuple[datetime, list[str]]]:
    """(window start, model versions that it had rows of), newest window first."""
    table = tables.readings
    conditions = (table.c.schedule == schedule, table.c.source == source, table.c.window_start.between(since, until))
    found = select(table.c.window_start, table.c.versions).where(*conditions).order_by(table.c.window_start.desc())
    return [(start, sorted(versions)) for start, versions in connection.execute(found)]


def segment_numbers(
    connection: Connection,
    windows: Sequence[datetime],
    source: str,
    label: str | None,
    metric: str,
    *,
    schedule: Schedule,
) -> list[tuple[tuple[str, str], datetime, float | None, int]]:
    """(segment, window start, value, n) of one metric of all rows in each segment of a label, by window."""
    table = tables.estimates
    conditions = (
        table.c.schedule == schedule,
        table.c.window_start.in_(list(windows)),
        table.c.source == source,
        table.c.label == label_key(label),
        table.c.segment > "",
        table.c.metric == metric,
        table.c.population == "all",
    )
    columns = (table.c.segment, table.c.window_start, table.c.value, table.c.n)
    found = connection.execute(select(*columns).where(*conditions).order_by(table.c.window_start, table.c.segment))
    pairs = ((segment_of(segment), start, value, n) for segment, start, value, n in found)
    return [(segment, start, value, n) for segment, start, value, n in pairs if segment is not None]
