"""The identity of a history and how far it has come. Gates compare it, so that none answers yes from an older copy.

It is one row, created with the tables: an id, an epoch that operators raise (`calmon db confirm`), and a version that
each change of a switch or threshold raises. If it is not confirmed, an older copy was put back, and every gate is
closed.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Connection, case, func, literal, or_, select, update

from monitor.core.records import GATES_CLOSED, GATES_CONFIRMED, Identity, Mark, Recorded, Replica
from monitor.history import switches, tables
from monitor.history.connect import record_of
from monitor.history.errors import HistoryDamaged, StoreUnreachable

_ROW = 1
_HISTORY = tables.history.c
_READ = select(tables.history).where(_HISTORY.id == _ROW)
_CONTENT = select(
    select(func.coalesce(func.sum(tables.switches.c.version), 0)).scalar_subquery(),
    select(func.min(tables.thresholds.c.published_at)).scalar_subquery(),
)
_SET = update(tables.history).where(_HISTORY.id == _ROW)


def vouch(connection: Connection) -> None:
    """Let gates that knew another history accept this one: an operator created it to replace one that was lost."""
    connection.execute(_SET, {"epoch": int(time.time())})


def refuse_replica(connection: Connection) -> None:
    """Raise :class:`StoreUnreachable` for a read replica of PostgreSQL.

    It may be behind: a label that was turned off could still be on there.
    """
    if found := replica_refusal(connection):
        raise found


def replica_refusal(connection: Connection) -> StoreUnreachable | None:
    """The error for a read replica of PostgreSQL; None for any other database."""
    if not _is_replica(connection):
        return None
    why = "the history is a read replica, on which a switch that was turned off may still be on"
    return StoreUnreachable(f"{why}: CALMON_STORE_URL must name the server that is written to")


def replica(connection: Connection) -> Replica | None:
    """How far a read replica of PostgreSQL has come; None for any other database."""
    if not _is_replica(connection):
        return None
    changed_at: datetime | None = connection.scalar(select(func.pg_last_xact_replay_timestamp()))
    return Replica(changed_at and changed_at.astimezone(UTC))


def _is_replica(connection: Connection) -> bool:
    return connection.dialect.name == "postgresql" and bool(connection.scalar(select(func.pg_is_in_recovery())))


def read(connection: Connection) -> Identity:
    """The identity. Raises :class:`HistoryDamaged` if its row is missing."""
    row = connection.execute(_READ).mappings().first()
    if row is None:
        raise HistoryDamaged("the history has lost its identity (table history is empty): restore a backup")
    mark = Mark(row["history_id"], row["epoch"], row["version"])
    return record_of(Identity, row, mark=mark, content=_content(connection))


def _content(connection: Connection) -> str:
    """The sum of all switches' versions and the time of the published thresholds: with older rows it is less.

    "" for PostgreSQL: it never mixes copies, and there two statements of a writer may see two moments.
    """
    if connection.dialect.name != "sqlite":
        return ""
    versions, published = connection.execute(_CONTENT).one()
    return f"{int(versions)} {published.isoformat() if published else ''}".strip()


def close_if_older_copy(connection: Connection, seen: Recorded | None, now: datetime) -> bool:
    """Close every gate if an older copy was put back without `calmon db restore`. Returns whether it did so now.

    Call it before any change: the version of the older copy could otherwise pass the one that is recorded.
    """
    found = replace(read(connection), seen=seen)
    if seen is None or not found.went_back or not found.confirmed:
        return False
    stored, recorded = found.mark, seen.mark
    why = (
        f"an older copy was put back: it is at version {stored.version} of epoch {stored.epoch}, and "
        f"version {recorded.version} of epoch {recorded.epoch} was there before"
    )
    if found.is_mixed:
        why = "an older copy was put back under the journal (-wal) of the newer one: what is in it is of both"
    close_until_confirmed(connection, why=why, by="calmon", now=now, beyond=recorded.epoch)
    return True


def advance(connection: Connection, at: datetime | None = None) -> Identity:
    """Raise the version by one. ``at`` is the time of the change, if it may be compared with a clock."""
    newest = _HISTORY.newest_at
    later = newest if at is None else case((or_(newest.is_(None), newest < at), literal(at, newest.type)), else_=newest)
    connection.execute(_SET.values(version=_HISTORY.version + 1, newest_at=later))
    return read(connection)


def close_until_confirmed(connection: Connection, *, why: str, by: str, now: datetime, beyond: int = 0) -> Identity:
    """Close every gate until an operator confirms: an older copy was put back.

    This starts a new epoch, higher than ``beyond``: versions from here on do not continue those that were lost.
    """
    epoch = _next_epoch(connection, beyond, now)
    switches.note_gates(connection, GATES_CLOSED, epoch, at=now, by=by, why=why)
    values = {"confirmed": False, "epoch": epoch}
    return _set(connection, values | {"why": why, "changed_by": by, "changed_at": now})


def confirm(connection: Connection, *, beyond: int, why: str, by: str, now: datetime) -> Identity:
    """Store that an operator confirms this history. Starts a new epoch, higher than ``beyond`` and any earlier one."""
    epoch, before = _next_epoch(connection, beyond, now), read(connection)
    if not before.confirmed:
        switches.note_gates(connection, GATES_CONFIRMED, epoch, at=now, by=by, why=why)
    values = {"confirmed": True, "epoch": epoch, "newest_at": now}
    return _set(connection, values | {"why": why, "changed_by": by, "changed_at": now})


def _next_epoch(connection: Connection, beyond: int, now: datetime) -> int:
    """The time in seconds, which is higher also than an epoch that is not recorded here."""
    return max(read(connection).mark.epoch + 1, beyond + 1, int(now.timestamp()))


def _set(connection: Connection, values: dict[str, object]) -> Identity:
    connection.execute(_SET, values)
    return advance(connection)
