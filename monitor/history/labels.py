"""The labels of a source in the history, found without reading its verdicts: an emergency stop must not wait."""

from __future__ import annotations

from functools import cache

from sqlalchemy import Connection, Select, Subquery, Table, bindparam, func, select

from monitor.core.records import DRILL_LABEL
from monitor.history import tables
from monitor.history.values import label_of

_SEEN_IN = (tables.estimate_series, tables.verdict_series, tables.baselines)


def known(connection: Connection, source: str) -> set[str | None]:
    """Labels that were estimated, judged, pinned or switched (None: the source as a whole), an index step for each."""
    seen = {key for table in _SEEN_IN for key in _distinct(connection, table, source)}
    switched = {key for key in _distinct(connection, tables.switches, source) if key != DRILL_LABEL}
    return {label_of(key) for key in seen | switched}


def _distinct(connection: Connection, table: Table, source: str) -> list[str]:
    return list(connection.execute(_select_labels(table), {"source": source}).scalars())


@cache
def _select_labels(table: Table) -> Select[tuple[str]]:
    return select(each_label(table).c.label)


def each_label(table: Table) -> Subquery:
    """Every label of a ``source`` once, by stepping from each label to the next in the index.

    The source is passed at execution. SELECT DISTINCT would read the whole index, which has several rows for
    each label.
    """
    first = select(func.min(table.c.label).label("label")).where(table.c.source == bindparam("source"))
    found = first.cte("found", recursive=True)
    after = select(func.min(table.c.label)).where(table.c.source == bindparam("source"), table.c.label > found.c.label)
    found = found.union_all(select(after.scalar_subquery()).where(found.c.label.is_not(None)))
    return select(found.c.label).where(found.c.label.is_not(None)).subquery()
