"""A Prefect server killed in the middle of a run: the window is judged, its message comes once, and runs go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import duckdb
import pytest

from monitor.core.windows import week
from tests.fakes import slack
from tests.fakes.world import WEEKS, World
from tests.integration.test_prefect_flows import (
    Server,
    clean_environment,
    environment_of,
    flow_run,
    free_port,
    healthy,
    monday_after,
    prefect,
    prefect_command,
    process,
    project,
    scheduled_run,
    until,
    workspace,
    world,
)

__all__ = ["prefect", "project", "workspace", "world"]  # fixtures
SLOW = """ALTER TABLE tickets RENAME TO quick; CREATE VIEW tickets AS SELECT * FROM quick
    WHERE (SELECT count(*) FROM range(10_000) a(x), range(8_000) b(y) WHERE x * y % 7 = 1) > 0"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Server:
    """Where a server of this module runs, once it is started."""
    home = tmp_path_factory.mktemp("restarted")
    url = f"http://127.0.0.1:{free_port()}/api"
    keeps = "prefect.server.concurrency.lease_storage.filesystem"
    own = {"PREFECT_HOME": str(home), "PREFECT_API_URL": url, "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": keeps}
    own |= {"PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false", "PREFECT_API_REQUEST_TIMEOUT": "20"}
    return Server(url, clean_environment() | own)


@contextmanager
def started(server: Server, log: Path) -> Iterator[None]:
    home, port = Path(server.environment["PREFECT_HOME"]), server.url.rpartition(":")[2].removesuffix("/api")
    words = ("prefect", "server", "start", "--host", "127.0.0.1", "--port", port)
    with process(log, *words, cwd=home, environment=server.environment) as running:
        until(lambda: healthy(server.url), log)
        yield
        running.kill()


def state(world: World, name: str) -> str | None:
    with world.opened() as monitor:
        found = monitor.store.run_of(week(name, monitor.config.zone), "tickets")
        return None if found is None else str(found["state"])


@pytest.mark.slow  # two servers, a worker, and a process for each of two runs
@pytest.mark.prefect
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("back", ["while it reads", "when all is judged and sent"])
def test_a_server_that_is_killed_in_the_middle_of_a_run_costs_nothing(
    server: Server, world: World, workspace: slack.FakeSlack, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, back: str,
) -> None:  # fmt: skip
    with duckdb.connect(str(world.folder / "warehouse.duckdb")) as warehouse:
        warehouse.execute(SLOW)
    environment = {**server.environment, **environment_of(world, workspace), "PREFECT_WORKER_QUERY_SECONDS": "1"}
    log, words = tmp_path / "worker.log", ("prefect", "worker", "start", "--pool", "calmon", "--name", "one")
    with ExitStack() as worker:
        with started(server, tmp_path / "first.log"):
            request.getfixturevalue("prefect")
            prefect_command(project, monkeypatch, "work-pool", "create", "calmon", "--type", "process", "--overwrite")
            prefect_command(project, monkeypatch, "deploy", "--prefect-file", "deployments/prefect.yaml", "--all")
            worker.enter_context(process(log, *words, cwd=project, environment=environment))
            first = scheduled_run(server, "calmon-weekly", monday_after(WEEKS[10]))
            until(lambda: state(world, WEEKS[10]) == "running", log)
        if back != "while it reads":
            until(lambda: state(world, WEEKS[10]) == "done", log)
        with started(server, tmp_path / "second.log"):
            until(lambda: flow_run(server, first)["state_type"] == "COMPLETED", log)
            second = scheduled_run(server, "calmon-weekly", monday_after(WEEKS[11]))
            until(lambda: flow_run(server, second)["state_type"] == "COMPLETED", log)
    assert [state(world, name) for name in WEEKS[10:]] == ["done", "done"]
    posts = [text for text in workspace.texts("ml-monitoring") if text.startswith("slipping must not act alone")]
    assert len(posts) == 1
