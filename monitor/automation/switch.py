"""The switch, which says whether automation may act, and how runs and operators change it. Pure: state in, state out.

In doubt the switch is off: never set, expired and forbidden are all off, and only *evaluated* rules renew the lease.
Imports neither pandas, SciPy nor DuckDB, since the gate imports it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.automation.evidence import (
    blocked_by,
    is_against,
    last_judged,
    lease_bound,
    segments_off,
    with_verdict,
)
from monitor.automation.segments import (
    RUNS,
    Segment,
    SegmentChange,
    after_evidence,
    after_operator,
    as_stored,
    open_breaches,
    with_segment,
)
from monitor.automation.state import is_blocked
from monitor.config.model import AutomationConfig, ReEnableAfter
from monitor.core.records import (
    LIMITING,
    KeptScores,
    Reason,
    RuleEvidence,
    Schedule,
    SwitchEvent,
    SwitchState,
    Verdict,
    WindowOutcome,
)
from monitor.core.score_ranges import Ranges, merged, ranges_text
from monitor.core.windows import are_same
from monitor.core.wording import clean, percent, segment_name

HOLD = timedelta(hours=24)
_UTC = ZoneInfo("UTC")
# Both schedules share one date. A week that is evaluated some days late is still the newest week, although days that
# ended after it were evaluated before.
_LATE = {"weekly": timedelta(days=6), "daily": timedelta(0)}
WEEKLY_RUN = RUNS["weekly"]
# The kind of event and the words for a change that a dry run does not make.
DRY_RUN = {
    "disabled": ("would_disable", "would turn off"),
    "blocked": ("would_block", "would block"),
    "enabled": ("would_enable", "would turn on"),
    "unblocked": ("would_unblock", "would unblock"),
    "held": ("would_hold", "would be held by an operator's enable"),
    "segment_disabled": ("would_disable_segment", "would turn off segments"),
}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The verdicts of a label's acting rules in one evaluation.

    ``key`` names the evaluation; together with the version of the state it makes a change happen once. ``requested``: a
    person lets this window act although it is older than the newest one (``--act``). ``known`` is the evidence of each
    acting rule of the label, on both schedules, these verdicts included. ``again``: the window was evaluated before.
    ``zone`` is that of the windows' names.
    """

    window_end: datetime
    schedule: Schedule
    verdicts: Sequence[Verdict]
    key: str
    requested: bool = False
    known: Sequence[RuleEvidence] = ()
    again: bool = False
    zone: ZoneInfo = _UTC


@dataclass(frozen=True, slots=True)
class SwitchDecision:
    """The state after a decision, its event, and the reason.

    ``event`` is None exactly if nothing changes. Only the event of a dry run may leave ``after`` unchanged. With
    ``once`` it is stored only if no event has a key that begins so.
    """

    after: SwitchState
    event: SwitchEvent | None
    reason: str
    once: str | None = None


def after_run(
    state: SwitchState, evidence: Evidence, automation: AutomationConfig, *, critical: bool, now: datetime
) -> SwitchDecision:
    """What an evaluation does to a switch.

    A breach turns off or blocks. An evaluated rule renews the lease, unless another acting rule was not judged for too
    long or is in breach. Good windows turn on only what the configuration lets come back by itself, and only if no
    acting rule is in breach. A run never undoes an operator's off. With ``dry_run`` the event says what would have
    happened, and only the lease and the count of good windows change.
    """
    before, hold = state, state.hold_until
    if state.state == "off" and state.by_operator and hold is not None and hold <= now:
        # after its ``until`` an operator's off is treated as if this run had turned it off
        before = replace(state, by_operator=False, hold_until=None, counts=RUNS[evidence.schedule])
    parts = _segments_after(before, evidence, critical, now)
    applied = before if automation.dry_run else replace(before, segments=parts.after)
    change = _Change(applied, evidence, automation, critical, now)
    decision = _with_segments(change, parts, _decide(change))
    if decision.event is None:
        return replace(decision, after=state)
    if automation.dry_run and decision.event.kind in DRY_RUN:
        return _dry_run_of(change, state, decision.event)
    return decision


def _segments_after(before: SwitchState, evidence: Evidence, critical: bool, now: datetime) -> SegmentChange:
    """What the evidence does to a label's segments: nothing if nobody has turned the label on."""
    if before.state == "never_set":
        return SegmentChange(before.segments)
    found = [verdict for verdict in evidence.verdicts if segments_off(verdict)]
    rules = {each.rule for each in evidence.known}
    more = [with_verdict(_unknown(v, before), v) for v in found if v.rule not in rules]  # no breach is ignored
    hold = before.hold_until if before.state == "on" and not critical else None
    overrides = {verdict.rule for verdict in found} if critical else ()
    return after_evidence(
        before.segments, [*evidence.known, *more], now=now, zone=evidence.zone, hold=hold, overrides=overrides
    )


def _unknown(verdict: Verdict, state: SwitchState) -> RuleEvidence:
    return RuleEvidence(state.source, state.label, verdict.rule, verdict.window.schedule)


_SAYS_LITTLE = ("renewed", "not_renewed", "counted")


def _with_segments(change: _Change, parts: SegmentChange, decision: SwitchDecision) -> SwitchDecision:
    """The decision about a label, joined with that about its segments into one change with one event."""
    event, words, is_dry = decision.event, parts.words, change.automation.dry_run
    if not parts.kind or (is_dry and parts.kind != "segment_disabled"):
        return decision
    why = f"{', '.join(parts.rules)}: {words}" if parts.rules else words
    if event is None or decision.once is not None or (is_dry and event.kind in _SAYS_LITTLE):
        return change.event(change.before, parts.kind, words, why=why, verdict=parts.verdict)
    if event.kind in _SAYS_LITTLE:
        event = replace(event, kind=parts.kind, reason=why, verdict=parts.verdict)
        return replace(decision, reason=words, event=event)
    event = replace(event, reason=f"{event.reason}; {why}")
    return replace(decision, reason=f"{decision.reason}; {words}", event=event)


def _decide(change: _Change) -> SwitchDecision:
    evidence = change.evidence
    if not evidence.verdicts:
        return change.nothing("no acting rule on this schedule")
    breaches = [verdict for verdict in evidence.verdicts if verdict.outcome == "breach" and not segments_off(verdict)]
    if breaches and not change.is_older:
        return _after_breach(change, breaches)
    if change.is_overdue:  # also in an older window, since the evidence has each rule's newest outcome
        return _catch_up(change)
    if change.outlasts_its_hold:
        return _held(change, change.breaches[0][1].verdict, _open_breaches(change))
    return change.nothing("older window") if change.is_older else _after_no_breach(change)


def _after_no_breach(change: _Change) -> SwitchDecision:
    if change.is_behind or change.is_again_under_a_clock_behind:
        return change.nothing("older window: nothing is renewed")
    outcomes = {verdict.outcome for verdict in change.evidence.verdicts}
    if outcomes == {"not_evaluated"}:
        return _after_silence(change)
    if "breach" in outcomes:  # only of segments
        return _after_segments(change)
    return _after_unconfirmed(change) if "unconfirmed" in outcomes else _after_ok(change)


def operator_change(
    state: SwitchState,
    *,
    enable: bool,
    by: str,
    reason: str,
    now: datetime,
    until: datetime | None = None,
    automation: AutomationConfig,
    key: str,
    known: Sequence[RuleEvidence] = (),
    zone: ZoneInfo = _UTC,
) -> SwitchDecision:
    """What an operator does to a switch: on (with a new lease, nothing blocked) or off.

    ``until`` says how long the change holds against runs. An "on" holds for 24 hours by default, an "off" for ever.
    After ``until`` an off does not end by itself, but good windows may undo it if ``re_enable`` allows that. An "on"
    while any acting rule (``known``) is in breach ends with its hold, unless a window of the same rule within its
    threshold comes first. ``zone`` is that of the windows' names. Raises ValueError for a missing name or reason, and
    for an ``until`` in the past.
    """
    if not by.strip() or not reason.strip():
        raise ValueError("a change of the switch needs a name and a reason")
    if until is not None and until <= now:
        raise ValueError("until must lie in the future")
    turns_off = enable and not automation.dry_run  # in a dry run the evidence changes nothing
    parts = after_evidence(state.segments, known, now=now, zone=zone) if turns_off else SegmentChange(state.segments)
    against = open_breaches(known, parts.after)
    after = replace(
        state, segments=parts.after, state="off", blocked=(), kept=None, lease_until=None,
        hold_until=until if _may_come_back(state) else None,
        by_operator=True, actor=by, reason=reason, verdict=against[0][1].verdict if against else None, ok_streak=0,
        changed_at=now, version=state.version + 1, counts="", not_evaluated=None,
    )  # fmt: skip
    words = "turned off"
    if enable:
        hold, lease = until or now + HOLD, _later(state.lease_until, now + automation.lease)
        words, lease = _on_against(against, min(hold, now + automation.lease)) if against else ("turned on", lease)
        after = replace(after, state="on", lease_until=lease, hold_until=hold)
    words = f"{words}, but {parts.words}" if parts.off else words
    kind = "enabled" if enable else "disabled"
    event = SwitchEvent.of(state, after, key=key, at=now, kind=kind, actor=by, reason=reason, verdict=after.verdict)
    return SwitchDecision(after, event, words)


def operator_segment_change(
    state: SwitchState,
    *,
    segment: Segment,
    enable: bool,
    by: str,
    reason: str,
    now: datetime,
    until: datetime | None = None,
    automation: AutomationConfig,
    key: str,
    known: Sequence[RuleEvidence] = (),
) -> SwitchDecision:
    """What an operator does to one segment of a label; the label's own state does not change.

    ``until`` says how long an "on" holds against runs: 24 hours by default, a lease at most. An off has no end. An "on"
    while a rule that named the segment is in breach ends with its hold. A value that differs from a stored one by upper
    and lower case or spaces around it is that one, as for the gate. Raises ValueError like :func:`operator_change`,
    and for the source's own switch, which has no segments.
    """
    if not by.strip() or not reason.strip():
        raise ValueError("a change of the switch needs a name and a reason")
    if until is not None and (until <= now or not enable):
        raise ValueError("until must lie in the future, and a segment that is off has no end")
    if state.label is None:
        raise ValueError("segments are of labels: the source's own switch has none")
    segment = as_stored(segment, state.segments, known)
    hold = min(until or now + HOLD, now + automation.lease)
    new = after_operator(state.segments, segment, enable=enable, by=by, reason=reason, now=now, hold=hold, known=known)
    segments, name = with_segment(state.segments, new, now), segment_name(*segment)
    after = replace(state, segments=segments, changed_at=state.changed_at or now, version=state.version + 1)
    words = f"turned {'on' if enable else 'off'} {name}"
    if enable and new.off_from is not None:
        words += f" until {hold.astimezone(UTC):%Y-%m-%d %H:%M} UTC: against the last evaluation"
    kind, why = "segment_enabled" if enable else "segment_disabled", f"{name}: {reason}"
    event = SwitchEvent.of(state, after, key=key, at=now, kind=kind, actor=by, reason=why, verdict=new.verdict)
    return SwitchDecision(after, event, words)


def _on_against(against: Sequence[tuple[RuleEvidence, WindowOutcome]], end: datetime) -> tuple[str, datetime]:
    rules = ", ".join(rule.rule for rule, _ in against)
    words = f"turned on until {end.astimezone(UTC):%Y-%m-%d %H:%M} UTC: against the last evaluation ({rules})"
    return f"{words}, and only a good window makes it last", end


def was_enabled_against(state: SwitchState) -> bool:
    """Whether an operator turned or holds this on against a breach that is not cleared."""
    return state.state == "on" and state.by_operator and state.verdict is not None


def _may_come_back(state: SwitchState) -> bool:
    """Whether good windows may ever undo this label's off; never if it was never turned on."""
    return state.state == "on" or (state.state == "off" and (not state.by_operator or state.hold_until is not None))


@dataclass(frozen=True, slots=True)
class _Change:
    """All that a decision after a run needs, and the two forms of its result."""

    before: SwitchState
    evidence: Evidence
    automation: AutomationConfig
    critical: bool
    now: datetime

    @property
    def run(self) -> str:
        return RUNS[self.evidence.schedule]

    @property
    def is_older(self) -> bool:
        return self.is_behind and not self.evidence.requested

    @property
    def is_behind(self) -> bool:
        """Whether a newer window has been evaluated, even if ``--act`` was given."""
        newest = self.newest
        return newest is not None and self.evidence.window_end < newest - _LATE[self.evidence.schedule]

    @property
    def is_again_under_a_clock_behind(self) -> bool:
        """Whether this window was evaluated before, and a newer one ends in the future of this clock.

        Either the clock is behind, and this is an older window that has been counted; or the clock was ahead when the
        newer window was evaluated. Then the next window, evaluated for the first time, continues.
        """
        newest = self.before.last_window_end
        return self.evidence.again and newest is not None and self.now < newest

    @property
    def newest(self) -> datetime | None:
        """The end of the newest evaluated window; None if it is in the future, left by a clock that was ahead."""
        newest = self.before.last_window_end
        return newest if newest is None or newest <= self.now else None

    @property
    def is_held(self) -> bool:
        """Whether an operator's "on" still holds against this run; never for a critical label."""
        hold = self.before.hold_until
        return self.before.state == "on" and hold is not None and hold > self.now and not self.critical

    @property
    def breaches(self) -> list[tuple[RuleEvidence, WindowOutcome]]:
        """The acting rules in breach, from any window; in a dry run only if an enable was against one."""
        counts = not self.automation.dry_run or was_enabled_against(self.before)
        return open_breaches(self.evidence.known, self.before.segments) if counts else []

    @property
    def is_against(self) -> bool:
        """Whether the switch allows what a rule in breach forbids."""
        return bool(self.breaches) and is_against(self.evidence.known, self.before.blocked, self.before.segments)

    @property
    def is_overdue(self) -> bool:
        """Whether an earlier breach must still be acted on, since it came during a hold or from the other schedule."""
        before, hold = self.before, self.before.hold_until
        acts = before.state == "on" or (before.state == "never_set" and before.label is None)
        return acts and self.is_against and not self.automation.dry_run and (hold is None or hold <= self.now)

    @property
    def outlasts_its_hold(self) -> bool:
        """Whether an "on" against a breach would last longer than its hold."""
        before, hold, lease = self.before, self.before.hold_until, self.before.lease_until
        if before.state != "on" or hold is None or lease is None or not self.is_against:
            return False
        return self.now < hold < lease

    @property
    def turned_on(self) -> datetime:
        """When the label was turned on: now, if it is not on."""
        return self.before.changed_at if self.before.state == "on" and self.before.changed_at else self.now

    @property
    def bound(self) -> tuple[datetime, RuleEvidence] | None:
        """The earliest limit that an acting rule sets for the lease, and that rule; None without acting rules."""
        bounds = [(lease_bound(each, self.turned_on, self.automation.lease), each) for each in self.evidence.known]
        return min(bounds, default=None, key=lambda pair: (pair[0], pair[1].rule))

    @property
    def lease(self) -> datetime:
        """The end of the renewed lease: never earlier than before, and unchanged by an older window.

        Every acting rule of the label limits it by the time since it was last judged on its schedule.
        """
        until, end = self.before.lease_until, self.evidence.window_end + self.automation.lease
        if self.bound is not None:
            end = min(end, self.bound[0])
        silent = all(verdict.outcome == "not_evaluated" for verdict in self.evidence.verdicts)
        return until if until and (self.is_behind or silent) else _later(until, end)

    @property
    def shortened_by(self) -> RuleEvidence | None:
        """The rule that makes the lease shorter than usual; None if it is not shorter."""
        full = self.evidence.window_end + self.automation.lease
        return self.bound[1] if self.bound is not None and self.lease < full and not self.is_behind else None

    @property
    def waits_for(self) -> str | None:
        """The name of the rule that makes the lease shorter than usual."""
        return None if self.shortened_by is None else self.shortened_by.rule

    @property
    def kept_off(self) -> str:
        """Why no number of good windows may turn the label on now; "" if they may."""
        for rule, _ in open_breaches(self.evidence.known, self.before.segments):
            return f"{rule.rule} is still in breach"
        return f"{self.waits_for} was not judged lately" if self.waits_for and self.lease <= self.now else ""

    @property
    def restrictor(self) -> str:
        """The run whose good windows count after this breach: the weekly run, once it has restricted the label."""
        return WEEKLY_RUN if _is_restricted(self.before) and self.before.counted_run == WEEKLY_RUN else self.run

    @property
    def needs_operator(self) -> bool:
        """Whether an operator must turn this label on for the first time, so that good windows may not."""
        before = self.before
        return before.state == "never_set" and before.label is not None and self.automation.initial == "off"

    @property
    def streak(self) -> int:
        """Good windows in a row with this one, each once, and only those of the run that turned off or blocked."""
        newest = self.newest
        end, schedule = self.evidence.window_end, self.evidence.schedule
        is_new = newest is None or (end > newest and not are_same(schedule, end, newest))
        return self.before.ok_streak + (1 if is_new and self.before.counted_run == self.run else 0)

    @property
    def streak_needed(self) -> float:
        """After how many good windows automation comes back by itself; infinite if it does not."""
        re_enable = self.automation.re_enable
        return re_enable.after if isinstance(re_enable, ReEnableAfter) else math.inf

    def nothing(self, reason: str) -> SwitchDecision:
        return SwitchDecision(self.before, None, reason)

    def become(
        self,
        after: SwitchState,
        kind: str,
        reason: str,
        *,
        why: str = "",
        verdict: str | None = None,
        waits_for: str | None = None,
    ) -> SwitchDecision:
        """The decision for ``after``, with an event exactly if it differs; ``why`` is the reason in the history."""
        if after.counted_run == self.run or not _is_restricted(after):  # else the windows of the other run are counted
            after = replace(after, last_window_end=_later(self.newest, self.evidence.window_end))
        if after == self.before:
            return self.nothing(reason)
        return self.event(after, kind, reason, why=why, verdict=verdict, waits_for=waits_for)

    def event(
        self, after: SwitchState, kind: str, reason: str, *, why: str, verdict: str | None, waits_for: str | None = None
    ) -> SwitchDecision:
        """The decision for ``after``, with an event even if it does not differ."""
        event = SwitchEvent.of(
            self.before, after, key=f"{self.evidence.key}:{self.before.version}", at=self.now, kind=kind,
            actor=self.run, reason=why or reason, verdict=verdict, waits_for=waits_for,
        )  # fmt: skip
        return SwitchDecision(replace(after, version=self.before.version + 1), event, reason)


def _after_breach(change: _Change, breaches: Sequence[Verdict]) -> SwitchDecision:
    disabling = [verdict for verdict in breaches if "disable_automation" in verdict.actions]
    blocking = [verdict for verdict in breaches if LIMITING & set(verdict.actions)]
    if not disabling and not blocking:
        raise ValueError("a breach of a rule that may not act is no evidence for the switch")
    named = merged(each for verdict in blocking for each in blocked_by(verdict))
    unnamed = [verdict for verdict in blocking if not blocked_by(verdict)] if not disabling else []
    says_off = disabling or unnamed
    if change.is_held:
        return _held(change, [*says_off, *breaches][0].id, _why(breaches))
    if change.before.state == "off":
        return _still_off(change, says_off)
    if says_off:
        why = _why(says_off) + (f", and {_unnamed(unnamed[0])}" if unnamed else "")
        return _turn_off(change, says_off[0].id, why)
    if change.is_overdue and any(not breach.blocked for _, breach in change.breaches):
        return _catch_up(change)
    return _block(change, blocking[0].id, _why(blocking), named, _kept_of(blocking, named))


def _catch_up(change: _Change) -> SwitchDecision:
    """Act on an earlier breach that is not cleared and is no longer delayed by an operator's enable."""
    why = _open_breaches(change)
    _, first = change.breaches[0]
    if not first.blocked:
        return _turn_off(change, first.verdict, why)
    named = merged(each for _, breach in change.breaches for each in breach.blocked)
    return _block(change, first.verdict, why, named, None)


def _open_breaches(change: _Change) -> str:
    return "; ".join(f"{rule.rule}: no window within its threshold since its breach" for rule, _ in change.breaches)


def _left_on(state: SwitchState) -> str:
    """The reason for a label that an operator's enable keeps on: until it ends, or before that until its lease does."""
    ends = min((each for each in (state.hold_until, state.lease_until) if each is not None), default=None)
    until = "" if ends is None else f" until {ends.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"left on: enabled by {clean(state.actor)}{until}"


def _held(change: _Change, verdict: str, breaches: str) -> SwitchDecision:
    """Keep an operator's "on" against a breach until its hold ends; then all is off, also what was to be blocked.

    It is noted once for each enable and evaluation, also where the enable was against this very breach.
    """
    before, reason = change.before, _left_on(change.before)
    assert before.hold_until is not None  # noqa: S101 - only called during a hold
    why = f"{reason}: {breaches}"
    ends = min(before.lease_until or before.hold_until, before.hold_until)
    after = replace(before, lease_until=ends, verdict=verdict)
    decision = change.become(after, "held", reason, why=why, verdict=verdict)
    is_new = decision.event is not None
    noted = decision if is_new else change.event(before, "held", reason, why=why, verdict=verdict)
    assert noted.event is not None  # noqa: S101 - both have one
    once = f"{change.evidence.key}:held:{before.changed_at}"
    event = replace(noted.event, key=f"{once}:{before.version}")
    return replace(noted, event=event, once=None if is_new else once)


def _turn_off(change: _Change, verdict: str, why: str, not_evaluated: str | None = None) -> SwitchDecision:
    after = replace(
        change.before, state="off", blocked=(), kept=None, lease_until=None, hold_until=None,
        by_operator=change.needs_operator,
        actor=change.run, counts=change.restrictor, reason=why, verdict=verdict, ok_streak=0, changed_at=change.now,
        not_evaluated=not_evaluated,
    )  # fmt: skip
    said = "it was never turned on" if change.before.state == "never_set" else "turned off"
    return change.become(after, "disabled", said, why=why, verdict=verdict)


def _still_off(change: _Change, says_off: Sequence[Verdict]) -> SwitchDecision:
    """A breach of a label that is off already: the count of good windows starts again, and the verdict is kept."""
    before = change.before
    counts = not before.by_operator and not math.isinf(change.streak_needed)
    after = replace(before, ok_streak=0, counts=change.restrictor if counts else before.counts)
    if says_off and (before.verdict is None or before.ok_streak):
        after = replace(after, verdict=says_off[0].id)
    if after == before and not counts:
        return change.nothing("already off")
    return change.become(after, "counted", "already off", why=f"already off; {_why(says_off)}" if says_off else "")


def _kept_of(blocking: Sequence[Verdict], named: Ranges) -> KeptScores | None:
    """What is proved of the scores above the blocked ones; None if they are blocked for another reason too."""
    limits = [KeptScores(**limit) for verdict in blocking if (limit := verdict.detail.get("limit"))]
    highest = max(limits, key=lambda kept: kept.score, default=None)
    return None if highest is None or any(high >= highest.score for _, high in named) else highest


def kept_words(kept: KeptScores) -> str:
    """What is proved of the scores from which a label goes on acting alone.

    >>> kept_words(KeptScores(0.95, 0.71, 0.97, 0.95, 0.98))
    'only from score 0.95 (71% of its items go on, 97% right, 95% to 98%)'
    """
    right = f"{percent(kept.correct)} right, {percent(kept.low)} to {percent(kept.high)}"
    return f"only from score {kept.score:g} ({percent(kept.share)} of its items go on, {right})"


def _unnamed(verdict: Verdict) -> str:
    """Why a breach that would block scores turns its label off instead."""
    if "limit_scores" in verdict.actions:
        return "from no score on its promise is shown to hold"
    return "no score range could be named"


def _block(change: _Change, verdict: str, why: str, named: Ranges, kept: KeptScores | None) -> SwitchDecision:
    """Block the ranges that verdicts name. The source's own switch only forbids, so it may block without being set."""
    before = change.before
    if before.state == "never_set" and before.label is not None:
        return change.nothing("never set")
    ranges = merged(before.blocked + named)
    if kept is not None and is_blocked(kept.score, ranges):
        kept = before.kept  # more was blocked before, and comes back by good windows only
    if ranges == before.blocked:
        return _renew(change, "already blocked", replace(before, ok_streak=0, kept=kept))
    why = f"{why}; it acts {kept_words(kept)}" if kept is not None else why
    after = replace(
        before, state="on", blocked=ranges, kept=kept, lease_until=change.lease, by_operator=False, actor=change.run,
        counts=change.restrictor, reason=why, verdict=verdict, ok_streak=0, changed_at=change.now,
        not_evaluated=None,
    )  # fmt: skip
    return change.become(after, "blocked", "blocked", why=why, verdict=verdict, waits_for=change.waits_for)


def _after_ok(change: _Change) -> SwitchDecision:
    before = change.before
    rejected = next((v for v in change.evidence.verdicts if v.reason == Reason.REJECTED_ROWS), None)
    if rejected is not None:  # another rule is within its threshold, but rows were rejected: no good window
        words = f"{rejected.rule} could not be evaluated: rows were rejected"
        return _with_lease(change, before, f"renewed; {words}") if before.state == "on" else change.nothing(words)
    if before.state == "never_set":
        if change.automation.initial != "on_first_ok":
            return change.nothing("never set")
        return change.nothing(change.kept_off) if change.kept_off else _turn_on(change, "first good window")
    if before.state == "off" and before.by_operator:
        return _noted(change, "off by an operator")
    return _count(change) if _is_restricted(before) else _renew(change, "renewed")


def _after_unconfirmed(change: _Change) -> SwitchDecision:
    """Renew the lease after an unconfirmed window; it is neither good nor bad, so nothing else changes."""
    words = "beyond the limit, not confirmed"
    if change.before.state != "on":
        return change.nothing(words)
    return _with_lease(change, change.before, f"renewed: {words}")


def _after_segments(change: _Change) -> SwitchDecision:
    """Only segments are in breach: the window is evaluated, but neither good nor bad for the label."""
    words = "only segments in breach"
    return (
        _with_lease(change, change.before, f"renewed: {words}")
        if change.before.state == "on"
        else change.nothing(words)
    )


def _count(change: _Change) -> SwitchDecision:
    """Count one more good window of an off or blocked label; enough of them undo that."""
    before, streak = change.before, change.streak
    if math.isinf(change.streak_needed):
        return _renew(change, "renewed") if before.state == "on" else _noted(change, "off until an operator enables")
    if streak >= change.streak_needed and not change.kept_off:
        return _turn_on(change, f"{streak} good windows in a row")
    words = f"{streak} of {change.streak_needed:g} good windows" + f"; {change.kept_off}" * bool(change.kept_off)
    if before.state == "on":
        return _renew(change, words, replace(before, ok_streak=streak))
    return change.become(replace(before, ok_streak=streak), "counted", words)


def _noted(change: _Change, words: str) -> SwitchDecision:
    """Note a good window of a label that only an operator may turn on: it stays off, but no rule is in breach."""
    before = change.before
    if before.verdict is None or before.ok_streak or open_breaches(change.evidence.known, before.segments):
        return change.nothing(words)
    return change.become(replace(before, ok_streak=1), "counted", words, why=f"a good window; {words}")


def _turn_on(change: _Change, why: str) -> SwitchDecision:
    after = replace(
        change.before, state="on", blocked=(), kept=None, lease_until=change.lease, hold_until=None, by_operator=False,
        actor=change.run, counts="", reason=why, verdict=None, ok_streak=0, changed_at=change.now, not_evaluated=None,
    )  # fmt: skip
    if change.before.state == "on":
        return change.become(after, "unblocked", "unblocked", why=why, waits_for=change.waits_for)
    return change.become(after, "enabled", "turned on", why=why, waits_for=change.waits_for)


def _after_silence(change: _Change) -> SwitchDecision:
    """Renew nothing, since nothing was evaluated; ``when_not_evaluated: disable`` turns the label off at once."""
    if all(verdict.reason is Reason.NOT_MATURE for verdict in change.evidence.verdicts):
        return change.nothing("waits for truths: the lease is not renewed")
    if change.newest == change.evidence.window_end and all(
        verdict.reason is Reason.IN_BASELINE for verdict in change.evidence.verdicts
    ):  # the window was counted before somebody pinned it: that says nothing against the label
        return change.nothing("in its baseline by now: the lease is not renewed")
    if change.automation.when_not_evaluated == "keep":
        return change.nothing("not evaluated: the lease is not renewed")
    acts = change.before.state == "on" or (change.before.state == "never_set" and change.before.label is None)
    if not acts:  # a source's own switch that was never set forbids nothing, so it counts as on
        return change.nothing("not evaluated")
    if change.is_held:
        return change.nothing(_left_on(change.before))
    first = change.evidence.verdicts[0]
    return _turn_off(change, first.id, f"not evaluated: {_words(first.reason)}", first.reason.value)


def _renew(change: _Change, reason: str, after: SwitchState | None = None) -> SwitchDecision:
    """The same state with a renewed lease; if no breach is against an operator's "on", its verdict is cleared."""
    after = after or change.before
    verdict = None if after.by_operator and not change.is_against else after.verdict
    return _with_lease(change, replace(after, verdict=verdict), reason)


def _with_lease(change: _Change, after: SwitchState, reason: str) -> SwitchDecision:
    """``after`` with a renewed lease; with the same one if a rule is in breach or was not judged lately."""
    if change.is_against:
        held = f"not renewed: {change.breaches[0][0].rule} is still in breach"
        return change.become(after, "not_renewed", held)
    rule, waits_for = change.shortened_by, change.waits_for
    if rule is None:
        return change.become(replace(after, lease_until=change.lease), "renewed", reason)
    why = last_judged(rule, change.turned_on, change.evidence.window_end)
    if change.lease == change.before.lease_until:
        return change.become(after, "not_renewed", f"not renewed: {why}", waits_for=waits_for)
    words = f"{reason}, less long than usual: {why}"
    return change.become(replace(after, lease_until=change.lease), "renewed", words, waits_for=waits_for)


def _dry_run_of(change: _Change, stored: SwitchState, event: SwitchEvent) -> SwitchDecision:
    """In a dry run: the change that would have happened becomes an event, and the switch does not change.

    The lease is renewed as in any evaluated window, so that a dry run does not stop automation when the lease ends. A
    lease that has ended, or an "on" against a verdict, is not renewed.
    """
    kind, words = DRY_RUN[event.kind]
    lease_runs = stored.state == "on" and stored.lease_until is not None and stored.lease_until > change.now
    evaluated = any(verdict.outcome != "not_evaluated" for verdict in change.evidence.verdicts)
    after = stored
    if lease_runs and evaluated and not was_enabled_against(stored):
        after = replace(stored, lease_until=change.lease)
    if stored.version and (after.counted_run == change.run or not _is_restricted(after)):
        after = replace(after, last_window_end=_later(change.newest, change.evidence.window_end))
    if after != stored:
        after = replace(after, version=stored.version + 1)
    ranges = f" {ranges_text(event.blocked)}" if event.kind == "blocked" else ""
    # without the version: after a renewal the same window must not store this event again
    key = f"{change.evidence.key}:dry:{stored.changed_at.isoformat() if stored.changed_at else 'never set'}"
    dry_event = replace(
        event, key=key, kind=kind, from_state=stored.state, to_state=stored.state, blocked=stored.blocked,
        segments=stored.segments,
        lease_until=after.lease_until, until=stored.hold_until, reason=f"dry run: {words}{ranges}: {event.reason}",
    )  # fmt: skip
    return SwitchDecision(after, dry_event, f"{words}{ranges}")


def _is_restricted(state: SwitchState) -> bool:
    """Whether a run has turned off or blocked something that good windows may undo."""
    return bool(state.blocked) or (state.state == "off" and not state.by_operator)


def _why(verdicts: Sequence[Verdict]) -> str:
    """Which rules are in breach, window by window."""
    rules: dict[str, dict[str, None]] = {}
    for verdict in verdicts:
        rules.setdefault(verdict.window.name, {})[verdict.rule] = None
    return "; ".join(f"in breach in {window}: {', '.join(names)}" for window, names in rules.items())


def _words(reason: Reason) -> str:
    """A reason as people read it."""
    return reason.value.replace("_", " ")


def _later(first: datetime | None, second: datetime) -> datetime:
    return second if first is None else max(first, second)
