"""Incidents, what happened to them, and the messages about them: written in one transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from sqlalchemy import Connection, RowMapping, and_, select, update

from monitor.history import tables
from monitor.history.connect import Row, add_missing
from monitor.history.delivery_rows import add_deliveries
from monitor.history.values import label_key, label_of, plain
from monitor.records import Delivery, Incident, IncidentEvent, IncidentState

_OPEN_KEY_LENGTH = 400


def apply_incidents(
    connection: Connection,
    opened: Sequence[Incident],
    updated: Sequence[Incident],
    deliveries: Sequence[Delivery],
    events: Sequence[IncidentEvent] = (),
) -> None:
    """Store decisions, their events and the messages they call for. Doing it again changes nothing.

    An incident is updated where its ``version`` is one more than the stored one's, and is not opened beside one
    of its fingerprint that is not resolved.
    """
    table = tables.incidents
    for incident in updated:
        as_seen = and_(table.c.id == incident.id, table.c.version == incident.version - 1)
        connection.execute(update(table).where(as_seen).values(_incident_row(incident)))
    add_missing(connection, table, [_incident_row(incident) for incident in opened])
    add_missing(connection, tables.incident_events, [_event_row(event) for event in events])
    add_deliveries(connection, deliveries)


def incidents(connection: Connection, state: IncidentState | None) -> list[Incident]:
    """The incidents, by the time they were opened."""
    table = tables.incidents
    statement = select(table).order_by(table.c.opened_at, table.c.source, table.c.label, table.c.rule)
    if state is not None:
        statement = statement.where(table.c.state == state)
    return [_incident(row) for row in connection.execute(statement).mappings()]


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
    return row | {"open_key": _open_key(incident), "label": label_key(incident.label), "reason": str(incident.reason)}


def _incident(row: RowMapping) -> Incident:
    stored = {name: row[name] for name in row if name not in ("open_key", "label")}
    return Incident(**stored, label=label_of(row["label"]))


def _event_row(event: IncidentEvent) -> Row:
    names = [column.name for column in tables.incident_events.columns]
    row: Row = {name: getattr(event, name) for name in names}
    return row | {"detail": plain(event.detail)}
