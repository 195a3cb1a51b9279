"""Annotations: notes of people at a time of a source or label. A removed one stays stored, with who removed it."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import ColumnElement, Connection, or_, select, update

from monitor.core.records import Annotation
from monitor.history import tables
from monitor.history.connect import filtered, is_added, row_by_id, row_of
from monitor.history.values import ANY, LabelFilter

table = tables.annotation_table
WHOLE = tables.WHOLE


def add(connection: Connection, annotation: Annotation) -> Annotation:
    """Store an annotation and return it. If its id or its request's key is stored already, return the stored one."""
    if is_added(connection, table, row_of(table, annotation)):
        return annotation
    same_id_or_key = or_(table.c.id == annotation.id, table.c.key == annotation.key)
    return Annotation(**connection.execute(select(table).where(same_id_or_key)).mappings().one())


def remove(connection: Connection, id: str, *, by: str, reason: str, now: datetime) -> bool:
    """Mark an annotation as removed, so that no axis shows it. False if it was removed already: that record stays."""
    still_shown = (table.c.id == id, table.c.removed_at.is_(None))
    removed = {"removed_at": now, "removed_by": by, "removed_reason": reason}
    return connection.execute(update(table).where(*still_shown).values(removed)).rowcount == 1


def one(connection: Connection, prefix: str) -> Annotation:
    """The annotation whose id is, or begins with, ``prefix``. Raises NotFound and Ambiguous."""
    return Annotation(**row_by_id(connection, table, "annotation", prefix))


def read(
    connection: Connection,
    source: str | None = None,
    label: LabelFilter = ANY,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    removed: bool = False,
) -> list[Annotation]:
    """Annotations by time. Those of a label include those of its whole source. ``removed`` adds the removed ones."""
    conditions: list[ColumnElement[bool]] = [] if removed else [table.c.removed_at.is_(None)]
    if label is not ANY:
        conditions.append(table.c.label.in_({WHOLE, label}))
    if since is not None:
        conditions.append(table.c.at >= since)
    if until is not None:
        conditions.append(table.c.at < until)
    chosen = filtered(select(table), table, source=source).where(*conditions)
    statement = chosen.order_by(table.c.at, table.c.added_at, table.c.source, table.c.id)
    return [Annotation(**row) for row in connection.execute(statement).mappings()]
