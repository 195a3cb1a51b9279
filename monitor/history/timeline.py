"""The timeline of labels: annotations, model versions, pins, revisions of the rules, and thresholds.

Only annotations are stored for it; the others are derived from stored readings, baselines, runs and publications.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, or_, select, update

from monitor.core.records import Annotation, TimelineEvent
from monitor.history import tables
from monitor.history.connect import filtered, is_added, records, row_by_id, row_of
from monitor.history.thresholds import ThresholdChange
from monitor.history.values import ANY, LabelFilter

_notes = tables.annotation_table


def annotate(connection: Connection, annotation: Annotation) -> Annotation:
    """Store an annotation and return it. If its id or its request's key is stored already, return the stored one."""
    if is_added(connection, _notes, row_of(_notes, annotation)):
        return annotation
    same_id_or_key = or_(_notes.c.id == annotation.id, _notes.c.key == annotation.key)
    return records(connection, Annotation, select(_notes).where(same_id_or_key))[0]


def remove_annotation(connection: Connection, id: str, *, by: str, reason: str, now: datetime) -> bool:
    """Mark an annotation as removed, so that no axis shows it. False if it was removed already: that record stays."""
    still_shown = (_notes.c.id == id, _notes.c.removed_at.is_(None))
    removed = {"removed_at": now, "removed_by": by, "removed_reason": reason}
    return connection.execute(update(_notes).where(*still_shown).values(removed)).rowcount == 1


def annotation(connection: Connection, prefix: str) -> Annotation:
    """The annotation whose id is, or begins with, ``prefix``. Raises NotFound and Ambiguous."""
    return Annotation(**row_by_id(connection, _notes, "annotation", prefix))


def notes_of_people(
    connection: Connection,
    source: str | None = None,
    label: LabelFilter = ANY,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    removed: bool = False,
) -> list[Annotation]:
    """Annotations by time. Those of a label include those of its whole source. ``removed`` adds the removed ones."""
    conditions: list[ColumnElement[bool]] = [] if removed else [_notes.c.removed_at.is_(None)]
    if label is not ANY:
        conditions.append(_notes.c.label.in_({tables.WHOLE, label}))
    if since is not None:
        conditions.append(_notes.c.at >= since)
    if until is not None:
        conditions.append(_notes.c.at < until)
    chosen = filtered(select(_notes), _notes, source=source).where(*conditions)
    statement = chosen.order_by(_notes.c.at, _notes.c.added_at, _notes.c.source, _notes.c.id)
    return records(connection, Annotation, statement)


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
    noted = notes_of_people(connection, source, label, since=since, until=until)
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
    columns = (table.c[name] for name in ("label", *_OF_PIN))
    conditions = [] if source is None else [table.c.source == source]
    conditions += [] if label is ANY else [table.c.label.in_({tables.WHOLE, label})]
    within = (table.c.pinned_at >= since, table.c.pinned_at < until)
    statement = select(*columns).where(*conditions, *within).order_by(table.c.pinned_at)
    by_pin: dict[tuple[Any, ...], list[str | None]] = {}
    for of_label, *pin in connection.execute(statement):
        by_pin.setdefault(tuple(pin), []).append(of_label)
    return [_pin(sorted(filter(None, labels)), *pin) for pin, labels in by_pin.items()]


_OF_PIN = ("source", "first_window", "last_window", "pinned_at", "pinned_by", "reason")


def _pin(named: Sequence[str], source: str, first: str, last: str, at: datetime, by: str, reason: str) -> TimelineEvent:
    about = f" of {len(named)} labels" if len(named) > 1 else "" if named else " of the source as a whole"
    text = f"baseline {first} to {last} pinned{about}" + (f": {reason}" if reason else "")
    return TimelineEvent(at, "baseline", text, source, named[0] if len(named) == 1 else None, by)


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
            if len(of_source) > 1:
                text = f"{len(of_source)} scores from which labels act were changed"
                found.append(TimelineEvent(at, "thresholds", text, name, None, actor))
            elif of_source:
                now, before = ("no score" if s is None else f"{s:g}" for s in (of_source[0].after, of_source[0].before))
                text = f"acts from {now} (was {before})"
                found.append(TimelineEvent(at, "thresholds", text, name, of_source[0].label, actor))
    return found
