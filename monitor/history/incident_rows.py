"""Incidents, what happened to them, and the messages about them: written in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, RowMapping, and_, func, or_, select, update

from monitor.core.records import MONITOR_RULE, Delivery, Incident, IncidentEvent, IncidentState
from monitor.history import tables
from monitor.history.connect import Row, add_missing, one_at_a_time
from monitor.history.delivery_rows import add_deliveries
from monitor.history.errors import Ambiguous, LostRace, NotFound
from monitor.history.values import label_key, label_of, plain

_OPEN_KEY_LENGTH = 400
_SHOWN_CANDIDATES = 5
_ROOTS_AT_ONCE = 400  # SQLite takes 999 parameters


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
    for incident in updated:
        _update(connection, incident)
    add_missing(connection, tables.incidents, [_incident_row(incident) for incident in opened])
    _refuse_unopened(connection, [incident.id for incident in opened])
    last = last_edits(connection)
    if any(each.operation == "edit" and each.sequence != last.get(each.root or "", 0) + 1 for each in deliveries):
        raise LostRace
    add_missing(connection, tables.incident_events, [_event_row(event) for event in events])
    add_deliveries(connection, deliveries)


def batched(items: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """The items in parts of at most ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _update(connection: Connection, incident: Incident) -> None:
    table = tables.incidents
    as_seen = and_(table.c.id == incident.id, table.c.version == incident.version - 1)
    if connection.execute(update(table).where(as_seen).values(_incident_row(incident))).rowcount != 1:
        raise LostRace


def _refuse_unopened(connection: Connection, ids: Sequence[str]) -> None:
    """Raise :class:`LostRace` where another incident of the same fingerprint kept one of these out."""
    table = tables.incidents
    for id in ids:
        if connection.execute(select(table.c.id).where(table.c.id == id)).first() is None:
            raise LostRace


def last_edits(connection: Connection) -> dict[str, int]:
    """The sequence of the newest edit of each message that was edited."""
    table = tables.deliveries
    statement = select(table.c.root, func.max(table.c.sequence)).where(table.c.operation == "edit")
    return {str(root): int(last) for root, last in connection.execute(statement.group_by(table.c.root))}


def compositions(connection: Connection, roots: Collection[str]) -> dict[str, Delivery]:
    """Root -> how that message was composed last: its newest edit, else the message itself."""
    table, found = tables.deliveries, dict[str, str]()
    of_root = func.coalesce(table.c.root, table.c.id)
    columns = (table.c.id, of_root.label("of"))
    for part in batched(sorted(roots), _ROOTS_AT_ONCE):
        mine = and_(of_root.in_(part), table.c.operation.in_(["post", "edit"]))
        ordered = select(*columns).where(mine).order_by(table.c.sequence, table.c.created_at, table.c.id)
        found |= {str(row.of): str(row.id) for row in connection.execute(ordered)}
    newest: dict[str, Delivery] = {}
    for part in batched(sorted(found.values()), _ROOTS_AT_ONCE):
        for row in connection.execute(select(table).where(table.c.id.in_(part))).mappings():
            delivery = Delivery(**row)
            newest[delivery.root or delivery.id] = delivery
    return newest


def thread(connection: Connection, root: str) -> list[Delivery]:
    """A living message with all its edits, replies and files, by the time they were composed."""
    table = tables.deliveries
    statement = select(table).where(or_(table.c.id == root, table.c.root == root))
    ordered = statement.order_by(table.c.created_at, table.c.sequence, table.c.id)
    return [Delivery(**row) for row in connection.execute(ordered).mappings()]


def incidents(connection: Connection, state: IncidentState | None, *, of_monitor: bool = False) -> list[Incident]:
    """The incidents of labels (or those of the monitor itself), by the time they were opened."""
    table = tables.incidents
    mine = table.c.rule.startswith(MONITOR_RULE, autoescape=True)
    statement = (
        select(table)
        .where(mine if of_monitor else ~mine)
        .order_by(table.c.opened_at, table.c.source, table.c.label, table.c.rule)
    )
    if state is not None:
        statement = statement.where(table.c.state == state)
    return [_incident(row) for row in connection.execute(statement).mappings()]


def incident(connection: Connection, prefix: str) -> Incident:
    """The incident whose id is, or begins with, ``prefix``."""
    table = tables.incidents
    begins = select(table).where(table.c.id.startswith(prefix, autoescape=True)).order_by(table.c.id)
    found = [_incident(row) for row in connection.execute(begins.limit(_SHOWN_CANDIDATES)).mappings()]
    exact = [each for each in found if each.id == prefix]
    if not found:
        raise NotFound(f"no incident has an id that begins with {prefix!r}; `calmon incidents list --all` shows them")
    if len(found) > 1 and not exact:
        raise Ambiguous(f"several incidents begin with {prefix!r}: {', '.join(each.id for each in found)} ...")
    return (exact or found)[0]


def events(connection: Connection, incident: str | None) -> list[IncidentEvent]:
    """What happened, in order."""
    table = tables.incident_events
    statement = select(table).order_by(table.c.at, table.c.key)
    if incident is not None:
        statement = statement.where(table.c.incident == incident)
    return [IncidentEvent(**row) for row in connection.execute(statement).mappings()]


def _open_key(incident: Incident) -> str | None:
    if incident.state == "resolved":
        return None
    name = incident.fingerprint
    return name if len(name) <= _OPEN_KEY_LENGTH else hashlib.sha256(name.encode()).hexdigest()


def _incident_row(incident: Incident) -> Row:
    names = [column.name for column in tables.incidents.columns if column.name not in ("open_key", "label")]
    row: Row = {name: getattr(incident, name) for name in names}
    return row | {
        "open_key": _open_key(incident), "label": label_key(incident.label), "reason": str(incident.reason),
        "further_reasons": list(incident.further_reasons),
    }  # fmt: skip


def _incident(row: RowMapping) -> Incident:
    stored = {name: row[name] for name in row if name not in ("open_key", "label", "further_reasons")}
    return Incident(**stored, label=label_of(row["label"]), further_reasons=tuple(row["further_reasons"] or ()))


def _event_row(event: IncidentEvent) -> Row:
    names = [column.name for column in tables.incident_events.columns]
    row: Row = {name: getattr(event, name) for name in names}
    return row | {"detail": plain(event.detail)}
