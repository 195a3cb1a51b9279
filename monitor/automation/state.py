"""What a stored switch means now. Pure, and light enough for a router: only the standard library.

Everything here errs to "off": never set, expired and forbidden are all off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from monitor.records import SwitchState

Ranges: TypeAlias = tuple[tuple[float, float], ...]

CELLS = 10_000


@dataclass(frozen=True, slots=True)
class Allowed:
    """Whether automation may act now, why, until when, and in which score ranges it may not all the same."""

    allowed: bool
    reason: str
    until: datetime | None = None
    blocked: Ranges = ()


def effective(state: SwitchState, now: datetime, *, whole: SwitchState | None) -> Allowed:
    """Whether automation may act on this label now.

    ``whole`` is the source's own switch: it can only forbid, and one that was never set says
    nothing. The label's lease is what must be alive.
    """
    if whole is not None and whole.state == "off":
        return Allowed(False, "the whole source is off")
    if state.state == "never_set":
        return Allowed(False, "never set")
    if state.state == "off":
        return Allowed(False, "off")
    if state.lease_until is None:
        return Allowed(False, "no lease")
    if state.lease_until <= now:
        return Allowed(False, f"the lease ended at {state.lease_until:%Y-%m-%d %H:%M} UTC")
    forbidden = whole.blocked if whole is not None else ()
    return Allowed(True, "on", state.lease_until, merged(state.blocked + forbidden))


def merged(ranges: Iterable[tuple[float, float]]) -> Ranges:
    """The ranges sorted, those that touch put together.

    >>> merged([(0.9, 1.0), (0.5, 0.6), (0.6, 0.7)])
    ((0.5, 0.7), (0.9, 1.0))
    """
    found: list[tuple[float, float]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def is_blocked(score: float, blocked: Iterable[tuple[float, float]]) -> bool:
    """Whether a score lies in a blocked range, at the precision of the counts; both ends belong to it.

    >>> is_blocked(0.80004, [(0.7, 0.8)]), is_blocked(0.81, [(0.7, 0.8)])
    (True, False)
    """
    if math.isnan(score):
        return True
    rounded = math.floor(score * CELLS + 0.5) / CELLS
    return any(low <= rounded <= high for low, high in blocked)
