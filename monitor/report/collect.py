"""The history of a window, gathered into one :class:`ReportData`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from monitor import windows
from monitor.baselines import Baseline, edges_of
from monitor.counts import Counts, bin_counts
from monitor.estimates import Sample, estimate
from monitor.figures.reliability import Reliability, reliability_data
from monitor.figures.trend import Trend, trend_data
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.records import Estimate, Interval, Subject, SwitchState, Verdict, Where, Window
from monitor.report.data import BaselineLine, ReportData, SegmentLine, SubjectReport, SwitchLine, switch_line
from monitor.rules.model import Config, Rule

HISTORY = 53
STANDARD: tuple[tuple[str, Where], ...] = (
    ("ece", "all"), ("mce", "all"), ("roc_auc", "all"), ("shortfall", "automated"),
)  # fmt: skip

_UNKNOWN = Interval(None, None, None, None)

Series = tuple[str, Where]
_About = TypeVar("_About", Estimate, Verdict)


@dataclass(frozen=True, slots=True)
class _Material:
    """What is known of all subjects; picked apart by subject."""

    config: Config
    window: Window
    windows: tuple[Window, ...]
    estimates: tuple[Estimate, ...]
    segments: tuple[Estimate, ...]
    verdicts: tuple[Verdict, ...]
    readings: Mapping[str, StoredReading]
    baselines: Mapping[tuple[str, str | None], Sequence[Baseline]]
    switches: Mapping[tuple[str, str | None], SwitchState]
    now: datetime


def collect_report(
    store: Store, config: Config, window: Window, now: datetime, *, history: int = HISTORY
) -> ReportData:
    """Everything the history knows of ``window``, with trends over the ``history`` windows up to it.

    ``now`` (time zone aware) is when the report is made: it decides which leases have ended.
    """
    material = _gather(store, config, window, now, history)
    subjects = tuple(_subject_report(material, subject) for subject in _subjects(material))
    return ReportData(
        window=window,
        zone=config.timezone,
        generated_at=now,
        subjects=subjects,
        quality=tuple(store.quality(window.schedule, window.start)),
        verdicts=tuple(verdict for report in subjects for verdict in report.verdicts),
        automation=tuple(report.switch for report in subjects if report.switch is not None),
        shifts=tuple(store.shifts(window.schedule, window.start)),
        notes=tuple(_notes(material.readings.values())),
    )


def _gather(store: Store, config: Config, window: Window, now: datetime, history: int) -> _Material:
    shown = (*reversed(windows.before(window, history - 1, config.zone)), window)
    first = shown[0].start
    estimates = _between(store.estimates(schedule=window.schedule), first, window.start)
    here = store.estimates(schedule=window.schedule, window_start=window.start, where="all", segments=True)
    seen = min((e.window.start for e in estimates), default=window.start)
    readings = {name: store.load_reading(window.schedule, window.start, name) for name in config.sources}
    baselines: dict[tuple[str, str | None], list[Baseline]] = {}
    for baseline in store.baselines():
        baselines.setdefault((baseline.source, baseline.label), []).append(baseline)
    return _Material(
        config=config,
        window=window,
        windows=tuple(w for w in shown if w.start >= seen),
        estimates=estimates,
        segments=tuple(e for e in here if e.subject.segment is not None),
        verdicts=_between(store.verdicts(schedule=window.schedule), first, window.start),
        readings={name: reading for name, reading in readings.items() if reading is not None},
        baselines=baselines,
        switches={(state.source, state.label): state for state in store.switches()},
        now=now,
    )


def _between(found: Iterable[_About], first: datetime, last: datetime) -> tuple[_About, ...]:
    return tuple(entry for entry in found if first <= entry.window.start <= last)


def _subjects(material: _Material) -> list[Subject]:
    """Who has a number or a verdict in the window, by name; the source as a whole before its labels."""
    now = material.window.start
    found = {e.subject for e in material.estimates if e.window.start == now}
    found |= {v.subject for v in material.verdicts if v.window.start == now}
    return sorted((s for s in found if s.segment is None), key=lambda s: (s.source, s.label is not None, s.label or ""))


def _subject_report(material: _Material, subject: Subject) -> SubjectReport:
    verdicts = [v for v in material.verdicts if v.subject == subject]
    current = tuple(v for v in verdicts if v.window.start == material.window.start)
    baseline = _baseline(material.baselines.get((subject.source, subject.label), ()), current)
    return SubjectReport(
        subject=subject,
        trends=tuple(_trends(material, subject, verdicts, baseline)),
        verdicts=current,
        reliability=_reliability(material, subject, baseline),
        baseline=None if baseline is None else _baseline_line(baseline),
        switch=_switch(material, subject),
        segments=tuple(_segments(material, subject)),
    )


def _baseline(versions: Sequence[Baseline], verdicts: Iterable[Verdict]) -> Baseline | None:
    """The version that the window's verdicts were made with, else the newest."""
    used = {v.baseline_version for v in verdicts if v.baseline_version is not None}
    fitting = [b for b in versions if b.version in used] or list(versions)
    return max(fitting, key=lambda b: b.version, default=None)


def _baseline_line(baseline: Baseline) -> BaselineLine:
    return BaselineLine(
        baseline.version,
        baseline.start,
        baseline.end,
        baseline.first_window,
        baseline.last_window,
        baseline.counts.rows,
    )


def _trends(
    material: _Material, subject: Subject, verdicts: Sequence[Verdict], baseline: Baseline | None
) -> Iterable[Trend]:
    rules = _rules(material.config, material.window, subject)
    estimates = [e for e in material.estimates if e.subject == subject]
    references = _references(material, subject, verdicts, baseline)
    for metric, where in _series(rules):
        yield trend_data(
            metric,
            where,
            estimates,
            verdicts,
            windows=material.windows,
            baseline=references.get((metric, where)),
            rules=rules,
        )


def _rules(config: Config, window: Window, subject: Subject) -> list[Rule]:
    source = config.sources.get(subject.source)
    critical = source is not None and source.is_critical(subject.label)
    return [
        r for r in config.rules_for(window.schedule) if r.applies_to(subject.source, subject.label, critical=critical)
    ]


def _series(rules: Sequence[Rule]) -> list[Series]:
    """The standard ones, then whatever else a rule watches."""
    watched: list[Series] = [(rule.metric, rule.where) for rule in rules if rule.metric is not None]
    return list(dict.fromkeys((*STANDARD, *watched)))


def _references(
    material: _Material, subject: Subject, verdicts: Sequence[Verdict], baseline: Baseline | None
) -> dict[Series, float]:
    """The baseline's value of each metric: the one the newest verdict compared with, else its own."""
    if baseline is None:
        return {}
    span = Window(baseline.start, baseline.end, baseline.last_window, material.window.schedule)
    analytic = material.config.evaluation.model_copy(update={"interval": "analytic"})
    own = estimate([Sample(subject, baseline.counts, baseline.edges)], span, analytic)
    values = {(e.metric, e.where): e.interval.value for e in own}
    for verdict in sorted(verdicts, key=lambda v: v.window.start):
        if verdict.baseline is not None and verdict.baseline_version == baseline.version:
            values[verdict.metric, verdict.where] = verdict.baseline
    return {key: value for key, value in values.items() if value is not None}


def _reliability(material: _Material, subject: Subject, baseline: Baseline | None) -> Reliability | None:
    reading = material.readings.get(subject.source)
    counts: Counts | None = None if reading is None else reading.labels.get(subject.label)
    if counts is None or counts.rows == 0:
        return None
    edges = (edges_of(counts, material.config.evaluation) if baseline is None else baseline.edges)["all"]
    then = None if baseline is None else bin_counts(baseline.counts, edges)
    return reliability_data(bin_counts(counts, edges), then, confidence=material.config.evaluation.confidence)


def _segments(material: _Material, subject: Subject) -> list[SegmentLine]:
    """The values of each segment column in the report's window, the largest ECE of a column first."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for e in material.segments:
        if e.subject.segment is not None and (e.subject.source, e.subject.label) == (subject.source, subject.label):
            found.setdefault(e.subject.segment, {})[e.metric] = e
    lines = [_segment_line(segment, estimates) for segment, estimates in found.items()]
    return sorted(lines, key=lambda line: (line.column, -(line.ece.value or 0.0), line.value))


def _segment_line(segment: tuple[str, str], estimates: Mapping[str, Estimate]) -> SegmentLine:
    seen = {metric: e.interval for metric, e in estimates.items()}
    return SegmentLine(
        *segment,
        rows=max(e.n for e in estimates.values()),
        ece=seen.get("ece", _UNKNOWN),
        shortfall=seen.get("shortfall", _UNKNOWN),
        roc_auc=seen.get("roc_auc", _UNKNOWN),
    )


def _switch(material: _Material, subject: Subject) -> SwitchLine | None:
    state = material.switches.get((subject.source, subject.label))
    if state is None and subject.label is None:
        return None  # a source has a switch of its own only once somebody sets it
    return switch_line(state or SwitchState(subject.source, subject.label), material.now)


def _notes(readings: Iterable[StoredReading]) -> Iterable[str]:
    for reading in sorted(readings, key=lambda r: r.source):
        if reading.state != "ok":
            yield f"{reading.source} was not evaluated: {reading.error or reading.state.replace('_', ' ')}"
        if reading.versions:
            told = ", ".join(f"{version} ({rows:,} rows)" for version, rows in sorted(reading.versions.items()))
            yield f"{reading.source}, model versions in this window: {told}."
