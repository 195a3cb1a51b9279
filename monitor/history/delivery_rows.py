"""Messages and changes of messages: stored as pending, claimed before they are sent, settled afterwards."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, false, func, or_, select, update

from monitor.core.records import Delivery, DeliveryState
from monitor.history.connect import Row, add_missing, one_at_a_time, row_of
from monitor.history.tables import deliveries as table
from monitor.history.values import plain

CLAIM_EXPIRES = timedelta(minutes=5)
_UNSENT = ("pending", "failed")
_LIVING = (*_UNSENT, "sending", "sent")
_NO_ERROR: Row = {"error": None, "error_code": None, "uncertain": False}


class Root(NamedTuple):
    """The message that others change or answer: its delivery state, its place in Slack, its error."""

    state: DeliveryState
    channel: str | None
    ts: str | None
    error: str | None


def add(connection: Connection, delivery: Delivery) -> None:
    """Add a message unless it is there."""
    add_deliveries(connection, [delivery])


def add_deliveries(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """Add the messages that are not there yet."""
    add_missing(connection, table, [_delivery_row(delivery) for delivery in deliveries])


def deliveries(
    connection: Connection, states: Collection[DeliveryState] | None = None, *, files: bool = True
) -> list[Delivery]:
    """The messages in these states (None: all), by the time they were composed; without ``files``, no pictures."""
    wanted = [] if files else [table.c.operation != "file"]
    return _deliveries(connection, *wanted, *([] if states is None else [table.c.state.in_(list(states))]))


def undelivered(connection: Connection, since: datetime) -> list[Delivery]:
    """The messages that wait or are being sent, and those given up that were composed since then."""
    dead = and_(table.c.state == "dead", table.c.created_at >= since)
    return _deliveries(connection, or_(table.c.state.in_([*_UNSENT, "sending"]), dead))


def counts(connection: Connection) -> dict[DeliveryState, int]:
    """How many messages and changes of messages are in each state; their payloads are not read."""
    found = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {row[0]: int(row[1]) for row in found}


def roots(connection: Connection, ids: Collection[str]) -> dict[str, Root]:
    """Delivery id -> its state; one that is not stored is left out."""
    columns = (table.c.id, table.c.state, table.c.external_channel, table.c.external_id, table.c.error)
    found = connection.execute(select(*columns).where(table.c.id.in_(list(ids))))
    return {row.id: Root(row.state, row.external_channel, row.external_id, row.error) for row in found}


def known_channels(connection: Connection, channels: Collection[str]) -> dict[str, str]:
    """Channel as routes name it -> Slack's id of it, from the newest message that went there."""
    found = {}
    for channel in sorted(channels):
        there = and_(table.c.channel == channel, table.c.sent_at.is_not(None), table.c.external_channel.is_not(None))
        newest = select(table.c.external_channel).where(there).order_by(table.c.sent_at.desc())
        found[channel] = connection.execute(newest.limit(1)).scalar()
    return {channel: id for channel, id in found.items() if id is not None}


def note_compared(connection: Connection, ids: Collection[str], at: datetime) -> None:
    """Note that these messages say of switches what is so at that time."""
    connection.execute(update(table).where(table.c.id.in_(list(ids))).values(compared_at=at))


def supersede(connection: Connection) -> int:
    """Take back the unsent edits of which a later one of the same message is stored; gives how many."""
    old = and_(table.c.operation == "edit", table.c.state.in_(_UNSENT), _later_edit())
    return connection.execute(update(table).where(old).values(state="superseded", **_NO_ERROR)).rowcount


def conclude(
    connection: Connection, delivery: str, *, from_state: DeliveryState, state: DeliveryState, error: str
) -> bool:
    """End a message that nobody has to send, as its root says; False where it is no longer in ``from_state``."""
    held = and_(table.c.id == delivery, table.c.state == from_state)
    ended = _NO_ERROR | {"state": state, "error": error}
    return connection.execute(update(table).where(held).values(ended)).rowcount == 1


@cache
def _later_edit() -> ColumnElement[bool]:
    """There is a later edit of the same message that was not given up."""
    other = table.alias()
    later = or_(
        other.c.sequence > table.c.sequence,
        and_(
            other.c.sequence == table.c.sequence,
            or_(
                other.c.created_at > table.c.created_at,
                and_(other.c.created_at == table.c.created_at, other.c.id > table.c.id),
            ),
        ),
    )
    return exists().where(other.c.root == table.c.root, other.c.operation == "edit", other.c.state.in_(_LIVING), later)


@cache
def _edit_under_way() -> ColumnElement[bool]:
    """Another edit of the same message is being sent: it could arrive after this one and win."""
    other = table.alias()
    same = (other.c.root == table.c.root, other.c.operation == "edit", other.c.id != table.c.id)
    return exists().where(*same, other.c.state == "sending")


def due_deliveries(connection: Connection, now: datetime, *, worker: str | None = None) -> list[Delivery]:
    """The messages to be sent now: those whose time has come, and those whose sender is gone (or is ``worker``)."""
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
    claimed_at: datetime | None = None,
) -> bool:
    """Take a message for sending: attempts + 1, True for exactly one caller.

    An edit is taken only if none of the same message is being sent, and none later is stored. One in
    ``sending`` can be taken only from a sender that is gone: the claim has expired, or it is this worker's own
    of an earlier life, named by the ``claimed_at`` that was read.
    """
    free = and_(table.c.id == delivery, table.c.state == from_state)
    if from_state == "sending":
        own = and_(table.c.claimed_by == worker, table.c.claimed_at == claimed_at) if claimed_at else false()
        free = and_(free, or_(table.c.claimed_at <= now - CLAIM_EXPIRES, own))
    _wait_for_claims_of_its_root(connection, delivery)
    free = and_(free, or_(table.c.operation != "edit", and_(~_edit_under_way(), ~_later_edit())))
    taken = {"state": "sending", "attempts": table.c.attempts + 1, "claimed_at": now, "claimed_by": worker}
    return connection.execute(update(table).where(free).values(taken)).rowcount == 1


def _wait_for_claims_of_its_root(connection: Connection, delivery: str) -> None:
    """Let claims of two edits of one message come one after the other; SQLite's writers do so anyway."""
    if connection.dialect.name == "postgresql":
        root = connection.execute(select(table.c.root).where(table.c.id == delivery)).scalar()
        one_at_a_time(connection, f"edits of {root or delivery}")


def settle(
    connection: Connection,
    delivery: str,
    *,
    worker: str,
    state: DeliveryState,
    now: datetime,
    next_attempt_at: datetime | None = None,
    external_channel: str | None = None,
    external_id: str | None = None,
    error: str | None = None,
    error_code: str | None = None,
    uncertain: bool = False,
) -> bool:
    """Store the result of a delivery; False where ``worker`` no longer holds it."""
    held = and_(table.c.id == delivery, table.c.state == "sending", table.c.claimed_by == worker)
    outcome: Row = {"state": state, "error": error, "error_code": error_code, "uncertain": uncertain}
    if state == "sent":
        outcome["sent_at"] = now
    if next_attempt_at is not None:
        outcome["next_attempt_at"] = next_attempt_at
    given = {"external_channel": external_channel, "external_id": external_id}
    outcome |= {name: value for name, value in given.items() if value is not None}
    return connection.execute(update(table).where(held).values(outcome)).rowcount == 1


def _deliveries(connection: Connection, *wanted: ColumnElement[bool]) -> list[Delivery]:
    statement = select(table).where(*wanted).order_by(table.c.created_at, table.c.id)
    return [Delivery(**row) for row in connection.execute(statement).mappings()]


def _delivery_row(delivery: Delivery) -> Row:
    due = delivery.next_attempt_at or delivery.created_at
    return row_of(table, delivery, payload=plain(delivery.payload), next_attempt_at=due)
