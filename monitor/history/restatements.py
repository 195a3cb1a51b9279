"""How many items of a window have their truth, over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, and_, func, select

from monitor.core.maturity import Maturity
from monitor.core.records import Schedule, Subject
from monitor.history import tables
from monitor.history.connect import Row, about, add_missing, record_of, row_of, window_of

Key = tuple[datetime, str | None]
"""(start of a window, label)."""


def save_maturities(connection: Connection, found: Sequence[Maturity], now: datetime) -> None:
    """Add each maturity that differs from the last: in items, in truths, or in being final. Earlier ones stay."""
    by_source: dict[tuple[Schedule, str], list[Maturity]] = {}
    for each in found:
        by_source.setdefault((each.window.schedule, each.subject.source), []).append(each)
    for (schedule, source), of_source in by_source.items():
        known = maturities(connection, schedule, source, since=min(each.window.start for each in of_source))
        pairs = [(each, known.get((each.window.start, each.subject.label))) for each in of_source]
        changed = [each for each, before in pairs if before is None or not each.says_the_same(before)]
        add_missing(connection, tables.maturities, [_row(each, now) for each in changed])


def maturities(
    connection: Connection,
    schedule: Schedule,
    source: str,
    *,
    since: datetime,
    until: datetime | None = None,
) -> dict[Key, Maturity]:
    """The newest maturity of each label and window, from ``since`` to ``until``."""
    table = tables.maturities
    conditions = [table.c.schedule == schedule, table.c.source == source, table.c.window_start >= since]
    if until is not None:
        conditions.append(table.c.window_start <= until)
    keys = (table.c.window_start, table.c.label)
    last = select(*keys, func.max(table.c.known_at).label("last")).where(*conditions).group_by(*keys).subquery("last")
    same = and_(*(table.c[name] == last.c[name] for name in ("window_start", "label")), table.c.known_at == last.c.last)
    rows = connection.execute(select(table).join(last, same).where(*conditions).order_by(*keys)).mappings()
    return {(row["window_start"], row["label"]): _maturity(row) for row in rows}


def _row(maturity: Maturity, now: datetime) -> Row:
    return row_of(tables.maturities, maturity, **about(maturity.window, maturity.subject), known_at=now)


def _maturity(row: RowMapping) -> Maturity:
    return record_of(Maturity, row, subject=Subject(row["source"], row["label"]), window=window_of(row))
