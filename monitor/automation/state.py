"""What a stored switch means now. Pure, and light enough for a router: only the standard library.

Everything here errs to "off": never set, expired and forbidden are all off.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from monitor.core.records import Identity, SwitchState
from monitor.core.score_ranges import CELLS, Ranges, merged


class GateReason(StrEnum):
    """Why a gate is open or closed; each has its section in docs/gate.md."""

    ON = "on"
    NEVER_SET = "never_set"
    OFF = "off"
    SOURCE_OFF = "source_off"
    NO_LEASE = "no_lease"
    LEASE_ENDED = "lease_ended"
    BELOW_AUTOMATE_AT = "below_automate_at"
    SCORE_BLOCKED = "score_blocked"
    SCORE_INVALID = "score_invalid"
    SEGMENT_OFF = "segment_off"
    SEGMENT_MISSING = "segment_missing"
    NO_THRESHOLD = "no_threshold"
    STORE_UNREADABLE = "store_unreadable"
    SERVICE_FAILED = "service_failed"
    STALE = "stale"
    HISTORY_RESTORED = "history_restored"
    HISTORY_WENT_BACK = "history_went_back"
    CLOCK_BEHIND = "clock_behind"
    ANSWER_OLD = "answer_old"
    MISCONFIGURED = "misconfigured"
    CLOSED_DOWN = "closed_down"


@dataclass(frozen=True, slots=True)
class Allowed:
    """Whether automation may act now, why, until when, and with which exceptions.

    The exceptions are ``blocked`` score ranges and items of the ``segments`` that are off. ``detail`` is the reason in
    words.
    """

    allowed: bool
    reason: GateReason
    detail: str
    until: datetime | None = None
    blocked: Ranges = ()
    segments: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """``detail`` with the segments that are off.

        >>> Allowed(True, GateReason.ON, "on", segments=(("channel", "web"),)).words
        'on, but not for channel = web'
        """
        off = ", ".join(" = ".join(segment) for segment in self.segments)
        return f"{self.detail}, but not for {off}" if off else self.detail


CLOSED_HISTORY: Mapping[GateReason, str] = {
    GateReason.HISTORY_RESTORED: "the history was put back from a backup, and no operator has confirmed it",
    GateReason.HISTORY_WENT_BACK: "the history is older than the one seen before: an old copy was put back",
}
"""Why no label may act, whatever its switch, in words."""


def closed_history(identity: Identity) -> GateReason | None:
    """Why every gate of this history is closed; None if none is."""
    if not identity.confirmed:
        return GateReason.HISTORY_RESTORED
    return GateReason.HISTORY_WENT_BACK if identity.went_back else None


BEHIND = timedelta(minutes=10)
"""How far a clock may be behind the newest stored change of a switch."""
CLOCK_IS_BEHIND = "the clock is behind the newest change of a switch"


def clock_behind(newest_at: datetime | None, now: datetime) -> str | None:
    """That a clock is behind the newest change of a switch, in words; None if it is not, or there is no change.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    >>> clock_behind(None, noon), clock_behind(noon, noon - BEHIND)
    (None, None)
    >>> clock_behind(noon, noon - timedelta(minutes=11))
    'the clock says 2026-11-16 11:49, but a switch was changed at 2026-11-16 12:00 UTC'
    """
    if newest_at is None or now >= newest_at - BEHIND:
        return None
    return f"the clock says {now:%Y-%m-%d %H:%M}, but a switch was changed at {newest_at:%Y-%m-%d %H:%M} UTC"


def effective(
    state: SwitchState, now: datetime, *, whole: SwitchState | None, identity: Identity | None = None
) -> Allowed:
    """Whether automation may act on this label now.

    ``whole`` is the source's own switch: it can only forbid, and forbids nothing if it was never set. The label's lease
    must not have ended. The source's lease counts only if a verdict is against its switch, so that an operator's "on"
    against the evidence ends there too. Nothing may act on a copy of a history, or by a clock that is behind:
    ``identity`` says whether it is one, and when a switch was changed last.
    """
    closed = _closed_to_all(whole, now, identity) or _closed(state, now)
    if closed is not None:
        return closed
    parts = off_segments(state, now)
    if whole is None:
        return Allowed(True, GateReason.ON, "on", state.lease_until, merged(state.blocked), parts)
    ends = [lease for lease in (state.lease_until, whole.lease_until if whole.verdict else None) if lease is not None]
    return Allowed(True, GateReason.ON, "on", min(ends), merged(state.blocked + whole.blocked), parts)


def allowed_of_each(
    switches: Iterable[SwitchState], now: datetime, identity: Identity | None = None
) -> list[tuple[SwitchState, Allowed]]:
    """What each switch allows now, with that of its source among ``switches``."""
    states = list(switches)
    whole = {state.source: state for state in states if state.label is None}
    return [
        (each, effective(each, now, whole=None if each.label is None else whole.get(each.source), identity=identity))
        for each in states
    ]


def _closed_to_all(whole: SwitchState | None, now: datetime, identity: Identity | None) -> Allowed | None:
    """Why no label of a source may act now, whatever its own switch; None if some may."""
    copied = None if identity is None else closed_history(identity)
    if copied is not None:
        return Allowed(False, copied, CLOSED_HISTORY[copied])
    behind = None if identity is None else clock_behind(identity.newest_at, now)
    if behind is not None:
        return Allowed(False, GateReason.CLOCK_BEHIND, behind)
    return closed_by_source(whole, now)


def off_segments(state: SwitchState, now: datetime) -> tuple[tuple[str, str], ...]:
    """The segments of a switch that are off now, whatever the state of its label."""
    return tuple(each.segment for each in state.segments if each.is_off(now))


def is_blocked(score: float, blocked: Iterable[tuple[float, float]]) -> bool:
    """Whether a score lies in a blocked range, at the precision of the counts; both ends belong to it.

    >>> is_blocked(0.80004, [(0.7, 0.8)]), is_blocked(0.81, [(0.7, 0.8)])
    (True, False)
    """
    if math.isnan(score):
        return True
    rounded = math.floor(score * CELLS + 0.5) / CELLS
    # unrounded too: ranges usually end on whole steps, but rounding must not open one that does not
    return any(low <= rounded <= high or low <= score <= high for low, high in blocked)


def closed_by_source(whole: SwitchState | None, now: datetime) -> Allowed | None:
    """Why the source's own switch forbids all its labels now; None if it does not."""
    if whole is None or whole.state == "never_set":
        return None
    if whole.state != "on":  # an unknown state is off
        return Allowed(False, GateReason.SOURCE_OFF, "the whole source is off")
    if whole.verdict is not None and (whole.lease_until is None or whole.lease_until <= now):
        words = "the whole source is closed: a verdict is against it, and its lease has ended"
        return Allowed(False, GateReason.SOURCE_OFF, words)
    return None


def _closed(state: SwitchState, now: datetime) -> Allowed | None:
    if state.state == "never_set":
        return Allowed(False, GateReason.NEVER_SET, "never set")
    if state.state != "on":
        return Allowed(False, GateReason.OFF, "off")
    if state.lease_until is None:
        return Allowed(False, GateReason.NO_LEASE, "no lease")
    if state.lease_until > now:
        return None
    return Allowed(False, GateReason.LEASE_ENDED, f"the lease ended at {state.lease_until:%Y-%m-%d %H:%M} UTC")


def is_for_a_time(state: SwitchState) -> bool:
    """Whether an operator's enable ends by itself, since a verdict is against it: with its hold, or a full lease."""
    lease, hold = state.lease_until, state.hold_until
    return state.by_operator and state.verdict is not None and lease is not None and hold is not None and lease <= hold
