"""The counts of a simulation: named sums, which can be added up and stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.stats import binom, chi2, t

DOUBT = 0.01  # the level of the test that a share is below a target
Line = tuple[str | float, ...]


@dataclass(frozen=True, slots=True)
class Tally:
    """The ``sums`` of ``count`` repetitions (or years, or labels), for one ``line`` of one ``part`` of the study."""

    part: str
    line: Line
    count: int
    sums: Mapping[str, float]

    def __add__(self, other: Tally) -> Tally:
        names = [*self.sums, *(name for name in other.sums if name not in self.sums)]
        return Tally(self.part, self.line, self.count + other.count, {n: self.of(n) + other.of(n) for n in names})

    def of(self, name: str) -> float:
        """One sum; 0 if nothing was counted under this name."""
        return self.sums.get(name, 0.0)

    def share(self, name: str) -> float:
        """The sum divided by the number of repetitions."""
        return self.of(name) / self.count

    def is_significantly_below(self, name: str, target: float) -> bool:
        """Whether the share is significantly below ``target`` (exact binomial test at the level 1%)."""
        return bool(binom.cdf(self.of(name), self.count, target) < DOUBT)

    def upper_mean(self, name: str) -> float:
        """The one-sided upper 95% limit of the mean per year; years are the independent units.

        It is the larger of Student's limit (from "<name> squared") and that of a Poisson count (Garwood 1936),
        which is valid also for very small counts.
        """
        total = self.of(name)
        poisson = float(chi2.ppf(0.95, 2 * total + 2)) / 2 / self.count
        if self.count < 2:
            return poisson
        variance: float = max(self.of(f"{name} squared") - total**2 / self.count, 0.0) / (self.count - 1)
        half = float(t.ppf(0.95, self.count - 1)) * math.sqrt(variance / self.count)
        return max(poisson, total / self.count + half)

    def written(self) -> list[object]:
        """The tally as JSON can hold it."""
        return [self.part, list(self.line), self.count, dict(self.sums)]


def together(tallies: Iterable[Tally]) -> list[Tally]:
    """The tallies added up by part and line, in the order of first appearance."""
    found: dict[tuple[str, Line], Tally] = {}
    for tally in tallies:
        key = (tally.part, tally.line)
        found[key] = found[key] + tally if key in found else tally
    return list(found.values())
