"""The incident of the monitor itself: one for all health issues, as a label has one for all its rules. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.core.records import MONITOR_KIND, SEVERITY_RANK, Incident, IncidentEvent
from monitor.incidents.life import incident_id, reopened, resolved, wake

RECALL = timedelta(days=1)
"""A trouble that comes back within this time after its end is the same incident again."""
FLAPPING_FROM, QUIET = 2, timedelta(hours=6)
"""A trouble that returned this often ends only after it has been away for this long."""
NOT_RUNNING = frozenset({
    WatchReason.RUN_MISSING, WatchReason.RUN_FAILED, WatchReason.RUN_HUNG, WatchReason.RUNS_WAITING,
    WatchReason.FLOW_FAILED, WatchReason.WATCHDOG_SILENT,
})  # fmt: skip
NOT_JUDGED = frozenset({
    WatchReason.SOURCE_NOT_READ, WatchReason.DATA_STALE, WatchReason.NOTHING_JUDGED, WatchReason.REJECTED_ROWS,
    WatchReason.UNRESOLVED_FAILED,
})  # fmt: skip
ENDS_LEASES = NOT_RUNNING | {WatchReason.SOURCE_NOT_READ, WatchReason.DATA_STALE, WatchReason.NOTHING_JUDGED}
OF_A_RUN = NOT_JUDGED | {WatchReason.DATA_SMALL, WatchReason.SCORES_MOVED, WatchReason.TURNED_OFF}
"""What a run sees of the data that it has read, and of what it did with it."""


@dataclass(frozen=True, slots=True)
class TroubleChange:
    """The change of the monitor's incident by one look of the watchdog.

    ``before`` is None where it opens; ``event`` says what happened ("": nothing is stored, though its message may
    change); ``calls``: those whom the route mentions are called now.
    """

    before: Incident | None
    after: Incident
    findings: tuple[HealthIssue, ...] = ()
    event: str = ""
    calls: bool = False


def needing(findings: Sequence[HealthIssue]) -> tuple[HealthIssue, ...]:
    """The findings that somebody is needed for: those of severity info are only shown.

    The most severe come first, and of these what causes others: closed gates, then runs, then data.
    """
    return tuple(sorted((finding for finding in findings if finding.severity != "info"), key=_place))


def _place(finding: HealthIssue) -> tuple[int, bool, int]:
    closes_gates = finding.reason in (WatchReason.HISTORY_RESTORED, WatchReason.CLOCK_BEHIND)
    return SEVERITY_RANK[finding.severity], not closes_gates, list(WatchReason).index(finding.reason)


def change_of(
    findings: Sequence[HealthIssue], known: Sequence[Incident], now: datetime, *, ends: bool = True
) -> TroubleChange | None:
    """The change by one look; ``known`` are all incidents of the monitor. None: there is none, and none is needed.

    Not ``ends`` where only runs could be looked at: then nothing ends.
    """
    needed = needing(findings)
    newest = max(known, key=lambda each: (each.is_open, each.opened_at), default=None)
    if not needed:
        return None if newest is None or not newest.is_open or not ends else _without(newest, now)
    if newest is None or (newest.resolved_at is not None and now - newest.resolved_at > RECALL):
        return TroubleChange(None, _opened(needed, now), needed, "opened", calls=True)
    if not newest.is_open:
        again = reopened(replace(newest, quiet_since=None, version=newest.version + 1, **_reasons(needed)), now)
        return TroubleChange(newest, again, needed, "reopened", calls=True)
    return _with(needed, newest, now)


def _with(findings: tuple[HealthIssue, ...], incident: Incident, now: datetime) -> TroubleChange:
    """One that goes on. A critical reason that it did not have makes it more severe: an acknowledgement is over.

    Where nobody has acknowledged it, the reminders say what is new.
    """
    woken = wake(incident, now)
    after = woken.incident if woken.changes and woken.incident is not None else incident
    critical = {finding.reason.value for finding in findings if finding.severity == "critical"}
    is_new = bool(critical - set(incident.reasons)) and incident.state != "open"
    is_worse = is_new or bool(critical and incident.severity != "critical")
    updated = replace(after, quiet_since=None, **_reasons(findings))
    if is_worse:
        updated = replace(
            updated, state="open", acknowledged_at=None, acknowledged_by=None, silenced_until=None, silenced_by=None
        )
    if updated == incident:
        return TroubleChange(incident, incident, findings)
    event = "unsilenced" if woken.changes else "continued"
    return TroubleChange(incident, replace(updated, version=incident.version + 1), findings, event, is_worse)


def _without(incident: Incident, now: datetime) -> TroubleChange:
    """The incident ends at once; one that flaps, only after it has been away for ``QUIET``."""
    if incident.reopened >= FLAPPING_FROM:
        if incident.quiet_since is None:
            held = replace(incident, quiet_since=now, version=incident.version + 1)
            return TroubleChange(incident, held, event="held_back")
        if now - incident.quiet_since < QUIET:
            return TroubleChange(incident, incident)
    ended = resolved(replace(incident, version=incident.version + 1), now)
    return TroubleChange(incident, ended, event="resolved")


def _reasons(findings: Sequence[HealthIssue]) -> dict[str, Any]:
    first, *further = dict.fromkeys(finding.reason.value for finding in findings)
    return {"severity": findings[0].severity, "reason": first, "further_reasons": tuple(further)}


def _opened(findings: Sequence[HealthIssue], now: datetime) -> Incident:
    return Incident(
        id=incident_id(MONITOR_KIND, f"{now:%Y-%m-%dT%H:%M:%S}"), kind=MONITOR_KIND, source="", label=None,
        state="open", opened_at=now, opened_window=f"{now:%Y-%m-%d}", window="", window_end=now, seen_until=now,
        **_reasons(findings),
    )  # fmt: skip


def is_said_already(finding: HealthIssue, change: TroubleChange, now: datetime) -> bool:
    """Whether people were called today for what keeps this lease from being renewed: its message says when it ends.

    On the last day of the lease they are called all the same.
    """
    causes = {each.source for each in change.findings if each.reason in ENDS_LEASES}
    is_later = finding.reason is WatchReason.LEASE_ENDING and finding.severity != "critical"
    return is_later and not causes.isdisjoint({"", finding.source}) and now - change.after.opened_at < RECALL


def event_of(change: TroubleChange, now: datetime) -> IncidentEvent | None:
    """The event that the history keeps of a change; None where nothing is stored."""
    if not change.event:
        return None
    return IncidentEvent(
        key=f"{change.after.id}:{change.after.version:06d}",
        incident=change.after.id,
        at=now,
        kind=change.event,
        reason=", ".join(change.after.reasons),
        actor="watchdog",
    )
