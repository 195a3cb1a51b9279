"""The history of a window, gathered into one :class:`ReportData`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TypeVar

from monitor.config.model import Config
from monitor.config.rule_sources import rules_on
from monitor.core import windows
from monitor.core.baseline import Baseline
from monitor.core.counts import Counts
from monitor.core.maturity import Maturity
from monitor.core.records import IN_NO_WINDOW, Estimate, Interval, Subject, Verdict, Window
from monitor.core.rejection_words import sentence
from monitor.core.wording import clean, count_of
from monitor.evaluation.shift.findings import findings
from monitor.history.readings import COUNTS_REMOVED, StoredReading
from monitor.history.store import Store
from monitor.metrics.names import CONTRACT
from monitor.report import words
from monitor.report.compared_baseline import ComparedBaseline, compared_baseline
from monitor.report.data import TARGET_ACCURACY, ReportData, ReportNote, SegmentLine, SubjectReport
from monitor.report.explanation import ROW
from monitor.report.figures.reliability import reliability_beside
from monitor.report.figures.trend import Trend, stored_trends
from monitor.story.gather import Teller
from monitor.story.label import LabelStory

HISTORY = 53
_UNKNOWN = Interval(None, None, None, None)

_About = TypeVar("_About", Estimate, Verdict)


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
        material = _Material(store, config, window, now, target)
        shifts = tuple(store.shifts(window.schedule, window.start))
        return ReportData(
            window=window,
            zone=config.timezone,
            generated_at=now,
            subjects=tuple(map(material.report_of, material.subjects())),
            quality=tuple(
                each
                for each in store.quality(window.schedule, window.start)
                # of a past window not what lay in no window when it was read, which is of the whole source
                if each.reason not in IN_NO_WINDOW or each.source not in material.of_past
            ),
            shifts=shifts,
            shifted=findings(shifts, config.evaluation.false_discovery_rate),
            noted=(*material.notes(), *(ReportNote(text) for text in words.left_out_words(shifts))),
            target=target,
        )


@dataclass(frozen=True)
class _Material:
    """What the history has on all subjects of a window; each part is read once."""

    store: Store
    config: Config
    window: Window
    now: datetime
    target: float

    @cached_property
    def windows(self) -> list[Window]:
        return windows.up_to(self.window, HISTORY, self.config.zone)

    @cached_property
    def of_past(self) -> set[str]:
        """The sources of which a newer window was judged."""
        newest = {source: self.store.newest_window(self.window.schedule, source) for source in self.config.sources}
        return {source for source, name in newest.items() if name not in (None, self.window.name)}

    @cached_property
    def estimates(self) -> dict[Subject, list[Estimate]]:
        here = self.store.estimates(schedule=self.window.schedule, window_start=self.window.start, segments=True)
        return _by_subject(here)

    @cached_property
    def verdicts(self) -> dict[Subject, list[Verdict]]:
        """Those of all windows shown."""
        span = self.windows[0].start, self.window.start
        return _by_subject(self.store.verdicts(schedule=self.window.schedule, between=span))

    @cached_property
    def readings(self) -> dict[str, StoredReading]:
        window, load = self.window, self.store.load_reading
        found = (load(window.schedule, window.start, source) for source in self.config.sources)
        return {reading.source: reading for reading in found if reading is not None}

    @cached_property
    def baselines(self) -> list[Baseline]:
        return self.store.baselines()

    @cached_property
    def maturity(self) -> dict[Subject, Maturity]:
        at = {"since": self.window.start, "until": self.window.start}
        of_sources = (self.store.maturities(self.window.schedule, source, **at) for source in self.config.sources)
        return {each.subject: each for found in of_sources for each in found.values()}

    @cached_property
    def stories(self) -> dict[Subject, LabelStory]:
        verdicts = [verdict for of in self.verdicts.values() for verdict in of]
        diagnoses = self.store.diagnoses(self.window)
        past = [each for each in diagnoses if each.source in self.of_past]
        told = Teller(self.store, self.config, self.now).of_window([e for e in diagnoses if e not in past], verdicts)
        if past:
            told += Teller.of_run(self.store, self.config, self.window, self.now).of_window(past, verdicts)
        return {Subject(story.source, story.label): story for story in told}

    def subjects(self) -> list[Subject]:
        """The subjects with a number, a verdict or a diagnosis in the window, by name; a source before its labels."""
        found = {subject for subject, of in self.estimates.items() if any(e.subject.segment is None for e in of)}
        found |= {*self.stories, *(subject for subject in self.verdicts if self._current(subject))}
        return sorted(found, key=lambda s: (s.source, s.label is not None, s.label or ""))

    def _current(self, subject: Subject) -> tuple[Verdict, ...]:
        """The verdicts of the window itself."""
        return tuple(v for v in self.verdicts.get(subject, ()) if v.window.start == self.window.start)

    def report_of(self, subject: Subject) -> SubjectReport:
        estimates, reading = self.estimates.get(subject, ()), self.readings.get(subject.source)
        source, counts = self.config.sources.get(subject.source), None
        if reading is not None and (found := reading.labels.get(subject.label)) is not None and found.rows:
            counts = found
        compared = self._compared(subject, counts)
        baseline = None if compared is None else compared.baseline
        then = None if baseline is None else baseline.counts
        return SubjectReport(
            subject,
            self.window,
            [e for e in estimates if e.subject.segment is None],
            counts,
            self.config.evaluation,
            1.0 if source is None else source.automate_from(subject.label),
            self.target,
            story=self.stories.get(subject),
            trend=self._trend(subject, compared),
            verdicts=self._current(subject),
            reliability=None if counts is None else reliability_beside(counts, then, baseline, self.config.evaluation),
            segments=tuple(_segments(estimates)),
            maturity=self.maturity.get(subject),
            accepted=reading is None or reading.rejected.of(subject.label) is None,
        )

    def _compared(self, subject: Subject, counts: Counts | None) -> ComparedBaseline | None:
        """The version that the window's verdicts were made with, else the newest one of the same numbers."""
        reading, pinned = self.readings.get(subject.source), [b for b in self.baselines if b.source == subject.source]
        return compared_baseline(
            [b for b in pinned if b.label == subject.label], counts, None if reading is None else reading.settings,
            self.config.sources.get(subject.source), self.config.evaluation,
            of_source=lambda version: {each.label: each for each in pinned if each.version == version},
            used={v.baseline_version for v in self._current(subject) if v.baseline_version is not None},
        )  # fmt: skip

    def _trend(self, subject: Subject, compared: ComparedBaseline | None) -> Trend:
        """The trend of the metric that the story is about, else of the ECE."""
        verdicts, story = self.verdicts.get(subject, ()), self.stories.get(subject)
        evidence = () if story is None else story.evidence
        lead = next((v for v in verdicts if v.id in evidence[:1] and v.subject.segment is None), None)
        (found,) = stored_trends(
            self.store, subject, [("ece", "all") if lead is None else (lead.metric, lead.where)], verdicts,
            windows=self.windows,
            baseline=lambda metric, where: None if compared is None else compared.value(metric, where, verdicts),
            rules=rules_on(self.config, self.window.schedule, subject.source, subject.label),
        )  # fmt: skip
        return found.begun

    def notes(self) -> Iterator[ReportNote]:
        if self.store.is_removed(self.window):
            yield ReportNote(
                f"estimates of segments and further metrics of {self.window.name} were removed since they are old"
            )
        for reading in sorted(self.readings.values(), key=lambda r: r.source):
            yield from (ReportNote(text, reading.source) for text in self._notes_of(reading))

    def _notes_of(self, reading: StoredReading) -> Iterator[str]:
        """What is to be known about the rows of one source."""
        if reading.state == COUNTS_REMOVED:
            yield (
                f"the counts of {reading.source} in {self.window.name} were removed since they are old: "
                "no curves and no tables by score"
            )
        elif reading.state != "ok":
            yield f"{reading.source} was not evaluated: {reading.error or reading.state.replace('_', ' ')}"
        yield from words.reading_words(reading.source, reading.quality)
        yield from self._read_again(reading.source)
        if found := sentence(reading.rejected):
            yield f"{reading.source}, {found}"
        if reading.versions:
            rows = ", ".join(f"{name} ({count_of(rows, 'row')})" for name, rows in sorted(reading.versions.items()))
            yield f"{reading.source}, model versions in this window: {rows}."

    def _read_again(self, source: str) -> Iterable[str]:
        """That rows which came late changed numbers after the verdicts, where those on this window alone show it."""
        changed = [
            (abs(estimate.n - verdict.n), subject.name, verdict.n, estimate.n, ROW[verdict.where])
            for subject in self.verdicts
            if subject.source == source
            for verdict in self._current(subject)
            # it measured all rows of its window and population, and no others
            if verdict.metric in CONTRACT and verdict.value is not None and verdict.windows == 1
            if not {"segment", "before_truth", "path"} & set(verdict.detail)
            for estimate in self.estimates.get(subject, ())
            if (estimate.metric, estimate.where, estimate.subject.segment) == (verdict.metric, verdict.where, None)
            and estimate.n != verdict.n
        ]
        if changed:
            (_, name, then, now, row), window = max(changed), self.window
            command = f"{windows.run_command(window.schedule, window.name)} --dry-run"
            yield (
                f"{clean(source)}: rows of {window.name} were read again after its verdicts, which stay as they are: "
                f"{clean(name)} had {count_of(then, row)} then and has {now:,} now. `{command}` judges these"
            )


def _by_subject(found: Iterable[_About]) -> dict[Subject, list[_About]]:
    """Estimates or verdicts in the given order, by subject; those of a segment count as its label's."""
    parts: dict[Subject, list[_About]] = {}
    for entry in found:
        parts.setdefault(replace(entry.subject, segment=None), []).append(entry)
    return parts


def _segments(estimates: Sequence[Estimate]) -> list[SegmentLine]:
    """The values of each segment column, the largest ECE of a column first."""
    found: dict[tuple[str, str], dict[str, Estimate]] = {}
    for e in estimates:
        if e.subject.segment is not None and e.where == "all":
            found.setdefault(e.subject.segment, {})[e.metric] = e
    lines = []
    for segment, estimates_of in found.items():
        intervals = {metric: e.interval for metric, e in estimates_of.items()}
        ece, gap, auc, known = (
            intervals.get(metric, _UNKNOWN) for metric in ("ece", "overconfidence", "roc_auc", "point_biserial")
        )
        rows = max(e.n for e in estimates_of.values())
        lines.append(SegmentLine(*segment, rows, ece, gap, auc, known.value))
    return sorted(lines, key=lambda line: (line.column, -(line.ece.value or 0.0), line.value))
