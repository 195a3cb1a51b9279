"""Promises of every label in past windows, without the counts: what scores claimed, and what came true."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar
from zoneinfo import ZoneInfo

from sqlalchemy import Column, Connection, select

from monitor.core import windows
from monitor.core.records import Window
from monitor.core.rejection_records import from_json
from monitor.history import tables
from monitor.history.connect import Between, Row, filtered

if TYPE_CHECKING:
    from monitor.core.counts import Counts
    from monitor.core.promises import PastWindow, Population, Promise, Promises, Segment, SegmentPromises


T = TypeVar("T")


def as_json(counts: Counts) -> Any:
    """The promises of counts, as stored: population -> [rows, effective rows, mean score, hit rate].

    Shares of right decisions, and of pairs in order, come after the populations.
    """
    from monitor.inference.levels import all_promises_of  # noqa: PLC0415 - imports NumPy: an emergency stop is quick

    found = all_promises_of(counts)
    return {where: [p.rows, p.effective, p.promised, p.kept] for where, p in found.items()}


def of_label(kept: Mapping[Population, Any]) -> Promises:
    """The promises of a label, from what :func:`as_json` gave."""
    from monitor.core.promises import Promise  # noqa: PLC0415 - as above

    return {where: Promise(*numbers) for where, numbers in kept.items()}


def segments_as_json(segments: SegmentPromises | None) -> Any:
    """The promises of segments, as stored: column -> value -> population -> numbers; None if none are known."""
    if not segments:
        return None
    found: dict[str, dict[str, Any]] = {}
    for (column, value), promises in segments.items():
        found.setdefault(column, {})[value] = {where: _numbers(promise) for where, promise in promises.items()}
    return found


def segments_from_json(kept: Mapping[str, Mapping[str, Any]] | None) -> dict[Segment, Promises]:
    """The promises of segments, from what :func:`segments_as_json` gave."""
    from monitor.core.promises import Promise  # noqa: PLC0415 - as above

    return {
        (column, value): {where: Promise(*numbers) for where, numbers in parts.items()}
        for column, values in (kept or {}).items()
        for value, parts in values.items()
    }


def _numbers(promise: Promise) -> list[float]:
    """Rows, effective rows, mean score and hit rate; the last three in nine digits, of which evidence shows four."""
    return [promise.rows, *(float(f"{each:.9g}") for each in (promise.effective, promise.promised, promise.kept))]


def load(
    connection: Connection, source: str, until: Window, count: int, zone: ZoneInfo, *, segments: bool = False
) -> list[PastWindow]:
    """The ``count`` windows before ``until``, newest first, without those whose reading failed.

    Where alerts.yaml had another time zone, its windows are among them, but none that shares time with a newer one. The
    promises of segments are read only if ``segments``: a year of them is large.
    """
    from monitor.core.promises import PastWindow  # noqa: PLC0415 - as above

    before = {window.start: window for window in windows.before(until, count, zone)}
    if not before:
        return []
    readings, span = tables.readings, (min(before), until.start - timedelta(seconds=1))
    columns = (readings.c.window_start, readings.c.versions, readings.c.rejected, readings.c.settings)
    newest_first = select(*columns).order_by(readings.c.window_start.desc())
    of_source = {"schedule": until.schedule, "source": source}
    read = connection.execute(filtered(newest_first, readings, between=span, **of_source, state="ok")).all()
    apart: dict[datetime, Window] = {}  # those that share no time with a newer one
    begins = until.start
    for start in (row.window_start for row in read):
        name = windows.begun(until.schedule, start, zone).name
        window = before.get(start) or Window(start, start + windows.LENGTH[until.schedule], name, until.schedule)
        if window.end <= begins:
            apart[start], begins = window, start
    counts = tables.counts.c
    labels = _by_window(connection, counts.promises, of_label, span, of_source)
    parts = _by_window(connection, counts.segments, segments_from_json, span, of_source) if segments else {}
    return [
        PastWindow(
            apart[row.window_start],
            labels.get(row.window_start, {}),
            row.versions,
            from_json(row.rejected)[1],
            parts.get(row.window_start, {}),
            row.settings,
        )
        for row in read
        if row.window_start in apart
    ]


def _by_window(
    connection: Connection, column: Column[Any], of: Callable[[Any], T], span: Between, of_source: Row
) -> dict[datetime, dict[str | None, T]]:
    """Start of a window -> label -> what a column of its counts says."""
    counts = tables.counts
    every = select(counts.c.window_start, counts.c.label, column)
    found: dict[datetime, dict[str | None, T]] = {}
    for start, label, kept in connection.execute(filtered(every, counts, between=span, **of_source)):
        found.setdefault(start, {})[label] = of(kept)
    return found
