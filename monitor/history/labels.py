"""The labels of a source in the history."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from monitor.history import tables
from monitor.history.values import label_of

_LABELS = [
    select(table.c.label).where(table.c.source == bindparam("source")).distinct()
    for table in (tables.labels, tables.baselines, tables.switches)
]


def known(connection: Connection, source: str) -> set[str | None]:
    """Labels that were estimated, judged, pinned or switched (None: the source as a whole)."""
    return {label_of(key) for one in _LABELS for key in connection.execute(one, {"source": source}).scalars()}
