"""How far the truth about a window is known: what was counted, and what is expected in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from monitor.core.records import Subject, Window

NEARLY = 0.995
"""From this share of the truths that are expected at most on, a window is final."""


@dataclass(frozen=True, slots=True)
class TruthDelays:
    """When the truths of one window's items became known. ``items`` counts all of them, also those without a truth.

    ``by_day`` maps a day to the truths of that day. Days end at the hour of the reading, so that each one is over: day
    0 is all until the first such hour after the window's end, day 1 the 24 hours after that.
    """

    window: Window
    items: int
    by_day: Mapping[int, int]

    @property
    def known(self) -> int:
        """How many items have their truth."""
        return sum(self.by_day.values())


@dataclass(frozen=True, slots=True)
class Maturity:
    """How many items of a subject in a window have their truth, and which share is expected in the end.

    ``expected`` with its limits is None where no past windows say it; ``windows`` is how many there are, ``over`` says
    that the window is older than the longest delay that they show.
    """

    subject: Subject
    window: Window
    items: int
    known: int
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    windows: int = 0
    over: bool = False

    @property
    def share(self) -> float:
        """The share of the items that have their truth; 1 where there are none."""
        return self.known / self.items if self.items else 1.0

    @property
    def of_expected(self) -> float:
        """The known share of the truths that may be expected at most: what ``mature`` of a rule is compared with.

        Without past windows every item may still get its truth.
        """
        if self.over:
            return 1.0
        most = 1.0 if self.high is None else self.high
        return min(self.share / most, 1.0) if most > 0 else 1.0

    @property
    def is_final(self) -> bool:
        """Whether (nearly) all truths that will ever be known are known: else the window is provisional."""
        return self.of_expected >= NEARLY

    def says_the_same(self, other: Maturity) -> bool:
        """Whether items, truths and the state are the same; what is expected may differ."""
        mine, its = ((each.items, each.known, each.is_final) for each in (self, other))
        return mine == its

    def detail(self, least: float) -> dict[str, Any]:
        """What a verdict keeps of it, where its rule waits for ``least``."""
        names = ("items", "known", "expected", "low", "high")
        return {**{name: getattr(self, name) for name in names}, "of_expected": self.of_expected, "least": least}
