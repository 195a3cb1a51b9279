"""Backfills and replays by workers: the same to the byte. Processes and Dask: tests/engines/test_cluster.py."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from monitor import backfill
from monitor.backfill import evaluate_past
from monitor.cli import app
from monitor.config.load import parse_config
from monitor.core.records import Schedule
from monitor.core.windows import named, span, week
from monitor.history.store import Store
from monitor.operations import workers as operations
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.operations.workers import Workers, WorkersFailed, processes, work
from monitor.warehouse.reader import RelationError, RelationProblem, Warehouse, WarehouseFailed
from tests.fakes.histories import content
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 9, 1, tzinfo=UTC)
ACCUMULATED = CONFIG.replace(
    "rules:\n",
    "rules:\n  - {id: lasting, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02,\n"
    "     severity: info, actions: [slack]}\n",
)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[Workers]:
    """Workers that are threads: packed and unpacked like processes, and quick to start."""
    opened = operations._opened.__wrapped__
    stores: list[Store] = []  # a process closes its own by ending

    def noted(url: str) -> tuple[Store, str]:
        found = opened(url)
        stores.append(found[0])
        return found

    monkeypatch.setattr(operations, "_opened", lru_cache(maxsize=1)(noted))
    with ThreadPoolExecutor(2) as pool:
        yield Workers(2, lambda payload: pool.submit(work, payload))
    backfill._warehouse.cache_clear()
    for store in stores:
        store.close()


def evaluated(
    folder: Path, workers: Workers | None, names: Sequence[str], monkeypatch: pytest.MonkeyPatch,
    schedule: Schedule = "weekly", config: str = ACCUMULATED,
) -> dict[str, list[dict[str, Any]]]:  # fmt: skip
    """The content of a history after a backfill from one window to another."""
    folder.mkdir()
    world = pinned_world(folder, config=config)
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    with world.opened(lambda: NOW) as monitor:
        zone = monitor.config.zone
        windows = span(named(schedule, names[0], zone), named(schedule, names[-1], zone), zone)
        list(evaluate_past(monitor, windows, list(monitor.config.sources), workers))
    return content(folder / "history.sqlite")


@pytest.mark.parametrize(("schedule", "names"), [("weekly", WEEKS[9::2]), ("daily", ("2026-08-20", "2026-08-21"))])
def test_workers_leave_the_same_history_to_the_byte(
    schedule: Schedule, names: Sequence[str], threads: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = evaluated(tmp_path / "alone", None, names, monkeypatch, schedule)
    spread = evaluated(tmp_path / "spread", threads, names, monkeypatch, schedule)
    assert alone == spread
    assert len(alone["verdicts"]) >= 6
    assert len(alone["estimates"]) > 500
    assert {row["outcome"] for row in alone["verdicts"]} >= {"breach", "ok"}


def test_a_window_that_could_not_be_read_is_the_same_too(
    threads: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = Warehouse.read

    def fails(times: int) -> Any:
        left = [times]

        def read(*args: Any, **more: Any) -> Any:
            if args[3].name == WEEKS[9] and left[0]:
                left[0] -= 1
                raise WarehouseFailed("no answer")
            return real(*args, **more)

        return read

    monkeypatch.setattr(Warehouse, "read", fails(1))
    alone = evaluated(tmp_path / "alone", None, WEEKS[8:11:2], monkeypatch)
    monkeypatch.setattr(Warehouse, "read", fails(2))  # once by a worker, and then here
    assert evaluated(tmp_path / "spread", threads, WEEKS[8:11:2], monkeypatch) == alone
    outcomes = {row["reason"] for row in alone["verdicts"]}
    assert "warehouse_failed" in outcomes, "the next window found it in the warehouse; its verdicts stay as they were"


def test_what_was_begun_and_not_judged_is_noted_as_failed(
    threads: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = pinned_world(tmp_path)
    for name, value in world.environment.items():
        monkeypatch.setenv(name, value)
    with world.opened(lambda: NOW) as monitor:
        zone = monitor.config.zone
        weeks = span(week(WEEKS[4], zone), week(WEEKS[-1], zone), zone)
        with closing(evaluate_past(monitor, weeks, ["tickets"], threads)) as past:
            first = next(past)
        runs = {row["window_start"]: row for row in monitor.store.runs("weekly")}
    assert first.document["window"]["name"] == WEEKS[4]
    states = [runs[window.start]["state"] for window in weeks if window.start in runs]
    assert states == ["done", *["failed"] * 4], "no more are begun than workers need"
    assert f"the backfill ended before {WEEKS[5]} was judged" in runs[weeks[1].start]["error"]


def test_a_replay_by_workers_is_the_same(threads: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated(tmp_path / "world", None, WEEKS[9::2], monkeypatch)
    present, stricter = parse_config(ACCUMULATED), parse_config(ACCUMULATED.replace("0.05", "0.01"))
    world = World(tmp_path / "world", os.environ["CALMON_WAREHOUSE_URL"], os.environ["CALMON_STORE_URL"])
    with world.opened() as monitor:
        plan = plan_of(present, stricter, week(WEEKS[-1], present.zone), 6)
        seen: list[str] = []
        assert replay(monitor.store, plan, seen.append, threads) == replay(monitor.store, plan)
    assert len(seen) == plan.total


def test_a_worker_refuses_another_history_and_other_versions(
    threads: Workers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = pinned_world(tmp_path)
    monkeypatch.setenv("CALMON_STORE_URL", world.environment["CALMON_STORE_URL"])
    with pytest.raises(WorkersFailed, match="another history; give it the CALMON_STORE_URL"):
        threads.submit(operations.own_history, "not this one").result()
    there = {**operations.versions(), "numpy": "1.0"}
    pending = threads.hand_over(operations._packed((there, b"")))
    with pytest.raises(WorkersFailed, match=r"a worker has numpy .* instead of 1\.0"):
        pending.result()


def test_errors_of_the_warehouse_come_back_as_they_were(threads: Workers) -> None:
    with pytest.raises(RelationError, match="tickets: there is no column item; add it") as found:
        threads.submit(
            _raise, RelationError([RelationProblem("tickets", "there is no column item", "add it")])
        ).result()
    assert found.value.problems[0].source == "tickets"


def _raise(error: Exception) -> None:
    raise error


def test_a_worker_that_is_ended_is_named_and_not_waited_for() -> None:
    with processes(1) as workers, pytest.raises(WorkersFailed, match="ended from outside"):
        workers.submit(os._exit, 1).result()


COMMAND = """
import sys, time
from monitor.cli import common
try:
    with common.workers(2, None) as pool:
        pending = [pool.submit(time.sleep, 0.1) for _ in range(2)]
        [each.result() for each in pending]
        print("begun", flush=True)
        while True:
            pool.submit(time.sleep, float(sys.argv[1])).result()
finally:
    print("ended in order", flush=True)
"""


def of_session(leader: int) -> list[int]:
    """The processes that a session has besides its leader, from the kernel; zombies are none."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            state, _, _, session, *_ = status.read_text("utf-8").rpartition(")")[2].split()
            if int(session) == leader and state != "Z" and int(status.parent.name) != leader:
                found.append(int(status.parent.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("number", "work_s", "last_words"), [("SIGKILL", "600", ""), ("SIGTERM", "0.1", "ended in order")]
)
def test_no_worker_outlives_its_command_however_that_ends(
    number: str, work_s: str, last_words: str, tmp_path: Path
) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", COMMAND, work_s], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        assert command.stdout is not None
        assert command.stdout.readline() == "begun\n"
        assert len(of_session(command.pid)) == 4, "two workers, the server that forked them, a resource tracker"
        command.send_signal(signal.Signals[number])
        deadline = time.monotonic() + 30
        while of_session(command.pid) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert of_session(command.pid) == []
        assert command.communicate(timeout=30)[0].strip() == last_words
        assert command.returncode != 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(command.pid, signal.SIGKILL)
        command.wait()


def test_dask_is_an_extra_and_one_place_is_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = CliRunner(env=pinned_world(tmp_path).environment | {"COLUMNS": "200"})
    words = ["backfill", "--from", WEEKS[8], "--to", WEEKS[9], "--dask", "tcp://127.0.0.1:1"]
    found = runner.invoke(app, [*words, "--workers", "2"])
    assert (found.exit_code, found.stderr.strip()) == (2, "error: --workers and --dask exclude each other: choose one")
    monkeypatch.setitem(sys.modules, "distributed", None)
    found = runner.invoke(app, words)
    assert found.exit_code == 1
    assert "pip install 'calibration-monitor[dask]'" in found.stderr
