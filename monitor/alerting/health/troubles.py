"""The incident of the monitor itself: one for all health issues, as a label has one for all its rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from monitor.alerting.health.issues import UNJUDGED, HealthIssue, WatchReason
from monitor.core.records import MONITOR_KIND, SEVERITY_RANK, Incident, IncidentReason
from monitor.incidents.life import WATCHDOG, IncidentDecision, incident_id, reopened, resolved, unmarked

RECALL = timedelta(days=1)
"""A trouble that comes back within this time after its end is the same incident again."""
FLAPPING_FROM, QUIET = 2, timedelta(hours=6)
"""A trouble that returned this often ends only after it has been away for this long."""
NOT_RUNNING = frozenset({
    WatchReason.RUN_MISSING, WatchReason.RUN_FAILED, WatchReason.RUN_HUNG, WatchReason.RUNS_WAITING,
    WatchReason.FLOW_FAILED, WatchReason.WATCHDOG_SILENT,
})  # fmt: skip
NOT_JUDGED = UNJUDGED - {WatchReason.SCORES_MOVED} | {WatchReason.DATA_STALE}
"""Why nothing can be said of some rows, or of all."""
ENDS_LEASES = NOT_RUNNING | {WatchReason.SOURCE_NOT_READ, WatchReason.DATA_STALE, WatchReason.NOTHING_JUDGED}
OF_A_RUN = UNJUDGED | NOT_JUDGED | {WatchReason.DATA_SMALL, WatchReason.TURNED_OFF}
"""What a run sees of the data that it has read, and of what it did with it."""


def needing(issues: Iterable[HealthIssue]) -> tuple[HealthIssue, ...]:
    """The issues that somebody is needed for: those of severity info are only shown.

    The most severe come first, and of these what causes others: closed gates, then runs, then data.
    """
    return tuple(sorted((issue for issue in issues if issue.severity != "info"), key=_place))


def _place(issue: HealthIssue) -> tuple[int, bool, int]:
    closes_gates = issue.reason in (WatchReason.HISTORY_RESTORED, WatchReason.CLOCK_BEHIND)
    return SEVERITY_RANK[issue.severity], not closes_gates, list(WatchReason).index(issue.reason)


def decide(
    issues: Sequence[HealthIssue], known: Sequence[Incident], now: datetime, *, ends: bool = True
) -> IncidentDecision | None:
    """What one look does; ``known`` are all incidents of the monitor. None: there is none, and none is needed.

    Not ``ends`` where only runs could be looked at: then nothing ends.
    """
    needed = needing(issues)
    newest = max(known, key=lambda each: (each.is_open, each.opened_at), default=None)
    if not needed:
        return None if newest is None or not newest.is_open or not ends else _without(newest, now)
    if newest is None or (newest.resolved_at is not None and now - newest.resolved_at > RECALL):
        opened = Incident(
            id=incident_id(MONITOR_KIND, f"{now:%Y-%m-%dT%H:%M:%S}"), kind=MONITOR_KIND, source="", label=None,
            state="open", opened_at=now, opened_window=f"{now:%Y-%m-%d}", window="", window_end=now, seen_until=now,
            **_reasons(needed),
        )  # fmt: skip
        return _decision("open", IncidentReason.OPENED, opened, calls=True)
    if not newest.is_open:
        again = reopened(replace(newest, quiet_since=None, version=newest.version + 1, **_reasons(needed)), now)
        return _decision("reopen", IncidentReason.CAME_BACK, again, calls=True)
    # A critical reason that it did not have makes it more severe: an acknowledgement is over. Where nobody has
    # acknowledged it, the reminders say what is new.
    critical = {issue.reason.value for issue in needed if issue.severity == "critical"}
    is_new = bool(critical - set(newest.reasons)) and newest.state != "open"
    is_worse = is_new or bool(critical and newest.severity != "critical")
    updated = replace(newest, quiet_since=None, **_reasons(needed))
    updated = unmarked(updated) if is_worse else updated
    if updated == newest:
        return _decision("nothing", IncidentReason.CONTINUES, newest)
    reason = IncidentReason.WORSE if is_worse else IncidentReason.CONTINUES
    return _decision("continue", reason, replace(updated, version=newest.version + 1), calls=is_worse)


_decision = partial(IncidentDecision, actor=WATCHDOG)


def _without(incident: Incident, now: datetime) -> IncidentDecision:
    """The incident ends at once; one that flaps, only after it has been away for ``QUIET``."""
    if incident.reopened >= FLAPPING_FROM:
        if incident.quiet_since is None:
            held = replace(incident, quiet_since=now, version=incident.version + 1)
            return _decision("continue", IncidentReason.CONTINUES, held)
        if now - incident.quiet_since < QUIET:
            return _decision("nothing", IncidentReason.CONTINUES, incident)
    ended = resolved(replace(incident, version=incident.version + 1), now)
    return _decision("resolve", IncidentReason.FINE_AGAIN, ended)


def _reasons(issues: Sequence[HealthIssue]) -> dict[str, Any]:
    first, *further = dict.fromkeys(issue.reason.value for issue in issues)
    return {"severity": issues[0].severity, "reason": first, "further_reasons": tuple(further)}


def is_said_already(issue: HealthIssue, issues: Sequence[HealthIssue], opened_at: datetime, now: datetime) -> bool:
    """Whether people were called today for what keeps this lease from being renewed: its message says when it ends.

    On the last day of the lease they are called all the same.
    """
    causes = {each.source for each in issues if each.reason in ENDS_LEASES}
    is_later = issue.reason is WatchReason.LEASE_ENDING and issue.severity != "critical"
    return is_later and not causes.isdisjoint({"", issue.source}) and now - opened_at < RECALL
