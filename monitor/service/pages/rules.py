"""``/rules``: each rule, how often it fired over the year, with the labels that it found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from monitor.config.model import Rule
from monitor.core import documents
from monitor.report.csv_table import Table
from monitor.service.pages.base import Page, PageContent, PageContext

WEEKS = 52
LABELS_SHOWN = 8


@dataclass(frozen=True, slots=True)
class RuleYear:
    """One rule with its results over the year: windows and labels in breach, and verdicts by outcome."""

    rule: Rule
    page: str | None
    firings: Sequence[tuple[datetime, int]]
    outcomes: Mapping[str, int]
    labels: Sequence[tuple[str, str | None, int]]

    @property
    def verdicts(self) -> int:
        """The number of its verdicts."""
        return sum(self.outcomes.values())


def make(context: PageContext) -> PageContent:
    """Every rule of alerts.yaml."""
    since = context.now - timedelta(weeks=WEEKS)
    counted = context.store.rule_outcomes(since)
    by_label: dict[str, list[tuple[str, str | None, int]]] = {}
    for rule, source, label, windows in context.store.rule_breaches(since):
        by_label.setdefault(rule, []).append((source, label, windows))
    years = [_year(rule, counted, by_label.get(rule.id, [])) for rule in context.config.rules]
    values = {
        "years": years, "weeks": WEEKS, "labels_shown": LABELS_SHOWN, "revision": context.config.revision,
    }  # fmt: skip
    tables = {"firings": lambda: _firings(years), "labels": lambda: _labels(years)}
    return PageContent("rules.html.j2", "Rules", values, tables)


def _year(rule: Rule, counted: Sequence[Any], labels: Sequence[tuple[str, str | None, int]]) -> RuleYear:
    rows = [row for row in counted if row.rule == rule.id and row.schedule == rule.schedule]
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row.outcome] = outcomes.get(row.outcome, 0) + row.labels
    breaches = {row.window_start: row.labels for row in rows if row.outcome == "breach"}
    firings = [(start, breaches.get(start, 0)) for start in dict.fromkeys(row.window_start for row in rows)]
    page = f"rules/{rule.id}" if f"rules/{rule.id}" in documents.pages() else None
    return RuleYear(rule, page, firings, outcomes, labels)


def _firings(years: Sequence[RuleYear]) -> Table:
    rows = [(year.rule.id, year.rule.schedule, start, count) for year in years for start, count in year.firings]
    return Table(("rule", "schedule", "window_start", "labels_in_breach"), rows)


def _labels(years: Sequence[RuleYear]) -> Table:
    rows = [(year.rule.id, *each) for year in years for each in year.labels]
    return Table(("rule", "source", "label", "windows_in_breach"), rows)


PAGE = Page("/rules", make, nav="Rules")
