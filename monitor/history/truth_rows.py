"""When truths came: how many items of a window have theirs, and what people found of items drawn for audits."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, and_, bindparam, func, select, update

from monitor.core.audits import AuditedItem
from monitor.core.maturity import Maturity
from monitor.core.records import Schedule
from monitor.history import tables
from monitor.history.connect import Row, add_missing, records, row_of

_audits = tables.audits


def keep_drawn(connection: Connection, items: Sequence[AuditedItem]) -> None:
    """Store drawn items. Of one that is stored already, what was found stays; what the relation says is renewed."""
    add_missing(connection, _audits, [row_of(_audits, item, decided_at=None) for item in items])
    _update(connection, items, "stated", {})


def save_found(connection: Connection, items: Sequence[AuditedItem], now: datetime) -> None:
    """Store what people found. A later truth replaces an earlier one."""
    _update(connection, items, "outcome", {"decided_at": now})


def _update(connection: Connection, items: Sequence[AuditedItem], name: str, more: Row) -> None:
    keys = [column.name for column in _audits.primary_key]
    which = (_audits.c[key] == bindparam(f"key_{key}") for key in keys)
    changed = (*which, _audits.c[name].is_distinct_from(bindparam("found")))
    rows = [{f"key_{key}": getattr(item, key) for key in keys} | {"found": getattr(item, name)} for item in items]
    if rows:
        connection.execute(update(_audits).where(*changed).values({name: bindparam("found"), **more}), rows)


def audited(connection: Connection, source: str, since: datetime | None = None) -> list[AuditedItem]:
    """The drawn items of a source, of weeks from ``since`` on, in order."""
    statement = select(_audits).where(_audits.c.source == source)
    if since is not None:
        statement = statement.where(_audits.c.window_start >= since)
    ordered = statement.order_by(_audits.c.window_start, _audits.c.label, _audits.c.item)
    return records(connection, AuditedItem, ordered)


def newly_decided(connection: Connection, source: str) -> list[datetime]:
    """The beginnings of the weeks of which people found something after they were last read, oldest first."""
    read_of = tables.readings
    same = (read_of.c.schedule == "weekly", read_of.c.source == _audits.c.source)
    joined = select(_audits.c.window_start).join(read_of, read_of.c.window_start == _audits.c.window_start)
    later = joined.where(_audits.c.source == source, *same, _audits.c.decided_at > read_of.c.read_at)
    return list(connection.scalars(later.distinct().order_by(_audits.c.window_start)))


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
        add_missing(connection, tables.maturities, [row_of(tables.maturities, each, known_at=now) for each in changed])


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
    found = records(connection, Maturity, select(table).join(last, same).where(*conditions).order_by(*keys))
    return {(each.window.start, each.subject.label): each for each in found}
