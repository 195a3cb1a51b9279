"""Rows by the time of their prediction, with or without a truth: the input of estimates before the truth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt

from monitor.core.counts import Bools, Floats, Ints
from monitor.core.distinct import distinct
from monitor.core.records import Where, Window

_KEYS = ("cell", "predicted", "automated")


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCounts:
    """Rows by score, without outcomes; every array has one entry a group, shape (K,).

    ``cell`` 0..10000, ``predicted`` and ``automated`` are the keys, sorted and distinct; ``n`` counts rows and ``s``
    sums their scores. Each row counts once, without the source's weights, which are for reviewed rows.
    """

    cell: Ints
    predicted: Bools
    automated: Bools
    n: Ints
    s: Floats

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.n.sum())

    def where(self, population: Where) -> ScoreCounts:
        """The rows of one population: all, predicted, or automated."""
        if population == "all":
            return self
        chosen = self.predicted if population == "predicted" else self.automated
        return ScoreCounts(*(getattr(self, name)[chosen] for name in (*_KEYS, "n", "s")))


_NONE, _NEITHER = np.zeros(0, np.int64), np.zeros(0, np.bool_)
NO_SCORES = ScoreCounts(_NONE, _NEITHER, _NEITHER, _NONE, np.zeros(0))
"""Score counts without rows."""


def score_counts(columns: Mapping[str, npt.ArrayLike]) -> ScoreCounts:
    """Score counts from grouped columns (the names of the fields), sorted; keys must be distinct."""
    cell = np.asarray(columns["cell"], dtype=np.int64)
    predicted, automated = (np.asarray(columns[name], dtype=np.int64) == 1 for name in _KEYS[1:])
    n, s = np.asarray(columns["n"], dtype=np.int64), np.asarray(columns["s"], dtype=np.float64)
    order = np.lexsort((automated, predicted, cell))
    return ScoreCounts(cell[order], predicted[order], automated[order], n[order], s[order])


def pool_scores(parts: Mapping[str, ScoreCounts]) -> ScoreCounts:
    """The rows of several labels together: the source as a whole."""
    if not parts:
        return NO_SCORES
    joined = {name: np.concatenate([getattr(part, name) for part in parts.values()]) for name in (*_KEYS, "n", "s")}
    keys = joined["cell"] * 4 + joined["predicted"] * 2 + joined["automated"]
    held, index = distinct(keys)
    n, s = (np.bincount(index, weights=joined[name], minlength=len(held)) for name in ("n", "s"))
    found = {"cell": held // 4, "predicted": held % 4 // 2, "automated": held % 2}
    return score_counts({**found, "n": np.rint(n), "s": s})


@dataclass(frozen=True, slots=True, eq=False)
class UnresolvedRows:
    """The rows of one source that were predicted in one window, split by whether their truth was known at a time.

    ``known_at`` is that time: a row is ``resolved`` if its truth was known then, else ``waiting``; both are by label.
    ``set_aside`` counts the rows that cannot be used, by reason; these are in neither.
    """

    source: str
    window: Window
    known_at: datetime
    waiting: Mapping[str, ScoreCounts] = field(default_factory=dict)
    resolved: Mapping[str, ScoreCounts] = field(default_factory=dict)
    set_aside: Mapping[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels of rows in the window, in order."""
        return tuple(sorted({*self.waiting, *self.resolved}))

    def waiting_of(self, label: str | None) -> ScoreCounts:
        """The rows of a label (None: of all labels together) whose truth is not known."""
        return pool_scores(self.waiting) if label is None else self.waiting.get(label, NO_SCORES)

    def resolved_of(self, label: str | None) -> ScoreCounts:
        """The rows of a label (None: of all labels together) whose truth is known."""
        return pool_scores(self.resolved) if label is None else self.resolved.get(label, NO_SCORES)

    def rows(self, label: str | None) -> int:
        """All usable rows of a label (None: of all labels) that were predicted in the window."""
        return self.waiting_of(label).rows + self.resolved_of(label).rows
