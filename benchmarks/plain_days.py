"""How often a two-day rule fires without and with a significance test, on healthy labels and bad ones.

``python -m benchmarks.plain_days`` prints the table of docs/rules/ece-two-plain-days.md: pairs of days of one label,
with scores from Beta(1.2, 1.8) and hit rates that are lower by the same amount at every score. For the rule with a
test, the label is one of 20, and the rule is the only daily one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from benchmarks.tables import Table, console
from monitor.config.model import EvaluationConfig, Rule
from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import Subject, Window
from monitor.evaluation.comparisons import RuleInput, compare
from monitor.evaluation.verdicts import decide

PAIRS, LABELS, SEED = 300, 20, 17
CELLS = (
    (150, 0.0), (300, 0.0), (500, 0.0), (150, 0.05), (300, 0.05), (500, 0.05), (700, 0.05), (700, 0.10), (700, 0.12),
)  # fmt: skip
OURS = Rule.model_validate({"id": "ours", "metric": "ece", "threshold": 0.08, "schedule": "daily", "for": 2})
PLAIN = OURS.model_copy(update={"id": "plain", "certainty": "none", "value": "plug_in", "min_samples": 1})
DAY = Window(datetime(2026, 11, 9, tzinfo=UTC), datetime(2026, 11, 10, tzinfo=UTC), "2026-11-09", "daily")


def day(rng: np.random.Generator, rows: int, short: float) -> Counts:
    """One day of a label whose hit rates are ``short`` below its scores."""
    score = rng.beta(1.2, 1.8, rows)
    return counts_from_rows(score, rng.random(rows) < np.clip(score - short, 0.0, 1.0))


def is_breach(rule: Rule, days: Sequence[Counts], evaluation: EvaluationConfig) -> bool:
    """Whether the rule finds a breach in these days (newest first) of one label of 20."""
    found = compare(rule, RuleInput(Subject("s", "l"), DAY, tuple(days), None), evaluation)
    other_labels = [replace(found, subject=Subject("s", f"quiet {k}"), p_value=1.0) for k in range(1, LABELS)]
    rate = evaluation.false_discovery_rate
    return decide(rule, [found, *other_labels], rate=rate, decision_rules=1, revision="")[0].outcome == "breach"


def shares(rows: int, short: float) -> tuple[float, float]:
    """The share of pairs of days that each rule calls a breach: (plain, ours)."""
    rng, evaluation = np.random.default_rng([SEED, rows, round(100 * short)]), EvaluationConfig()
    fired = np.zeros(2)
    for _ in range(PAIRS):
        days = [day(rng, rows, short) for _ in range(2)]
        fired += [is_breach(rule, days, evaluation) for rule in (PLAIN, OURS)]
    plain, ours = fired / PAIRS
    return float(plain), float(ours)


def table() -> Table:
    """The table of the page."""
    lines = []
    for rows, short in CELLS:
        plain, ours = shares(rows, short)
        says = "found" if short > OURS.threshold else "false alarms"
        lines.append((f"{rows}", f"{short:.2f}", f"{plain:.0%}", f"{ours:.0%}", says))
    columns = ("rows a day", "short by", "plain", "significant", "")
    return Table(f"Two-day rules, {PAIRS} pairs of days a line", columns, tuple(lines), texts=0)


if __name__ == "__main__":
    table().show(console())
