"""Incidents: a run of breaches of one rule on one subject, from the first to resolved. Pure.

Every decision has a named reason, also the decision to do nothing, so that a quiet alert can be
explained as well as a loud one. Each change raises the version of the incident by one, so that a change
is stored only where nobody else made one in between.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

from monitor.core import windows
from monitor.core.records import Incident, IncidentEvent, IncidentReason, Outcome, Reason, Schedule, Verdict, Window

IncidentKind = Literal[
    "open", "continue", "hold", "resolve", "reopen", "acknowledge", "silence", "wake", "refuse", "nothing"
]

#: A breach within this many windows of the last one counted reopens a resolved incident: it is the same problem.
RECALL: Mapping[Schedule, int] = {"weekly": 4, "daily": 7}
#: An incident that returned this often is flapping, and is resolved only after ``GOOD_WINDOWS`` good ones in a row.
FLAPPING_FROM = 2
GOOD_WINDOWS = 2


@dataclass(frozen=True, slots=True)
class IncidentDecision:
    """What a verdict or a person does to an incident, and the incident after it.

    ``kind`` is "nothing" or "refuse" exactly where the incident does not change.
    """

    kind: IncidentKind
    reason: IncidentReason
    incident: Incident | None

    @property
    def changes(self) -> bool:
        """Whether there is anything to store."""
        return self.kind not in ("nothing", "refuse")

    @property
    def words(self) -> str:
        """The reason in words, with the end of a silence."""
        until = None if self.incident is None else self.incident.silenced_until
        silenced = (IncidentReason.STILL_SILENCED, IncidentReason.REOPENED_SILENCED, IncidentReason.SILENCED)
        if self.reason in silenced and until is not None:
            return f"{self.reason.value} until {until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return self.reason.value


_R = IncidentReason


@dataclass(frozen=True, slots=True)
class IncidentStep:
    """One decision and what led to it: the verdict of a run, or the person and their words."""

    decision: IncidentDecision
    verdict: Verdict | None = None
    actor: str = ""
    why: str = ""

    @property
    def is_quiet(self) -> bool:
        """Whether it leaves nothing to report: no change, and no open incident without a verdict for or against it."""
        reported = (_R.NOT_EVALUATED_OPEN, _R.DISAPPEARED, _R.UNCONFIRMED_OPEN, _R.NEWEST_WITHIN_OPEN)
        return not self.decision.changes and self.decision.kind != "refuse" and self.decision.reason not in reported


def steps_of(verdicts: Iterable[Verdict], known: Mapping[str, Incident], now: datetime) -> list[IncidentStep]:
    """What an evaluation does to the incidents; ``known`` is :func:`newest` of those stored.

    A silence whose time is over ends first, so that it does not silence the evaluation.
    """
    found: list[IncidentStep] = []
    for verdict in verdicts:
        incident = known.get(_key(verdict))
        woken = None if incident is None else wake(incident, now)
        if woken is not None and woken.changes:
            found.append(IncidentStep(woken, verdict))
            incident = woken.incident
        found.append(IncidentStep(decide(verdict, incident, now), verdict))
    return found


def of_schedule(known: Iterable[Incident], schedule: Schedule) -> list[Incident]:
    """The incidents that windows of this schedule may change.

    Where alerts.yaml gives a rule another schedule, its earlier incidents keep theirs: windows of the two do not count
    together.
    """
    return [incident for incident in known if incident.schedule == schedule]


def moved(
    verdicts: Iterable[Verdict], known: Iterable[Incident], schedule: Schedule, now: datetime
) -> list[IncidentStep]:
    """Ends the incidents of rules that are judged on another schedule now, once a window of that is ok or a breach.

    A breach then opens a new incident.
    """
    judged = {_key(verdict) for verdict in verdicts if verdict.outcome in ("ok", "breach")}
    former = (i for i in known if i.state != "resolved" and i.schedule != schedule and i.fingerprint in judged)
    return [not_watched(each, f"{each.schedule} rule {each.rule}", now) for each in former]


def of_other_questions(
    verdicts: Iterable[Verdict], known: Iterable[Incident], last: Mapping[str, Verdict]
) -> list[Incident]:
    """The incidents of rules that ask something else now, as a verdict that is ok or a breach shows, and resolved ones.

    ``last`` are the last verdicts of incidents, by id. Another threshold is no other question. An incident that began
    in the same window goes on, as it is named by its first window.
    """
    judged = {_key(verdict): verdict for verdict in verdicts}
    found = []
    for each in known:
        asked, before = judged.get(each.fingerprint), last.get(each.last_verdict)
        if asked is None or before is None or each.opened_window == asked.window.name:
            continue
        if (each.state == "resolved" or asked.outcome in ("ok", "breach")) and asks_otherwise(before, asked):
            found.append(each)
    return found


def redefined(incident: Incident, now: datetime) -> IncidentStep:
    """The end of an incident whose rule asks something else now; a breach of that opens a new one."""
    why = "alerts.yaml asks something else under this rule's name now; whether it is good again is not known"
    return IncidentStep(retire(incident, now), actor="run", why=why)


def asks_otherwise(before: Verdict, now: Verdict) -> bool:
    """Whether a rule asks for another metric, of other rows, or against something else than it did."""

    def asked(verdict: Verdict) -> tuple[object, ...]:
        return verdict.metric, verdict.where, verdict.detail.get("condition"), "reference" in verdict.detail

    return before.detail.get("condition") is not None and asked(before) != asked(now)


def with_former_limit(step: IncidentStep, last: Mapping[str, Verdict]) -> IncidentStep:
    """The step; where an incident ends under another threshold than that of its last breach, it says so."""
    incident, verdict = step.decision.incident, step.verdict
    before = None if incident is None else last.get(incident.last_verdict)
    if step.decision.kind != "resolve" or verdict is None or before is None or before.threshold == verdict.threshold:
        return step
    return replace(step, why=f"The limit in alerts.yaml was {before.threshold:g} in {before.window.name}")


def not_watched(incident: Incident, what: str, now: datetime) -> IncidentStep:
    """The end of an incident that no window can end, since alerts.yaml has lost ``what`` it was about."""
    why = f"alerts.yaml has no {what} any more; whether it is good again is not known"
    return IncidentStep(retire(incident, now), actor="run", why=why)


def _key(verdict: Verdict) -> str:
    """The fingerprint of an incident that this verdict is about."""
    subject = verdict.subject
    return f"{verdict.rule}\x1f{subject.source}\x1f{subject.label or ''}"


_EVENT_KINDS = {
    "open": "opened", "continue": "continued", "hold": "held_back", "resolve": "resolved", "reopen": "reopened",
    "acknowledge": "acknowledged", "silence": "silenced", "wake": "unsilenced", "refuse": "refused",
}  # fmt: skip


def event_of(step: IncidentStep, now: datetime) -> IncidentEvent | None:
    """The event that the history keeps of a step; None where it keeps none."""
    decision, verdict = step.decision, step.verdict
    incident = decision.incident
    if incident is None or step.is_quiet:
        return None
    window = "" if verdict is None else verdict.window.name
    change = ""
    if not decision.changes:  # a window that was not evaluated counts once, each refusal counts
        when = window if decision.kind == "nothing" else f"{step.actor} {now.isoformat()}"
        change = f":{hashlib.sha256(f'{decision.reason} {when}'.encode()).hexdigest()[:12]}"
    return IncidentEvent(
        key=f"{incident.id}:{incident.version:06d}{change}",  # in the order in which they happened
        incident=incident.id,
        at=now,
        kind=_EVENT_KINDS.get(decision.kind, "continued"),
        reason=decision.reason.value,
        actor=step.actor or "run",
        window=window,
        verdict=None if verdict is None else verdict.id,
        detail={"why": step.why} if step.why else {},
    )


def decide(verdict: Verdict, incident: Incident | None, now: datetime) -> IncidentDecision:
    """What ``verdict`` does to ``incident``, the newest one of its rule and subject (None: there never was one).

    A breach opens, continues or, soon after the end, reopens; ok resolves, unless the incident flaps;
    a verdict that is not evaluated leaves it open. A window counts once, unless late truths reverse its
    outcome; a window older than the newest counted one changes nothing. If pooled windows are in breach while the
    newest of them by itself is within the threshold, an incident opens, but does not continue or reopen.
    """
    if incident is None or _is_forgotten(incident, verdict):
        return _without_incident(verdict, now)
    newer = verdict.window.start < incident.last_window_start and not _is_last_window(incident, verdict)
    if newer and incident.last_window_start <= now:  # one in the future was stored when a clock was ahead
        return IncidentDecision("nothing", _R.OLDER_WINDOW, incident)
    if verdict.outcome in ("not_evaluated", "unconfirmed"):
        return _not_judged(verdict, incident)
    if _is_counted(incident, verdict):
        return IncidentDecision("nothing", _R.ALREADY_COUNTED, incident)
    if verdict.outcome == "ok":
        return _after_ok(verdict, incident, now)
    return _after_breach(verdict, incident, now)


def _without_incident(verdict: Verdict, now: datetime) -> IncidentDecision:
    if verdict.outcome == "breach":
        return IncidentDecision("open", _R.FIRST_BREACH, _opened(verdict, now))
    reasons: Mapping[Outcome, IncidentReason] = {
        "ok": _R.WITHIN,
        "unconfirmed": _R.UNCONFIRMED,
        "not_evaluated": _R.NOT_EVALUATED,
    }
    return IncidentDecision("nothing", reasons[verdict.outcome], None)


def _is_forgotten(incident: Incident, verdict: Verdict) -> bool:
    """Whether the incident is over, and for too long for this window to have to do with it.

    Half a window more, since windows of a zone with summer time are not all equally long.
    """
    return incident.state == "resolved" and incident.last_window_start < recalled_from(verdict.window)


def recalled_from(window: Window) -> datetime:
    """A breach in ``window`` opens a new incident instead of reopening one that was over before this time."""
    return window.start - (RECALL[window.schedule] + 0.5) * (window.end - window.start)


def _is_counted(incident: Incident, verdict: Verdict) -> bool:
    """Whether this window was counted with this outcome; a person's end of an incident counts no window."""
    counted: str = "ok" if incident.ok_windows else "breach"
    return _is_last_window(incident, verdict) and verdict.outcome == counted


def _is_last_window(incident: Incident, verdict: Verdict) -> bool:
    """Whether this window is the one that the incident counted last, also in another time zone."""
    return windows.are_same(verdict.window.schedule, verdict.window.start, incident.last_window_start)


def _not_judged(verdict: Verdict, incident: Incident) -> IncidentDecision:
    """Neither a good nor a bad window, so it leaves every incident as it is."""
    unconfirmed = verdict.outcome == "unconfirmed"
    if incident.state == "resolved":
        return IncidentDecision("nothing", _R.UNCONFIRMED if unconfirmed else _R.NOT_EVALUATED, incident)
    if unconfirmed:
        return IncidentDecision("nothing", _R.UNCONFIRMED_OPEN, incident)
    if verdict.reason is Reason.NOT_MATURE:
        return IncidentDecision("nothing", _R.WAITS_OPEN, incident)
    disappeared = verdict.reason == Reason.NO_ROWS and verdict.n == 0
    return IncidentDecision("nothing", _R.DISAPPEARED if disappeared else _R.NOT_EVALUATED_OPEN, incident)


def _is_of_older_windows(verdict: Verdict) -> bool:
    """Whether the newest of the pooled windows has, by itself, enough rows and is within the threshold."""
    alone = verdict.detail.get("newest_alone")
    return alone is not None and not alone["beyond"] and not alone["too_few"]


def _after_ok(verdict: Verdict, incident: Incident, now: datetime) -> IncidentDecision:
    if incident.state == "resolved":
        return IncidentDecision("nothing", _R.WITHIN, incident)
    good = incident.ok_windows + 1
    was_breach = _is_last_window(incident, verdict)  # late truths reversed the outcome
    counted = replace(
        incident,
        ok_windows=good,
        last_window_start=verdict.window.start,
        breaches=incident.breaches - was_breach,
        version=incident.version + 1,
    )
    flaps = incident.reopened >= FLAPPING_FROM
    if flaps and good < GOOD_WINDOWS:
        return IncidentDecision("hold", _R.HELD_BACK, counted)
    ended = resolved(counted, now, window=verdict.window.name)
    return IncidentDecision("resolve", _R.STEADY_AGAIN if flaps else _R.WITHIN_AGAIN, ended)


def _after_breach(verdict: Verdict, incident: Incident, now: datetime) -> IncidentDecision:
    if _is_of_older_windows(verdict):
        is_over = incident.state == "resolved"
        return IncidentDecision("nothing", _R.NEWEST_WITHIN if is_over else _R.NEWEST_WITHIN_OPEN, incident)
    subject_now = replace(
        incident,
        last_verdict=verdict.id,
        last_window_start=verdict.window.start,
        breaches=incident.breaches + 1,
        severity=verdict.severity,
        reason=verdict.reason.value,
        ok_windows=0,
        version=incident.version + 1,
    )
    if incident.state == "resolved":
        again = reopened(subject_now, now)
        return IncidentDecision("reopen", _R.REOPENED_SILENCED if again.silenced_until else _R.REOPENED, again)
    reasons = {"silenced": _R.STILL_SILENCED, "acknowledged": _R.STILL_ACKNOWLEDGED}
    return IncidentDecision("continue", reasons.get(incident.state, _R.STILL_BREACHING), subject_now)


def corrected(step: IncidentStep) -> IncidentStep:
    """The step, or a step that reports new numbers: late truths changed the last counted window of an open incident.

    To be called once all truths of the window are known, so that it is reported once.
    """
    decision, verdict = step.decision, step.verdict
    incident = decision.incident
    if verdict is None or incident is None or decision.reason is not _R.ALREADY_COUNTED:
        return step
    if verdict.outcome != "breach" or incident.state == "resolved" or verdict.id == incident.last_verdict:
        return step
    after = replace(
        incident,
        last_verdict=verdict.id,
        severity=verdict.severity,
        reason=verdict.reason.value,
        version=incident.version + 1,
    )
    return replace(step, decision=IncidentDecision("continue", _R.CORRECTED, after))


def resolved(incident: Incident, now: datetime, *, window: str | None = None, by: str | None = None) -> Incident:
    """The incident after its end, by a good ``window`` or ``by`` a person."""
    return replace(incident, state="resolved", resolved_at=now, resolved_window=window, resolved_by=by)


def reopened(incident: Incident, now: datetime) -> Incident:
    """The incident, open again and not acknowledged; a silence that still runs goes on."""
    silent = incident.silenced_until is not None and incident.silenced_until > now
    return replace(
        incident,
        state="silenced" if silent else "open",
        reopened=incident.reopened + 1,
        resolved_at=None,
        resolved_window=None,
        resolved_by=None,
        acknowledged_at=None,
        acknowledged_by=None,
        silenced_until=incident.silenced_until if silent else None,
        silenced_by=incident.silenced_by if silent else None,
    )


def acknowledge(incident: Incident, actor: str, now: datetime) -> IncidentDecision:
    """Somebody works on it: no more mentions. Also ends a silence, since that person wants the news."""
    if not actor.strip():
        return IncidentDecision("refuse", _R.NAME_MISSING, incident)
    if incident.state == "resolved":
        return IncidentDecision("refuse", _R.ALREADY_RESOLVED, incident)
    if incident.state == "acknowledged":
        return IncidentDecision("nothing", _R.ALREADY_ACKNOWLEDGED, incident)
    after = replace(
        incident,
        state="acknowledged",
        acknowledged_at=now,
        acknowledged_by=actor,
        silenced_until=None,
        silenced_by=None,
        version=incident.version + 1,
    )
    return IncidentDecision("acknowledge", _R.ACKNOWLEDGED, after)


def silence(incident: Incident, actor: str, until: datetime, now: datetime) -> IncidentDecision:
    """No replies and no repeats until then. A silence ends by itself (:func:`wake`); a longer one replaces it."""
    if not actor.strip():
        return IncidentDecision("refuse", _R.NAME_MISSING, incident)
    if until <= now:
        return IncidentDecision("refuse", _R.END_NOT_AHEAD, incident)
    if incident.state == "resolved":
        return IncidentDecision("refuse", _R.ALREADY_RESOLVED, incident)
    if incident.state == "silenced" and incident.silenced_until is not None and incident.silenced_until >= until:
        return IncidentDecision("nothing", _R.ALREADY_SILENCED, incident)
    version = incident.version + 1
    after = replace(incident, state="silenced", silenced_until=until, silenced_by=actor, version=version)
    return IncidentDecision("silence", _R.SILENCED, after)


def resolve(incident: Incident, actor: str, reason: str, now: datetime) -> IncidentDecision:
    """A person ends it, and says why. A breach in a later window soon after still reopens it."""
    if not actor.strip():
        return IncidentDecision("refuse", _R.NAME_MISSING, incident)
    if not reason.strip():
        return IncidentDecision("refuse", _R.REASON_MISSING, incident)
    if incident.state == "resolved":
        return IncidentDecision("nothing", _R.ALREADY_RESOLVED, incident)
    unsilenced = replace(incident, silenced_until=None, silenced_by=None, version=incident.version + 1)
    return IncidentDecision("resolve", _R.RESOLVED_BY_HAND, resolved(unsilenced, now, by=actor))


def wake(incident: Incident, now: datetime) -> IncidentDecision:
    """End a silence whose time is over: the incident is acknowledged, if it was before, or open."""
    is_over = incident.state == "silenced" and incident.silenced_until is not None and incident.silenced_until <= now
    if not is_over:
        return IncidentDecision("nothing", _R.NOT_OVER, incident)
    after = replace(
        incident,
        state="acknowledged" if incident.acknowledged_at else "open",
        silenced_until=None,
        silenced_by=None,
        version=incident.version + 1,
    )
    return IncidentDecision("wake", _R.SILENCE_ENDED, after)


def retire(incident: Incident, now: datetime) -> IncidentDecision:
    """End an incident that no window can end: its rule or its source is no longer in the rules file.

    This is no good window: if the rule comes back, a breach soon after reopens the incident.
    """
    if incident.state == "resolved":
        return IncidentDecision("nothing", _R.ALREADY_RESOLVED, incident)
    after = resolved(replace(incident, version=incident.version + 1), now, by="calmon")
    return IncidentDecision("resolve", _R.NOT_WATCHED, after)


def news_key(step: IncidentStep) -> str:
    """The name of what an evaluation did to an incident, without what people did to it meanwhile.

    So the same evaluation has the same name after a restore, which lost what they did; and each of two evaluations of
    one window that did something has its own.
    """
    incident, reason = step.decision.incident, step.decision.reason
    assert incident is not None  # noqa: S101 - what has no incident is not reported
    counted = f"{incident.breaches}:{incident.ok_windows}:{incident.reopened}"
    if reason in (_R.STILL_ACKNOWLEDGED, _R.STILL_SILENCED):
        reason = _R.STILL_BREACHING
    numbers = step.verdict.id if step.verdict is not None and reason is _R.CORRECTED else ""
    return f"{incident.id}:{counted}:{reason}:{numbers}"


def last_reported(incident: Incident, events: Iterable[IncidentEvent]) -> IncidentEvent | None:
    """The event that says the state of an incident; ``events`` are all its events, in order.

    For a resolved incident, the event that ended it; else the last event of an evaluation of its newest window, since
    neither refusals nor actions of people after it hide that, nor does a late run of an older window.
    """
    relevant = [event for event in events if event.kind not in ("refused", "unsilenced")]
    evaluated = [event for event in relevant if event.verdict is not None and incident.state != "resolved"]
    so_far = [event for event in evaluated if event.at <= evaluated[-1].at]  # none of a clock that was ahead
    return max(reversed(so_far), key=lambda event: event.window, default=next(reversed(relevant), None))


def newest(incidents: Iterable[Incident]) -> dict[str, Incident]:
    """The current incident of each fingerprint: the one that is not resolved, else the last."""
    ordered = sorted(incidents, key=lambda i: (i.state != "resolved", i.last_window_start, i.opened_at))
    return {incident.fingerprint: incident for incident in ordered}


def repeat_due(incidents: Iterable[Incident], last: datetime, repeat: timedelta | None, now: datetime) -> bool:
    """Whether to mention people once more: ``repeat`` after the ``last`` mention.

    Only while an incident is open: one that is acknowledged, silenced or resolved mentions nobody.
    """
    is_open = any(incident.state == "open" for incident in incidents)
    return is_open and repeat is not None and now - last >= repeat


def still_waits(incident: Incident, since: datetime) -> bool:
    """Whether a call for the incident that was written at ``since`` is still needed.

    It is while the incident is open, or acknowledged as it was then: it got worse, and that called people.
    """
    at = incident.acknowledged_at
    return incident.state == "open" or (incident.state == "acknowledged" and at is not None and at < since)


def incident_id(fingerprint: str, window_name: str) -> str:
    """The id of the incident that begins in this window; the same for every evaluation of the window.

    >>> incident_id("ece-increase\\x1ftickets\\x1fbilling", "2026-W46")
    'cefb50c85410a8d2'
    """
    return hashlib.sha256(f"{fingerprint}\x1f{window_name}".encode()).hexdigest()[:16]


def _opened(verdict: Verdict, now: datetime) -> Incident:
    subject, window = verdict.subject, verdict.window
    unnamed = Incident(
        id="", rule=verdict.rule, source=subject.source, label=subject.label, severity=verdict.severity,
        state="open", schedule=window.schedule, opened_at=now, opened_window=window.name,
        first_verdict=verdict.id, last_verdict=verdict.id, last_window_start=window.start, breaches=1,
        reason=verdict.reason.value,
    )  # fmt: skip
    return replace(unnamed, id=incident_id(unnamed.fingerprint, window.name))
