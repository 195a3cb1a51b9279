"""A worker that was away for days comes back: what is due is judged in minutes, and nobody is called meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from monitor.alerting.health.issues import WATCHDOG_NOTE, findings
from monitor.alerting.health.watchdog import observed
from monitor.core.records import SCHEDULES, Note, Window
from monitor.core.windows import SETTLE, day, last_ready, week
from monitor.operations.missed import missed_windows
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes import slack
from tests.fakes.world import World, make_world, rows, write_duckdb
from tests.integration.test_prefect_flows import (
    Server,
    environment_of,
    prefect,
    prefect_command,
    process,
    project,
    scheduled_run,
    server,
    until,
    workspace,
)

__all__ = ["prefect", "project", "server", "workspace"]  # fixtures
UTC_ZONE = ZoneInfo("UTC")
AWAY = timedelta(days=8)
TEN_MINUTES = 600
LATE = {"calmon-drain": (40, timedelta(minutes=5)), "calmon-watchdog": (14, timedelta(minutes=15))}


def named(start: datetime, weeks: int) -> Window:
    return week(f"{start + timedelta(weeks=weeks):%G-W%V}", UTC_ZONE)


def judged_before(left: datetime) -> Iterator[Window]:
    """The last three weeks and the last two days before the worker went away, the oldest first."""
    newest = last_ready("weekly", left, UTC_ZONE).start
    yield from (named(newest, n) for n in (-2, -1, 0))
    yesterday = last_ready("daily", left, UTC_ZONE).start
    yield from (day(f"{yesterday + timedelta(days=n):%Y-%m-%d}", UTC_ZONE) for n in (-1, 0))


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Rows up to now, and every window judged in its time until the worker went away."""
    now = datetime.now(UTC)
    newest = last_ready("weekly", now, UTC_ZONE).start
    frame = rows(tuple(named(newest, n).name for n in range(-11, 2)))
    url = write_duckdb(tmp_path / "until_now.duckdb", frame[frame["resolved_at"] < now])
    made = make_world(tmp_path, warehouse_url=url)
    with made.opened(clock=lambda: now - timedelta(weeks=5)) as monitor:
        pin(monitor, named(newest, -11), named(newest, -6), by="test", reason="test")
    for window in judged_before(now - AWAY):
        with made.opened(clock=lambda window=window: window.end + SETTLE) as monitor:  # type: ignore[misc]
            run_window(monitor, window)
            monitor.store.put_note(Note(WATCHDOG_NOTE, now - AWAY))
    return made


@pytest.mark.slow  # a worker, and a process for each run
@pytest.mark.prefect
@pytest.mark.usefixtures("prefect")
def test_a_worker_that_comes_back_after_days_judges_what_was_missed_and_drops_late_looks(
    server: Server, world: World, workspace: slack.FakeSlack, project: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    prefect_command(project, monkeypatch, "work-pool", "create", "calmon", "--type", "process")
    prefect_command(project, monkeypatch, "deploy", "--prefect-file", "deployments/prefect.yaml", "--all")
    now = datetime.now(UTC)
    late = {
        scheduled_run(server, flow, now - AWAY + n * every): flow
        for flow, (count, every) in LATE.items() for n in range(1, count + 1)
    }  # fmt: skip
    late[scheduled_run(server, "calmon-weekly", last_ready("weekly", now, UTC_ZONE).end + SETTLE)] = "calmon-weekly"
    late[scheduled_run(server, "calmon-daily", now - AWAY + timedelta(days=1))] = "calmon-daily"  # of an older day

    def states() -> Counter[tuple[str, str]]:
        found = server.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": list(late)}}})
        return Counter((late[run["id"]], run["state_type"]) for run in found)

    def names() -> set[str]:
        found = server.ask("/flow_runs/filter", {"flow_runs": {"id": {"any_": list(late)}}})
        return {run["state_name"] for run in found}

    def is_all_judged() -> bool:
        with world.opened() as monitor:
            last = [last_ready(schedule, now, UTC_ZONE) for schedule in SCHEDULES]
            return not any(missed_windows(monitor.store, each, UTC_ZONE, ["tickets"]) for each in last)

    assert not is_all_judged()
    log = tmp_path / "worker.log"
    log.touch()
    until(lambda: names() == {"Late"}, log)  # the server has marked them long ago: SQLite is locked meanwhile
    words = ("prefect", "worker", "start", "--pool", "calmon", "--limit", "8")
    with process(log, *words, cwd=project, environment={**server.environment, **environment_of(world, workspace)}):
        until(is_all_judged, log, seconds=TEN_MINUTES)
        until(lambda: not {state for _, state in states()} & {"SCHEDULED", "PENDING", "RUNNING"}, log)
    done = {flow: states()[flow, "COMPLETED"] for flow in set(late.values())}
    assert 1 <= done.pop("calmon-drain") < 5, "one at a time, until the watchdog has dropped the others"
    assert done == {"calmon-watchdog": 1, "calmon-weekly": 1, "calmon-daily": 1}
    assert {state for _, state in states()} == {"COMPLETED", "CANCELLED"}, log.read_text("utf-8")
    with world.opened() as monitor:
        assert findings(observed(monitor.store, monitor.config, now), datetime.now(UTC)) == []
        assert monitor.store.unresolved_incidents(of_monitor=True) == []
    assert not [text for text in workspace.texts("ml-monitoring") if text.startswith("Monitor:")]
