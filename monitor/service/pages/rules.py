"""``/rules``: each rule, how often it fired over the year, with the labels that it found."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from monitor.service.pages.base import Page, PageContent, PageContext

WEEKS = 52


def make(context: PageContext) -> PageContent:
    """Every rule of alerts.yaml."""
    since = context.now - timedelta(weeks=WEEKS)
    outcomes: dict[tuple[str, str], Counter[str]] = {}
    for rule, schedule, outcome, verdicts in context.store.rule_outcomes(since):
        outcomes.setdefault((rule, schedule), Counter())[outcome] = verdicts
    labels: dict[str, list[tuple[str, str | None, int]]] = {}
    for rule, source, label, windows in context.store.rule_breaches(since):
        labels.setdefault(rule, []).append((source, label, windows))
    return PageContent("rules.html.j2", "Rules", {"outcomes": outcomes, "labels": labels, "weeks": WEEKS})


PAGE = Page("/rules", make, nav="Rules")
