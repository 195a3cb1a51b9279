"""Refuse a window that cannot have any data yet: it is how a clock that is ahead shows.

A run under such a clock would store a window of the future, call people at dates that have not come, and, where
``when_not_evaluated`` is ``disable``, turn everything off. So it is refused before anything is stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.context import Monitor
from monitor.core.records import Window
from monitor.core.windows import WindowError
from monitor.warehouse.reader import RelationError, WarehouseFailed

PERIOD = timedelta(days=7)
"""How far a window may begin after the newest row. Days, too, have a week: weekends and holidays bring no row."""


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
    """Raise :class:`WindowRefused` for a window that is not over by a database's clock, or far beyond all data.

    A source without any row says nothing, and neither does one that cannot be read: the run reports that itself.
    Where one of the sources is up to date, the clock is right, and the others are evaluated as having no rows.
    """
    now = monitor.store.now()  # two machines know the time: this one, and the one of a database server
    if now is not None and window.end > now:
        raise WindowRefused(
            WindowRefusal.AFTER_DATABASE_CLOCK,
            f"{window.name} is not over yet by the clock of the history database ({now:%Y-%m-%d %H:%M} UTC): the "
            f"clock of this machine says {monitor.clock():%Y-%m-%d %H:%M} UTC. Nothing was evaluated",
        )
    newest = [_newest_before(monitor, window, name) for name in names]
    known = [moment for moment in newest if moment is not None]
    if known and max(known) < window.start - PERIOD:
        raise WindowRefused(
            WindowRefusal.AFTER_NEWEST_DATA,
            f"{window.name} begins {(window.start - max(known)).days} days after the newest row "
            f"({max(known):%Y-%m-%d %H:%M} UTC). Either the clock of this machine is ahead, or the relation is no "
            "longer filled. Nothing was evaluated",
        )


def _newest_before(monitor: Monitor, window: Window, name: str) -> datetime | None:
    """When the newest row of a source is from, at least roughly; None where nobody knows."""
    try:
        return monitor.warehouse.newest(
            name, monitor.config.sources[name], near=window.start - PERIOD, now=monitor.clock()
        )
    except (RelationError, WarehouseFailed):
        return None
