"""The history of a window, gathered into one :class:`ReportData`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeVar

from monitor.automation.acting_scores import PublishedScores
from monitor.automation.as_of import Key, by_switch, identity_as_of, switch_as_of, time_on
from monitor.automation.harm import TimeOn
from monitor.config.model import Config, Rule
from monitor.core import windows
from monitor.core.baseline import Baseline, References, comparable_versions, edges_of
from monitor.core.counts import BinCounts, Counts, bin_counts, equal_width_edges
from monitor.core.maturity import Maturity
from monitor.core.records import (
    Estimate,
    Identity,
    Interval,
    Reason,
    Subject,
    SwitchEvent,
    SwitchState,
    Verdict,
    Where,
    Window,
)
from monitor.core.rejection_words import sentence
from monitor.core.wording import clean, count_of
from monitor.evaluation.estimates import Sample, estimate
from monitor.evaluation.label_state import State
from monitor.evaluation.other_thresholds import at_present_threshold
from monitor.evaluation.shift.findings import findings
from monitor.history.readings import COUNTS_REMOVED, StoredReading
from monitor.history.store import Store
from monitor.metrics.calibration import gap_matrix
from monitor.metrics.names import CONTRACT
from monitor.report import words
from monitor.report.acting_harm import ActingLabel
from monitor.report.data import BaselineLine, ReportData, ReportNote, SegmentLine, SubjectReport, SwitchRow, switch_line
from monitor.report.decision_checks import ROW
from monitor.report.detail import TARGET_ACCURACY, LabelContext, detail_of
from monitor.report.figures.reliability import Reliability, reliability_data
from monitor.report.figures.trend import Trend, trend_data

HISTORY = 53
TENTHS = 10
STANDARD: tuple[tuple[str, Where], ...] = (
    ("ece", "all"),
    ("mce", "all"),
    ("roc_auc", "all"),
    ("overconfidence", "automated"),
)

_UNKNOWN = Interval(None, None, None, None)

Series = tuple[str, Where]
_About = TypeVar("_About", Estimate, Verdict)


@dataclass(frozen=True, slots=True)
class _Material:
    """What the history has on all subjects, by subject: estimates of the trends, of the window, of its segments.

    ``ran`` is when the window's run ended (None: not known), ``then`` the readings of the last windows of baselines.
    """

    config: Config
    window: Window
    windows: tuple[Window, ...]
    estimates: Mapping[Subject, Sequence[Estimate]]
    current: Mapping[Subject, Sequence[Estimate]]
    segments: Mapping[Subject, Sequence[Estimate]]
    days: tuple[Mapping[Subject, float | None], Mapping[Subject, float | None]]
    verdicts: Mapping[Subject, Sequence[Verdict]]
    readings: Mapping[str, StoredReading]
    baselines: Mapping[tuple[str, str | None], Sequence[Baseline]]
    then: Mapping[tuple[str, str], StoredReading]
    switches: Mapping[Key, SwitchState]
    identity: Identity
    events: Mapping[Key, Sequence[SwitchEvent]]
    ran: Mapping[str, datetime]
    """Source -> the end of its run of the window."""
    now: datetime
    maturity: Mapping[Subject, Maturity]
    removed: bool
    published: PublishedScores


def collect_report(
    store: Store,
    config: Config,
    window: Window,
    now: datetime,
    *,
    history: int = HISTORY,
    target: float = TARGET_ACCURACY,
) -> ReportData:
    """Everything the history has about ``window``, with trends over the ``history`` windows up to it.

    ``now`` (time zone aware) is when the report is made. It has the switches at the end of the window's run, and
    those at ``now``. ``target`` is the accuracy that chosen thresholds must reach, 0 < target < 1 (else ValueError).
    """
    material = _gather(store, config, window, now, history)
    subjects = tuple(_subject_report(material, subject, target) for subject in _subjects(material))
    shifts = tuple(store.shifts(window.schedule, window.start))
    return ReportData(
        window=window,
        zone=config.timezone,
        generated_at=now,
        subjects=subjects,
        quality=tuple(store.quality(window.schedule, window.start)),
        verdicts=tuple(verdict for report in subjects for verdict in report.verdicts),
        automation=tuple(report.switch for report in subjects if report.switch is not None),
        automation_now=tuple(report.switch_now for report in subjects if report.switch_now is not None),
        switched_at=max(material.ran.values(), default=None),
        shifts=shifts,
        shifted=findings(shifts, config.evaluation.false_discovery_rate),
        noted=(*_notes(material), *(ReportNote(text) for text in words.left_out_words(shifts))),
        target=target,
        gaps=gap_matrix(_tables(material, subjects)),
        ranges=gap_matrix(_in_tenths(material, subjects)),
    )


def _gather(store: Store, config: Config, window: Window, now: datetime, history: int) -> _Material:
    shown = (*reversed(windows.before(window, history - 1, config.zone)), window)
    first = shown[0].start
    estimates = tuple(
        e
        for metric, where in _series(config.rules_for(window.schedule))
        for e in store.estimates(metric=metric, where=where, schedule=window.schedule, between=(first, window.start))
    )
    here = store.estimates(schedule=window.schedule, window_start=window.start, segments=True)
    oldest = min((e.window.start for e in estimates), default=window.start)
    readings = {name: store.load_reading(window.schedule, window.start, name) for name in config.sources}
    baselines: dict[tuple[str, str | None], list[Baseline]] = {}
    for baseline in store.baselines():
        baselines.setdefault((baseline.source, baseline.label), []).append(baseline)
    verdicts = store.verdicts(schedule=window.schedule, between=(first, window.start))
    ran = {source: run["finished_at"] for source, run in store.runs_of(window).items() if run["finished_at"]}
    return _Material(
        config=config,
        window=window,
        windows=tuple(w for w in shown if w.start >= oldest),
        estimates=_by_subject(estimates),
        current=_by_subject(e for e in here if e.subject.segment is None),
        segments=_by_subject(e for e in here if e.subject.segment is not None and e.where == "all"),
        days=_last_days(store, config, window),
        verdicts=_by_subject(verdicts),
        readings={name: reading for name, reading in readings.items() if reading is not None},
        baselines=baselines,
        then=_of_baselines(store, config, window, verdicts, baselines),
        switches={(state.source, state.label): state for state in store.switches()},
        identity=store.identity(),
        events=by_switch(store.switch_events(since=min(window.start, *ran.values()) if ran else window.start)),
        ran=ran,
        now=now,
        maturity={m.subject: m for name in config.sources for m in _maturities(store, window, name)},
        removed=store.is_removed(window),
        published=PublishedScores(store.thresholds(), store.publications()),
    )


def _maturities(store: Store, window: Window, source: str) -> Iterable[Maturity]:
    return store.maturities(window.schedule, source, since=window.start, until=window.start).values()


def _of_baselines(
    store: Store, config: Config, window: Window, verdicts: Iterable[Verdict], pinned: Mapping[Key, Sequence[Baseline]]
) -> dict[tuple[str, str], StoredReading]:
    """The readings of baselines' last windows, where a verdict's reason is that only the traffic changed."""
    moved = [v for v in verdicts if v.reason == Reason.TRAFFIC_MIX and v.window.start == window.start]
    used = {
        (v.subject.source, _last_of(config, window, b.end))
        for v in moved
        for b in pinned.get((v.subject.source, v.subject.label), ())
        if b.version == v.baseline_version
    }
    found = {(source, last.name): store.load_reading(last.schedule, last.start, source) for source, last in used}
    return {key: reading for key, reading in found.items() if reading is not None}


def _last_of(config: Config, window: Window, end: datetime) -> Window:
    """The last window before a baseline's end, of the schedule of the report's window."""
    return windows.containing(window.schedule, end - timedelta(seconds=1), config.zone)


def _last_days(
    store: Store, config: Config, window: Window
) -> tuple[Mapping[Subject, float | None], Mapping[Subject, float | None]]:
    """The debiased ECE of every label on the day before the window's last day, and on that last day."""
    last = windows.previous(windows.containing("daily", window.end, config.zone), config.zone)

    def of(day: Window) -> dict[Subject, float | None]:
        found = store.estimates(metric="ece", where="all", schedule="daily", window_start=day.start)
        return {e.subject: e.interval.value for e in found}

    return of(windows.previous(last, config.zone)), of(last)


def _by_subject(found: Iterable[_About]) -> dict[Subject, list[_About]]:
    """Estimates or verdicts in the given order, by subject; those of a segment count as its label's."""
    parts: dict[Subject, list[_About]] = {}
    for entry in found:
        parts.setdefault(replace(entry.subject, segment=None), []).append(entry)
    return parts


def _subjects(material: _Material) -> list[Subject]:
    """The subjects with a number or a verdict in the window, by name; a source as a whole before its labels."""
    now = material.window.start
    found = set(material.current)
    found |= {subject for subject, of in material.verdicts.items() if any(v.window.start == now for v in of)}
    return sorted(found, key=lambda s: (s.source, s.label is not None, s.label or ""))


def _subject_report(material: _Material, subject: Subject, target: float) -> SubjectReport:
    verdicts = material.verdicts.get(subject, ())
    current = tuple(v for v in verdicts if v.window.start == material.window.start)
    baseline = _baseline(material, subject, current)
    report = SubjectReport(
        subject=subject,
        trends=tuple(_trends(material, subject, verdicts, baseline)),
        verdicts=current,
        reliability=_reliability(material, subject, baseline),
        baseline=None if baseline is None else _baseline_line(baseline),
        switch=_switch_then(material, subject),
        switch_now=_switch_now(material, subject),
        segments=tuple(_segments(material, subject)),
        maturity=material.maturity.get(subject),
    )
    estimates, context = material.current.get(subject, ()), _label_context(material, report)
    return replace(report, detail=detail_of(_counts(material, subject), estimates, context, target))


def _label_context(material: _Material, report: SubjectReport) -> LabelContext:
    subject, state, evaluation = report.subject, report.state, material.config.evaluation
    reading = material.readings.get(subject.source)
    pairs = None  # of (item, label), over all labels of the source
    if reading is not None:
        pairs = sum(counts.rows for label, counts in reading.labels.items() if label is not None) or reading.rows
    left_out = reading is not None and reading.rejected.of(subject.label) is not None
    without_rule = state.state is State.NO_RULE and report.rows >= evaluation.min_samples and not left_out
    return LabelContext(
        automate_at=_automate_from(material, subject.source, subject.label),
        evaluated=state.evaluated or without_rule,
        confidence=evaluation.confidence,
        ece_rise=report.change.change,
        mce_rise=report.change_of("mce").change,
        days=(material.days[0].get(subject), material.days[1].get(subject)),
        verdicts=report.verdicts,
        on=_time_on(material, subject),
        schedule=material.window.schedule,
        pairs=pairs,
        new_version=_new_version(material, report),
        labels=tuple(_acting_labels(material, subject)),
    )


def _new_version(material: _Material, report: SubjectReport) -> str:
    """How the main model version changed since the baseline; "" unless a verdict says that traffic changed."""
    source, baseline = report.subject.source, report.baseline
    if baseline is None or not any(v.reason == Reason.TRAFFIC_MIX for v in report.verdicts):
        return ""
    last = _last_of(material.config, material.window, baseline.end)
    now, then = material.readings.get(source), material.then.get((source, last.name))
    return "" if now is None or then is None else words.version_change(now.versions, then.versions, last.name)


def _time_on(material: _Material, subject: Subject) -> TimeOn:
    """The share of the window in which automation was on; a source as a whole has those of its labels."""
    return TimeOn(0.0) if subject.label is None else _label_on(material, subject.source, subject.label)


def _label_on(material: _Material, source: str, label: str) -> TimeOn:
    window = material.window
    return time_on(material.events, (source, label), window.start, window.end, material.published)


def _acting_labels(material: _Material, subject: Subject) -> Iterable[ActingLabel]:
    """Every label of a source as a whole; none for a label."""
    reading = material.readings.get(subject.source)
    if subject.label is None and reading is not None:
        for label, counts in reading.labels.items():
            if label is not None:
                configured = _automate_from(material, subject.source, label)
                yield ActingLabel(counts, _label_on(material, subject.source, label), configured)


def _automate_from(material: _Material, source: str, label: str | None) -> float:
    """``automate_at`` of a label; of a source that alerts.yaml has no more, a score from which nothing acts."""
    configured = material.config.sources.get(source)
    return 1.0 if configured is None else configured.automate_from(label)


def _baseline(material: _Material, subject: Subject, verdicts: Iterable[Verdict]) -> Baseline | None:
    """The version that the window's verdicts were made with, else the newest one of the same numbers.

    Its automated rows are by the present `automate_at`, as in a run.
    """
    reading = material.readings.get(subject.source)
    pinned = material.baselines.get((subject.source, subject.label), ())
    versions = comparable_versions(pinned, _counts(material, subject), None if reading is None else reading.settings)
    used = {v.baseline_version for v in verdicts}
    found = max([b for b in versions if b.version in used] or versions, key=lambda b: b.version, default=None)
    source = material.config.sources.get(subject.source)
    if found is None or source is None:
        return found
    beside = {label: versions for (name, label), versions in material.baselines.items() if name == subject.source}
    alike = {label: each for label, of in beside.items() for each in of if each.version == found.version}
    used_now = References({**alike, subject.label: found} if subject.label is None else {subject.label: found})
    return at_present_threshold(used_now, source, material.config.evaluation).baselines[subject.label]


def _baseline_line(b: Baseline) -> BaselineLine:
    return BaselineLine(b.version, b.start, b.end, b.first_window, b.last_window, b.counts.rows)


def _trends(
    material: _Material, subject: Subject, verdicts: Sequence[Verdict], baseline: Baseline | None
) -> Iterable[Trend]:
    source, config = material.config.sources.get(subject.source), material.config
    critical = source is not None and source.is_critical(subject.label)
    of_schedule = config.rules_for(material.window.schedule)
    rules = [rule for rule in of_schedule if rule.applies_to(subject.source, subject.label, critical=critical)]
    estimates = material.estimates.get(subject, ())
    references = _references(material, subject, verdicts, baseline)
    for key in _series(rules):
        reference = references.get(key)
        yield trend_data(*key, estimates, verdicts, windows=material.windows, baseline=reference, rules=rules)


def _series(rules: Sequence[Rule]) -> list[Series]:
    """The standard series, then those of other rules."""
    watched: list[Series] = [(rule.metric, rule.where) for rule in rules if rule.metric is not None]
    return list(dict.fromkeys((*STANDARD, *watched)))


def _references(
    material: _Material, subject: Subject, verdicts: Sequence[Verdict], baseline: Baseline | None
) -> dict[Series, float]:
    """The baseline's value of each metric: that of the newest verdict, else computed from the baseline."""
    if baseline is None:
        return {}
    span = Window(baseline.start, baseline.end, baseline.last_window, material.window.schedule)
    analytic = material.config.evaluation.model_copy(update={"interval": "analytic"})
    computed = estimate([Sample(subject, baseline.counts, baseline.edges)], span, analytic)
    values = {(e.metric, e.where): e.interval.value for e in computed}
    for verdict in sorted(verdicts, key=lambda v: v.window.start):
        if verdict.baseline is not None and verdict.baseline_version == baseline.version:
            values[verdict.metric, verdict.where] = verdict.baseline
    return {key: value for key, value in values.items() if value is not None}


def _counts(material: _Material, subject: Subject) -> Counts | None:
    reading = material.readings.get(subject.source)
    counts = None if reading is None else reading.labels.get(subject.label)
    return counts if counts is not None and counts.rows else None


def _reliability(material: _Material, subject: Subject, baseline: Baseline | None) -> Reliability | None:
    counts = _counts(material, subject)
    if counts is None:
        return None
    edges = _edges(material, counts, baseline)
    then = None if baseline is None else bin_counts(baseline.counts, edges)
    return reliability_data(bin_counts(counts, edges), then, confidence=material.config.evaluation.confidence)


def _edges(material: _Material, counts: Counts, baseline: Baseline | None) -> Sequence[int]:
    return (edges_of(counts, material.config.evaluation) if baseline is None else baseline.edges)["all"]


def _tables(material: _Material, subjects: Iterable[SubjectReport]) -> dict[str, BinCounts]:
    """The bins of every subject that has rows, by its name."""
    found: dict[str, BinCounts] = {}
    for report in subjects:
        counts, subject = _counts(material, report.subject), report.subject
        if counts is not None:
            baseline = _baseline(material, subject, report.verdicts)
            found[subject.name] = bin_counts(counts, _edges(material, counts, baseline))
    return found


def _in_tenths(material: _Material, subjects: Iterable[SubjectReport]) -> dict[str, BinCounts]:
    """The rows of every subject by tenths of the scores, by its name."""
    found = ((report.subject.name, _counts(material, report.subject)) for report in subjects)
    return {name: bin_counts(counts, equal_width_edges(TENTHS)) for name, counts in found if counts is not None}


def _segments(material: _Material, subject: Subject) -> list[SegmentLine]:
    """The values of each segment column in the report's window, the largest ECE of a column first."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for e in material.segments.get(subject, ()):
        if e.subject.segment is not None:
            found.setdefault(e.subject.segment, {})[e.metric] = e
    lines = [_segment_line(segment, estimates) for segment, estimates in found.items()]
    return sorted(lines, key=lambda line: (line.column, -(line.ece.value or 0.0), line.value))


def _segment_line(segment: tuple[str, str], estimates: Mapping[str, Estimate]) -> SegmentLine:
    intervals = {metric: e.interval for metric, e in estimates.items()}
    return SegmentLine(
        *segment,
        rows=max(e.n for e in estimates.values()),
        ece=intervals.get("ece", _UNKNOWN),
        overconfidence=intervals.get("overconfidence", _UNKNOWN),
        roc_auc=intervals.get("roc_auc", _UNKNOWN),
        correlation=intervals.get("point_biserial", _UNKNOWN).value,
    )


def _switch_then(material: _Material, subject: Subject) -> SwitchRow | None:
    """The switch at the end of the window's run, from its events; where no run is known, the switch of now."""
    at, source = material.ran.get(subject.source), subject.source
    if at is None:
        return _switch_now(material, subject)
    whole = switch_as_of(material.events.get((source, None), ()), at, source=source, label=None)
    identity = identity_as_of(material.events, at)
    if subject.label is None:
        return None if whole.changed_at is None else switch_line(whole, at, None, identity)
    state = switch_as_of(material.events.get((source, subject.label), ()), at, source=source, label=subject.label)
    return switch_line(state, at, whole, identity)


def _switch_now(material: _Material, subject: Subject) -> SwitchRow | None:
    whole = material.switches.get((subject.source, None))
    if subject.label is None:
        # a source has none until somebody sets one
        return None if whole is None else switch_line(whole, material.now, None, material.identity)
    state = material.switches.get((subject.source, subject.label), SwitchState(subject.source, subject.label))
    return switch_line(state, material.now, whole, material.identity)


def _read_again(material: _Material, source: str) -> Iterable[str]:
    """That rows which came late changed the numbers after the verdicts, where those on this window alone show it."""
    changed = [
        (abs(estimate.n - verdict.n), subject.name, verdict.n, estimate.n, ROW[verdict.where])
        for subject, verdicts in material.verdicts.items()
        if subject.source == source
        for verdict in verdicts
        if verdict.window.start == material.window.start and _is_of_window_alone(verdict)
        for estimate in material.current.get(subject, ())
        if (estimate.metric, estimate.where) == (verdict.metric, verdict.where) and estimate.n != verdict.n
    ]
    if changed:
        (_, name, then, now, row), window = max(changed), material.window
        option = "week" if window.schedule == "weekly" else "date"
        command = f"calmon run {window.schedule} --{option} {window.name} --dry-run"
        yield (
            f"{clean(source)}: rows of {window.name} were read again after its verdicts, which stay as they are: "
            f"{clean(name)} had {count_of(then, row)} then and has {now:,} now. `{command}` judges these"
        )


def _is_of_window_alone(verdict: Verdict) -> bool:
    """Whether a verdict measured all rows of its window and population, and no others."""
    of_others = {"segment", "small_labels", "before_truth", "path"} & set(verdict.detail)
    return verdict.metric in CONTRACT and verdict.value is not None and verdict.windows == 1 and not of_others


def _notes(material: _Material) -> Iterator[ReportNote]:
    if material.removed:
        yield ReportNote(
            f"estimates of segments and further metrics of {material.window.name} were removed since they are old"
        )
    for reading in sorted(material.readings.values(), key=lambda r: r.source):
        yield from (ReportNote(text, reading.source) for text in _notes_of(material, reading))
    shown = {window.start for window in material.windows}
    other_zone = {e.window for of in material.estimates.values() for e in of if e.window.start not in shown}
    if other_zone:
        first, last = min(other_zone).name, max(other_zone).name
        other = count_of(len(other_zone), "window")
        yield ReportNote(f"Not in the trends: {other} of another time zone, {first} to {last}.")


def _notes_of(material: _Material, reading: StoredReading) -> Iterator[str]:
    """What is to be known about the rows of one source."""
    if reading.state == COUNTS_REMOVED:
        yield (
            f"the counts of {reading.source} in {material.window.name} were removed since they are old: "
            "no curves and no tables by score"
        )
    elif reading.state != "ok":
        yield f"{reading.source} was not evaluated: {reading.error or reading.state.replace('_', ' ')}"
    yield from words.not_read_words(reading.source, reading.quality)
    yield from words.rows_gone_words(reading.source, reading.quality)
    yield from words.rows_deleted_words(reading.quality)
    yield from words.labels_words(reading.source, reading.quality)
    yield from _read_again(material, reading.source)
    if found := sentence(reading.rejected):
        yield f"{reading.source}, {found}"
    if reading.versions:
        rows = ", ".join(f"{version} ({count_of(rows, 'row')})" for version, rows in sorted(reading.versions.items()))
        yield f"{reading.source}, model versions in this window: {rows}."
