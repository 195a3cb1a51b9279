"""The records of a replay's result: incidents, weeks and gaps of two rules files side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from monitor.core.records import Incident, KeptScores, Schedule, Subject, Window

SideName = Literal["present", "proposed"]
Switched = Literal["off", "blocked", "segments", ""]
Seen = Literal["ok", "not_evaluated", "unconfirmed", "info", "warning", "critical"]
Timeline = tuple[Seen | None, ...]

NEVER_READ = "never_read"


class LeftOut(StrEnum):
    """Why a rule is not replayed. All are in ``docs/replay.md``."""

    NEEDS_WHOLE_ROWS = "needs_whole_rows"
    COLUMN_NOT_WATCHED = "column_not_watched"
    SEGMENTS_NOT_KEPT = "segments_not_kept"


@dataclass(frozen=True, slots=True)
class Missing:
    """Consecutive windows without stored counts.

    ``reason`` is "never_read", "counts_removed" (they were old), or the "relation_error" or "warehouse_failed" of their
    reading.
    """

    schedule: Schedule
    source: str
    first: str
    last: str
    windows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Omitted:
    """A rule of one file that is not replayed on a source in ``windows`` windows, and why."""

    side: SideName
    rule: str
    source: str
    reason: LeftOut
    windows: int


@dataclass(frozen=True, slots=True)
class Opened:
    """One incident of one file, from the start of the window that opened it to the start of the one that resolved it.

    ``end`` is None if it was still open at the end. ``switch`` says what its breaches would have done to automation,
    ``limit`` from which score it was last shown to be safe (``limit_scores``).
    """

    incident: Incident
    start: datetime
    end: datetime | None
    switch: Switched
    limit: KeptScores | None = None

    def overlaps(self, other: Opened) -> bool:
        """Whether both are about the same subject and overlap in time."""
        before = other.end is None or self.start < other.end
        after = self.end is None or other.start < self.end
        return self.incident.fingerprint == other.incident.fingerprint and before and after


@dataclass(frozen=True, slots=True)
class Pair:
    """An incident of one file, or two that overlap: one of each file."""

    present: Opened | None
    proposed: Opened | None

    @property
    def either(self) -> Opened:
        """The incident of the proposed file, else that of the present one. Raises ValueError if there is neither."""
        found = self.present if self.proposed is None else self.proposed
        if found is None:
            raise ValueError("a pair needs an incident of at least one file")
        return found

    @property
    def place(self) -> tuple[bool, bool, datetime, str]:
        """The sort key of lists: first the incidents that only one file opens, then by time."""
        both = self.present is not None and self.proposed is not None
        return both, self.proposed is None, self.either.start, self.either.incident.fingerprint


@dataclass(frozen=True, slots=True)
class Side:
    """The result of one file; ``timelines`` has the worst of each week by subject, None: no verdict.

    "not_evaluated" is a week in which the label could not be judged, as its diagnosis says.
    """

    revision: str
    incidents: tuple[Opened, ...]
    timelines: Mapping[Subject, Timeline]

    @property
    def weeks(self) -> int:
        """The number of weeks with verdicts, summed over all subjects."""
        return sum(len(row) - row.count(None) for row in self.timelines.values())

    @property
    def weeks_not_evaluated(self) -> int:
        """In how many of these weeks a label could not be judged."""
        return sum(row.count("not_evaluated") for row in self.timelines.values())

    def switched(self, how: Switched) -> list[Subject]:
        """The subjects on which breaches would have acted in the way ``how`` at least once."""
        found = {Subject(o.incident.source, o.incident.label) for o in self.incidents if o.switch == how}
        return sorted(found, key=by_name)


@dataclass(frozen=True, slots=True)
class Replay:
    """The results of both files side by side."""

    weeks: tuple[Window, ...]
    present: Side
    proposed: Side
    missing: tuple[Missing, ...]
    omitted: tuple[Omitted, ...]

    @property
    def subjects(self) -> list[Subject]:
        """Every subject that either file has judged, by name, each source as a whole last."""
        return sorted({*self.present.timelines, *self.proposed.timelines}, key=by_name)

    @property
    def pairs(self) -> list[Pair]:
        """The incidents of both files; those that only one file opens come first."""
        return side_by_side(self.present.incidents, self.proposed.incidents)


def side_by_side(present: Sequence[Opened], proposed: Sequence[Opened]) -> list[Pair]:
    """Pair the overlapping incidents of the same rule and subject; incidents that only one file opens come first."""
    left = list(proposed)
    pairs = []
    for incident in present:
        same = next((other for other in left if incident.overlaps(other)), None)
        if same is not None:
            left.remove(same)
        pairs.append(Pair(incident, same))
    pairs += [Pair(None, other) for other in left]
    return sorted(pairs, key=lambda pair: pair.place)


def by_name(subject: Subject) -> tuple[str, bool, str]:
    """The order of subjects: by source and label, each source as a whole last."""
    return subject.source, subject.label is None, subject.label or ""
