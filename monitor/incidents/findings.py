"""What the diagnoses of one run say of the incidents of a source: of each label, or of many at once. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from monitor.core.diagnoses import Diagnosis, DiagnosisState, NotTold, severity_of
from monitor.core.episodes import NOT_SEEN
from monitor.core.records import BURST, OF_LABEL, SEVERITY_RANK, UNCHECKED, VANISHED, Incident, Verdict
from monitor.core.windows import days_of
from monitor.incidents.life import Finding, IncidentDecision, decide, wake

MANY = 5
"""More labels than this that need somebody for the first time in one run are one incident of their source."""
USUAL = 20
"""A label is missed that had so many rows in a usual window: without any, chance is no explanation."""


def decisions(
    diagnoses: Sequence[Diagnosis], verdicts: Mapping[str, Verdict], incidents: Iterable[Incident], now: datetime
) -> list[IncidentDecision]:
    """What the diagnoses of one source do to its ``incidents``, which are all that may go on or come back.

    ``verdicts`` are those that the diagnoses rest on, by id. A silence whose time is over ends first.
    """
    known = newest(incidents)
    made = []
    for finding in findings(diagnoses, verdicts, known):
        incident = known.get(finding.fingerprint)
        woken = None if incident is None else wake(incident, now)
        if woken is not None and woken.changes:
            made.append(woken)
            incident = woken.incident
        made.append(decide(finding, incident, now))
    return made


def newest(incidents: Iterable[Incident]) -> dict[str, Incident]:
    """The current incident of each fingerprint: the one that is not resolved, else the last."""
    ordered = sorted(incidents, key=lambda incident: (incident.is_open, incident.window_end, incident.opened_at))
    return {incident.fingerprint: incident for incident in ordered}


def findings(
    diagnoses: Sequence[Diagnosis], verdicts: Mapping[str, Verdict], known: Mapping[str, Incident]
) -> list[Finding]:
    """The findings of one source in one window."""
    open_now = {incident.fingerprint: incident for incident in known.values() if incident.is_open}
    burst = next((incident for incident in open_now.values() if incident.kind == BURST), None)
    together = () if burst is None else burst.labels
    alone = [
        finding
        for each in diagnoses
        for finding in [_of_label(each, verdicts)]
        if each.label not in together and (finding.fingerprint in open_now or not each.notes.explained_by)
    ]
    first = [each for each in alone if each.label is not None and each.is_trouble and each.fingerprint not in open_now]
    if len(first) <= MANY:
        first = []
    members = [_of_label(each, verdicts) for each in diagnoses if each.label is not None and each.label in together]
    rest = [each for each in alone if each not in first]
    missed = [each for d in diagnoses for each in _missed(d, diagnoses, known)]
    if first:  # no other label is told of for the first time beside a burst; what was told goes on, or is over
        missed = [each for each in missed if each.fingerprint in open_now]
    return [*_together([*members, *first], together), *rest, *missed, *_unchecked(diagnoses, known)]


def _of_label(diagnosis: Diagnosis, verdicts: Mapping[str, Verdict]) -> Finding:
    about = [verdicts[id] for id in diagnosis.because if id in verdicts] if diagnosis.is_trouble else []
    return Finding(
        OF_LABEL, diagnosis.source, diagnosis.label, diagnosis.window, diagnosis.state,
        diagnosis.problem.value if diagnosis.problem else "", severity_of(diagnosis, about),
        tuple(dict.fromkeys(verdict.rule for verdict in about)), within_limits=diagnosis.notes.within_limits,
        evidence_until=max((verdict.window.end for verdict in about), default=None),
    )  # fmt: skip


def _together(members: Sequence[Finding], before: Collection[str]) -> list[Finding]:
    """The one finding of many labels; it is fine when all of them are."""
    if not members:
        return []
    troubled = [each for each in members if each.is_trouble]
    worst = min(members, key=lambda each: (list(DiagnosisState).index(each.state), SEVERITY_RANK[each.severity]))
    reasons = Counter(each.reason for each in troubled)
    return [
        replace(
            worst,
            kind=BURST,
            label=None,
            reason=reasons.most_common(1)[0][0] if reasons else "",
            rules=tuple(dict.fromkeys(rule for each in troubled for rule in each.rules)),
            labels=tuple(sorted({*before, *(each.label for each in troubled if each.label is not None)})),
            within_limits=all(each.within_limits for each in members),
            evidence_until=max((each.evidence_until or each.window.end for each in troubled), default=None),
        )
    ]


def _missed(diagnosis: Diagnosis, diagnoses: Sequence[Diagnosis], known: Mapping[str, Incident]) -> Iterable[Finding]:
    """A label whose rows stopped while others of its source go on, or came back. Not one that is in trouble anyway."""
    finding = Finding(VANISHED, diagnosis.source, diagnosis.label, diagnosis.window, DiagnosisState.FINE)
    before, trouble = known.get(finding.fingerprint), known.get(replace(finding, kind=OF_LABEL).fingerprint)
    is_open = before is not None and before.is_open
    if diagnosis.reason in (NotTold.SOURCE_NOT_READ, NotTold.REJECTED_ROWS):
        return []  # whether it has rows is not known
    if diagnosis.reason is not NotTold.NO_ROWS:
        return [finding] if is_open else []
    others = any(each.reason is not NotTold.NO_ROWS for each in diagnoses)
    last = diagnosis.notes.last_rows
    told = before is not None and not is_open and (not last or days_of(last)[0] < days_of(before.opened_window)[0])
    in_trouble = trouble is not None and trouble.is_open
    if told or in_trouble or not others or not (is_open or _stopped_lately(diagnosis)):
        return []
    return [replace(finding, state=DiagnosisState.DEGRADED, reason=VANISHED)]


def _unchecked(diagnoses: Sequence[Diagnosis], known: Mapping[str, Incident]) -> Iterable[Finding]:
    """The labels of which no item that acted alone had a truth in two weeks, in one incident; or its end."""
    if not diagnoses or diagnoses[0].window.schedule != "weekly":
        return []
    finding = Finding(UNCHECKED, diagnoses[0].source, None, diagnoses[0].window, DiagnosisState.FINE)
    labels = tuple(sorted(each.label for each in diagnoses if each.label is not None and each.notes.unchecked))
    if labels:
        reason = NotTold.NO_TRUTH_WHERE_IT_ACTS.value
        return [replace(finding, state=DiagnosisState.DEGRADED, reason=reason, labels=labels)]
    before = known.get(finding.fingerprint)
    unread = any(each.reason in (NotTold.SOURCE_NOT_READ, NotTold.REJECTED_ROWS) for each in diagnoses)
    return [finding] if before is not None and before.is_open and not unread else []


def _stopped_lately(diagnosis: Diagnosis) -> bool:
    """Whether a week has no rows of a label that usually has many, up to eight weeks after the last ones.

    An incident that was resolved longer ago is not recalled, so that later weeks would tell of it again.
    """
    notes, window = diagnosis.notes, diagnosis.window
    if diagnosis.label is None or window.schedule != "weekly" or (notes.usual_rows or 0) < USUAL or not notes.last_rows:
        return False
    return window.start.date() - days_of(notes.last_rows)[0] <= 2 * NOT_SEEN


def gone(
    incidents: Iterable[Incident], watched: Collection[tuple[str, str | None]], sources: Collection[str]
) -> list[Incident]:
    """The open incidents of labels about which no rule says anything any more, so that no window could end them.

    ``watched`` has the labels of the run's ``sources`` that some rule is about; a source that is not in alerts.yaml has
    none.
    """
    return [
        each
        for each in incidents
        if each.is_open
        and not each.is_of_monitor
        and each.source in sources
        and not any((each.source, label) in watched for label in each.labels or (each.label,))
    ]


def recalled_from(end: datetime) -> datetime:
    """A trouble in a window that ends then brings back incidents that were resolved after this time."""
    return end - 2 * NOT_SEEN
