"""Pruning: remove old counts, estimates and shift tests that no rule judges, and examples of rejected rows.

Verdicts, diagnoses, switches, their events, incidents, messages, baselines, annotations and promises stay for good.
Each window is one transaction: if the process ends, each window is done or untouched, and the next call continues.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, fields
from datetime import datetime
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    Text,
    and_,
    cast,
    delete,
    func,
    null,
    or_,
    select,
    true,
    union,
    update,
)

from monitor.core.records import SCHEDULES, Note, Schedule, Window
from monitor.history import evaluations, tables
from monitor.history.connect import one_at_a_time

FREE_AT_LEAST = 0.1
"""The share of a SQLite file that must be free before it is rewritten."""
_BYTES_OF_ROW = {"estimates": 150, "shift_tests": 150}


PRUNED_NOTE = "history pruned"


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays, by schedule. Counts are removed from windows that begin before ``counts_from``.

    From windows that begin before ``details_from``, these are removed: estimates whose metric is not in ``metrics``
    (for segments: ``of_segments``), shift tests that are not in ``tests``, and examples of rejected rows.
    """

    details_from: Mapping[Schedule, datetime]
    counts_from: Mapping[Schedule, datetime]
    metrics: Mapping[Schedule, frozenset[str]]
    of_segments: Mapping[Schedule, frozenset[str]]
    tests: Mapping[Schedule, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Removed:
    """How much is removed: windows, labels' counts and their bytes, and rows of the other tables."""

    windows: int = 0
    counts: int = 0
    bytes_of_counts: int = 0
    estimates: int = 0
    shift_tests: int = 0
    examples: int = 0

    @property
    def bytes(self) -> int:
        """The approximate number of bytes that are removed."""
        return self.bytes_of_counts + sum(size * int(getattr(self, name)) for name, size in _BYTES_OF_ROW.items())

    def __add__(self, other: Removed) -> Removed:
        return Removed(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def judged_measures(connection: Connection, schedule: Schedule) -> frozenset[str]:
    """Every metric and test that a stored verdict on windows of a schedule is about."""
    table = tables.verdicts
    statement = select(table.c.metric).where(table.c.schedule == schedule).distinct()
    return frozenset(connection.execute(statement).scalars())


def windows_due(connection: Connection, keep: Retention) -> list[tuple[Schedule, datetime]]:
    """The windows from which something is to be removed, oldest first."""
    parts = [
        select(table.c.schedule, table.c.window_start).where(condition)
        for schedule in SCHEDULES
        for table, condition in _to_prune(keep, schedule)
    ]
    found = connection.execute(union(*parts)).all()
    return sorted(((schedule, start) for schedule, start in found), key=lambda each: (each[1], each[0]))


def due_of(connection: Connection, schedule: Schedule, start: datetime, keep: Retention) -> Removed:
    """How much is to be removed from one window."""
    cells, counts, where = tables.cells, tables.counts, dict(_to_prune(keep, schedule, start))
    rows = [
        connection.execute(select(func.count()).select_from(table).where(where[table])).scalar_one()
        for table in (tables.estimates, tables.shifts, tables.quality)
    ]
    size = func.sum(func.length(cells.c.labels) + func.coalesce(func.length(cells.c.segments), 0))
    bytes_of_cells = connection.execute(select(func.coalesce(size, 0)).where(where[cells])).scalar_one()
    same = and_(*(counts.c[name] == cells.c[name] for name in ("schedule", "window_start", "source")))
    labels = select(func.count()).select_from(counts.join(cells, same)).where(where[cells])
    return Removed(1, connection.execute(labels).scalar_one(), int(bytes_of_cells), *rows)


def remove(connection: Connection, schedule: Schedule, start: datetime, keep: Retention, now: datetime) -> Removed:
    """Remove what is due from one window, and store up to which window details are removed. Call it oldest first."""
    one_at_a_time(connection, f"evaluation {schedule} {start.isoformat()}")
    sources = select(tables.readings.c.source).where(
        tables.readings.c.schedule == schedule, tables.readings.c.window_start == start
    )
    for source in sorted(connection.execute(sources).scalars()):
        one_at_a_time(connection, f"reading {schedule} {start.isoformat()} {source}")
    found = due_of(connection, schedule, start, keep)
    where = dict(_to_prune(keep, schedule, start))
    for table in (tables.cells, tables.estimates, tables.shifts):
        connection.execute(delete(table).where(where[table]))
    connection.execute(update(tables.counts).where(where[tables.counts]).values(segments=null()))
    connection.execute(update(tables.quality).where(where[tables.quality]).values(examples=[]))
    until = {each: removed_until(connection, each) for each in SCHEDULES}
    if start < keep.details_from[schedule]:
        until[schedule] = max(start, until[schedule] or start)
    loose = loose_bytes(connection) + found.bytes
    evaluations.put_note(connection, Note(PRUNED_NOTE, now, {"until": until, "loose": loose}))
    return found


def loose_bytes(connection: Connection) -> int:
    """The approximate number of bytes removed since the file of the history was last rewritten."""
    note = evaluations.notes(connection).get(PRUNED_NOTE)
    return 0 if note is None else int(note.detail["loose"])


def note_shrunk(connection: Connection) -> None:
    """Store that the file was rewritten, so that no removed bytes are left in it."""
    note = evaluations.notes(connection).get(PRUNED_NOTE)
    if note is not None:
        evaluations.put_note(connection, Note(note.key, note.at, {**note.detail, "loose": 0}))


def removed_until(connection: Connection, schedule: Schedule) -> datetime | None:
    """The start of the newest window whose details (not only counts) were removed; None if none were."""
    note = evaluations.notes(connection).get(PRUNED_NOTE)
    until = None if note is None else note.detail["until"][schedule]
    return None if until is None else datetime.fromisoformat(until)


def is_removed(connection: Connection, window: Window) -> bool:
    """Whether details of a window were removed, and a source of it was not evaluated again since."""
    note, until = evaluations.notes(connection).get(PRUNED_NOTE), removed_until(connection, window.schedule)
    if note is None or until is None or window.start > until:
        return False
    ends = [run["finished_at"] for run in evaluations.runs_of(connection, window).values()]
    return not ends or any(ended is None or ended < note.at for ended in ends)


def _to_prune(
    keep: Retention, schedule: Schedule, start: datetime | None = None
) -> Iterator[tuple[Table, ColumnElement[bool]]]:
    """The tables to prune, each with the condition of the rows, of one window or all, that are removed or emptied."""
    counts, estimates, shifts, quality = tables.counts, tables.estimates, tables.shifts, tables.quality
    of_label, of_segment, tests = (sorted(each[schedule]) for each in (keep.metrics, keep.of_segments, keep.tests))
    not_judged = or_(
        and_(estimates.c.segment == tables.WHOLE, estimates.c.metric.not_in(of_label)),
        and_(estimates.c.segment != tables.WHOLE, estimates.c.metric.not_in(of_segment)),
    )
    shown = cast(quality.c.examples, Text).not_in(["[]", "null"])
    details = keep.details_from[schedule]
    for table, before, condition in (
        (tables.cells, keep.counts_from[schedule], true()),
        (counts, keep.counts_from[schedule], counts.c.segments.is_not(None)),
        (estimates, details, not_judged),
        (shifts, details, shifts.c.test.not_in(tests)),
        (quality, details, shown),
    ):
        window = table.c.window_start < before
        window = window if start is None else and_(window, table.c.window_start == start)
        yield table, and_(table.c.schedule == schedule, window, condition)


def shrink(file: Path, loose: int, busy_s: float) -> bool:
    """Rewrite a SQLite file if much of it is free, so that it becomes smaller. Returns whether it was done.

    ``loose`` bytes were removed since it was last rewritten. Most of them are free within pages that hold other rows,
    where SQLite does not reuse them. Raises sqlite3.Error if another process uses
    the file or the disk has no room for the copy; then nothing is lost.
    """
    with closing(sqlite3.connect(file, timeout=busy_s, isolation_level=None)) as connection:
        pragmas = ("PRAGMA freelist_count", "PRAGMA page_size")
        pages, size = (int(connection.execute(each).fetchone()[0]) for each in pragmas)
        is_due = max(loose, pages * size) > FREE_AT_LEAST * file.stat().st_size
        if is_due:
            connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # unless somebody still reads the old pages
    return is_due
