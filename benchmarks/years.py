"""Incidents that are opened in a year in which nothing gets worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from benchmarks.days import judged_days
from benchmarks.populations import LABELS, busier
from benchmarks.tally import Tally
from benchmarks.weeks import (
    TEXTBOOK,
    ByLabel,
    Open,
    Setting,
    binned,
    by_day,
    drawn,
    judged,
    opened,
    rules_of,
    setting,
    shipped,
    textbook,
)
from monitor.core.records import Verdict

SECONDS_A_LABEL_WEEK = 0.005
ByWindow = Mapping[int, list[Verdict]]


@dataclass(frozen=True, slots=True)
class Year:
    """One year of ``weeks`` weeks with ``n`` rows a label-week, in two variants.

    In the first nothing changes ("years"). The second ("traffic") has the same first half and other traffic, but
    nothing else, in the second half; there only rules on ECE, MCE and scores are judged.
    """

    number: int
    n: int
    weeks: int
    seed: int

    part = "years"

    @property
    def cost(self) -> float:
        """The approximate seconds."""
        return 1.5 * self.weeks * len(LABELS) * SECONDS_A_LABEL_WEEK + 0.02 * self.weeks + 2e-6 * self.weeks * self.n

    def run(self) -> list[Tally]:
        """The tallies of both variants."""
        rng = np.random.default_rng((self.seed, self.n, self.number))
        year = setting(LABELS, self.n, self.weeks, rng)
        calm = drawn(LABELS, self.weeks, self.n, rng)
        half = self.weeks // 2
        other = drawn(map(busier, LABELS), self.weeks - half, self.n, rng)
        moved = {name: rows.first(half).then(other[name]) for name, rows in calm.items()}
        rules = rules_of(shipped(), "weekly")
        some = [*binned(rules), *(rule for rule in rules if rule.test is not None)]
        verdicts = {week: judged(year, calm, week, rules) for week in range(self.weeks)}
        after = {week: judged(year, moved, week, some) for week in range(half, self.weeks)}
        names = {rule.id for rule in some}
        before = {week: [each for each in verdicts[week] if each.rule in names] for week in range(half)}
        return [
            Tally("years", (self.n,), 1, _sums(year, calm, verdicts) | _textbook(year, calm)),
            Tally("traffic", (self.n,), 1, _sums(year, moved, before | after)),
        ]


def _sums(year: Setting, rows: ByLabel, weekly: ByWindow) -> dict[str, float]:
    """The breaches and incidents of the year, in the reported groups."""
    found: Counter[str] = Counter()
    for verdict in (verdict for verdicts in weekly.values() for verdict in verdicts):
        found[f"{verdict.rule} windows"] += 1
        found[f"{verdict.rule} breaches"] += verdict.outcome == "breach"
        found[f"{verdict.rule} silent"] += verdict.outcome == "not_evaluated"
    incidents = _incidents(weekly.values()) + _daily(year, rows, found)
    found.update({f"{rule} incidents": count for rule, count in incidents.items()})
    for group, rules in _groups().items():
        total = sum(incidents[rule] for rule in rules)
        found.update({f"{group} incidents": total, f"{group} incidents squared": total**2})
    return {name: float(value) for name, value in found.items()}


def _groups() -> dict[str, list[str]]:
    rules = [*rules_of(shipped(), "weekly"), *rules_of(shipped(), "daily")]
    return {
        "metric": [rule.id for rule in rules if rule.metric is not None],
        "binned": [rule.id for rule in binned(rules)],
        "test": [rule.id for rule in rules if rule.test is not None],
    }


def _incidents(windows: Iterable[list[Verdict]]) -> Counter[str]:
    open_now: Open = {}
    total: Counter[str] = Counter()
    for verdicts in windows:
        total += opened(verdicts, open_now)
    return total


def _daily(year: Setting, rows: ByLabel, found: Counter[str]) -> Counter[str]:
    """The incidents of the daily rules. Adds their breaches to ``found``."""
    rules = rules_of(shipped(), "daily")
    days = by_day(year)
    verdicts = dict(judged_days(days, {name: part.in_days() for name, part in rows.items()}, rules))
    for verdict in (verdict for part in verdicts.values() for verdict in part):
        found[f"{verdict.rule} breaches"] += verdict.outcome == "breach"
    for rule in rules:
        found[f"{rule.id} windows"] += len(days.windows) * len(rows)
        found[f"{rule.id} days judged"] += len(verdicts)
    return _incidents(verdicts.values())


def _textbook(year: Setting, rows: ByLabel) -> dict[str, float]:
    """The textbook rule's alarms: an incident begins in a week if the rule did not fire in the week before."""
    fired: frozenset[str] = frozenset()
    breaches = incidents = 0
    for week in range(len(year.windows)):
        now = textbook(year, rows, week)
        breaches, incidents, fired = breaches + len(now), incidents + len(now - fired), now
    windows = float(len(year.windows) * len(rows))
    return {
        f"{TEXTBOOK} windows": windows,
        f"{TEXTBOOK} breaches": float(breaches),
        f"{TEXTBOOK} incidents": float(incidents),
    }
