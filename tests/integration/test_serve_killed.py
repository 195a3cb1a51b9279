"""A killed ``make serve``: its server ends with it, and the slot of a killed run is freed.

With a real Prefect server and real processes; only the five minutes of a lease are not waited for: its file is given
the end that it would have had by then.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows import serve
from tests.fakes.world import World, make_world
from tests.integration.test_prefect_flows import (
    ROOT,
    Server,
    address,
    clean_environment,
    free_port,
    healthy,
    known_tables,
    process,
    until,
)

pytestmark = [pytest.mark.prefect, pytest.mark.slow, pytest.mark.timeout(1800)]

SHORT = {
    "PREFECT_SERVER_CONCURRENCY_MAXIMUM_CONCURRENCY_SLOT_WAIT_SECONDS": "2",
    "PREFECT_SERVER_SERVICES_REPOSSESSOR_LOOP_SECONDS": "3",
    "PREFECT_RUNNER_POLL_FREQUENCY": "1",
}
PROXY = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9", "NO_PROXY": "", "no_proxy": ""}
"""The proxy of a company, which cannot reach this machine's own server: it must not be asked for it."""
SLEEPER = """
import os, time
from pathlib import Path
from prefect import flow

@flow(name="sleeper")
def sleeper(seconds: int = 0) -> None:
    (Path(os.environ["BEGUN"]) / str(os.getpid())).write_text(str(seconds))
    time.sleep(seconds)
"""
SERVING = """
import asyncio, sys
from flows import serve

def schedules(timezone, server):  # Prefect reads settings when it is imported: not before the server runs
    from prefect.client.schemas.objects import ConcurrencyLimitConfig, ConcurrencyLimitStrategy
    from prefect.runner import Runner
    from sleeper_flow import sleeper
    runner = Runner(name="calmon", pause_on_shutdown=False)
    one = ConcurrencyLimitConfig(limit=1, collision_strategy=ConcurrencyLimitStrategy.ENQUEUE)
    runner.add_deployment(sleeper.to_deployment(name="sleeper", concurrency_limit=one))
    asyncio.run(serve.run_until_asked_to_end(runner.start(), server))

serve.serve_schedules = schedules
sys.exit(serve.main())
"""


def environment_of(world: World, folder: Path) -> Mapping[str, str]:
    mine = {"PREFECT_HOME": str(folder / "home"), "PREFECT_SERVER_API_PORT": str(free_port()), "BEGUN": str(folder)}
    return clean_environment() | world.environment | SHORT | PROXY | mine | {"PYTHONPATH": f"{folder}:{ROOT}"}


def begin(server: Server, seconds: int) -> str:
    """A run of the sleeper, due now."""
    (found,) = server.ask("/deployments/filter", {})
    run = server.ask(f"/deployments/{found['id']}/create_flow_run", {"parameters": {"seconds": seconds}})
    return str(run["id"])


def state(server: Server, run: str) -> str:
    (found,) = server.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": [run]}}})
    return str(found["state_name"])


def server_of(serving: int) -> int:
    """The Prefect server among the processes that a serve has started."""
    started = Path(f"/proc/{serving}/task/{serving}/children").read_text("utf-8").split()
    (found,) = [int(pid) for pid in started if b"server\0start" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    return found


def let_leases_end(home: Path) -> None:
    """What five minutes without a renewal do: every lease in the files of the server has ended."""
    folder, over = home / "concurrency_leases", datetime.now(UTC).isoformat()
    index = json.loads((folder / "expirations.json").read_text("utf-8"))
    assert index, "the killed run held a slot"
    for lease in index:
        file = folder / f"{lease}.json"
        file.write_text(json.dumps(json.loads(file.read_text("utf-8")) | {"expiration": over}), "utf-8")
    (folder / "expirations.json").write_text(json.dumps(dict.fromkeys(index, over)), "utf-8")


def test_a_killed_serve_leaves_neither_its_server_nor_a_taken_slot_to_the_next(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    world = make_world(tmp_path)
    if (tables := known_tables(tmp_path_factory)).exists():
        (tmp_path / "home").mkdir()
        shutil.copy(tables, tmp_path / "home" / "prefect.db")
    (tmp_path / "sleeper_flow.py").write_text(SLEEPER, "utf-8")
    (tmp_path / "sleeping.py").write_text(SERVING, "utf-8")
    environment = environment_of(world, tmp_path)
    log = tmp_path / "first.log"
    with process(log, "sleeping", cwd=tmp_path, environment=environment) as serving:
        server = Server(f"{until(lambda: address(log), log)}/api", environment)
        until(lambda: len(server.ask("/deployments/filter", {})) == 1, log)
        begin(server, 900)
        sleeping = int(until(lambda: [each.name for each in tmp_path.iterdir() if each.name.isdigit()], log)[0])
        serving.kill()
        os.kill(sleeping, signal.SIGKILL)  # the run dies with a slot in its hands
        serving.wait()
    assert until(lambda: not healthy(server.url), log, 20), "the server ends with the serve that was killed"
    let_leases_end(tmp_path / "home")
    log = tmp_path / "second.log"
    with process(log, "sleeping", cwd=tmp_path, environment=environment):
        server = Server(f"{until(lambda: address(log), log)}/api", environment)
        run, asked = begin(server, 0), time.monotonic()
        assert until(lambda: state(server, run) == "Completed", log)
        print(f"a later run was done {time.monotonic() - asked:.0f} s after it was asked for")


@pytest.mark.parametrize("registered", [1, 6], ids=["while it registers", "later"])
def test_a_serve_whose_server_is_killed_says_so_and_ends_with_1(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, registered: int
) -> None:
    world = make_world(tmp_path)
    if (tables := known_tables(tmp_path_factory)).exists():
        (tmp_path / "home").mkdir()
        shutil.copy(tables, tmp_path / "home" / "prefect.db")
    log, environment = tmp_path / "serve.log", environment_of(world, tmp_path)
    with process(log, "flows.serve", cwd=tmp_path, environment=environment) as serving:
        server = Server(f"{until(lambda: address(log), log)}/api", environment)
        until(lambda: len(server.ask("/deployments/filter", {})) >= registered, log)
        time.sleep(2 if registered == 6 else 0)  # the runner asks for runs by now
        os.kill(server_of(serving.pid), signal.SIGKILL)
        killed = time.monotonic()
        code = until(lambda: None if serving.poll() is None else [serving.poll()], log)
        print(f"it ended {time.monotonic() - killed:.1f} s later")
    said = log.read_text("utf-8")
    assert code == [1], said
    assert said.splitlines()[-1].startswith("the Prefect server ended with -9; "), said
    assert "ExceptionGroup" not in said
    assert time.monotonic() - killed < 60


def test_a_second_serve_in_the_same_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with (tmp_path / "server.lock").open("wb") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with pytest.raises(serve.ServerFailed, match="runs already"), serve.local_server():
            raise AssertionError("it was started")
