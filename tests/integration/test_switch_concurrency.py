"""Two runs and two operators at one switch at once, on real databases: what is left is a serial history.

Each schedule has a switch of its own, and four threads that stop before every call of the history.
A seeded conductor lets them go on, one or several at once, so that decisions are taken on states
that are no longer stored, and transactions meet in the database.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from monitor.automation.evidence import is_against
from monitor.automation.switch import SwitchDecision, after_run, operator_change
from monitor.config.load import parse_config
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core.records import RuleEvidence, SwitchEvent, SwitchState, Verdict, Window
from monitor.evaluation.evaluate import Evaluated
from monitor.history.store import Store
from monitor.operations import act as acting
from monitor.operations.change_switch import change_switch
from monitor.warehouse.reader import Warehouse
from tests.fakes import judged

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
WEEK = timedelta(weeks=1)
SCHEDULES = {"postgresql": 200, "sqlite": 40}
CONFIG = """\
version: 1
sources: {tickets: {relation: nowhere, score_is: probability_of_label}}
rules:
  - {id: turns-off, metric: ece, threshold: 0.05, actions: [disable_automation]}
  - {id: blocks, metric: mce, threshold: 0.2, actions: [block_scores]}
automation: {when_not_evaluated: keep, initial: on_first_ok, re_enable: {after: 2}, dry_run: DRY}
"""
Outcome = tuple[str, str, list[list[float]]]
Shown = dict[str, Sequence[RuleEvidence]]
ASKS = {"turns-off": "disable_automation", "blocks": "block_scores"}
FOUND: dict[str, list[Outcome]] = {
    "good": [("turns-off", "ok", []), ("blocks", "ok", [])],
    "bad": [("turns-off", "breach", []), ("blocks", "ok", [])],
    "blocking": [("turns-off", "ok", []), ("blocks", "breach", [[0.81, 0.9]])],
    "silent": [("turns-off", "not_evaluated", []), ("blocks", "not_evaluated", [])],
}


class Conductor:
    """Holds the actors back before every call, and lets some of them go on together."""

    def __init__(self, seed: int, actors: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - a schedule, no secret
        self.changed = threading.Condition()
        self.waiting: set[int] = set()
        self.running = actors
        self.go: set[int] = set()

    def pause(self, actor: int) -> None:
        with self.changed:
            self.waiting.add(actor)
            self.running -= 1
            self._conduct()
            self.changed.wait_for(lambda: actor in self.go)
            self.go.remove(actor)

    def leave(self) -> None:
        with self.changed:
            self.running -= 1
            self._conduct()

    def _conduct(self) -> None:
        if self.running == 0 and self.waiting:
            several = self.random.random() < 0.4
            order = sorted(self.waiting)
            chosen = set(self.random.sample(order, self.random.randint(1, len(order)) if several else 1))
            self.waiting -= chosen
            self.running += len(chosen)
            self.go |= chosen
            self.changed.notify_all()


class Paused:
    """A history that waits for the conductor before the calls that matter; all else is the history itself."""

    def __init__(self, store: Store, pause: Callable[[], None], shown: Shown) -> None:
        self._store, self._pause, self._shown = store, pause, shown

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if name not in ("switch", "apply_switch", "evidence", "save_evidence"):
            return call

        def paused(*arguments: Any, **named: Any) -> Any:
            self._pause()
            done = call(*arguments, **named)
            if name == "apply_switch" and done == "applied":
                self._shown[arguments[2].key] = named["evidence"]
            return done

        return paused


@dataclass(frozen=True)
class Actor:
    """One who changes the switch: a run with what it found, or a person."""

    number: int
    found: str = ""
    week: int = 0
    enable: bool = False

    @property
    def name(self) -> str:
        return f"person {self.number}"

    @property
    def window(self) -> Window:
        end = MONDAY + self.week * WEEK
        return Window(end - WEEK, end, f"week {self.week}", "weekly")

    @property
    def now(self) -> datetime:
        return MONDAY + self.week * WEEK + timedelta(hours=6)

    def verdicts(self, label: str) -> tuple[Verdict, ...]:
        return tuple(
            judged.verdict(
                outcome, self.window, label, id=f"{rule}-{outcome}-{self.week}-{label}", rule=rule,
                detail={"blocked": blocked}, actions=(ASKS[rule],) if outcome == "breach" else (),
            )
            for rule, outcome, blocked in FOUND[self.found]
        )  # fmt: skip

    def act(self, monitor: Monitor, label: str, shown: Shown) -> None:
        store: Any = monitor.store
        if not isinstance(store, Paused):
            monitor = replace(monitor, store=cast("Store", Paused(store, lambda: None, shown)))
        if not self.found:
            change_switch(monitor, "tickets", label, enable=self.enable, by=self.name, reason=f"says {self.name}")
            return
        part = Evaluated("tickets", self.window, (), self.verdicts(label), (), ())
        acting.switch_source(monitor, self.window, part, False)

    def decide(
        self, monitor: Monitor, state: SwitchState, event: SwitchEvent | None, known: Sequence[RuleEvidence]
    ) -> SwitchDecision:
        """What this actor makes of a state and of the evidence, worked out alone."""
        automation = monitor.config.automation
        if not self.found:
            key = "" if event is None else event.key
            return operator_change(
                state, enable=self.enable, by=self.name, reason=f"says {self.name}", now=self.now,
                automation=automation, key=key, known=known,
            )  # fmt: skip
        evidence = acting.evidence_of(self.window, self.verdicts(state.label or ""), False, known)
        return after_run(state, evidence, automation, critical=False, now=self.now)


BEFORE = [Actor(8, found="good", week=-1), Actor(9, found="bad", week=0)]


def actors_of(seed: int) -> list[Actor]:
    """Two runs, of the same week or of two, and two people."""
    draw = random.Random(f"actors {seed}")  # noqa: S311 - a schedule, no secret
    weeks = [1, draw.choice([1, 1, 2])]
    findings = [draw.choice(list(FOUND)) for _ in weeks]
    runs = [Actor(i, found=found, week=week) for i, (found, week) in enumerate(zip(findings, weeks, strict=True))]
    return [*runs, *(Actor(2 + i, week=1, enable=draw.random() < 0.5) for i in range(2))]


def play(monitor: Monitor, seed: int, label: str) -> tuple[list[Actor], Shown]:
    """One schedule: the switch is prepared, then all four act. With the evidence that each event was decided on."""
    shown: Shown = {}
    actors = actors_of(seed)
    draw = random.Random(f"before {seed}")  # noqa: S311 - a schedule, no secret
    for actor in draw.choice([[], BEFORE[:1], BEFORE]):
        actor.act(replace(monitor, clock=lambda now=actor.now: now), label, shown)
    conductor = Conductor(seed, len(actors))

    def one(actor: Actor) -> None:
        try:
            store: Any = Paused(monitor.store, lambda: conductor.pause(actor.number), shown)
            actor.act(replace(monitor, store=store, clock=lambda: actor.now), label, shown)
        finally:
            conductor.leave()

    with ThreadPoolExecutor(len(actors)) as pool:
        for done in [pool.submit(one, actor) for actor in actors]:
            done.result(timeout=60)
    return actors, shown


def writer(actors: list[Actor], event: SwitchEvent) -> Actor:
    """Who wrote an event. Of two runs with the same findings either may have been it: they decide alike."""
    for actor in [*actors, *BEFORE]:
        digest = acting.evidence_of(actor.window, actor.verdicts(event.label or ""), False).key if actor.found else ""
        if event.actor == actor.name or (actor.found and event.key.startswith(f"{digest}:")):
            return actor
    raise AssertionError(f"nobody wrote {event}")


def is_nothing(decision: SwitchDecision, events: Sequence[SwitchEvent]) -> bool:
    """Whether a decision changes nothing, or notes what is noted already."""
    once = decision.once
    return decision.event is None or (once is not None and any(each.key.startswith(once) for each in events))


def check(monitor: Monitor, played: tuple[list[Actor], Shown], label: str) -> list[SwitchEvent]:
    """The events, each decided anew and alone on the state that the one before left, give the stored state.

    The evidence ends as the runs in the order of their windows leave it, and no "on" is against it for long.
    """
    (actors, shown), last = played, monitor.store.evidence("tickets", label)
    events, state = monitor.store.switch_events("tickets", label), SwitchState("tickets", label)
    states, wrote = [state], Counter[Actor]()
    for event in events:
        actor = writer(actors, event)
        decided = actor.decide(monitor, state, event, shown[event.key])
        assert event == decided.event, "a serial history gives the same event"
        state = decided.after
        states.append(state)
        wrote[actor] += 1
    assert state == monitor.store.switch("tickets", label), "nothing is lost, nothing is added"
    for actor in actors:
        if not actor.found:
            assert wrote[actor] == 1, "what a person did happened once"
        elif wrote[actor] == 0:
            knowns = [*shown.values(), last]
            possible = (actor.decide(monitor, s, None, known) for s in states for known in knowns)
            assert any(is_nothing(each, events) for each in possible), "there was nothing for it to do"
    if not monitor.config.automation.dry_run and is_against(last, state.blocked) and state.state == "on":
        assert state.lease_until <= state.hold_until, "what is against the evidence is on for as long as it holds"
    return events


@contextmanager
def opened(url: str, dry: bool) -> Iterator[Monitor]:
    config = parse_config(CONFIG.replace("DRY", str(dry).lower()))
    with Store.from_url(url) as store:
        store.publish_thresholds(config.thresholds, MONDAY)
        yield Monitor(config, load_settings({}), Warehouse.from_url("sqlite://"), store, None, lambda: MONDAY)


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Any) -> tuple[str, int]:
    kind = request.param
    url = request.getfixturevalue("fresh_postgres_url") if kind == "postgresql" else f"sqlite:///{tmp_path}/h.sqlite"
    return url, SCHEDULES[kind]


def test_two_runs_and_two_people_at_once_leave_a_serial_history(database: tuple[str, int]) -> None:
    url, schedules = database
    shapes = set()
    with opened(url, dry=False) as monitor:
        for seed in range(schedules):
            label = f"label-{seed}"
            events = check(monitor, play(monitor, seed, label), label)
            assert monitor.store.switch("tickets", label).version == len(events), "one version for each event"
            shapes.add(tuple(event.kind for event in events))
    assert len(shapes) > schedules / 10, "the schedules do different things"


def test_in_a_dry_run_only_people_move_the_switch(database: tuple[str, int]) -> None:
    url, schedules = database
    with opened(url, dry=True) as monitor:
        for seed in range(schedules // 8):
            label = f"label-{seed}"
            events = check(monitor, play(monitor, seed, label), label)
            assert all(e.actor.startswith("person") for e in events if e.from_state != e.to_state)
