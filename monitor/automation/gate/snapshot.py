"""The snapshot: every switch and every threshold at one moment, and the decision that follows from it.

A gate holds it in memory and the HTTP service sends it, so both decide alike. Pure; only the standard library, for
routers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from numbers import Real
from typing import Any, TypeAlias

from monitor.automation.segments import plain_value
from monitor.automation.state import CLOSED_HISTORY, GateReason, clock_behind, closed_history, effective, is_blocked
from monitor.core.records import Identity, Mark, SegmentSwitch, SwitchState
from monitor.core.score_ranges import Ranges

Key: TypeAlias = tuple[str, str | None]


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether automation may act on one item; its truth value is ``allowed``.

    ``until`` is when a "yes" ends at the latest (the lease), None for a "no". ``detail`` is the reason in words.
    """

    allowed: bool
    reason: GateReason
    until: datetime | None = None
    detail: str = ""

    def __bool__(self) -> bool:
        return self.allowed


@dataclass(frozen=True, slots=True, eq=False)
class SwitchSnapshot:
    """Switches and ``automate_at`` by (source, label); label None is the source's own.

    A label without a threshold has that of its source. ``at`` is when the snapshot was read, by the reader's clock.
    ``mark`` is the version of the history, ``newest_at`` the time of the last change of a switch. ``closed`` is why no
    label at all may act, usually None.
    """

    at: datetime
    switches: Mapping[Key, SwitchState] = field(default_factory=dict)
    automate_at: Mapping[Key, float] = field(default_factory=dict)
    mark: Mark | None = None
    newest_at: datetime | None = None
    closed: GateReason | None = None

    def state(self, source: str, label: str | None) -> SwitchState:
        """A switch as it is stored; one that nobody has set is "never_set"."""
        return self.switches.get((source, label), SwitchState(source, label))

    def threshold(self, source: str, label: str | None) -> float | None:
        """The score from which automation may act alone; None for a source that is not configured."""
        of_label = self.automate_at.get((source, label))
        return self.automate_at.get((source, None)) if of_label is None else of_label


REQUEST = "Calmon-Request"
"""The header of an answer with the id of its request."""


def snapshot_of(
    at: datetime, switches: Iterable[SwitchState], automate_at: Mapping[Key, float], identity: Identity
) -> SwitchSnapshot:
    """A snapshot of the history's switches and thresholds at ``at``; closed if an older copy was put back."""
    by_key = {(s.source, s.label): s for s in switches}
    return SwitchSnapshot(at, by_key, automate_at, identity.mark, identity.newest_at, closed_history(identity))


_NEVER_SET = SwitchState("", None)
_NO_TEXT = "the source and the label must be text, and the label not empty"
_NO_LABEL = Decision(False, GateReason.NEVER_SET, detail=_NO_TEXT)
_INVALID = Decision(False, GateReason.SCORE_INVALID, detail="the score must be a number from 0 to 1")
_BLOCKED = Decision(False, GateReason.SCORE_BLOCKED, detail="scores in this range are blocked")
_NO_SEGMENTS: Mapping[str, object] = {}


@dataclass(frozen=True, slots=True)
class Terms:
    """The rules for the scores of one label, valid until the snapshot changes or the lease ends.

    ``closed`` is the answer to every score; None if it depends on the score. ``yes`` and ``below`` are the answers from
    ``threshold`` on and below it, made once, since a gate gives them many thousand times. ``segments`` are the values
    that are off, by column, as :func:`_plain_value` returns them.
    """

    closed: Decision | None
    threshold: float = math.inf
    blocked: Ranges = ()
    yes: Decision = _INVALID
    below: Decision = _INVALID
    segments: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def judge(self, score: object, segments: object = None) -> Decision:
        """Whether automation may act on an item with this score and these values of segment columns.

        >>> Terms(None, 0.8, (), yes=Decision(True, GateReason.ON)).judge(0.9).allowed
        True
        """
        if self.closed is not None:
            return self.closed
        number = score if type(score) is float else _number(score)
        if not 0.0 <= number <= 1.0:  # false for NaN too
            return _INVALID
        if number < self.threshold:
            return self.below
        if self.blocked and is_blocked(number, self.blocked):
            return _BLOCKED
        closed = _in_segments(self.segments, segments) if self.segments else None
        return self.yes if closed is None else closed  # not "or", since a "no" is false


def _in_segments(off: Mapping[str, frozenset[str]], given: object) -> Decision | None:
    """Why an item's values forbid to act: one is off, or missing in a column with a value that is off; else None.

    >>> off = {"channel": frozenset({"web"})}
    >>> _in_segments(off, {"channel": "Web"}).reason.value, _in_segments(off, {"channel": 1}).reason.value
    ('segment_off', 'segment_missing')
    >>> _in_segments(off, {"channel": "mail"}) is None
    True
    """
    values = given if isinstance(given, Mapping) else _NO_SEGMENTS
    for column, closed in off.items():
        value = values.get(column)
        if not isinstance(value, str) or not value.strip():
            text = f"{column} is needed, as text: automation is off for some of its values"
            return Decision(False, GateReason.SEGMENT_MISSING, detail=text)
        if plain_value(value) in closed:
            return Decision(False, GateReason.SEGMENT_OFF, detail=f"off for {column} = {value}")
    return None


def _by_column(segments: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for column, value in segments:
        found.setdefault(column, set()).add(plain_value(value))
    return {column: frozenset(values) for column, values in found.items()}


def terms(snapshot: SwitchSnapshot, source: str, label: str, now: datetime) -> Terms:
    """The terms of a label now. Closed if anything is unknown."""
    if (
        not isinstance(source, str) or not isinstance(label, str) or not label
    ):  # an empty label would be the source's own switch
        return Terms(_NO_LABEL)
    whole = closed_by_history(snapshot, now)
    if whole is not None:
        return Terms(whole)
    state = snapshot.switches.get((source, label))
    found = effective(_NEVER_SET if state is None else state, now, whole=snapshot.switches.get((source, None)))
    if not found.allowed:
        return Terms(Decision(False, found.reason, detail=found.detail))
    threshold = snapshot.threshold(source, label)
    if threshold is None:
        return Terms(Decision(False, GateReason.NO_THRESHOLD, detail=f"no automate_at is known for {source}"))
    below = Decision(False, GateReason.BELOW_AUTOMATE_AT, detail=f"automation acts from {threshold:g}")
    yes = Decision(True, GateReason.ON, found.until, "on")
    return Terms(None, threshold, found.blocked, yes=yes, below=below, segments=_by_column(found.segments))


def closed_by_history(snapshot: SwitchSnapshot, now: datetime) -> Decision | None:
    """Why no label may act, whatever its switch; None if labels may."""
    if snapshot.closed is not None:
        return Decision(False, snapshot.closed, detail=CLOSED_HISTORY.get(snapshot.closed, snapshot.closed.value))
    behind = clock_behind(snapshot.newest_at, now)
    return None if behind is None else Decision(False, GateReason.CLOCK_BEHIND, detail=behind)


def decide(
    snapshot: SwitchSnapshot, source: str, label: str, score: float | None, now: datetime, segments: object = None
) -> Decision:
    """Whether automation may act now on an item of this label with this score and these values by segment column.

    Closed if anything is unknown: the label was never set, the source has no threshold, there is no score, or no value
    of a column with a segment that is off. Any real number is a score (NumPy's too), but not a boolean or a text.

    >>> from datetime import UTC, timedelta
    >>> now = datetime(2026, 11, 21, tzinfo=UTC)
    >>> on = SwitchState("tickets", "billing", "on", lease_until=now + timedelta(days=2), version=1)
    >>> snapshot = SwitchSnapshot(now, {("tickets", "billing"): on}, {("tickets", None): 0.8})
    >>> bool(decide(snapshot, "tickets", "billing", 0.93, now))
    True
    >>> decide(snapshot, "tickets", "billing", 0.5, now).reason.value
    'below_automate_at'
    """
    return terms(snapshot, source, label, now).judge(score, segments)


def _number(score: object) -> float:
    """A score as a float; NaN if it is not a number."""
    if isinstance(score, bool) or not isinstance(score, Real):
        return math.nan
    try:
        return float(score)
    except OverflowError:
        return math.nan


def to_json(snapshot: SwitchSnapshot) -> dict[str, Any]:
    """The snapshot as plain data: the body of ``GET /v1/automation``."""
    thresholds = sorted(snapshot.automate_at.items(), key=lambda item: _by_name(item[0]))
    return {
        "at": snapshot.at.isoformat(),
        "history": None if snapshot.mark is None else asdict(snapshot.mark),
        "newest_at": None if snapshot.newest_at is None else snapshot.newest_at.isoformat(),
        "closed": None if snapshot.closed is None else snapshot.closed.value,
        "switches": [_switch_json(snapshot.switches[key]) for key in sorted(snapshot.switches, key=_by_name)],
        "automate_at": [{"source": source, "label": label, "score": score} for (source, label), score in thresholds],
    }


def from_json(document: Any) -> SwitchSnapshot:
    """The snapshot from :func:`to_json`. Raises ValueError for anything else: a gate must not guess.

    >>> from datetime import UTC
    >>> from_json(to_json(SwitchSnapshot(datetime(2026, 11, 21, tzinfo=UTC)))).at.year
    2026
    """
    try:
        switches = [_switch(row) for row in document["switches"]]
        thresholds = [((_name(r["source"]), _label(r["label"])), _share(r["score"])) for r in document["automate_at"]]
        newest, closed, row = document["newest_at"], document["closed"], document["history"]
        found = SwitchSnapshot(
            at=_moment(document["at"]),
            switches={(s.source, s.label): s for s in switches},
            automate_at=dict(thresholds),
            mark=None if row is None else Mark(_name(row["history"]), int(row["epoch"]), int(row["version"])),
            newest_at=None if newest is None else _moment(newest),
            closed=None if closed is None else GateReason(closed),
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(f"not a snapshot of switches: {error!r}") from None
    if len(found.switches) < len(switches) or len(found.automate_at) < len(thresholds):
        raise ValueError("not a snapshot of switches: a label is in it twice")
    return found


def _by_name(key: Key) -> tuple[str, bool, str]:
    return key[0], key[1] is not None, key[1] or ""


def _switch_json(state: SwitchState) -> dict[str, Any]:
    lease, changed = (None if at is None else at.isoformat() for at in (state.lease_until, state.changed_at))
    about = {"source": state.source, "label": state.label, "state": state.state}
    limits: dict[str, Any] = {"blocked": [list(r) for r in state.blocked], "lease_until": lease}
    parts = [_segment_json(each) for each in state.segments if each.off_from is not None]
    if parts:  # readers without segments must see all scores blocked
        limits |= {"blocked": EVERY_SCORE, "blocked_scores": limits["blocked"], "segments": parts}
    why = {"by": state.actor, "reason": state.reason, "verdict": state.verdict}
    return about | limits | why | {"changed_at": changed, "version": state.version}


EVERY_SCORE = [[0.0, 1.0]]
"""The blocked ranges of a label with a segment that is off, for readers that do not know segments."""


def _segment_json(each: SegmentSwitch) -> dict[str, Any]:
    off_from = None if each.off_from is None else each.off_from.isoformat()
    return {"column": each.column, "value": each.value, "off_from": off_from}


def _segment(row: Mapping[str, Any]) -> SegmentSwitch:
    if not isinstance(row["value"], str):
        raise ValueError(f"not a value of a segment: {row['value']!r}")
    return SegmentSwitch(_name(row["column"]), row["value"], _moment(row["off_from"]))


def _switch(row: Mapping[str, Any]) -> SwitchState:
    if row["state"] not in ("never_set", "off", "on"):
        raise ValueError(f"not a state of a switch: {row['state']!r}")
    lease, changed = row["lease_until"], row["changed_at"]
    segments = tuple(_segment(each) for each in row.get("segments", ()))
    blocked = _ranges(row["blocked_scores"] if segments else row["blocked"])
    return SwitchState(
        source=_name(row["source"]), label=_label(row["label"]), state=row["state"], blocked=blocked,
        lease_until=None if lease is None else _moment(lease), actor=str(row["by"]), reason=str(row["reason"]),
        verdict=row["verdict"], changed_at=None if changed is None else _moment(changed), version=int(row["version"]),
        segments=segments,
    )  # fmt: skip


def _ranges(rows: Sequence[Sequence[float]]) -> Ranges:
    ranges = tuple((_share(low), _share(high)) for low, high in rows)
    if any(low > high for low, high in ranges):
        raise ValueError(f"not ranges of scores, from low to high: {ranges}")
    return ranges


def _name(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"not a name: {value!r}")
    return value


def _label(value: Any) -> str | None:
    return None if value is None else _name(value)


def _share(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1.0:  # false for NaN too
        raise ValueError(f"not a number from 0 to 1: {value!r}")
    return float(value)


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    if moment.tzinfo is None:
        raise ValueError(f"{value!r} has no time zone")
    return moment
