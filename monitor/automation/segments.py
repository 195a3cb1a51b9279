"""The segments of a label that are off, and how a run or an operator changes them. Pure.

They belong to the label's switch, so one conditional update stores both. A run turns a segment off, and only a person
turns it on again: good windows do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import starmap
from zoneinfo import ZoneInfo

from monitor.automation.evidence import breaches_of, is_off_or_ends
from monitor.core.records import RuleEvidence, Schedule, SegmentSwitch, WindowOutcome
from monitor.core.windows import ended
from monitor.core.wording import segment_name

Segment = tuple[str, str]
Segments = tuple[SegmentSwitch, ...]
RUNS: Mapping[Schedule, str] = {"weekly": "weekly run", "daily": "daily run"}
"""The actor of a switch event, if it is a run."""


def plain_value(value: str) -> str:
    """A value without the differences between routers and tables: values that become equal are off together."""
    return value.strip().casefold()


def as_stored(segment: Segment, segments: Iterable[SegmentSwitch], known: Iterable[RuleEvidence] = ()) -> Segment:
    """The segment as the switch, or else a rule in breach, spells it; as it is if neither has it.

    >>> as_stored(("channel", "WEB"), [SegmentSwitch("channel", "web")]), as_stored(("channel", "WEB"), [])
    (('channel', 'web'), ('channel', 'WEB'))
    """
    of_breaches = (each for _, breach in breaches_of(known) for each in breach.segments)
    candidates = [*(each.segment for each in segments), *of_breaches]
    if segment in candidates:
        return segment
    column, value = segment
    return next(
        (each for each in candidates if (each[0], plain_value(each[1])) == (column, plain_value(value))), segment
    )


@dataclass(frozen=True, slots=True)
class SegmentChange:
    """What the evidence does to a switch's segments: ``after``, and those turned ``off``, ``held`` and ``kept`` on.

    ``verdict`` is the first one that turned a segment off or is against a held one.
    """

    after: Segments
    off: tuple[Segment, ...] = ()
    held: tuple[Segment, ...] = ()
    kept: tuple[Segment, ...] = ()
    verdict: str | None = None
    rules: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The kind of the event; "" if nothing changes."""
        if self.off:
            return "segment_disabled"
        return "segment_held" if self.held else "segment_enabled" if self.kept else ""

    @property
    def words(self) -> str:
        """The result in words: ``turned off channel = web``."""
        lists = ("turned off", self.off), ("left on until its enable ends:", self.held), ("left on:", self.kept)
        return "; ".join(f"{what} {', '.join(starmap(segment_name, segments))}" for what, segments in lists if segments)


def after_evidence(
    segments: Segments,
    known: Iterable[RuleEvidence],
    *,
    now: datetime,
    zone: ZoneInfo,
    hold: datetime | None = None,
    overrides: Collection[str] = (),
) -> SegmentChange:
    """Turn off each segment that a rule in breach names, at once or when an operator's enable ends.

    ``hold`` is when an enable of the whole label ends; breaches of the rules in ``overrides`` do not wait for it. A
    segment that would have been turned off later for a rule that is no longer in breach stays on. ``zone`` is that in
    which reasons name windows.
    """
    by_segment = {each.segment: each for each in segments}
    changed = dict(by_segment)
    off: list[Segment] = []
    held: list[Segment] = []
    verdicts, rules = [], []
    named: set[Segment] = set()
    for rule, breach in breaches_of(known):
        named.update(breach.segments)
        for segment in breach.segments:
            before = changed.get(segment, SegmentSwitch(*segment))
            holds = () if rule.rule in overrides else (before.hold_until, hold)
            later = [each for each in holds if each is not None and each > now]
            after = _turned_off(before, rule, breach, now, later, zone)
            if after == before:
                continue
            changed[segment] = after
            (off if after.is_off(now) else held).append(segment)
            verdicts.append(breach.verdict)
            rules.append(rule.rule)
    kept = [s for s, each in changed.items() if each.off_from is not None and each.off_from > now and s not in named]
    changed |= {segment: replace(changed[segment], off_from=None, verdict=None) for segment in kept}
    if not (off or held or kept):
        return SegmentChange(segments)
    after_all = tuple(each for _, each in sorted(changed.items()) if _has_effect(each, now))
    first = verdicts[0] if verdicts else None
    return SegmentChange(after_all, tuple(off), tuple(held), tuple(kept), first, tuple(dict.fromkeys(rules)))


def _turned_off(
    before: SegmentSwitch, rule: RuleEvidence, breach: WindowOutcome, now: datetime, holds: Sequence[datetime],
    zone: ZoneInfo,
) -> SegmentSwitch:  # fmt: skip
    """One segment after a breach; unchanged if it is off already or will be when its hold ends."""
    if before.is_off(now):
        return before
    if holds:
        return before if before.off_from is not None else replace(before, off_from=max(holds), verdict=breach.verdict)
    return SegmentSwitch(
        before.column,
        before.value,
        now,
        actor=RUNS[rule.schedule],
        verdict=breach.verdict,
        reason=f"{rule.rule} in breach in {ended(rule.schedule, breach.window_end, zone).name}",
    )


def _has_effect(each: SegmentSwitch, now: datetime) -> bool:
    return each.off_from is not None or (each.hold_until is not None and each.hold_until > now)


def after_operator(
    segments: Segments, segment: Segment, *, enable: bool, by: str, reason: str, now: datetime, hold: datetime,
    known: Sequence[RuleEvidence] = (),
) -> SegmentSwitch:  # fmt: skip
    """One segment after an operator's change: off, or on until ``hold`` at least.

    If a rule that named it is in breach, the segment is off again after the hold, unless an earlier window of the same
    rule finds it within the threshold.
    """
    against = [breach for _, breach in breaches_of(known) if segment in breach.segments]
    verdict = against[0].verdict if against else None
    if not enable:
        return SegmentSwitch(*segment, now, None, True, by, reason, verdict)
    return SegmentSwitch(*segment, hold if against else None, hold, True, by, reason, verdict)


def with_segment(segments: Segments, new: SegmentSwitch, now: datetime) -> Segments:
    """The segments of a switch with ``new`` in place of its former state; segments without effect are left out."""
    found = {each.segment: each for each in segments if _has_effect(each, now)} | {new.segment: new}
    return tuple(each for _, each in sorted(found.items()))


def open_breaches(known: Iterable[RuleEvidence], segments: Segments) -> list[tuple[RuleEvidence, WindowOutcome]]:
    """The rules in breach, except those whose segments are all off or will be when an enable ends."""
    return [(rule, breach) for rule, breach in breaches_of(known) if not is_off_or_ends(breach, segments)]
