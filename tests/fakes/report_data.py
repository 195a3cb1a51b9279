"""A report of synthetic rows, made without warehouse, history or inference: same seed, same report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np

from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.diagnoses import Diagnosis, DiagnosisState, LabelProblem
from monitor.core.records import (
    Estimate,
    Interval,
    Reason,
    RejectedRows,
    ShiftResult,
    Subject,
    SwitchState,
    Verdict,
    Where,
    Window,
)
from monitor.core.windows import span, week
from monitor.history.evaluations import GridNumber
from monitor.report.data import ReportData, ReportNote, SubjectReport
from monitor.report.figures.reliability import reliability_data
from monitor.report.figures.trend import trend_data
from monitor.story.label import LabelStory, label_story
from monitor.story.switch import switch_story

UTC_ZONE = ZoneInfo("UTC")
NOW = datetime(2026, 11, 16, 6, 30, tzinfo=UTC)
HOSTILE = "</script><img src=x onerror=alert(1)>&\"' [red]| `x`"

RULES = (
    Rule(id="ece-increase", metric="ece", condition="increase", threshold=0.02),
    Rule(id="mce-blocks-scores", metric="mce", condition="above", threshold=0.2, severity="critical"),
    Rule(id="auc-floor", metric="roc_auc", condition="below", threshold=0.8),
    Rule(id="automated-overconfidence", metric="overconfidence", where="automated", condition="above", threshold=0.05,
         severity="critical"),
)  # fmt: skip


@dataclass(frozen=True)
class Story:
    """The behaviour of one label: from week ``since`` on it is overconfident by ``gap``."""

    label: str | None
    gap: float = 0.0
    since: int = 99
    rows: int = 2500
    missing: tuple[int, ...] = ()


STORIES = (
    Story("account"),
    Story("billing", gap=0.09, since=22),
    Story("cancellation", missing=(12, 13)),
    Story(HOSTILE),
    Story("phishing", rows=500),
    Story("refund", gap=0.05, since=18),
)


def windows(count: int = 26) -> list[Window]:
    """The last ``count`` weeks up to 2026-W46."""
    return span(week("2026-W21", UTC_ZONE), week("2026-W46", UTC_ZONE), UTC_ZONE)[-count:]


def rows(rng: np.random.Generator, story: Story, index: int) -> Counts:
    """One week of one label."""
    score = np.clip(
        np.where(rng.random(story.rows) < 0.2, rng.beta(8, 2, story.rows), rng.beta(1, 9, story.rows)), 0, 1
    )
    gap = story.gap if index >= story.since else 0.0
    outcome = rng.random(story.rows) < np.clip(score - gap * (score > 0.3) * 3, 0, 1)
    return counts_from_rows(score, outcome, automate_at=0.8)


def estimate(
    subject: Subject, window: Window, series: tuple[str, Where], value: float, *, half: float, n: int
) -> Estimate:
    metric, where = series
    low = value - half if metric == "overconfidence" else max(value - half, 0.0)
    interval = Interval(value, low, min(value + half, 1.0), value + half / 3)
    return Estimate(subject, window, metric, where, interval, n, n / 5)


def estimates_of(subject: Subject, window: Window, counts: Counts, edges: Sequence[int]) -> list[Estimate]:
    bins = bin_counts(counts, edges).filled()
    gaps = np.abs(bins.score - bins.rate)
    acting = counts.where("automated")
    promised = float((acting.ws.sum() - acting.wy.sum()) / acting.w.sum())
    base = float((bins.w * gaps).sum() / bins.w.sum())
    half = 0.6 / counts.rows**0.5
    return [
        estimate(subject, window, ("ece", "all"), base * 0.8, half=half, n=counts.rows),
        estimate(subject, window, ("mce", "all"), float(gaps.max()) * 0.7, half=2.5 * half, n=counts.rows),
        estimate(subject, window, ("roc_auc", "all"), 0.93 - base / 2, half=half, n=counts.rows),
        estimate(subject, window, ("overconfidence", "automated"), promised, half=2.5 * half, n=acting.rows),
    ]


def numbers_of(estimates: Sequence[Estimate]) -> list[GridNumber]:
    """The estimates as the history has them for a trend."""
    return [
        GridNumber(e.subject.label, e.window.start, e.metric, e.where, e.interval.value, e.interval.low,
                   e.interval.high, e.n)
        for e in estimates
    ]  # fmt: skip


def verdict(estimate: Estimate, rule: Rule, baseline: float) -> Verdict:
    """The verdict of a rule without any statistics."""
    value = estimate.interval.value or 0.0
    change = value - baseline
    held = change if rule.condition == "increase" else value
    beyond = held < rule.threshold if rule.condition == "below" else held > rule.threshold
    increased = Reason.INCREASED if rule.condition == "increase" else Reason.ABOVE_THRESHOLD
    return Verdict(
        id=f"{estimate.window.name}-{rule.id}",
        rule=rule.id, subject=estimate.subject, window=estimate.window, metric=rule.measure, where=rule.where,
        outcome="breach" if beyond else "ok", reason=increased if beyond else Reason.WITHIN_THRESHOLD,
        severity=rule.severity, threshold=rule.threshold, value=value, low=estimate.interval.low,
        high=estimate.interval.high, baseline=baseline, change=change, change_low=change - 0.01,
        change_high=change + 0.01, p_value=0.0001, p_adjusted=0.002, detectable=0.03, n=estimate.n, baseline_version=1,
    )  # fmt: skip


def told(label: str | None, verdicts: Sequence[Verdict], window: Window) -> LabelStory:
    """The story of a label by its verdicts."""
    breaches = [v for v in verdicts if v.outcome == "breach"]
    critical = any(v.severity == "critical" for v in breaches)
    state = DiagnosisState.UNSAFE if critical else DiagnosisState.DEGRADED if breaches else DiagnosisState.FINE
    diagnosis = Diagnosis(
        "tickets", label, window, state, LabelProblem.MISCALIBRATED if breaches else None,
        because=tuple(v.id for v in breaches),
    )  # fmt: skip
    switch = switch_story(SwitchState("tickets", label), NOW, whole=None)
    trouble = diagnosis if breaches else None
    return label_story(diagnosis, as_of=NOW, trouble=trouble, switch=switch, lead=breaches[0] if breaches else None)


def history(story: Story, seed: int, weeks: Sequence[Window]) -> tuple[list[Estimate], list[Verdict], SubjectReport]:
    """All estimates and verdicts of one label, and its part of the report."""
    rng = np.random.default_rng(seed)
    subject = Subject("tickets", story.label)
    by_week = {w: rows(rng, story, k) for k, w in enumerate(weeks) if k not in story.missing}
    old = next(iter(by_week.values()))
    edges = equal_frequency_edges(old, 15)
    estimates = [e for w, counts in by_week.items() for e in estimates_of(subject, w, counts, edges)]
    base = {(e.metric, e.where): e.interval.value or 0.0 for e in estimates if e.window == weeks[0]}
    judged = [e for e in estimates if e.window.start >= weeks[min(8, len(weeks) - 1)].start]
    verdicts = [
        verdict(e, rule, base[e.metric, e.where])
        for e in judged
        for rule in RULES
        if (rule.metric, rule.where) == (e.metric, e.where)
    ]
    now = weeks[-1]
    current = tuple(v for v in verdicts if v.window == now)
    report = SubjectReport(
        subject,
        now,
        [e for e in estimates if e.window == now],
        by_week[now],
        EvaluationConfig(),
        0.8,
        0.95,
        told(story.label, current, now),
        trend_data(
            "ece", "all", numbers_of(estimates), verdicts, windows=weeks, baseline=base["ece", "all"], rules=RULES
        ),
        current,
        reliability_data(bin_counts(by_week[now], edges), bin_counts(old, edges)),
    )
    return estimates, verdicts, report


def report_data(stories: Sequence[Story] = STORIES, *, weeks: int = 26) -> ReportData:
    """The whole synthetic report."""
    spans = windows(weeks)
    parts = [history(story, 100 + k, spans)[2] for k, story in enumerate(stories)]
    shift = ShiftResult(Subject("tickets", "billing"), spans[-1], "ks", "score", 0.14, 3e-9, 2500, 20000)
    return ReportData(
        window=spans[-1],
        zone="UTC",
        generated_at=NOW,
        subjects=tuple(parts),
        quality=(RejectedRows("tickets", "score_out_of_range", 3), RejectedRows("tickets", "duplicate", 41)),
        shifts=(shift,),
        noted=(ReportNote("Model versions in this window: v7 (2,310 rows), v6 (190 rows)."),),
    )
