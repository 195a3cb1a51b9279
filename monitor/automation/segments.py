"""The parts of a label's items that are off by themselves: what a run or an operator does to them. Pure.

They belong to the label's switch, so that one conditional update stores what is decided about both. A run turns one
off, and only a person turns it on again: good windows undo no segment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import starmap

from monitor.automation.evidence import breaches_of, is_off_or_ends
from monitor.core.records import RuleEvidence, Schedule, SegmentSwitch, WindowOutcome
from monitor.core.wording import segment_name

Segment = tuple[str, str]
Segments = tuple[SegmentSwitch, ...]
RUNS: Mapping[Schedule, str] = {"weekly": "weekly run", "daily": "daily run"}
"""Who changes a switch, where it is a run."""


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """What the evidence does to the segments of a switch, ``after``: turned ``off``, ``held`` or left on for good.

    ``verdict`` is the first that turned one off, or is against one that is held.
    """

    after: Segments
    off: tuple[Segment, ...] = ()
    held: tuple[Segment, ...] = ()
    kept: tuple[Segment, ...] = ()
    verdict: str | None = None
    rules: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the event that says so; "" where nothing changes."""
        if self.off:
            return "segment_disabled"
        return "segment_held" if self.held else "segment_enabled" if self.kept else ""

    @property
    def words(self) -> str:
        """The result, for people: ``turned off channel = web``."""
        said = ("turned off", self.off), ("left on until its enable ends:", self.held), ("left on:", self.kept)
        return "; ".join(f"{what} {', '.join(starmap(segment_name, mine))}" for what, mine in said if mine)


def after_evidence(
    segments: Segments,
    known: Iterable[RuleEvidence],
    *,
    now: datetime,
    hold: datetime | None = None,
    overrides: Collection[str] = (),
) -> SegmentChange:
    """What the rules in breach do to segments: each one named is off, at once or when an operator's enable ends.

    ``hold`` is until when an enable of the whole label holds; the breaches of the rules in ``overrides`` wait for no
    hold. What ends, since a rule was in breach that is not any more, goes on.
    """
    by_segment = {each.segment: each for each in segments}
    found = dict(by_segment)
    off: list[Segment] = []
    held: list[Segment] = []
    verdicts, rules = [], []
    named: set[Segment] = set()
    for rule, breach in breaches_of(known):
        named.update(breach.segments)
        for segment in breach.segments:
            before = found.get(segment, SegmentSwitch(*segment))
            holds = () if rule.rule in overrides else (before.hold_until, hold)
            after = _turned_off(before, rule, breach, now, [each for each in holds if each is not None and each > now])
            if after == before:
                continue
            found[segment] = after
            (off if after.is_off(now) else held).append(segment)
            verdicts.append(breach.verdict)
            rules.append(rule.rule)
    kept = [s for s, each in found.items() if each.off_from is not None and each.off_from > now and s not in named]
    found |= {segment: replace(found[segment], off_from=None, verdict=None) for segment in kept}
    if not (off or held or kept):
        return SegmentChange(segments)
    after_all = tuple(each for _, each in sorted(found.items()) if _says_something(each, now))
    first = verdicts[0] if verdicts else None
    return SegmentChange(after_all, tuple(off), tuple(held), tuple(kept), first, tuple(dict.fromkeys(rules)))


def _turned_off(
    before: SegmentSwitch, rule: RuleEvidence, breach: WindowOutcome, now: datetime, holds: Sequence[datetime]
) -> SegmentSwitch:
    """What one breach does to one segment; the same where it is off already, or ends when its hold does."""
    if before.is_off(now):
        return before
    if holds:
        return before if before.off_from is not None else replace(before, off_from=max(holds), verdict=breach.verdict)
    return SegmentSwitch(
        before.column, before.value, now, actor=RUNS[rule.schedule], verdict=breach.verdict,
        reason=f"{rule.rule} in breach until {breach.window_end:%Y-%m-%d}",
    )  # fmt: skip


def _says_something(each: SegmentSwitch, now: datetime) -> bool:
    return each.off_from is not None or (each.hold_until is not None and each.hold_until > now)


def after_operator(
    segments: Segments, segment: Segment, *, enable: bool, by: str, reason: str, now: datetime, hold: datetime,
    known: Sequence[RuleEvidence] = (),
) -> SegmentSwitch:  # fmt: skip
    """One segment as a person wants it: off, or on until ``hold`` at least.

    An "on" while a rule is in breach that named it is off again when the hold ends, unless a window of the same rule
    finds the segment within its threshold before.
    """
    against = [breach for _, breach in breaches_of(known) if segment in breach.segments]
    verdict = against[0].verdict if against else None
    if not enable:
        return SegmentSwitch(*segment, now, None, True, by, reason, verdict)
    return SegmentSwitch(*segment, hold if against else None, hold, True, by, reason, verdict)


def with_segment(segments: Segments, new: SegmentSwitch, now: datetime) -> Segments:
    """The segments of a switch with one of them as it is now; those that say nothing any more are left out."""
    found = {each.segment: each for each in segments if _says_something(each, now)} | {new.segment: new}
    return tuple(each for _, each in sorted(found.items()))


def open_breaches(known: Iterable[RuleEvidence], segments: Segments) -> list[tuple[RuleEvidence, WindowOutcome]]:
    """The rules in breach, but for those whose segments are all off, or will be when an enable ends."""
    return [(rule, breach) for rule, breach in breaches_of(known) if not is_off_or_ends(breach, segments)]
