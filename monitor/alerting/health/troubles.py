"""Health issues become incidents of the monitor itself. Pure.

Each trouble is one incident with one message, however many findings it causes (missing runs, leases that end
because of them). Which finding belongs to which trouble is in ``docs/watching.md``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.incidents.life import incident_id, reopened, resolved, wake
from monitor.core.records import MONITOR_KIND, SEVERITY_RANK, Incident, IncidentEvent, Severity

RECALL = timedelta(days=1)
"""A trouble that comes back within this time after its end is the same incident again."""
FLAPPING_FROM, QUIET = 2, timedelta(hours=6)
"""A trouble that returned this often ends only after it has been away for this long."""


class Trouble(StrEnum):
    """What can be wrong with the monitor: one incident for each, and for each :attr:`Group.subject`."""

    NOT_RUNNING = "not-running"
    HISTORY = "history"
    DATA = "data"
    SCORES = "scores"
    DELIVERY = "delivery"
    BUTTONS = "buttons"
    AUTOMATION = "automation"


_R = WatchReason
TROUBLE_OF: Mapping[WatchReason, Trouble] = {
    _R.RUN_MISSING: Trouble.NOT_RUNNING, _R.RUN_FAILED: Trouble.NOT_RUNNING, _R.RUN_HUNG: Trouble.NOT_RUNNING,
    _R.RUNS_WAITING: Trouble.NOT_RUNNING, _R.FLOW_FAILED: Trouble.NOT_RUNNING,
    _R.WATCHDOG_SILENT: Trouble.NOT_RUNNING,
    _R.HISTORY_RESTORED: Trouble.HISTORY, _R.CLOCK_BEHIND: Trouble.HISTORY,
    _R.SOURCE_NOT_READ: Trouble.DATA, _R.DATA_STALE: Trouble.DATA, _R.DATA_SMALL: Trouble.DATA,
    _R.NOTHING_JUDGED: Trouble.DATA, _R.REJECTED_ROWS: Trouble.DATA,
    _R.UNRESOLVED_FAILED: Trouble.DATA,
    _R.SCORES_MOVED: Trouble.SCORES,
    _R.DELIVERY_STUCK: Trouble.DELIVERY, _R.DELIVERY_REFUSED: Trouble.DELIVERY,
    _R.DELIVERY_NOT_SENT: Trouble.DELIVERY, _R.LISTENER_SILENT: Trouble.BUTTONS,
    _R.LEASE_ENDING: Trouble.AUTOMATION, _R.LEASE_ENDED: Trouble.AUTOMATION, _R.TURNED_OFF: Trouble.AUTOMATION,
}  # fmt: skip

ABOUT_NO_SOURCE = (Trouble.NOT_RUNNING, Trouble.HISTORY, Trouble.DELIVERY, Trouble.BUTTONS)


@dataclass(frozen=True, slots=True)
class Group:
    """The findings of one trouble, the most severe first. ``subject``: a source, a channel, or "" for the monitor."""

    trouble: Trouble
    subject: str
    findings: tuple[HealthIssue, ...]

    @property
    def kind(self) -> str:
        """The ``kind`` of its incident."""
        return f"{MONITOR_KIND}{self.trouble.value}"

    @property
    def fingerprint(self) -> str:
        """The fingerprint of its incident (``Incident.fingerprint``)."""
        return f"{self.kind}\x1f{self.subject}\x1f"

    @property
    def severity(self) -> Severity:
        """The severity of its most severe finding."""
        return min((finding.severity for finding in self.findings), key=SEVERITY_RANK.__getitem__)

    @property
    def reasons(self) -> dict[str, Any]:
        """The named reasons as fields of its incident, those of the most severe findings first."""
        first, *further = dict.fromkeys(finding.reason.value for finding in self.findings)
        return {"reason": first, "further_reasons": tuple(further)}


@dataclass(frozen=True, slots=True)
class TroubleChange:
    """The change of one incident by one look of the watchdog.

    ``before`` is None where it opens; ``event`` says what happened ("": nothing is stored, though its message may
    change); ``calls``: those whom the route mentions are called now.
    """

    before: Incident | None
    after: Incident
    group: Group | None
    event: str = ""
    calls: bool = False


def is_trouble(incident: Incident, trouble: Trouble) -> bool:
    """Whether the incident is about this trouble."""
    return incident.kind == f"{MONITOR_KIND}{trouble.value}"


def group_without_findings(incident: Incident) -> Group:
    """The group of an incident, without findings."""
    trouble = next(each for each in Trouble if is_trouble(incident, each))
    return Group(trouble, incident.source, ())


def groups(findings: Iterable[HealthIssue], known: Sequence[Incident]) -> list[Group]:
    """The findings by trouble. ``known`` are all incidents of the monitor.

    The end of a lease belongs to the trouble that prevents its renewal: no run, or data that could not be judged.
    """
    found = list(findings)
    direct = [finding for finding in found if TROUBLE_OF[finding.reason] != Trouble.AUTOMATION]
    placed: dict[tuple[Trouble, str], list[HealthIssue]] = {}
    for finding in direct:
        placed.setdefault((TROUBLE_OF[finding.reason], _subject(finding)), []).append(finding)
    for finding in found:
        if TROUBLE_OF[finding.reason] == Trouble.AUTOMATION:
            home = _home(finding, placed, known)
            if home is not None:
                placed.setdefault(home, []).append(finding)
    return [
        Group(trouble, subject, tuple(sorted(members, key=lambda f: SEVERITY_RANK[f.severity])))
        for (trouble, subject), members in sorted(placed.items())
    ]


def _subject(finding: HealthIssue) -> str:
    trouble = TROUBLE_OF[finding.reason]
    if trouble == Trouble.DELIVERY:
        return finding.channel
    return "" if trouble in ABOUT_NO_SOURCE else finding.source


def _home(
    finding: HealthIssue, placed: Mapping[tuple[Trouble, str], Sequence[HealthIssue]], known: Sequence[Incident]
) -> tuple[Trouble, str] | None:
    """The trouble that an end of automation belongs to; None where a resolved incident has reported it."""
    automation = (Trouble.AUTOMATION, finding.source)
    if any(_is_open(i) and is_trouble(i, Trouble.AUTOMATION) and i.source == finding.source for i in known):
        return automation
    for home in ((Trouble.NOT_RUNNING, ""), (Trouble.DATA, finding.source)):
        if home in placed or any(_goes_on(incident, home, finding) for incident in known):
            return home
    return None if any(_has_reported(incident, finding) for incident in known) else automation


def _goes_on(incident: Incident, home: tuple[Trouble, str], finding: HealthIssue) -> bool:
    """Whether an open incident says already that labels are off: it goes on until they are on, whatever else is over.

    The end of a lease is no such state: the next evaluation renews it.
    """
    trouble, subject = home
    is_home = is_trouble(incident, trouble) and incident.source == subject and _is_open(incident)
    return is_home and finding.until is None and finding.reason.value in incident.reasons


def _has_reported(incident: Incident, finding: HealthIssue) -> bool:
    """Whether a resolved incident reported this end of a lease: it was open then, and has the end among its reasons."""
    if finding.until is None or incident.resolved_at is None or incident.source not in ("", finding.source):
        return False
    return finding.reason.value in incident.reasons and incident.opened_at <= finding.until <= incident.resolved_at


def _is_open(incident: Incident) -> bool:
    return incident.state != "resolved"


def changes(found: Sequence[Group], known: Sequence[Incident], now: datetime) -> list[TroubleChange]:
    """The changes of the incidents by one look; ``known`` are all incidents of the monitor."""
    current = {i.fingerprint: i for i in sorted(known, key=lambda i: (_is_open(i), i.opened_at))}
    present = {group.fingerprint: group for group in found}
    made = [_with_group(group, current.get(group.fingerprint), now) for group in found]
    absent = [i for fingerprint, i in sorted(current.items()) if fingerprint not in present and _is_open(i)]
    return made + [_without_group(incident, now) for incident in absent]


def _with_group(group: Group, incident: Incident | None, now: datetime) -> TroubleChange:
    if incident is None or (incident.resolved_at is not None and now - incident.resolved_at > RECALL):
        return TroubleChange(None, _opened(group, now), group, "opened")
    if incident.state == "resolved":
        counted = replace(incident, quiet_since=None, version=incident.version + 1)
        again = reopened(replace(counted, severity=group.severity, **group.reasons), now)
        return TroubleChange(incident, again, group, "reopened", calls=True)
    woken = wake(incident, now)
    after = woken.incident if woken.changes and woken.incident is not None else incident
    is_worse = SEVERITY_RANK[group.severity] < SEVERITY_RANK[incident.severity]
    updated = replace(after, severity=group.severity, quiet_since=None, **group.reasons)
    if updated == incident:
        return TroubleChange(incident, incident, group)
    event = "unsilenced" if woken.changes else "continued"
    calls = is_worse and updated.state == "open"
    return TroubleChange(incident, replace(updated, version=incident.version + 1), group, event, calls)


def _without_group(incident: Incident, now: datetime) -> TroubleChange:
    """The incident ends at once; one that flaps, only after it has been away for ``QUIET``."""
    if incident.reopened >= FLAPPING_FROM:
        if incident.quiet_since is None:
            held = replace(incident, quiet_since=now, version=incident.version + 1)
            return TroubleChange(incident, held, None, "held_back")
        if now - incident.quiet_since < QUIET:
            return TroubleChange(incident, incident, None)
    ended = resolved(replace(incident, version=incident.version + 1), now)
    return TroubleChange(incident, ended, None, "resolved")


def _opened(group: Group, now: datetime) -> Incident:
    at = f"{now:%Y-%m-%dT%H:%M:%S}"
    return Incident(
        id=incident_id(group.fingerprint, at), kind=group.kind, source=group.subject, label=None,
        severity=group.severity, state="open", opened_at=now, opened_window=f"{now:%Y-%m-%d}", window="",
        window_end=now, seen_until=now, **group.reasons,
    )  # fmt: skip


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
