"""The windows that were missed: not judged, though an earlier one was."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from zoneinfo import ZoneInfo

from monitor.context import Monitor
from monitor.core.records import Window
from monitor.core.windows import CATCH_UP, SETTLE, missed
from monitor.history.store import Store
from monitor.warehouse.reader import RelationError, WarehouseFailed

Missed = tuple[Window, tuple[str, ...]]
"""A window, and the sources of which it was missed."""


def missed_windows(
    store: Store, last: Window, zone: ZoneInfo, sources: Sequence[str], back: timedelta = CATCH_UP
) -> list[Missed]:
    """The windows up to ``last`` that were missed of these sources, oldest first."""
    judged, schedule = store.judged_windows(), last.schedule
    gaps = {source: missed(schedule, judged.get((schedule, source), ()), last, zone, back) for source in sources}
    windows = sorted({window for found in gaps.values() for window in found})
    return [(window, tuple(source for source in sources if window in gaps[source])) for window in windows]


def is_over(monitor: Monitor, window: Window, source: str) -> bool:
    """Whether the source can be read, and its newest row is not well inside the window.

    If it is, the window may not be over: the clock of this machine may be ahead. It is judged once later rows came.
    """
    try:
        newest = monitor.warehouse.newest(source, monitor.config.sources[source], near=window.end, now=monitor.clock())
    except (RelationError, WarehouseFailed):
        return False
    return newest is None or not window.start <= newest < window.end - SETTLE
