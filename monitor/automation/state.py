"""What a stored switch means now. Pure, and light enough for a router: only the standard library.

Everything here errs to "off": never set, expired and forbidden are all off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from monitor.core.records import SwitchState
from monitor.core.score_ranges import CELLS, Ranges, merged


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
    nothing. The label's lease is what must be alive. The source's is looked at only where a verdict
    stands against it, so that an operator's "on" against the evidence ends there as well.
    """
    why = _why_source_is_off(whole, now) or _why_off(state, now)
    if why is not None:
        return Allowed(False, why)
    if whole is None:
        return Allowed(True, "on", state.lease_until, merged(state.blocked))
    ends = [lease for lease in (state.lease_until, whole.lease_until if whole.verdict else None) if lease is not None]
    return Allowed(True, "on", min(ends), merged(state.blocked + whole.blocked))


def is_blocked(score: float, blocked: Iterable[tuple[float, float]]) -> bool:
    """Whether a score lies in a blocked range, at the precision of the counts; both ends belong to it.

    >>> is_blocked(0.80004, [(0.7, 0.8)]), is_blocked(0.81, [(0.7, 0.8)])
    (True, False)
    """
    if math.isnan(score):
        return True
    rounded = math.floor(score * CELLS + 0.5) / CELLS
    # as it is, too: ranges end on whole steps, but rounding must open none that does not
    return any(low <= rounded <= high or low <= score <= high for low, high in blocked)


def _why_source_is_off(whole: SwitchState | None, now: datetime) -> str | None:
    if whole is None or whole.state == "never_set":
        return None
    if whole.state != "on":  # what is not known is off
        return "the whole source is off"
    if whole.verdict is not None and (whole.lease_until is None or whole.lease_until <= now):
        return "the whole source is closed: a verdict is against it, and its lease has ended"
    return None


def _why_off(state: SwitchState, now: datetime) -> str | None:
    if state.state == "never_set":
        return "never set"
    if state.state != "on":
        return "off"
    if state.lease_until is None:
        return "no lease"
    return f"the lease ended at {state.lease_until:%Y-%m-%d %H:%M} UTC" if state.lease_until <= now else None
