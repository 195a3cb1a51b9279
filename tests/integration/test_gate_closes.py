"""How long a gate takes to notice, with a real HTTP server and routers in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.core.records import Outcome, Verdict, Window
from monitor.core.windows import last_ready
from monitor.evaluation.evaluate import Evaluated
from monitor.operations import act
from monitor.operations.change_switch import change_switch
from monitor.operations.restate import record
from tests.fakes import judged
from tests.fakes.world import World, make_world

TTL_S = 2
HOLD_S = 0.3
ROUTER = """\
import sys, time
from monitor.automation import Gate
gate, was = Gate.from_env(), None
while True:
    found = gate.allows("tickets", "steady", score=0.95)
    if found.allowed != was:
        was = found.allowed
        print(time.time(), "open" if was else "closed", found.reason.value, flush=True)
    time.sleep(0.005)
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return make_world(tmp_path)


@pytest.fixture
def start(world: World) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a process in the environment of the world; all are ended afterwards."""
    running = []

    def started(*words: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=world.folder,
            env=os.environ | world.environment | {"CALMON_GATE_TTL_S": str(TTL_S)} | environment,
        )  # fmt: skip
        running.append(process)
        return process

    yield started
    for process in running:
        process.kill()
        process.communicate()


@pytest.fixture
def service(start: Callable[..., subprocess.Popen[str]]) -> str:
    """The address of calmon's own HTTP service."""
    process = start("-m", "monitor", "dashboard", "--port", "0")
    line = process.stdout.readline()
    assert "http://" in line, process.stderr.read() if process.stderr else ""
    return line.split()[-1]


def test_from_a_stored_breach_to_a_closed_gate_in_another_process(
    world: World, start: Callable[..., subprocess.Popen[str]], service: str
) -> None:
    with world.opened() as monitor:
        window = last_ready("weekly", monitor.clock(), monitor.config.zone)
        # a hold that ends at once: as it is some weeks after somebody turned it on
        until = monitor.clock() + timedelta(seconds=HOLD_S)
        change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="go live", until=until)
        router = start("-c", ROUTER, CALMON_GATE_URL=service)
        while router.stdout.readline().split()[1:] != ["open", "on"]:
            pass
        time.sleep(HOLD_S)
        bad = Evaluated("tickets", window, (), (verdict(window, "breach"),), (), ())
        stored = time.time()
        record(monitor, window, [bad])
        act.act(monitor, window, [bad], [], {"tickets": ""})
        assert monitor.store.switch("tickets", "steady").state == "off"
        closed, *how = router.stdout.readline().split()
    assert how == ["closed", "off"]
    assert 0 < float(closed) - stored < TTL_S + 1


def verdict(window: Window, outcome: Outcome, label: str = "steady") -> Verdict:
    actions = ("disable_automation",) if outcome == "breach" else ()
    return judged.verdict(outcome, window, label, rule="automated-overconfidence", actions=actions)
