"""What a report is made of: plain records, so that a page can be drawn without a history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from monitor.figures.reliability import Reliability
from monitor.figures.trend import Trend, TrendPoint
from monitor.metrics.calibration import GapMatrix
from monitor.records import Interval, Quality, Severity, ShiftResult, Subject, SwitchState, Verdict, Where, Window
from monitor.report.detail import TARGET_ACCURACY, Detail
from monitor.report.light import Light, light

_SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
_LIGHTS: tuple[Light, ...] = ("red", "amber", "grey", "green")


@dataclass(frozen=True, slots=True)
class BaselineLine:
    """Which baseline a subject is compared with."""

    version: int
    start: datetime
    end: datetime
    first_window: str
    last_window: str
    rows: int


@dataclass(frozen=True, slots=True)
class SegmentLine:
    """One value of a segment column in the report's window, such as ``channel`` = ``web``; no rule runs on it.

    ``correlation`` is the point-biserial one of score and outcome, None where it is not known.
    """

    column: str
    value: str
    rows: int
    ece: Interval
    shortfall: Interval
    roc_auc: Interval
    correlation: float | None = None


@dataclass(frozen=True, slots=True)
class SwitchLine:
    """The switch of one label as people read it: ``state`` is what holds at the report's time."""

    source: str
    label: str | None
    state: str
    blocked: tuple[tuple[float, float], ...] = ()
    lease_until: datetime | None = None
    changed_at: datetime | None = None
    actor: str = ""
    reason: str = ""

    @property
    def words(self) -> str:
        """The state in a few words: ``on``, ``on but 0.80 to 0.90``, ``off (lease ended)``."""
        ranges = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in self.blocked)
        return f"{self.state} but {ranges}" if ranges and self.state == "on" else self.state


def switch_line(state: SwitchState, now: datetime) -> SwitchLine:
    """The line of one switch; an "on" whose lease has ended is off, whatever is stored.

    >>> from datetime import UTC, datetime
    >>> switch_line(SwitchState("tickets", "billing"), datetime(2026, 11, 16, tzinfo=UTC)).words
    'off (never set)'
    """
    words = {"never_set": "off (never set)", "off": "off", "on": "on"}[state.state]
    if state.state == "on" and state.lease_until is not None and state.lease_until <= now:
        words = "off (lease ended)"
    return SwitchLine(
        state.source, state.label, words, state.blocked, state.lease_until, state.changed_at, state.actor, state.reason
    )


@dataclass(frozen=True, slots=True)
class SubjectReport:
    """Everything about one subject: trends that end with the report's window, its verdicts, its bins."""

    subject: Subject
    trends: tuple[Trend, ...]
    verdicts: tuple[Verdict, ...] = ()
    reliability: Reliability | None = None
    baseline: BaselineLine | None = None
    switch: SwitchLine | None = None
    segments: tuple[SegmentLine, ...] = ()
    detail: Detail | None = None

    def trend(self, metric: str, where: Where = "all") -> Trend | None:
        """The trend of one metric over one population, or None."""
        return next((t for t in self.trends if (t.metric, t.where) == (metric, where)), None)

    def last(self, metric: str, where: Where = "all") -> TrendPoint | None:
        """What one metric was in the report's window, or None."""
        trend = self.trend(metric, where)
        return None if trend is None else trend.last

    def value(self, metric: str, where: Where = "all") -> float | None:
        """The debiased value of one metric in the report's window."""
        point = self.last(metric, where)
        return None if point is None else point.value

    @property
    def rows(self) -> int:
        """How many rows the report's window has."""
        seen = [t.last.n for t in self.trends if t.where == "all" and t.last is not None]
        seen += [] if self.detail is None else [e.n for e in self.detail.estimates if e.where == "all"]
        return max(seen, default=0)

    @property
    def breaches(self) -> tuple[Verdict, ...]:
        """The verdicts that are breaches, the most severe first."""
        found = [verdict for verdict in self.verdicts if verdict.outcome == "breach"]
        return tuple(sorted(found, key=lambda v: (_SEVERITIES.index(v.severity), v.rule)))

    @property
    def evaluated(self) -> bool:
        """Whether any rule could be judged in the report's window."""
        return any(verdict.outcome != "not_evaluated" for verdict in self.verdicts)

    @property
    def light(self) -> Light:
        """The band of the report's window."""
        return light(self.value("ece"), self.value("roc_auc"), self.value("mce"), evaluated=self.evaluated)

    @property
    def change(self) -> tuple[float | None, float | None, float | None]:
        """The change of ECE against the baseline, with its interval where a rule has judged it."""
        return self.change_of("ece")

    def change_of(self, metric: str) -> tuple[float | None, float | None, float | None]:
        """The change of a metric of all rows against the baseline, with its interval where a rule has judged it."""
        for verdict in self.verdicts:
            if (verdict.metric, verdict.where) == (metric, "all") and verdict.change is not None:
                return verdict.change, verdict.change_low, verdict.change_high
        trend, value = self.trend(metric), self.value(metric)
        if trend is None or trend.baseline is None or value is None:
            return None, None, None
        return value - trend.baseline, None, None


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything about one window, as the page, the Markdown and the terminal show it.

    ``target`` is the accuracy that the chosen thresholds are to reach, ``gaps`` the label x bin matrix of hit rate
    minus mean score, its labels being names of subjects.
    """

    window: Window
    zone: str
    generated_at: datetime
    subjects: tuple[SubjectReport, ...]
    quality: tuple[Quality, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    automation: Sequence[SwitchLine] = ()
    shifts: tuple[ShiftResult, ...] = ()
    notes: tuple[str, ...] = ()
    target: float = TARGET_ACCURACY
    gaps: GapMatrix | None = None

    @property
    def tz(self) -> ZoneInfo:
        """The time zone in which days are shown."""
        return ZoneInfo(self.zone)

    @property
    def by_attention(self) -> tuple[SubjectReport, ...]:
        """The subjects, those first that need somebody: breaches by severity, then the light, then by name."""
        return tuple(sorted(self.subjects, key=_attention))

    @property
    def breaches(self) -> tuple[Verdict, ...]:
        """All breaches of the window, the most severe first."""
        found = [verdict for verdict in self.verdicts if verdict.outcome == "breach"]
        return tuple(sorted(found, key=lambda v: (_SEVERITIES.index(v.severity), v.subject.name, v.rule)))


def _attention(report: SubjectReport) -> tuple[int, int, str, str]:
    worst = _SEVERITIES.index(report.breaches[0].severity) if report.breaches else len(_SEVERITIES)
    return worst, _LIGHTS.index(report.light), report.subject.source, report.subject.label or ""


def only(data: ReportData, source: str | None = None, label: str | None = None) -> ReportData:
    """The report of one source, of one label, or of one label of one source; None: of all.

    What is about a source as a whole (rows set aside, its notes) stays.
    """

    def chosen(of: str, about: str | None) -> bool:
        return source in (None, of) and label in (None, about)

    kept = tuple(report for report in data.subjects if chosen(report.subject.source, report.subject.label))
    return replace(
        data,
        subjects=kept,
        verdicts=tuple(v for v in data.verdicts if chosen(v.subject.source, v.subject.label)),
        automation=tuple(line for line in data.automation if chosen(line.source, line.label)),
        shifts=tuple(s for s in data.shifts if chosen(s.subject.source, s.subject.label)),
        quality=tuple(q for q in data.quality if source in (None, q.source)),
        gaps=None if data.gaps is None else _of_labels(data.gaps, {report.subject.name for report in kept}),
    )


def _of_labels(gaps: GapMatrix, names: Collection[str]) -> GapMatrix:
    kept = [place for place, name in enumerate(gaps.labels) if name in names]
    labels = tuple(gaps.labels[place] for place in kept)
    return GapMatrix(labels, gaps.gap[kept], gaps.rows[kept], gaps.upper[kept])


def headline(data: ReportData) -> str:
    """The week in one sentence."""
    labels = [report for report in data.subjects if report.subject.label is not None]
    breaching = [report for report in labels if report.breaches]
    silent = [report for report in labels if not report.evaluated]
    off = [line for line in data.automation if line.label is not None and line.state != "on"]
    parts = [f"{len(breaching)} of {len(labels)} {_plural('label', len(labels))} in breach"]
    if silent:
        parts.append(f"{len(silent)} not evaluated")
    if data.automation:
        parts.append(f"automation off for {len(off)}")
    return "; ".join(parts) + "."


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
