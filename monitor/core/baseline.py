"""Baselines: the counts of a label while it was trusted, frozen with its bin edges.

A baseline keeps all cells, not only numbers, so that any metric, population and later binning can be compared with it.
Versions are never overwritten, and nothing is pinned automatically.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from monitor.core.counts import Counts, equal_frequency_edges, equal_width_edges
from monitor.core.records import WHERES, ScoreIs, Where, Window
from monitor.core.wording import count_of


class Binning(Protocol):
    """The settings of bins: their number, and ``equal_frequency`` or ``equal_width``."""

    @property
    def bins(self) -> int: ...  # noqa: D102 - said above

    @property
    def binning(self) -> Literal["equal_frequency", "equal_width"]: ...  # noqa: D102 - said above


ROLLING = 0
"""The version of a reference that is not a pinned baseline but the windows before."""
Edges = Mapping[Where, tuple[int, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """The frozen reference of one label (None: of the source as a whole).

    ``segments`` are the counts of its segments when it is pinned; None if no rule needs them, and for a baseline from
    the history, which stores them separately.
    """

    source: str
    label: str | None
    version: int
    start: datetime
    end: datetime
    first_window: str
    last_window: str
    counts: Counts
    edges: Edges
    pinned_at: datetime
    pinned_by: str
    reason: str
    segments: Mapping[tuple[str, str], Counts] | None = None

    @property
    def digest(self) -> str:
        """A hash of the frozen cells."""
        return self.counts.digest()

    def overlaps(self, window: Window) -> bool:
        """Whether the window overlaps the baseline's weeks."""
        return window.start < self.end and window.end > self.start


def with_outcome(baselines: Mapping[str | None, Baseline], score_is: ScoreIs) -> dict[str | None, Baseline]:
    """The baselines whose outcome is that of ``score_is``: an ECE of other outcomes is no reference."""
    return {label: baseline for label, baseline in baselines.items() if baseline.counts.score_is == score_is}


@dataclass(frozen=True, slots=True)
class PinRefusal:
    """Why a label was not pinned."""

    source: str
    label: str | None
    rows: int
    needed: int

    def __str__(self) -> str:
        name = self.label if self.label is not None else "(all labels)"
        return f"{self.source}/{name}: {count_of(self.rows, 'pair')}, at least {self.needed:,} are needed"


def population_edges(counts: Counts, evaluation: Binning) -> tuple[int, ...]:
    """Bin edges of one population by the configured binning."""
    if evaluation.binning == "equal_width":
        return equal_width_edges(evaluation.bins)
    return equal_frequency_edges(counts, evaluation.bins)


def edges_of(counts: Counts, evaluation: Binning) -> dict[Where, tuple[int, ...]]:
    """Bin edges of every population of one subject."""
    return {where: population_edges(counts.where(where), evaluation) for where in WHERES}


def refusal(source: str, label: str | None, counts: Counts, min_pairs: int) -> PinRefusal | None:
    """Why these counts are too few for a baseline; None if they suffice."""
    return PinRefusal(source, label, counts.rows, min_pairs) if counts.rows < min_pairs else None
