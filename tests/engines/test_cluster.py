"""Backfills and replays on real worker processes: Prefect's own of this machine, and those of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from monitor.core.windows import span, week
from monitor.operations.replay.document import document
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from monitor.run import run_window
from tests.fakes.histories import content
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world
from tests.integration.test_prefect_flows import prefect, server

__all__ = ["prefect", "server"]  # fixtures

pytestmark = [
    pytest.mark.prefect,
    pytest.mark.usefixtures("prefect"),
    pytest.mark.skipif(find_spec("prefect_dask") is None, reason="the extra dask is not installed: make test-engines"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]
FIRST, LAST = WEEKS[8], WEEKS[11]
RULES = CONFIG.replace(
    "rules:\n",
    "rules:\n  - {id: lasting, metric: overconfidence, where: automated, condition: accumulated, threshold: 0.02,\n"
    "     severity: info, actions: [slack]}\n",
)
BY_ORDER = {"id", "since", "at"}
NUMBERED = {
    "evaluations",
    "estimate_extras",
    "estimated",
    "judged",
    "shifted",
}  # by evaluation; their views are compared
Content = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Content:
    """What is stored by a backfill of one process."""
    world = pinned_world(tmp_path_factory.mktemp("alone"), config=RULES)
    with world.opened() as monitor:
        zone = monitor.config.zone
        for window in span(week(FIRST, zone), week(LAST, zone), zone):
            run_window(monitor, window, act="never")
    return content(world.folder / "history.sqlite")


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """Another world with the same rows, named by the environment: the cluster's processes begin with it."""
    made = pinned_world(tmp_path_factory.mktemp("cluster"), config=RULES)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (made.environment | {"CALMON_SLACK_BOT_TOKEN": ""}).items():
            patch.setenv(name, value)
        yield made


@pytest.fixture(scope="module")
def scheduler(world: World) -> Iterator[str]:
    """The address of a Dask scheduler with two worker processes of two threads."""
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=":0") as running:
        yield running.scheduler_address


def in_any_order(stored: Content) -> dict[str, list[str]]:
    """The rows of each table, sorted, without what depends on when a task ended."""
    return {
        table: sorted(
            repr([value for name, value in row.items() if name not in BY_ORDER and not name.endswith("_at")])
            for row in rows
        )
        for table, rows in stored.items()
        if table not in NUMBERED
    }


def differing(one: Content, other: Content) -> list[str]:
    """The tables that are not the same in both."""
    left, right = in_any_order(one), in_any_order(other)
    return [table for table in left if left[table] != right[table]]


def test_a_backfill_on_a_cluster_leaves_what_one_process_leaves(alone: Content, world: World, scheduler: str) -> None:
    from flows.backfill import backfill

    breaches = backfill(FIRST, LAST, dask=scheduler)
    assert list(breaches) == list(WEEKS[8:])
    assert sum(breaches.values()) == sum(row["outcome"] == "breach" for row in alone["verdicts"]) > 0
    assert differing(alone, content(world.folder / "history.sqlite")) == []


def test_processes_of_this_machine_leave_the_same(
    alone: Content, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.backfill import backfill

    for name, value in pinned_world(tmp_path, config=RULES).environment.items():
        monkeypatch.setenv(name, value)
    backfill(FIRST, LAST, workers=2)
    assert differing(alone, content(tmp_path / "history.sqlite")) == []


def test_a_replay_on_a_cluster_is_the_replay_of_one_process(world: World, scheduler: str) -> None:
    from flows.replay import replay as replay_flow

    with world.opened() as monitor:
        plan = plan_of(monitor.config, monitor.config, week(LAST, monitor.config.zone), 6)
        expected = document(replay(monitor.store, plan))
    rules = str(world.folder / "alerts.yaml")
    assert replay_flow(rules, 6, LAST, dask=scheduler) == expected
    assert expected["present"]["incidents"] > 0


@pytest.mark.parametrize("other", ["history", "rules"])
def test_a_worker_with_another_history_or_other_rules_refuses(
    other: str, world: World, scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.backfill import backfill

    (tmp_path / "alerts.yaml").write_text(CONFIG, "utf-8")
    changed = {
        "history": ("CALMON_STORE_URL", f"sqlite:///{tmp_path}/new.sqlite"),
        "rules": ("CALMON_CONFIG", str(tmp_path / "alerts.yaml")),
    }
    monkeypatch.setenv(*changed[other])  # the workers have the environment of the world
    state = backfill(FIRST, LAST, dask=scheduler, return_state=True)
    assert state.is_failed()
    assert f"a worker has {'an' * (other == 'history')}other {other}" in str(state.message)


def test_a_cluster_without_workers_is_refused(world: World) -> None:
    from distributed import LocalCluster

    from flows.backfill import backfill

    with LocalCluster(n_workers=0, dashboard_address=":0") as running:
        state = backfill(FIRST, LAST, dask=running.scheduler_address, return_state=True)
    assert "has no worker" in str(state.message)
