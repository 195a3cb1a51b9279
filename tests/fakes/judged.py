"""What most tests of verdicts begin with: a week and those before it, a source with rules, a pinned baseline."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from monitor.config.model import AutomationConfig, Config, EvaluationConfig, Rule, SourceConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts
from monitor.core.records import Window

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)


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
