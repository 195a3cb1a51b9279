"""The history of a window, gathered into one :class:`ReportData`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from monitor.config.model import Config
from monitor.config.rule_sources import rules_on
from monitor.core import windows
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts
from monitor.core.maturity import Maturity
from monitor.core.records import IN_NO_WINDOW, Estimate, Interval, RejectedRows, Subject, Verdict, Where, Window
from monitor.core.rejection_words import sentence
from monitor.core.wording import clean, count_of
from monitor.evaluation.shift.findings import findings
from monitor.history.readings import COUNTS_REMOVED, StoredReading
from monitor.history.store import Store
from monitor.metrics.names import CONTRACT
from monitor.report import words
from monitor.report.compared_baseline import ComparedBaseline, compared_baseline
from monitor.report.data import ReportData, ReportNote, SegmentLine, SubjectReport
from monitor.report.detail import TARGET_ACCURACY, Detail
from monitor.report.explanation import ROW
from monitor.report.figures.reliability import Reliability, reliability_beside
from monitor.report.figures.trend import Trend, stored_trends
from monitor.story.gather import Teller
from monitor.story.label import LabelStory

HISTORY = 53
_UNKNOWN = Interval(None, None, None, None)

Series = tuple[str, Where]
_About = TypeVar("_About", Estimate, Verdict)


@dataclass(frozen=True, slots=True)
class _Material:
    """What the history has on all subjects, by subject: the estimates of the window and of its segments."""

    store: Store
    config: Config
    window: Window
    windows: Sequence[Window]
    current: Mapping[Subject, Sequence[Estimate]]
    segments: Mapping[Subject, Sequence[Estimate]]
    verdicts: Mapping[Subject, Sequence[Verdict]]
    readings: Mapping[str, StoredReading]
    baselines: Mapping[str, Mapping[str | None, Sequence[Baseline]]]
    maturity: Mapping[Subject, Maturity]
    stories: Mapping[Subject, LabelStory]


def collect_report(
    store: Store,
    config: Config,
    window: Window,
    now: datetime,
    *,
    target: float = TARGET_ACCURACY,
) -> ReportData:
    """Everything the history has about ``window`` at one moment, with trends over the year up to it.

    ``now`` (time zone aware) is when the report is made. The stories have the present switches where no newer window of
    the schedule was judged, and none of a past window. ``target`` is the accuracy that chosen thresholds must reach,
    0 < target < 1 (else ValueError).
    """
    with store.one_moment():  # a run may be writing
        material = _gather(store, config, window, now)
        subjects = tuple(_subject_report(material, subject, target) for subject in _subjects(material))
        shifts = tuple(store.shifts(window.schedule, window.start))
        return ReportData(
            window=window,
            zone=config.timezone,
            generated_at=now,
            subjects=subjects,
            quality=tuple(_quality(store, config, window)),
            shifts=shifts,
            shifted=findings(shifts, config.evaluation.false_discovery_rate),
            noted=(*_notes(material), *(ReportNote(text) for text in words.left_out_words(shifts))),
            target=target,
        )


def _quality(store: Store, config: Config, window: Window) -> Iterator[RejectedRows]:
    """What was rejected; of a past window not what lay in no window when it was read, which is of the whole source."""
    newest = _newest(store, config, window)
    for each in store.quality(window.schedule, window.start):
        if each.reason not in IN_NO_WINDOW or newest.get(each.source) in (None, window.name):
            yield each


def _newest(store: Store, config: Config, window: Window) -> dict[str, str | None]:
    return {source: store.newest_window(window.schedule, source) for source in config.sources}


def _gather(store: Store, config: Config, window: Window, now: datetime) -> _Material:
    here = store.estimates(schedule=window.schedule, window_start=window.start, segments=True)
    readings = {name: store.load_reading(window.schedule, window.start, name) for name in config.sources}
    baselines: dict[str, dict[str | None, list[Baseline]]] = {}
    for baseline in store.baselines():
        baselines.setdefault(baseline.source, {}).setdefault(baseline.label, []).append(baseline)
    shown = windows.up_to(window, HISTORY, config.zone)
    verdicts = store.verdicts(schedule=window.schedule, between=(shown[0].start, window.start))
    return _Material(
        store=store,
        config=config,
        window=window,
        windows=shown,
        current=_by_subject(e for e in here if e.subject.segment is None),
        segments=_by_subject(e for e in here if e.subject.segment is not None and e.where == "all"),
        verdicts=_by_subject(verdicts),
        readings={name: reading for name, reading in readings.items() if reading is not None},
        baselines=baselines,
        maturity={m.subject: m for name in config.sources for m in _maturities(store, window, name)},
        stories=_stories(store, config, window, now, verdicts),
    )


def _stories(
    store: Store, config: Config, window: Window, now: datetime, verdicts: Iterable[Verdict]
) -> dict[Subject, LabelStory]:
    newest = _newest(store, config, window)
    diagnoses = store.diagnoses(window)
    past = [each for each in diagnoses if newest.get(each.source) not in (None, window.name)]
    present = [each for each in diagnoses if each not in past]
    told = Teller(store, config, now).of_window(present, verdicts)
    told += Teller.of_run(store, config, window, now).of_window(past, verdicts) if past else []
    return {Subject(story.source, story.label): story for story in told}


def _maturities(store: Store, window: Window, source: str) -> Iterable[Maturity]:
    return store.maturities(window.schedule, source, since=window.start, until=window.start).values()


def _by_subject(found: Iterable[_About]) -> dict[Subject, list[_About]]:
    """Estimates or verdicts in the given order, by subject; those of a segment count as its label's."""
    parts: dict[Subject, list[_About]] = {}
    for entry in found:
        parts.setdefault(replace(entry.subject, segment=None), []).append(entry)
    return parts


def _subjects(material: _Material) -> list[Subject]:
    """The subjects with a number, a verdict or a diagnosis in the window, by name; a source before its labels."""
    now = material.window.start
    found = {*material.current, *material.stories}
    found |= {subject for subject, of in material.verdicts.items() if any(v.window.start == now for v in of)}
    return sorted(found, key=lambda s: (s.source, s.label is not None, s.label or ""))


def _subject_report(material: _Material, subject: Subject, target: float) -> SubjectReport:
    verdicts = material.verdicts.get(subject, ())
    current = tuple(v for v in verdicts if v.window.start == material.window.start)
    baseline = _baseline(material, subject, current)
    story, source = material.stories.get(subject), material.config.sources.get(subject.source)
    reading = material.readings.get(subject.source)
    return SubjectReport(
        subject=subject,
        story=story,
        trend=_trend(material, subject, verdicts, story, baseline),
        verdicts=current,
        reliability=_reliability(material, subject, baseline),
        segments=tuple(_segments(material, subject)),
        detail=Detail(
            subject,
            material.window,
            material.current.get(subject, ()),
            _counts(material, subject),
            material.config.evaluation,
            1.0 if source is None else source.automate_from(subject.label),
            target,
        ),
        maturity=material.maturity.get(subject),
        accepted=reading is None or reading.rejected.of(subject.label) is None,
    )


def _baseline(material: _Material, subject: Subject, verdicts: Iterable[Verdict]) -> ComparedBaseline | None:
    """The version that the window's verdicts were made with, else the newest one of the same numbers."""
    reading, pinned = material.readings.get(subject.source), material.baselines.get(subject.source, {})

    def of_source(version: int) -> dict[str | None, Baseline]:
        return {label: each for label, of in pinned.items() for each in of if each.version == version}

    return compared_baseline(
        pinned.get(subject.label, ()), _counts(material, subject), None if reading is None else reading.settings,
        material.config.sources.get(subject.source), material.config.evaluation, of_source=of_source,
        used={v.baseline_version for v in verdicts if v.baseline_version is not None},
    )  # fmt: skip


def _trend(
    material: _Material,
    subject: Subject,
    verdicts: Sequence[Verdict],
    story: LabelStory | None,
    baseline: ComparedBaseline | None,
) -> Trend:
    """The trend of the metric that the story is about, else of the ECE."""
    evidence = () if story is None else story.evidence
    lead = next((v for v in verdicts if v.id in evidence[:1] and v.subject.segment is None), None)
    series: Series = ("ece", "all") if lead is None else (lead.metric, lead.where)
    (found,) = stored_trends(
        material.store, subject, [series], verdicts, windows=material.windows,
        baseline=lambda metric, where: None if baseline is None else baseline.value(metric, where, verdicts),
        rules=rules_on(material.config, material.window.schedule, subject.source, subject.label),
    )  # fmt: skip
    return found.begun


def _counts(material: _Material, subject: Subject) -> Counts | None:
    reading = material.readings.get(subject.source)
    counts = None if reading is None else reading.labels.get(subject.label)
    return counts if counts is not None and counts.rows else None


def _reliability(material: _Material, subject: Subject, compared: ComparedBaseline | None) -> Reliability | None:
    counts, baseline = _counts(material, subject), None if compared is None else compared.baseline
    then = None if baseline is None else baseline.counts
    return None if counts is None else reliability_beside(counts, then, baseline, material.config.evaluation)


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
        command = f"{windows.run_command(window.schedule, window.name)} --dry-run"
        yield (
            f"{clean(source)}: rows of {window.name} were read again after its verdicts, which stay as they are: "
            f"{clean(name)} had {count_of(then, row)} then and has {now:,} now. `{command}` judges these"
        )


def _is_of_window_alone(verdict: Verdict) -> bool:
    """Whether a verdict measured all rows of its window and population, and no others."""
    of_others = {"segment", "before_truth", "path"} & set(verdict.detail)
    return verdict.metric in CONTRACT and verdict.value is not None and verdict.windows == 1 and not of_others


def _notes(material: _Material) -> Iterator[ReportNote]:
    if material.store.is_removed(material.window):
        yield ReportNote(
            f"estimates of segments and further metrics of {material.window.name} were removed since they are old"
        )
    for reading in sorted(material.readings.values(), key=lambda r: r.source):
        yield from (ReportNote(text, reading.source) for text in _notes_of(material, reading))


def _notes_of(material: _Material, reading: StoredReading) -> Iterator[str]:
    """What is to be known about the rows of one source."""
    if reading.state == COUNTS_REMOVED:
        yield (
            f"the counts of {reading.source} in {material.window.name} were removed since they are old: "
            "no curves and no tables by score"
        )
    elif reading.state != "ok":
        yield f"{reading.source} was not evaluated: {reading.error or reading.state.replace('_', ' ')}"
    yield from words.reading_words(reading.source, reading.quality)
    yield from _read_again(material, reading.source)
    if found := sentence(reading.rejected):
        yield f"{reading.source}, {found}"
    if reading.versions:
        rows = ", ".join(f"{version} ({count_of(rows, 'row')})" for version, rows in sorted(reading.versions.items()))
        yield f"{reading.source}, model versions in this window: {rows}."
