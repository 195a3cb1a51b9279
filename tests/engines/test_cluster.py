"""Backfills and replays on real worker processes: of this machine, and of a Dask cluster, also as tasks of a flow."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from monitor.backfill import evaluate_past
from monitor.core.windows import span, week
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.operations.workers import Workers, WorkersFailed, dask_cluster, own_history, processes
from tests.fakes.histories import content
from tests.fakes.world import WEEKS, World, pinned_world
from tests.integration.test_prefect_flows import prefect, server

__all__ = ["prefect", "server"]  # fixtures

pytestmark = [
    pytest.mark.skipif(find_spec("prefect_dask") is None, reason="the extra dask is not installed: make test-engines"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
NOW = datetime(2026, 9, 1, tzinfo=UTC)
FIRST, LAST = WEEKS[8], WEEKS[11]
Content = dict[str, list[dict[str, Any]]]


def named(world: World, patch: pytest.MonkeyPatch) -> World:
    """The same world, which the environment names from now on: workers begin with it."""
    for name, value in (world.environment | {"CALMON_SLACK_BOT_TOKEN": ""}).items():
        patch.setenv(name, value)
    return world


def evaluated(world: World, workers: Workers | None) -> Content:
    with world.opened(lambda: NOW) as monitor:
        zone = monitor.config.zone
        list(evaluate_past(monitor, span(week(FIRST, zone), week(LAST, zone), zone), ["tickets"], workers))
    return content(world.folder / "history.sqlite")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """What is stored by a backfill that this process does alone."""
    return evaluated(pinned_world(tmp_path_factory.mktemp("alone")), None)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """The world of the cluster, named by the environment of all of this module."""
    with pytest.MonkeyPatch.context() as patch:
        yield named(pinned_world(tmp_path_factory.mktemp("cluster")), patch)


@pytest.fixture(scope="module")
def scheduler(world: World) -> Iterator[str]:
    """The address of a Dask scheduler with two worker processes of two threads."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as running:
        yield running.scheduler_address


def test_processes_of_this_machine_leave_the_same_history(
    alone: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = named(pinned_world(tmp_path), monkeypatch)
    with processes(2) as workers:
        assert evaluated(mine, workers) == alone


def test_a_cluster_leaves_the_same_history_and_replays_the_same(alone: Content, world: World, scheduler: str) -> None:
    with dask_cluster(scheduler) as workers:
        assert workers.count == 2
        assert evaluated(world, workers) == alone
        with world.opened() as monitor:
            plan = plan_of(monitor.config, monitor.config, week(LAST, monitor.config.zone), 6)
            assert replay(monitor.store, plan, workers=workers) == replay(monitor.store, plan)
        with pytest.raises(WorkersFailed, match="another history"):
            workers.submit(own_history, "not this one").result()


@pytest.mark.prefect
@pytest.mark.usefixtures("prefect")
def test_a_flow_does_it_by_tasks_on_the_cluster(alone: Content, world: World, scheduler: str) -> None:
    from flows.backfill import backfill

    found = backfill(FIRST, LAST, dask=scheduler)
    stored = content(world.folder / "history.sqlite")
    assert list(found) == list(WEEKS[8:])
    assert sum(found.values()) == sum(row["outcome"] == "breach" for row in alone["verdicts"]) > 0
    assert stored["estimates"] == alone["estimates"]
    assert [row["id"] for row in stored["verdicts"]] == [row["id"] for row in alone["verdicts"]]


def test_a_scheduler_that_is_not_there_or_has_no_worker_is_said(world: World) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=":0") as running:
        address = running.scheduler_address
        with pytest.raises(WorkersFailed, match="has no worker"), dask_cluster(address):
            pass
    with pytest.raises(WorkersFailed, match="no Dask scheduler answers"), dask_cluster(address):
        pass
