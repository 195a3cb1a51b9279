"""The picture of an incident: the reliability diagram of its newest trouble, and the trend of its leading metric."""

from __future__ import annotations

from typing import Any

from monitor.config.rule_sources import beside_wrong_truths
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Verdict
from monitor.report.figures.trend import Trend, trend_data

TREND = 26
"""How many windows are drawn as the trend."""
BINS_DRAWN = 8


def picture_of(monitor: Monitor, verdict: Verdict) -> tuple[str, bytes] | None:
    """(what it shows, a PNG) for the verdict that a trouble rests on first; None where there is nothing to draw."""
    reliability, trend = _reliability(monitor, verdict), _trend(monitor, verdict)
    if reliability is None and trend.empty:
        return None
    from monitor.report.figures.png import incident_png  # noqa: PLC0415 - brings SciPy: not before a picture needs it

    shows = [] if reliability is None else ["reliability diagram"]
    title = f"{verdict.subject.name}, {verdict.window.name}"
    return " and ".join([*shows, *([] if trend.empty else ["trend"])]), incident_png(reliability, trend, title)


def _reliability(monitor: Monitor, verdict: Verdict) -> Any:
    subject, window, version = verdict.subject, verdict.window, verdict.baseline_version
    reading = monitor.store.load_reading(window.schedule, window.start, subject.source)
    pinned = [] if version is None else monitor.store.baselines(subject.source, subject.label, version=version)
    baseline = next(iter(pinned), None)
    counts = None if reading is None else reading.labels.get(subject.label)
    if counts is None or not counts.where(verdict.where).rows:
        return None
    from monitor.core.baseline import edges_of  # noqa: PLC0415 - brings SciPy
    from monitor.core.counts import bin_counts  # noqa: PLC0415 - brings SciPy
    from monitor.report.figures.reliability import fewer, reliability_data  # noqa: PLC0415 - brings SciPy

    evaluation = monitor.config.evaluation
    edges = (edges_of(counts, evaluation) if baseline is None else baseline.edges)[verdict.where]
    edges = fewer(edges, BINS_DRAWN)
    then = None if baseline is None else bin_counts(baseline.counts.where(verdict.where), edges)
    now = bin_counts(counts.where(verdict.where), edges)
    return reliability_data(now, then, confidence=evaluation.confidence)


def _trend(monitor: Monitor, verdict: Verdict) -> Trend:
    """The trend of the verdict's metric; for a shift test, which has no estimates, that of the ECE."""
    store, subject, window = monitor.store, verdict.subject, verdict.window
    rule = next((r for r in monitor.config.rules if r.id == verdict.rule and r.metric), None)
    source = monitor.config.sources.get(verdict.subject.source)
    if rule is not None and source is not None:
        rule = beside_wrong_truths(rule, source)
    metric, where = (verdict.metric, verdict.where) if rule is not None else ("ece", "all")
    shown = [*windows.before(window, TREND - 1, monitor.config.zone), window]
    span = (min(each.start for each in shown), window.start)
    about: dict[str, Any] = {"schedule": window.schedule, "source": subject.source, "label": subject.label}
    about["between"] = span
    known = store.estimates(metric=metric, where=where, **about)
    first = min((e.window.start for e in known), default=window.start)
    return trend_data(
        metric,
        where,
        known,
        store.verdicts(**about),
        windows=[each for each in shown if each.start >= first],
        baseline=verdict.baseline,
        rules=() if rule is None else (rule,),
    )
