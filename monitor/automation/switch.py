"""The switch: may automation act, and what a run or an operator does to it. Pure: state in, state out.

Everything here errs to "off": never set, expired and forbidden are all off, and only *evaluated*
rules renew the lease. Imports neither pandas, scipy nor DuckDB, so that the gate stays light.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.automation.state import merged
from monitor.records import Schedule, SwitchEvent, SwitchState, Verdict
from monitor.rules.model import AutomationConfig, ReEnableAfter

HOLD = timedelta(hours=24)
# One date is kept for both schedules. A week that is evaluated some days late is still the newest
# week, although days that ended after it were evaluated before it.
_LATE = {"weekly": timedelta(days=6), "daily": timedelta(0)}
WEEKLY_RUN = "weekly run"
_RUNS = {"weekly": WEEKLY_RUN, "daily": "daily run"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one evaluation says about one label: the verdicts of its acting rules.

    ``key`` makes a change happen once. ``told``: a person wants this window to act although it is
    older than the newest one (``--act``).
    """

    window_end: datetime
    schedule: Schedule
    verdicts: Sequence[Verdict]
    key: str
    told: bool = False


@dataclass(frozen=True, slots=True)
class SwitchDecision:
    """The state after, the event that says so (None exactly where nothing changes), and the reason."""

    after: SwitchState
    event: SwitchEvent | None
    reason: str


def after_run(
    state: SwitchState, evidence: Evidence, automation: AutomationConfig, *, critical: bool, now: datetime
) -> SwitchDecision:
    """What an evaluation does to a switch.

    A breach turns off or blocks; an evaluated rule renews the lease; good windows turn on only what
    the configuration lets come back by itself. A run never undoes an operator's off.
    """
    decision = _decide(_Change(_without_lapsed_off(state, evidence, now), evidence, automation, critical, now))
    return decision if decision.event is not None else replace(decision, after=state)


def _decide(change: _Change) -> SwitchDecision:
    evidence = change.evidence
    if not evidence.verdicts:
        return change.nothing("no acting rule on this schedule")
    if change.is_older:
        return change.nothing("older window")
    breaches = [verdict for verdict in evidence.verdicts if verdict.outcome == "breach"]
    if breaches:
        return _after_breach(change, breaches)
    if any(verdict.outcome == "ok" for verdict in evidence.verdicts):
        return _after_ok(change)
    return _after_silence(change)


def _without_lapsed_off(state: SwitchState, evidence: Evidence, now: datetime) -> SwitchState:
    """An operator's off past its ``until`` is judged as if this run had turned it off."""
    if state.state != "off" or not state.by_operator or state.hold_until is None or state.hold_until > now:
        return state
    return replace(state, by_operator=False, hold_until=None, actor=_RUNS[evidence.schedule])


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
) -> SwitchDecision:
    """What a person does to a switch: on (with a fresh lease, nothing blocked) or off.

    ``until`` says how long the change holds against runs. An "on" holds for 24 hours by default, an
    "off" for ever; from ``until`` on, an off is one that good windows may undo where ``re_enable``
    lets them, and it never ends by itself. Raises ValueError for a missing name or reason, and for
    an ``until`` that is over.
    """
    if not by.strip() or not reason.strip():
        raise ValueError("a change of the switch needs a name and a reason")
    if until is not None and until <= now:
        raise ValueError("until must lie in the future")
    hold = (until or now + HOLD) if enable else (until if _may_come_back(state) else None)
    lease = _later(state.lease_until, now + automation.lease) if enable else None
    after = replace(
        state, state="on" if enable else "off", blocked=(), lease_until=lease, hold_until=hold,
        by_operator=True, actor=by, reason=reason, verdict=None, ok_streak=0, changed_at=now, version=state.version + 1,
    )  # fmt: skip
    event = SwitchEvent(
        key=key, source=state.source, label=state.label, at=now, kind="enabled" if enable else "disabled",
        from_state=state.state, to_state=after.state, actor=by, reason=reason, lease_until=lease, until=hold,
    )  # fmt: skip
    return SwitchDecision(after, event, "turned on" if enable else "turned off")


def _may_come_back(state: SwitchState) -> bool:
    """Whether good windows may ever undo an off of this label: not of one that nobody has turned on."""
    return state.state == "on" or (state.state == "off" and (not state.by_operator or state.hold_until is not None))


@dataclass(frozen=True, slots=True)
class _Change:
    """All that a decision about a run needs, and the two ways it can end."""

    before: SwitchState
    evidence: Evidence
    automation: AutomationConfig
    critical: bool
    now: datetime

    @property
    def run(self) -> str:
        return _RUNS[self.evidence.schedule]

    @property
    def is_older(self) -> bool:
        newest = None if self.evidence.told else self.before.last_window_end
        return newest is not None and self.evidence.window_end < newest - _LATE[self.evidence.schedule]

    @property
    def is_held(self) -> bool:
        """Whether an operator's "on" still holds against this run."""
        hold = self.before.hold_until
        return self.before.state == "on" and hold is not None and hold > self.now and not self.critical

    @property
    def lease(self) -> datetime:
        """The renewed lease; it never gets shorter."""
        return _later(self.before.lease_until, self.evidence.window_end + self.automation.lease)

    @property
    def restrictor(self) -> str:
        """Who has to see good windows after this run's breach: the weekly run, once it is involved."""
        return WEEKLY_RUN if _is_restricted(self.before) and self.before.actor == WEEKLY_RUN else self.run

    @property
    def needs_operator(self) -> bool:
        """Whether a person has yet to turn this label on for the first time: good windows may not do it for them."""
        before = self.before
        return before.state == "never_set" and before.label is not None and self.automation.initial == "off"

    @property
    def streak(self) -> int:
        """Good windows in a row, this one included: each once, only those of the run that turned off or blocked."""
        newest = self.before.last_window_end
        is_new = newest is None or self.evidence.window_end > newest
        return self.before.ok_streak + (1 if is_new and self.before.actor == self.run else 0)

    @property
    def streak_needed(self) -> float:
        """After how many good windows automation comes back by itself."""
        wanted = self.automation.re_enable
        return wanted.after if isinstance(wanted, ReEnableAfter) else math.inf

    def nothing(self, reason: str) -> SwitchDecision:
        return SwitchDecision(self.before, None, reason)

    def become(
        self, after: SwitchState, kind: str, reason: str, *, why: str = "", verdict: str | None = None
    ) -> SwitchDecision:
        """The decision for ``after``: an event exactly if it differs, ``why`` for the history."""
        if after.actor == self.run or not _is_restricted(after):  # else another run's windows are being counted
            after = replace(after, last_window_end=_later(after.last_window_end, self.evidence.window_end))
        if after == self.before:
            return self.nothing(reason)
        event = SwitchEvent(
            key=self.evidence.key, source=after.source, label=after.label, at=self.now, kind=kind,
            from_state=self.before.state, to_state=after.state, actor=self.run, reason=why or reason,
            blocked=after.blocked, lease_until=after.lease_until, until=after.hold_until, verdict=verdict,
        )  # fmt: skip
        return SwitchDecision(replace(after, version=self.before.version + 1), event, reason)


def _after_breach(change: _Change, breaches: Sequence[Verdict]) -> SwitchDecision:
    disabling = [verdict for verdict in breaches if "disable_automation" in verdict.actions]
    blocking = [verdict for verdict in breaches if "block_scores" in verdict.actions]
    if not disabling and not blocking:
        raise ValueError("a breach of a rule that may not act is no evidence for the switch")
    if change.is_held:
        why = f"an operator's enable holds until {change.before.hold_until:%Y-%m-%d %H:%M} UTC: {_why(breaches)}"
        return _renew(change, "an operator's enable holds", kind="held", why=why, verdict=breaches[0].id)
    if change.before.state == "off":
        return _still_off(change)
    if disabling:
        return _turn_off(change, disabling[0], _why(disabling))
    return _block(change, blocking)


def _turn_off(change: _Change, verdict: Verdict, why: str) -> SwitchDecision:
    after = replace(
        change.before, state="off", blocked=(), lease_until=None, hold_until=None, by_operator=change.needs_operator,
        actor=change.restrictor, reason=why, verdict=verdict.id, ok_streak=0, changed_at=change.now,
    )  # fmt: skip
    return change.become(after, "disabled", "turned off", why=why, verdict=verdict.id)


def _still_off(change: _Change) -> SwitchDecision:
    """A breach of what is off already: the good windows are counted from the start again."""
    if change.before.by_operator or math.isinf(change.streak_needed):
        return change.nothing("already off")
    after = replace(change.before, ok_streak=0, actor=change.restrictor)
    return change.become(after, "counted", "already off")


def _block(change: _Change, breaches: Sequence[Verdict]) -> SwitchDecision:
    """Block what the verdicts name. The source's own switch forbids, so it can block without being set."""
    before, first = change.before, breaches[0]
    if before.state == "never_set" and before.label is not None:
        return change.nothing("never set")
    named = merged((float(low), float(high)) for verdict in breaches for low, high in verdict.detail.get("blocked", ()))
    if not named:
        return _turn_off(change, first, f"{_why(breaches)}, and no score range could be named")
    ranges = merged(before.blocked + named)
    if ranges == before.blocked:
        return _renew(change, "already blocked", ok_streak=0)
    after = replace(
        before, state="on", blocked=ranges, lease_until=change.lease, by_operator=False, actor=change.restrictor,
        reason=_why(breaches), verdict=first.id, ok_streak=0, changed_at=change.now,
    )  # fmt: skip
    return change.become(after, "blocked", "blocked", why=_why(breaches), verdict=first.id)


def _after_ok(change: _Change) -> SwitchDecision:
    before = change.before
    if before.state == "never_set":
        first_ok = change.automation.initial == "on_first_ok"
        return _turn_on(change, "first good window") if first_ok else change.nothing("never set")
    if before.state == "off" and before.by_operator:
        return change.nothing("off by an operator")
    return _count(change) if _is_restricted(before) else _renew(change, "renewed")


def _count(change: _Change) -> SwitchDecision:
    """One more good window of what is off or blocked; enough of them undo it."""
    before, streak = change.before, change.streak
    if math.isinf(change.streak_needed):
        return _renew(change, "renewed") if before.state == "on" else change.nothing("off until an operator enables")
    if streak >= change.streak_needed:
        return _turn_on(change, f"{streak} good windows in a row")
    words = f"{streak} of {change.streak_needed:g} good windows"
    if before.state == "on":
        return _renew(change, words, ok_streak=streak)
    return change.become(replace(before, ok_streak=streak), "counted", words)


def _turn_on(change: _Change, why: str) -> SwitchDecision:
    after = replace(
        change.before, state="on", blocked=(), lease_until=change.lease, hold_until=None, by_operator=False,
        actor=change.run, reason=why, verdict=None, ok_streak=0, changed_at=change.now,
    )  # fmt: skip
    if change.before.state == "on":
        return change.become(after, "unblocked", "unblocked", why=why)
    return change.become(after, "enabled", "turned on", why=why)


def _after_silence(change: _Change) -> SwitchDecision:
    """Nothing could be evaluated: no renewal; off at once where the configuration says so."""
    if change.automation.when_not_evaluated == "keep":
        return change.nothing("not evaluated: the lease is not renewed")
    if change.before.state != "on":
        return change.nothing("not evaluated")
    if change.is_held:
        return change.nothing("an operator's enable holds")
    first = change.evidence.verdicts[0]
    return _turn_off(change, first, f"not evaluated: {first.reason.value}")


def _renew(
    change: _Change,
    reason: str,
    *,
    kind: str = "renewed",
    why: str = "",
    verdict: str | None = None,
    ok_streak: int | None = None,
) -> SwitchDecision:
    """The same state with a renewed lease."""
    streak = change.before.ok_streak if ok_streak is None else ok_streak
    after = replace(change.before, lease_until=change.lease, ok_streak=streak)
    return change.become(after, kind, reason, why=why, verdict=verdict)


def _is_restricted(state: SwitchState) -> bool:
    """Whether a run has turned something off that good windows may bring back."""
    return bool(state.blocked) or (state.state == "off" and not state.by_operator)


def _why(verdicts: Sequence[Verdict]) -> str:
    return "; ".join(f"{verdict.rule}: {verdict.reason.value} in {verdict.window.name}" for verdict in verdicts)


def _later(first: datetime | None, second: datetime) -> datetime:
    return second if first is None else max(first, second)
