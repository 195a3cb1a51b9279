"""Labels get worse: in which week is it found, by which rule, and with which false alarms on other labels?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from benchmarks.populations import LABELS, SIX_PERCENT, Population, less_precise, raised
from benchmarks.tally import Line, Tally
from benchmarks.weeks import ByLabel, Setting, drawn, judged, rules_of, setting, shipped
from monitor.config.model import Rule
from monitor.core.records import Verdict

Change = Literal["rise", "fall"]

ECE_RULE = "ece-increase"
PRECISION = 0.59  # the precision after the fall; about .89 before it
ABOVE = 0.8
SECONDS_A_LABEL_WEEK = 0.005


@dataclass(frozen=True, slots=True)
class Planted:
    """A change of some of twenty labels after a few quiet weeks.

    * ``rise``: the true ECE of three labels (or one) is larger by ``by`` from one week to the next;
    * ``fall``: the precision above .8 of the label with six positives in a hundred falls to ``by``.

    ``rules`` are those that are judged (empty: all weekly ones). At most ``weeks`` weeks are judged, and none after
    every changed label has been found. The change is tried ``times`` times on the same baselines, each time on other
    labels and with other rows.
    """

    kind: Change
    by: float
    labels: int
    n: int
    weeks: int
    number: int
    seed: int
    rules: tuple[str, ...] = ()
    times: int = 1

    part = "power"

    @property
    def line(self) -> Line:
        """The key of its line in the table."""
        return self.kind, self.by, self.labels, self.n, self.weeks

    @property
    def cost(self) -> float:
        """The approximate seconds."""
        weeks = {"rise": 1.3, "fall": 1.2}[self.kind] * self.times
        return weeks * len(LABELS) * SECONDS_A_LABEL_WEEK * (0.5 if self.rules else 1.0) + 0.1 + 1e-5 * self.n

    def run(self) -> list[Tally]:
        """The tally of which rule found each changed label first, and when."""
        rng = np.random.default_rng((self.seed, self.n, self.weeks, self.number))
        weekly = setting(LABELS, self.n, _quiet() + self.weeks, rng)
        sums: Counter[str] = Counter()
        for time in range(self.times):
            self._watched(weekly, self._names(self.number * self.times + time), rng, sums)
        found = {name: float(total) for name, total in sums.items()}
        return [Tally(self.part, self.line, self.labels * self.times, found)]

    def _names(self, number: int) -> frozenset[str]:
        """The names of the labels that change."""
        if self.kind == "fall":
            return frozenset({SIX_PERCENT.name})
        step = len(LABELS) // self.labels
        return frozenset(LABELS[(number + step * k) % len(LABELS)].name for k in range(self.labels))

    def _watched(self, weekly: Setting, names: frozenset[str], rng: np.random.Generator, sums: Counter[str]) -> None:
        """Judge quiet weeks, then weeks with the change until it is found on all labels ``names``."""
        rules = [rule for rule in rules_of(shipped(), "weekly") if self._asks(rule)]
        rows: ByLabel = drawn(LABELS, _quiet(), self.n, rng)
        unseen = names
        for week in range(1, self.weeks + 1):
            now = drawn([self._after(each) if each.name in names else each for each in LABELS], 1, self.n, rng)
            rows = {name: part.then(now[name]) for name, part in rows.items()}
            breaches = [
                verdict for verdict in judged(weekly, rows, _quiet() + week - 1, rules) if verdict.outcome == "breach"
            ]
            sums["blamed"] += sum(verdict.subject.label not in names for verdict in breaches)
            sums["other label-weeks"] += len(LABELS) - self.labels
            seen = self._seen([verdict for verdict in breaches if verdict.subject.label in unseen], week, sums)
            sums[f"seen in week {week}"] += len(seen)
            unseen -= seen
            if not unseen:
                break

    def _asks(self, rule: Rule) -> bool:
        return rule.metric is not None and (not self.rules or rule.id in self.rules)

    def _after(self, label: Population) -> Population:
        """The population of the label after the change."""
        if self.kind == "fall":
            return less_precise(label, self.by, ABOVE)
        return raised(label, self.by)

    def _seen(self, breaches: Iterable[Verdict], week: int, sums: Counter[str]) -> frozenset[str]:
        """The labels that are found now: a change of the ECE only by the rule on it, a fall by any rule."""
        found = set()
        for verdict in breaches:
            sums[f"{verdict.rule} in week {week}"] += 1
            if self.kind == "fall" or verdict.rule == ECE_RULE:
                found.add(str(verdict.subject.label))
        return frozenset(found)


def _quiet() -> int:
    """The number of weeks before the change: as many as may be pooled with its first week."""
    return shipped().evaluation.pool_weeks - 1


def seen_within(tally: Tally, weeks: int) -> float:
    """The share of the changed labels that were found within ``weeks`` weeks."""
    return sum(tally.share(f"seen in week {week + 1}") for week in range(weeks))
