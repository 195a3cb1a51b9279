"""Windows that were missed: reported, listed, and judged by the next run as if each had been run in its time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from monitor.alerting.health.issues import HealthIssue, findings
from monitor.alerting.health.look import observed
from monitor.cli import app
from monitor.context import Monitor
from monitor.core.records import Schedule
from monitor.core.windows import named
from monitor.run import Run, catch_up, run_window
from tests.fakes.world import WEEKS, World, pinned_world, rows, write_duckdb

DAYS = tuple((datetime(2026, 8, 24, tzinfo=UTC) + timedelta(days=n)).date().isoformat() for n in range(7))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return pinned_world(tmp_path)


def after(schedule: Schedule, name: str) -> datetime:
    """An hour after the window was ready."""
    return named(schedule, name, ZoneInfo("UTC")).end + timedelta(hours=7)


def judge(world: World, schedule: Schedule, *names: str) -> None:
    for name in names:
        with world.opened(clock=partial(after, schedule, name)) as monitor:
            run_window(monitor, named(schedule, name, monitor.config.zone))


def started(world: World, schedule: Schedule, name: str) -> list[Run]:
    """The start of the scheduled run of a window, at its time: what it catches up, before the window itself."""
    with world.opened(clock=lambda: after(schedule, name)) as monitor:
        window = named(schedule, name, monitor.config.zone)
        made = catch_up(monitor, Run(window, tuple(monitor.config.sources)))
        run_window(monitor, window)
    return made


def gaps(monitor: Monitor, schedule: Schedule, now: datetime) -> list[HealthIssue]:
    found = findings(observed(monitor.store, monitor.config, now), now)
    later = f"though a later {'week' if schedule == 'weekly' else 'day'} was."
    return [issue for issue in found if issue.reason == "run_missing" and issue.text.endswith(later)]


@pytest.mark.parametrize(
    ("schedule", "judged", "missed", "command"),
    [
        ("weekly", (WEEKS[7], WEEKS[8], WEEKS[10]), (WEEKS[9],), f"calmon run weekly --week {WEEKS[9]}"),
        ("daily", (DAYS[0], DAYS[1], DAYS[4]), DAYS[2:4], f"calmon backfill --daily --from {DAYS[2]} --to {DAYS[3]}"),
    ],
)
def test_a_window_between_judged_ones_is_reported_with_a_command_that_judges_it(
    world: World, schedule: Schedule, judged: Sequence[str], missed: Sequence[str], command: str
) -> None:
    judge(world, schedule, *judged)
    now = after(schedule, judged[-1])
    with world.opened(clock=lambda: now) as monitor:
        (issue,) = gaps(monitor, schedule, now)
    assert (issue.reason.value, issue.severity) == ("run_missing", "warning")
    assert all(name in issue.text for name in missed)
    assert not any(name in issue.text for name in judged)
    assert f"`{command}`" in issue.do_now
    done = CliRunner(env=world.environment).invoke(app, command.split()[1:])
    assert done.exit_code == 0, done.output
    with world.opened(clock=lambda: now) as monitor:
        assert gaps(monitor, schedule, now) == []


def test_history_lists_what_was_missed_on_both_schedules_and_draws_the_gap(world: World) -> None:
    judge(world, "weekly", WEEKS[7], WEEKS[8], WEEKS[11])
    judge(world, "daily", DAYS[0], DAYS[2])

    def history(*words: str) -> str:
        return CliRunner(env=world.environment | {"COLUMNS": "200"}).invoke(app, ["history", *words]).output

    lines = history("--missing").splitlines()
    assert lines[0] == f"{WEEKS[9]}  tickets: calmon run weekly --week {WEEKS[9]}"
    assert f"{DAYS[1]}  tickets: calmon run daily --date {DAYS[1]}" in lines
    assert not any(line.startswith((f"{WEEKS[7]} ", f"{WEEKS[11]} ", f"{DAYS[2]} ")) for line in lines)
    (steady,) = [line for line in history("--label", "steady").splitlines() if "steady" in line]
    assert "··" in steady
    assert f"{WEEKS[7]} to {WEEKS[11]}" in history()


def ends(world: World) -> Any:
    """The switches and incidents, without the times at which they were changed."""
    with world.opened() as monitor:
        switches = [(s.label, s.state, s.lease_until, s.verdict) for s in monitor.store.switches()]
        incidents = [(i.label, i.state, i.severity, i.rules) for i in monitor.store.unresolved_incidents()]
    return sorted(switches, key=str), sorted(incidents, key=str)


def test_a_start_judges_the_weeks_that_were_missed_in_order_and_ends_as_if_none_had_been(
    world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    in_time = world.copied(tmp_path_factory.mktemp("other"))
    judge(in_time, "weekly", *WEEKS[7:12])
    judge(world, "weekly", *WEEKS[7:9])
    made = started(world, "weekly", WEEKS[11])
    assert [run.window.name for run in made] == list(WEEKS[9:11])
    assert {a.state for a in made[1].actions if a.kind == "disable_automation"} == {"turned off"}
    assert ends(world) == ends(in_time)
    assert started(world, "weekly", WEEKS[11]) == []


def test_a_day_that_could_not_be_read_is_judged_by_the_next_run_and_changes_no_switch(world: World) -> None:
    judge(world, "daily", *DAYS[:2])
    away = (world.folder / "warehouse.duckdb").rename(world.folder / "away.duckdb")
    judge(world, "daily", DAYS[2])
    away.rename(world.folder / "warehouse.duckdb")
    judge(world, "daily", DAYS[3])
    with world.opened() as monitor:
        before = monitor.store.switches()
        now = after("daily", DAYS[3])
        assert [issue.text.split()[0] for issue in gaps(monitor, "daily", now)] == [DAYS[2]]
    with world.opened(clock=lambda: after("daily", DAYS[4])) as monitor:
        (made,) = catch_up(monitor, Run(named("daily", DAYS[4], monitor.config.zone), ("tickets",)))
        assert (made.window.name, {v.reason.value for v in made.evaluated[0].verdicts} & {"warehouse_failed"}) == (
            DAYS[2],
            set(),
        )
        assert monitor.store.switches() == before


def test_a_source_that_cannot_be_read_a_window_that_may_not_be_over_and_what_is_too_old_are_left(world: World) -> None:
    judge(world, "weekly", WEEKS[5])
    made = started(world, "weekly", WEEKS[11])
    assert [run.window.name for run in made] == list(WEEKS[7:11])  # the four weeks before the one that is due
    judge(world, "daily", DAYS[0])
    noon = datetime.fromisoformat(f"{DAYS[3]}T12:00+00:00")
    write_duckdb(world.folder / "warehouse.duckdb", (found := rows())[found["resolved_at"] < noon])
    made = started(world, "daily", DAYS[6])  # by a clock that is three days ahead
    assert [run.window.name for run in made] == [DAYS[1], DAYS[2], DAYS[4], DAYS[5]]
    (world.folder / "warehouse.duckdb").unlink()
    assert started(world, "daily", DAYS[6]) == []
