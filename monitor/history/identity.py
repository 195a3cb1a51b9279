"""Which history this is, and how far it has come: what gates compare, so that no yes comes from the past.

One row, made with the tables: an id, an epoch that operators raise (`calmon db confirm`), and a version that
each change of a switch or threshold raises. Not confirmed: an older copy was put back, and every gate is closed.
"""

from __future__ import annotations

import time
from datetime import datetime

from sqlalchemy import Connection, case, select, update

from monitor.history import tables
from monitor.history.errors import HistoryDamaged
from monitor.records import Identity, Mark

_ROW = 1


def vouch(connection: Connection) -> None:
    """An operator made this history in the place of one that was lost: gates that knew the other accept it."""
    connection.execute(update(tables.history).where(tables.history.c.id == _ROW).values(epoch=int(time.time())))


def read(connection: Connection) -> Identity:
    """The identity. Raises :class:`HistoryDamaged` where the row is gone."""
    row = connection.execute(select(tables.history).where(tables.history.c.id == _ROW)).mappings().first()
    if row is None:
        raise HistoryDamaged("the history has lost its identity (table history is empty): restore a backup")
    return Identity(
        Mark(row["history_id"], row["epoch"], row["version"]), row["confirmed"], row["newest_at"], row["why"],
        row["changed_by"], row["changed_at"],
    )  # fmt: skip


def advance(connection: Connection, at: datetime | None = None) -> Mark:
    """One more version; ``at`` is the date of the change, where it may be held against a clock."""
    table = tables.history
    values: dict[str, object] = {"version": table.c.version + 1}
    if at is not None:
        later = (table.c.newest_at.is_(None)) | (table.c.newest_at < at)
        values["newest_at"] = case((later, at), else_=table.c.newest_at)
    connection.execute(update(table).where(table.c.id == _ROW).values(values))
    return read(connection).mark


def doubt(connection: Connection, *, why: str, by: str, now: datetime, beyond: int = 0) -> Identity:
    """An older copy was put back: every gate is closed until an operator confirms.

    A new epoch, too: what is changed from here on is another line of versions than the one that was lost.
    """
    values = {"confirmed": False, "epoch": _next_epoch(connection, beyond, now)}
    return _set(connection, values | {"why": why, "changed_by": by, "changed_at": now})


def confirm(connection: Connection, *, beyond: int, why: str, by: str, now: datetime) -> Identity:
    """An operator vouches for what is stored: a new epoch, higher than ``beyond`` and than any before it."""
    values = {"confirmed": True, "epoch": _next_epoch(connection, beyond, now), "newest_at": now}
    return _set(connection, values | {"why": why, "changed_by": by, "changed_at": now})


def _next_epoch(connection: Connection, beyond: int, now: datetime) -> int:
    """The time in seconds, so that it is higher than an epoch that nobody here remembers."""
    return max(read(connection).mark.epoch + 1, beyond + 1, int(now.timestamp()))


def _set(connection: Connection, values: dict[str, object]) -> Identity:
    connection.execute(update(tables.history).where(tables.history.c.id == _ROW).values(values))
    advance(connection)
    return read(connection)
