"""What scores claimed and what came true, for one population of a label in one window: four numbers, not counts.

Evidence over a year uses many windows, and needs only these numbers of each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Literal

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats
from monitor.core.records import SCORE_BAND, WHERES, Where, Window
from monitor.core.rejection_records import Rejections
from monitor.core.source_settings import Settings, changes, other_evidence

WHOLE = 0.95
"""The share of the rows from which on all have a model version: truths of the one before still come late."""


@dataclass(frozen=True, slots=True)
class Promise:
    """``promised`` is the mean score, ``kept`` the hit rate, both in [0, 1] and weighted.

    ``rows`` counts rows, ``effective`` the independent rows that they are worth (:func:`promise_of`).
    """

    rows: int
    effective: float
    promised: float
    kept: float

    @property
    def overconfidence(self) -> float:
        """Mean score minus hit rate."""
        return self.promised - self.kept


Decided = Literal["right", "found", "cleared"]
DECIDED: tuple[Decided, ...] = ("right", "found", "cleared")
"""Shares of right decisions, with a ``promised`` of 1: of all rows, of the actual positives, of the negatives."""
Population = Where | Decided | Literal["ranked"]
Promises = Mapping[Population, Promise]
"""Promises by population; a population without rows or weight is left out."""

Segment = tuple[str, str]
SegmentPromises = Mapping[Segment, Promises]
"""Promises by (column, value): a segment column of the source, or the bands of scores."""
BANDS = {
    "below 0.5": (0.0, 0.5),
    "0.5 to 0.8": (0.5, 0.8),
    "0.8 to 0.9": (0.8, 0.9),
    "from 0.9": (0.9, 1.0),
    "from 0.95": (0.95, 1.0),
}
"""The bands by name: scores from the first value, and below the second; the last two overlap and include 1."""
APART = tuple(name for name, (low, high) in BANDS.items() if (low, high) != (0.95, 1.0))
"""The bands that do not overlap."""


def is_part(segment: Segment, segments: Collection[Segment]) -> bool:
    """Whether it is a part of the label's rows. The only value of its column, which all rows have, says nothing."""
    return segment[0] == SCORE_BAND or sum(column == segment[0] for column, _ in segments) > 1


class Versioned:
    """A window whose rows are counted by model version; {} where the relation has none."""

    __slots__ = ()

    versions: Mapping[str, int]

    @property
    def main_version(self) -> str | None:
        """The model version of most rows; None where the relation has no versions."""
        return max(sorted(self.versions), key=lambda v: self.versions[v]) if self.versions else None

    @property
    def whole_version(self) -> str | None:
        """The model version that all rows have, but for stragglers; None where versions are mixed or unknown."""
        main = self.main_version
        return main if main is not None and self.versions[main] >= WHOLE * sum(self.versions.values()) else None


@dataclass(frozen=True, slots=True, eq=False)
class PastWindow(Versioned):
    """A past window: the promises of every label (None: the source as a whole).

    ``versions`` counts the source's rows by model version. ``rejected`` says which labels were not judged.
    ``segments`` is filled only if a rule needs it. ``settings`` are those of the source by which it was read; None if
    unknown.
    """

    window: Window
    labels: Mapping[str | None, Promises] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    rejected: Rejections = field(default_factory=Rejections)
    segments: Mapping[str | None, SegmentPromises] = field(default_factory=dict)
    settings: Settings | None = None

    def promise(self, label: str | None, population: Population) -> Promise | None:
        """What the scores of these rows claimed and what came true; None without rows."""
        return self.labels.get(label, {}).get(population)

    def surely_has(self, label: str | None, version: str) -> bool:
        """Whether the label has rows of a version: more rows than its source has of others."""
        of_label = self.promise(label, "all")
        others = sum(self.versions.values()) - self.versions.get(version, 0)
        return of_label is not None and of_label.rows > others


def of_the_same_evidence(past: Iterable[PastWindow], now: Settings | None) -> tuple[PastWindow, ...]:
    """The windows of ``past``, newest first, up to one that was read under settings other than ``now``.

    Under these a row had another score, outcome or cluster, so that it is no evidence on today's scores. Settings that
    are not known (None) are no other ones.
    """

    def same(then: Settings | None) -> bool:
        return now is None or then is None or not other_evidence(changes(then, now))

    return tuple(takewhile(lambda each: same(each.settings), past))


def promise_of(counts: Counts) -> Promise | None:
    """The promise of these rows; None if they have no weight.

    Effective rows are Kish's size divided by the design effect, and at most the sum of weights divided by the largest
    mean weight of a cell, since Kish's size is too large for one heavy row among many light ones.

    >>> from monitor.core.counts import counts_from_rows
    >>> promise_of(counts_from_rows([1.0, 1.0, 0.75, 0.75], [1, 0, 1, 1]))
    Promise(rows=4, effective=4.0, promised=0.875, kept=0.75)
    """
    total = float(counts.w.sum())
    if not total > 0:
        return None
    weighed = counts.weighted()
    heaviest = float((weighed.w2 / weighed.w).max())
    effective = min(counts.effective_rows, total / heaviest / counts.design_effect)
    promised, kept = float(counts.ws.sum()) / total, float(counts.wy.sum()) / total
    return Promise(counts.rows, effective, *np.clip((promised, kept), 0.0, 1.0).tolist())


def promises_of(counts: Counts) -> Promises:
    """The promise of each population."""
    found: dict[Population, Promise | None] = {where: promise_of(counts.where(where)) for where in WHERES}
    return {where: promise for where, promise in found.items() if promise is not None}


def decided_promise(counts: Counts, name: Decided) -> Promise | None:
    """The share of right decisions among these rows, as a promise of 1; None without such rows.

    A soft outcome y counts as y of a positive and 1 - y of a negative. None also where rows have unequal weights: who
    checks more of what was predicted may have none of the heavy rows in a window, and what is left is no fair sample.

    >>> from monitor.core.counts import counts_from_rows
    >>> counts = counts_from_rows([0.9, 0.8, 0.8, 0.2, 0.1], [1, 0, 1, 0, 1])
    >>> decided_promise(counts, "cleared")
    Promise(rows=2, effective=2.0, promised=1.0, kept=0.5)
    """
    if not counts.w.any() or not _is_equally_weighted(counts):
        return None
    given = counts.predicted | (counts.score_is == "confidence_in_prediction")
    right = np.where(given, counts.wy, counts.w - counts.wy).clip(0.0, counts.w)
    positive = np.where(counts.predicted, right, counts.w - right)
    among, kept = {
        "right": (counts.w, right),
        "found": (positive, positive * counts.predicted),
        "cleared": (counts.w - positive, (counts.w - positive) * ~counts.predicted),
    }[name]
    share = float(among.sum()) / float(counts.w.sum())
    if not share > 0:
        return None
    rows, rate = share * counts.rows, min(float(kept.sum()) / float(among.sum()), 1.0)
    return Promise(round(rows), rows / counts.design_effect, 1.0, rate)


def _is_equally_weighted(counts: Counts) -> bool:
    """Whether all rows have the same weight."""
    return bool(np.isclose(counts.w2.sum() * counts.n.sum(), counts.w.sum() ** 2, rtol=1e-9))


def bands_of(counts: Counts) -> Iterator[tuple[Segment, Counts]]:
    """The rows of each band of scores that holds any.

    >>> from monitor.core.counts import counts_from_rows
    >>> [(value, part.rows) for (_, value), part in bands_of(counts_from_rows([0.2, 0.92, 1.0], [0, 1, 1]))]
    [('below 0.5', 1), ('from 0.9', 2), ('from 0.95', 1)]
    """
    for name, (low, high) in BANDS.items():
        below = counts.cell <= CELLS if high >= 1 else counts.cell < round(high * CELLS)
        part = counts.take((counts.cell >= round(low * CELLS)) & below)
        if part.rows:
            yield (SCORE_BAND, name), part


def segment_promises(
    labels: Mapping[str | None, Counts], segments: Mapping[Segment, Mapping[str, Counts]]
) -> dict[str | None, SegmentPromises]:
    """The promises of each label in each of its segments, bands of scores included."""
    found: dict[str | None, dict[Segment, Promises]] = {}
    for label, counts in labels.items():
        if label is not None:
            in_columns = {segment: by_label[label] for segment, by_label in segments.items() if label in by_label}
            parts = {**in_columns, **dict(bands_of(counts))}
            found[label] = {segment: promises_of(part) for segment, part in parts.items()}
    return {**found}


def pooled_promise(parts: Sequence[Promise]) -> Promise:
    """Several windows as one, weighted by their effective rows. Raises ValueError if there are no effective rows."""
    effective = sum([part.effective for part in parts])
    if not effective > 0:
        raise ValueError("nothing to pool: no part is worth a row")
    # lists, which sum faster than generators: a replay pools the windows of hundreds of segments a week
    promised = sum([part.effective * part.promised for part in parts]) / effective
    kept = sum([part.effective * part.kept for part in parts]) / effective
    return Promise(sum([part.rows for part in parts]), effective, promised, kept)


def columns(table: Sequence[Sequence[Promise | None]]) -> Floats:
    """Rows, effective rows, mean score and hit rate of promises in A lines of B each, 0 without one; shape (4, A, B).

    >>> columns([[Promise(9, 8.0, 0.9, 0.8), None]]).tolist()
    [[[9.0, 0.0]], [[8.0, 0.0]], [[0.9, 0.0]], [[0.8, 0.0]]]
    """
    none = (0, 0.0, 0.0, 0.0)
    numbers = [none if of is None else (of.rows, of.effective, of.promised, of.kept) for line in table for of in line]
    return np.array(numbers, dtype=np.float64).reshape(len(table), -1, 4).transpose(2, 0, 1)
