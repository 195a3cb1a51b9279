"""Refuse a window that cannot have data yet: then this machine's clock is ahead.

A run under such a clock would store a window of the future, notify people with future dates and, with
``when_not_evaluated: disable``, turn everything off. So it is refused before anything is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.context import Monitor
from monitor.core.records import Schedule, Window
from monitor.core.windows import WindowError, last_ready
from monitor.warehouse.reader import RelationError, WarehouseFailed

PERIOD = timedelta(days=7)
"""How far a window may begin after the newest row. Days get a week too: weekends and holidays bring no rows."""
OLDEST: Mapping[Schedule, timedelta] = {"weekly": 2 * PERIOD, "daily": PERIOD + timedelta(days=1)}
"""The age from which the newest row is too old for the newest ready window: :data:`PERIOD` and a window's length."""


class WindowRefusal(StrEnum):
    """Why a window is refused; both are in docs/operations.md."""

    AFTER_DATABASE_CLOCK = "after_database_clock"
    AFTER_NEWEST_DATA = "after_newest_data"


class WindowRefused(WindowError):
    """A window that is not evaluated, with its named reason; nothing has been stored, switched or sent."""

    def __init__(self, reason: WindowRefusal, message: str) -> None:
        super().__init__(f"{message} ({reason.value}: see docs/operations.md)")
        self.reason = reason


def refuse_premature(monitor: Monitor, window: Window, names: Sequence[str]) -> None:
    """Raise :class:`WindowRefused` for a window that is not over by the database's clock, or far beyond all data.

    A source without rows, or one that cannot be read, is ignored here: the run reports it. If one source is up to date,
    the clock is right, and the others are evaluated as having no rows. The warehouse is only asked where the history
    has no rows of the window or of the week before it.
    """
    near = _near(monitor, window)
    now = monitor.store.now()  # the clock of the database server, if there is one
    if now is not None and window.end > now:
        raise WindowRefused(
            WindowRefusal.AFTER_DATABASE_CLOCK,
            f"{window.name} is not over yet by the clock of the history database ({now:%Y-%m-%d %H:%M} UTC): the "
            f"clock of this machine says {monitor.clock():%Y-%m-%d %H:%M} UTC. Nothing was evaluated",
        )
    if _has_read_rows_near(monitor, window, names, near):
        return
    newest = _newest_before(monitor, near, names)
    if newest is not None and newest < near:
        raise WindowRefused(
            WindowRefusal.AFTER_NEWEST_DATA,
            f"{window.name} begins {(window.start - newest).days} days after the newest row "
            f"({newest:%Y-%m-%d %H:%M} UTC), which is {(monitor.clock() - newest).days} days old. Either the clock of "
            "this machine is ahead, or the relation is no longer filled. Nothing was evaluated",
        )


def _near(monitor: Monitor, window: Window) -> datetime:
    """The time from which a row shows that the window may have data: a week before the window begins.

    Of the newest ready window it may be later, since a clock two weeks ahead makes a week ready that begins within a
    week of the rows of now.
    """
    now, earliest = monitor.clock(), window.start - PERIOD
    if window != last_ready(window.schedule, now, monitor.config.zone):
        return earliest
    return max(earliest, now - OLDEST[window.schedule])


def _has_read_rows_near(monitor: Monitor, window: Window, names: Sequence[str], near: datetime) -> bool:
    """Whether the history has rows of one of the sources since ``near``, or in a window of the schedule before it.

    A week is read when it is over. So where the one before was read, the clock is not two weeks ahead; days show less.
    """
    found = monitor.store.readings_seen(window.start - PERIOD, window.start)
    return any(
        row["rows"] > 0 and (row["schedule"] == window.schedule or row["window_start"] >= near)
        for row in found
        if row["source"] in names
    )


def _newest_before(monitor: Monitor, near: datetime, names: Sequence[str]) -> datetime | None:
    """The approximate time of the newest row; None if it is not known. One source that is up to date is enough."""
    newest = None
    for name in names:
        with suppress(RelationError, WarehouseFailed):
            found = monitor.warehouse.newest(name, monitor.config.sources[name], near=near, now=monitor.clock())
            newest = max(filter(None, (newest, found)), default=None)
        if newest is not None and newest >= near:
            break
    return newest
