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
    keys = {key for statement in _LABELS for key in connection.execute(statement, {"source": source}).scalars()}
    return {label_of(key) for key in keys - {DRILL_LABEL}}
