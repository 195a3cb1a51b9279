"""Incidents: a run of breaches of one rule on one subject, from the first to resolved. Pure.

Every decision has a named reason, also the decision to do nothing, so that a quiet alert can be
explained as well as a loud one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from monitor.records import Incident, Verdict

IncidentKind = Literal["open", "continue", "resolve", "nothing"]


@dataclass(frozen=True, slots=True)
class IncidentDecision:
    """What a verdict does to the incident of its rule and subject, and the incident as it is then."""

    kind: IncidentKind
    reason: str
    incident: Incident | None


def decide(verdict: Verdict, open_incident: Incident | None, now: datetime) -> IncidentDecision:
    """What ``verdict`` does to ``open_incident`` (None: none is open).

    A breach opens or continues, ok resolves, and what could not be evaluated leaves an incident
    open. Windows count once; one older than the newest counted changes nothing.
    """
    if open_incident is None:
        return _without_incident(verdict, now)
    if verdict.window.start < open_incident.last_window_start:
        return IncidentDecision("nothing", "older window", open_incident)
    if verdict.outcome == "not_evaluated":
        return IncidentDecision("nothing", "not evaluated: stays open", open_incident)
    if verdict.outcome == "ok":
        return IncidentDecision("resolve", "within threshold again", _resolved(open_incident, verdict, now))
    if verdict.window.start == open_incident.last_window_start:
        return IncidentDecision("nothing", "already counted", open_incident)
    return IncidentDecision("continue", "still breaching", _continued(open_incident, verdict))


def incident_id(fingerprint: str, window_name: str) -> str:
    """The id of the incident that begins in this window: the same however often it is decided.

    >>> incident_id("ece-increase\\x1ftickets\\x1fbilling", "2026-W46")
    'cefb50c85410a8d2'
    """
    return hashlib.sha256(f"{fingerprint}\x1f{window_name}".encode()).hexdigest()[:16]


def _without_incident(verdict: Verdict, now: datetime) -> IncidentDecision:
    if verdict.outcome == "breach":
        return IncidentDecision("open", "first breach", _opened(verdict, now))
    reason = "within threshold" if verdict.outcome == "ok" else "not evaluated"
    return IncidentDecision("nothing", reason, None)


def _opened(verdict: Verdict, now: datetime) -> Incident:
    subject, window = verdict.subject, verdict.window
    unnamed = Incident(
        id="", rule=verdict.rule, source=subject.source, label=subject.label, severity=verdict.severity,
        state="open", schedule=window.schedule, opened_at=now, opened_window=window.name,
        first_verdict=verdict.id, last_verdict=verdict.id, last_window_start=window.start, breaches=1,
        reason=verdict.reason.value,
    )  # fmt: skip
    return replace(unnamed, id=incident_id(unnamed.fingerprint, window.name))


def _continued(incident: Incident, verdict: Verdict) -> Incident:
    return replace(
        incident, last_verdict=verdict.id, last_window_start=verdict.window.start, breaches=incident.breaches + 1,
        severity=verdict.severity, reason=verdict.reason.value, version=incident.version + 1,
    )  # fmt: skip


def _resolved(incident: Incident, verdict: Verdict, now: datetime) -> Incident:
    """Closed; the last breach stays the last verdict."""
    return replace(
        incident, state="resolved", resolved_at=now, resolved_window=verdict.window.name, version=incident.version + 1
    )
