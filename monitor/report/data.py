"""The records of a report: plain, so that a page can be drawn without a history."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from monitor.automation.harm import UNITS
from monitor.automation.state import CLOCK_IS_BEHIND, CLOSED_HISTORY, GateReason, effective
from monitor.core.maturity import Maturity
from monitor.core.records import (
    Estimate,
    Identity,
    Interval,
    RejectedRows,
    ShiftResult,
    Subject,
    SwitchState,
    Verdict,
    Where,
    Window,
)
from monitor.core.wording import clean, segment_name
from monitor.evaluation.label_state import LabelState, State, counts_text, state_of
from monitor.evaluation.shift.findings import ShiftFinding
from monitor.metrics.calibration import GapMatrix
from monitor.metrics.names import EXPECTED
from monitor.report import words
from monitor.report.conclusions import Level, level
from monitor.report.detail import TARGET_ACCURACY, Detail
from monitor.report.figures.reliability import Reliability
from monitor.report.figures.scale import Scale, scale_of
from monitor.report.figures.trend import Trend, TrendPoint

NOTHING = "Nothing of this window is in the history"


@dataclass(frozen=True, slots=True)
class BaselineLine:
    """The baseline with which a subject is compared."""

    version: int
    start: datetime
    end: datetime
    first_window: str
    last_window: str
    rows: int


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


@dataclass(frozen=True, slots=True)
class SwitchRow:
    """The switch of one label at one time in words: ``state`` is the state in effect, also by its source's switch.

    ``changed_at``, ``actor`` and ``reason`` are of the change that led to it; if the source is off, of the source's.
    """

    source: str
    label: str | None
    state: str
    blocked: tuple[tuple[float, float], ...] = ()
    lease_until: datetime | None = None
    changed_at: datetime | None = None
    actor: str = ""
    reason: str = ""
    segments: tuple[tuple[str, str], ...] = ()

    @property
    def words(self) -> str:
        """The state in a few words: ``on``, ``on but 0.80 to 0.90, channel = web``, ``off (lease ended)``."""
        closed = [f"{low:.2f} to {high:.2f}" for low, high in self.blocked]
        closed += [segment_name(*segment) for segment in self.segments]
        return f"{self.state} but {', '.join(closed)}" if closed and self.state == "on" else self.state


def switch_line(
    state: SwitchState, at: datetime, whole: SwitchState | None = None, identity: Identity | None = None
) -> SwitchRow:
    """The line of one switch at ``at``; an "on" whose lease has ended, or whose source (``whole``) is off, is off.

    >>> from datetime import UTC, datetime
    >>> switch_line(SwitchState("tickets", "billing"), datetime(2026, 11, 16, tzinfo=UTC)).words
    'off (never set)'
    """
    found = effective(state, at, whole=whole, identity=identity)

    def line(words: str, by: SwitchState = state) -> SwitchRow:
        who = by.changed_at, by.actor, by.reason
        return SwitchRow(state.source, state.label, words, found.blocked, state.lease_until, *who, found.segments)

    if found.allowed:
        return line("on")
    if found.reason in CLOSED_HISTORY or found.reason == GateReason.CLOCK_BEHIND:
        why = CLOCK_IS_BEHIND if found.reason == GateReason.CLOCK_BEHIND else found.detail
        return line(f"off ({why})", SwitchState(state.source, None))
    if state.state != "on":
        if state.state != "never_set":
            return line("off")
        return line("off (never set)", SwitchState(state.source, None))  # somebody may have changed a segment of it
    # names who turned it off and why, not who once turned it on
    if not effective(state, at, whole=None).allowed:
        return line("off (lease ended)", SwitchState(state.source, None, changed_at=state.lease_until))
    by = whole if whole is not None and whole.state == "off" else SwitchState(state.source, None)
    return line("off (the whole source is off)", by)


@dataclass(frozen=True, slots=True)
class MetricChange:
    """The change of a metric against the baseline, with its interval where a rule has judged it.

    ``value`` is the metric after the change, over the same span: this window alone, or all ``windows`` that a
    verdict pooled.
    """

    change: float | None = None
    low: float | None = None
    high: float | None = None
    value: float | None = None
    windows: int = 1


def _is_of_all_rows(found: Trend | Estimate) -> bool:
    """Whether it is about all rows with a truth; estimates before the truth are about other rows."""
    return found.where == "all" and found.metric not in EXPECTED


@dataclass(frozen=True, slots=True)
class SubjectReport:
    """Everything about one subject: trends that end with the report's window, its verdicts, its bins.

    ``switch`` is its switch as of the window's run, ``switch_now`` when the report was made; ``maturity`` is how many
    items have their truth, where the source counts those without one.
    """

    subject: Subject
    trends: tuple[Trend, ...]
    verdicts: tuple[Verdict, ...] = ()
    reliability: Reliability | None = None
    baseline: BaselineLine | None = None
    switch: SwitchRow | None = None
    switch_now: SwitchRow | None = None
    segments: tuple[SegmentLine, ...] = ()
    detail: Detail | None = None
    maturity: Maturity | None = None

    def trend(self, metric: str, where: Where = "all") -> Trend | None:
        """The trend of one metric over one population, or None."""
        return next((t for t in self.trends if (t.metric, t.where) == (metric, where)), None)

    def last(self, metric: str, where: Where = "all") -> TrendPoint | None:
        """The point of one metric in the report's window, or None."""
        trend = self.trend(metric, where)
        return None if trend is None else trend.last

    def value(self, metric: str, where: Where = "all") -> float | None:
        """The debiased value of one metric in the report's window, or None."""
        point = self.last(metric, where)
        return None if point is None else point.value

    @property
    def rows(self) -> int:
        """How many rows the report's window has."""
        counts = [t.last.n for t in self.trends if _is_of_all_rows(t) and t.last is not None]
        counts += [] if self.detail is None else [e.n for e in self.detail.estimates if _is_of_all_rows(e)]
        return max(counts, default=0)

    @property
    def state(self) -> LabelState:
        """The state of the subject by its verdicts."""
        return state_of(self.verdicts)

    @property
    def breaches(self) -> tuple[Verdict, ...]:
        """The verdicts that are breaches, the most severe first."""
        return self.state.breaches

    @property
    def level(self) -> Level:
        """The handbook's level of the report's window; no verdict."""
        if self.detail is not None:
            return self.detail.conclusion.level
        return level(self.value("ece"), self.value("roc_auc"), self.value("mce"), evaluated=self.state.evaluated)

    @property
    def change(self) -> MetricChange:
        """The change of ECE."""
        return self.change_of("ece")

    def change_of(self, metric: str) -> MetricChange:
        """The change of a metric of all rows against the baseline."""
        for v in self.verdicts:
            if (v.metric, v.where, v.subject.segment) == (metric, "all", None) and v.change is not None:
                return MetricChange(v.change, v.change_low, v.change_high, v.value, v.windows)
        trend, value = self.trend(metric), self.value(metric)
        if trend is None or trend.baseline is None or value is None:
            return MetricChange()
        return MetricChange(value - trend.baseline, value=value)


@dataclass(frozen=True, slots=True)
class ReportNote:
    """A sentence about a source in the window; ``source`` None: about the report."""

    text: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ReportData:
    """Everything about one window, as the page, the Markdown and the terminal show it.

    ``automation`` are the switches as of the window's run, which ended at ``switched_at`` (None: no run is known, and
    they are the present ones); ``automation_now`` those at ``generated_at``. ``target`` is the accuracy that the chosen
    thresholds must reach, ``gaps`` the label x bin matrix of hit rate minus mean score, by names of subjects,
    ``ranges`` the same over tenths of the scores, the same for all.
    """

    window: Window
    zone: str
    generated_at: datetime
    subjects: tuple[SubjectReport, ...]
    quality: tuple[RejectedRows, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    automation: Sequence[SwitchRow] = ()
    automation_now: Sequence[SwitchRow] = ()
    switched_at: datetime | None = None
    shifts: tuple[ShiftResult, ...] = ()
    shifted: tuple[ShiftFinding, ...] = ()
    """The tests among ``shifts`` that found a shift; all tests of a source are one family."""
    noted: tuple[ReportNote, ...] = ()
    target: float = TARGET_ACCURACY
    gaps: GapMatrix | None = None
    ranges: GapMatrix | None = None
    nothing: str = NOTHING
    """What a report without subjects says, without the full stop."""

    @property
    def notes(self) -> tuple[str, ...]:
        """The texts of the notes."""
        return tuple(note.text for note in self.noted)

    @property
    def tz(self) -> ZoneInfo:
        """The time zone in which days are shown."""
        return ZoneInfo(self.zone)

    @property
    def by_attention(self) -> tuple[SubjectReport, ...]:
        """The subjects by state, worst first, then by name."""

        def urgency(report: SubjectReport) -> tuple[tuple[int, int], str, str]:
            return report.state.rank, report.subject.source, report.subject.label or ""

        return tuple(sorted(self.subjects, key=urgency))

    @property
    def unit(self) -> str:
        """What a window is called: week or day."""
        return UNITS[self.window.schedule]

    @property
    def scales(self) -> dict[tuple[str, Where], Scale]:
        """The scale of the trends of each metric, over all subjects that are shown."""
        by_series: dict[tuple[str, Where], list[Trend]] = {}
        for trend in (trend for report in self.subjects for trend in report.trends):
            by_series.setdefault((trend.metric, trend.where), []).append(trend)
        return {
            key: scale_of(
                key[0],
                [value for trend in trends for value in (*trend.values, None if trend.empty else trend.baseline)],
                [line.level for trend in trends if not trend.empty for line in trend.thresholds],
            )
            for key, trends in by_series.items()
        }

    @property
    def breaches(self) -> tuple[Verdict, ...]:
        """All breaches of the window, the most severe first."""
        return state_of(self.verdicts).breaches


AS_A_WHOLE = "*"
"""In place of a label's name: the source as a whole."""


def only(data: ReportData, source: str | None = None, label: str | None = None) -> ReportData:
    """The report of one source, one label, or one label of one source. None: all of them; "*": sources as a whole.

    What concerns a source as a whole (rejected rows, notes) stays in the reports of its labels.
    """

    def chosen(of: str, about: str | None) -> bool:
        return source in (None, of) and (label in (None, about) or (label == AS_A_WHOLE and about is None))

    subjects = tuple(report for report in data.subjects if chosen(report.subject.source, report.subject.label))
    names = {report.subject.name for report in subjects}
    return replace(
        data,
        subjects=subjects,
        verdicts=tuple(v for v in data.verdicts if chosen(v.subject.source, v.subject.label)),
        automation=tuple(line for line in data.automation if chosen(line.source, line.label)),
        automation_now=tuple(line for line in data.automation_now if chosen(line.source, line.label)),
        shifts=tuple(s for s in data.shifts if chosen(s.subject.source, s.subject.label)),
        shifted=tuple(f for f in data.shifted if chosen(f.result.subject.source, f.result.subject.label)),
        quality=tuple(q for q in data.quality if source in (None, q.source)),
        noted=tuple(note for note in data.noted if source is None or note.source in (None, source)),
        gaps=_of(data.gaps, names),
        ranges=_of(data.ranges, names),
    )


def nothing_of(data: ReportData, source: str, newest: str | None, *, configured: bool) -> str:
    """What is true of a source without a result in the window of ``data``, the report of all sources.

    ``newest`` is the name of its newest window with a result (None: it has none), ``configured`` whether alerts.yaml
    has the source.
    """
    window, others = data.window.name, sorted({report.subject.source for report in data.subjects})
    unknown = "" if configured else ", which alerts.yaml does not have,"
    other = f"its newest result is of {newest}" if newest is not None else f"it has none of any other {data.unit}"
    known = f"has results of {words.listed(others)}" if others else "has no result of any source"
    return f"{clean(source)}{unknown} has no result of {window}; {other}; {window} {known}"


def headline(data: ReportData) -> str:
    """The window in one sentence: its labels by state, each source as a whole, the switch then."""
    labels = [report.state for report in data.subjects if report.subject.label is not None]
    parts = [counts_text(labels) if data.subjects else data.nothing]
    for report in data.subjects:
        if report.subject.label is None:
            level = f", level {report.level}" if report.state.state is State.NO_RULE else ""
            parts.append(f"{report.subject.source} as a whole: {report.state.words}{level}")
    if data.automation:
        parts.append(f"automation {off_text(data.automation)} {at_text(data)}")
    return "; ".join(parts) + "."


def off_text(lines: Sequence[SwitchRow]) -> str:
    """For how many labels automation was off.

    >>> off_text([SwitchRow("tickets", "billing", "off"), SwitchRow("tickets", "refund", "on")])
    'off for 1 of 2 labels'
    """
    labels = [line for line in lines if line.label is not None]
    off = sum(line.state != "on" for line in labels)
    return f"off for {off:,} of {len(labels):,} {'label' if len(labels) == 1 else 'labels'}"


def at_text(data: ReportData) -> str:
    """The time of the switches that a report shows, such as "at the run (16 Nov 2026 06:30)"."""
    at = data.switched_at
    when = "now" if at is None else "at the run"
    return f"{when} ({words.moment_text(at or data.generated_at, data.tz)})"


def now_text(data: ReportData) -> str:
    """The switches when the report was made; "" where the report shows only those."""
    if data.switched_at is None or not data.automation_now:
        return ""
    return f"Automation now ({words.moment_text(data.generated_at, data.tz)}): {off_text(data.automation_now)}."


def _of(matrix: GapMatrix | None, names: Collection[str]) -> GapMatrix | None:
    """The rows of these subjects."""
    if matrix is None:
        return None
    rows = [place for place, name in enumerate(matrix.labels) if name in names]
    labels = tuple(matrix.labels[place] for place in rows)
    return GapMatrix(labels, matrix.gap[rows], matrix.rows[rows], matrix.upper[rows])
