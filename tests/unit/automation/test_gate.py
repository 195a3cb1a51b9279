"""The gate by itself: clocks, freshness, threads and forks, with a source whose answers the test writes."""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import logging
import math
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monitor.automation import AsyncGate, Gate, GateReason
from monitor.automation.gate.cache import hold, renew
from monitor.automation.gate.refresher import Refresher
from monitor.automation.gate.snapshot import SwitchSnapshot, decide, from_json, to_json
from monitor.automation.gate.sources import ReadFailed
from monitor.config.environment import SettingsError
from monitor.config.settings import load_settings
from monitor.core.records import SwitchState

ROOT = Path(__file__).parents[3]
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
TTL = 3000.0  # its thread reads again after a fourth of that, by the real clock: after the test


def on(lease: timedelta = timedelta(days=2), **more: Any) -> SwitchState:
    return SwitchState("tickets", "billing", "on", lease_until=NOW + lease, version=1, **more)


def board(*states: SwitchState, at: datetime = NOW) -> SwitchSnapshot:
    return SwitchSnapshot(at, {(s.source, s.label): s for s in states or (on(),)}, {("tickets", None): 0.8})


@dataclass
class Clock:
    """Seconds that pass when the test says so."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


@dataclass
class Written:
    """A source that gives what the test wrote: a board, None (as before), or an error; or waits until it is let go."""

    answer: SwitchSnapshot | Exception | None
    reason: GateReason = GateReason.SERVICE_FAILED
    readings: int = 0
    wholes: int = 0
    threads: set[int] = field(default_factory=set)
    held_up: threading.Event | None = None

    def read(self, limit_s: float) -> SwitchSnapshot | None:
        self.readings += 1
        self.threads.add(threading.get_ident())
        if self.held_up is not None:
            self.held_up.wait(20)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def for_child(self) -> Written:
        return Written(self.answer, self.reason)

    def forget(self) -> None:
        self.wholes += 1


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


@contextmanager
def opened(source: Written, ttl_s: float = TTL, clock: Clock | None = None) -> Iterator[Gate]:
    with Gate(source, ttl_s=ttl_s, elapsed=clock) if clock else Gate(source, ttl_s=ttl_s) as gate:
        yield gate


def read_again(gate: Gate, source: Written) -> None:
    """Let the gate read once more now; its thread would wait for some seconds of the real clock."""
    before = source.readings
    gate._refresher._read()
    assert source.readings == before + 1


def asked(gate: Gate, score: float | None = 0.93) -> tuple[bool, str]:
    decision = gate.allows("tickets", "billing", score=score)
    assert bool(decision) == decision.allowed
    return decision.allowed, decision.reason.value


# What it says


def test_the_first_question_waits_for_a_reading_and_is_answered_from_it():
    with opened(Written(board())) as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.allowed, decision.reason, decision.until) == (True, GateReason.ON, NOW + timedelta(days=2))


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        ([SwitchState("tickets", "other", "on", lease_until=NOW + timedelta(1))], "never_set"),
        ([SwitchState("tickets", "billing", "off", version=1)], "off"),
        ([on(), SwitchState("tickets", None, "off", version=1)], "source_off"),
        ([on(), SwitchState("tickets", None, "on", lease_until=NOW, verdict="v1")], "source_off"),
        ([SwitchState("tickets", "billing", "on", version=1)], "no_lease"),
        ([on(timedelta(0))], "lease_ended"),
        ([on(blocked=((0.9, 1.0),))], "score_blocked"),
        ([SwitchState("tickets", "billing", "paused", lease_until=NOW + timedelta(1))], "off"),  # type: ignore[arg-type]
        ([on(), SwitchState("tickets", None, "paused")], "source_off"),  # type: ignore[arg-type]
    ],
)
def test_every_state_that_is_not_plainly_on_closes_it(states: list[SwitchState], reason: str):
    with opened(Written(board(*states))) as gate:
        assert asked(gate) == (False, reason)


NO_SCORES = (None, math.nan, -0.1, 1.0001, math.inf, True, "0.93", [0.93], 10**400, 0.9 + 0j)
SCORES = (1, 0.8, np.float32(0.9), np.float64(0.9), Fraction(9, 10))


@pytest.mark.parametrize(("score", "is_one"), [*((s, False) for s in NO_SCORES), *((s, True) for s in SCORES)])
def test_every_real_number_is_a_score_and_what_is_none_closes_it(score: Any, is_one: bool):
    with opened(Written(board())) as gate:
        assert asked(gate, score) == (is_one, "on" if is_one else "score_invalid")


@pytest.mark.parametrize(
    ("source", "label"), [("tickets", None), ("tickets", ""), (None, "billing"), (["tickets"], {}), ("tickets", 7)]
)
def test_what_is_no_label_closes_it_even_where_the_source_itself_is_on(source: Any, label: Any):
    whole = SwitchState("tickets", None, "on", lease_until=NOW + timedelta(days=2), version=1)
    with opened(Written(board(on(), whole))) as gate:
        assert gate.allows(source, label, score=0.93).reason is GateReason.NEVER_SET


def test_a_source_without_a_threshold_is_closed():
    with opened(Written(SwitchSnapshot(NOW, {("tickets", "billing"): on()}, {("mail", None): 0.8}))) as gate:
        assert asked(gate) == (False, "no_threshold")


# How long it knows


def test_what_is_known_is_used_for_the_ttl_and_then_the_reason_of_the_failure_is_reported():
    clock, source = Clock(), Written(board())
    with opened(source, clock=clock) as gate:
        assert asked(gate) == (True, "on")
        source.answer = ReadFailed(GateReason.SERVICE_FAILED, "the service answers 500")
        read_again(gate, source)
        clock.seconds += TTL - 0.01
        assert asked(gate) == (True, "on")
        clock.seconds += 0.01
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.reason, decision.detail) == (GateReason.SERVICE_FAILED, "the service answers 500")


@pytest.mark.parametrize("passed", [TTL, -1.0], ids=["a reading that never ends", "a clock that runs backwards"])
def test_what_is_too_old_or_from_the_future_leaves_it_stale(passed: float):
    clock = Clock()
    with opened(Written(board()), clock=clock) as gate:
        assert asked(gate) == (True, "on")
        clock.seconds += passed
        assert asked(gate) == (False, "stale")


def test_it_is_as_old_as_the_beginning_of_its_reading():
    clock, source = Clock(), Written(board())

    class Slow(Written):
        def read(self, limit_s: float) -> SwitchSnapshot | None:
            clock.seconds += 4.0
            return super().read(limit_s)

    with opened(Slow(board()), clock=clock) as gate:
        assert asked(gate) == (True, "on")
        clock.seconds += TTL - 4.0
        assert asked(gate)[0] is False
    assert source.readings == 0


def test_it_opens_again_when_it_can_read_again_and_the_log_says_both_once(caplog: pytest.LogCaptureFixture):
    clock, source = Clock(), Written(board())
    with opened(source, clock=clock) as gate, caplog.at_level(logging.INFO, "monitor.automation"):
        assert asked(gate) == (True, "on")
        source.answer = ReadFailed(GateReason.SERVICE_FAILED, "gone")
        clock.seconds += TTL
        read_again(gate, source)
        read_again(gate, source)
        assert asked(gate) == (False, "service_failed")
        source.answer = board()
        read_again(gate, source)
        assert asked(gate) == (True, "on")
    said = [record.getMessage() for record in caplog.records]
    assert said == ["the gate cannot read the switches: gone", "the gate reads the switches again"]


def test_an_error_that_nobody_expected_closes_it_and_says_no_more_than_its_name():
    with opened(Written(ZeroDivisionError("s3cret"))) as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.reason, decision.detail) == (GateReason.SERVICE_FAILED, "unexpected ZeroDivisionError")


# What time it is


def test_the_lease_of_a_source_that_is_under_a_verdict_ends_between_two_readings():
    clock = Clock()
    whole = SwitchState("tickets", None, "on", lease_until=NOW + timedelta(seconds=5), verdict="v1", version=1)
    with opened(Written(board(on(), whole)), clock=clock) as gate:
        assert asked(gate) == (True, "on")
        clock.seconds += 5.0
        assert asked(gate) == (False, "source_off")


@pytest.mark.parametrize("years", [-40, 0, 40])
def test_a_lease_ends_between_two_readings_whatever_the_clock_of_the_router_shows(years: int):
    """The rest of a lease is what its board says."""
    at = NOW.replace(year=NOW.year + years)
    clock = Clock()
    state = SwitchState("tickets", "billing", "on", lease_until=at + timedelta(seconds=5), version=1)
    with opened(Written(board(state, at=at)), clock=clock) as gate:
        assert asked(gate) == (True, "on")
        clock.seconds += 4.999
        assert asked(gate) == (True, "on")
        clock.seconds += 0.001
        assert asked(gate) == (False, "lease_ended")


def test_a_clock_that_jumps_back_prolongs_no_lease():
    clock, source = Clock(), Written(board(on(timedelta(seconds=20))))
    with opened(source, clock=clock) as gate:
        assert asked(gate) == (True, "on")
        source.answer = board(on(timedelta(seconds=20)), at=NOW - timedelta(days=300))
        clock.seconds += 19.0
        read_again(gate, source)
        assert asked(gate) == (True, "on")
        clock.seconds += 1.0
        assert asked(gate) == (False, "lease_ended")


def test_a_clock_that_jumps_ahead_ends_leases_and_jumping_back_does_not_revive_them():
    clock, source = Clock(), Written(board())
    with opened(source, clock=clock) as gate:
        assert asked(gate) == (True, "on")
        for jump in (timedelta(days=300), timedelta(0)):
            source.answer = board(at=NOW + jump)
            read_again(gate, source)
            assert asked(gate) == (False, "lease_ended")


def test_a_board_that_has_not_changed_stays_fresh_but_its_lease_runs_on():
    held = hold(board(on(timedelta(seconds=50))), began=1000.0, ttl_s=30.0)
    later = renew(held, began=1025.0, ttl_s=30.0)
    assert (held.is_fresh(1040.0), later.is_fresh(1040.0)) == (False, True)
    assert later.answer("tickets", "billing", 0.93, 1049.9).allowed
    assert later.answer("tickets", "billing", 0.93, 1050.0).reason is GateReason.LEASE_ENDED


def test_now_and_then_a_whole_board_is_asked_for_so_that_its_clock_is_looked_at():
    clock, source = Clock(), Written(board())
    with opened(source, clock=clock) as gate:
        assert asked(gate) == (True, "on")
        source.answer, first = None, source.wholes
        for _ in range(30):
            clock.seconds += 25.0
            read_again(gate, source)
            assert asked(gate) == (True, "on")
        assert source.wholes > first


def test_after_a_reading_that_failed_a_whole_board_is_asked_for():
    """It may have failed after the source noted what it had given: "not changed" would then renew the old board."""
    source = Written(board())
    with opened(source, clock=Clock()) as gate:
        assert asked(gate) == (True, "on")
        first = source.wholes
        read_again(gate, source)
        assert source.wholes == first
        source.answer = MemoryError()
        read_again(gate, source)
        read_again(gate, source)
        assert source.wholes == first + 1


def test_a_service_that_says_nothing_has_changed_to_one_who_knows_nothing_is_not_believed():
    with opened(Written(None)) as gate:
        assert asked(gate) == (False, "service_failed")


# Threads, forks, ends


def test_many_threads_at_once_make_one_reading_and_all_get_its_answer():
    source = Written(board(), held_up=threading.Event())
    with opened(source) as gate:
        found = []
        threads = [threading.Thread(target=lambda: found.append(asked(gate))) for _ in range(40)]
        for thread in threads:
            thread.start()
        until(lambda: source.readings == 1)
        source.held_up.set()
        for thread in threads:
            thread.join(20)
        assert found == [(True, "on")] * 40
        assert (source.readings, len(source.threads)) == (1, 1)


def test_a_reading_that_hangs_blocks_only_the_first_question_and_makes_no_second_thread():
    before = threading.active_count()
    source = Written(board(), held_up=threading.Event())
    with opened(source, ttl_s=0.4) as gate:
        began = time.monotonic()
        assert asked(gate) == (False, "service_failed")
        assert 0.15 < time.monotonic() - began < 5.0  # it waits for half of its TTL, and for a slow machine
        began = time.monotonic()
        assert {asked(gate) for _ in range(2000)} == {(False, "service_failed")}
        assert time.monotonic() - began < 2000 * 0.01
        assert threading.active_count() <= before + 1
        source.held_up.set()
        until(lambda: asked(gate) == (True, "on"))


def test_a_later_reading_that_hangs_closes_it_and_is_the_reason():
    source = Written(board())
    with opened(source, ttl_s=0.4) as gate:
        assert asked(gate) == (True, "on")
        source.held_up = threading.Event()
        until(lambda: asked(gate) == (False, "service_failed"))
        assert gate.allows("tickets", "billing", score=0.93).detail == "no answer within 0.2 s"
        source.held_up.set()
        until(lambda: asked(gate) == (True, "on"))


def test_it_reads_by_itself_several_times_in_a_ttl():
    source = Written(board())
    with opened(source, ttl_s=0.4) as gate:
        assert asked(gate) == (True, "on")
        source.answer = board(SwitchState("tickets", "billing", "off", version=2))
        until(lambda: source.readings >= 2)
        until(lambda: asked(gate) == (False, "off"))


def test_it_draws_nothing_from_the_random_numbers_of_its_process():
    before, source = random.getstate(), Written(board())
    with opened(source, ttl_s=0.05) as gate:
        assert asked(gate) == (True, "on")
        until(lambda: source.readings >= 5)
    assert random.getstate() == before


def test_after_close_it_is_closed_for_good_and_its_thread_ends():
    gate = Gate(Written(board()), ttl_s=0.4)
    assert asked(gate) == (True, "on")
    gate.close()
    assert asked(gate) == (False, "closed_down")
    until(lambda: not any(thread.name == "calmon gate" for thread in threading.enumerate()))
    gate.close()
    assert asked(gate) == (False, "closed_down")


def test_closing_does_not_wait_for_a_reading_that_hangs():
    source = Written(board(), held_up=threading.Event())
    gate = Gate(source, ttl_s=0.2)
    asked(gate)
    began = time.monotonic()
    gate.close()
    assert time.monotonic() - began < 5
    source.held_up.set()
    until(lambda: not any(thread.name == "calmon gate" for thread in threading.enumerate()))
    assert asked(gate) == (False, "closed_down")


def test_a_gate_that_nobody_keeps_leaves_no_thread_behind():
    assert Gate(Written(board()), ttl_s=0.4).allows("tickets", "billing", score=0.93)
    gc.collect()
    until(lambda: not any(thread.name == "calmon gate" for thread in threading.enumerate()))


FORK = """
import os, sys, threading, time
sys.path.insert(0, {tests!r})
from tests.unit.automation.test_gate import *

source = Written(board())
gate = Gate(source, ttl_s=0.6)
until(lambda: asked(gate) == (True, "on"))  # on a busy machine its first answer may be too old already
source.answer = board(SwitchState("tickets", "billing", "off", version=2))
children = []
for _ in range(4):
    child = os.fork()
    if child == 0:
        assert threading.active_count() == 1
        askers = [threading.Thread(target=lambda: [asked(gate) for _ in range(2000)]) for _ in range(4)]
        [asker.start() for asker in askers]; [asker.join(20) for asker in askers]
        until(lambda: asked(gate) == (False, "off"))
        names = [thread.name for thread in threading.enumerate()]
        os._exit(0 if names.count("calmon gate") == 1 else 3)
    children.append(child)
assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
until(lambda: asked(gate) == (False, "off"))
print("well")
"""


def test_a_process_that_is_forked_goes_on_with_its_gate():
    """In a process of its own: forking one in which pytest runs threads is another matter."""
    command = [sys.executable, "-W", "ignore", "-c", FORK.format(tests=str(ROOT))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr


def test_the_asynchronous_twin_says_the_same_without_blocking_the_loop():
    source = Written(board(), held_up=threading.Event())

    async def ask() -> tuple[list[bool], int]:
        ticks = 0
        async with AsyncGate(Gate(source)) as gate:
            questions = [asyncio.ensure_future(gate.allows("tickets", "billing", score=0.93)) for _ in range(50)]
            while ticks < 20:
                await asyncio.sleep(0.001)
                ticks += 1
            assert not any(question.done() for question in questions)
            source.held_up.set()
            return [decision.allowed for decision in await asyncio.gather(*questions)], ticks

    assert asyncio.run(ask()) == ([True] * 50, 20)
    assert source.readings == 1


def test_a_question_of_the_twin_can_be_cancelled_and_the_others_go_on():
    source = Written(board(), held_up=threading.Event())

    async def ask() -> bool:
        gate = AsyncGate(Gate(source))
        first = asyncio.ensure_future(gate.allows("tickets", "billing", score=0.93))
        second = asyncio.ensure_future(gate.allows("tickets", "billing", score=0.93))
        await asyncio.sleep(0.01)
        first.cancel()
        source.held_up.set()
        decision = await second
        assert first.cancelled()
        await gate.close()
        assert (await gate.allows("tickets", "billing", score=0.93)).reason is GateReason.CLOSED_DOWN
        return decision.allowed

    assert asyncio.run(ask())


def test_the_twin_waits_no_longer_than_its_gate():
    source = Written(board(), held_up=threading.Event())

    async def ask() -> GateReason:
        return (await AsyncGate(Gate(source, ttl_s=0.2)).allows("tickets", "billing", score=0.93)).reason

    assert asyncio.run(ask()) is GateReason.SERVICE_FAILED
    source.held_up.set()


def test_a_question_never_raises_whatever_breaks():
    def broken() -> float:
        raise OSError("no clock")

    gate = Gate(Written(board()))
    gate._elapsed = broken
    assert gate.allows("tickets", "billing", score=0.93).detail == "unexpected OSError"


# The environment


WRONG = [
    {"CALMON_GATE_TTL_S": "soon"},
    {"CALMON_GATE_TTL_S": "0"},
    {"CALMON_STORE_URL": "hunter2"},
    {"CALMON_GATE_URL": "calmon:8080"},
    {"CALMON_GATE_URL": "https://router:hunter2@calmon"},
    {"CALMON_GATE_URL": "http://calmon", "CALMON_GATE_TOKEN": "hunter2\nX: y"},
    {"CALMON_GATE_URL": "http://calmon", "CALMON_GATE_TOKEN_FILE": "/nowhere/at/all"},
    {"CALMON_STORE_URL": "sqlite:///a", "CALMON_STORE_URL_FILE": "/nowhere/at/all"},
]


@pytest.mark.parametrize("environ", WRONG, ids=str)
def test_a_broken_environment_makes_a_closed_gate_that_says_why_once(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
):
    with pytest.raises(SettingsError) as raised:
        load_settings(environ)
    gate = Gate.from_env(environ)
    decisions = [gate.allows("tickets", "billing", score=0.93) for _ in range(3)]
    assert {(d.allowed, d.reason.value, d.detail) for d in decisions} == {(False, "misconfigured", str(raised.value))}
    assert [record.getMessage() for record in caplog.records] == [f"the gate is closed for good: {raised.value}"]
    assert "hunter2" not in caplog.text
    decision = asyncio.run(AsyncGate.from_env(environ).allows("tickets", "billing", score=0.93))
    assert decision.reason is GateReason.MISCONFIGURED


@pytest.mark.parametrize("url", ["http://calmon:99999", "http://calmon:http", "http://[::1", "http://calmon:-1/"])
def test_an_address_that_no_service_can_have_is_the_environments_fault(url: str):
    decision = Gate.from_env({"CALMON_GATE_URL": url}).allows("tickets", "billing", score=0.93)
    assert (decision.reason.value, "host or a port" in decision.detail) == ("misconfigured", True), decision


def test_a_score_in_a_range_is_blocked_also_where_the_range_ends_between_two_steps():
    blocked = ((0.85371, 0.9),)  # no command stores one: ranges end on hundredths
    with opened(Written(board(on(blocked=blocked)))) as gate:
        assert asked(gate, 0.85371) == asked(gate, 0.9) == (False, "score_blocked")
        assert asked(gate, 0.8536) == asked(gate, 0.9001) == (True, "on")


def test_settings_that_are_not_the_gates_do_not_close_it(tmp_path: Path):
    environ = {"CALMON_WAREHOUSE_URL": "nonsense", "CALMON_STORE_URL": f"sqlite:///{tmp_path}/history.sqlite"}
    with Gate.from_env(environ) as gate:
        assert asked(gate) == (False, "store_unreadable")
    assert not list(tmp_path.iterdir())  # asking makes no history


HEAVY = (
    "pandas",
    "scipy",
    "duckdb",
    "numpy",
    "pydantic",
    "sqlalchemy",
    "alembic",
    "asyncio",
    "http",
    "monitor.config.model",
)
LIGHT = """
import json, sys
from monitor.automation import AsyncGate, Gate
{}
print(json.dumps(sorted(sys.modules)))
"""


@pytest.mark.parametrize(
    ("then", "allowed"),
    [
        ("gate = Gate.from_env({}); AsyncGate.from_env({'CALMON_GATE_URL': 'http://127.0.0.1:9'})", []),
        (
            "g = Gate.from_env({'CALMON_GATE_URL': 'http://127.0.0.1:9'}); g.allows('a', 'b', 0.9); g.close()",
            ["http", "asyncio"],
        ),
        (
            "g = Gate.from_env({'CALMON_STORE_URL': 'sqlite:///FILE'})\n"
            "assert g.allows('tickets', 'b', 0.9).reason == 'never_set'",
            ["sqlalchemy", "asyncio"],
        ),
    ],
)
def test_it_imports_next_to_nothing(then: str, allowed: list[str], tmp_path: Path):
    from monitor.history.store import Store

    file = tmp_path / "history.sqlite"
    Store.from_url(f"sqlite:///{file}").close()
    command = [sys.executable, "-c", LIGHT.format(then.replace("FILE", str(file)))]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60)
    loaded = set(json.loads(done.stdout))
    assert {name for name in HEAVY if name in loaded} <= set(allowed)
    assert "monitor.automation.gate.gate" in loaded


# The board


@pytest.mark.parametrize(
    "change",
    [
        {"state": "paused"}, {"state": None}, {"blocked": [[0.9, 0.5]]}, {"blocked": [[0.5, 1.5]]}, {"blocked": "x"},
        {"blocked": [[math.nan, 1.0]]}, {"blocked": [["0.1", "0.2"]]}, {"lease_until": "2026-11-23T12:00:00"},
        {"lease_until": 5}, {"label": ""}, {"label": 3}, {"source": None}, {"version": math.inf},
    ],
    ids=str,
)  # fmt: skip
def test_a_board_with_anything_strange_in_it_is_no_board(change: dict[str, Any]):
    document = to_json(board())
    assert from_json(document).switches == board().switches
    document["switches"][0] |= change
    with pytest.raises(ValueError, match=r"."):
        from_json(document)


@pytest.mark.parametrize("score", [math.nan, -0.1, 1.1, "0.8", True, None, 10**400])
def test_a_threshold_that_is_no_share_is_no_board(score: Any):
    document = to_json(board())
    document["automate_at"][0]["score"] = score
    with pytest.raises(ValueError, match="not a number from 0 to 1"):
        from_json(document)


def test_a_label_that_is_there_twice_is_no_snapshot():
    document = to_json(board())
    document["switches"].append(document["switches"][0] | {"state": "off"})
    with pytest.raises(ValueError, match="twice"):
        from_json(document)


def test_the_one_decision_is_the_one_that_was_asked_for():
    """`decide` and a gate over the same board say the same words."""
    with opened(Written(board()), clock=Clock()) as gate:
        for score in (0.93, 0.5, None):
            assert gate.allows("tickets", "billing", score) == decide(board(), "tickets", "billing", score, NOW)


# The page


def test_every_reason_has_its_section_in_the_page():
    page = (ROOT / "docs" / "gate.md").read_text("utf-8")
    headings = re.findall(r"^### `(\w+)`$", page, re.MULTILINE)
    assert headings == [reason.value for reason in GateReason]
    for part in re.split(r"^### `\w+`$", page, flags=re.MULTILINE)[1:]:
        assert "**Do:**" in part.split("\n## ")[0]


def test_the_example_of_the_page_runs(tmp_path: Path):
    """The router of the page, started as it stands, against a history in which the label is on."""
    from monitor.history.store import Store

    page = (ROOT / "docs" / "gate.md").read_text("utf-8")
    (router,) = re.findall(r"^```python router\.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    url = f"sqlite:///{tmp_path}/history.sqlite"
    real = datetime.now(UTC)
    state = SwitchState("tickets", "billing", "on", lease_until=real + timedelta(days=2), changed_at=real, version=1)
    with Store.from_url(url) as store:
        store.apply_switch(SwitchState("tickets", "billing"), state, None)
        store.publish_thresholds({("tickets", None): 0.8}, real)
    environ = os.environ | {"CALMON_STORE_URL": url, "PYTHONPATH": str(ROOT)}
    rows = '{"id": 1, "label": "billing", "score": 0.93}\n{"id": 2, "label": "billing", "score": 0.4}\n'
    done = subprocess.run(
        [sys.executable, "-c", router], input=rows, capture_output=True, text=True, env=environ, timeout=60, check=True
    )
    assert done.stdout.splitlines() == ["1 billing", "2 person (below_automate_at)"]


def test_the_package_names_what_a_router_needs():
    package = importlib.import_module("monitor.automation")
    assert package.__all__ == ["AsyncGate", "Decision", "Gate", "GateReason"]


class _SlowToAnswer:
    """A source whose readings take as long as they are told to; its board is made at their very end."""

    reason = GateReason.STORE_UNREADABLE

    def __init__(self) -> None:
        self.now = 0.0
        self.takes = [3.0, 0.1, 0.1]

    def elapsed(self) -> float:
        return self.now

    def forget(self) -> None:
        """Nothing is remembered."""

    def read(self, limit_s: float) -> SwitchSnapshot:
        self.now += self.takes.pop(0)
        return board(at=NOW + timedelta(seconds=self.now))


def test_a_first_reading_that_took_longer_than_the_ttl_makes_no_later_answer_an_old_one():
    source = _SlowToAnswer()
    refresher = Refresher(source, ttl_s=2.0, elapsed=source.elapsed)  # type: ignore[arg-type]
    for _ in range(3):
        refresher._read()
        assert refresher.failure is None
        source.now += 1.0
    source.now += 5.0
    cached = board(at=NOW + timedelta(seconds=source.now - 2.5))  # older than the TTL
    source.read = lambda limit_s: cached  # type: ignore[method-assign]
    refresher._read()
    assert refresher.failure.reason is GateReason.ANSWER_OLD
