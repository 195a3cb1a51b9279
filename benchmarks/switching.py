"""The daily rule and the switch: how often automation is turned off wrongly, and how soon rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from benchmarks.days import judged_days, turned_off
from benchmarks.populations import LABELS, Population, with_ece
from benchmarks.tally import Line, Tally
from benchmarks.weeks import DAYS, Rows, Setting, by_day, drawn, rules_of, setting, shipped

WRONG = (4, 8, 12, 15, 18)  # indices of the labels that get worse: of different curves and numbers of positives
WEEKS_BEFORE = 1


@dataclass(frozen=True, slots=True)
class QuietSwitch:
    """A year of days in which every label has the true ECE ``error``, below the threshold: none should be off."""

    error: float
    a_day: int
    weeks: int
    number: int
    seed: int

    part = "switch"

    @property
    def line(self) -> Line:
        """The line of the table that it belongs to."""
        return "off wrongly", self.error, self.a_day

    @property
    def cost(self) -> float:
        """About how many seconds it takes."""
        return 2.0 * self.weeks / 52 + 2.5e-5 * self.a_day * self.weeks

    def run(self) -> list[Tally]:
        """The tally of how often a switch went off in the year."""
        rng = np.random.default_rng((self.seed, self.a_day, self.number))
        labels = [with_ece(label, self.error) for label in LABELS]
        days, rows = _days(labels, labels, self.a_day, (0, self.weeks), rng)
        judged = list(judged_days(days, rows, rules_of(shipped(), "daily")))
        off = len(list(turned_off(days, judged, [label.name for label in LABELS])))
        sums = {"off": float(off), "off squared": float(off**2), "days judged": float(len(judged))}
        return [Tally(self.part, self.line, 1, sums)]


@dataclass(frozen=True, slots=True)
class LoudSwitch:
    """Five of twenty labels have the true ECE ``error``, far above the threshold, from one day on."""

    error: float
    a_day: int
    days: int
    number: int
    seed: int

    part = "switch"

    @property
    def line(self) -> Line:
        """The line of the table that it belongs to."""
        return "off rightly", self.error, self.a_day

    @property
    def cost(self) -> float:
        """About how many seconds it takes."""
        return 0.03 * len(LABELS) * 2 + 0.2

    def run(self) -> list[Tally]:
        """The tally of how many of the five, and how many others, were off by each day."""
        rng = np.random.default_rng((self.seed, self.a_day, self.number))
        after = [with_ece(label, self.error) if at in WRONG else label for at, label in enumerate(LABELS)]
        days, rows = _days(LABELS, after, self.a_day, (WEEKS_BEFORE, 1), rng)
        first = DAYS * WEEKS_BEFORE
        judged = judged_days(days, rows, rules_of(shipped(), "daily"))
        first_days = takewhile(lambda found: found[0] < first + self.days, judged)
        wrong = {LABELS[at].name for at in WRONG}
        since: dict[str, int] = {}
        wrongly_off = 0
        for day, name in turned_off(days, first_days, [label.name for label in LABELS]):
            if name in wrong and day >= first:
                since.setdefault(name, day - first + 1)
            else:
                wrongly_off += 1
        by_day = {f"by day {k + 1}": float(sum(day <= k + 1 for day in since.values())) for k in range(self.days)}
        return [Tally(self.part, self.line, len(WRONG), by_day | {"others off": float(wrongly_off)})]


def _days(
    before: Sequence[Population], after: Sequence[Population], a_day: int, weeks: tuple[int, int],
    rng: np.random.Generator,
) -> tuple[Setting, dict[str, Rows]]:  # fmt: skip
    """The days of (weeks before, weeks after) the change, with baselines of the labels ``before``."""
    n = DAYS * a_day
    weekly = setting(before, n, sum(weeks), rng)
    first, then = (drawn(labels, count, n, rng) for labels, count in zip((before, after), weeks, strict=True))
    return by_day(weekly), {name: part.then(then[name]).in_days() for name, part in first.items()}
