"""The share of a window in which automation was on: counts have no time within their window. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from monitor.core.records import Schedule
from monitor.core.score_ranges import Ranges

UNITS: dict[Schedule, str] = {"weekly": "week", "daily": "day"}


@dataclass(frozen=True, slots=True)
class TimeOn:
    """The share of a window, 0 to 1, in which automation was on.

    ``blocked`` are score ranges and ``segments`` (column, value) that were closed meanwhile: for some of that time, or
    for all of it (``throughout``). ``mixed``: the share is over several labels, weighted by their rows. ``scores`` are
    those from which the label acted meanwhile, each with its share of the window; empty: not known.
    """

    share: float
    blocked: Ranges = ()
    mixed: bool = False
    segments: tuple[tuple[str, str], ...] = ()
    throughout: bool = False
    scores: tuple[tuple[float, float], ...] = ()
