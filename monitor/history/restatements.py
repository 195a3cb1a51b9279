"""How many items of a window have their truth, over time; and estimates as they were before late truths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, and_, func, select, true

from monitor.core.maturity import Maturity
from monitor.core.records import Estimate, Reason, Schedule, Subject, Window
from monitor.history import tables
from monitor.history.connect import Row, add_missing, record_of, row_of
from monitor.history.evaluations import Between, estimate_of, with_window_end
from monitor.history.values import label_key, label_of, number

Key = tuple[datetime, str | None]
"""(start of a window, label)."""
_NOT_READ = (Reason.RELATION_ERROR.value, Reason.WAREHOUSE_FAILED.value)


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
    as_of: datetime | None = None,
) -> dict[Key, Maturity]:
    """The newest maturity (or the newest at ``as_of``) of each label and window, from ``since`` to ``until``."""
    table = tables.maturities
    conditions = [table.c.schedule == schedule, table.c.source == source, table.c.window_start >= since]
    if until is not None:
        conditions.append(table.c.window_start <= until)
    if as_of is not None:
        conditions.append(table.c.known_at <= as_of)
    keys = (table.c.window_start, table.c.label)
    last = select(*keys, func.max(table.c.known_at).label("last")).where(*conditions).group_by(*keys).subquery("last")
    same = and_(*(table.c[name] == last.c[name] for name in ("window_start", "label")), table.c.known_at == last.c.last)
    rows = connection.execute(select(table).join(last, same).where(*conditions).order_by(*keys)).mappings()
    return {(row["window_start"], label_of(row["label"])): _maturity(row) for row in rows}


def _row(maturity: Maturity, now: datetime) -> Row:
    window, subject = maturity.window, maturity.subject
    at = {"schedule": window.schedule, "window_start": window.start, "window_end": window.end}
    about = {"window_name": window.name, "source": subject.source, "label": label_key(subject.label), "known_at": now}
    shares = {name: number(getattr(maturity, name)) for name in ("expected", "low", "high")}
    return row_of(tables.maturities, maturity, **at, **about, **shares)


def _maturity(row: RowMapping) -> Maturity:
    window = Window(row["window_start"], row["window_end"], row["window_name"], row["schedule"])
    return record_of(Maturity, row, subject=Subject(row["source"], label_of(row["label"])), window=window)


def keep_former(connection: Connection, window: Window, source: str, now: datetime) -> None:
    """Store a copy of the estimates of a source in a window, before late truths change them."""
    table = tables.estimates
    conditions = (table.c.schedule == window.schedule, table.c.window_start == window.start, table.c.source == source)
    rows = [dict(row) for row in connection.execute(select(table).where(*conditions)).mappings()]
    former = [{name: value for name, value in row.items() if name != "window_start"} for row in rows]
    kept = {"schedule": window.schedule, "window_start": window.start, "source": source, "restated_at": now}
    add_missing(connection, tables.restatements, [{**kept, "estimates": former}])


def first_known(connection: Connection, schedule: Schedule) -> dict[tuple[datetime, str], datetime]:
    """(start of a window, source) -> when its estimates were first known, as far as the history says.

    Verdicts keep the time at which they were stored, also after the window was judged again; those of a source that
    could not be read came without estimates. Of a source without verdicts it is the end of its last run of the window.
    """
    judged, runs, table = tables.verdicts, tables.runs, tables.restatements
    read, ended = tables.readings, func.coalesce(runs.c.finished_at, runs.c.started_at).label("at")
    same = and_(
        read.c.schedule == runs.c.schedule, read.c.window_start == runs.c.window_start, read.c.source == runs.c.source
    )
    of_runs = select(runs.c.window_start, runs.c.source, ended).join(read, same).where(runs.c.schedule == schedule)
    found = {(row.window_start, row.source): row.at for row in connection.execute(of_runs)}
    for each, at, conditions in (
        (judged, judged.c.stored_at, judged.c.reason.not_in(_NOT_READ)),
        (table, table.c.restated_at, true()),
    ):
        keys = (each.c.window_start, each.c.source)
        first = select(*keys, func.min(at).label("at")).where(each.c.schedule == schedule, conditions).group_by(*keys)
        for row in connection.execute(first):
            key = row.window_start, row.source
            found[key] = min(found.get(key, row.at), row.at)
    return found


def former_estimates(
    connection: Connection, schedule: Schedule, at: datetime, between: Between = None
) -> Mapping[tuple[datetime, str], list[Estimate]]:
    """(start of a window, source) -> its estimates as they were at the time ``at``, if they were restated since."""
    table = tables.restatements
    conditions = [table.c.schedule == schedule, table.c.restated_at > at]
    if between is not None:
        conditions.append(table.c.window_start.between(*between))
    found: dict[tuple[datetime, str], list[Estimate]] = {}
    statement = with_window_end(table).where(*conditions).order_by(table.c.restated_at.desc())
    for row in connection.execute(statement).mappings():
        window = {name: row[name] for name in ("window_start", "window_end")}
        found[row["window_start"], row["source"]] = [estimate_of({**each, **window}) for each in row["estimates"]]
    return found  # newest first, so the earliest restatement after `at` remains
