"""Evidence on a real history: what a run finds while a label is off is not forgotten; a dead schedule ends leases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from monitor.automation.gate.snapshot import SwitchSnapshot, decide
from monitor.config.load import parse_config
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core.records import Reason, RuleEvidence, Schedule, Subject, Verdict, Window
from monitor.evaluation.evaluate import Evaluated
from monitor.history.store import Store
from monitor.operations import act
from monitor.operations.change_switch import change_switch
from monitor.operations.restate import record
from monitor.warehouse.reader import Warehouse

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
DAY, WEEK, HOUR = timedelta(days=1), timedelta(weeks=1), timedelta(hours=1)
LEASE = 9 * DAY
CONFIG = """\
version: 1
sources: {tickets: {relation: nowhere, score_is: probability_of_label, labels: {billing: {}}}}
rules:
  - {id: weekly-overconfidence, metric: overconfidence, threshold: 0.05, actions: [disable_automation]}
  - {id: ece-two-days, metric: ece, threshold: 0.08, schedule: daily, actions: [disable_automation]}
automation: {when_not_evaluated: keep, INITIAL}
"""
REASONS = {
    "ok": Reason.WITHIN_THRESHOLD, "breach": Reason.ABOVE_THRESHOLD, "unconfirmed": Reason.STREAK_INCOMPLETE,
    "not_evaluated": Reason.TOO_FEW_ROWS, "rejected": Reason.REJECTED_ROWS, "failed": Reason.WAREHOUSE_FAILED,
}  # fmt: skip


@dataclass
class World:
    """One label of one source, a clock, and the runs and people that change its switch."""

    store: Store
    now: datetime = MONDAY
    initial: str = "initial: off"
    lasting: bool = False
    scope: str = "labels"

    @property
    def monitor(self) -> Monitor:
        scoped = CONFIG.replace("threshold: 0.05,", f"threshold: 0.05, scope: {self.scope},")
        if self.lasting:
            scoped = scoped.replace("threshold: 0.05,", "threshold: 0.05, condition: accumulated,")
        config = parse_config(scoped.replace("INITIAL", self.initial))
        now = self.now
        return Monitor(config, load_settings({}), Warehouse.from_url("sqlite://"), self.store, None, lambda: now)

    def run(self, schedule: Schedule, end: datetime, label: str | None = "billing", **found: str) -> None:
        """One run of each rule's finding, six hours and a half after the window's end."""
        self.now = max(self.now, end + 6.5 * HOUR)
        window = Window(end - (WEEK if schedule == "weekly" else DAY), end, f"{end - DAY:%Y-%m-%d}", schedule)
        verdicts = tuple(judged(rule.replace("_", "-"), label, window, says) for rule, says in found.items())
        part, monitor = Evaluated("tickets", window, (), verdicts, (), ()), self.monitor
        may = act.refusals_of(monitor, window, ["tickets"], "auto")
        record(monitor, window, [part])
        act.act(monitor, window, [part], [], may)

    def enable(self, label: str | None = "billing", monitor: Monitor | None = None) -> str | None:
        """The verdict that an enable is against, which is then on for 24 hours; None: nothing is."""
        change_switch(monitor or self.monitor, "tickets", label, enable=True, by="ana", reason="looked at it")
        state = self.store.switch("tickets", label)
        assert state.lease_until == self.now + (LEASE if state.verdict is None else 24 * HOUR)
        return state.verdict

    def allowed(self, at: datetime | None = None) -> bool:
        switches = {(s.source, s.label): s for s in self.store.switches()}
        board = SwitchSnapshot(self.now, switches, {("tickets", None): 0.8})
        return decide(board, "tickets", "billing", 0.9, at or self.now).allowed


def judged(rule: str, label: str | None, window: Window, says: str) -> Verdict:
    outcome = says if says in ("ok", "breach", "unconfirmed") else "not_evaluated"  # type: ignore[assignment]
    return Verdict(
        id=f"{rule[:6]} {window.end:%m%d} {says}", rule=rule, subject=Subject("tickets", label), window=window,
        metric="ece", where="all", outcome=outcome, reason=REASONS[says], severity="critical", threshold=0.08,
        value=0.27, actions=("slack", "disable_automation") if outcome == "breach" else (),
    )  # fmt: skip


BOTH = pytest.mark.parametrize("world", ["postgresql", "sqlite"], indirect=True)
"""Where writers meet; what is stored comes back alike from both: ``test_store.py``."""


@pytest.fixture
def world(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[World]:
    kind = getattr(request, "param", "sqlite")
    url = request.getfixturevalue("fresh_postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path}/h.sqlite"
    with Store.from_url(url) as store:
        yield World(store)


@pytest.mark.parametrize("may", ["not done: backfill", "not done: a newer window has been evaluated"])
def test_a_breach_found_by_a_run_that_may_not_act_is_not_forgotten(world: World, may: str) -> None:
    world.enable()
    world.run("weekly", MONDAY + WEEK, weekly_overconfidence="not_evaluated")
    before, window = world.store.switch("tickets", "billing"), Window(MONDAY - WEEK, MONDAY, "older", "weekly")
    part = Evaluated("tickets", window, (), (judged("weekly-overconfidence", "billing", window, "breach"),), (), ())
    act.act(world.monitor, window, [part], [], {"tickets": may})
    assert world.store.switch("tickets", "billing") == before  # it moves no switch
    assert world.enable() == "weekly 1116 breach"
    world.now += 25 * HOUR
    assert not world.allowed()
    judged_until = [
        each.judged_until for each in world.store.evidence("tickets") if each.rule == "weekly-overconfidence"
    ]
    assert judged_until == [MONDAY + WEEK]


def test_a_weekly_breach_found_while_a_day_had_turned_the_label_off_is_not_forgotten(world: World) -> None:
    world.enable()
    saturday, week = MONDAY + 5 * DAY, MONDAY + WEEK
    world.run("daily", saturday, ece_two_days="breach")
    assert not world.allowed()
    world.run("weekly", week, weekly_overconfidence="breach")
    for day, says in ((week, "unconfirmed"), (week + DAY, "ok")):  # the day's own breach is cleared, the week's is not
        world.run("daily", day, ece_two_days=says)
    assert world.enable() == "weekly 1123 breach"
    hold = world.now + 24 * HOUR
    assert (world.allowed(hold - HOUR), world.allowed(hold)) == (True, False)
    world.run("daily", week + 2 * DAY, ece_two_days="ok")
    assert not world.allowed(hold), "a good day of another rule makes it last no longer"
    world.run("daily", week + 3 * DAY, ece_two_days="ok")
    assert world.store.switch("tickets", "billing").state == "off"
    world.run("weekly", week + WEEK, weekly_overconfidence="ok")
    assert world.enable() is None


def test_an_enable_answers_evidence_that_accumulates_and_no_other(world: World) -> None:
    world.lasting = True
    world.enable()
    world.run("weekly", MONDAY + WEEK, weekly_overconfidence="breach")
    assert world.store.switch("tickets", "billing").state == "off"
    world.now += HOUR
    assert world.enable() is None  # on for a full lease: the evidence starts anew
    world.run("weekly", MONDAY + 2 * WEEK, weekly_overconfidence="unconfirmed")
    assert world.allowed(world.now + DAY)
    world.run("weekly", MONDAY + 3 * WEEK, weekly_overconfidence="breach")
    assert world.store.switch("tickets", "billing").state == "off"
    stored = [each for each in world.store.verdicts(source="tickets") if each.outcome == "breach"]
    assert len(stored) == 2  # what it was stays on record


def test_what_is_above_the_limit_but_not_confirmed_renews_nothing_beside_a_breach_that_lasts(world: World) -> None:
    world.lasting = True
    world.enable()
    hold = MONDAY + 3 * DAY
    change_switch(world.monitor, "tickets", "billing", enable=True, by="ana", reason="sure", until=hold)
    world.run("weekly", MONDAY + DAY, weekly_overconfidence="breach")  # held: an operator said so
    world.run("daily", MONDAY + 2 * DAY, ece_two_days="unconfirmed")
    assert (world.allowed(hold - HOUR), world.allowed(hold + HOUR)) == (True, False)
    world.run("daily", MONDAY + 4 * DAY, ece_two_days="unconfirmed")
    assert world.store.switch("tickets", "billing").state == "off"


@BOTH
def test_a_breach_of_a_window_that_is_run_again_in_a_hold_is_noted_once_for_each_enable(world: World) -> None:
    def held() -> list[str | None]:
        return [event.verdict for event in world.store.switch_events("tickets", "billing") if event.kind == "held"]

    world.enable()
    world.run("weekly", MONDAY, weekly_overconfidence="breach")
    assert held() == ["weekly 1116 breach"]
    world.now += 25 * HOUR
    world.run("weekly", MONDAY, weekly_overconfidence="breach")
    assert not world.allowed()
    for times in (2, 3):
        assert world.enable() == "weekly 1116 breach"
        before = world.store.switch("tickets", "billing")
        for _ in range(3):
            world.now += HOUR
            world.run("weekly", MONDAY, weekly_overconfidence="breach")
            assert world.store.switch("tickets", "billing") == replace(before, version=before.version + 1)
        assert held() == ["weekly 1116 breach"] * times


@pytest.mark.parametrize("label", ["billing", None], ids=["a label never set", "the source's own switch"])
def test_an_enable_is_against_a_breach_of_a_label_never_set_and_of_the_source(world: World, label: str | None) -> None:
    world.scope = "labels" if label else "source"
    world.run("weekly", MONDAY + WEEK, label, weekly_overconfidence="breach")
    assert world.enable(label) == "weekly 1123 breach"


def test_late_truths_that_turn_the_breach_into_a_good_week_clear_it(world: World) -> None:
    world.enable()
    week = MONDAY + WEEK
    world.run("weekly", week, weekly_overconfidence="breach")
    world.run("weekly", week, weekly_overconfidence="ok")
    assert world.enable() is None


def test_a_rule_that_alerts_yaml_has_lost_is_no_evidence_any_more(world: World) -> None:
    world.enable()
    world.run("weekly", MONDAY + WEEK, weekly_overconfidence="breach")
    lost = parse_config(
        "\n".join(line for line in CONFIG.splitlines() if "weekly-overconfidence" not in line).replace(
            "INITIAL", "initial: off"
        )
    )
    assert world.enable(monitor=replace(world.monitor, config=lost)) is None
    world.now += LEASE
    assert world.enable() == "weekly 1123 breach", "with the rule, its breach is back"


@pytest.mark.parametrize("other", ["breach", "rejected"])
def test_nothing_is_turned_on_by_one_good_rule_where_another_is_in_breach_or_has_rejected_rows(
    world: World, other: str
) -> None:
    world.initial = "initial: on_first_ok"
    if other == "breach":
        world.run("weekly", MONDAY + WEEK, weekly_overconfidence=other)
        for n in range(3):
            world.run("daily", MONDAY + WEEK + n * DAY, ece_two_days="ok")
    else:
        world.run("daily", MONDAY + WEEK, ece_two_days="ok", weekly_overconfidence=other)
    assert not world.allowed()
    assert world.store.switch("tickets", "billing").state != "on"


def test_with_the_weekly_run_dead_for_good_daily_runs_end_with_one_lease_after_its_last_window(world: World) -> None:
    world.enable()
    week = MONDAY + WEEK
    world.run("weekly", week, weekly_overconfidence="ok")
    on = []
    for n in range(35):
        world.run("daily", week + n * DAY, ece_two_days="ok")
        on.append(world.allowed())
    assert on == [True] * 9 + [False] * 26
    assert world.store.switch("tickets", "billing").lease_until == week + LEASE
    last = world.store.switch_events("tickets", "billing")[-1]
    assert (last.kind, last.waits_for) == ("not_renewed", "weekly-overconfidence")


def test_a_week_that_could_not_be_read_is_no_judgement_and_one_with_too_few_rows_is(world: World) -> None:
    world.enable()
    week = MONDAY + WEEK
    for says, until in (("ok", week), ("failed", week), ("not_evaluated", week + 2 * WEEK)):
        end = {"ok": week, "failed": week + WEEK, "not_evaluated": week + 2 * WEEK}[says]
        world.run("weekly", end, weekly_overconfidence=says)
        world.run("daily", end, ece_two_days="ok")
        assert world.store.switch("tickets", "billing").lease_until == until + LEASE


def test_with_both_schedules_alive_the_lease_runs_from_the_end_of_the_window(world: World) -> None:
    world.enable()
    for n in range(1, 29):
        end = MONDAY + n * DAY
        world.run("daily", end, ece_two_days="unconfirmed" if n % 5 else "ok")
        if n % 7 == 0:
            world.run("weekly", end, weekly_overconfidence="ok")
            assert world.store.switch("tickets", "billing").lease_until == end + LEASE
        assert world.allowed()


@BOTH
def test_a_person_who_decides_while_a_run_stores_its_evidence_decides_on_it(world: World) -> None:
    """The run finds a breach of what is off already, so that its own switch change would conflict with nobody's."""
    world.enable()
    world.run("daily", MONDAY + WEEK, ece_two_days="breach")
    world.run("daily", MONDAY + WEEK + DAY, ece_two_days="ok")
    store, reads = world.store, 0

    class Late:
        """The history, in which the weekly run ends between a person's reading and writing."""

        def __getattr__(self, name: str) -> Any:
            def evidence(*given: Any) -> list[RuleEvidence]:
                nonlocal reads
                found, reads = store.evidence(*given), reads + 1
                if reads == 1:
                    world.run("weekly", MONDAY + WEEK, weekly_overconfidence="breach")
                return found

            return evidence if name == "evidence" else getattr(store, name)

    monitor = replace(world.monitor, store=Late())  # type: ignore[arg-type]
    assert world.enable(monitor=monitor) == "weekly 1123 breach"
    assert reads == 2


@BOTH
def test_evidence_is_stored_only_where_it_is_still_what_was_read(world: World) -> None:
    new = RuleEvidence("tickets", "billing", "rule", "weekly", since=MONDAY)
    assert world.store.save_evidence("tickets", [new]) == "applied"
    assert world.store.save_evidence("tickets", [new]) == "conflict"
    (stored,) = world.store.evidence("tickets", "billing")
    assert stored == replace(new, version=1)
    both = [replace(stored, judged_until=MONDAY), replace(new, rule="other", version=7)]
    assert world.store.save_evidence("tickets", both) == "conflict"
    assert world.store.evidence() == [stored], "all of it or nothing"
