"""The board: every switch and every threshold at one moment, and the decision that follows from it.

It is what a gate holds in memory, and what the HTTP service sends: one form, one way to decide,
wherever the question is asked. Pure, and light enough for a router: only the standard library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from monitor.automation.state import effective, is_blocked
from monitor.records import SwitchState

Key: TypeAlias = tuple[str, str | None]


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
    NO_THRESHOLD = "no_threshold"
    STORE_UNREADABLE = "store_unreadable"
    SERVICE_FAILED = "service_failed"
    STALE = "stale"
    CLOSED_DOWN = "closed_down"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether automation may act on one item; true or false as it stands.

    ``until`` is when a "yes" ends at the latest (the lease), None for a "no". ``detail`` says the
    reason in words.
    """

    allowed: bool
    reason: GateReason
    until: datetime | None = None
    detail: str = ""

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """Switches by (source, label), label None for the source's own, and ``automate_at`` likewise.

    A label without a threshold of its own has its source's. ``at`` is when the board was read, by
    the clock of whoever read it.
    """

    at: datetime
    switches: Mapping[Key, SwitchState] = field(default_factory=dict)
    automate_at: Mapping[Key, float] = field(default_factory=dict)

    def threshold(self, source: str, label: str) -> float | None:
        """The score from which automation may act alone; None for a source nobody has configured."""
        own = self.automate_at.get((source, label))
        return self.automate_at.get((source, None)) if own is None else own


_REASONS = {"never set": GateReason.NEVER_SET, "off": GateReason.OFF, "no lease": GateReason.NO_LEASE}


def decide(board: Board, source: str, label: str, score: float | None, now: datetime) -> Decision:
    """Whether automation may act on an item of this label with this score, now.

    Closed for whatever is not known: a label never set, a source without a threshold, no score.

    >>> from datetime import UTC, timedelta
    >>> now = datetime(2026, 11, 21, tzinfo=UTC)
    >>> on = SwitchState("tickets", "billing", "on", lease_until=now + timedelta(days=2), version=1)
    >>> board = Board(now, {("tickets", "billing"): on}, {("tickets", None): 0.8})
    >>> bool(decide(board, "tickets", "billing", 0.93, now)), decide(board, "tickets", "billing", 0.5, now).reason.value
    (True, 'below_automate_at')
    """
    state = board.switches.get((source, label)) or SwitchState(source, label)
    whole = board.switches.get((source, None))
    found = effective(state, now, whole=whole)
    if not found.allowed:
        is_source = whole is not None and whole.state == "off"
        reason = GateReason.SOURCE_OFF if is_source else _REASONS.get(found.reason, GateReason.LEASE_ENDED)
        return Decision(False, reason, detail=found.reason)
    threshold = board.threshold(source, label)
    if threshold is None:
        return Decision(False, GateReason.NO_THRESHOLD, detail=f"no automate_at is known for {source}")
    if score is None or not (isinstance(score, int | float) and 0.0 <= score <= 1.0):  # NaN, too, is not in between
        return Decision(False, GateReason.SCORE_INVALID, detail="the score must be a number from 0 to 1")
    if score < threshold:
        return Decision(False, GateReason.BELOW_AUTOMATE_AT, detail=f"automation acts from {threshold:g}")
    if is_blocked(score, found.blocked):
        return Decision(False, GateReason.SCORE_BLOCKED, detail="scores in this range are blocked")
    return Decision(True, GateReason.ON, found.until, "on")


def to_json(board: Board) -> dict[str, Any]:
    """The board as plain data: the body of ``GET /v1/automation``."""
    return {
        "at": board.at.isoformat(),
        "switches": [_switch_json(board.switches[key]) for key in sorted(board.switches, key=_by_name)],
        "automate_at": [
            {"source": key[0], "label": key[1], "score": board.automate_at[key]}
            for key in sorted(board.automate_at, key=_by_name)
        ],
    }


def from_json(document: Any) -> Board:
    """The board of :func:`to_json`. Raises ValueError for anything else: a gate must not guess.

    >>> from datetime import UTC
    >>> from_json(to_json(Board(datetime(2026, 11, 21, tzinfo=UTC)))).at.year
    2026
    """
    try:
        switches = [_switch(row) for row in document["switches"]]
        thresholds = {(str(r["source"]), _label(r["label"])): _share(r["score"]) for r in document["automate_at"]}
        return Board(_moment(document["at"]), {(s.source, s.label): s for s in switches}, thresholds)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a board of switches: {error!r}") from None


def _by_name(key: Key) -> tuple[str, bool, str]:
    return key[0], key[1] is not None, key[1] or ""


def _switch_json(state: SwitchState) -> dict[str, Any]:
    return {
        "source": state.source, "label": state.label, "state": state.state,
        "blocked": [list(r) for r in state.blocked],
        "lease_until": state.lease_until.isoformat() if state.lease_until else None,
        "by": state.actor, "reason": state.reason, "verdict": state.verdict,
        "changed_at": state.changed_at.isoformat() if state.changed_at else None, "version": state.version,
    }  # fmt: skip


def _switch(row: Mapping[str, Any]) -> SwitchState:
    if row["state"] not in ("never_set", "off", "on"):
        raise ValueError(f"not a state of a switch: {row['state']!r}")
    lease, changed = row["lease_until"], row["changed_at"]
    return SwitchState(
        source=str(row["source"]), label=_label(row["label"]), state=row["state"], blocked=_ranges(row["blocked"]),
        lease_until=None if lease is None else _moment(lease), actor=str(row["by"]), reason=str(row["reason"]),
        verdict=row["verdict"], changed_at=None if changed is None else _moment(changed), version=int(row["version"]),
    )  # fmt: skip


def _ranges(rows: Sequence[Sequence[float]]) -> tuple[tuple[float, float], ...]:
    return tuple((_share(low), _share(high)) for low, high in rows)


def _label(value: Any) -> str | None:
    return None if value is None else str(value)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not math.isfinite(float(value)) or not 0.0 <= float(value) <= 1.0:
        raise ValueError(f"not a number from 0 to 1: {value!r}")
    return float(value)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment
