"""Segments that are off by themselves: what a run and a person do to them, and what a gate says then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from monitor.automation.as_of import switch_as_of, time_on
from monitor.automation.evidence import breach_of, is_against, with_verdict
from monitor.automation.gate.cache import hold
from monitor.automation.gate.snapshot import SwitchSnapshot, decide, from_json, to_json
from monitor.automation.state import effective, off_segments
from monitor.automation.switch import Evidence, SwitchDecision, after_run, operator_change, operator_segment_change
from monitor.config.model import AutomationConfig
from monitor.core.records import RuleEvidence, SegmentSwitch, SwitchState, Verdict
from tests.unit.automation.test_switch import (
    AFTER_TWO,
    BREACH,
    END,
    KEEP,
    NEVER,
    NOW,
    OFF_BY_RUN,
    OK,
    ON,
    WEEK,
    enable,
    found_before,
    run,
    verdict,
)

WEB, MAIL = ("channel", "web"), ("channel", "mail")
RULE = "weekly-segments"
DRY = AutomationConfig(when_not_evaluated="keep", dry_run=True)


def segment(*named: tuple[str, str], within: Sequence[tuple[str, str]] = ()) -> Verdict:
    """A verdict of a rule that turns off segments: a breach of those named, ``ok`` without any."""
    found = verdict("breach" if named else "ok", rule=RULE)
    detail = {"turns_off": [list(each) for each in named], "segments_within": [list(each) for each in within]}
    return replace(found, detail=detail)


def judged(state: SwitchState, *verdicts: Verdict, before: Sequence[Verdict] = (), **more: Any) -> SwitchDecision:
    """A run whose evidence is of these verdicts, after those of the weeks before."""
    end = more.get("end", END)
    known = found_before(*before, end=end - WEEK) if before else []
    verdicts = tuple(replace(v, window=replace(v.window, start=end - WEEK, end=end)) for v in verdicts)
    for each in verdicts:
        mine = next((k for k in known if k.rule == each.rule), None)
        new = RuleEvidence("tickets", "billing", each.rule, "weekly", since=END - 4 * WEEK) if mine is None else mine
        known = [k for k in known if k.rule != each.rule] + [with_verdict(new, each)]
    return run(state, *verdicts, known=known, **more)


def off(state: SwitchState, now: datetime = NOW) -> tuple[tuple[str, str], ...]:
    return off_segments(state, now)


def change(state: SwitchState, part: tuple[str, str] = WEB, *, on: bool, **more: Any) -> SwitchDecision:
    asked = {"now": NOW, "automation": KEEP, "key": "command", "by": "ana", "reason": "checked", **more}
    return operator_segment_change(state, segment=part, enable=on, **asked)


# What a run does


def test_the_reason_of_a_segment_names_the_window_in_the_configured_time_zone():
    end, berlin = END - timedelta(hours=1), ZoneInfo("Europe/Berlin")  # Sunday 23:00 UTC
    breach = replace(segment(WEB), window=replace(segment(WEB).window, start=end - WEEK, end=end))
    done = after_run(ON, Evidence(end, "weekly", [breach], "key", zone=berlin), KEEP, critical=False, now=NOW)
    known = [with_verdict(RuleEvidence("tickets", "billing", RULE, "weekly"), breach)]
    enabled = enable(NEVER, known=known, zone=berlin)
    reasons = [each.reason for state in (done.after, enabled.after) for each in state.segments]
    assert reasons == [f"{RULE} in breach in 2026-W46"] * 2


def test_a_breach_of_another_rule_turns_off_the_label_in_the_same_event():
    done = judged(ON, BREACH, segment(WEB))
    assert (done.after.state, off(done.after)) == ("off", (WEB,))
    assert done.event.kind == "disabled"
    assert done.event.reason.endswith(f"; {RULE}: turned off channel = web")


def test_the_next_bad_window_renews_and_no_good_window_turns_a_segment_on():
    first = judged(ON, segment(WEB)).after
    again = judged(first, segment(WEB), before=[segment(WEB)], end=END + WEEK)
    assert again.event.kind == "renewed"
    assert again.event.reason == "renewed: only segments in breach"
    good = segment(within=[WEB, MAIL])
    for back in range(3):
        done = judged(first, good, OK, before=[segment(WEB)], end=END + (back + 1) * WEEK, automation=AFTER_TWO)
        assert off(done.after, NOW + 4 * WEEK) == (WEB,)


def test_a_label_that_a_run_turned_off_comes_back_although_a_segment_stays_off():
    before = replace(OFF_BY_RUN, segments=judged(ON, segment(WEB)).after.segments, ok_streak=1, counts="weekly run")
    done = judged(before, OK, before=[OK], automation=AFTER_TWO)
    assert (done.after.state, off(done.after)) == ("on", (WEB,))


@pytest.mark.parametrize("state", [NEVER, OFF_BY_RUN])
def test_of_a_label_that_is_off_segments_are_off_too_and_of_one_never_set_nothing_is_stored(state: SwitchState):
    done = judged(state, segment(WEB))
    assert off(done.after) == (() if state is NEVER else (WEB,))
    assert done.after.state == state.state


@pytest.mark.parametrize("enable", [True, False])
def test_a_person_may_write_a_stored_segment_with_other_cases_and_spaces(enable: bool):
    before = judged(ON, segment(WEB)).after
    done = operator_segment_change(
        before, segment=(WEB[0], f" {WEB[1].upper()} "), enable=enable, by="ana", reason="x", now=NOW,
        automation=AFTER_TWO, key="k",
    )  # fmt: skip
    assert [each.segment for each in done.after.segments] == [WEB]
    assert off(done.after) == (() if enable else (WEB,))


def test_a_dry_run_says_what_it_would_turn_off_and_renews_the_lease():
    done = judged(ON, segment(WEB), automation=DRY)
    assert off(done.after) == ()
    assert (done.event.kind, done.event.segments) == ("would_disable_segment", ())
    assert "channel = web" in done.event.reason
    assert done.after.lease_until == END + timedelta(days=9)


# Evidence


def test_a_breach_of_one_segment_goes_on_where_another_is_in_breach_and_it_was_not_judged():
    (known,) = found_before(segment(WEB), end=END - WEEK)
    both = breach_of(with_verdict(known, segment(MAIL)))
    assert set(both.segments) == {WEB, MAIL}
    judged_now = breach_of(with_verdict(known, segment(MAIL, within=[WEB])))
    assert judged_now.segments == (MAIL,)


def test_what_segments_answer_is_not_against_an_enable_and_renews_the_lease():
    known = found_before(segment(WEB))
    state = judged(ON, segment(WEB)).after
    assert is_against(known, (), ON.segments)
    assert not is_against(known, (), state.segments)


# What a person does


def test_a_person_turns_a_segment_off_and_no_run_turns_it_on():
    done = change(ON, on=False)
    assert (done.after.state, off(done.after), done.event and done.event.kind) == ("on", (WEB,), "segment_disabled")
    good = judged(done.after, OK, segment(within=[WEB]), automation=AFTER_TWO, end=END + WEEK)
    assert off(good.after, NOW + WEEK) == (WEB,)


def test_an_enable_of_a_label_turns_off_what_a_rule_in_breach_has_named_meanwhile():
    done = enable(NEVER, known=found_before(segment(WEB)))
    assert (done.after.state, off(done.after)) == ("on", (WEB,))
    assert done.after.verdict is None  # the enable is against nothing any more
    assert "turned off channel = web" in done.reason


def test_no_run_undoes_an_enable_for_a_day_except_for_critical_labels():
    on = change(replace(ON, segments=(SegmentSwitch(*WEB, END),)), on=True).after
    held = judged(on, segment(WEB), now=NOW + timedelta(hours=1))
    assert held.event.kind == "segment_held"
    assert off(held.after, NOW + timedelta(hours=1)) == ()
    assert off(held.after, NOW + timedelta(hours=24)) == (WEB,)
    critical = judged(on, segment(WEB), now=NOW + timedelta(hours=1), critical=True)
    assert off(critical.after, NOW + timedelta(hours=1)) == (WEB,)


def test_a_segment_found_where_a_window_is_run_again_in_a_hold_is_stored_whatever_is_noted_of_the_label():
    on = enable(run(ON, BREACH).after, known=found_before(BREACH)).after
    done = judged(on, BREACH, segment(WEB), now=NOW + timedelta(hours=1))
    assert (done.event.kind, done.once) == ("segment_held", None)
    assert done.event.segments == done.after.segments != ()
    assert done.after.version == on.version + 1


def test_an_enable_against_the_evidence_ends_with_its_hold_unless_a_good_window_comes_first():
    known = found_before(segment(WEB))
    before = judged(ON, segment(WEB)).after
    done = change(before, on=True, known=known)
    on = done.after
    assert done.reason == "turned on channel = web until 2026-11-17 07:00 UTC: against the last evaluation"
    assert change(before, on=True).reason == "turned on channel = web"
    assert (on.version, on.changed_at, done.event.verdict) == (before.version + 1, before.changed_at, segment(WEB).id)
    assert (off(on), off(on, NOW + timedelta(hours=24))) == ((), (WEB,))
    later = {"before": [segment(WEB)], "end": END + WEEK, "now": NOW + timedelta(hours=2)}
    good = judged(on, segment(within=[WEB]), **later)
    assert good.event.kind == "segment_enabled"
    assert off(good.after, NOW + 4 * WEEK) == ()
    unjudged = judged(on, segment(within=[MAIL]), **later)
    assert off(unjudged.after, NOW + timedelta(hours=24)) == (WEB,)


def test_in_a_dry_run_an_enable_turns_off_no_segment_and_is_on_for_its_hold():
    known = found_before(segment(WEB))
    asked = {"by": "ana", "reason": "checked", "now": NOW, "automation": DRY, "key": "k"}
    done = operator_change(NEVER, enable=True, known=known, **asked)
    assert (done.after.segments, done.after.lease_until) == ((), NOW + timedelta(hours=24))


@pytest.mark.parametrize(
    ("state", "asked", "words"),
    [
        (ON, {"on": True, "by": " "}, "a name and a reason"),
        (ON, {"on": True, "until": NOW}, "must lie in the future"),
        (ON, {"on": False, "until": NOW + WEEK}, "has no end"),
        (replace(ON, label=None), {"on": False}, "segments are of labels"),
    ],
)
def test_what_is_refused(state: SwitchState, asked: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        change(state, **asked)


# The gate


def board(state: SwitchState, at: datetime = NOW) -> SwitchSnapshot:
    return SwitchSnapshot(at, {(state.source, state.label): state}, {("tickets", None): 0.8})


def ask(state: SwitchState, segments: Any = None, score: float = 0.9, at: datetime = NOW) -> Any:
    """What a gate says from memory, which must be what is decided anew."""
    found = hold(board(state, at), began=100.0, ttl_s=30).answer("tickets", "billing", score, 100.5, segments)
    assert found == decide(board(state, at), "tickets", "billing", score, at, segments)
    return found


WEB_OFF = replace(ON, segments=(SegmentSwitch(*WEB, END),))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"channel": "mail"}, "on"), ({"channel": "mail", "language": "de"}, "on"),
        ({"channel": "web"}, "segment_off"), ({"channel": " WEB "}, "segment_off"),
        (None, "segment_missing"), ({}, "segment_missing"), ({"language": "de"}, "segment_missing"),
        ({"channel": ""}, "segment_missing"), ({"channel": None}, "segment_missing"),
        ({"channel": 7}, "segment_missing"), ({"channel": " "}, "segment_missing"),
        ("web", "segment_missing"), ([("channel", "mail")], "segment_missing"),
    ],
)  # fmt: skip
def test_a_gate_is_closed_for_the_segment_and_for_who_does_not_say_his(given: Any, reason: str):
    found = ask(WEB_OFF, given)
    assert (found.reason.value, bool(found)) == (reason, reason == "on")


def test_every_column_with_a_segment_off_must_be_said():
    both = replace(ON, segments=(SegmentSwitch(*WEB, END), SegmentSwitch("language", "de", END)))
    assert ask(both, {"channel": "mail"}).reason.value == "segment_missing"
    assert ask(both, {"channel": "mail", "language": "de"}).reason.value == "segment_off"
    assert ask(both, {"channel": "mail", "language": "en"})


def test_a_gate_closes_when_an_enable_ends_without_reading_anew():
    ends = replace(ON, segments=(SegmentSwitch(*WEB, NOW + timedelta(seconds=10), NOW + timedelta(seconds=10)),))
    memory = hold(board(ends), began=100.0, ttl_s=30)
    web = {"channel": "web"}
    assert memory.answer("tickets", "billing", 0.9, 109.9, web)
    assert memory.answer("tickets", "billing", 0.9, 110.1, web).reason.value == "segment_off"
    assert memory.answer("tickets", "billing", 0.9, 109.9)  # nothing is off yet
    assert memory.answer("tickets", "billing", 0.9, 110.1).reason.value == "segment_missing"


def test_a_snapshot_comes_back_as_it_was_and_who_knows_no_segments_reads_that_every_score_is_blocked():
    sent = to_json(board(replace(WEB_OFF, blocked=((0.95, 1.0),))))
    back = from_json(sent)
    state = back.switches["tickets", "billing"]
    assert (state.blocked, state.segments) == (((0.95, 1.0),), (SegmentSwitch(*WEB, END),))
    (row,) = sent["switches"]
    assert row["blocked"] == [[0.0, 1.0]]
    assert "segments" not in to_json(board(ON))["switches"][0]


@pytest.mark.parametrize(
    "broken", [{"column": "", "value": "web"}, {"column": "channel", "value": 1}, {"column": "channel"}, {}, "web"]
)
def test_a_segment_that_means_nothing_refuses_the_whole_snapshot(broken: Any):
    sent = to_json(board(WEB_OFF))
    sent["switches"][0]["segments"] = [broken]
    with pytest.raises(ValueError, match="not a"):
        from_json(sent)


def test_a_yes_costs_what_it_did_and_a_segment_little_more():
    memory = hold(board(ON), began=100.0, ttl_s=30), hold(board(WEB_OFF), began=100.0, ttl_s=30)

    def once(place: int, given: Any) -> float:
        began = time.perf_counter()
        for _ in range(2000):
            memory[place].answer("tickets", "billing", 0.9, 100.5, given)
        return time.perf_counter() - began

    plain = min(once(0, None) for _ in range(5))
    assert min(once(1, {"channel": "mail"}) for _ in range(5)) < 12 * plain


# What was


def test_the_switch_as_it_was_knows_its_segments_and_counts_as_on():
    on = enable(NEVER, now=END)
    web = change(on.after, on=False, now=END + timedelta(days=1))
    known = [on.event, web.event]
    assert off(switch_as_of(known, END, source="tickets", label="billing"), NOW) == ()
    later = switch_as_of(known, END + timedelta(days=2), source="tickets", label="billing")
    assert effective(later, END + timedelta(days=2), whole=None).segments == (WEB,)
    assert time_on({("tickets", "billing"): known}, ("tickets", "billing"), END, END + timedelta(days=2)) == 1.0
