"""``/label/<source>/<label>``: everything that the history has about one label; messages link to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from markupsafe import Markup

from monitor.automation.as_of import any_on, on_spans
from monitor.automation.state import Allowed, effective, of_source
from monitor.automation.staying_off import stays_off
from monitor.config.model import Rule, SourceConfig
from monitor.core import documents, windows
from monitor.core.baseline import Baseline, References, comparable_versions, edges_of
from monitor.core.counts import Counts, bin_counts
from monitor.core.page_paths import drift_file, drift_path, label_path
from monitor.core.records import (
    Estimate,
    Incident,
    Interval,
    Reason,
    ShiftResult,
    Subject,
    SwitchEvent,
    TimelineEvent,
    Verdict,
    Where,
    Window,
)
from monitor.core.wording import advice, count_of, maturity_words, plain_words, segment_name
from monitor.evaluation.baseline_settings import is_about_automated
from monitor.evaluation.label_state import SEVERITIES, state_of
from monitor.evaluation.other_thresholds import acting_at, at_present_threshold
from monitor.evaluation.shift.findings import ShiftFinding, findings
from monitor.evaluation.step_or_slope import WEEKS as STEP_WEEKS
from monitor.evaluation.step_or_slope import StepOrSlope, step_or_slope
from monitor.history.grid import steps_by_label
from monitor.history.readings import COUNTS_REMOVED
from monitor.history.switches import CHANGES
from monitor.metrics.registry import METRICS
from monitor.report import words
from monitor.report.data import AS_A_WHOLE
from monitor.report.decision_checks import text_of
from monitor.report.expected import MEASURED, sentence
from monitor.report.explanation import Explanation, VerdictContext, explain
from monitor.report.figures.evidence import EvidenceLine, evidence_data, evidence_svg
from monitor.report.figures.panels import (
    Flag,
    ScoreBar,
    SwitchSpan,
    histogram_svg,
    reliability_svg,
    score_bars,
    small_line,
    time_panels,
)
from monitor.report.figures.reliability import Reliability, reliability_data
from monitor.report.figures.trend import Trend, trend_data
from monitor.report.shift_words import shift_sentence, step_sentence
from monitor.service.pages.base import Page, PageContent, PageContext, Table
from monitor.service.problems import ProblemReason, RequestRefused

Series = tuple[str, Where]
STANDARD: tuple[Series, ...] = (("ece", "all"), ("mce", "all"), ("roc_auc", "all"), ("overconfidence", "automated"))
OF_NUMBERS: tuple[Series, ...] = (("rmse", "all"), ("r_squared", "all"), ("interval_coverage", "all"))
"""The standard metrics of a source of numbers, which has no labels and no scores."""
BASELINE = "baseline"
_SWITCHED = frozenset({*CHANGES, "segment_held"})
FLAGS, SEGMENTS, SEGMENT_WEEKS = 60, 24, 26


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """An event of a label: its time and kind, its text, who caused it, its link ("": none), its number on the axis."""

    at: datetime
    kind: str
    text: str
    by: str
    link: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True)
class SegmentTrend:
    """The ECE of one segment over the newest weeks, with the rows of the newest one."""

    column: str
    value: str
    ece: float | None
    rows: int
    drawn: Markup


@dataclass(frozen=True)
class LabelHistory:
    """What the page reads about one label; each part is read once."""

    context: PageContext
    subject: Subject
    windows: Sequence[Window]
    """Oldest first."""
    week: Window

    @property
    def source(self) -> SourceConfig | None:
        """Its source in alerts.yaml; None where it was removed."""
        return self.context.config.sources.get(self.subject.source)

    @cached_property
    def rules(self) -> list[Rule]:
        """The weekly rules on the label."""
        source, label = self.source, self.subject.label
        critical = source is not None and source.is_critical(label)
        weekly = self.context.config.rules_for("weekly")
        return [rule for rule in weekly if rule.applies_to(self.subject.source, label, critical=critical)]

    @cached_property
    def verdicts(self) -> list[Verdict]:
        """All current verdicts, without their details."""
        starts = [window.start for window in self.windows]
        return self.context.store.verdict_lines("weekly", starts, [self.subject.source], self.subject.label)

    @cached_property
    def estimates(self) -> list[Estimate]:
        """All estimates of the week shown."""
        source, label = self.subject.source, self.subject.label
        return self.context.store.estimates(schedule="weekly", source=source, label=label, window_start=self.week.start)

    @cached_property
    def baselines(self) -> list[Baseline]:
        """Every version of its baseline, the newest last."""
        return sorted(self.context.store.baselines(self.subject.source, self.subject.label), key=lambda b: b.version)

    @cached_property
    def comparable(self) -> list[Baseline]:
        """The versions that the week shown may be compared with, by the settings of the source; the newest last.

        Automated rows are by the present `automate_at`, as in a run; of a source as a whole those of the newest.
        """
        if self.source is None or not self._as_pinned:
            return self._as_pinned
        if self.subject.label is None:
            whole = self._newest_of_source.baselines.get(None)
            return [*self._as_pinned[:-1], *([] if whole is None else [whole])]
        acts_from, evaluation = self.source.automate_from(self.subject.label), self.context.config.evaluation
        return [acting_at(each, acts_from, evaluation) for each in self._as_pinned]

    @cached_property
    def _as_pinned(self) -> list[Baseline]:
        read_by = self.context.store.settings_of("weekly", self.week.start, self.subject.source)
        return comparable_versions(self.baselines, self.counts, read_by)

    @cached_property
    def _newest_of_source(self) -> References:
        """The newest version of the source as a whole with those of its labels, by the present `automate_at`."""
        if self.source is None or self.subject.label is not None or not self._as_pinned:
            return References()
        newest = self._as_pinned[-1]
        labels = self.context.store.baselines(self.subject.source, version=newest.version)
        pinned = References({**{each.label: each for each in labels}, None: newest})
        return at_present_threshold(pinned, self.source, self.context.config.evaluation)

    @cached_property
    def trends(self) -> list[Trend]:
        """The trends of the standard metrics and of those of its rules, where they have a value."""
        named = [(rule.metric, rule.where) for rule in self.rules]
        watched: list[Series] = [(metric, where) for metric, where in named if metric is not None and metric in METRICS]
        series = list(dict.fromkeys((*(STANDARD if _has_scores(self) else OF_NUMBERS), *watched)))
        beside = [MEASURED[each] for each in series if each in MEASURED]
        found = self.context.store.grid_numbers(
            [window.start for window in self.windows],
            self.subject.source,
            [self.subject.label],
            [*series, *beside],
            schedule="weekly",
        )
        at = {window.start: window for window in self.windows}
        estimates = [
            Estimate(
                self.subject,
                at[row.window_start],
                row.metric,
                row.population,
                Interval(row.value, row.low, row.high, None),
                row.n,
                0.0,
            )
            for row in found
        ]
        trends = [
            trend_data(
                *each, estimates, self.verdicts, windows=self.windows, baseline=self.reference(each), rules=self.rules
            )
            for each in series
        ]
        return [_with_expected(trend, estimates, self.windows) for trend in trends if not trend.empty]

    def reference(self, series: Series) -> float | None:
        """The baseline's value: from the newest verdict that compared with it, else the baseline's textbook value."""
        metric, where = series
        if self.baselines and not self.comparable:
            return None
        compared = [v for v in self.verdicts if (v.metric, v.where) == series and v.baseline is not None]
        if compared:
            return max(compared, key=lambda v: v.window.start).baseline
        known = METRICS[metric]
        if is_about_automated(metric, where) and None in self._newest_of_source.not_cut:
            return None
        if not self.comparable or known.needs != "counts" or known.rank is not None:
            return None
        return known.point(self.comparable[-1].counts.where(where))

    @cached_property
    def counts(self) -> Counts | None:
        """The counts of the week shown."""
        return self._counts(self.week)

    def _counts(self, window: Window) -> Counts | None:
        found = self.context.store.counts_of("weekly", window.start, self.subject.source, self.subject.label)
        return found if found is not None and found.rows else None

    @property
    def counts_removed(self) -> bool:
        """Whether the counts of the week shown were removed because they are old."""
        reading = self.context.store.load_reading("weekly", self.week.start, self.subject.source)
        return reading is not None and reading.state == COUNTS_REMOVED

    @cached_property
    def other(self) -> tuple[str, Counts | None]:
        """What the week is compared with: its name, and its counts. Raises RequestRefused for an unknown week."""
        name = self.context.text("against") or BASELINE
        if name == BASELINE:
            return self._baseline()
        found = next((window for window in self.windows if window.name == name), None)
        if found is None:
            raise RequestRefused(ProblemReason.UNKNOWN_WEEK)
        return name, self._counts(found)

    def _baseline(self) -> tuple[str, Counts | None]:
        if not self.comparable:
            return "", None
        newest = self.comparable[-1]
        return f"baseline {newest.version} ({newest.first_window} to {newest.last_window})", newest.counts

    @cached_property
    def shifts(self) -> tuple[list[ShiftResult], list[ShiftFinding]]:
        """Its shift tests of the week shown, and those that found a shift; all tests of its source are one family."""
        every = self.context.store.shifts("weekly", self.week.start, self.subject.source)
        found = findings(every, self.context.config.evaluation.false_discovery_rate)
        return (
            [shift for shift in every if shift.subject == self.subject],
            [each for each in found if each.result.subject == self.subject],
        )

    @cached_property
    def step(self) -> StepOrSlope | None:
        """The ECE of the week shown beside the weeks just before it and the baseline, if that is of earlier weeks.

        Weeks in which the label's rows were rejected are left out.
        """
        rejected = {v.window.start for v in self.verdicts if v.reason == Reason.REJECTED_ROWS}
        if self.counts is None or self.week.start in rejected:
            return None
        past = [w for w in windows.before(self.week, STEP_WEEKS, self.context.config.zone) if w.start not in rejected]
        before = [counts for window in past if (counts := self._counts(window)) is not None]
        earlier = [each for each in self.comparable if each.end <= self.week.start]
        baseline = earlier[-1] if earlier else None
        return step_or_slope(self.subject, self.week, self.counts, before, baseline, self.context.config.evaluation)

    @property
    def drift(self) -> str:
        """The address of the page on features of its source; "" where no run of the week shown kept one."""
        kept = self.context.settings.report_dir / "weekly" / self.week.name / drift_file(self.subject.source)
        return drift_path(self.subject.source, self.week.name) if kept.is_file() else ""

    @property
    def automation(self) -> Allowed:
        """Whether the label may act now, or for which part of a source's labels automation is on."""
        store, (source, label), now = self.context.store, (self.subject.source, self.subject.label), self.context.now
        stored, identity = {(each.source, each.label): each for each in store.switches()}, store.identity()
        if label is None:
            return of_source(source, stored, now.astimezone(UTC), identity=identity)
        whole = stored.get((source, None))
        return effective(store.switch(source, label), now.astimezone(UTC), whole=whole, identity=identity)

    @property
    def stays(self) -> str:
        """Why automation does not come back by itself, where alerts.yaml has lost the rules that would judge it."""
        switch = self.context.store.switch(self.subject.source, self.subject.label)
        return stays_off(switch, self.context.config)


def _with_expected(trend: Trend, estimates: Sequence[Estimate], windows: Sequence[Window]) -> Trend:
    """The trend with the estimates before the truth that are drawn beside it."""
    beside = MEASURED.get((trend.metric, trend.where))
    if beside is None:
        return trend
    found = trend_data(*beside, estimates, (), windows=windows)
    return trend if found.empty else replace(trend, expected=found.points)


def make(context: PageContext) -> PageContent:
    """The page of a label, also of one without data. Raises RequestRefused for an unknown source."""
    source, label = context.text("source"), context.text("label")
    newest, week = context.weeks(), context.week()
    labels = context.store.known_labels(source)
    is_whole = not label or (label == AS_A_WHOLE and label not in labels)
    subject = Subject(source, None if is_whole else label)
    if subject.source not in context.config.sources and not labels:
        raise RequestRefused(ProblemReason.UNKNOWN_SOURCE)
    unknown = PageContent("label_unknown.html.j2", subject.name, {"subject": subject, "week": week})
    if week is None:
        return unknown
    history = LabelHistory(context, subject, newest[::-1], week)
    if subject.label is not None and subject.label not in labels and not history.trends:
        return unknown
    verdicts = _of_week(history)
    events, reliability, bars = _events(history), _reliability(history), _bars(history)
    name, _ = history.other
    trends, evidence = history.trends, evidence_data(each.verdict for each in verdicts)
    values: dict[str, Any] = {
        "subject": subject, "week": history.week, "weeks": [window.name for window in newest], "against": name,
        "state": state_of(v.verdict for v in verdicts), "automation": history.automation, "stays": history.stays,
        "explained": verdicts,
        "plain_words": plain_words, "advice": advice, "check_text": text_of, "documents": documents.pages(),
        "panels": _panels(history, trends, events) if trends else Markup(), "trends": trends,
        "events": events[::-1], "segments": _segments(history), "reliability": reliability, "bars": bars,
        "drawn_reliability": reliability and reliability_svg(reliability, (history.week.name, name)),
        "drawn_scores": bars and histogram_svg(bars, _automate_at(history), (history.week.name, name)),
        "automate_at": _automate_at(history), "has_scores": _has_scores(history),
        "items": f"{label_path(subject.source, subject.label)}",
        "shifts": history.shifts[0], "shifted": [found.result for found in history.shifts[1]],
        "shift_sentence": shift_sentence(*history.shifts), "drift": history.drift,
        "step": history.step and step_sentence(history.step),
        "baselines": history.baselines, "evidence": [(line, evidence_svg(line)) for line in evidence],
        "expected": any(trend.expected for trend in trends),
        "before_truth": sentence(e for e in history.estimates if e.subject == subject),
        "truths": _truths(history), "removed": history.counts is None and history.counts_removed,
    }  # fmt: skip
    tables = {
        "trend": lambda: _trend_table(history.trends),
        "verdicts": lambda: _verdict_table(history.verdicts),
        "reliability": lambda: _bin_table(reliability),
        "scores": lambda: _bar_table(bars),
        "segments": lambda: _segment_table(history),
        "events": lambda: _event_table(events),
        "evidence": lambda: _evidence_table(evidence),
        "shifts": lambda: _shift_table(history),
    }
    return PageContent("label.html.j2", subject.name, values, tables)


def _truths(history: LabelHistory) -> str:
    """The label maturity of the week shown; "" where the source does not count rows without a truth."""
    start, (source, label) = history.week.start, (history.subject.source, history.subject.label)
    found = history.context.store.maturities("weekly", source, since=start, until=start).get((start, label))
    return "" if found is None else maturity_words(found)


def _automate_at(history: LabelHistory) -> float:
    return 1.0 if history.source is None else history.source.automate_from(history.subject.label)


def _has_scores(history: LabelHistory) -> bool:
    """Whether anything can act from a score: numbers, as of a regression, have none."""
    return history.source is None or history.source.kind != "regression"


def _of_week(history: LabelHistory) -> list[Explanation]:
    """Every verdict of the week shown with its explanation, the worst first."""
    source, label, start = history.subject.source, history.subject.label, history.week.start
    verdicts = history.context.store.verdicts(schedule="weekly", source=source, label=label, window_start=start)
    alone = {(e.metric, e.where): e for e in history.estimates}
    versions = {baseline.version: baseline for baseline in history.baselines}
    order = ("breach", "unconfirmed", "not_evaluated", "ok")
    worst_first = sorted(verdicts, key=lambda v: (order.index(v.outcome), SEVERITIES.index(v.severity), v.rule))
    return [
        explain(
            VerdictContext(
                v,
                history.context.config.revision,
                versions.get(v.baseline_version or 0),
                alone.get((v.metric, v.where)),
            )
        )
        for v in worst_first
    ]


# Over time


def _panels(history: LabelHistory, trends: Sequence[Trend], events: Sequence[LabelEvent]) -> Markup:
    missing: dict[str, set[str]] = {}
    for verdict in history.verdicts:
        if verdict.outcome == "not_evaluated":
            missing.setdefault(verdict.metric, set()).add(verdict.window.name)
    flags = [Flag(e.at, e.number, e.text) for e in events[-FLAGS:]]
    return time_panels(trends, missing, flags, list(_spans(history)), history.week.name, history.windows[-1].end)


def _on(history: LabelHistory, start: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """When automation was on: for the label, or for one label of the source or more."""
    (source, label), store = (history.subject.source, history.subject.label), history.context.store
    gates = store.gate_events()
    if label is not None:
        return on_spans(store.switch_events(source, label), store.switch_events(source, None), gates, start, end)
    steps = steps_by_label(store.switch_steps(source))
    whole = steps.pop("", [])
    return any_on(steps.values(), whole, gates, start, end)


def _spans(history: LabelHistory) -> Iterator[SwitchSpan]:
    """The state of automation over the weeks: off, on, or on except for some scores or segments."""
    start, end = history.windows[0].start, min(history.windows[-1].end, history.context.now)
    source, label, store = history.subject.source, history.subject.label, history.context.store
    steps_of_label, zone = store.switch_events(source, label), history.context.config.zone

    def span_text(what: str, since: datetime, until: datetime) -> str:
        return f"{what} from {words.moment_text(since, zone)} to {words.moment_text(until, zone)}"

    yield SwitchSpan(start, end, "isoff", span_text("off where nothing else is said,", start, end))
    for since, until in _on(history, start, end):
        yield SwitchSpan(since, until, "ison", span_text("on" if label else "on for some labels or all", since, until))
    for place, step in enumerate(steps_of_label):
        following = steps_of_label[place + 1].at if place + 1 < len(steps_of_label) else end
        if step.blocked and step.to_state == "on" and following > start:
            ranges = ", ".join(f"{low:g} to {high:g}" for low, high in step.blocked)
            yield SwitchSpan(step.at, following, "isblocked", span_text(f"scores {ranges} blocked", step.at, following))
        off = ", ".join(segment_name(*e.segment) for e in step.segments if e.off_from is not None)
        if off and step.to_state == "on" and following > start:
            yield SwitchSpan(step.at, following, "isblocked", span_text(f"{off} off", step.at, following))


def _events(history: LabelHistory) -> list[LabelEvent]:
    """The timeline, incidents, and changes of the label's own switch, oldest first, numbered."""
    source, label, store = history.subject.source, history.subject.label, history.context.store
    since, until = history.windows[0].start, max(history.windows[-1].end, history.context.now)
    found = [_timeline_event(e) for e in store.timeline(source, label, since=since, until=until)]
    for incident in store.incidents_of_label(source, label, since=since):
        found += _incident_events(incident, history.context.request.root)
    changes = [*store.switch_events(source, label), *store.gate_events()]
    found += [_switch_event(e) for e in changes if e.at >= since and e.kind in _SWITCHED]
    ordered = sorted(found, key=lambda event: (event.at, event.kind, event.text))
    return [LabelEvent(e.at, e.kind, e.text, e.by, e.link, number) for number, e in enumerate(ordered, 1)]


def _switch_event(event: SwitchEvent) -> LabelEvent:
    return LabelEvent(event.at, "automation", f"{event.kind}: {event.reason}", event.actor)


def _timeline_event(event: TimelineEvent) -> LabelEvent:
    return LabelEvent(event.at, event.kind.replace("_", " "), event.text, event.by)


def _incident_events(incident: Incident, root: str) -> Iterator[LabelEvent]:
    link = f"{root}incidents/{incident.id}"
    by, over = incident.acknowledged_by or "", incident.resolved_by or ""
    yield LabelEvent(incident.opened_at, "incident", f"{incident.reason.replace('_', ' ')}: opened", "", link)
    if incident.acknowledged_at is not None:
        yield LabelEvent(incident.acknowledged_at, "incident", "acknowledged", by, link)
    if incident.resolved_at is not None:
        yield LabelEvent(incident.resolved_at, "incident", "resolved", over, link)


# One week


def _reliability(history: LabelHistory) -> Reliability | None:
    """The week's bins and those of the baseline or of another week, on the baseline's edges if it has one."""
    if history.counts is None:
        return None
    evaluation = history.context.config.evaluation
    edges = (history.comparable[-1].edges if history.comparable else edges_of(history.counts, evaluation))["all"]
    _, other = history.other
    then = None if other is None else bin_counts(other, edges)
    return reliability_data(bin_counts(history.counts, edges), then, confidence=evaluation.confidence)


def _bars(history: LabelHistory) -> tuple[ScoreBar, ...]:
    return () if history.counts is None else score_bars(history.counts, history.other[1])


def _segments(history: LabelHistory) -> list[SegmentTrend]:
    """The largest segments over the newest weeks up to the one shown, by column and size."""
    shown = [window.start for window in history.windows if window.start <= history.week.start][-SEGMENT_WEEKS:]
    rows = history.context.store.segment_numbers(
        shown, history.subject.source, history.subject.label, "ece", schedule="weekly"
    )
    found: dict[tuple[str, str], dict[datetime, tuple[float | None, int]]] = {}
    for segment, start, value, n in rows:
        found.setdefault(segment, {})[start] = value, n
    high = max((value or 0.0 for _, _, value, _ in rows), default=0.0)
    made = []
    for (column, name), values in found.items():
        newest, n = values.get(shown[-1], (None, 0))
        line = [values.get(start, (None, 0))[0] for start in shown]
        drawn = small_line(line, high, f"ECE of {column} {name} over {count_of(len(shown), 'week')}, up to {high:.3f}")
        made.append(SegmentTrend(column, name, newest, n, drawn))
    largest = sorted(made, key=lambda each: -each.rows)[:SEGMENTS]
    return sorted(largest, key=lambda each: (each.column, -each.rows))


# As tables


def _trend_table(trends: Sequence[Trend]) -> Table:
    head = ("week", "start", "metric", "where", "value", "low", "high", "n", "breach", "baseline", "thresholds")
    return Table(head, (
        (p.window, p.start, t.metric, t.where, p.value, p.low, p.high, p.n, int(p.breach), t.baseline,
         "; ".join(f"{line.rule} {line.level}" for line in t.thresholds if line.level is not None))
        for t in _with_estimates(trends) for p in t.points
    ))  # fmt: skip


def _with_estimates(trends: Sequence[Trend]) -> Iterator[Trend]:
    """Each trend, then the estimates that are drawn beside it."""
    for trend in trends:
        yield trend
        if trend.expected:
            yield Trend(*MEASURED[trend.metric, trend.where], trend.expected)


def _verdict_table(verdicts: Sequence[Verdict]) -> Table:
    head = (
        "id", "week", "rule", "metric", "where", "outcome", "reason", "severity", "value", "low", "high", "baseline",
        "change", "change_low", "change_high", "p_adjusted", "threshold", "n", "windows",
    )  # fmt: skip
    ordered = sorted(verdicts, key=lambda v: (v.window.start, v.rule))
    return Table(head, (
        (v.id, v.window.name, v.rule, v.metric, v.where, v.outcome, v.reason.value, v.severity, v.value, v.low, v.high,
         v.baseline, v.change, v.change_low, v.change_high, v.p_adjusted, v.threshold, v.n, v.windows)
        for v in ordered
    ))  # fmt: skip


def _bin_table(found: Reliability | None) -> Table:
    head = ("which", "lower", "upper", "mean_score", "rate", "low", "high", "n")
    both = () if found is None else (("week", found.points), ("other", found.baseline))
    return Table(
        head, ((which, p.lower, p.upper, p.score, p.rate, p.low, p.high, p.n) for which, ps in both for p in ps)
    )


def _bar_table(bars: Sequence[ScoreBar]) -> Table:
    return Table(
        ("low", "high", "rows", "hits", "share_in_other"), ((b.low, b.high, b.rows, b.hits, b.other) for b in bars)
    )


def _shift_table(history: LabelHistory) -> Table:
    head = ("week", "test", "column", "statistic", "p_value", "found", "p_adjusted", "n", "n_baseline")
    shifts, found = history.shifts
    adjusted = {(f.result.test, f.result.column): f.p_adjusted for f in found}
    rows = ((s, adjusted.get((s.test, s.column))) for s in shifts)
    return Table(
        head,
        (
            (history.week.name, s.test, s.column, s.statistic, s.p_value, int(p is not None), p, s.n, s.n_baseline)
            for s, p in rows
        ),
    )


def _segment_table(history: LabelHistory) -> Table:
    at = {window.start: window.name for window in history.windows}
    rows = history.context.store.segment_numbers(
        list(at), history.subject.source, history.subject.label, "ece", schedule="weekly"
    )
    return Table(
        ("week", "column", "value", "ece", "n"), ((at[start], *segment, v, n) for segment, start, v, n in rows)
    )


def _evidence_table(found: Sequence[EvidenceLine]) -> Table:
    head = ("rule", "week", "evidence", "needed", "n", "mean_score", "accuracy")
    return Table(
        head, ((e.rule, p.window, p.evidence, e.needed, p.n, p.promised, p.kept) for e in found for p in e.points)
    )


def _event_table(events: Sequence[LabelEvent]) -> Table:
    return Table(("at", "kind", "what", "by"), ((e.at, e.kind, e.text, e.by) for e in events))


PAGE = Page(
    "/label/{source}/{label:path}", make, aliases=("/label",), query=frozenset({"week", "against", "source", "label"})
)
