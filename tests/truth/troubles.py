"""What goes wrong around the labels of a story: alerts.yaml is edited, rows go, parts cannot be read, nobody listens.

All of it is planned before the story is played, so that what the system says of it can be held against the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any, Literal

from monitor.core.records import Estimate, Window
from tests.truth.mishaps import Mishaps

Part = Literal["delays_failed", "unresolved_failed"]
WHY: Mapping[Part, str] = {
    "delays_failed": "column predicted_at is text, and a timestamp is needed",
    "unresolved_failed": "the relation waiting has no column score",
}
SILENT = timedelta(minutes=30)
"""How long a listener may be away before it is said."""
NOTED_EVERY = timedelta(minutes=5)


@dataclass(frozen=True)
class Edit:
    """From ``at`` on a source is read in another way: what alerts.yaml says then, and how the change is put in words.

    ``kept`` is the share of the rows of past windows that is left under it, ``other_numbers`` whether a baseline of
    before is of other numbers.
    """

    at: datetime
    source: str
    keys: Mapping[str, str]
    words: str
    other_numbers: bool
    kept: float = 1.0


@dataclass(frozen=True)
class Pin:
    """The baseline of a source is pinned again, from weeks that were read under its present settings."""

    at: datetime
    source: str
    weeks: tuple[Window, ...]


@dataclass(frozen=True)
class Emptied:
    """From ``start`` to ``end`` a relation has only old rows: ``left`` is the share of the newest windows before that."""

    source: str
    start: datetime
    end: datetime
    left: float


@dataclass(frozen=True)
class Troubles:
    """Everything of this kind in one story. ``unread`` are the parts that runs cannot read, by the window's name."""

    edits: Sequence[Edit] = ()
    pins: Sequence[Pin] = ()
    emptied: Sequence[Emptied] = ()
    unread: Mapping[tuple[str, str], frozenset[Part]] = field(default_factory=dict)
    listens: bool = False
    away: Sequence[tuple[datetime, datetime]] = ()
    mishaps: Mishaps | None = None

    def edit_of(self, source: str, at: datetime) -> Edit | None:
        """How the source is read otherwise at a time than at first."""
        return next((edit for edit in self.edits if edit.source == source and edit.at <= at), None)

    def pin_of(self, source: str, at: datetime) -> Pin | None:
        """The newest baseline of a source at a time, if it is not the first one."""
        return next((pin for pin in self.pins if pin.source == source and pin.at <= at), None)

    def unlike_baseline(self, source: str, at: datetime) -> Edit | None:
        """What was edited since the newest baseline of a source was pinned."""
        return None if self.pin_of(source, at) is not None else self.edit_of(source, at)

    def is_in_baseline(self, source: str, window: Window, at: datetime) -> bool:
        """Whether a window overlaps the weeks of the newest baseline, if that was pinned in the story."""
        pin = self.pin_of(source, at)
        return pin is not None and window.start < pin.weeks[-1].end and window.end > pin.weeks[0].start

    def is_empty(self, source: str, at: datetime) -> bool:
        """Whether the relation has no row of the newest window."""
        return any(each.source == source and each.start <= at < each.end for each in self.emptied)

    def share_left(self, source: str, window: Window, at: datetime) -> float:
        """Which share of the rows of a window that was read before is in the relation, as it is read at a time."""
        gone = [e for e in self.emptied if e.source == source and e.start <= at < e.end and window.end <= e.start]
        edit = self.edit_of(source, at)
        narrower = edit is not None and edit.at >= window.end
        return min([1.0, *(e.left for e in gone), *([edit.kept] if edit is not None and narrower else [])])

    def listened(self, at: datetime) -> datetime | None:
        """When the listener was last connected, as of a time; None if there is none."""
        if not self.listens:
            return None
        return next((start for start, end in self.away if start <= at < end), at)

    def is_silent(self, at: datetime) -> bool:
        """Whether buttons have not been answered for so long that it must be said."""
        last = self.listened(at)
        return last is not None and at - last > SILENT


@dataclass
class Told:
    """What a story has done so far by its plan, for the facts: the product's own decisions are no part of it.

    ``readings`` are the rows of a window in each of its readings since it was judged last, ``read_at`` when that of them
    was, ``gone`` how many most of which are gone, ``unread``
    the parts that could not be read; ``changed`` says by verdict what was edited since the baseline was pinned;
    ``judged`` are the windows in the order of their runs; ``against`` is where the product decided otherwise;
    ``looked`` is when the watchdog noted its last look; ``lost`` and ``found`` are the version and epoch of a history in
    whose place a copy was put, and of that copy.
    """

    readings: dict[tuple[str, str, str], list[int]] = field(default_factory=dict)
    read_at: dict[tuple[str, str, str], datetime] = field(default_factory=dict)
    gone: dict[tuple[str, str, str], int | None] = field(default_factory=dict)
    unread: dict[tuple[str, str, str], frozenset[str]] = field(default_factory=dict)
    changed: dict[str, str | None] = field(default_factory=dict)
    judged: list[tuple[str, str, str]] = field(default_factory=list)
    estimates: dict[tuple[str, str, str], list[Estimate]] = field(default_factory=dict)
    against: list[str] = field(default_factory=list)
    looked: datetime | None = None
    lost: tuple[int, int] | None = None
    found: tuple[int, int] | None = None

    def unread_of(self, verdict: Mapping[str, Any]) -> frozenset[str]:
        """The parts that could not be read when the window of a verdict was judged."""
        return self.unread[verdict["schedule"], verdict["window_name"], verdict["source"]]

    def newest(self, schedule: str, source: str) -> tuple[str, str]:
        """The schedule, and the window of a source that was judged last."""
        return [key[:2] for key in self.judged if key[::2] == (schedule, source)][-1]


def keys_of(edits: Sequence[Edit], source: str) -> str:
    """What alerts.yaml says of how a source is read, but for what does not change."""
    keys = {"relation": source, **next((edit.keys for edit in edits if edit.source == source), {})}
    return ", ".join(f"{key}: {value}" for key, value in keys.items())


def troubles_of(
    sources: Mapping[str, Sequence[str]],
    weeks: Sequence[Window],
    *,
    pinned: bool,
    token: bool,
    waiting: bool,
    rng: Random,
) -> Troubles:
    """The troubles of a story of these weeks."""
    edits = tuple(_edits(sorted(sources), weeks, rng))
    pins = tuple(_pins(edits, weeks, rng)) if pinned else ()
    emptied = tuple(_emptied(sorted(sources), weeks, rng))
    listens = token and rng.random() < 0.5
    unread = dict(_unread(weeks, rng)) if waiting else {}
    return Troubles(edits, pins, emptied, unread, listens, tuple(_away(weeks, rng)) if listens else ())


def _edits(sources: Sequence[str], weeks: Sequence[Window], rng: Random) -> Iterator[Edit]:
    """At most one, at noon of a Friday, when no run is due."""
    if rng.random() < 0.5:
        source, week = rng.choice(sources), rng.choice(weeks[1:-2])
        yield rng.choice(_ways(week.start + timedelta(days=4, hours=12), source))


def _ways(at: datetime, source: str) -> list[Edit]:
    select = f"\"SELECT * FROM {source} WHERE channel = 'web'\""
    return [
        Edit(at, source, {"relation": select}, f"relation: {source} then, a SELECT now", other_numbers=True, kept=0.3),
        Edit(at, source, {"columns": "{score: calibrated}"}, "columns.score: score then, calibrated now", True),
        Edit(at, source, {"score_scale": "100"}, "score_scale: not set then, 100.0 now", True),
        Edit(at, source, {"columns": "{cluster: thread}"}, "columns.cluster: cluster then, thread now", False),
        Edit(at, source, {"relation": f"{source}_v2"}, f"relation: {source} then, {source}_v2 now", False),
    ]


def _pins(edits: Sequence[Edit], weeks: Sequence[Window], rng: Random) -> Iterator[Pin]:
    """Of whole weeks that were read as now, some days after the last of them was judged."""
    for edit in edits:
        after = [week for week in weeks if week.start > edit.at]
        if after and rng.random() < 0.7:
            of = tuple(after[: rng.randint(1, 3)])
            yield Pin(of[-1].end + timedelta(days=3, hours=11), edit.source, of)


def _emptied(sources: Sequence[str], weeks: Sequence[Window], rng: Random) -> Iterator[Emptied]:
    """At most once: before the run of a week, until the end of the next week or of the one after it."""
    if rng.random() < 0.35:
        number = rng.randrange(1, len(weeks) - 1)
        start = weeks[number].start + timedelta(days=1, hours=12)
        end = weeks[number].end + timedelta(days=rng.choice((4, 11)), hours=12)
        yield Emptied(rng.choice(sources), start, end, rng.choice((0.0, 0.0, 0.2)))


def _unread(weeks: Sequence[Window], rng: Random) -> Iterator[tuple[tuple[str, str], frozenset[Part]]]:
    """In one or two spans of weeks, one part of tickets or both cannot be read."""
    for _ in range(2):
        first = rng.randrange(len(weeks))
        parts: tuple[Part, ...] = rng.choice(
            (("delays_failed",), ("unresolved_failed",), ("delays_failed", "unresolved_failed"))
        )
        for week in weeks[first : first + rng.randint(1, 3)]:
            yield (week.name, "tickets"), frozenset(parts)


def _away(weeks: Sequence[Window], rng: Random) -> Iterator[tuple[datetime, datetime]]:
    """The listener is stopped at most once, for hours or for days."""
    if rng.random() < 0.8:
        start = weeks[0].end + timedelta(hours=rng.randint(5, 24 * 7 * (len(weeks) - 1)), minutes=17)
        yield start, start + timedelta(hours=rng.choice((30, 60, 200)))
