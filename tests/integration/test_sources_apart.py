"""What is known of one source stays when another one is run alone: real processes, ended by real signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from monitor.alerting.health.issues import findings
from monitor.alerting.health.look import observed
from monitor.alerting.health.watchdog import watch_monitor
from monitor.core.windows import week
from monitor.operations.pin_baseline import pin
from monitor.run import deliver, run_window
from monitor.service.prometheus import exposition
from monitor.story.gather import Teller
from tests.fakes import slack
from tests.fakes.world import CONFIG, WEEKS, World, make_world

ROOT = Path(__file__).parents[2]
MAILS = """\
  mails:
    relation: >-
      {relation}
    score_is: probability_of_label
    automate_at: 0.8
evaluation:"""
ALIKE = "SELECT item, label, score, actual, resolved_at FROM tickets"
MOVED = ALIKE.replace(
    " score,", " CASE WHEN resolved_at < TIMESTAMPTZ '2026-08-17' THEN score ELSE 0.55 + score / 100 END AS score,"
)
FEW = f"{ALIKE} WHERE item LIKE '%-7'"
PROGRAM = """
import sys, time
from datetime import datetime
from monitor import context
at, waits = datetime.fromisoformat(sys.argv.pop(1)), sys.argv.pop(1)
context.utc_now = lambda: at
if waits:
    from monitor import run
    def judging(*_):
        print("judging", flush=True)
        for _ in range(6000):  # a signal that comes just before one long sleep would not end it
            time.sleep(0.1)
    run.evaluate = judging
from monitor.cli import main
main()
"""


def due(name: str) -> datetime:
    """When the weekly run of that week is due."""
    return datetime.strptime(f"{name}-1 06:30 +0000", "%G-W%V-%u %H:%M %z") + timedelta(days=7)


@contextmanager
def started(world: World, at: datetime, *words: str, waits: bool = False) -> Iterator[subprocess.Popen[str]]:
    """``calmon WORDS`` at a time; with ``waits`` it waits where it judges."""
    command = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, at.isoformat(), "waits" if waits else "", *words],
        env=os.environ | world.environment | {"PYTHONPATH": str(ROOT)}, cwd=world.folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        yield command
    finally:
        command.kill()
        command.communicate()


def ran(world: World, name: str, *sources: str, **environment: str) -> None:
    """Run a week when it is due: of these sources alone, or of all."""
    with world.opened(lambda: due(name), **environment) as monitor:
        run_window(monitor, week(name, monitor.config.zone), sources=sources or None)


def two_sources(folder: Path, relation: str = ALIKE) -> World:
    world = make_world(folder, config=CONFIG.replace("evaluation:", MAILS.format(relation=relation), 1))
    with world.opened(lambda: due(WEEKS[5])) as monitor:
        first, last = (week(WEEKS[at], monitor.config.zone) for at in (0, 5))
        pinned = pin(monitor, first, last, by="test", reason="test")
    assert ("tickets", "steady") in {(each.source, each.label) for each in pinned.baselines}  # of mails too few, maybe
    return world


@pytest.mark.parametrize(
    ("number", "state", "reason"),
    [("SIGINT", "failed", "run_failed"), ("SIGTERM", "failed", "run_failed"), ("SIGKILL", "running", "run_hung")],
)
def test_a_run_that_was_ended_stays_so_where_another_source_is_run(
    number: str, state: str, reason: str, tmp_path: Path
) -> None:
    world, now = two_sources(tmp_path), due(WEEKS[9])
    words = ("run", "weekly", "--week", WEEKS[9])
    with started(world, now, *words, "--source", "tickets", waits=True) as command:
        assert command.stdout.readline() == "judging\n"
        command.send_signal(signal.Signals[number])
        assert command.wait(timeout=60) != 0
    ran(world, WEEKS[9], "mails")
    later = now + timedelta(hours=4)
    with world.opened() as monitor:
        window = week(WEEKS[9], monitor.config.zone)
        states = {name: (monitor.store.run_of(window, name) or {}).get("state") for name in monitor.config.sources}
        issues = findings(observed(monitor.store, monitor.config, later), later)
    assert states == {"tickets": state, "mails": "done"}
    (issue,) = [each for each in issues if each.reason.value == reason]
    assert "tickets" in issue.text
    assert "mails" not in issue.text
    ran(world, WEEKS[9], "tickets")
    with world.opened() as monitor:
        assert not [i for i in findings(observed(monitor.store, monitor.config, later), later) if i.reason == reason]


@pytest.mark.parametrize(
    ("relation", "words"), [(MOVED, "their scores moved"), (FEW, "Nothing of mails was judged")], ids=["moved", "few"]
)
def test_what_is_open_of_a_source_stays_open_where_another_one_is_run(
    relation: str, words: str, tmp_path: Path
) -> None:
    with slack.running() as workspace:
        its = {"slack_bot_token": slack.TOKEN, "slack_api_url": workspace.url}
        world = two_sources(tmp_path, relation)
        ran(world, WEEKS[10], **its)
        before = [text for text in workspace.texts("ml-monitoring") if "mails" in text]
        assert any(words in text for text in before), before
        ran(world, WEEKS[11], "tickets", **its)
        now = due(WEEKS[11]) + timedelta(hours=1)
        with world.opened(lambda: now, **its) as monitor:
            issues = [issue.text for issue in watch_monitor(monitor)]
            deliver(monitor)
            open_now = monitor.store.unresolved_incidents(of_monitor=True)
        after = [text for text in workspace.texts("ml-monitoring") if "mails" in text]
    assert any(words in text for text in after), after
    assert any(words in text for text in issues)
    assert len(open_now) == 1


def test_metrics_keep_the_estimates_of_a_source_where_another_one_is_run(tmp_path: Path) -> None:
    world = two_sources(tmp_path)
    ran(world, WEEKS[10])
    ran(world, WEEKS[11], "tickets")
    with world.opened() as monitor:
        text = exposition(monitor.store, monitor.config, due(WEEKS[11])).decode()
    for name in ("calmon_estimate", "calmon_verdicts", "calmon_labels", "calmon_rows"):
        lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
        assert {source for source in ("tickets", "mails") if any(f'source="{source}"' in line for line in lines)} == {
            "tickets", "mails",
        }, name  # fmt: skip


def test_a_label_of_two_sources_is_told_with_its_source(tmp_path: Path) -> None:
    world = two_sources(tmp_path)
    with world.opened() as monitor:
        run_window(monitor, week(WEEKS[9], monitor.config.zone))
        told = Teller.of(monitor).of_all()
    names = {story.name for story in told if story.label is not None}
    assert {"slipping of tickets", "slipping of mails"} <= names
    assert all(story.headline.startswith(story.name) for story in told)
