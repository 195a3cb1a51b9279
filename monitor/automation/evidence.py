"""The last outcome of each acting rule on one label: the evidence that an "on" may be against. Pure.

A breach counts until a window of the *same* rule is within its threshold. An unconfirmed window, or one that was not
evaluated, does not clear it. Only the standard library: routers import this room.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from monitor.core.records import Reason, RuleEvidence, SegmentSwitch, Verdict, WindowOutcome
from monitor.core.score_ranges import Ranges, merged, outwards
from monitor.core.windows import LENGTH, are_same

KEPT = 8
"""The newest windows kept for each rule, beside the last one that decides; older ones are rarely judged again."""
GRACE = timedelta(hours=12)
NOT_READ = (Reason.RELATION_ERROR, Reason.WAREHOUSE_FAILED, Reason.UNRESOLVED_FAILED)
_DECIDES = ("ok", "breach")


def with_verdict(evidence: RuleEvidence, verdict: Verdict) -> RuleEvidence:
    """The evidence after one more verdict of its rule, which replaces an earlier one on the same window.

    Windows are ordered by time, not by their runs; one that is judged again in another time zone is the same. Only
    ``ok``, or accumulated evidence that has fallen again, clears a breach: a window in breach that is judged again as
    unconfirmed or not evaluated stays in breach. But
    an ``ok`` that is not confirmed when its window is judged again no longer clears the breach before it.
    """
    if verdict.reason in NOT_READ:
        return evidence
    verdict = _if_fallen(verdict)
    end = verdict.window.end
    former = next((each for each in evidence.windows if are_same(evidence.schedule, each.window_end, end)), None)
    before = _breach_before(evidence, former, end)
    verdict = _if_judged(before, verdict)
    judged_until = end if evidence.judged_until is None else max(end, evidence.judged_until)
    former_breach = (
        former if former is not None and former.outcome == "breach" and verdict.outcome not in _DECIDES else None
    )
    outcome = former_breach or _with_unjudged(before, _outcome_of(verdict), verdict)
    other_windows = [each for each in evidence.windows if not are_same(evidence.schedule, each.window_end, end)]
    windows = newest_windows([*other_windows, *([outcome] if outcome else [])])
    return replace(evidence, windows=windows, judged_until=judged_until)


def newest_windows(outcomes: Iterable[WindowOutcome]) -> tuple[WindowOutcome, ...]:
    """The windows that are kept, newest first, with the newest deciding one of those that are older.

    So many unconfirmed ones hide no breach.
    """
    windows = sorted(outcomes, key=lambda each: each.window_end, reverse=True)
    older = next((each for each in windows[KEPT:] if each.outcome in _DECIDES), None)
    return (*windows[:KEPT], *([older] if older else []))


def _if_fallen(verdict: Verdict) -> Verdict:
    """The verdict, but ``ok`` where evidence accumulates and has fallen again: the breach that it was is over."""
    if verdict.outcome in ("breach", "ok") or verdict.detail.get("suspected") is not False:
        return verdict
    return replace(verdict, outcome="ok")


def _breach_before(evidence: RuleEvidence, same: WindowOutcome | None, end: datetime) -> WindowOutcome | None:
    """The breach that a window's verdict could clear: an earlier one of this window, else the last before it."""
    earlier = (
        each for each in evidence.windows if each is not same and each.window_end < end and each.outcome in _DECIDES
    )
    last = same if same is not None and same.outcome in _DECIDES else next(earlier, None)
    return last if last is not None and last.outcome == "breach" else None


def _within(verdict: Verdict) -> set[tuple[str, str]]:
    """The segments that a verdict found within the threshold, with enough rows to show a breach."""
    return {(column, value) for column, value in verdict.detail.get("segments_within", ())}


def _if_judged(before: WindowOutcome | None, verdict: Verdict) -> Verdict:
    """The verdict, but unconfirmed instead of ``ok`` if it did not judge all segments that the breach turned off."""
    if verdict.outcome != "ok" or before is None or _within(verdict) >= set(before.segments):
        return verdict
    return replace(verdict, outcome="unconfirmed")


def _with_unjudged(before: WindowOutcome | None, new: WindowOutcome | None, verdict: Verdict) -> WindowOutcome | None:
    """The new breach, with the segments of the breach before it that were not judged since."""
    if new is None or before is None or not new.segments:
        return new
    return replace(new, segments=tuple(sorted({*new.segments, *(set(before.segments) - _within(verdict))})))


def segments_off(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """The segments that a breach turns off instead of its label: those of a rule with ``turns_off: segments``."""
    if verdict.outcome != "breach" or "disable_automation" not in verdict.actions:
        return ()
    return tuple((column, value) for column, value in verdict.detail.get("turns_off", ()))


def blocked_by(verdict: Verdict) -> Ranges:
    """The score ranges that a breach blocks instead of its label; only those of ``limit_scores`` end exactly."""
    ranges = [(float(low), float(high)) for low, high in verdict.detail.get("blocked", ())]
    return merged(ranges) if "limit_scores" in verdict.actions else outwards(ranges)


def _outcome_of(verdict: Verdict) -> WindowOutcome | None:
    """The outcome of a verdict's window; None if it was not evaluated."""
    if verdict.outcome == "not_evaluated":
        return None
    if verdict.outcome != "breach":
        return WindowOutcome(verdict.window.end, verdict.outcome, verdict.id)
    segments = segments_off(verdict)
    if segments:
        return WindowOutcome(verdict.window.end, "breach", verdict.id, segments=segments)
    blocked = blocked_by(verdict)
    turns_off = "disable_automation" in verdict.actions or not blocked
    return WindowOutcome(verdict.window.end, "breach", verdict.id, () if turns_off else blocked)


def breach_of(evidence: RuleEvidence) -> WindowOutcome | None:
    """The rule's last breach, unless a later window is within its threshold; else None."""
    last = next((each for each in evidence.windows if each.outcome in _DECIDES), None)
    return last if last is not None and last.outcome == "breach" else None


def breaches_of(known: Iterable[RuleEvidence]) -> list[tuple[RuleEvidence, WindowOutcome]]:
    """The rules in breach with their breaches; those that turn off come before those that block scores."""
    found = [(each, breach) for each in known if (breach := breach_of(each)) is not None]
    return sorted(found, key=lambda pair: (bool(pair[1].blocked), pair[0].rule))


def is_off_or_ends(breach: WindowOutcome, segments: Iterable[SegmentSwitch]) -> bool:
    """Whether a breach names segments, and all of these are off or will be when an operator's enable ends."""
    off = {each.segment for each in segments if each.off_from is not None}
    return bool(breach.segments) and off >= set(breach.segments)


def is_against(
    known: Iterable[RuleEvidence], blocked: Iterable[tuple[float, float]], segments: Iterable[SegmentSwitch] = ()
) -> bool:
    """Whether an "on" with these blocked ranges and segments is against a rule in breach.

    It is not if the breach names score ranges and these are blocked, or names segments and these are off.
    """
    ranges, parts = tuple(blocked), tuple(segments)

    def is_covered(low: float, high: float) -> bool:
        return any(begin <= low and high <= end for begin, end in ranges)

    def is_answered(breach: WindowOutcome) -> bool:
        if is_off_or_ends(breach, parts):
            return True
        return bool(breach.blocked) and all(is_covered(low, high) for low, high in breach.blocked)

    return any(not is_answered(breach) for _, breach in breaches_of(known))


def lease_bound(evidence: RuleEvidence, turned_on: datetime, lease: timedelta) -> datetime:
    """The latest end of a lease that this rule allows, counted from the end of its last judged window.

    If the rule was never judged, time counts from its first run, or from when the label was turned on, if that is
    later.
    """
    return _counts_from(evidence, turned_on) + max(lease, LENGTH[evidence.schedule] + GRACE)


def _counts_from(evidence: RuleEvidence, turned_on: datetime) -> datetime:
    return evidence.judged_until or max(evidence.since or turned_on, turned_on)


def last_judged(evidence: RuleEvidence, turned_on: datetime, window_end: datetime) -> str:
    """When a rule was judged last, in words, where the lease counts from that; ``window_end`` is that of the run.

    >>> from datetime import UTC
    >>> end = datetime(2026, 11, 16, tzinfo=UTC)
    >>> weekly = RuleEvidence("tickets", "billing", "ece-increase", "weekly", judged_until=end)
    >>> [last_judged(weekly, end, end + timedelta(days=days)) for days in (3, 8)]
    ['ece-increase was judged until 2026-11-16 00:00 UTC', 'ece-increase was not judged lately']
    """
    if window_end > _counts_from(evidence, turned_on) + LENGTH[evidence.schedule] + GRACE:
        return f"{evidence.rule} was not judged lately"
    if evidence.judged_until is None:
        return f"{evidence.rule} was not judged yet"
    return f"{evidence.rule} was judged until {evidence.judged_until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
