"""The switch: what is allowed now, what an evaluation does to it and what a person does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.automation.evidence import with_verdict
from monitor.automation.state import effective, is_blocked
from monitor.automation.switch import Evidence, SwitchDecision, after_run, operator_change
from monitor.config.model import AutomationConfig, ReEnableAfter
from monitor.core.records import Outcome, Reason, RuleEvidence, Schedule, SwitchState, Verdict, Window
from monitor.core.score_ranges import below
from tests.fakes import judged

END = datetime(2026, 11, 16, tzinfo=UTC)  # a Monday: the end of 2026-W46 and of Sunday
NOW = END + timedelta(hours=7)
LEASE = timedelta(days=9)
WEEK = timedelta(weeks=1)
KEEP = AutomationConfig(when_not_evaluated="keep")
DISABLE = AutomationConfig(when_not_evaluated="disable")
FIRST_OK = AutomationConfig(when_not_evaluated="keep", initial="on_first_ok")
AFTER_TWO = AutomationConfig(when_not_evaluated="keep", re_enable=ReEnableAfter(after=2))

NEVER = SwitchState("tickets", "billing")
ON = replace(
    NEVER, state="on", actor="ana", by_operator=True, lease_until=END + timedelta(days=2), version=1,
    changed_at=END - WEEK, last_window_end=END - WEEK,
)  # fmt: skip
OFF_BY_OPERATOR = replace(ON, state="off", lease_until=None)
OFF_BY_RUN = replace(OFF_BY_OPERATOR, by_operator=False, actor="weekly run")


def verdict(
    outcome: Outcome = "breach",
    *,
    actions: Sequence[str] = ("disable_automation",),
    rule: str = "automated-overconfidence",
    blocked: Any = None,
) -> Verdict:
    return judged.verdict(
        outcome, Window(END - WEEK, END, "2026-W46", "weekly"), id=f"{rule}-{outcome}", rule=rule,
        actions=tuple(actions) if outcome == "breach" else (), detail={} if blocked is None else {"blocked": blocked},
    )  # fmt: skip


BREACH, OK, SILENT, UNCONFIRMED = verdict(), verdict("ok"), verdict("not_evaluated"), verdict("unconfirmed")


def block(*ranges: tuple[float, float]) -> Verdict:
    return verdict(actions=["slack", "block_scores"], rule="mce-blocks-scores", blocked=[list(r) for r in ranges])


def limit(score: float | None) -> Verdict:
    """A breach of a rule with ``limit_scores``: from ``score`` on its promise is shown to hold (None: nowhere)."""
    found = verdict(actions=["slack", "limit_scores"], blocked=[] if score is None else [list(*below(score, 0.8))])
    kept = None if score is None else {"score": score, "share": 0.5, "correct": 0.97, "low": 0.95, "high": 0.98}
    return replace(found, detail={**found.detail, "limit": kept})


def found_before(*verdicts: Verdict, end: datetime = END, rules: Sequence[str] = ()) -> list[RuleEvidence]:
    """The evidence after these verdicts, one window after another, the last one ending at ``end``."""
    names = dict.fromkeys([*rules, *(v.rule for v in verdicts)])
    known = {name: RuleEvidence("tickets", "billing", name, "weekly", since=END - 4 * WEEK) for name in names}
    for back, each in enumerate(reversed(verdicts)):
        window = replace(each.window, start=end - (back + 1) * WEEK, end=end - back * WEEK)
        known[each.rule] = with_verdict(known[each.rule], replace(each, window=window))
    return list(known.values())


def run(
    state: SwitchState,
    *verdicts: Verdict,
    end: datetime = END,
    schedule: Schedule = "weekly",
    automation: AutomationConfig = KEEP,
    critical: bool = False,
    now: datetime | None = None,
    requested: bool = False,
    known: Sequence[RuleEvidence] = (),
) -> SwitchDecision:
    evidence = Evidence(end, schedule, verdicts, f"{schedule}:{end:%Y-%m-%d}", requested, known)
    ended = max(end, state.last_window_end or end)  # whatever was evaluated is over
    return after_run(state, evidence, automation, critical=critical, now=now or ended + timedelta(hours=7))


def enable(state: SwitchState, now: datetime = NOW, **asked: Any) -> SwitchDecision:
    return operator_change(
        state, enable=True, by="ana", reason="checked", now=now, automation=KEEP, key="command", **asked
    )


# What is allowed now


@pytest.mark.parametrize(
    ("state", "whole", "reason", "words"),
    [
        (NEVER, None, "never_set", "never set"),
        (OFF_BY_RUN, None, "off", "off"),
        (replace(ON, lease_until=None), None, "no_lease", "no lease"),
        (replace(ON, lease_until=NOW), None, "lease_ended", "the lease ended at 2026-11-16 07:00 UTC"),
        (ON, SwitchState("tickets", None, state="off"), "source_off", "the whole source is off"),
        (
            ON, SwitchState("tickets", None, state="on", verdict="v1", lease_until=NOW), "source_off",
            "the whole source is closed: a verdict is against it, and its lease has ended",
        ),
    ],
)  # fmt: skip
def test_everything_but_a_living_on_is_off(state: SwitchState, whole: SwitchState | None, reason: str, words: str):
    allowed = effective(state, NOW, whole=whole)
    assert (allowed.allowed, allowed.reason, allowed.detail) == (False, reason, words)
    assert (allowed.until, allowed.blocked) == (None, ())


@pytest.mark.parametrize(
    "whole",
    [
        None,
        SwitchState("tickets", None),
        SwitchState("tickets", None, state="on", lease_until=NOW - WEEK),
    ],
)
def test_a_living_on_is_allowed_whatever_the_source_says_but_off(whole: SwitchState | None):
    allowed = effective(ON, NOW, whole=whole)
    assert (allowed.allowed, allowed.reason, allowed.until) == (True, "on", ON.lease_until)


@pytest.mark.parametrize(
    ("score", "blocked"), [(0.79, False), (0.8, True), (0.85, True), (0.9, True), (0.90004, True), (0.9001, False),
                           (float("nan"), True)],
)  # fmt: skip
def test_a_blocked_range_holds_both_its_ends_at_the_precision_of_the_counts(score: float, blocked: bool):
    assert is_blocked(score, [(0.8, 0.9)]) is blocked


# What an evaluation does


def test_a_breach_of_a_disabling_rule_turns_off():
    decision = run(ON, BREACH, OK)
    assert decision.reason == "turned off"
    assert (decision.after.state, decision.after.by_operator, decision.after.lease_until) == ("off", False, None)
    assert (decision.after.version, decision.after.verdict, decision.after.changed_at) == (2, BREACH.id, NOW)
    event = decision.event
    assert (event.kind, event.from_state, event.to_state, event.actor) == ("disabled", "on", "off", "weekly run")
    assert event.reason == "in breach in 2026-W46: automated-overconfidence"
    assert (event.key, event.verdict, event.at) == ("weekly:2026-11-16:1", BREACH.id, NOW)


@pytest.mark.parametrize("state", [OFF_BY_RUN, OFF_BY_OPERATOR])
def test_a_breach_of_what_is_off_is_remembered_once_and_changes_nothing_else(state: SwitchState):
    decision = run(state, BREACH)
    assert (decision.event.kind, decision.event.to_state, decision.reason) == ("counted", "off", "already off")
    kept = {"verdict": None, "version": state.version, "last_window_end": state.last_window_end}
    assert replace(decision.after, **kept) == state
    again = run(decision.after, BREACH, end=END + WEEK)
    assert (again.after, again.event, again.reason) == (decision.after, None, "already off")


def test_a_label_is_not_said_to_be_left_on_longer_than_its_lease_lasts():
    held = enable(ON, until=NOW + timedelta(days=60)).after
    decision = run(held, BREACH, now=NOW + timedelta(hours=1))
    ends = decision.after.lease_until
    assert ends < NOW + timedelta(days=60)
    assert decision.reason == f"left on: enabled by ana until {ends:%Y-%m-%d %H:%M} UTC"
    assert not effective(decision.after, ends, whole=None).allowed


def test_what_is_held_is_noted_once_for_each_enable():
    first = run(enable(ON).after, BREACH, now=NOW + timedelta(hours=1))
    again = run(first.after, BREACH, now=NOW + timedelta(hours=2))
    assert first.once is None, "it changes the lease, so that its event must be stored"
    assert again.once is not None
    assert first.event.key.startswith(again.once)
    later = run(enable(again.after, NOW + timedelta(hours=3)).after, BREACH, now=NOW + timedelta(hours=4))
    assert not later.event.key.startswith(again.once)


def test_a_held_breach_makes_no_lease_longer_than_it_was():
    held = enable(ON, until=NOW + timedelta(days=30)).after
    after = run(held, BREACH, end=END + WEEK).after
    assert (after.lease_until, after.verdict) == (NOW + LEASE, BREACH.id)


def test_scores_that_a_run_wanted_blocked_during_a_hold_are_blocked_by_the_first_run_after_it():
    held, found = enable(ON).after, block((0.8, 0.9))
    decision = run(held, found, now=NOW + timedelta(hours=1), known=found_before(found))
    assert (decision.after.blocked, decision.after.lease_until) == ((), held.hold_until)
    tuesday, wednesday = (END + timedelta(days=n) for n in (1, 2))
    good_day = verdict("ok", rule="ece-two-days")
    known = found_before(found, rules=["ece-two-days"])
    within = run(decision.after, good_day, end=tuesday, schedule="daily", now=NOW + timedelta(hours=23), known=known)
    assert (within.event.kind, within.after.lease_until) == ("not_renewed", held.hold_until)
    after = run(within.after, good_day, end=wednesday, schedule="daily", known=known)
    assert (after.after.state, after.after.blocked, after.reason) == ("on", ((0.8, 0.9),), "blocked")
    assert after.after.reason == "mce-blocks-scores: no window within its threshold since its breach"
    assert after.after.lease_until == END + LEASE, "a week of the other rule is what the lease counts from"


def test_a_critical_label_enabled_against_a_breach_is_off_at_the_next_one_also_of_the_same_window():
    on = enable(run(ON, BREACH, critical=True).after, known=found_before(BREACH)).after
    soon, known = NOW + timedelta(hours=1), found_before(BREACH)
    assert run(on, BREACH, critical=True, now=soon, known=known).after.state == "off"
    good_day = verdict("ok", rule="ece-two-days")
    day = run(on, good_day, end=END + timedelta(days=1), schedule="daily", critical=True, now=soon, known=known).after
    assert (day.state, day.lease_until) == ("on", on.hold_until), "nothing new was found: the person has answered it"


@pytest.mark.parametrize(
    ("named", "blocked"),
    [((0.8537, 0.9012), (0.85, 0.91)), ((0.29, 0.57), (0.29, 0.57)), ((0.0, 0.0001), (0.0, 0.01)),
     ((0.9999, 1.0), (0.99, 1.0)), ((0.5701, 0.57011), (0.57, 0.58))],
)  # fmt: skip
def test_ranges_are_rounded_outwards_to_hundredths(named: tuple[float, float], blocked: tuple[float, float]):
    assert run(ON, block(named)).after.blocked == (blocked,)


@pytest.mark.parametrize("found", [block((0.8, 0.9)), block((0.95, 1.0)), BREACH], ids=["again", "more", "off"])
def test_a_breach_of_what_is_blocked_starts_the_count_again(found: Verdict):
    counted = replace(ON, blocked=((0.8, 0.9),), by_operator=False, actor="weekly run", ok_streak=1)
    assert run(counted, found, automation=AFTER_TWO).after.ok_streak == 0


def test_what_comes_back_by_itself_is_held_by_nobody():
    held = replace(ON, blocked=((0.8, 0.9),), by_operator=False, counts="weekly run", ok_streak=1, hold_until=END)
    back = run(held, OK, automation=AFTER_TWO)
    assert (back.after.state, back.after.blocked, back.after.hold_until) == ("on", (), None)
    assert (back.event.kind, back.event.until) == ("unblocked", None)


def test_a_day_that_blocks_more_than_a_week_had_asks_for_good_weeks():
    week = run(ON, block((0.8, 0.9))).after
    day = run(week, block((0.95, 1.0)), end=END + timedelta(days=1), schedule="daily").after
    assert (day.blocked, day.actor, day.counted_run) == (((0.8, 0.9), (0.95, 1.0)), "daily run", "weekly run")


def test_a_good_window_that_unblocks_nothing_leaves_the_verdict():
    blocked = run(replace(NEVER, label=None), block((0.8, 0.9))).after
    renewed = run(blocked, OK, end=END + WEEK).after
    assert (renewed.verdict, renewed.lease_until) == (blocked.verdict, END + WEEK + LEASE)


@pytest.mark.parametrize(("state", "reason"), [(NEVER, "never set"), (OFF_BY_RUN, "already off")])
def test_nothing_is_blocked_in_what_is_not_on(state: SwitchState, reason: str):
    decision = run(state, block((0.8, 0.9)))
    assert (decision.after, decision.event, decision.reason) == (state, None, reason)


def test_a_source_blocks_scores_although_its_own_switch_was_never_set():
    whole = run(replace(NEVER, label=None), block((0.8, 0.9))).after
    assert effective(ON, NOW, whole=whole).blocked == ((0.8, 0.9),)


@pytest.mark.parametrize("state", [ON, NEVER], ids=["on", "never set"])
def test_a_breach_that_names_no_range_turns_off(state: SwitchState):
    decision = run(state, block(), automation=FIRST_OK)
    assert decision.after.state == "off"
    assert "no score range could be named" in decision.after.reason


def test_turning_off_wins_over_blocking():
    assert run(ON, block((0.8, 0.9)), BREACH).after.state == "off"


def test_a_lease_never_gets_shorter():
    longer = replace(ON, lease_until=END + timedelta(days=30))
    assert run(longer, OK).after.lease_until == END + timedelta(days=30)


def test_nothing_evaluated_turns_off_where_the_configuration_says_so():
    decision = run(ON, SILENT, automation=DISABLE)
    assert (decision.after.state, decision.after.reason) == ("off", "not evaluated: too few rows")
    assert decision.after.not_evaluated == "too_few_rows"
    assert enable(decision.after).after.not_evaluated is None
    assert run(enable(ON).after, SILENT, automation=DISABLE, now=NOW + timedelta(hours=1)).after.state == "on"


def test_nothing_evaluated_of_a_source_as_a_whole_stops_it_although_its_switch_was_never_set():
    assert run(replace(NEVER, label=None), SILENT, automation=DISABLE).after.state == "off"
    assert run(replace(NEVER, label=None), SILENT).event is None


@pytest.mark.parametrize("state", [NEVER, OFF_BY_RUN, OFF_BY_OPERATOR])
def test_nothing_evaluated_changes_nothing_that_is_off(state: SwitchState):
    decision = run(state, SILENT, automation=DISABLE)
    assert (decision.after, decision.event) == (state, None)


def test_a_schedule_without_acting_rules_says_nothing():
    decision = run(ON, automation=DISABLE)
    assert (decision.after, decision.reason) == (ON, "no acting rule on this schedule")


def test_a_breach_of_a_rule_that_may_not_act_is_refused():
    with pytest.raises(ValueError, match="may not act"):
        run(ON, verdict(actions=["slack"]))


def test_an_older_window_acts_when_asked_to_and_renews_nothing_backwards():
    state = replace(ON, last_window_end=END + WEEK, lease_until=END + 3 * WEEK)
    off = run(state, BREACH, requested=True)
    assert (off.after.state, off.reason, off.after.last_window_end) == ("off", "turned off", END + WEEK)
    good = run(state, OK, requested=True)
    assert (good.after, good.event) == (state, None)


def test_daylight_saving_makes_no_older_week_newer():
    last = END + WEEK - timedelta(hours=1)
    assert run(replace(ON, last_window_end=last), BREACH).reason == "older window"


# What comes back by itself


def test_never_set_stays_off_after_a_good_window():
    decision = run(NEVER, OK)
    assert (decision.after, decision.event, decision.reason) == (NEVER, None, "never set")


@pytest.mark.parametrize(
    ("before", "automation", "comes_back"),
    [(NEVER, AFTER_TWO, "off"), (replace(NEVER, label=None), AFTER_TWO, "on"),
     (NEVER, AFTER_TWO.model_copy(update={"initial": "on_first_ok"}), "on")],
    ids=["it was never turned on", "the source's own", "runs may turn on"],
)  # fmt: skip
def test_good_windows_after_a_breach_turn_on_only_what_was_on_or_may_be_by_itself(
    before: SwitchState, automation: AutomationConfig, comes_back: str
):
    state = run(before, BREACH, automation=automation).after
    for week in (1, 2, 3):
        state = run(state, OK, end=END + week * WEEK, automation=automation).after
    assert (state.state, state.verdict is None) == (comes_back, comes_back == "on")


def test_the_first_good_window_turns_on_where_the_configuration_says_so():
    decision = run(NEVER, OK, SILENT, automation=FIRST_OK)
    assert (decision.after.state, decision.after.lease_until) == ("on", END + LEASE)
    assert decision.event.kind == "enabled"
    assert run(NEVER, SILENT, automation=FIRST_OK).after == NEVER
    assert run(NEVER, OK, BREACH, automation=FIRST_OK).after.state == "off"


def test_rules_that_wait_for_truths_turn_nothing_off_and_renew_no_lease():
    """Where another rule could not be judged for another reason, what the configuration says holds."""
    waiting = replace(verdict("not_evaluated"), reason=Reason.NOT_MATURE)
    found = run(ON, waiting, automation=DISABLE)
    assert (found.after, found.event, found.reason) == (ON, None, "waits for truths: the lease is not renewed")
    assert run(ON, waiting, verdict("not_evaluated", rule="other"), automation=DISABLE).after.state == "off"


@pytest.mark.parametrize("apart", [timedelta(hours=-1), timedelta(hours=5)], ids=str)
def test_a_good_week_in_two_time_zones_is_one_good_week(apart: timedelta):
    first = run(run(ON, BREACH, end=END - WEEK, automation=AFTER_TWO).after, OK, automation=AFTER_TWO).after
    again = run(first, OK, end=END + apart, automation=AFTER_TWO).after
    assert (first.state, first.ok_streak, again.state, again.ok_streak) == ("off", 1, "off", 1)
    assert run(again, OK, end=END + WEEK + apart, automation=AFTER_TWO).after.state == "on"


def test_a_window_that_was_counted_and_then_pinned_takes_nothing_back():
    pinned = replace(verdict("not_evaluated"), reason=Reason.IN_BASELINE)
    counted = run(ON, OK, automation=DISABLE).after
    again = run(counted, pinned, automation=DISABLE)
    assert (again.after, again.event) == (counted, None)
    assert again.reason == "in its baseline by now: the lease is not renewed"
    both = run(counted, pinned, verdict("not_evaluated", rule="other"), automation=DISABLE)
    assert both.after.state == "off", "another rule has another reason"
    assert run(counted, pinned, end=END + WEEK, automation=DISABLE).after.state == "off", "a window never counted"


def test_what_a_run_turned_off_stays_off_until_somebody_enables_it():
    decision = run(OFF_BY_RUN, OK)
    assert (decision.after, decision.event, decision.reason) == (OFF_BY_RUN, None, "off until an operator enables")


def test_an_operators_off_is_never_undone_by_a_run():
    for automation in (KEEP, FIRST_OK, AFTER_TWO):
        assert run(OFF_BY_OPERATOR, OK, automation=automation).after == OFF_BY_OPERATOR


def disable(state: SwitchState, automation: AutomationConfig = AFTER_TWO, until: datetime | None = None) -> SwitchState:
    return operator_change(
        state, enable=False, by="bo", reason="model replaced", now=NOW, until=until, automation=automation, key="k"
    ).after


def test_an_operators_off_with_an_end_is_afterwards_like_the_off_of_a_run():
    off = disable(ON, until=NOW + timedelta(days=10))
    assert (off.state, off.by_operator, off.hold_until) == ("off", True, NOW + timedelta(days=10))
    within = run(off, OK, end=END + WEEK, automation=AFTER_TWO)
    assert (within.after, within.event, within.reason) == (off, None, "off by an operator")
    first = run(off, OK, end=END + 2 * WEEK, automation=AFTER_TWO)
    assert (first.after.state, first.reason) == ("off", "1 of 2 good windows")
    assert run(first.after, OK, end=END + 3 * WEEK, automation=AFTER_TWO).after.state == "on"


@pytest.mark.parametrize("before", [NEVER, OFF_BY_OPERATOR], ids=["never set", "off for ever"])
def test_an_off_of_what_was_not_on_gets_no_end(before: SwitchState):
    assert disable(before, until=NOW + WEEK).hold_until is None


def test_a_window_that_comes_again_under_a_clock_behind_neither_counts_nor_renews():
    off = run(ON, BREACH, automation=AFTER_TWO).after
    first = run(off, OK, end=END + WEEK, automation=AFTER_TWO).after
    behind, key = END + timedelta(days=2), "weekly:2026-11-16"
    for state in (first, replace(ON, lease_until=END + LEASE, last_window_end=END + WEEK)):
        evidence = Evidence(END, "weekly", [OK], key, again=True)
        again = after_run(state, evidence, AFTER_TWO, critical=False, now=behind)
        assert (again.after, again.event) == (state, None)
    new = after_run(first, Evidence(END, "weekly", [OK], key), AFTER_TWO, critical=False, now=behind)
    assert new.after.state == "on"  # never evaluated before: the clock was ahead, and is right now


def test_a_sunday_evaluated_before_its_week_does_not_hide_the_week():
    state = run(ON, block((0.8, 0.9)), automation=AFTER_TWO).after
    for week in (1, 2):
        state = run(state, OK, end=END + week * WEEK, schedule="daily", automation=AFTER_TWO).after
        assert state.blocked == ((0.8, 0.9),)
        state = run(state, OK, end=END + week * WEEK, automation=AFTER_TWO).after
    assert (state.state, state.blocked) == ("on", ())


def test_a_weekly_breach_of_what_a_day_turned_off_asks_for_good_weeks():
    by_day = run(ON, BREACH, schedule="daily", automation=AFTER_TWO).after
    assert by_day.actor == "daily run"
    by_week = run(by_day, BREACH, automation=AFTER_TWO).after
    assert (by_week.actor, by_week.counted_run) == ("daily run", "weekly run")  # the day turned it off
    good_week = run(by_day, OK, end=END + timedelta(days=1), automation=AFTER_TWO)
    assert (good_week.after.ok_streak, good_week.event) == (0, None)


# What a person does


def test_an_operator_turns_on_with_a_fresh_lease_and_a_hold():
    decision = enable(replace(OFF_BY_RUN, blocked=((0.8, 0.9),), ok_streak=1))
    after = decision.after
    assert (after.state, after.blocked, after.ok_streak, after.by_operator) == ("on", (), 0, True)
    assert (after.lease_until, after.hold_until) == (NOW + LEASE, NOW + timedelta(hours=24))
    assert (after.version, after.changed_at) == (OFF_BY_RUN.version + 1, NOW)
    assert (decision.event.kind, decision.event.actor, decision.event.key) == ("enabled", "ana", "command")
    assert (decision.event.until, decision.event.reason) == (after.hold_until, "checked")


def test_what_is_not_confirmed_clears_no_evidence_and_renews_no_enable_against_it():
    known = found_before(BREACH, UNCONFIRMED, end=END + WEEK)
    against = enable(OFF_BY_RUN, known=known).after
    assert against.lease_until == NOW + timedelta(hours=24)
    again = run(against, UNCONFIRMED, end=END + timedelta(days=1), now=NOW + timedelta(hours=23), known=known)
    assert (again.reason, again.after.lease_until) == (
        "not renewed: automated-overconfidence is still in breach", against.lease_until,
    )  # fmt: skip
    cleared = run(against, OK, end=END + WEEK, known=found_before(BREACH, OK, end=END + WEEK)).after
    assert (cleared.verdict, cleared.lease_until) == (None, END + WEEK + LEASE)


def test_a_breach_of_a_week_that_is_judged_late_is_acted_on_although_newer_days_were_judged():
    state = replace(ON, last_window_end=END + WEEK)
    late = run(state, BREACH, known=found_before(BREACH), now=END + WEEK)
    assert (late.after.state, late.after.last_window_end) == ("off", END + WEEK)
    held = replace(state, hold_until=END + WEEK + timedelta(hours=9), lease_until=END + 2 * WEEK)
    cut = run(held, BREACH, known=found_before(BREACH), now=END + WEEK)
    assert (cut.event.kind, cut.after.lease_until, cut.after.verdict) == ("held", held.hold_until, BREACH.id)


def test_scores_that_an_earlier_breach_named_are_blocked_without_a_longer_lease_where_nothing_was_evaluated():
    known = found_before(block((0.8, 0.9)))
    after = run(replace(ON, lease_until=END + WEEK), SILENT, known=known).after
    assert (after.blocked, after.lease_until) == (((0.8, 0.9),), END + WEEK)


def test_good_windows_turn_nothing_on_while_another_rule_is_in_breach():
    other = verdict(rule="other")
    known = found_before(other, OK, end=END)
    first = run(NEVER, OK, automation=FIRST_OK, known=known)
    assert (first.after, first.event, first.reason) == (NEVER, None, "other is still in breach")
    state = OFF_BY_RUN
    for week in (0, 1, 2):
        state = run(state, OK, end=END + week * WEEK, automation=AFTER_TWO, known=known).after
    assert (state.state, state.ok_streak) == ("off", 3)
    good = found_before(other, replace(other, outcome="ok"), end=END + 3 * WEEK)
    assert run(state, OK, end=END + 3 * WEEK, automation=AFTER_TWO, known=good).after.state == "on"


def test_a_window_with_rejected_rows_turns_nothing_on_whatever_another_rule_found():
    rejected = replace(verdict("not_evaluated", rule="other"), reason=Reason.REJECTED_ROWS)
    decision = run(NEVER, OK, rejected, automation=FIRST_OK)
    assert (decision.after, decision.reason) == (NEVER, "other could not be evaluated: rows were rejected")
    once = run(OFF_BY_RUN, OK, automation=AFTER_TWO).after
    assert run(once, OK, rejected, end=END + WEEK, automation=AFTER_TWO).after == once
    assert run(once, OK, SILENT, end=END + WEEK, automation=AFTER_TWO).after.state == "on"
    assert run(ON, OK, rejected).after.lease_until == END + LEASE, "what is on was evaluated"
    assert run(ON, rejected, automation=DISABLE).after.state == "off"
    assert run(ON, rejected).after == ON


def test_a_lease_is_renewed_only_as_far_as_every_acting_rule_was_judged_lately():
    day, week = (RuleEvidence("tickets", "billing", n, s) for n, s in (("day", "daily"), ("week", "weekly")))  # type: ignore[arg-type]
    week = replace(week, judged_until=END)
    state, leases, ok = replace(ON, changed_at=END - 8 * WEEK), [], verdict("ok", rule="day")
    for n in range(1, 36):
        end = END + timedelta(days=n)
        decision = run(state, ok, end=end, schedule="daily", known=[replace(day, judged_until=end), week])
        kind = "renewed" if n == 1 else "not_renewed"
        assert (decision.event.kind, decision.event.waits_for) == (kind, "week")
        why = "was not judged lately" if n > 7 else f"was judged until {END:%Y-%m-%d %H:%M} UTC"
        assert decision.event.reason.endswith(f": week {why}")
        state = decision.after
        leases.append(state.lease_until)
    assert set(leases) == {END + LEASE}, "however many days are judged"
    alive = run(
        state, ok, end=end, schedule="daily", known=[replace(day, judged_until=end), replace(week, judged_until=end)]
    )
    assert (alive.after.lease_until, alive.event.waits_for) == (end + LEASE, None)  # type: ignore[union-attr]


def test_a_rule_that_was_never_judged_counts_from_when_it_was_first_asked_or_the_label_turned_on():
    new = RuleEvidence("tickets", "billing", "new", "weekly", since=END)
    late = [replace(new, since=END - 9 * WEEK)]
    ok, on = verdict("ok", rule="day"), replace(ON, changed_at=END - 3 * WEEK, lease_until=END)
    end = END + timedelta(days=8)
    assert run(on, ok, end=end, schedule="daily", known=[new]).after.lease_until == END + LEASE
    soon = run(on, ok, end=END + timedelta(days=2), schedule="daily", known=[new])
    assert soon.event.reason == "renewed, less long than usual: new was not judged yet"
    assert run(on, ok, end=end, schedule="daily", known=late).after.lease_until == END
    turned_on = replace(on, changed_at=END)
    assert run(turned_on, ok, end=end, schedule="daily", known=late).after.lease_until == END + LEASE


def test_a_lease_shorter_than_a_week_does_not_end_between_two_weekly_windows():
    short = KEEP.model_copy(update={"lease": timedelta(days=2)})
    week = RuleEvidence("tickets", "billing", "week", "weekly", judged_until=END)
    for n, days in ((5, 7), (6, 7.5), (9, 7.5)):
        state = replace(ON, lease_until=END)
        after = run(
            state,
            verdict("ok", rule="d"),
            end=END + timedelta(days=n),
            schedule="daily",
            automation=short,
            known=[week],
        )
        assert after.after.lease_until == END + timedelta(days=days)


def test_nothing_comes_back_by_itself_for_a_lease_that_is_over():
    dead = RuleEvidence("tickets", "billing", "week", "weekly", judged_until=END - 4 * WEEK)
    once = run(OFF_BY_RUN, OK, automation=AFTER_TWO).after
    kept = run(once, OK, end=END + WEEK, automation=AFTER_TWO, known=[dead])
    assert (kept.after.state, kept.reason) == ("off", "2 of 2 good windows; week was not judged lately")


@pytest.mark.parametrize("before", [ON, NEVER], ids=["turned off", "never set"])
def test_after_a_good_window_no_verdict_is_against_an_enable(before: SwitchState):
    off = run(before, BREACH, known=found_before(BREACH)).after
    known = found_before(BREACH, OK, end=END + WEEK)
    good = run(off, OK, end=END + WEEK, known=known)
    assert (good.after.state, good.after.ok_streak) == ("off", 1)
    assert good.event.kind == "counted"
    second = run(good.after, OK, end=END + 2 * WEEK, known=known)
    assert (second.after, second.event) == (good.after, None)
    assert enable(good.after, now=NOW + WEEK, known=known).after.lease_until == NOW + WEEK + LEASE


def test_a_source_enabled_against_the_evidence_closes_its_labels_at_the_end_of_the_hold():
    whole = enable(run(replace(NEVER, label=None), BREACH).after, known=found_before(BREACH)).after
    label = replace(ON, lease_until=NOW + LEASE)
    assert effective(label, NOW + timedelta(hours=23), whole=whole).until == NOW + timedelta(hours=24)
    assert not effective(label, NOW + timedelta(hours=24), whole=whole).allowed


@pytest.mark.parametrize(
    "wrong",
    [{"reason": " "}, {"by": ""}, {"by": " "}, {"until": NOW}, {"enable": False, "until": NOW}],
)
def test_a_change_without_name_reason_or_sense_is_refused(wrong: dict[str, Any]):
    asked = {"enable": True, "by": "ana", "reason": "checked", "now": NOW, "automation": KEEP, "key": "k"} | wrong
    with pytest.raises(ValueError, match=r"switch needs|future"):
        operator_change(ON, **asked)


# A dry run


def dry(**settings: Any) -> AutomationConfig:
    return AutomationConfig(**({"when_not_evaluated": "keep", "dry_run": True} | settings))


OFF_TWICE_GOOD = replace(OFF_BY_RUN, ok_streak=1, last_window_end=END - WEEK)


@pytest.mark.parametrize(
    ("state", "found", "automation", "kind", "words"),
    [
        (ON, BREACH, dry(), "would_disable", "would turn off"),
        (NEVER, BREACH, dry(), "would_disable", "would turn off"),
        (ON, SILENT, dry(when_not_evaluated="disable"), "would_disable", "would turn off"),
        (ON, block((0.801, 0.9)), dry(), "would_block", "would block 0.8 to 0.9"),
        (NEVER, OK, dry(initial="on_first_ok"), "would_enable", "would turn on"),
        (OFF_TWICE_GOOD, OK, dry(re_enable=ReEnableAfter(after=2)), "would_enable", "would turn on"),
        (replace(ON, blocked=((0.8, 0.9),), actor="weekly run", ok_streak=1), OK,
         dry(re_enable=ReEnableAfter(after=2)), "would_unblock", "would unblock"),
        (enable(ON, now=END).after, BREACH, dry(), "would_hold", "would be held by an operator's enable"),
    ],
)  # fmt: skip
def test_a_dry_run_says_what_would_have_happened_and_leaves_the_switch(
    state: SwitchState, found: Verdict, automation: AutomationConfig, kind: str, words: str
):
    decision = run(state, found, automation=automation)
    after, event = decision.after, decision.event
    assert (event.kind, decision.reason) == (kind, words)
    assert event.reason.startswith(f"dry run: {words}: ")
    assert (event.from_state, event.to_state, event.blocked) == (state.state, state.state, state.blocked)
    kept = {"lease_until": state.lease_until, "last_window_end": state.last_window_end, "version": state.version}
    assert replace(after, **kept) == state
    again = run(after, found, automation=automation)
    assert again.event is None or (again.event.key, again.after) == (event.key, after), "stored once"


def test_in_a_dry_run_what_was_not_evaluated_renews_nothing():
    decision = run(ON, SILENT, automation=dry(when_not_evaluated="disable"))
    assert decision.after.lease_until == ON.lease_until


def test_a_dry_run_keeps_which_window_it_saw_last():
    assert (run(ON, BREACH, automation=dry()).after.last_window_end, ON.last_window_end) == (END, END - WEEK)
    assert run(NEVER, BREACH, automation=dry()).after == NEVER
    assert run(ON, BREACH, automation=dry()).after.version == ON.version + 1
    blocked = run(ON, block((0.8, 0.9))).after
    day = run(blocked, BREACH, end=END + timedelta(days=1), schedule="daily", automation=dry()).after
    assert day.last_window_end == END, "a day does not hide the week that is counted"


def test_in_a_dry_run_a_good_window_is_a_renewal_as_ever():
    assert run(ON, OK, automation=dry()) == run(ON, OK)


def test_in_a_dry_run_a_breach_opens_nothing_that_is_closed():
    ended = replace(ON, lease_until=NOW)
    assert run(ended, BREACH, automation=dry(), now=NOW).after.lease_until == NOW
    against = enable(run(ON, BREACH).after, known=found_before(BREACH)).after
    assert run(against, BREACH, end=END + WEEK, now=NOW + timedelta(hours=1), automation=dry()).after.lease_until == (
        against.lease_until
    )


def test_after_a_change_by_a_person_the_same_window_is_reported_anew():
    first = run(ON, BREACH, automation=dry())
    touched = enable(first.after, now=NOW + timedelta(hours=1)).after
    second = run(touched, BREACH, automation=dry(), now=NOW + timedelta(days=2))
    assert first.event.key != second.event.key


def test_an_operator_acts_in_a_dry_run_as_ever():
    assert operator_change(
        ON, enable=False, by="bo", reason="stop", now=NOW, automation=dry(), key="k"
    ) == operator_change(ON, enable=False, by="bo", reason="stop", now=NOW, automation=KEEP, key="k")


def test_the_switch_imports_nothing_heavy():
    heavy = "{'pandas', 'scipy', 'duckdb', 'numpy'}"
    code = f"import sys, monitor.automation.switch; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Only the scores that are safe


def test_a_label_goes_on_from_the_score_that_is_safe_to_the_cell():
    decision = run(ON, limit(0.905))
    assert (decision.after.state, decision.after.blocked) == ("on", ((0.8, 0.9049),))
    assert [is_blocked(score, decision.after.blocked) for score in (0.8, 0.9049, 0.905, 0.79)] == [
        True,
        True,
        False,
        False,
    ]
    assert decision.event.reason.endswith(
        "it acts only from score 0.905 (50% of its items go on, 97% right, 95% to 98%)"
    )


def test_the_safe_score_rises_at_once_and_falls_with_good_windows_only():
    first = run(ON, limit(0.9), known=found_before(limit(0.9)))
    lower = run(first.after, limit(0.85), end=END + WEEK, known=found_before(limit(0.9), limit(0.85), end=END + WEEK))
    assert lower.after.blocked == ((0.8, 0.8999),)
    assert lower.after.kept == first.after.kept  # what is shown of lower scores is not what goes on
    higher = run(first.after, limit(0.95), end=END + WEEK, known=found_before(limit(0.9), limit(0.95), end=END + WEEK))
    assert higher.after.blocked == ((0.8, 0.9499),)
    assert higher.after.kept.score == 0.95
    assert higher.after.lease_until == END + WEEK + KEEP.lease


def test_a_label_of_which_no_score_is_safe_any_more_is_off():
    first = run(ON, limit(0.9), known=found_before(limit(0.9)))
    then = run(first.after, limit(None), end=END + WEEK, known=found_before(limit(0.9), limit(None), end=END + WEEK))
    assert (then.after.state, then.after.blocked, then.after.kept) == ("off", (), None)
    assert "from no score on its promise is shown to hold" in then.after.reason


def test_what_is_shown_of_safe_scores_is_of_the_highest_limit_and_of_none_where_its_scores_are_blocked_too():
    lower = replace(limit(0.9), rule="lasting-overconfidence")
    both = run(ON, lower, limit(0.95))
    assert both.after.blocked == ((0.8, 0.9499),)
    assert both.after.kept.score == 0.95
    top = run(ON, limit(0.9), block((0.96, 1.0)))
    assert top.after.blocked == ((0.8, 0.8999), (0.96, 1.0))
    assert top.after.kept is None
    under = run(ON, limit(0.9), block((0.82, 0.86)))
    assert under.after.kept.score == 0.9


def test_a_breach_that_was_held_back_turns_off_although_a_later_one_only_limits():
    held = enable(OFF_BY_RUN, known=found_before(BREACH)).after
    limits = replace(limit(0.9), rule="lasting-overconfidence")
    known, later = found_before(BREACH, limits, end=END + WEEK), END + WEEK
    before = run(held, limits, end=later, known=known, now=held.hold_until - timedelta(hours=1))
    assert before.after.state == "on"
    after = run(held, limits, end=later, known=known, now=held.hold_until + timedelta(hours=1))
    assert (after.after.state, after.after.verdict) == ("off", BREACH.id)
    assert after.event.reason.startswith("automated-overconfidence: no window within its threshold since its breach")
