"""The monitor's own troubles as incidents: nine days without a run, lived through quarter by quarter."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from monitor.alerting.health.issues import LISTENER_NOTE, SILENT_NOTE, WATCHDOG_NOTE
from monitor.alerting.health.watchdog import stand_in, watch_monitor
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.context import Monitor
from monitor.core.records import Incident, Note, Reason, RejectedRows, Subject, Verdict, Window
from monitor.core.windows import day, last_ready, week
from monitor.history.readings import StoredReading
from monitor.operations import incident_actions
from monitor.operations.slack_buttons import Buttons
from monitor.run import Run, catch_up, run_window
from tests.fakes import forked, slack
from tests.fakes.reading import lines_of
from tests.fakes.slack_presses import button
from tests.fakes.world import CONFIG, WEEKS, World, judged_at, make_world, pinned_world

MENTION = "<!subteam^S0123>"
ROUTES = """\
routes:
  - {match: {severity: critical}, channel: "#ml-oncall", mention: "<!subteam^S0123>", repeat: 24h}
  - {channel: "#ml-monitoring", repeat: 1w}
"""
LATER = CONFIG[: CONFIG.index("routes:")] + ROUTES
DAYS = 9
STORY = Path(__file__).parents[1] / "cases" / "monitor" / "nine_days.txt"


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Pinned; its eleventh week and the day after it judged in time; somebody acknowledged its label."""
    made = pinned_world(tmp_path_factory.mktemp("judged"), config=LATER)
    with made.opened(clock=lambda: judged_at(10)) as monitor:
        run_window(monitor, week(WEEKS[10], monitor.config.zone))
    with made.opened(clock=lambda: judged_at(10) + timedelta(hours=24)) as monitor:
        run_window(monitor, day(f"{judged_at(10):%Y-%m-%d}", monitor.config.zone))
        (label,) = monitor.store.incidents(of_monitor=False)
        incident_actions.acknowledge(monitor, label.id, "ben")
    return made


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
            incident_actions.due_repeats(monitor)
            drain(monitor.store, monitor.sender, now=monitor.clock, worker=worker_id(), due_only=True)

    def live(self, days: float, step: timedelta = timedelta(hours=1)) -> None:
        """Look again and again for so long."""
        end = self.now + timedelta(days=days)
        while self.now < end:
            self.now += step
            self.look()

    def incidents(self) -> list[Incident]:
        with self.world.opened() as monitor:
            return monitor.store.incidents(of_monitor=True)

    def roots(self) -> list[str]:
        return [m["text"] for m in self.posted()]

    def posted(self) -> list[slack.Answer]:
        """The messages about the monitor itself: a label of this history has one of its own."""
        shown = [m for name in ("ml-oncall", "ml-monitoring") for m in self.workspace.shown(name)]
        return [m for m in shown if m.get("thread_ts", m["ts"]) == m["ts"] and m["text"].startswith("Monitor: ")]

    def replies(self) -> list[str]:
        return [m["text"] for root in self.posted() for m in self.workspace.thread(root["ts"])]


@pytest.fixture
def life(judged: World, tmp_path: Path) -> Iterator[Life]:
    with slack.running() as workspace:
        yield Life(judged.copied(tmp_path), workspace)


def not_running(life: Life) -> Incident:
    (found,) = life.incidents()
    return found


def come_back(life: Life) -> None:
    """Somebody starts the scheduler again: the newest week and day are judged, after what was missed."""
    life.now += timedelta(minutes=10)
    life.look(run_what_is_due)


def run_what_is_due(monitor: Monitor) -> None:
    for window in due(monitor.clock(), monitor):
        catch_up(monitor, Run(window, tuple(monitor.config.sources)))
        run_window(monitor, window)


def due(now: datetime, monitor: Monitor) -> list[Window]:
    return [last_ready(schedule, now, monitor.config.zone) for schedule in ("weekly", "daily")]


def test_where_the_watchdog_is_paused_the_drain_says_so_and_does_its_work_until_it_is_back(life: Life) -> None:
    begun = life.now
    life.look(lambda monitor: monitor.store.put_note(Note(WATCHDOG_NOTE, begun)))

    def drain_for(minutes: int, step: int = 5) -> None:
        for _ in range(minutes // step):
            life.now += timedelta(minutes=step)
            life.look(stand_in)

    drain_for(90)
    assert life.roots() == []
    drain_for(10)
    (root,) = life.roots()
    assert root.startswith("Monitor: the watchdog is silent: The watchdog last looked at ")
    drain_for(30 * 60, step=30)
    (root,) = life.roots()
    assert "run of" in root  # a daily run is missing by now
    life.look(run_what_is_due)
    life.look(lambda monitor: monitor.store.put_note(Note(WATCHDOG_NOTE, life.now)))
    life.look()
    drain_for(30)
    assert [text.startswith("Monitor: nothing is wrong since") for text in life.roots()].count(True) == 1
    assert not_running(life).state == "resolved"


def test_a_machine_that_was_off_for_a_night_says_nothing_of_a_silent_watchdog(life: Life) -> None:
    life.look(lambda monitor: monitor.store.put_note(Note(WATCHDOG_NOTE, monitor.clock())))
    for night in range(2):  # the second time, the drain has a note of the first
        life.now += timedelta(hours=9)
        for _ in range(3):
            life.look(stand_in)
            life.now += timedelta(minutes=5)
        if night:
            life.look(lambda monitor: monitor.store.put_note(Note(WATCHDOG_NOTE, monitor.clock())))
            life.look(stand_in)
    assert life.roots() == []
    with life.world.opened() as monitor:
        assert SILENT_NOTE not in monitor.store.notes()


def test_that_nobody_answers_buttons_is_said_once_without_buttons_and_ends_when_it_is_back(life: Life) -> None:
    begun = life.now
    life.look(lambda monitor: monitor.store.put_note(Note(LISTENER_NOTE, begun)))
    for _ in range(3):
        life.now += timedelta(minutes=45)
        life.look()
    (root,) = life.roots()
    assert root.startswith(
        "Monitor: buttons of messages do not answer: Nobody answers the buttons of messages: calmon "
    )
    assert [block["type"] for block in life.posted()[0]["blocks"]].count("actions") == 0
    assert "calmon incidents ack ID" in str(life.posted()[0]["blocks"])
    life.look(lambda monitor: monitor.store.put_note(Note(LISTENER_NOTE, life.now)))
    life.look()
    (root,) = life.roots()
    assert root.startswith("Monitor: nothing is wrong since ")


def test_nine_days_of_a_dead_monitor_are_one_message_nine_reminders_at_most_and_one_back(life: Life) -> None:
    life.live(DAYS)
    (root,) = life.roots()
    assert root.startswith("Monitor: evaluations are missing")
    calls = [text for text in life.replies() if MENTION in text]
    assert len(calls) == 7
    assert all("Not acknowledged yet" in text for text in calls)
    assert sum("in less than 48 hours" in text and "New:" in text for text in life.replies()) == 1
    assert sum("The lease of tickets ended at" in text and "New:" in text for text in life.replies()) == 1
    assert (not_running(life).state, not_running(life).severity) == ("open", "critical")
    come_back(life)
    life.live(0.5)
    root = next(text for text in life.roots() if text.startswith("Monitor: "))
    assert root.startswith("Monitor: tickets has no rows")  # the made-up weeks end there: that is the only one left
    assert set(not_running(life).reasons).isdisjoint({"run_missing", "lease_ending", "lease_ended"})
    check_story(life)


def check_story(life: Life) -> None:
    """The channel as it was written, message by message."""
    read = "\n".join(story(life))
    if os.environ.get("CALMON_TEST_WRITE_CASES"):  # then read the difference before you keep it
        STORY.parent.mkdir(exist_ok=True)
        STORY.write_text(read, "utf-8")
    assert read == STORY.read_text("utf-8")


def story(life: Life) -> list[str]:
    incident = not_running(life)
    with life.world.opened() as monitor:
        thread = monitor.store.thread(str(incident.root))
    order = {"post": 0, "edit": 1, "reply": 2}
    found = []
    for each in sorted(thread, key=lambda d: (d.created_at, order[d.operation], d.sequence)):
        found += [
            f"=== {each.created_at:%a %Y-%m-%d %H:%M} {each.operation} in {each.channel}",
            *lines_of(each.payload),
        ]
        found += [""]
    return found


def test_an_acknowledged_outage_calls_nobody_any_more_and_is_reported_in_the_message_and_the_terminal(
    life: Life,
) -> None:
    life.live(3)
    before = sum(MENTION in text for text in life.replies())
    assert before == 1
    id = not_running(life).id
    listed = json.loads(command(life, "incidents", "list", "--json").stdout)
    assert [(row["kind"], row["state"]) for row in listed if row["id"] == id] == [("monitor", "open")]
    refused = command(life, "incidents", "resolve", id, "--reason", "enough", "--by", "ana")
    assert refused.returncode == 2
    assert "ends by itself once it is over" in refused.stderr
    assert command(life, "incidents", "ack", id[:8], "--by", "ana").returncode == 0
    assert "acknowledged by ana" in command(life, "incidents", "show", id).stdout
    life.live(3)
    assert sum(MENTION in text for text in life.replies()) == before
    shown = json.dumps(life.posted()[0])
    assert "Acknowledged by ana, " in shown
    assert MENTION not in shown
    come_back(life)
    life.live(0.5)
    assert sum("nothing is wrong since" in text for text in life.replies()) == 1


def test_a_button_acknowledges_and_silences_but_switches_nothing(life: Life) -> None:
    life.live(1.5)
    id = not_running(life).id

    class Desk:
        told: ClassVar[list[str]] = []

        def whisper(self, channel: str, user: str, text: str) -> None:
            self.told.append(text)

    def press(action: str) -> None:
        def handle(monitor: Monitor) -> None:
            buttons = Buttons(
                monitor, Desk(), life.workspace.team, config=lambda: monitor.config, deliver=lambda: None,
            )  # type: ignore[arg-type]  # fmt: skip
            buttons.handle(button(life.workspace, action, id))

        life.look(handle)

    press("automation_off")
    assert "it is about the monitor itself, which has no switch" in Desk.told[-1]
    press("incident_silence_week")
    assert not_running(life).state == "silenced"
    press("incident_ack")
    assert not_running(life).state == "acknowledged"


def command(life: Life, *words: str) -> subprocess.CompletedProcess[str]:
    return forked.calmon(life.world.folder, life.world.environment, *words)


def store_week(monitor: Monitor, index: int, reason: Reason, *, rejected: int = 0, rows: int = 900) -> None:
    """A week that was read and of which every verdict has this reason."""
    window = week(WEEKS[index], monitor.config.zone)
    at = window.end + timedelta(hours=7)
    bad = (RejectedRows("tickets", "outcome_out_of_range", rejected, ()),) if rejected else ()
    revision = monitor.config.revision
    monitor.store.begin_run(window, ["tickets"], run=f"r{index}", acts=True, rules_revision=revision, now=at)
    monitor.store.save_reading(window, StoredReading("tickets", rows=rows, quality=bad), at)
    verdicts = [
        Verdict(
            f"{rule.id}{label}{index}", rule.id, Subject("tickets", label), window, str(rule.metric or rule.test),
            rule.where, "not_evaluated", reason, rule.severity, 0.05,
        )
        for rule in monitor.config.rules_for("weekly") for label in ("steady", "rare")
    ]  # fmt: skip
    monitor.store.save_evaluation(window, ["tickets"], [], verdicts, [], at)
    monitor.store.finish_run(window, ["tickets"], state="done", now=at)


@pytest.mark.parametrize(
    ("reason", "found", "says"),
    [
        (
            Reason.TOO_FEW_ROWS, "nothing_judged",
            f"Nothing of tickets was judged in {WEEKS[11]} (since {WEEKS[10]}): all 6 verdicts of the weekly rules are",
        ),
        (
            Reason.SCORES_MOVED, "scores_moved",
            f"tickets in {WEEKS[11]} (since {WEEKS[10]}): automated-overconfidence, ece-increase, score-shift could "
            "not judge rare, steady",
        ),
        (
            Reason.REJECTED_ROWS,
            "rejected_rows",
            f"tickets in {WEEKS[11]} (since {WEEKS[10]}): automated-overconfidence, ",
        ),
    ],
)  # fmt: skip
def test_a_week_that_could_not_be_judged_is_not_healthy_and_says_since_when(
    tmp_path: Path, reason: Reason, found: str, says: str
) -> None:
    world = make_world(tmp_path, config=LATER)
    now = judged_at(11) + timedelta(hours=1)
    with world.opened(clock=lambda: now) as monitor:
        store_week(monitor, 10, reason)
        store_week(monitor, 11, reason)
        by_reason = {each.reason.value: each for each in watch_monitor(monitor)}
        texts = [delivery.payload["text"] for delivery in monitor.store.deliveries()]
    assert says in by_reason[found].text
    assert by_reason[found].is_unhealthy
    assert any(says in text for text in texts) == (reason is not Reason.TOO_FEW_ROWS)  # a quiet season calls nobody
    done = forked.calmon(world.folder, world.environment, "health", "--json")
    assert (done.returncode, found in [row["reason"] for row in json.loads(done.stdout)["findings"]]) == (1, True)


def test_every_row_rejected_is_reported_of_the_source_once_and_ends_with_a_good_week(tmp_path: Path) -> None:
    world = make_world(tmp_path, config=LATER)
    with world.opened(clock=lambda: judged_at(10) + timedelta(hours=1)) as monitor:
        store_week(monitor, 10, Reason.NO_ROWS, rejected=466, rows=0)
        (found,) = [each for each in watch_monitor(monitor) if each.source == "tickets"]
    assert found.reason.value == "rejected_rows"
    assert f"Every row of tickets for {WEEKS[10]} was rejected (466)" in found.text
    with world.opened(clock=lambda: judged_at(11) + timedelta(hours=1)) as monitor:
        run_window(monitor, week(WEEKS[11], monitor.config.zone))
        (incident,) = monitor.store.incidents(of_monitor=True)
        assert "no_baseline" in {v.reason.value for v in monitor.store.verdicts(schedule="weekly")}
    assert incident.state == "resolved"


def test_what_a_run_could_not_judge_is_reported_by_the_run_itself(life: Life) -> None:
    (life.world.folder / "warehouse.duckdb").unlink()
    life.now = judged_at(11)
    for _ in range(2):
        life.look(lambda monitor: run_window(monitor, week(WEEKS[11], monitor.config.zone)))
    text = next(text for text in life.roots() if text.startswith("Monitor: "))
    assert f"tickets could not be read for {WEEKS[11]}" in text
