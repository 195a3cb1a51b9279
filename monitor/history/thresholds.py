"""The score from which each label may act alone, as the newest run, command or service said.

A gate asks the history only: it does not read alerts.yaml, which may be on another machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, delete, select

from monitor.history import tables
from monitor.history.connect import insert
from monitor.history.values import label_key, label_of

Thresholds = Mapping[tuple[str, str | None], float]


def read(connection: Connection) -> dict[tuple[str, str | None], float]:
    """(source, label) -> automate_at; label None is the source's, for labels without their own."""
    rows = connection.execute(select(tables.thresholds)).mappings()
    return {(row["source"], label_of(row["label"])): row["automate_at"] for row in rows}


def publish(connection: Connection, wanted: Thresholds, now: datetime) -> None:
    """Make these the only ones; what is no longer wanted closes its gate."""
    table = tables.thresholds
    connection.execute(delete(table))
    rows = [
        {"source": source, "label": label_key(label), "automate_at": score, "published_at": now}
        for (source, label), score in wanted.items()
    ]
    if rows:
        connection.execute(insert(connection, table).on_conflict_do_nothing(), rows)
