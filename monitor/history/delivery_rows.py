"""Deliveries: each is stored as pending, claimed before it is sent, and settled afterwards."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, exists, func, or_, select, update

from monitor.core.records import Delivery, DeliveryState
from monitor.history.connect import Row, add_missing, one_at_a_time, records, row_of
from monitor.history.tables import deliveries as table

_UNSENT = ("pending", "failed")
_LIVING = (*_UNSENT, "sending", "sent")
_NO_ERROR: Row = {"error": None, "error_code": None, "uncertain": False}


class Root(NamedTuple):
    """A message that edits and replies refer to: its delivery state, its place in Slack, its error."""

    state: DeliveryState
    channel: str | None
    ts: str | None
    error: str | None


def add(connection: Connection, delivery: Delivery) -> None:
    """Add a delivery unless it is stored already."""
    add_deliveries(connection, [delivery])


def add_deliveries(connection: Connection, deliveries: Sequence[Delivery]) -> None:
    """Add the deliveries that are not stored yet."""
    rows = [row_of(table, each, next_attempt_at=each.next_attempt_at or each.created_at) for each in deliveries]
    add_missing(connection, table, rows)


def deliveries(connection: Connection, states: Collection[DeliveryState] | None = None) -> list[Delivery]:
    """The deliveries in these states (None: all), by the time they were composed."""
    return records(connection, Delivery, _IN_ORDER if states is None else _IN_ORDER.where(table.c.state.in_(states)))


_IN_ORDER = select(table).order_by(table.c.created_at, table.c.id)


def undelivered(connection: Connection, since: datetime) -> list[Delivery]:
    """The deliveries that wait or are being sent, and those composed since then that were given up."""
    given_up = and_(table.c.state.in_(["dead", "not_sent"]), table.c.created_at >= since)
    return records(connection, Delivery, _IN_ORDER.where(or_(table.c.state.in_([*_UNSENT, "sending"]), given_up)))


def sent_between(connection: Connection) -> tuple[datetime, datetime] | None:
    """When the first and the last delivery were sent; None if none was."""
    # each by itself: then an index has it
    ends = (select(of(table.c.sent_at)).scalar_subquery() for of in (func.min, func.max))
    first, last = connection.execute(select(*ends)).one()
    return None if first is None else (first, last)


def counts(connection: Connection) -> dict[DeliveryState, int]:
    """How many deliveries are in each state. Does not read their payloads."""
    found = connection.execute(select(table.c.state, func.count()).group_by(table.c.state))
    return {row[0]: int(row[1]) for row in found}


def roots(connection: Connection, ids: Collection[str]) -> dict[str, Root]:
    """Delivery id -> its state and place. Ids that are not stored are left out."""
    columns = (table.c.id, table.c.state, table.c.external_channel, table.c.external_id, table.c.error)
    found = connection.execute(select(*columns).where(table.c.id.in_(ids)))
    return {id: Root(*place) for id, *place in found}


def known_channels(connection: Connection, channels: Collection[str]) -> dict[str, str]:
    """Channel as routes name it -> Slack's id of it, from the newest message sent there."""
    sent = (table.c.sent_at.is_not(None), table.c.external_channel.is_not(None))
    newest = select(table.c.external_channel).where(*sent).order_by(table.c.sent_at.desc()).limit(1)
    found = {each: connection.execute(newest.where(table.c.channel == each)).scalar() for each in sorted(channels)}
    return {channel: id for channel, id in found.items() if id is not None}


def _later_edit() -> ColumnElement[bool]:
    """The condition that there is a later edit of the same message that was not given up."""
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


def supersede(connection: Connection) -> int:
    """Mark unsent edits as superseded if a later edit of the same message is stored. Returns how many."""
    unsent = (table.c.operation == "edit", table.c.state.in_(_UNSENT), _later_edit())
    return connection.execute(update(table).where(*unsent).values(state="superseded", **_NO_ERROR)).rowcount


def conclude(
    connection: Connection,
    delivery: str,
    *,
    from_state: DeliveryState,
    state: DeliveryState,
    error: str | None = None,
) -> bool:
    """End a delivery that need not be sent any more. False if it is no longer in ``from_state``."""
    is_unchanged = (table.c.id == delivery, table.c.state == from_state)
    return _is_changed(connection, *is_unchanged, **_NO_ERROR | {"state": state, "error": error})


def _is_changed(connection: Connection, *conditions: ColumnElement[bool], **values: Any) -> bool:
    """Change the one delivery that fits. False if none does."""
    return connection.execute(update(table).where(*conditions).values(values)).rowcount == 1


def note_shown(connection: Connection, edit: str, *, channel: str, ts: str, now: datetime) -> bool:
    """Store that a message was posted at this place with the content of its waiting edit.

    False if the edit does not wait any more, or if the message is stored at another place.
    """
    root = table.alias()
    is_there = and_(root.c.state == "sent", root.c.external_channel == channel, root.c.external_id == ts)
    waits = (table.c.id == edit, table.c.state.in_(_UNSENT), exists().where(root.c.id == table.c.root, is_there))
    place = {"state": "sent", "sent_at": now, "external_channel": channel, "external_id": ts}
    return _is_changed(connection, *waits, **_NO_ERROR | place)


def recompose(connection: Connection, delivery: str, payload: Mapping[str, Any]) -> bool:
    """Replace the content of a delivery that waits. False if it does not wait any more."""
    return _is_changed(connection, table.c.id == delivery, table.c.state.in_(_UNSENT), payload=payload)


def leave_channels(connection: Connection, codes: Collection[str], named: Collection[str]) -> None:
    """Give up messages, with what waits in their threads, that failed so in a channel that is not ``named``."""
    failed = (table.c.state == "failed", table.c.error_code.in_(codes), table.c.channel.not_in(named))
    roots_ = select(func.coalesce(table.c.root, table.c.id)).where(*failed)
    of_them = func.coalesce(table.c.root, table.c.id).in_(roots_)
    unsent = or_(table.c.state.in_(_UNSENT), and_(table.c.state == "sent", table.c.operation == "post"))
    connection.execute(update(table).where(of_them, unsent).values(_NO_ERROR | {"state": "superseded"}))


def claim(
    connection: Connection,
    delivery: str,
    *,
    from_state: DeliveryState,
    worker: str,
    now: datetime,
) -> bool:
    """Claim a delivery that waits for sending, and count the attempt. True for exactly one caller.

    An edit is claimed only if no other edit of its message is being sent and no later one is stored. A delivery in
    ``sending`` is never claimed: :func:`settle` releases it first, in the name of the sender that is gone.
    """
    if connection.dialect.name == "postgresql":  # two claims of edits of one message; SQLite has only one writer
        root = connection.execute(select(table.c.root).where(table.c.id == delivery)).scalar()
        one_at_a_time(connection, f"edits of {root or delivery}")
    other = table.alias()
    is_edit = (other.c.root == table.c.root, other.c.operation == "edit", other.c.id != table.c.id)
    under_way = (*is_edit, other.c.state == "sending")
    conditions = (
        table.c.id == delivery,
        table.c.state == from_state,
        table.c.state.in_(_UNSENT),
        # an edit that is being sent could arrive later and replace this one
        or_(table.c.operation != "edit", and_(~exists().where(*under_way), ~_later_edit())),
    )
    counted = table.c.attempts + 1
    return _is_changed(connection, *conditions, state="sending", attempts=counted, claimed_at=now, claimed_by=worker)


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
    """Store the result of a delivery. False if ``worker`` no longer holds its claim."""
    outcome: Row = {"state": state, "error": error, "error_code": error_code, "uncertain": uncertain}
    if state == "sent":
        outcome["sent_at"] = now
    if next_attempt_at is not None:
        outcome["next_attempt_at"] = next_attempt_at
    place = {"external_channel": external_channel, "external_id": external_id}
    outcome |= {name: value for name, value in place.items() if value is not None}
    held = (table.c.id == delivery, table.c.state == "sending", table.c.claimed_by == worker)
    return _is_changed(connection, *held, **outcome)
