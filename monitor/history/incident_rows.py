"""Incidents, what happened to them, and the messages about them: written in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, func, or_, select

from monitor.core.records import (
    MESSAGE_DELETED,
    MONITOR_RULE,
    Delivery,
    Incident,
    IncidentEvent,
    IncidentState,
    Operation,
)
from monitor.history import tables
from monitor.history.connect import Row, add_missing, one_at_a_time, put_version, row_by_id, row_of
from monitor.history.delivery_rows import add_deliveries
from monitor.history.errors import LostRace
from monitor.history.labels import each_label
from monitor.history.values import label_key, label_of, plain

_OPEN_KEY_LENGTH = 400
_OF_MONITOR = tables.incidents.c.rule.startswith(MONITOR_RULE, autoescape=True)
_UNRESOLVED = tables.incidents.c.open_key > ""  # not "is not null": SQLite has an index only for this


def apply_incidents(
    connection: Connection,
    opened: Sequence[Incident],
    updated: Sequence[Incident],
    deliveries: Sequence[Delivery],
    events: Sequence[IncidentEvent] = (),
) -> None:
    """Store decisions, their events and the messages they call for, all or nothing.

    An incident is updated where its ``version`` is one more than the stored one's, and is not opened beside one
    of its fingerprint that is not resolved; an edit needs the next ``sequence`` of its message. Raises
    :class:`LostRace` where somebody else was first, so that the decisions are made again on what is stored now.
    """
    one_at_a_time(connection, "incidents")
    table = tables.incidents
    for incident in updated:
        if not put_version(connection, table, _incident_row(incident)):
            raise LostRace
    add_missing(connection, table, [_incident_row(incident) for incident in opened])
    for incident in opened:  # another of the same fingerprint keeps one out
        if connection.execute(select(table.c.id).where(table.c.id == incident.id)).first() is None:
            raise LostRace
    edits = [(each.root or "", each.sequence) for each in deliveries if each.operation == "edit"]
    if any(sequence != last_edit(connection, root) + 1 for root, sequence in edits):
        raise LostRace
    rows = [row_of(tables.incident_events, event, detail=plain(event.detail)) for event in events]
    add_missing(connection, tables.incident_events, rows)
    add_deliveries(connection, deliveries)


def last_edit(connection: Connection, root: str) -> int:
    """The sequence of the newest edit of a message; 0 where it was never edited."""
    table = tables.deliveries
    mine = and_(table.c.root == root, table.c.operation == "edit")
    return int(connection.execute(select(func.coalesce(func.max(table.c.sequence), 0)).where(mine)).scalar_one())


def compositions(connection: Connection, roots: Collection[str]) -> dict[str, Delivery]:
    """Root -> how that message was composed last: its newest edit, else the message itself."""
    table, post, edit = tables.deliveries, tables.deliveries.alias(), tables.deliveries.alias()
    newest = (
        select(edit.c.id)
        .where(edit.c.root == post.c.id, edit.c.operation == "edit")
        .order_by(edit.c.sequence.desc(), edit.c.created_at.desc(), edit.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    ids = select(func.coalesce(newest, post.c.id)).where(post.c.id.in_(list(roots)))
    found = connection.execute(select(table).where(table.c.id.in_(ids))).mappings()
    return {row["root"] or row["id"]: Delivery(**row) for row in found}


def thread(connection: Connection, root: str, *, operations: Collection[Operation] | None = None) -> list[Delivery]:
    """A living message with all its edits, replies and files (or those of ``operations``), as they were composed."""
    table = tables.deliveries
    mine = table.c.root == root
    if operations is not None:
        mine = and_(mine, table.c.operation.in_(list(operations)))
    statement = select(table).where(or_(table.c.id == root, mine))
    ordered = statement.order_by(table.c.created_at, table.c.sequence, table.c.id)
    return [Delivery(**row) for row in connection.execute(ordered).mappings()]


def message(connection: Connection, root: str) -> tuple[Delivery | None, bool]:
    """A living message as it was composed first, and whether a person has deleted it since."""
    table = tables.deliveries
    row = connection.execute(select(table).where(table.c.id == root)).mappings().first()
    mine = or_(table.c.id == root, table.c.root == root)
    deleted = select(table.c.id).where(mine, table.c.state == "dead", table.c.error_code.in_(MESSAGE_DELETED))
    return (None if row is None else Delivery(**row)), connection.execute(deleted.limit(1)).first() is not None


def incidents(
    connection: Connection, state: IncidentState | None = None, *, of_monitor: bool = False
) -> list[Incident]:
    """All incidents of labels, or of the monitor itself (in one state), by the time they were opened."""
    wanted = [] if state is None else [tables.incidents.c.state == state]
    if state is not None and state != "resolved":
        wanted.append(_UNRESOLVED)
    return _incidents(connection, _OF_MONITOR if of_monitor else ~_OF_MONITOR, *wanted)


def unresolved(
    connection: Connection, source: str | None = None, *, since: datetime | None = None, of_monitor: bool = False
) -> list[Incident]:
    """The incidents that are not resolved, or with ``since`` were not yet resolved then; of one source, or of all."""
    table = tables.incidents
    wanted = [_UNRESOLVED if since is None else or_(_UNRESOLVED, table.c.resolved_at >= since)]
    if source is not None:
        wanted.append(table.c.source == source)
    return _incidents(connection, _OF_MONITOR if of_monitor else ~_OF_MONITOR, *wanted)


def of_messages(connection: Connection, roots: Collection[str]) -> list[Incident]:
    """The incidents that these messages are about."""
    return _incidents(connection, tables.incidents.c.root.in_(list(roots)))


def of_label(connection: Connection, source: str, label: str | None, *, since: datetime) -> list[Incident]:
    """The incidents of one label that were opened since then, or are not resolved, by the time they were opened."""
    table = tables.incidents
    own = (table.c.source == source, table.c.label == label_key(label), ~_OF_MONITOR)
    return _incidents(connection, *own, or_(table.c.opened_at >= since, table.c.open_key.is_not(None)))


def newest_of_labels(connection: Connection, source: str) -> list[Incident]:
    """Of each label of a source the newest incident that has a message."""
    table, newest = tables.incidents, tables.incidents.alias()
    label = each_label(tables.verdicts, source)  # whatever has an incident has been judged
    mine = and_(newest.c.source == source, newest.c.label == label.c.label, newest.c.root.is_not(None))
    ids = (
        select(newest.c.id)
        .where(mine, ~newest.c.rule.startswith(MONITOR_RULE, autoescape=True))
        .order_by(newest.c.opened_at.desc(), newest.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return _incidents(connection, table.c.id.in_(select(ids).select_from(label)))


def messages_beside(connection: Connection, incident: Incident) -> set[str]:
    """The messages of incidents of the same label that were resolved after this one had been opened."""
    table = tables.incidents
    same = and_(table.c.source == incident.source, table.c.label == label_key(incident.label), ~_OF_MONITOR)
    beside = and_(same, table.c.resolved_at >= incident.opened_at, table.c.root.is_not(None))
    return set(connection.execute(select(table.c.root).where(beside)).scalars())


def incident(connection: Connection, prefix: str) -> Incident:
    """The incident whose id is, or begins with, ``prefix``. Raises NotFound and Ambiguous."""
    hint = "; `calmon incidents list --all` shows them"
    return _incident(row_by_id(connection, tables.incidents, "incident", prefix, hint))


def events(
    connection: Connection,
    incident: str | None = None,
    *,
    since: datetime | None = None,
    kinds: Collection[str] | None = None,
) -> list[IncidentEvent]:
    """What happened to one incident, or to all, in order; of these kinds and from ``since`` on, where given."""
    table = tables.incident_events
    statement = select(table).order_by(table.c.at, table.c.key)
    if incident is not None:
        statement = statement.where(table.c.incident == incident)
    if since is not None:
        statement = statement.where(table.c.at >= since)
    if kinds is not None:
        statement = statement.where(table.c.kind.in_(list(kinds)))
    return [IncidentEvent(**row) for row in connection.execute(statement).mappings()]


def _incidents(connection: Connection, *wanted: ColumnElement[bool]) -> list[Incident]:
    table = tables.incidents
    order = (table.c.opened_at, table.c.source, table.c.label, table.c.rule)
    return [_incident(row) for row in connection.execute(select(table).where(*wanted).order_by(*order)).mappings()]


def _open_key(incident: Incident) -> str | None:
    if incident.state == "resolved":
        return None
    name = incident.fingerprint
    return name if len(name) <= _OPEN_KEY_LENGTH else hashlib.sha256(name.encode()).hexdigest()


def _incident_row(incident: Incident) -> Row:
    return row_of(
        tables.incidents,
        incident,
        open_key=_open_key(incident),
        label=label_key(incident.label),
        reason=str(incident.reason),
        further_reasons=list(incident.further_reasons),
    )


def _incident(row: RowMapping) -> Incident:
    stored = {name: row[name] for name in row if name not in ("open_key", "label", "further_reasons")}
    return Incident(**stored, label=label_of(row["label"]), further_reasons=tuple(row["further_reasons"] or ()))
