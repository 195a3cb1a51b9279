"""What a simulation counts: sums under names, which can be added up and written down."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scipy.stats import binom, chi2, t

DOUBT = 0.01  # "not below x": not so few that it would happen by chance less often than this
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
        """One sum; what was never counted is 0."""
        return self.sums.get(name, 0.0)

    def share(self, name: str) -> float:
        """A sum for each repetition."""
        return self.of(name) / self.count

    def surely_below(self, name: str, target: float) -> bool:
        """Whether so few would be counted by chance (1%) only if the true share is below ``target``."""
        return bool(binom.cdf(self.of(name), self.count, target) < DOUBT)

    def upper_mean(self, name: str) -> float:
        """The one-sided 95% limit of the mean a year, years being the independent unit.

        The larger one of Student's (from "<name> squared") and of a Poisson count's (Garwood 1936), which
        also speaks where hardly anything was counted.
        """
        total = self.of(name)
        poisson = float(chi2.ppf(0.95, 2 * total + 2)) / 2 / self.count
        if self.count < 2:
            return poisson
        variance: float = max(self.of(f"{name} squared") - total**2 / self.count, 0.0) / (self.count - 1)
        half = float(t.ppf(0.95, self.count - 1)) * math.sqrt(variance / self.count)
        return max(poisson, total / self.count + half)

    def written(self) -> list[object]:
        """As JSON can hold it."""
        return [self.part, list(self.line), self.count, dict(self.sums)]


def together(tallies: Iterable[Tally]) -> list[Tally]:
    """Tallies of the same part and line added up, in the order in which the lines first came."""
    found: dict[tuple[str, Line], Tally] = {}
    for tally in tallies:
        key = (tally.part, tally.line)
        found[key] = found[key] + tally if key in found else tally
    return list(found.values())
