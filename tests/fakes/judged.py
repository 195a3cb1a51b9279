"""What most tests of verdicts begin with: a week and those before it, a source with rules, a baseline, a verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.config.model import AutomationConfig, Config, EvaluationConfig, Rule, SourceConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts
from monitor.core.records import Reason, Subject, Verdict, Window

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
REASONS = {
    "ok": Reason.WITHIN_THRESHOLD, "breach": Reason.ABOVE_THRESHOLD, "not_evaluated": Reason.TOO_FEW_ROWS,
    "unconfirmed": Reason.NOT_SIGNIFICANT_IN_FAMILY,
}  # fmt: skip


def window(back: int = 0) -> Window:
    """The week from ``MONDAY`` on, or one so many weeks before it."""
    start = MONDAY - timedelta(weeks=back)
    return Window(start, start + timedelta(weeks=1), f"week-{back}", "weekly")


def config(*rules: Rule, **more: Any) -> Config:
    """The source "tickets" with these rules."""
    source = SourceConfig(relation="tickets", score_is="probability_of_label")
    automation = AutomationConfig(when_not_evaluated="keep")
    return Config(**{"version": 1, "sources": {"tickets": source}, "rules": rules, "automation": automation} | more)


def pinned(
    counts: Counts, label: str | None = "billing", *, end: datetime = MONDAY - timedelta(weeks=19),
    evaluation: EvaluationConfig | None = None, **more: Any,
) -> Baseline:  # fmt: skip
    """The baseline of a label from eight weeks until ``end``."""
    start, edges = end - timedelta(weeks=8), edges_of(counts, evaluation or EvaluationConfig())
    made = Baseline("tickets", label, 1, start, end, "a", "b", counts, edges, end, "test", "test")
    return replace(made, **more)


def verdict(outcome: str, of: Window, label: str | None = "billing", **more: Any) -> Verdict:
    """A critical verdict of a level rule, with the usual reason of its outcome."""
    subject, reason = Subject("tickets", label), REASONS[outcome]
    made = Verdict("v1", "rule", subject, of, "ece", "all", outcome, reason, "critical", 0.05)  # type: ignore[arg-type]
    return replace(made, **more)
