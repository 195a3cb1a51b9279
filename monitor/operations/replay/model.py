"""What a replay gives: incidents, weeks and gaps of two files side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal

from monitor.core.records import Incident, Schedule, Subject, Window

SideName = Literal["present", "proposed"]
Switched = Literal["off", "blocked", "segments", ""]
Seen = Literal["ok", "unconfirmed", "info", "warning", "critical"]
Timeline = tuple[Seen | None, ...]

NEVER_READ = "never_read"


class LeftOut(StrEnum):
    """Why a rule is not replayed. All are in ``docs/replay.md``."""

    NEEDS_WHOLE_ROWS = "needs_whole_rows"
    COLUMN_NOT_WATCHED = "column_not_watched"
    SEGMENTS_NOT_KEPT = "segments_not_kept"


class DifferenceCause(StrEnum):
    """Why a verdict comes out otherwise than it was given. All are in ``docs/replay.md``."""

    OTHER_BASELINE = "other_baseline"
    OTHER_COUNTS = "other_counts"
    NOT_JUDGED = "not_judged"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Missing:
    """Windows in a row of which no counts are stored.

    ``reason`` is "never_read", "counts_removed" since they are old, or the relation_error or warehouse_failed that
    reading them ended with.
    """

    schedule: Schedule
    source: str
    first: str
    last: str
    windows: int
    reason: str


@dataclass(frozen=True, slots=True)
class Omitted:
    """A rule of one file that is not replayed on a source, in so many windows, and why."""

    side: SideName
    rule: str
    source: str
    reason: LeftOut
    windows: int


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict of the present file that comes out otherwise than it was given."""

    rule: str
    subject: Subject
    window: str
    given: str
    replayed: str
    cause: DifferenceCause


@dataclass(frozen=True, slots=True)
class Agreement:
    """How many verdicts that the present file gave in runs were replayed, and those that came out otherwise."""

    compared: int = 0
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """One incident of one file: from the start of the window that opened it to that of the one that resolved it.

    ``end`` is None where it was still open at the end. ``switch`` says what its breaches would have done to automation.
    """

    incident: Incident
    start: datetime
    end: datetime | None
    switch: Switched

    def overlaps(self, other: Opened) -> bool:
        """Whether both are about the same rule and subject, and at the same time."""
        before = other.end is None or self.start < other.end
        after = self.end is None or other.start < self.end
        return self.incident.fingerprint == other.incident.fingerprint and before and after


@dataclass(frozen=True, slots=True)
class Pair:
    """An incident of either file, or what is the same trouble in both."""

    present: Opened | None
    proposed: Opened | None

    @property
    def either(self) -> Opened:
        """The incident of the proposed file, else that of the present one. Raises ValueError where there is neither."""
        found = self.present if self.proposed is None else self.proposed
        if found is None:
            raise ValueError("a pair needs an incident of at least one file")
        return found

    @property
    def place(self) -> tuple[bool, bool, datetime, str]:
        """Where it is listed: what only one file opens first, by time."""
        both = self.present is not None and self.proposed is not None
        return both, self.proposed is None, self.either.start, self.either.incident.fingerprint


@dataclass(frozen=True, slots=True)
class Side:
    """What one file would have said; ``timelines`` holds the worst of each week by subject, None: not evaluated."""

    revision: str
    incidents: tuple[Opened, ...]
    timelines: Mapping[Subject, Timeline]

    @property
    def weeks(self) -> int:
        """How many weeks there are of all subjects together."""
        return sum(len(row) for row in self.timelines.values())

    @property
    def weeks_not_evaluated(self) -> int:
        """How many of them have no verdict but "not evaluated", and so say nothing."""
        return sum(row.count(None) for row in self.timelines.values())

    def switched(self, how: Switched) -> list[Subject]:
        """The subjects of which automation would have been turned off, or blocked, at least once."""
        found = {Subject(o.incident.source, o.incident.label) for o in self.incidents if o.switch == how}
        return sorted(found, key=by_name)


@dataclass(frozen=True, slots=True)
class Replay:
    """Both files side by side; what is only in one of them comes first."""

    weeks: tuple[Window, ...]
    present: Side
    proposed: Side
    pairs: tuple[Pair, ...]
    missing: tuple[Missing, ...]
    omitted: tuple[Omitted, ...]
    agreement: Agreement

    @property
    def subjects(self) -> list[Subject]:
        """Every subject that either file has judged, by name, each source as a whole last."""
        return sorted({*self.present.timelines, *self.proposed.timelines}, key=by_name)


def by_name(subject: Subject) -> tuple[str, bool, str]:
    """The order of subjects: by source and label, each source as a whole last."""
    return subject.source, subject.label is None, subject.label or ""
