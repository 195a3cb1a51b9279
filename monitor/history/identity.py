"""Which history this is, and how far it has come: what gates compare, so that no yes comes from the past.

One row, made with the tables: an id, an epoch that operators raise (`calmon db confirm`), and a version that
each change of a switch or threshold raises. Not confirmed: an older copy was put back, and every gate is closed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection, bindparam, case, func, or_, select, update

from monitor.core.records import Identity, Mark, Recorded
from monitor.history import tables
from monitor.history.errors import HistoryDamaged, StoreUnreachable

_ROW = 1
_HISTORY = tables.history.c
_READ = select(tables.history).where(_HISTORY.id == _ROW)
_CONTENT = select(
    select(func.coalesce(func.sum(tables.switches.c.version), 0)).scalar_subquery(),
    select(func.min(tables.thresholds.c.published_at)).scalar_subquery(),
)
_SET = update(tables.history).where(_HISTORY.id == _ROW)
_ADVANCE = _SET.values(version=_HISTORY.version + 1)
_IS_REPLICA = select(func.pg_is_in_recovery())
_AT = bindparam("at", type_=_HISTORY.newest_at.type)
_ADVANCE_AT = _ADVANCE.values(
    newest_at=case((or_(_HISTORY.newest_at.is_(None), _HISTORY.newest_at < _AT), _AT), else_=_HISTORY.newest_at)
)


def vouch(connection: Connection) -> None:
    """An operator made this history in the place of one that was lost: gates that knew the other accept it."""
    connection.execute(_SET, {"epoch": int(time.time())})


def refuse_replica(connection: Connection) -> None:
    """Nothing is automated by what a read replica of PostgreSQL says, which may be behind: a label that was turned off
    would still be on there. Raises :class:`StoreUnreachable`.
    """
    if connection.dialect.name == "postgresql" and connection.scalar(_IS_REPLICA):
        why = "the history is a read replica, on which a switch that was turned off may still be on"
        raise StoreUnreachable(f"{why}: CALMON_STORE_URL must name the server that is written to")


def read(connection: Connection) -> Identity:
    """The identity. Raises :class:`HistoryDamaged` where the row is gone."""
    row = connection.execute(_READ).mappings().first()
    if row is None:
        raise HistoryDamaged("the history has lost its identity (table history is empty): restore a backup")
    return Identity(
        Mark(row["history_id"], row["epoch"], row["version"]),
        row["confirmed"],
        row["newest_at"],
        row["why"],
        row["changed_by"],
        row["changed_at"],
        content=_content(connection),
    )


def _content(connection: Connection) -> str:
    """Every change of a switch raises its version, and thresholds are published all at once: old rows make it less.

    "" of PostgreSQL, which never mixes copies, and where two statements of a writer may see two moments.
    """
    if connection.dialect.name != "sqlite":
        return ""
    versions, published = connection.execute(_CONTENT).one()
    return f"{int(versions)} {published.isoformat() if published else ''}".strip()


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
    if at is None:
        connection.execute(_ADVANCE)
    else:
        connection.execute(_ADVANCE_AT, {"at": at})
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
    connection.execute(_SET, values)
    return advance(connection)
