"""The page of ``calmon dashboard``: every switch as it is now, and the report of a week below it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from monitor.core.records import SwitchState
from monitor.evaluation.label_state import LabelState
from monitor.report.html import page


@dataclass(frozen=True, slots=True)
class DashboardRow:
    """One switch on the page: what holds now, in words, and the score from which it may act.

    ``found`` is what its rules say, by the name of the newest window of each schedule.
    """

    switch: SwitchState
    allowed: bool
    state: str
    threshold: float | None
    found: tuple[tuple[str, LabelState], ...] = ()


def dashboard_html(
    lines: Sequence[DashboardRow],
    weeks: Sequence[str],
    week: str | None,
    *,
    at: datetime,
    tz: tzinfo,
    counts: Sequence[tuple[str, str]] = (),
) -> str:
    """The page; ``weeks`` are those with a report, ``week`` the one shown (None: there is none).

    ``counts`` says of each newest window how many labels are in which state.

    >>> from datetime import UTC
    >>> shown = dashboard_html([], [], None, at=datetime(2026, 11, 21, tzinfo=UTC), tz=UTC)
    >>> "nothing acts alone" in shown
    True
    """
    return page("dashboard.html.j2", lines=lines, weeks=weeks, week=week, at=at, tz=tz, counts=counts)
