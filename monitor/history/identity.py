"""Which history this is, and how far it has come: what gates compare, so that no yes comes from the past.

One row, made with the tables: an id, an epoch that operators raise (`calmon db confirm`), and a version that
each change of a switch or threshold raises. Not confirmed: an older copy was put back, and every gate is closed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, case, func, select, update

from monitor.core.records import Identity, Mark, Recorded
from monitor.history import tables
from monitor.history.errors import HistoryDamaged

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
        row["changed_by"], row["changed_at"], content=_content(connection),
    )  # fmt: skip


def _content(connection: Connection) -> str:
    """Every change of a switch raises its version, and thresholds are published all at once: old rows make it less.

    "" of PostgreSQL, which never mixes copies, and where two statements of a writer may see two moments.
    """
    if connection.dialect.name != "sqlite":
        return ""
    versions = connection.scalar(select(func.coalesce(func.sum(tables.switches.c.version), 0)))
    published = connection.scalar(select(func.min(tables.thresholds.c.published_at)))
    return f"{int(versions or 0)} {published.isoformat() if published else ''}".strip()


def heed(connection: Connection, seen: Recorded | None, now: datetime) -> bool:
    """Close every gate where an older copy was put back without a word; whether that is so, and was not known yet.

    For whoever is about to change something: the version of the older copy would overtake what is recorded.
    """
    found = replace(read(connection), seen=seen)
    if seen is None or not found.went_back or not found.confirmed:
        return False
    there, before = found.mark, seen.mark
    why = (
        f"an older copy was put back: it is at version {there.version} of epoch {there.epoch}, and "
        f"version {before.version} of epoch {before.epoch} was there before"
    )
    if found.is_mixed:
        why = "an older copy was put back under the journal (-wal) of the newer one: what is in it is of both"
    doubt(connection, why=why, by="calmon", now=now, beyond=before.epoch)
    return True


def advance(connection: Connection, at: datetime | None = None) -> Identity:
    """One more version; ``at`` is the date of the change, where it may be compared with a clock."""
    table = tables.history
    values: dict[str, object] = {"version": table.c.version + 1}
    if at is not None:
        later = (table.c.newest_at.is_(None)) | (table.c.newest_at < at)
        values["newest_at"] = case((later, at), else_=table.c.newest_at)
    connection.execute(update(table).where(table.c.id == _ROW).values(values))
    return read(connection)


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
    return advance(connection)
