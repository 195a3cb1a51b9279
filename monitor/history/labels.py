"""The labels of a source in the history."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from monitor.core.records import DRILL_LABEL
from monitor.history import tables
from monitor.history.values import label_of

_LABELS = [
    select(table.c.label).where(table.c.source == bindparam("source")).distinct()
    for table in (tables.labels, tables.baselines, tables.switches)
]


def known(connection: Connection, source: str) -> set[str | None]:
    """Labels that were estimated, judged, pinned or switched (None: the source as a whole)."""
    seen, pinned, switched = (set(connection.execute(one, {"source": source}).scalars()) for one in _LABELS)
    # a drill leaves its switch behind; a label of that name that was seen is a real one
    return {label_of(key) for key in seen | pinned | (switched - {DRILL_LABEL})}
