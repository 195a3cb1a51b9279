"""The monitor's own troubles as incidents: nine days without a run, lived through quarter by quarter."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monitor import alerting
from monitor.adapters import Monitor
from monitor.alerts.outbox import drain
from monitor.pinning import pin
from monitor.records import Incident
from monitor.run import run_window
from monitor.watching import watch_monitor
from monitor.windows import day, week
from tests.fakes import slack
from tests.fakes.world import BASELINE, CONFIG, WEEKS, World, make_world

MENTION = "<!subteam^S0123>"
ROUTES = """\
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}
  - {channel: "#ml-monitoring", repeat: 1w}
"""
LATER = CONFIG[: CONFIG.index("routes:")] + ROUTES
DAYS = 9


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Pinned; its eleventh week and the day after it judged in time."""
    made = make_world(tmp_path_factory.mktemp("judged"), config=LATER)
    with made.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="test", reason="test")
    with made.opened(clock=lambda: judged_at(10)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
    with made.opened(clock=lambda: judged_at(10) + timedelta(hours=24)) as monitor:
        run_window(monitor, day(f"{judged_at(10):%Y-%m-%d}", monitor.config.zone))
    return made


def judged_at(index: int) -> datetime:
    return datetime.strptime(f"{WEEKS[index]}-1 +0000", "%G-W%V-%u %z") + timedelta(days=7, hours=7)


@dataclass
class Life:
    """A history with its Slack, and a clock that the watchdog's looks move."""

    world: World
    workspace: slack.FakeSlack
    now: datetime = field(default_factory=lambda: judged_at(10) + timedelta(hours=24))

    def look(self, what: Callable[[Monitor], object] = watch_monitor) -> None:
        """What the watchdog does."""
        told = {"slack_bot_token": slack.TOKEN, "slack_api_url": self.workspace.url}
        with self.world.opened(clock=lambda: self.now, **told) as monitor:
            what(monitor)
            alerting.due_repeats(monitor)
            drain(monitor.store, monitor.sender, now=monitor.clock, worker=monitor.worker, due_only=True)

    def live(self, days: float, step: timedelta = timedelta(hours=1)) -> None:
        """Look again and again for so long."""
        end = self.now + timedelta(days=days)
        while self.now < end:
            self.now += step
            self.look()

    def incidents(self) -> list[Incident]:
        with self.world.opened() as monitor:
            return monitor.store.monitor_incidents()

    def roots(self) -> list[str]:
        return [text for name in ("ml-oncall", "ml-monitoring") for text in self.workspace.texts(name)]

    def replies(self) -> list[str]:
        return [
            m["text"] for name in ("ml-oncall", "ml-monitoring") for m in self.workspace.shown(name)
            if m.get("thread_ts", m["ts"]) != m["ts"]
        ]  # fmt: skip


@pytest.fixture
def life(judged: World, tmp_path: Path) -> Iterator[Life]:
    for name in ("alerts.yaml", "warehouse.duckdb", "history.sqlite"):
        shutil.copy(judged.folder / name, tmp_path)
    world = World(tmp_path, f"duckdb:///{tmp_path / 'warehouse.duckdb'}", f"sqlite:///{tmp_path / 'history.sqlite'}")
    with slack.running() as workspace:
        yield Life(world, workspace)


def test_nine_days_of_a_dead_monitor_are_one_message_nine_reminders_at_most_and_one_back(life: Life) -> None:
    life.live(DAYS)
    (root,) = life.roots()
    assert root.startswith("Monitor: evaluations are missing: The ")
    calls = [text for text in life.replies() if MENTION in text]
    assert 7 <= len(calls) <= 9
    assert all("Not acknowledged yet" in text for text in calls)
    (incident,) = life.incidents()
    assert (incident.rule, incident.state, incident.severity) == ("monitor:not-running", "open", "critical")
    life.now += timedelta(minutes=10)
    life.look(lambda monitor: [run_window(monitor, w) for w in due(life.now, monitor)])
    life.live(0.5)
    (root,) = [text for text in life.roots() if "Monitor" in text or "Back" in text if "no rows" not in text]
    assert "Back at work since 2026-" in root
    assert [text for text in life.replies() if "Back at work since" in text] == [life.replies()[-1]]
    assert {i.rule: i.state for i in life.incidents() if i.rule == "monitor:not-running"} == {
        "monitor:not-running": "resolved"
    }


def due(now: datetime, monitor: Monitor) -> list:
    from monitor.windows import last_ready

    return [last_ready(schedule, now, monitor.config.zone) for schedule in ("weekly", "daily")]
