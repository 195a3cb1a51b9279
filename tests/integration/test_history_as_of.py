"""``calmon history --as-of``: what was known at a time, not what was found out later about windows that were over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.core.records import Window
from monitor.core.windows import week
from monitor.run import run_window
from tests.fakes.world import WEEKS, World, pinned_world

SETTLE, HOUR = timedelta(hours=7), timedelta(hours=1)
OLD, GOOD, BROKEN = (week(name, ZoneInfo("UTC")) for name in WEEKS[8:11])
BACKFILL = BROKEN.end + 3 * SETTLE


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Two weeks at their time, "slipping" being well in the first; then a backfill of the week before them."""
    made, clock = pinned_world(tmp_path_factory.mktemp("world")), [datetime(2026, 9, 2, tzinfo=UTC)]
    with made.opened(lambda: clock[0]) as monitor:
        for window, at in ((GOOD, GOOD.end + SETTLE), (BROKEN, BROKEN.end + SETTLE), (OLD, BACKFILL)):
            clock[0] = at
            run_window(monitor, window, act="never")
    return made


def history(world: World, at: datetime, *options: str) -> str:
    words = ["history", "--label", "slipping", "--as-of", at.isoformat(), *options]
    return CliRunner(env=dict(world.environment)).invoke(app, words).stdout


@pytest.mark.parametrize(
    ("at", "known"),
    [
        (GOOD.end + SETTLE - HOUR, []),
        (GOOD.end + SETTLE, [GOOD]),
        (BROKEN.end + SETTLE - HOUR, [GOOD]),
        (BROKEN.end + SETTLE, [GOOD, BROKEN]),
        (BACKFILL - HOUR, [GOOD, BROKEN]),
        (BACKFILL, [OLD, GOOD, BROKEN]),
    ],
)
def test_a_window_is_known_from_its_evaluation_on_and_not_from_its_end(
    world: World, at: datetime, known: list[Window]
) -> None:
    found = json.loads(history(world, at, "--format", "json"))
    assert [each["window"] for each in found] == [each.name for each in known]


def test_where_nothing_was_known_it_is_said_until_when_and_no_run_is_advised(world: World) -> None:
    told = " ".join(history(world, datetime(2026, 7, 1, tzinfo=UTC)).split())
    assert told == "the history has nothing of that: no such window was evaluated by 2026-07-01 00:00 UTC"


def test_the_state_is_that_of_the_verdicts_of_then(world: World) -> None:
    assert "breach" not in history(world, BROKEN.end + SETTLE - HOUR)
    assert "breach" in history(world, BROKEN.end + SETTLE)
