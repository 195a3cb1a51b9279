"""Rows by the time of their prediction, with or without a truth: the input of estimates before the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Counts, counts_from_groups, pool
from monitor.core.records import Window


def score_counts(columns: Mapping[str, npt.ArrayLike]) -> Counts:
    """Counts of rows without outcomes, from distinct groups with the number of rows ``n`` and the sum of scores ``s``.

    Each row counts once, without the source's weights, which are for reviewed rows. Sums of outcomes are NaN.
    """
    n, s = np.asarray(columns["n"], np.float64), np.asarray(columns["s"], np.float64)
    sums = {"w": n, "w2": n, "ws": s, **dict.fromkeys(("wy", "wsy", "ws2"), np.full_like(n, np.nan))}
    return counts_from_groups({**columns, **sums}, score_is="probability_of_label")


NO_SCORES = score_counts(dict.fromkeys(("cell", "predicted", "automated", "n", "s"), ()))
"""Score counts without rows."""


@dataclass(frozen=True, slots=True, eq=False)
class UnresolvedRows:
    """The rows of one source that were predicted in one window, split by whether their truth was known at a time.

    ``known_at`` is that time: a row is ``resolved`` if its truth was known then, else ``waiting``; both are by label.
    ``set_aside`` counts the waiting rows that cannot be used, by reason; these are in neither.
    """

    source: str
    window: Window
    known_at: datetime
    waiting: Mapping[str, Counts] = field(default_factory=dict)
    resolved: Mapping[str, Counts] = field(default_factory=dict)
    set_aside: Mapping[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of rows in the window, in order."""
        return tuple(sorted({*self.waiting, *self.resolved}))

    def waiting_of(self, label: str | None) -> Counts:
        """The rows of a label (None: of all labels together) whose truth is not known."""
        return _of(self.waiting, label)

    def resolved_of(self, label: str | None) -> Counts:
        """The rows of a label (None: of all labels together) whose truth is known."""
        return _of(self.resolved, label)

    def acting(self, label: str | None) -> int:
        """The rows of a label (None: of all labels) that act alone, with and without a truth."""
        return sum(of.where("automated").rows for of in (self.waiting_of(label), self.resolved_of(label)))

    def rows(self, label: str | None) -> int:
        """All usable rows of a label (None: of all labels) that were predicted in the window."""
        return self.waiting_of(label).rows + self.resolved_of(label).rows


def _of(by_label: Mapping[str, Counts], label: str | None) -> Counts:
    return pool(by_label.values() or [NO_SCORES]) if label is None else by_label.get(label, NO_SCORES)
