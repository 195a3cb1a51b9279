"""Messages and changes of messages: stored as pending, claimed before they are sent, settled afterwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, false, or_, select, update

from monitor.history import tables
from monitor.history.connect import Row, add_missing
from monitor.history.values import plain
from monitor.records import Delivery, DeliveryState

CLAIM_EXPIRES = timedelta(minutes=5)


def add_deliveries(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """Add the messages that are not there yet."""
    add_missing(connection, tables.deliveries, [_delivery_row(delivery) for delivery in deliveries])


def deliveries(connection: Connection, states: Collection[DeliveryState] | None) -> list[Delivery]:
    """The messages, by the time they were composed."""
    table = tables.deliveries
    return _deliveries(connection, None if states is None else table.c.state.in_(list(states)))


def due_deliveries(connection: Connection, now: datetime, worker: str | None) -> list[Delivery]:
    """The messages to be sent now: those whose time has come, and those whose sender is gone."""
    table = tables.deliveries
    waiting = and_(table.c.state.in_(["pending", "failed"]), table.c.next_attempt_at <= now)
    own = table.c.claimed_by == worker if worker is not None else false()
    abandoned = and_(table.c.state == "sending", or_(table.c.claimed_at <= now - CLAIM_EXPIRES, own))
    return _deliveries(connection, or_(waiting, abandoned))


def claim(
    connection: Connection,
    delivery: str,
    *,
    from_state: DeliveryState,
    worker: str,
    now: datetime,
    claimed_at: datetime | None,
) -> bool:
    """Take a message for sending; False where somebody else has it.

    One in ``sending`` can be taken only from a sender that is gone: the claim has expired, or it is
    this worker's own of an earlier life, named by the ``claimed_at`` that was read.
    """
    table = tables.deliveries
    free = and_(table.c.id == delivery, table.c.state == from_state)
    if from_state == "sending":
        own = and_(table.c.claimed_by == worker, table.c.claimed_at == claimed_at) if claimed_at else false()
        free = and_(free, or_(table.c.claimed_at <= now - CLAIM_EXPIRES, own))
    taken = {"state": "sending", "attempts": table.c.attempts + 1, "claimed_at": now, "claimed_by": worker}
    return connection.execute(update(table).where(free).values(taken)).rowcount == 1


def settle(
    connection: Connection,
    delivery: str,
    *,
    worker: str,
    state: DeliveryState,
    now: datetime,
    next_attempt_at: datetime | None,
    external_channel: str | None,
    external_id: str | None,
    error: str | None,
) -> bool:
    """Note what became of a message; False where ``worker`` no longer holds it."""
    table = tables.deliveries
    held = and_(table.c.id == delivery, table.c.state == "sending", table.c.claimed_by == worker)
    outcome: Row = {"state": state, "error": error}
    if state == "sent":
        outcome["sent_at"] = now
    if next_attempt_at is not None:
        outcome["next_attempt_at"] = next_attempt_at
    given = {"external_channel": external_channel, "external_id": external_id}
    outcome |= {name: value for name, value in given.items() if value is not None}
    return connection.execute(update(table).where(held).values(outcome)).rowcount == 1


def _deliveries(connection: Connection, where: Any) -> list[Delivery]:
    table = tables.deliveries
    statement = select(table).order_by(table.c.created_at, table.c.id)
    if where is not None:
        statement = statement.where(where)
    return [_delivery(row) for row in connection.execute(statement).mappings()]


def _delivery_row(delivery: Delivery) -> Row:
    return {
        "id": delivery.id, "kind": delivery.kind, "channel": delivery.channel, "payload": plain(delivery.payload),
        "state": delivery.state, "attempts": int(delivery.attempts), "created_at": delivery.created_at,
        "next_attempt_at": delivery.next_attempt_at or delivery.created_at, "claimed_at": delivery.claimed_at,
        "claimed_by": delivery.claimed_by, "sent_at": delivery.sent_at,
        "external_channel": delivery.external_channel, "external_id": delivery.external_id, "error": delivery.error,
        "operation": delivery.operation, "root": delivery.root, "sequence": int(delivery.sequence),
    }  # fmt: skip


def _delivery(row: RowMapping) -> Delivery:
    return Delivery(**row)
