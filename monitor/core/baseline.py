"""Baselines: the counts of a label while it was trusted, frozen with its bin edges.

A baseline keeps all cells, not only numbers, so that any metric, population and later binning can be compared with it.
Versions are never overwritten, and nothing is pinned automatically.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from monitor.core.counts import Counts, equal_frequency_edges, equal_width_edges
from monitor.core.records import WHERES, WeekSpreads, Where, Window
from monitor.core.source_settings import SettingChange, Settings, changes, other_numbers
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
    the history, which stores them separately. ``weeks`` says how much its weeks differed.
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
    settings: Settings | None = None
    weeks: WeekSpreads = field(default_factory=dict)

    @property
    def digest(self) -> str:
        """A hash of the frozen cells."""
        return self.counts.digest()

    def overlaps(self, window: Window) -> bool:
        """Whether the window overlaps the baseline's weeks."""
        return window.start < self.end and window.end > self.start


def changed_since(baseline: Baseline, now: Settings) -> tuple[SettingChange, ...]:
    """What of the source's settings has changed since the baseline was pinned.

    Without settings only ``score_is`` is known, from the counts: what is unknown is not different.
    """
    return changed_from(baseline.settings, baseline.counts, now)


def changed_from(then: Settings | None, counts: Counts, now: Settings) -> tuple[SettingChange, ...]:
    """What has changed since counts were read under the settings ``then``; None: only their ``score_is`` is known."""
    outcome = {"score_is": counts.score_is}
    return changes(outcome, {"score_is": now["score_is"]}) if then is None else changes({**then, **outcome}, now)


def comparable_versions(
    versions: Iterable[Baseline], counts: Counts | None, read_by: Settings | None
) -> list[Baseline]:
    """The versions with which these counts of a window may be compared; all if there are none.

    ``read_by`` are the settings under which the window was read. Where those of either are not known, what the outcome
    is must be the same.
    """
    if counts is None:
        return list(versions)
    now = {**(read_by or {}), "score_is": counts.score_is}

    def changed(version: Baseline) -> tuple[SettingChange, ...]:
        return changed_from(None if read_by is None else version.settings, version.counts, now)

    return [version for version in versions if not other_numbers(changed(version))]


Baselines = Mapping[str | None, Baseline]
"""Baselines by label; None is the source as a whole."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """The newest baselines of a source, by label (None: the source as a whole), as its settings are now.

    ``baselines`` are compared with. ``refused`` were pinned under settings by which a row had another score or outcome,
    or other rows were counted: nothing is compared with them. ``renamed`` are compared with, but the source has another
    relation, or another name of a column, since they were pinned. The automated rows of those in ``not_cut`` are by an
    earlier `automate_at`: only other rows are compared.
    """

    baselines: Baselines = field(default_factory=dict)
    refused: Mapping[str | None, tuple[SettingChange, ...]] = field(default_factory=dict)
    renamed: Mapping[str | None, tuple[SettingChange, ...]] = field(default_factory=dict)
    not_cut: frozenset[str | None] = frozenset()


def references_under(newest: Baselines, now: Settings) -> References:
    """The baselines sorted by whether the settings of the source have changed since."""
    found = {label: changed_since(baseline, now) for label, baseline in newest.items()}
    refused = {label: other for label, changed in found.items() if (other := other_numbers(changed))}
    kept = {label: baseline for label, baseline in newest.items() if label not in refused}
    return References(kept, refused, {label: found[label] for label in kept if found[label]})


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
