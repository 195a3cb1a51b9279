"""The timeline of labels: annotations, model versions, pins, revisions of the rules, and thresholds.

Only annotations are stored for it; the others are derived from stored readings, baselines, runs and publications.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Table, and_, select

from monitor.core.records import TimelineEvent
from monitor.history import annotation_rows, tables
from monitor.history.thresholds import ThresholdChange
from monitor.history.values import ANY, LabelFilter


def events(
    connection: Connection,
    source: str | None = None,
    label: LabelFilter = ANY,
    *,
    since: datetime,
    until: datetime,
) -> list[TimelineEvent]:
    """The events from ``since`` to ``until`` (exclusive), by time: of all sources, of one, or of one label.

    The events of a label include those of its whole source. A model version begins with the first week that
    had rows of it, a revision of the rules with the first week that was judged by it.
    """
    noted = annotation_rows.read(connection, source, label, since=since, until=until)
    found = [TimelineEvent(a.at, "annotation", a.text, a.source, a.label, a.added_by, a.id) for a in noted]
    found += _versions(connection, source, since, until)
    found += _pins(connection, source, label, since, until)
    found += _revisions(connection, since, until)
    found += _thresholds(connection, source, label, since, until)
    return sorted(found, key=lambda event: (event.at, event.kind, event.source or "", event.label or "", event.text))


def _versions(connection: Connection, source: str | None, since: datetime, until: datetime) -> list[TimelineEvent]:
    """Model versions that no earlier window had. Those of a source's first window are not events."""
    table = tables.readings
    conditions = and_(table.c.schedule == "weekly", table.c.window_start < until, table.c.state == "ok")
    statement = (
        select(table.c.source, table.c.window_start, table.c.versions).where(conditions).order_by(table.c.window_start)
    )
    if source is not None:
        statement = statement.where(table.c.source == source)
    known: dict[str, set[str]] = {}
    found = []
    for name, start, versions in connection.execute(statement):
        seen = known.setdefault(name, set())
        new = sorted(set(versions) - seen)
        if seen and start >= since:
            found += [TimelineEvent(start, "model_version", f"model version {version}", name) for version in new]
        seen.update(new)
    return found


def _pins(
    connection: Connection, source: str | None, label: LabelFilter, since: datetime, until: datetime
) -> list[TimelineEvent]:
    """Pinned baselines. Labels that were pinned together are one event."""
    table = tables.baselines
    columns = (
        table.c.source,
        table.c.label,
        table.c.first_window,
        table.c.last_window,
        table.c.pinned_at,
        table.c.pinned_by,
        table.c.reason,
    )
    statement = select(*columns).where(*_of(table, source, label), table.c.pinned_at >= since)
    by_pin: dict[tuple[Any, ...], list[Any]] = {}
    for row in connection.execute(statement.where(table.c.pinned_at < until).order_by(table.c.pinned_at)):
        key = row.source, row.first_window, row.last_window, row.pinned_at, row.pinned_by, row.reason
        by_pin.setdefault(key, []).append(row)
    return [_pin(rows) for rows in by_pin.values()]


def _pin(rows: Sequence[Any]) -> TimelineEvent:
    row, named = rows[0], sorted(each.label for each in rows if each.label)
    about = f" of {len(named)} labels" if len(named) > 1 else "" if named else " of the source as a whole"
    text = f"baseline {row.first_window} to {row.last_window} pinned{about}" + (f": {row.reason}" if row.reason else "")
    label = named[0] if len(named) == 1 else None
    return TimelineEvent(row.pinned_at, "baseline", text, row.source, label, row.pinned_by)


def _revisions(connection: Connection, since: datetime, until: datetime) -> list[TimelineEvent]:
    table = tables.runs
    conditions = and_(table.c.schedule == "weekly", table.c.window_start < until)
    statement = select(table.c.window_start, table.c.rules_revision).where(conditions)
    statement = statement.order_by(table.c.window_start, table.c.started_at)
    found, before = [], None
    for start, revision in connection.execute(statement):
        if before is not None and revision != before and start >= since:
            found.append(TimelineEvent(start, "rules", f"rules revision {revision} (was {before})"))
        before = revision
    return found


def _thresholds(
    connection: Connection, source: str | None, label: LabelFilter, since: datetime, until: datetime
) -> list[TimelineEvent]:
    table = tables.publications
    conditions = and_(table.c.kind != "refused", table.c.at >= since, table.c.at < until)
    found = []
    for at, actor, stored in connection.execute(select(table.c.at, table.c.actor, table.c.changes).where(conditions)):
        changes = [ThresholdChange(*each) for each in stored]
        for name in sorted({change.source for change in changes if source in (None, change.source)}):
            of_source = [c for c in changes if c.source == name and (label is ANY or c.label in (None, label))]
            found += [_published(at, actor, of_source)] if of_source else []
    return found


def _published(at: datetime, by: str, changes: list[ThresholdChange]) -> TimelineEvent:
    """The event of the changes of one source that were published together."""
    only, several = changes[0], len(changes) > 1
    text = f"acts from {_score(only.after)} (was {_score(only.before)})"
    text = f"{len(changes)} scores from which labels act were changed" if several else text
    return TimelineEvent(at, "thresholds", text, only.source, None if several else only.label, by)


def _score(score: float | None) -> str:
    return "no score" if score is None else f"{score:g}"


def _of(table: Table, source: str | None, label: LabelFilter) -> list[Any]:
    conditions = [] if source is None else [table.c.source == source]
    return conditions if label is ANY else [*conditions, table.c.label.in_({tables.WHOLE, label})]
