"""How long a gate takes to notice, with a real HTTP server and routers in processes of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from monitor.core.records import DRILL_LABEL, Outcome, Reason, Subject, Verdict, Window
from monitor.core.windows import last_ready, week
from monitor.evaluation.evaluate import Evaluated
from monitor.operations import act
from monitor.operations.change_switch import change_switch, known_labels
from monitor.operations.drill import DrillRefused, check
from monitor.run import record, run_window
from tests.fakes.world import CONFIG, WEEKS, World, make_world

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
    running: list[subprocess.Popen[str]] = []

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
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, process.stderr.read() if process.stderr else ""
    return line.split()[-1]


def drilled(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_gates_notice_within_their_ttl_and_a_second_from_the_history_and_over_http(
    world: World, start: Callable[..., subprocess.Popen[str]], service: str
) -> None:
    found = drilled(start("-m", "monitor", "automation", "drill", "--runs", "3", "--url", service, "--json"))
    assert (found["source"], found["label"], found["limit_s"]) == ("tickets", DRILL_LABEL, TTL_S + 1)
    assert [(s["gate"], s["turn"], s["changes"], s["within"]) for s in found["summary"]] == [
        (gate, turn, 3, 3) for turn in ("on", "off") for gate in ("history", "service")
    ]
    assert all(0 < s["shortest"] <= s["median"] <= s["longest"] < TTL_S + 1 for s in found["summary"])
    assert {n["reason"] for n in found["notices"] if n["turn"] == "off"} == {"off"}
    with world.opened() as monitor:
        events = monitor.store.switch_events("tickets", DRILL_LABEL)
        assert [e.kind for e in events] == ["disabled", *["enabled", "disabled"] * 3], "every change has its event"
        assert DRILL_LABEL not in known_labels(monitor, "tickets")
        assert run_window(monitor, week(WEEKS[4], monitor.config.zone)).document["verdicts"]
        assert all(v.subject.label != DRILL_LABEL for v in monitor.store.verdicts(source="tickets")), "never judged"


def test_from_a_stored_breach_to_a_closed_gate_in_another_process(
    world: World, start: Callable[..., subprocess.Popen[str]], service: str
) -> None:
    with world.opened() as monitor:
        window = last_ready("weekly", monitor.clock(), monitor.config.zone)
        # a hold that ends at once: as it is some weeks after somebody turned it on
        until = monitor.clock() + timedelta(seconds=HOLD_S)
        change_switch(monitor, "tickets", "steady", enable=True, by="ann", reason="go live", until=until)
        router = start("-c", ROUTER, CALMON_GATE_URL=service)
        assert router.stdout is not None
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
    return Verdict(
        id=f"verdict-{outcome}", rule="automated-overconfidence", subject=Subject("tickets", label), window=window,
        metric="overconfidence", where="automated", outcome=outcome, reason=Reason.ABOVE_THRESHOLD, severity="critical",
        threshold=0.05, actions=("disable_automation",) if outcome == "breach" else (),
    )  # fmt: skip


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Children take Ctrl-C, also where a shell that started the tests in its background has them ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_drill_that_is_interrupted_leaves_the_label_off(
    world: World, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("-m", "monitor", "automation", "drill", "--runs", "50")
    with world.opened() as monitor:
        deadline = time.monotonic() + 60
        while monitor.store.switch("tickets", DRILL_LABEL).state != "on" and time.monotonic() < deadline:
            time.sleep(0.01)
        assert monitor.store.switch("tickets", DRILL_LABEL).state == "on"
        with pytest.raises(DrillRefused, match="under way"):
            check(monitor, "tickets")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode not in (0, None)
        last = monitor.store.switch_events("tickets", DRILL_LABEL)[-1]
        assert (monitor.store.switch("tickets", DRILL_LABEL).state, last.kind) == ("off", "disabled")


def test_a_drill_that_is_killed_leaves_nothing_open_for_long(
    world: World, start: Callable[..., subprocess.Popen[str]]
) -> None:
    process = start("-m", "monitor", "automation", "drill", "--runs", "50")
    with world.opened() as monitor:
        deadline = time.monotonic() + 60
        while monitor.store.switch("tickets", DRILL_LABEL).state != "on" and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        lease = monitor.store.switch("tickets", DRILL_LABEL).lease_until
        assert lease is not None
        assert (lease - monitor.clock()).total_seconds() <= 300


def test_a_drill_is_refused_where_it_could_measure_nothing_or_would_touch_a_real_label(world: World) -> None:
    with world.opened() as monitor:
        assert check(monitor, "tickets") == 1.0
        change_switch(monitor, "tickets", None, enable=False, by="ann", reason="stop")
        with pytest.raises(DrillRefused, match="the whole source is off"):
            check(monitor, "tickets")
        change_switch(monitor, "tickets", None, enable=True, by="ann", reason="go on")
        window = last_ready("weekly", monitor.clock(), monitor.config.zone)
        record(
            monitor, window,
            [Evaluated("tickets", window, (), (verdict(window, "ok", DRILL_LABEL),), (), ())],
        )  # fmt: skip
        with pytest.raises(DrillRefused, match="has a real label 'calmon-drill'"):
            check(monitor, "tickets")


def test_in_a_dry_run_everything_says_so_and_nothing_is_turned_off(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=CONFIG.replace("initial: on_first_ok", "dry_run: true"))
    with world.opened() as monitor:
        until = monitor.clock() + timedelta(seconds=HOLD_S)
        change_switch(monitor, "tickets", "slipping", enable=True, by="ann", reason="go live", until=until)
        time.sleep(HOLD_S)
        window = week(WEEKS[10], monitor.config.zone)
        for _ in range(2):
            found = run_window(monitor, window)
            states = {(a["kind"], a["label"]): a["state"] for a in found.document["actions"]}
            assert states["disable_automation", "slipping"] == "dry run: would turn off"
        assert monitor.store.switch("tickets", "slipping").state == "on"
        kinds = [e.kind for e in monitor.store.switch_events("tickets", "slipping")]
        assert kinds == ["enabled", "would_disable"], "told once"
        (message,) = [each for each in monitor.store.deliveries(files=False) if each.operation == "post"]
        text = json.dumps(message.payload)
        assert "(dry run: runs change no switch)" in text
        assert "automation is off" not in text
