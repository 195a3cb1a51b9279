"""The records of a report: plain, so that it can be shown without a history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Literal
from zoneinfo import ZoneInfo

from monitor.config.model import EvaluationConfig
from monitor.core.counts import BinCounts, Counts, bin_counts, equal_width_edges
from monitor.core.diagnoses import DiagnosisState
from monitor.core.maturity import Maturity
from monitor.core.records import (
    WHERES,
    Estimate,
    Interval,
    RejectedRows,
    ShiftResult,
    Subject,
    Verdict,
    Where,
    Window,
)
from monitor.core.wording import clean
from monitor.evaluation.estimates import generator
from monitor.evaluation.shift.findings import ShiftFinding
from monitor.inference.selective import OperatingPoint, threshold_for
from monitor.metrics.certainty import KEPT_IN, ClassTables, of_detail
from monitor.metrics.registry import METRICS
from monitor.recalibration.gain import Gain, gains_on_unseen
from monitor.recalibration.score_map import Method
from monitor.report import words
from monitor.report.figures.reliability import Reliability
from monitor.report.figures.scores import Curve, FiveNumbers, risk_coverage_data, score_boxes
from monitor.report.figures.trend import Trend
from monitor.story.label import LabelStory

TARGET_ACCURACY = 0.95
"""The share of automated items that must be right, unless a caller sets another."""
TENTHS = 10
_ORDER = {name: place for place, name in enumerate(METRICS)}
NOTHING = "Nothing of this window is in the history"
AS_A_WHOLE = "*"
"""In place of a label's name: the source as a whole."""
Level = Literal["red", "amber", "green", "grey"]


def level(ece: float | None, roc_auc: float | None, mce: float | None) -> Level:
    """The handbook's light of one label in one window, on debiased values; it decides nothing.

    Red: any of ECE > .15, AUC < .75, MCE > .20. Green: ECE <= .05 and AUC >= .80 and MCE <= .15.
    Grey: no number at all. Else amber; so green needs all three numbers.

    >>> level(0.02, 0.91, 0.08), level(0.08, 0.91, 0.08), level(0.02, 0.70, 0.08)
    ('green', 'amber', 'red')
    >>> level(0.02, None, 0.08), level(None, None, None)
    ('amber', 'grey')
    """
    if ece is None and roc_auc is None and mce is None:
        return "grey"
    if (ece or 0.0) > 0.15 or (roc_auc is not None and roc_auc < 0.75) or (mce or 0.0) > 0.2:
        return "red"
    known = ece is not None and roc_auc is not None and mce is not None
    return "green" if known and ece <= 0.05 and roc_auc >= 0.8 and mce <= 0.15 else "amber"  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class SegmentLine:
    """One value of a segment column in the report's window, such as ``channel`` = ``web``.

    ``correlation`` is the point-biserial correlation of score and outcome; None: not known.
    """

    column: str
    value: str
    rows: int
    ece: Interval
    overconfidence: Interval
    roc_auc: Interval
    correlation: float | None = None


@dataclass(frozen=True)
class SubjectReport:
    """Everything about one subject in one window: its story, a trend that ends with the window, its verdicts and bins.

    ``given`` are its estimates, ``counts`` its rows (None where the history keeps none, or has none). ``target`` is the
    accuracy that the threshold must be shown to reach, 0 < target < 1 (else ValueError). What needs the counts is
    computed when it is shown, and is None or empty without them. ``story`` is None where no rule judged it. ``trend``
    is of the metric that the story is about, else of the ECE. ``maturity`` is how many items have their truth, where
    the source counts those without one. Not ``accepted``: so many of its rows were rejected that the rest say nothing.
    """

    subject: Subject
    window: Window
    given: Iterable[Estimate]
    counts: Counts | None
    evaluation: EvaluationConfig
    automate_at: float
    target: float
    story: LabelStory | None = None
    trend: Trend | None = None
    verdicts: tuple[Verdict, ...] = ()
    reliability: Reliability | None = None
    segments: tuple[SegmentLine, ...] = ()
    maturity: Maturity | None = None
    accepted: bool = True

    @property
    def rows(self) -> int:
        """How many rows with a truth the window has."""
        return max((e.n for e in self.estimates if e.where == "all" and not e.detail.get("before_truth")), default=0)

    @property
    def level(self) -> Level:
        """The handbook's light; grey where too many rows were rejected."""
        if not self.accepted:
            return "grey"
        return level(self.value("ece"), self.value("roc_auc"), self.value("mce"))

    def value(self, metric: str, where: Where = "all") -> float | None:
        """The debiased value of one metric, or None."""
        interval = self.interval(metric, where)
        return None if interval is None else interval.value

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """All metrics in the order of the registry."""

        def place(e: Estimate) -> tuple[int, str, int]:
            return _ORDER.get(e.metric, len(_ORDER)), e.metric, WHERES.index(e.where)

        return tuple(sorted(self.given, key=place))

    def interval(self, metric: str, where: Where = "all") -> Interval | None:
        """One metric over one population with its limits, or None."""
        return next((e.interval for e in self.estimates if (e.metric, e.where) == (metric, where)), None)

    @cached_property
    def gains(self) -> dict[Method, Gain]:
        """What each way of recalibrating would bring to a label in a week: a day has too few rows."""
        if self.counts is None or self.subject.label is None or self.window.schedule != "weekly":
            return {}
        rng = generator(self.evaluation.seed, self.subject, "recalibration", self.window.name)
        found = gains_on_unseen([self.counts], rng, self.evaluation)
        return {method: gain for method, gain in found.items() if gain.after is not None}

    @cached_property
    def operating(self) -> OperatingPoint | None:
        """The threshold for the target accuracy."""
        if self.counts is None:
            return None
        return threshold_for(self.counts, self.target, confidence=self.evaluation.confidence)

    @property
    def risk_coverage(self) -> Curve | None:
        """The curve, with the point of that threshold."""
        threshold = None if self.operating is None else self.operating.threshold
        return None if self.counts is None else risk_coverage_data(self.counts, threshold)

    @property
    def boxes(self) -> Mapping[str, FiveNumbers]:
        """The scores of right and of wrong decisions."""
        return {} if self.counts is None else score_boxes(self.counts)

    @property
    def tenths(self) -> BinCounts | None:
        """The rows by tenths of the scores."""
        return None if self.counts is None else bin_counts(self.counts, equal_width_edges(TENTHS))

    @property
    def classes(self) -> ClassTables | None:
        """The K x K tables of a multiclass source."""
        return next((of_detail(e.detail) for e in self.estimates if e.metric == KEPT_IN), None)


@dataclass(frozen=True, slots=True)
class ReportNote:
    """A sentence about a source in the window; ``source`` None: about the report."""

    text: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything about one window.

    ``shifted`` are the tests among ``shifts`` that found a shift; all tests of a source are one family. ``target`` is
    the accuracy that chosen thresholds must reach. ``nothing`` is what a report without subjects says.
    """

    window: Window
    zone: str
    generated_at: datetime
    subjects: tuple[SubjectReport, ...]
    quality: tuple[RejectedRows, ...] = ()
    shifts: tuple[ShiftResult, ...] = ()
    shifted: tuple[ShiftFinding, ...] = ()
    noted: tuple[ReportNote, ...] = ()
    target: float = TARGET_ACCURACY
    nothing: str = NOTHING

    @property
    def notes(self) -> tuple[str, ...]:
        """The texts of the notes."""
        return tuple(note.text for note in self.noted)

    @property
    def tz(self) -> ZoneInfo:
        """The time zone in which days are shown."""
        return ZoneInfo(self.zone)

    @property
    def stories(self) -> list[LabelStory]:
        """The stories of all subjects that were judged."""
        return [report.story for report in self.by_attention if report.story is not None]

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdicts of all subjects."""
        return tuple(verdict for report in self.subjects for verdict in report.verdicts)

    @property
    def by_attention(self) -> tuple[SubjectReport, ...]:
        """The subjects, those that need somebody first, then by name."""
        order = list(DiagnosisState)

        def urgency(report: SubjectReport) -> tuple[int, str, str]:
            state = len(order) if report.story is None else order.index(report.story.state)
            return state, report.subject.source, report.subject.label or ""

        return tuple(sorted(self.subjects, key=urgency))


def only(data: ReportData, source: str | None = None, label: str | None = None) -> ReportData:
    """The report of one source, one label, or one label of one source. None: all of them; "*": sources as a whole.

    What concerns a source as a whole (rejected rows, notes) stays in the reports of its labels.
    """

    def chosen(of: Subject) -> bool:
        wanted = label in (None, of.label) or (label == AS_A_WHOLE and of.label is None)
        return source in (None, of.source) and wanted

    subjects = tuple(report for report in data.subjects if chosen(report.subject))
    return replace(
        data,
        subjects=subjects,
        shifts=tuple(s for s in data.shifts if chosen(s.subject)),
        shifted=tuple(f for f in data.shifted if chosen(f.result.subject)),
        quality=tuple(q for q in data.quality if source in (None, q.source)),
        noted=tuple(note for note in data.noted if source is None or note.source in (None, source)),
    )


def nothing_of(data: ReportData, source: str, newest: str | None, *, configured: bool) -> str:
    """What is true of a source without a result in the window of ``data``, the report of all sources.

    ``newest`` is the name of its newest window with a result (None: it has none), ``configured`` whether alerts.yaml
    has the source.
    """
    window, others = data.window.name, sorted({report.subject.source for report in data.subjects})
    unknown = "" if configured else ", which alerts.yaml does not have,"
    other = (
        f"its newest result is of {newest}" if newest is not None else f"it has none of any other {data.window.unit}"
    )
    known = f"has results of {words.listed(others)}" if others else "has no result of any source"
    return f"{clean(source)}{unknown} has no result of {window}; {other}; {window} {known}"
