"""Whatever is restored, whoever publishes and whatever the clock says: a gate says yes only to what holds now.

A gate that lives, and each time one that has just started, read a real history in SQLite among moves of operators,
plain copies put back, confirmations, two rules revisions and a clock that is behind.
"""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from monitor.automation.gate.past import Past
from monitor.automation.gate.snapshot import Decision, decide, snapshot_of
from monitor.automation.state import GateReason
from monitor.config.load import parse_config
from monitor.core.records import Mark
from monitor.history.reader import SwitchReader
from monitor.history.store import Store
from monitor.history.thresholds import Publisher
from monitor.operations.change_switch import SwitchChange, operate
from tests.fakes.world import CONFIG

RULES = parse_config(CONFIG)
SCORES = {"first": 0.8, "second": 0.5}


class Restores(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.file = Path(self.folder.name) / "history.sqlite"
        self.url = f"sqlite:///{self.file}"
        self.past, self.on, self.trusted = Past(), False, True
        self.copies: list[tuple[bytes, bool, bool, Mark]] = []
        Store.from_url(self.url).close()
        self.publish("first")

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule(enable=st.booleans())
    def turn(self, enable: bool) -> None:
        change = SwitchChange("tickets", "billing", enable, "ann", "looked")
        with Store.from_url(self.url) as store:
            operate(store, RULES, change, lambda: datetime.now(UTC))
        self.on = enable

    @rule(revision=st.sampled_from(sorted(SCORES)))
    def publish(self, revision: str) -> None:
        with Store.from_url(self.url) as store:
            before = store.thresholds().get(("tickets", None), 0.0)
            store.publish_thresholds(
                {("tickets", None): SCORES[revision]}, datetime.now(UTC), Publisher(revision, "h", "ann")
            )
            after = store.thresholds()["tickets", None]
        assert after >= before, "a score was lowered, and no person has said so"

    @rule()
    def keep_a_copy(self) -> None:
        self.copies.append((self.file.read_bytes(), self.on, self.trusted, self.mark()))

    @precondition(lambda self: self.copies)
    @rule(number=st.integers(0, 9))
    def put_back(self, number: int) -> None:
        content, self.on, trusted, mark = self.copies[number % len(self.copies)]
        self.file.write_bytes(content)
        self.trusted = trusted and not mark.is_older_than(self.past.seen or mark)

    def mark(self) -> Mark:
        return SwitchReader(self.url, limit_s=30.0).read()[1].identity.mark

    @rule()
    def confirm(self) -> None:
        with Store.from_url(self.url) as store:
            store.confirm(why="looked at it", by="ann", now=datetime.now(UTC))
        self.trusted = True

    def ask(self, past: Past, behind: timedelta = timedelta(0)) -> Decision:
        reader = SwitchReader(self.url, limit_s=30.0, clock=lambda: datetime.now(UTC) - behind)
        at, found = reader.read()
        board = snapshot_of(at, found.switches, found.automate_at, found.identity)
        if past.refusal(board.mark) is not None:
            return Decision(False, GateReason.HISTORY_WENT_BACK)
        return decide(board, "tickets", "billing", 0.93, board.at)

    @rule()
    def a_clock_a_day_behind_opens_nothing(self) -> None:
        assert not self.ask(Past(self.past.seen), timedelta(days=1))

    @invariant()
    def a_yes_holds_now(self) -> None:
        if not hasattr(self, "past"):
            return
        for past in (self.past, Past()):
            found = self.ask(past)
            assert bool(found) == (self.on and self.trusted), found


Restores.TestCase.settings = settings(
    max_examples=20, stateful_step_count=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
TestRestores = Restores.TestCase
