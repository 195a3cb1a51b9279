"""A thousand random schedules of faults: nothing is lost, nothing comes twice, and edits end at the newest content.

Most run without a network, where a second worker can be let in at any moment of a call that hangs; the
others through real sockets with two real threads, or with real processes that are killed.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import signal
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest
import sqlalchemy as sa

from monitor.alerting.slack.client import SlackSender
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.core.records import Delivery
from monitor.history import tables
from monitor.history.store import Store
from tests.fakes import forked
from tests.fakes.slack import ALL_SCOPES, TOKEN, FakeSlack, Work
from tests.fakes.slack_killed import drain_and_die
from tests.fakes.slack_schedule import Clock, DyingClient, Killed, Round, Schedule, broken, schedule, set_lasting

pytestmark = pytest.mark.slow

SCHEDULES, BLOCK = 1000, 125
SOCKETS = 100
KILLS = 30
UNSEARCHABLE = ALL_SCOPES - {"channels:history", "groups:history"}
_names = (f"host-{n}/1:1:1" for n in itertools.count())


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history with all its tables and nothing in them, to copy."""
    path = tmp_path_factory.mktemp("empty") / "history.sqlite"
    Store.from_url(f"sqlite:///{path}").close()
    return path


class InProcess:
    """One schedule played without a network."""

    def __init__(self, store: Store, given: Schedule) -> None:
        self.store, self.given, self.clock = store, given, Clock()
        self.slack = FakeSlack(scopes=set(ALL_SCOPES if given.searchable else UNSEARCHABLE), clock=self.clock.seconds)
        self.coming: Sequence[Delivery] = ()  # of the next round, which may come early
        self.chance = Random(given.seed)  # noqa: S311 - repeatable, not secret

    def play(self) -> list[str]:
        for round, then in itertools.zip_longest(self.given.rounds, self.given.rounds[1:]):
            self.coming = then.composed if then else ()
            self._round(round)
        set_lasting(self.slack, "healed")
        for _ in range(3):
            self.clock.move(timedelta(minutes=61))
            self._drain()
        return broken(self.store, self.slack, self.given)

    def _round(self, round: Round) -> None:
        set_lasting(self.slack, round.lasting)
        for delivery in round.composed:
            self.store.add_delivery(delivery)
        for method, fault in round.faults:
            self.slack.fail(method, fault)
        with contextlib.suppress(Killed):
            self._drain(round.kill, nests=round.workers > 1, due_only=round.due_only)
        self.clock.move(round.waits)

    def _drain(self, kill: tuple[int, bool] | None = None, *, nests: bool = False, due_only: bool = False) -> None:
        sender = SlackSender(TOKEN)
        sender._client = DyingClient(self.slack, kill, self._meanwhile if nests else None)
        drain(
            self.store, sender, now=self.clock, worker=next(_names), due_only=due_only, sleep=self.clock.sleep,
            seconds=self.clock.seconds,
        )  # fmt: skip

    def _meanwhile(self, effect: Work) -> None:
        """While one worker waits for an answer, more is composed and another one drains.

        Perhaps Slack does what was asked only after that, perhaps so late that the other one takes over. Never
        both: against a request that takes effect after its lease nothing helps.
        """
        late = self.chance.random() < 0.3
        if late or self.chance.random() < 0.3:
            effect()
            effect = dict
        for delivery in self.coming:
            self.store.add_delivery(delivery)
        self.clock.move(timedelta(minutes=6) if late else timedelta(0))
        self._drain()
        effect()


@pytest.mark.parametrize("first", range(0, SCHEDULES, BLOCK))
def test_whatever_goes_wrong_nothing_is_lost_and_nothing_comes_twice(first: int) -> None:
    with Store.from_url("sqlite://") as store:
        for seed in range(first, first + BLOCK):
            with store._write() as connection:
                connection.execute(sa.delete(tables.deliveries))
            assert InProcess(store, schedule(seed)).play() == [], f"seed {seed}"


def test_the_schedules_hold_every_kind_of_fault_and_of_end() -> None:
    rounds = [round for seed in range(SCHEDULES) for round in schedule(seed).rounds]
    assert {fault.kind for round in rounds for _, fault in round.faults} == {"status", "error", "hang", "reset"}
    assert {round.lasting for round in rounds} == {"", "outage", "revoked", "archived", "healed"}
    assert sum(round.kill is not None for round in rounds) > 500
    assert sum(round.waits >= timedelta(minutes=40) and round.lasting == "outage" for round in rounds) > 50
    assert sum(round.workers == 2 for round in rounds) > 500


class OverSockets:
    """One schedule through real sockets, two workers at the very same time."""

    def __init__(self, url: str, slack: FakeSlack, given: Schedule) -> None:
        self.url, self.slack, self.given, self.clock = url, slack, given, Clock()
        slack.scopes = set(ALL_SCOPES if given.searchable else UNSEARCHABLE)

    def play(self) -> list[str]:
        with Store.from_url(self.url) as store:
            for round in self.given.rounds:
                self._round(store, round)
            set_lasting(self.slack, "healed")
            for _ in range(3):
                self.clock.move(timedelta(minutes=61))
                self._drain(store)
            return broken(store, self.slack, self.given)

    def _round(self, store: Store, round: Round) -> None:
        set_lasting(self.slack, round.lasting)
        for delivery in round.composed:
            store.add_delivery(delivery)
        for method, fault in round.faults:
            self.slack.fail(method, replace(fault, seconds=0.02))  # a hang ends soon, by a broken connection
        workers = [threading.Thread(target=self._drain, args=(store,)) for _ in range(round.workers)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.clock.move(round.waits)

    def _drain(self, store: Store) -> None:
        drain(store, SlackSender(TOKEN, self.slack.url), now=self.clock, worker=next(_names), sleep=lambda _: None)


def test_through_real_sockets_with_two_workers_at_once_the_same_holds(
    slack: FakeSlack, empty: Path, tmp_path: Path
) -> None:
    for seed in range(10_000, 10_000 + SOCKETS):
        path = tmp_path / f"{seed}.sqlite"
        shutil.copy(empty, path)
        slack.messages.clear()
        slack.files.clear()
        assert OverSockets(f"sqlite:///{path}", slack, schedule(seed)).play() == [], f"seed {seed}"


def test_workers_killed_in_the_middle_of_a_call_leave_nothing_undone_and_nothing_twice(
    slack: FakeSlack, empty: Path, tmp_path: Path
) -> None:
    died = 0
    for seed in range(20_000, 20_000 + KILLS):
        given, chance, path = schedule(seed), Random(seed), tmp_path / f"{seed}.sqlite"  # noqa: S311 - repeatable, not secret
        given = Schedule(seed, True, [r for r in given.rounds if r.composed])
        shutil.copy(empty, path)
        slack.messages.clear()
        url, clock = f"sqlite:///{path}", Clock()
        with Store.from_url(url) as store:
            for round in given.rounds:
                for delivery in round.composed:
                    store.add_delivery(delivery)
                at, after = chance.randint(1, 3), chance.random() < 0.6
                process = forked.processes.Process(target=drain_and_die, args=(url, slack.url, clock.now, at, after))
                process.start()
                process.join()
                assert process.exitcode in (0, -signal.SIGKILL)
                died += process.exitcode != 0
            for _ in range(2):
                drain(store, SlackSender(TOKEN, slack.url), now=clock, worker=worker_id(), sleep=lambda _: None)
            assert broken(store, slack, given) == [], f"seed {seed}"
    assert died > KILLS
