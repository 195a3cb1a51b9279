"""Incidents, their events, and the messages about them, written in one transaction."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from hashlib import sha256
from typing import Any

from sqlalchemy import Connection, Select, and_, func, or_, select

from monitor.core.records import (
    MESSAGE_DELETED,
    MONITOR_KIND,
    Delivery,
    Incident,
    IncidentEvent,
    Operation,
)
from monitor.history import tables
from monitor.history.connect import (
    add_missing,
    filtered,
    one_at_a_time,
    put_versions,
    record_of,
    records,
    row_by_id,
    row_of,
)
from monitor.history.delivery_rows import add_deliveries
from monitor.history.errors import LostRace
from monitor.history.tables import deliveries as _messages
from monitor.history.tables import incidents as _table
from monitor.history.values import ANY, LabelFilter

_OPEN_KEY_LENGTH = 400
_OF_MONITOR = _table.c.kind == MONITOR_KIND
_UNRESOLVED = _table.c.open_key > ""  # not "is not null": SQLite uses its index only for this form
_IN_ORDER = select(_table).order_by(_table.c.opened_at, _table.c.source, _table.c.label, _table.c.kind)


def apply_incidents(
    connection: Connection,
    incidents: Sequence[Incident],
    deliveries: Sequence[Delivery],
    events: Sequence[IncidentEvent] = (),
) -> None:
    """Store decisions, their events and their messages, all or nothing.

    A change of an incident needs a ``version`` that is one more than the stored one's. One of version 1 is new, and is
    opened only if no unresolved one has its fingerprint. An edit needs the next ``sequence`` of its message. Raises
    :class:`LostRace` if somebody else was first, so that the decisions are made again on what is stored now.
    """
    one_at_a_time(connection, "incidents")
    keys = {each.id: each.fingerprint for each in incidents if each.is_open}
    short = {id: key if len(key) <= _OPEN_KEY_LENGTH else sha256(key.encode()).hexdigest() for id, key in keys.items()}
    put_versions(connection, _table, [row_of(_table, each, open_key=short.get(each.id)) for each in incidents])
    edits = [(each.root or "", each.sequence) for each in deliveries if each.operation == "edit"]
    if any(sequence != last_edit(connection, root) + 1 for root, sequence in edits):
        raise LostRace
    add_missing(connection, tables.incident_events, [row_of(tables.incident_events, event) for event in events])
    add_deliveries(connection, deliveries)


def last_edit(connection: Connection, root: str) -> int:
    """The sequence of the newest edit of a message; 0 if it was never edited."""
    of_root = (_messages.c.root == root, _messages.c.operation == "edit")
    return int(connection.execute(select(func.max(_messages.c.sequence)).where(*of_root)).scalar() or 0)


def compositions(connection: Connection, roots: Collection[str]) -> dict[str, Delivery]:
    """Root -> the newest edit of that message, or the message itself if it was never edited."""
    post, edit = _messages.alias(), _messages.alias()
    newest = (
        select(edit.c.id)
        .where(edit.c.root == post.c.id, edit.c.operation == "edit")
        .order_by(edit.c.sequence.desc(), edit.c.created_at.desc(), edit.c.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    ids = select(func.coalesce(newest, post.c.id)).where(post.c.id.in_(roots))
    found = records(connection, Delivery, select(_messages).where(_messages.c.id.in_(ids)))
    return {each.root or each.id: each for each in found}


def thread(connection: Connection, root: str, *, operations: Collection[Operation] | None = None) -> list[Delivery]:
    """A living message with all its edits, replies and files (or those of ``operations``), by composition time."""
    is_follow_up = _messages.c.root == root
    if operations is not None:
        is_follow_up = and_(is_follow_up, _messages.c.operation.in_(operations))
    statement = select(_messages).where(or_(_messages.c.id == root, is_follow_up))
    ordered = statement.order_by(_messages.c.created_at, _messages.c.sequence, _messages.c.id)
    return records(connection, Delivery, ordered)


def message(connection: Connection, root: str) -> tuple[Delivery | None, bool]:
    """A living message as first composed (None: not stored), and whether a person has deleted it since."""
    found = records(connection, Delivery, select(_messages).where(_messages.c.id == root))
    deleted = select(_messages.c.id).where(
        or_(_messages.c.id == root, _messages.c.root == root),
        _messages.c.state == "dead",
        _messages.c.error_code.in_(MESSAGE_DELETED),
    )
    return (found[0] if found else None), connection.execute(deleted.limit(1)).first() is not None


def incidents(
    connection: Connection,
    source: str | None = None,
    label: LabelFilter = ANY,
    *,
    since: datetime | None = None,
    of_monitor: bool | None = False,
) -> list[Incident]:
    """Incidents of labels, or those of the monitor itself (None: both), by the time they were opened.

    With ``since``, only those that were opened since then or are unresolved.
    """
    statement = filtered(_about(of_monitor=of_monitor), _table, label, source=source)
    if since is not None:
        statement = statement.where(or_(_table.c.opened_at >= since, _UNRESOLVED))
    return records(connection, Incident, statement)


def unresolved(
    connection: Connection,
    source: str | None = None,
    *,
    since: datetime | None = None,
    of_monitor: bool | None = False,
) -> list[Incident]:
    """The unresolved incidents of one source, or of all; ``since`` adds those that were resolved since then."""
    recent = _UNRESOLVED if since is None else or_(_UNRESOLVED, _table.c.resolved_at >= since)
    return records(connection, Incident, filtered(_about(of_monitor=of_monitor).where(recent), _table, source=source))


def _about(*, of_monitor: bool | None) -> Select[Any]:
    """Incidents of the monitor itself, or those of labels; None: both."""
    return _IN_ORDER if of_monitor is None else _IN_ORDER.where(_OF_MONITOR if of_monitor else ~_OF_MONITOR)


def of_messages(connection: Connection, roots: Collection[str]) -> list[Incident]:
    """The incidents that these messages are about."""
    return records(connection, Incident, _IN_ORDER.where(_table.c.root.in_(roots)))


def incident(connection: Connection, prefix: str) -> Incident:
    """The incident whose id is, or begins with, ``prefix``. Raises NotFound and Ambiguous."""
    hint = "; `calmon incidents list --all` shows them"
    return record_of(Incident, row_by_id(connection, tables.incidents, "incident", prefix, hint))


def events(
    connection: Connection, incident: str | None = None, *, since: datetime | None = None
) -> list[IncidentEvent]:
    """The events of one incident, or of all, by time; only from ``since`` on, if given."""
    table = tables.incident_events
    statement = filtered(select(table).order_by(table.c.at, table.c.key), table, incident=incident)
    if since is not None:
        statement = statement.where(table.c.at >= since)
    return records(connection, IncidentEvent, statement)
