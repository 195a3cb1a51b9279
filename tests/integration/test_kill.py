"""kill -9 between each pair of stored steps, then the same command: as if nothing had happened."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.windows import week
from monitor.run import run_window
from tests.fakes import forked, slack
from tests.fakes.killed import killed_at
from tests.fakes.world import WEEKS, World, pinned_world

pytestmark = pytest.mark.slow

STEPS = 18  # stored steps of the run below; test_the_steps_are_all_tried says when it is another number
COMMAND = ("run", "weekly", "--week", WEEKS[10])
# what differs between two honest runs: when, and by which process
VOLATILE = {
    "run", "started_at", "finished_at", "attempts", "read_at", "stored_at", "pinned_at", "opened_at", "created_at",
    "next_attempt_at", "claimed_at", "claimed_by", "sent_at", "changed_at", "at", "external_id", "version", "id",
    "payload", "error", "uncertain", "hold_until", "published_at", "newest_at", "diagnosed_at",
}  # fmt: skip


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A pinned baseline and a good week that has turned automation on: the next week will break it."""
    world = pinned_world(tmp_path_factory.mktemp("prepared"))
    with world.opened() as monitor:
        zone = monitor.config.zone
        run_window(monitor, week(WEEKS[9], zone))
        assert monitor.store.switch("tickets", "slipping").state == "on"
        monitor.store.publish_thresholds({}, monitor.clock())  # so that publishing them is a stored step of the run
    return world


def copied(prepared: World, folder: Path) -> World:
    """The prepared world in another folder; the warehouse is only read, so it is shared."""
    shutil.copy(prepared.folder / "history.sqlite", folder / "history.sqlite")
    shutil.copy(prepared.folder / "alerts.yaml", folder / "alerts.yaml")
    return replace(prepared, folder=folder, store_url=f"sqlite:///{folder / 'history.sqlite'}")


def environment(world: World, server: slack.FakeSlack) -> dict[str, str]:
    return world.environment | {"CALMON_SLACK_BOT_TOKEN": slack.TOKEN, "CALMON_SLACK_API_URL": server.url}


def run(world: World, server: slack.FakeSlack, step: int) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, killed at that step."""
    variables = os.environ | environment(world, server)
    return forked.calmon(world.folder, variables, *COMMAND, main=partial(killed_at, step))


def left_behind(world: World) -> dict[str, list[dict[str, Any]]]:
    """Every row of the history, but for when and by whom."""
    engine = sa.create_engine(world.store_url)
    found = {}
    with engine.connect() as connection:
        for table in sorted(sa.inspect(connection).get_table_names()):
            rows = connection.execute(sa.text(f'SELECT * FROM "{table}"')).mappings()
            plain = [{k: v for k, v in row.items() if k not in VOLATILE} for row in rows]
            found[table] = sorted(plain, key=repr)
    engine.dispose()
    return found


@pytest.fixture(scope="module")
def undisturbed(prepared: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], int]:
    """What the run leaves behind when nobody kills it, and how many steps it stores."""
    world = copied(prepared, tmp_path_factory.mktemp("undisturbed"))
    with slack.running() as server:
        done = run(world, server, 0)
        assert done.returncode == 0, done.stderr
        assert ["thread_ts" in message for message in server.messages] == [False, True]  # its picture is in its thread
    return left_behind(world), int(done.stderr.rsplit("steps=", 1)[1])


def test_the_steps_are_all_tried(undisturbed: tuple[dict[str, Any], int]) -> None:
    assert undisturbed[1] == STEPS


@pytest.mark.parametrize("step", range(1, STEPS + 1))
def test_a_run_killed_at_any_step_and_run_again_leaves_what_an_undisturbed_one_leaves(
    step: int,
    prepared: World,
    undisturbed: tuple[dict[str, Any], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = copied(prepared, tmp_path)
    monkeypatch.chdir(tmp_path)
    with slack.running() as server:
        killed = run(world, server, step)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        again = CliRunner(env=environment(world, server)).invoke(app, COMMAND)
        assert again.exit_code == 0, again.output
        assert ["thread_ts" in message for message in server.messages] == [False, True]  # its picture is in its thread
    found = left_behind(world)
    for table, rows in undisturbed[0].items():
        assert found[table] == rows, table
