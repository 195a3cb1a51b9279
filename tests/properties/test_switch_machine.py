"""Whatever happens in whatever order, the switch errs to "off", and what is done twice is done once."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from monitor.automation.state import effective, is_blocked, merged
from monitor.automation.switch import Evidence, SwitchDecision, after_run, operator_change
from monitor.records import Outcome, Reason, Schedule, Subject, SwitchState, Verdict, Window
from monitor.rules.model import AutomationConfig, ReEnableAfter

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
DAY = timedelta(days=1)
LENGTH: dict[Schedule, timedelta] = {"weekly": 7 * DAY, "daily": DAY}
REASONS = {"ok": Reason.WITHIN_THRESHOLD, "breach": Reason.ABOVE_THRESHOLD, "not_evaluated": Reason.TOO_FEW_ROWS}

outcomes = st.sampled_from(["ok", "breach", "not_evaluated"])
cells = st.integers(0, 100).map(lambda cell: cell / 100)
ranges = st.lists(st.tuples(cells, cells).map(lambda pair: (min(pair), max(pair))), max_size=3)
kinds = st.sampled_from(["disable_automation", "block_scores"])


def judged(window: Window, outcome: Outcome, kind: str, blocked: list[tuple[float, float]]) -> Verdict:
    return Verdict(
        id="v", rule="r", subject=Subject("tickets", "billing"), window=window, metric="mce", where="all",
        outcome=outcome, reason=REASONS[outcome], severity="critical", threshold=0.2,
        actions=(kind,) if outcome == "breach" else (),  # type: ignore[arg-type]
        detail={"blocked": blocked},
    )  # fmt: skip


class SwitchMachine(RuleBasedStateMachine):
    """One label's switch through days, weeks, operators and repeated runs."""

    @initialize(
        when=st.sampled_from(["keep", "disable"]),
        initial=st.sampled_from(["off", "on_first_ok"]),
        after=st.sampled_from(["manual", ReEnableAfter(after=1), ReEnableAfter(after=2)]),
        critical=st.booleans(),
    )
    def start(self, when, initial, after, critical) -> None:
        self.automation = AutomationConfig(when_not_evaluated=when, initial=initial, re_enable=after)
        self.critical = critical
        self.state = SwitchState("tickets", "billing")
        self.now = MONDAY
        self.last: Evidence | None = None
        self.good_since_off = 0
        self.ever_enabled = False
        self.renewed = datetime.min.replace(tzinfo=UTC)  # the newest moment from which a lease may run
        self.number = 0

    def _take(self, decision: SwitchDecision) -> None:
        before = self.state
        assert (decision.event is None) == (decision.after == before)
        if decision.event is not None:
            assert decision.after.version == before.version + 1
            assert (decision.event.from_state, decision.event.to_state) == (before.state, decision.after.state)
            assert decision.event.at == self.now
        self.state = decision.after

    @rule(days=st.integers(0, 12))
    def time_passes(self, days: int) -> None:
        self.now += days * DAY + timedelta(hours=1)

    @rule(
        schedule=st.sampled_from(["weekly", "daily"]), late=st.integers(0, 3),
        found=st.lists(st.tuples(outcomes, kinds, ranges), max_size=3),
    )  # fmt: skip
    def a_run(self, schedule: Schedule, late: int, found) -> None:
        length = LENGTH[schedule]
        end = MONDAY + ((self.now - MONDAY) // length - late) * length
        window = Window(end - length, end, f"{schedule} {end}", schedule)
        self.number += 1
        verdicts = tuple(judged(window, *each) for each in found)
        self.last = Evidence(end, schedule, verdicts, f"{schedule}:{end}:{self.number}")
        self._run(self.last)

    def _run(self, evidence: Evidence) -> None:
        before = self.state
        decision = after_run(before, evidence, self.automation, critical=self.critical, now=self.now)
        self._take(decision)
        again = after_run(self.state, evidence, self.automation, critical=self.critical, now=self.now)
        assert (again.after, again.event) == (self.state, None), "the same window twice changes nothing"
        self._check_run(before, evidence, decision.reason)

    def _check_run(self, before: SwitchState, evidence: Evidence, reason: str) -> None:
        after, asked = self.state, {v.outcome for v in evidence.verdicts}
        evaluated = bool(asked & {"ok", "breach"})
        disabling = any("disable_automation" in v.actions for v in evidence.verdicts)
        held = before.state == "on" and before.hold_until is not None and before.hold_until > self.now
        if evaluated:
            self.renewed = max(self.renewed, evidence.window_end)
        lapsed = before.hold_until is not None and before.hold_until <= self.now
        if before.state == "off" and before.by_operator and not lapsed:
            assert after == before, "a run never undoes an operator's off"
        if self.automation.initial == "off" and not self.ever_enabled:
            assert after.state != "on", "no run turns on what nobody ever turned on"
        if before.state != "on" and after.state == "on":
            assert asked <= {"ok", "not_evaluated"}
            assert "ok" in asked, "only a good window turns on"
        if disabling and reason != "older window":
            assert after.state == "off" or (held and not self.critical), "a breach turns off"
        if held and not self.critical:
            assert (after.state, after.blocked) == ("on", before.blocked), "an operator's enable holds"
        if not evaluated:
            assert after.lease_until in (before.lease_until, None), "only an evaluated rule renews the lease"
        if before.lease_until and after.lease_until:
            assert after.lease_until >= before.lease_until, "no run shortens a lease"
        if reason == "older window":
            assert after == before

    @precondition(lambda self: self.last is not None)
    @rule()
    def the_same_run_again_later(self) -> None:
        assert self.last is not None
        self._run(self.last)

    @rule(enable=st.booleans(), hold=st.sampled_from([None, DAY / 2, 3 * DAY]))
    def an_operator(self, enable: bool, hold: timedelta | None) -> None:
        self.number += 1
        until = self.now + hold if hold is not None else None
        decision = operator_change(
            self.state, enable=enable, by="ana", reason="because", now=self.now, until=until,
            automation=self.automation, key=str(self.number),
        )  # fmt: skip
        self._take(decision)
        self.ever_enabled |= enable
        if enable:
            self.renewed = max(self.renewed, self.now)
        assert effective(self.state, self.now, whole=None).allowed is enable

    @invariant()
    def what_is_allowed_has_a_living_lease_that_somebody_renewed(self) -> None:
        allowed = effective(self.state, self.now, whole=None)
        assert allowed.allowed == (
            self.state.state == "on" and self.state.lease_until is not None and self.state.lease_until > self.now
        )
        if allowed.allowed:
            assert self.now < self.renewed + self.automation.lease, "a dead monitor means off"

    @invariant()
    def the_source_can_only_forbid(self) -> None:
        alone = effective(self.state, self.now, whole=None)
        for whole in (
            SwitchState("tickets", None), SwitchState("tickets", None, state="on"),
            SwitchState("tickets", None, state="off"),
        ):  # fmt: skip
            together = effective(self.state, self.now, whole=whole)
            assert together.allowed <= alone.allowed
            assert together.allowed == (alone.allowed and whole.state != "off")

    @invariant()
    def off_keeps_nothing_alive(self) -> None:
        if self.state.state == "off":
            assert (self.state.blocked, self.state.lease_until) == ((), None)
            assert self.state.hold_until is None or self.state.by_operator
        assert merged(self.state.blocked) == self.state.blocked


SwitchMachine.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)
TestSwitchMachine = SwitchMachine.TestCase


@given(ranges, cells)
def test_merging_blocks_the_same_scores(parts: list[tuple[float, float]], score: float) -> None:
    assert is_blocked(score, merged(parts)) == any(low <= score <= high for low, high in parts)


@given(ranges, st.randoms())
def test_merged_ranges_are_sorted_apart_and_do_not_depend_on_the_order(parts, random) -> None:
    found = merged(parts)
    assert all(one[1] < two[0] for one, two in itertools.pairwise(found))
    random.shuffle(parts)
    assert merged(parts) == merged(found) == found


@given(st.lists(st.sampled_from(["ok", "breach", "not_evaluated"]), min_size=1, max_size=12), st.integers(1, 3))
def test_it_comes_back_exactly_after_so_many_good_weeks_without_a_breach_between(
    weeks: list[Outcome], needed: int
) -> None:
    """Against a plain count: not evaluated neither counts nor breaks a row; a breach starts it again."""
    automation = AutomationConfig(when_not_evaluated="keep", re_enable=ReEnableAfter(after=needed))
    state = replace(
        SwitchState("tickets", "billing"), state="off", actor="weekly run", changed_at=MONDAY, version=1
    )  # fmt: skip
    on, row = False, 0
    for number, outcome in enumerate(weeks):
        end = MONDAY + number * 7 * DAY
        window = Window(end - 7 * DAY, end, str(number), "weekly")
        evidence = Evidence(end, "weekly", (judged(window, outcome, "disable_automation", []),), str(number))
        state = after_run(state, evidence, automation, critical=False, now=end).after
        row = 0 if outcome == "breach" else row + (outcome == "ok")
        on = outcome != "breach" and (on or row >= needed)
        row = 0 if on else row
        assert (state.state == "on") is on
