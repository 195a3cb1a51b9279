"""The picture of an incident: the reliability diagram of its newest trouble, and the trend of its leading metric."""

from __future__ import annotations

from monitor.config.rule_sources import beside_wrong_truths
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Verdict
from monitor.report.figures.trend import Trend, stored_trends

TREND = 26
"""How many windows are drawn as the trend."""
BINS_DRAWN = 8


def picture_of(monitor: Monitor, verdict: Verdict) -> tuple[str, bytes] | None:
    """(what it shows, a PNG) for the verdict that a trouble rests on first; None where there is nothing to draw."""
    store, config, subject, window = monitor.store, monitor.config, verdict.subject, verdict.window
    trend, reliability = _trend(monitor, verdict), None
    counts = store.counts_of(window.schedule, window.start, subject.source, subject.label)
    if counts is not None and counts.where(verdict.where).rows:
        from monitor.report.figures.reliability import reliability_beside  # noqa: PLC0415 - brings SciPy

        version = verdict.baseline_version
        pinned = [] if version is None else store.baselines(subject.source, subject.label, version=version)
        baseline = next(iter(pinned), None)
        then = None if baseline is None else baseline.counts
        reliability = reliability_beside(
            counts, then, baseline, config.evaluation, where=verdict.where, most=BINS_DRAWN
        )
    if reliability is None and trend.empty:
        return None
    from monitor.report.figures.png import incident_png  # noqa: PLC0415 - brings SciPy: not before a picture needs it

    shows = [name for name, is_shown in (("reliability diagram", reliability), ("trend", not trend.empty)) if is_shown]
    return " and ".join(shows), incident_png(reliability, trend, f"{subject.name}, {window.name}")


def _trend(monitor: Monitor, verdict: Verdict) -> Trend:
    """The trend of the verdict's metric; for a shift test, which has no estimates, that of the ECE."""
    store, config, subject, window = monitor.store, monitor.config, verdict.subject, verdict.window
    rule = next((r for r in config.rules if r.id == verdict.rule and r.metric), None)
    source = config.sources.get(subject.source)
    if rule is not None and source is not None:
        rule = beside_wrong_truths(rule, source)
    shown = windows.up_to(window, TREND, config.zone)
    verdicts = store.verdicts(
        schedule=window.schedule, source=subject.source, label=subject.label, between=(shown[0].start, window.start)
    )
    (found,) = stored_trends(
        store, subject, [(verdict.metric, verdict.where) if rule else ("ece", "all")], verdicts, windows=shown,
        baseline=lambda *_: verdict.baseline, rules=() if rule is None else (rule,),
    )  # fmt: skip
    return found.begun
