"""Readings in the history (counts and rejected rows), and baselines; their cells are stored without loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, RowMapping, Select, Table, and_, delete, func, null, select
from sqlalchemy.exc import IntegrityError

from monitor.core.records import (
    IN_NO_WINDOW,
    ROWS_GONE,
    SCHEDULES,
    RejectedCell,
    RejectedRows,
    RejectReason,
    Schedule,
    Window,
)
from monitor.core.rejection_records import Rejections, as_json, from_json
from monitor.core.source_settings import Settings
from monitor.history import past_promises, tables
from monitor.history.connect import Row, filtered, one_at_a_time, put, record_of, records, row_of
from monitor.history.errors import VersionClash
from monitor.history.values import ANY, LabelFilter

if TYPE_CHECKING:
    from monitor.core.baseline import Baseline
    from monitor.core.counts import Counts, SegmentCounts
    from monitor.core.promises import Promises, SegmentPromises


COUNTS_REMOVED = "counts_removed"
"""The state of a reading whose counts were removed because they were old."""


@dataclass(frozen=True, slots=True)
class LastRead:
    """How many rows of a window were read before a reading that failed or rejected most of them, and by which settings.

    ``settings`` are None if they are not known.
    """

    rows: int
    settings: Settings | None = None


@dataclass(frozen=True, slots=True)
class StoredReading:
    """The result of reading one source in one window.

    ``state`` is ok, relation_error or warehouse_failed (the last two with their ``error``), or :data:`COUNTS_REMOVED`:
    `calmon db prune` has removed the counts, and of each label only ``promises`` is left.
    ``labels`` maps each label to its counts (None: the source as a whole); ``versions`` maps a model version to its
    number of rows. ``rows`` is the number of pairs read, ``digest`` a hash of all of them.
    ``cells`` are the rejected rows, ``rejected`` the conclusions from them. ``segments`` are the promises of each label
    by segment, ``segment_counts`` their counts: None if they are not stored or were not requested. ``settings`` are
    those of the source by which it was read; None if they are not known. ``last_read`` is what
    was read of the window before, where this reading has less than half of these rows, so that a later one can say that
    they are gone.
    """

    source: str
    state: str = "ok"
    error: str | None = None
    labels: Mapping[str | None, Counts] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    quality: tuple[RejectedRows, ...] = ()
    rows: int = 0
    digest: str = ""
    cells: tuple[RejectedCell, ...] = ()
    rejected: Rejections = field(default_factory=Rejections)
    segments: Mapping[str | None, SegmentPromises] = field(default_factory=dict)
    segment_counts: Mapping[str | None, SegmentCounts] | None = None
    promises: Mapping[str | None, Promises] = field(default_factory=dict)
    fingerprint: str | None = None
    settings: Settings | None = None
    last_read: LastRead | None = None


def prepare(window: Window, reading: StoredReading, now: datetime) -> tuple[Row, Mapping[Table, list[Row]]]:
    """The row of one reading, and the rows of each table that belong to it.

    It compresses the counts, so that no lock is held meanwhile.
    """
    at = {"schedule": window.schedule, "window_start": window.start, "source": reading.source}
    rejected, last = as_json(reading.cells, reading.rejected), reading.last_read
    if last is not None:  # beside the rejected rows that a reading has instead
        rejected["last_read"] = {"rows": int(last.rows), "settings": last.settings}
    rows = int(reading.rows)
    row = row_of(tables.readings, reading, **at, rows=rows, read_at=now, rejected=rejected)
    counts = [
        {
            **at,
            "label": label,
            "rows": part.rows,
            "digest": part.digest(),
            "promises": past_promises.as_json(part),
            "segments": past_promises.segments_as_json(reading.segments.get(label)),
        }
        for label, part in reading.labels.items()
    ]
    quality = [row_of(tables.quality, bad, **at, rows=int(bad.rows)) for bad in reading.quality]
    cells = []
    if reading.labels:
        from monitor.history import counts_file  # noqa: PLC0415 - imports NumPy; an emergency stop must not wait

        parts = None if reading.segment_counts is None else counts_file.of_segments(reading.segment_counts)
        cells = [{**at, "labels": counts_file.of_labels(reading.labels), "segments": parts}]
    return row, {tables.counts: counts, tables.cells: cells, tables.quality: quality}


def save(connection: Connection, row: Row, rows_of: Mapping[Table, Sequence[Row]]) -> None:
    """Replace the reading of one source in one window, with its counts and rejected rows."""
    one_at_a_time(connection, f"reading {row['schedule']} {row['window_start'].isoformat()} {row['source']}")
    put(connection, tables.readings, row)
    for table, rows in rows_of.items():
        connection.execute(delete(table).where(_is_reading(table, row["schedule"], row["window_start"], row["source"])))
        if rows:
            connection.execute(table.insert(), list(rows))


def load(
    connection: Connection, schedule: Schedule, window_start: datetime, source: str, *, segment_counts: bool = False
) -> StoredReading | None:
    """The reading of one source in one window, or None; with the counts of segments only if ``segment_counts``."""
    readings, counts = tables.readings, tables.counts
    found = connection.execute(select(readings).where(_is_reading(readings, schedule, window_start, source)))
    row = found.mappings().first()
    if row is None:
        return None
    of_reading = select(counts).where(_is_reading(counts, schedule, window_start, source)).order_by(counts.c.label)
    stored = connection.execute(of_reading).all()
    cells, rejected = from_json(row["rejected"])
    kept_last = (row["rejected"] or {}).get("last_read")
    last = None if kept_last is None else LastRead(kept_last["rows"], kept_last["settings"])
    bad = tuple(quality(connection, schedule, window_start, source))
    reading = record_of(StoredReading, row, quality=bad, cells=cells, rejected=rejected, last_read=last)
    if not stored:
        return replace(reading, segment_counts={} if segment_counts else None)
    cells_of = _select_cells(schedule, window_start, source, segments=segment_counts)
    kept = connection.execute(cells_of).first()
    if kept is None:
        promises = {row.label: past_promises.of_label(row.promises) for row in stored}
        return replace(reading, state=COUNTS_REMOVED, promises=promises)
    from monitor.history import counts_file  # noqa: PLC0415 - as above

    labels = counts_file.labels(kept.labels)
    by_label = None if kept.segments is None else counts_file.segments(kept.segments)
    return replace(
        reading,
        labels={row.label: labels[row.label] for row in stored},
        segments={row.label: past_promises.segments_from_json(row.segments) for row in stored if row.segments},
        segment_counts=None if by_label is None else {label: by_label.get(label, {}) for label in labels},
    )


def _select_cells(schedule: Schedule, window_start: datetime, source: str, *, segments: bool = False) -> Select[Any]:
    cells = tables.cells
    parts = cells.c.segments if segments else null().label("segments")
    return select(cells.c.labels, parts).where(_is_reading(cells, schedule, window_start, source))


def counts_of(
    connection: Connection, schedule: Schedule, window_start: datetime, source: str, label: str | None
) -> Counts | None:
    """The counts of one label in one window; None if there are none, or they were removed."""
    from monitor.history import counts_file  # noqa: PLC0415 - as above

    data = connection.execute(_select_cells(schedule, window_start, source)).scalar()
    return None if data is None else counts_file.labels(data).get(label)


def settings_of(connection: Connection, schedule: Schedule, window_start: datetime, source: str) -> Settings | None:
    """The settings of the source by which one window was read; None if they are not known, or it was not read."""
    is_of_reading = _is_reading(tables.readings, schedule, window_start, source)
    found: Settings | None = connection.execute(select(tables.readings.c.settings).where(is_of_reading)).scalar()
    return found


def quality(
    connection: Connection, schedule: Schedule, window_start: datetime, source: str | None = None
) -> list[RejectedRows]:
    """The rejected rows of one window, by source and reason."""
    table = tables.quality
    statement = filtered(select(table), table, schedule=schedule, window_start=window_start, source=source)
    return records(connection, RejectedRows, statement.order_by(table.c.source, table.c.reason))


def rejected_by_reason(connection: Connection, since: datetime, until: datetime) -> list[Row]:
    """How many rows of each source were rejected for each reason, in windows from ``since`` to ``until``.

    Rows that lie in no window are counted over the whole source in every reading, so of these it is the newest count.
    """
    table = tables.quality
    columns = (table.c.schedule, table.c.source, table.c.reason)
    every = select(*columns, table.c.rows).order_by(*columns, table.c.window_start)
    statement = filtered(every, table, between=(since, until), schedule=SCHEDULES)
    found = []
    for (schedule, source, reason), each in groupby(connection.execute(statement).all(), key=lambda row: row[:3]):
        counts, whole = [row.rows for row in each], reason in IN_NO_WINDOW
        rows, over = (counts[-1], "the whole source") if whole else (sum(counts), "its windows")
        found.append(
            {"schedule": schedule, "source": source, "reason": reason, "rows": rows, "windows": len(counts), "of": over}
        )
    return found


def rejected(connection: Connection, schedule: Schedule, window_start: datetime, source: str) -> Rejections:
    """Which subjects of a source could not be judged in one window, because too many rows were rejected."""
    kept = connection.execute(
        select(tables.readings.c.rejected).where(_is_reading(tables.readings, schedule, window_start, source))
    ).scalar()
    return from_json(kept)[1]


def seen(connection: Connection, since: datetime, until: datetime) -> list[Row]:
    """Every reading of the windows from ``since`` to ``until``, without its counts, newest window first."""
    table, bad = tables.readings, tables.quality
    same = (bad.c[name] == table.c[name] for name in ("schedule", "window_start", "source"))
    in_no_window = bad.c.reason.in_(IN_NO_WINDOW)
    of_reading = select(func.coalesce(func.sum(bad.c.rows), 0)).where(*same)
    lost = of_reading.where(~in_no_window, bad.c.reason != RejectReason.DUPLICATE)
    rejected, undated = lost.scalar_subquery(), of_reading.where(in_no_window).scalar_subquery()
    columns = (
        *(table.c[name] for name in ("schedule", "window_start", "source", "state", "rows", "error")),
        rejected.label("rejected"), undated.label("undated"),
    )  # fmt: skip
    newest_first = select(*columns).order_by(table.c.window_start.desc(), table.c.source)
    # names both schedules, since the primary key begins with the schedule
    within = filtered(newest_first, table, between=(since, until), schedule=SCHEDULES)
    found = connection.execute(within).mappings().all()
    gone = _gone(connection, since, until)
    return [
        dict(row)
        | {name: int(row[name]) for name in ("rejected", "undated")}
        | gone.get((row["schedule"], row["window_start"], row["source"]), {"before": 0, "left": 0})
        for row in found
    ]


def _gone(connection: Connection, since: datetime, until: datetime) -> dict[tuple[str, datetime, str], dict[str, int]]:
    """(schedule, start of a window, source) -> how many rows it had, and how many are left, where most are gone."""
    table = tables.quality
    gone = filtered(select(table), table, between=(since, until), schedule=SCHEDULES, reason=ROWS_GONE)
    found = connection.execute(gone).mappings()
    return {
        (row["schedule"], row["window_start"], row["source"]): {
            name: int(row["examples"][0][name]) for name in ("before", "left")
        }
        for row in found
    }


def versions_seen(
    connection: Connection, source: str, since: datetime, until: datetime, *, schedule: Schedule
) -> list[tuple[datetime, list[str]]]:
    """(window start, model versions that it had rows of), newest window first."""
    table = tables.readings
    newest_first = select(table.c.window_start, table.c.versions).order_by(table.c.window_start.desc())
    found = filtered(newest_first, table, between=(since, until), schedule=schedule, source=source)
    return [(start, sorted(versions)) for start, versions in connection.execute(found)]


def _is_reading(table: Table, schedule: str, window_start: datetime, source: str) -> Any:
    return and_(table.c.schedule == schedule, table.c.window_start == window_start, table.c.source == source)


def save_baselines(connection: Connection, rows: Sequence[Row]) -> None:
    """Add baselines, all or none. Raises VersionClash if a version exists already: none is ever overwritten."""
    try:
        if rows:
            connection.execute(tables.baselines.insert(), list(rows))
    except IntegrityError as error:
        names = ", ".join(f"{row['source']}/{row['label'] or '(all labels)'} v{row['version']}" for row in rows)
        raise VersionClash(
            f"one of these baselines was pinned by somebody else just now: {names}; pin again"
        ) from error


def baseline_row(baseline: Baseline) -> Row:
    """The row of one baseline, with its cells compressed."""
    counts = baseline.counts
    from monitor.history import counts_file  # noqa: PLC0415 - as above

    cells = {"rows": counts.rows, "edges": baseline.edges, "data": counts_file.to_bytes({(): counts})}
    parts = None if baseline.segments is None else counts_file.to_bytes(baseline.segments)
    return row_of(tables.baselines, baseline, **cells, segment_data=parts)


def baselines(
    connection: Connection, source: str | None = None, label: LabelFilter = ANY, *, version: int | None = None
) -> list[Baseline]:
    """Baselines of every version (or of one), by source, label and version."""
    table = tables.baselines
    every = select(*_WITHOUT_SEGMENTS).order_by(table.c.source, table.c.label, table.c.version)
    statement = filtered(every, table, label, source=source, version=version)
    return [_baseline(row) for row in connection.execute(statement).mappings()]


def pinned_sources(connection: Connection) -> list[str]:
    """The sources that have a baseline."""
    return list(connection.execute(select(tables.baselines.c.source).distinct()).scalars())


def latest_baselines(connection: Connection, source: str) -> dict[str | None, Baseline]:
    """The newest baseline of each label (None: the source as a whole)."""
    table = tables.baselines
    newer = table.alias()
    exists_newer = (
        select(newer.c.version)
        .where(newer.c.source == table.c.source, newer.c.label == table.c.label, newer.c.version > table.c.version)
        .exists()
    )
    newest = select(*_WITHOUT_SEGMENTS).where(table.c.source == source, ~exists_newer).order_by(table.c.label)
    found = [_baseline(row) for row in connection.execute(newest).mappings()]
    return {baseline.label: baseline for baseline in found}


def baseline_segments(connection: Connection, source: str) -> dict[tuple[str | None, int], SegmentCounts]:
    """(label, version) -> the counts of each segment, for baselines that were pinned while a rule needed them."""
    from monitor.history import counts_file  # noqa: PLC0415 - as above

    table = tables.baselines
    columns = (table.c.label, table.c.version, table.c.segment_data)
    kept = connection.execute(select(*columns).where(table.c.source == source, table.c.segment_data.is_not(None)))
    return {
        (label, version): {(column, value): part for (column, value), part in counts_file.from_bytes(data).items()}
        for label, version, data in kept
    }


# segment_data is large and few rules need it, so it is read separately
_WITHOUT_SEGMENTS = [column for column in tables.baselines.c if column.name != "segment_data"]


def _baseline(row: RowMapping) -> Baseline:
    from monitor.core.baseline import Baseline  # noqa: PLC0415 - as above
    from monitor.history import counts_file  # noqa: PLC0415 - as above

    return record_of(Baseline, row, counts=counts_file.from_bytes(row["data"])[()], segments=None)
