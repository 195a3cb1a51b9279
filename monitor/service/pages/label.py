"""``/label/<source>/<label>``: the story of one label, its trend and its scores, and the evidence behind them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from monitor.automation.as_of import lease_ends, on_spans
from monitor.core.page_paths import label_path
from monitor.core.records import Subject, Verdict
from monitor.core.score_ranges import ranges_text
from monitor.core.wording import segment_name
from monitor.evaluation.safe_scores import from_scores
from monitor.history.switches import CHANGES
from monitor.metrics.registry import METRICS
from monitor.report import words
from monitor.report.csv_table import Table
from monitor.report.data import AS_A_WHOLE
from monitor.report.explanation import Explanation, explain
from monitor.report.figures.label_trend import LabelEvent, Span, label_trend
from monitor.report.figures.panels import histogram_svg, reliability_svg
from monitor.report.figures.trend import Trend
from monitor.report.tables import shift_sentence
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.pages.label_history import LabelHistory, Series
from monitor.service.problems import ProblemReason, RequestRefused
from monitor.story.label import STATE_WORDS, LabelStory

RELIABILITY_SIDE = 600.0
_SWITCHED = frozenset({*CHANGES, "segment_held"})
_SEVERITIES = ("critical", "warning", "info")
_OUTCOMES = ("breach", "unconfirmed", "not_evaluated", "ok")


def make(context: PageContext) -> PageContent:
    """The page of a label, also of one without data. Raises RequestRefused for an unknown source."""
    subject, labels = _subject(context)
    weeks, week = context.weeks(), context.week()
    unknown = PageContent("label_unknown.html.j2", subject.name, {"subject": subject, "week": week})
    if week is None:
        return unknown
    shown = [window for window in reversed(weeks) if window.start <= week.start][-context.range_weeks() :]
    history = LabelHistory(context, subject, shown)
    if subject.label is not None and subject.label not in labels and not history.trends:
        return unknown
    since = context.now - timedelta(weeks=4)  # of a past week no incident is shown
    incidents = [] if context.text("week") else context.store.incidents(*history.about, since=since)
    newest = max(incidents, key=lambda each: each.opened_at, default=None)
    story = teller(context, week).of_label(*history.about, newest)
    explained, events, bins = _explained(history), _events(history), history.reliability
    trend = _trend_of(history, explained, story)
    name, other = history.other
    counts, automate_at = history.counts, history.automate_at
    path = label_path(subject.source, subject.label)
    lanes = {"state": _states(history)} | ({} if subject.label is None else {"automation": _spans(history)})
    values: dict[str, Any] = {
        "subject": subject, "week": week, "weeks": weeks, "against": name, "story": story, "history": history,
        "trend": trend,
        "drawn": trend and label_trend(trend, lanes, [event for event in events if event.at <= week.end], week.end),
        "events": events[::-1],
        "drawn_reliability": bins and reliability_svg(bins, (week.name, name), RELIABILITY_SIDE),
        "drawn_scores": counts and histogram_svg(counts, other, automate_at, (week.name, name)),
        "items": f"{path.replace('label', 'items', 1)}{'&' if '?' in path else '?'}week={week.name}",
        "explained": explained, "shift_sentence": shift_sentence(*history.shifts),
        "before_truth": words.before_truth_words(e for e in history.estimates if e.subject == subject),
        "from_scores": [] if counts is None else from_scores(counts, [automate_at]),
    }  # fmt: skip
    return PageContent("label.html.j2", subject.name, values, {"trend": lambda: _trend_table(history.trends)})


def _subject(context: PageContext) -> tuple[Subject, Collection[str | None]]:
    """The subject of the address, and the labels that its source is known to have."""
    source, label = context.text("source"), context.text("label")
    labels = context.store.known_labels(source)
    if source not in context.config.sources and not labels:
        raise RequestRefused(ProblemReason.UNKNOWN_SOURCE)
    is_whole = not label or (label == AS_A_WHOLE and label not in labels)
    return Subject(source, None if is_whole else label), labels


def _explained(history: LabelHistory) -> list[Explanation]:
    """Every verdict of the week shown with its explanation, the worst first."""
    verdicts = [verdict for verdict in history.verdicts if verdict.window.start == history.week.start]
    versions = {baseline.version: baseline for baseline in history.baselines}

    def place(verdict: Verdict) -> tuple[int, int, str]:
        return _OUTCOMES.index(verdict.outcome), _SEVERITIES.index(verdict.severity), verdict.rule

    revision = history.context.config.revision
    return [explain(v, revision, versions.get(v.baseline_version or 0)) for v in sorted(verdicts, key=place)]


# Over time


def _trend_of(history: LabelHistory, explained: Sequence[Explanation], story: LabelStory | None) -> Trend | None:
    """The trend that the address names; else that of the rule behind the trouble, else of the first metric (ECE)."""
    trends = {_series_name((trend.metric, trend.where)): trend for trend in history.trends}
    lead = next((e.verdict for e in explained if story is not None and e.verdict.id in story.evidence[:1]), None)
    of_lead = "" if lead is None or lead.metric not in METRICS else _series_name((lead.metric, lead.where))
    default = of_lead if of_lead in trends else next(iter(trends), "")
    return trends.get(history.context.choice("metric", trends, default))


def _series_name(series: Series) -> str:
    return f"{series[0]}:{series[1]}"


def _states(history: LabelHistory) -> Iterator[Span]:
    """The state of the label in each week in which it was judged."""
    for each in history.store.diagnoses_of(*history.about, since=history.windows[0].start):
        window, state = each.window, each.state
        if window.schedule == "weekly" and window.start <= history.week.start:
            yield Span(window.start, window.end, state.value, f"{window.name}: {STATE_WORDS[state]}")


def _spans(history: LabelHistory) -> Iterator[Span]:
    """The state of automation over the weeks: off, on, or on except for some scores or segments."""
    start, end = history.windows[0].start, min(history.week.end, history.context.now)
    steps, zone = history.store.switch_events(*history.about), history.context.config.zone

    def span_text(what: str, since: datetime, until: datetime) -> str:
        return f"{what} from {words.moment_text(since, zone)} to {words.moment_text(until, zone)}"

    yield Span(start, end, "isoff", span_text("off where nothing else is said,", start, end))
    whole, gates = history.store.switch_events(history.subject.source, None), history.store.gate_events()
    on = on_spans(steps, whole, gates, start, end)
    yield from (Span(*times, "ison", span_text("on", *times)) for times in on)
    for step, following in zip(steps, [*(each.at for each in steps[1:]), end], strict=False):
        closed = [segment_name(*each.segment) for each in step.segments if each.off_from is not None]
        closed += [f"scores {ranges_text(step.blocked)}"] if step.blocked else []
        if step.to_state == "on" and following > start and closed:
            text = span_text(f"{' and '.join(closed)} off", step.at, following)
            yield Span(step.at, following, "isblocked", text)


def _events(history: LabelHistory) -> list[LabelEvent]:
    """The timeline, incidents, and changes of the label's own switch, oldest first, numbered."""
    store, since, until = history.store, history.windows[0].start, history.week.end
    until = until if history.context.text("week") else max(until, history.context.now)
    found = [
        LabelEvent(e.at, e.kind.replace("_", " "), e.text, e.by)
        for e in store.timeline(*history.about, since=since, until=until)
    ]
    for incident in store.incidents(*history.about, since=since):
        happened = (
            (incident.opened_at, f"{incident.reason.replace('_', ' ')}: opened", ""),
            (incident.acknowledged_at, "acknowledged", incident.acknowledged_by),
            (incident.resolved_at, "resolved", incident.resolved_by),
        )
        link = f"{history.context.request.root}incidents/{incident.id}"
        found += [LabelEvent(at, "incident", text, by or "", link) for at, text, by in happened if at is not None]
    own = store.switch_events(*history.about)
    changes = [*(e for e in own if e.kind in _SWITCHED), *store.gate_events()]
    found += [LabelEvent(e.at, "automation", f"{e.kind}: {e.reason}", e.actor, name=e.kind) for e in changes]
    found += [LabelEvent(at, "automation", "lease ended", "") for at in lease_ends(own, until)]
    ordered = sorted((e for e in found if since <= e.at <= until), key=lambda event: (event.at, event.kind, event.text))
    return [replace(event, number=number) for number, event in enumerate(ordered, 1)]


def _trend_table(trends: Sequence[Trend]) -> Table:
    beside = [Trend(*words.MEASURED[t.metric, t.where], t.expected) for t in trends if t.expected]
    records = [
        {"trend": trend, "point": point, "levels": "; ".join(f"{rule} {level}" for rule, level in trend.limits.items())}
        for trend in (*trends, *beside)
        for point in trend.points
    ]
    return Table.of(
        records, "week=point.window", "start=point.start", "metric=trend.metric", "where=trend.where",
        "value=point.value", "low=point.low", "high=point.high", "n=point.n", "breach=point.breach",
        "baseline=trend.baseline", "thresholds=levels",
    )  # fmt: skip


PAGE = Page(
    "/label/{source}/{label:path}", make, aliases=("/label",),
    query=frozenset({"week", "against", "range", "metric", "source", "label"}),
)  # fmt: skip
