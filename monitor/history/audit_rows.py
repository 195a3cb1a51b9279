"""Items drawn for audits, and what people found: one row for each item of a label and week."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, bindparam, select, update

from monitor.core.audits import AuditedItem
from monitor.history import tables
from monitor.history.connect import Row, add_missing, record_of, row_of

table = tables.audits


def keep_drawn(connection: Connection, items: Sequence[AuditedItem]) -> None:
    """Store drawn items. Of one that is stored already, what was found stays; what the relation says is renewed."""
    add_missing(connection, table, [row_of(table, item, decided_at=None) for item in items])
    _update(connection, items, "stated", {})


def save_found(connection: Connection, items: Sequence[AuditedItem], now: datetime) -> None:
    """Store what people found. A later truth replaces an earlier one."""
    _update(connection, items, "outcome", {"decided_at": now})


def _update(connection: Connection, items: Sequence[AuditedItem], name: str, more: Row) -> None:
    keys = [column.name for column in table.primary_key]
    which = (table.c[key] == bindparam(f"key_{key}") for key in keys)
    changed = (*which, table.c[name].is_distinct_from(bindparam("found")))
    rows = [{f"key_{key}": getattr(item, key) for key in keys} | {"found": getattr(item, name)} for item in items]
    if rows:
        connection.execute(update(table).where(*changed).values({name: bindparam("found"), **more}), rows)


def read(connection: Connection, source: str, since: datetime | None = None) -> list[AuditedItem]:
    """The drawn items of a source, of weeks from ``since`` on, in order."""
    statement = select(table).where(table.c.source == source)
    if since is not None:
        statement = statement.where(table.c.window_start >= since)
    ordered = statement.order_by(table.c.window_start, table.c.label, table.c.item)
    return [record_of(AuditedItem, row) for row in connection.execute(ordered).mappings()]


def newly_decided(connection: Connection, source: str) -> list[datetime]:
    """The beginnings of the weeks of which people found something after they were last read, oldest first."""
    read_of = tables.readings
    same = (read_of.c.schedule == "weekly", read_of.c.source == table.c.source)
    joined = select(table.c.window_start).join(read_of, read_of.c.window_start == table.c.window_start)
    later = joined.where(table.c.source == source, *same, table.c.decided_at > read_of.c.read_at)
    return list(connection.scalars(later.distinct().order_by(table.c.window_start)))
