"""Two Prefect workers on one pool: each run is done once, by one of them, and runs of one schedule never overlap."""

from __future__ import annotations

from contextlib import ExitStack
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest

from monitor.core.windows import week
from tests.fakes import slack
from tests.fakes.world import WEEKS, World
from tests.integration.test_prefect_flows import (
    Server,
    environment_of,
    flow_run,
    monday_after,
    prefect,
    prefect_command,
    process,
    project,
    scheduled_run,
    server,
    until,
    workspace,
    world,
)

__all__ = ["prefect", "project", "server", "workspace", "world"]  # fixtures
ENDED = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")


def starts(log: str, run: str) -> int:
    """How often the worker of ``log`` started ``run``: both may offer to, more than once, and the server refuses."""
    return log.count(f"submitting flow run '{run}'") - log.count(f"Aborted submission of flow run '{run}'")


@pytest.mark.slow  # a server, two workers, and a process for each of three runs
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect")
def test_two_workers_share_the_runs_of_a_pool(
    server: Server, world: World, workspace: slack.FakeSlack, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prefect_command(project, monkeypatch, "work-pool", "create", "calmon", "--type", "process")
    prefect_command(project, monkeypatch, "deploy", "--prefect-file", "deployments/prefect.yaml", "--all")
    environment = {
        **server.environment, **environment_of(world, workspace),
        "PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_LOGGING_LEVEL": "INFO",
    }  # fmt: skip
    logs = [tmp_path / f"{name}.log" for name in ("one", "two")]
    mondays = [monday_after(name) for name in WEEKS[10:]]
    with ExitStack() as running:
        for log in logs:
            words = ("prefect", "worker", "start", "--pool", "calmon", "--name", log.stem)
            running.enter_context(process(log, *words, cwd=project, environment=environment))
        runs = [scheduled_run(server, "calmon-weekly", at) for at in mondays]
        runs.append(scheduled_run(server, "calmon-daily", mondays[0]))
        until(lambda: all(flow_run(server, run)["state_type"] in ENDED for run in runs), logs[0], seconds=300)
    found = [flow_run(server, run) for run in runs]
    assert {run["state_type"] for run in found} == {"COMPLETED"}, "\n".join(log.read_text("utf-8") for log in logs)
    assert [sum(starts(log.read_text("utf-8"), run) for log in logs) for run in runs] == [1] * len(runs)
    assert {run["run_count"] for run in found} == {1}, "a run belongs to one worker"
    weekly = sorted(
        (datetime.fromisoformat(r["start_time"]), datetime.fromisoformat(r["end_time"])) for r in found[:-1]
    )
    assert all(before[1] <= after[0] for before, after in pairwise(weekly))
    with world.opened() as monitor:
        done = {run["window_start"] for run in monitor.store.runs("weekly") if run["state"] == "done"}
        assert done >= {week(name, monitor.config.zone).start for name in WEEKS[10:]}
    posts = [text for text in workspace.texts("ml-monitoring") if text.startswith("slipping must not act alone")]
    assert len(posts) <= 2, "one message a rule, whoever ran which week"
