"""The life of an incident: when it opens, goes on, ends and comes back, and what people do to it. Pure.

Every decision has a named reason, also the decision to do nothing. Each change raises the version of the incident by
one, so that a change is stored only where nobody else made one in between.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from monitor.core.diagnoses import DiagnosisState
from monitor.core.episodes import NOT_SEEN
from monitor.core.records import (
    SEVERITY_RANK,
    UNCHECKED,
    VANISHED,
    Incident,
    IncidentEvent,
    IncidentReason,
    Severity,
    Window,
)

IncidentKind = Literal[
    "open", "continue", "resolve", "reopen", "acknowledge", "silence", "note", "wake", "refuse", "nothing"
]
WATCHDOG = "watchdog"
"""Who decides on the incident of the monitor itself, of which each event keeps the named reasons."""
_R = IncidentReason
_ENDS = {VANISHED: _R.ROWS_ARE_BACK, UNCHECKED: _R.CHECKED_AGAIN}
_EVENTS = {
    "open": "opened", "continue": "continued", "resolve": "resolved", "reopen": "reopened", "note": "noted",
    "acknowledge": "acknowledged", "silence": "silenced", "wake": "unsilenced",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Finding:
    """What one window says of one subject of an incident.

    ``within_limits``: no value is beyond its limit. ``evidence_until`` is the end of the newest window whose rows show
    the trouble, None for that of ``window``: what a day says may rest on the week before.
    """

    kind: str
    source: str
    label: str | None
    window: Window
    state: DiagnosisState
    reason: str = ""
    severity: Severity = "warning"
    rules: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    within_limits: bool = True
    evidence_until: datetime | None = None

    @property
    def is_trouble(self) -> bool:
        """Whether somebody is needed."""
        return self.state in (DiagnosisState.UNSAFE, DiagnosisState.DEGRADED)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its incident (``Incident.fingerprint``)."""
        return f"{self.kind}\x1f{self.source}\x1f{self.label or ''}"


@dataclass(frozen=True, slots=True)
class IncidentDecision:
    """What a window or a person does to an incident, and the incident after it; ``calls``: people are called now.

    ``kind`` is "nothing" or "refuse" exactly where the incident does not change. ``actor`` and ``why`` are a person's.
    """

    kind: IncidentKind
    reason: IncidentReason
    incident: Incident | None
    calls: bool = False
    actor: str = "run"
    why: str = ""
    window: Window | None = None

    @property
    def changes(self) -> bool:
        """Whether there is anything to store."""
        return self.kind not in ("nothing", "refuse")


def decide(finding: Finding, incident: Incident | None, now: datetime) -> IncidentDecision:
    """What ``finding`` does to the newest ``incident`` of its subject (None: there never was one).

    A trouble opens, continues or, up to four weeks after the end, brings back; a fine window ends; where nothing can be
    told, it ends after four weeks in which no value was beyond its limit. A window counts once, unless late truths
    change what it says; a window older than the newest counted one changes nothing.
    """
    if incident is None or (not incident.is_open and finding.window.end - incident.window_end > NOT_SEEN):
        if not finding.is_trouble:
            return IncidentDecision("nothing", _R.NO_TROUBLE, incident)
        window = finding.window
        opened = Incident(
            id=incident_id(finding.fingerprint, window.name), kind=finding.kind, source=finding.source,
            label=finding.label, severity=finding.severity, state="open", opened_at=now, opened_window=window.name,
            window=window.name, window_end=window.end, seen_until=window.end, reason=finding.reason, last=_R.OPENED,
            rules=finding.rules, labels=finding.labels,
        )  # fmt: skip
        return IncidentDecision("open", _R.OPENED, opened, calls=True, window=window)
    if finding.window.end < incident.window_end <= now:  # one in the future was stored when a clock was ahead
        return IncidentDecision("nothing", _R.OLDER_WINDOW, incident)
    counted = replace(incident, window=finding.window.name, window_end=finding.window.end, version=incident.version + 1)
    made = _in_trouble(finding, incident, counted, now) if finding.is_trouble else _out(finding, incident, counted, now)
    return replace(made, window=finding.window)


def _in_trouble(finding: Finding, before: Incident, counted: Incident, now: datetime) -> IncidentDecision:
    now_it_is = replace(
        counted, severity=finding.severity, reason=finding.reason, rules=finding.rules, labels=finding.labels,
        seen_until=finding.window.end,
    )  # fmt: skip
    if not before.is_open:
        is_new = (finding.evidence_until or finding.window.end) > before.window_end
        if before.last == _R.RESOLVED_BY_HAND and not is_new:  # that person knew of it
            return IncidentDecision("nothing", _R.ALREADY_COUNTED, before)
        return IncidentDecision("reopen", _R.CAME_BACK, reopened(now_it_is, now), calls=True)
    if SEVERITY_RANK[finding.severity] < SEVERITY_RANK[before.severity]:
        return IncidentDecision("continue", _R.WORSE, replace(unmarked(now_it_is), last=_R.WORSE), calls=True)
    reason = _R.CONTINUES if finding.reason == before.reason else _R.OTHER_PROBLEM
    after = replace(now_it_is, last=reason)
    if replace(after, version=before.version, last=before.last) == before and before.last != _R.CANNOT_TELL:
        return IncidentDecision("nothing", _R.ALREADY_COUNTED, before)
    return IncidentDecision("continue", reason, after)


def _out(finding: Finding, before: Incident, counted: Incident, now: datetime) -> IncidentDecision:
    """A window without a trouble: fine, or nothing can be told."""
    if not before.is_open:
        return IncidentDecision("nothing", _R.NO_TROUBLE, before)
    if finding.state is DiagnosisState.FINE:
        reason = _ENDS.get(before.kind, _R.FINE_AGAIN)
        return IncidentDecision("resolve", reason, resolved(counted, now, reason, window=finding.window.name))
    seen = before.seen_until if finding.within_limits else finding.window.end
    if finding.window.end - seen >= NOT_SEEN:
        return IncidentDecision("resolve", _R.NOT_SEEN, resolved(counted, now, _R.NOT_SEEN, window=finding.window.name))
    if before.window == finding.window.name and before.last == _R.CANNOT_TELL:
        return IncidentDecision("nothing", _R.ALREADY_COUNTED, before)
    again = before.last == _R.CANNOT_TELL
    after = replace(counted, seen_until=seen, last=_R.CANNOT_TELL)
    return IncidentDecision("continue", _R.CONTINUES if again else _R.CANNOT_TELL, after)


def resolved(
    incident: Incident, now: datetime, reason: IncidentReason | str = "", *, window: str = "", by: str = ""
) -> Incident:
    """The incident after its end, by a ``window`` or ``by`` a person."""
    return replace(
        incident, state="resolved", resolved_at=now, resolved_window=window or None, resolved_by=by or None,
        last=str(reason),
    )  # fmt: skip


def reopened(incident: Incident, now: datetime) -> Incident:
    """The incident, open again and not acknowledged; a silence that still runs goes on."""
    silent = incident.silenced_until is not None and incident.silenced_until > now
    return replace(
        incident,
        state="silenced" if silent else "open",
        reopened=incident.reopened + 1,
        last=_R.CAME_BACK,
        resolved_at=None,
        resolved_window=None,
        resolved_by=None,
        acknowledged_at=None,
        acknowledged_by=None,
        silenced_until=incident.silenced_until if silent else None,
        silenced_by=incident.silenced_by if silent else None,
    )


def unmarked(incident: Incident) -> Incident:
    """The incident, open: what people said of a lesser trouble does not hold for a worse one."""
    return replace(
        incident, state="open", acknowledged_at=None, acknowledged_by=None, silenced_until=None, silenced_by=None
    )


def retire(incident: Incident, why: str, now: datetime) -> IncidentDecision:
    """End an incident that no window can end: no rule of alerts.yaml is about its subject any more."""
    after = resolved(replace(incident, version=incident.version + 1), now, _R.NOT_WATCHED, by="calmon")
    return IncidentDecision("resolve", _R.NOT_WATCHED, after, why=why)


# --- what people and time do


def acknowledge(incident: Incident, actor: str, now: datetime) -> IncidentDecision:
    """Somebody works on it: no more mentions. Also ends a silence, since that person wants the news."""
    if (refusal := _refusal(incident, actor)) is not None:
        return IncidentDecision("refuse", refusal, incident, actor=actor)
    if incident.state == "acknowledged":
        return IncidentDecision("nothing", _R.ALREADY_ACKNOWLEDGED, incident, actor=actor)
    after = replace(
        unmarked(incident), state="acknowledged", acknowledged_at=now, acknowledged_by=actor,
        version=incident.version + 1,
    )  # fmt: skip
    return IncidentDecision("acknowledge", _R.ACKNOWLEDGED, after, actor=actor)


def silence(incident: Incident, actor: str, until: datetime, now: datetime) -> IncidentDecision:
    """No replies and no repeats until then, unless it becomes more severe. A longer silence replaces it."""
    refusal = _refusal(incident, actor) or (_R.END_NOT_AHEAD if until <= now else None)
    if refusal is not None:
        return IncidentDecision("refuse", refusal, incident, actor=actor)
    if incident.state == "silenced" and incident.silenced_until is not None and incident.silenced_until >= until:
        return IncidentDecision("nothing", _R.ALREADY_SILENCED, incident, actor=actor)
    after = replace(incident, state="silenced", silenced_until=until, silenced_by=actor, version=incident.version + 1)
    return IncidentDecision("silence", _R.SILENCED, after, actor=actor)


def resolve(incident: Incident, actor: str, reason: str, now: datetime) -> IncidentDecision:
    """A person ends it, and says why. A trouble in a later window soon after still brings it back."""
    if (refusal := _missing(actor, reason)) is not None:
        return IncidentDecision("refuse", refusal, incident, actor=actor)
    if not incident.is_open:
        return IncidentDecision("nothing", _R.ALREADY_RESOLVED, incident, actor=actor)
    if incident.is_of_monitor:
        return IncidentDecision("refuse", _R.ENDS_BY_ITSELF, incident, actor=actor)
    unsilenced = replace(incident, silenced_until=None, silenced_by=None, version=incident.version + 1)
    after = resolved(unsilenced, now, _R.RESOLVED_BY_HAND, by=actor)
    return IncidentDecision("resolve", _R.RESOLVED_BY_HAND, after, actor=actor, why=reason)


def note(incident: Incident, actor: str, text: str) -> IncidentDecision:
    """A person adds a note, which is kept with the incident and shown in the thread of its message."""
    if (refusal := _missing(actor, text)) is not None:
        return IncidentDecision("refuse", refusal, incident, actor=actor)
    return IncidentDecision("note", _R.NOTED, replace(incident, version=incident.version + 1), actor=actor, why=text)


def rename(incident: Incident, old: str, new: str, actor: str, why: str) -> IncidentDecision:
    """The incident goes on under the new name of its label, or of one of its labels; ``why`` is kept as a note."""
    labels = tuple(sorted({new if each == old else each for each in incident.labels}))
    label = new if incident.label == old else incident.label
    after = replace(incident, label=label, labels=labels, version=incident.version + 1)
    return IncidentDecision("note", _R.NOTED, after, actor=actor, why=why)


def wake(incident: Incident, now: datetime) -> IncidentDecision:
    """End a silence whose time is over: the incident is acknowledged, if it was before, or open."""
    is_over = incident.state == "silenced" and incident.silenced_until is not None and incident.silenced_until <= now
    if not is_over:
        return IncidentDecision("nothing", _R.NOT_OVER, incident)
    after = replace(
        incident, state="acknowledged" if incident.acknowledged_at else "open", silenced_until=None, silenced_by=None,
        version=incident.version + 1,
    )  # fmt: skip
    return IncidentDecision("wake", _R.SILENCE_ENDED, after)


def _missing(actor: str, why: str) -> IncidentReason | None:
    if not actor.strip():
        return _R.NAME_MISSING
    return None if why.strip() else _R.REASON_MISSING


def _refusal(incident: Incident, actor: str) -> IncidentReason | None:
    return _missing(actor, "-") or (None if incident.is_open else _R.ALREADY_RESOLVED)


# --- what is stored and sent


def event_of(decision: IncidentDecision, now: datetime) -> IncidentEvent | None:
    """The event that the history keeps of a decision; None where nothing changes."""
    incident = decision.incident
    if incident is None or not decision.changes:
        return None
    reason = ", ".join(incident.reasons) if decision.actor == WATCHDOG else decision.reason.value
    return IncidentEvent(
        f"{incident.id}:{incident.version:06d}", incident.id, now, _EVENTS[decision.kind], reason, decision.actor,
        decision.window.name if decision.window else "", detail={"why": decision.why} if decision.why else {},
    )  # fmt: skip


def repeat_is_due(incident: Incident, last: datetime, repeat: timedelta | None, now: datetime) -> bool:
    """Whether to mention people once more: ``repeat`` after the ``last`` mention, while the incident is open.

    One that is acknowledged, silenced or resolved mentions nobody, and neither does one that calls for no action.
    """
    return incident.state == "open" and incident.kind != "vanished" and repeat is not None and now - last >= repeat


def still_waits(incident: Incident, since: datetime) -> bool:
    """Whether a call for the incident that was written at ``since`` is still needed.

    It is while the incident is open, or acknowledged as it was then: it got worse, and that called people.
    """
    at = incident.acknowledged_at
    return incident.state == "open" or (incident.state == "acknowledged" and at is not None and at < since)


def incident_id(fingerprint: str, first: str) -> str:
    """The id of the incident that begins in this window, or at this time; the same for every evaluation of the window.

    >>> incident_id("label tickets billing", "2026-W46")
    '1e2ad255c869f406'
    """
    return hashlib.sha256(f"{fingerprint}\x1f{first}".encode()).hexdigest()[:16]
