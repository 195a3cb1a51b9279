"""How complete the truths of a window are: the count so far, and the share expected in the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from monitor.core.records import Subject, Window
from monitor.core.verdict_detail import MaturityFacts

NEARLY = 0.995
"""A window is final if at least this share of the expected truths (their upper limit) is known."""


@dataclass(frozen=True, slots=True)
class TruthDelays:
    """When the truths of one window's items became known. ``items`` counts all items, also those without a truth.

    ``by_day`` maps a day to its number of truths. Days end at the hour of the reading, so that each is complete: day 0
    is all time until the first such hour after the window's end, day 1 the next 24 hours.
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

    ``expected`` and its limits are None without past windows; ``windows`` is their number. ``over``: the window is
    older than the longest delay in them.
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
        """The share of items that have their truth; 1 without items."""
        return self.known / self.items if self.items else 1.0

    @property
    def of_expected(self) -> float:
        """The known share of the expected truths (their upper limit), which is compared with a rule's ``mature``.

        Without past windows every item is expected to get a truth.
        """
        if self.over:
            return 1.0
        most = 1.0 if self.high is None else self.high
        return min(self.share / most, 1.0) if most > 0 else 1.0

    @property
    def is_final(self) -> bool:
        """Whether (nearly) all expected truths are known; otherwise the window is provisional."""
        return self.of_expected >= NEARLY

    def says_the_same(self, other: Maturity) -> bool:
        """Whether items, truths and state are the same; the expected share may differ."""
        one, another = ((each.items, each.known, each.is_final) for each in (self, other))
        return one == another

    def detail(self, least: float) -> MaturityFacts:
        """The detail of a verdict whose rule waits for the share ``least``."""
        return {
            "items": self.items, "known": self.known, "expected": self.expected, "low": self.low, "high": self.high,
            "of_expected": self.of_expected, "least": least,
        }  # fmt: skip
