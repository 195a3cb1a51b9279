"""The results of a replay's verdicts: incidents, switches and weeks."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import replace

from monitor.automation.evidence import segments_off
from monitor.config.model import Config
from monitor.config.rule_sources import acting_rules
from monitor.core import windows
from monitor.core.diagnoses import Diagnosis, DiagnosisState
from monitor.core.records import LIMITING, KeptScores, Severity, Subject, Verdict, Window
from monitor.evaluation.diagnosis import outline_of
from monitor.incidents.findings import decisions
from monitor.operations.replay.model import (
    Opened,
    Replay,
    Seen,
    Side,
    Switched,
    Timeline,
    by_name,
)

SEVERITIES: tuple[Severity, ...] = ("info", "warning", "critical")
BEYOND = ("breach", "unconfirmed")
_SWITCHED: tuple[Switched, ...] = ("", "segments", "blocked", "off")


def side_of(config: Config, judged: Sequence[tuple[Window, Sequence[Verdict]]], weeks: Sequence[Window]) -> Side:
    """The result of one file, from its verdicts on every window."""
    return Side(config.revision, tuple(incidents_of(config, judged)), timelines_of(config, judged, weeks))


def incidents_of(config: Config, judged: Iterable[tuple[Window, Sequence[Verdict]]]) -> list[Opened]:
    """The incidents that these verdicts open, if nobody acknowledges or silences any.

    Windows are of one source each, those of a source and a schedule oldest first.

    No incident is open before the first window. Every window is judged at the time when it was ready.
    """
    newest: dict[str, dict[tuple[str | None, str], Verdict]] = {}
    found: dict[str, Opened] = {}
    for window, verdicts in judged:
        source = next((verdict.subject.source for verdict in verdicts), "")
        of_source = newest.setdefault(source, {})
        of_source |= {(verdict.subject.label, verdict.rule): verdict for verdict in verdicts}
        diagnoses = _diagnoses(config, source, window, of_source.values())
        by_id = {verdict.id: verdict for verdict in of_source.values()}
        known = [each.incident for each in found.values() if each.incident.source == source]
        for decision in decisions(diagnoses, by_id, known, window.end + windows.SETTLE):
            incident = decision.incident
            if incident is None or not decision.changes:
                continue
            before = found.get(incident.id, Opened(incident, window.start, None, ""))
            about = [v for v in verdicts if v.subject.label in (incident.labels or (incident.label,))]
            stronger = max((before.switch, *map(switched_by, about)), key=_SWITCHED.index)
            limits = [KeptScores(**limit) for v in about if (limit := v.detail.get("limit"))]
            found[incident.id] = Opened(
                incident, before.start, None if incident.is_open else window.start, stronger,
                limits[0] if limits else before.limit,
            )  # fmt: skip
    return sorted(found.values(), key=lambda each: (each.start, each.incident.fingerprint))


def _diagnoses(config: Config, source: str, window: Window, verdicts: Iterable[Verdict]) -> list[Diagnosis]:
    by_label: dict[str | None, list[Verdict]] = {}
    for verdict in verdicts:
        by_label.setdefault(verdict.subject.label, []).append(verdict)
    return [
        outline_of(source, label, window, of, frozenset(rule.id for rule in acting_rules(config, source, label)))
        for label, of in sorted(by_label.items(), key=lambda item: item[0] or "")
    ]


def switched_by(verdict: Verdict) -> Switched:
    """What a verdict does to automation that is on. Blocking turns it off if no score range can be named."""
    if verdict.outcome != "breach":
        return ""
    if segments_off(verdict):
        return "segments"
    if "disable_automation" in verdict.actions:
        return "off"
    if not LIMITING & set(verdict.actions):
        return ""
    return "blocked" if verdict.detail.get("blocked") else "off"


def timelines_of(
    config: Config, judged: Iterable[tuple[Window, Sequence[Verdict]]], weeks: Sequence[Window]
) -> dict[Subject, Timeline]:
    """The worst that was said of every subject in each week, its days included; None where there is no verdict.

    Where nothing is beyond its limit, a week is ok if the label could be judged, as its diagnosis says.
    """
    found: dict[Subject, list[Seen | None]] = {}
    order: tuple[Seen | None, ...] = (None, "not_evaluated", "ok", "unconfirmed", *SEVERITIES)
    starts = [week.start for week in weeks]
    for window, verdicts in judged:
        place = bisect_right(starts, window.start) - 1
        for source in {verdict.subject.source for verdict in verdicts}:
            for each in _diagnoses(config, source, window, verdicts):
                beyond = [v for v in verdicts if v.subject.label == each.label and v.outcome in BEYOND]
                worst: list[Seen] = [v.severity if v.outcome == "breach" else "unconfirmed" for v in beyond]
                worst.append("ok" if each.state is DiagnosisState.FINE else "not_evaluated")
                row = found.setdefault(Subject(source, each.label), [None] * len(weeks))
                row[place] = max(row[place], *worst, key=order.index)
    return {subject: tuple(found[subject]) for subject in sorted(found, key=by_name)}


def only_of(found: Replay, label: str) -> Replay:
    """The part of a replay that is about one label; it was judged within its whole family."""

    def of_label(side: Side) -> Side:
        return replace(
            side,
            incidents=tuple(each for each in side.incidents if each.incident.label == label),
            timelines={subject: row for subject, row in side.timelines.items() if subject.label == label},
        )

    return replace(found, present=of_label(found.present), proposed=of_label(found.proposed))
