"""What is kept of an outage of the history: its file has room on a full disk, and it ends when more is taken."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from monitor.alerting.health import message, outage
from monitor.alerting.health.issues import failed_note, findings
from monitor.alerting.health.look import observed
from monitor.alerting.health.watchdog import is_not_running_reported, note_failure, watch_monitor, watch_runs
from monitor.alerting.slack.client import SlackSender
from monitor.config.model import Route
from monitor.config.settings import Settings
from monitor.context import Sent
from monitor.core.records import Delivery, Note
from monitor.core.windows import day, week
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.run import deliver
from tests.fakes import slack
from tests.fakes.alerts_world import UTC_ZONE, AlertsWorld, alerts_world
from tests.fakes.world import CONFIG, World, make_world

NOW = datetime(2026, 9, 2, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
TO = Route(channel="#ml-monitoring", repeat=timedelta(hours=24))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("outage"), config=CONFIG.replace('"}', '", repeat: 24h}'))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of an outage is below the working directory."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def workspace() -> Iterator[slack.FakeSlack]:
    with slack.running() as server:
        yield server


def settings_with(world: World, workspace: slack.FakeSlack) -> Settings:
    return world.settings(slack_bot_token=slack.TOKEN, slack_api_url=workspace.url)


def no_new_file(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Path.open

    def opened(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if mode[0] in "wxa":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return plain(path, mode, *more, **named)

    monkeypatch.setattr(Path, "open", opened)


def test_a_full_disk_is_one_message_until_more_is_taken(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
):
    settings = settings_with(world, workspace)
    with world.opened(lambda: NOW) as monitor:
        outage.end(settings, monitor.store, NOW)  # nothing is wrong: there is room from now on
        with monkeypatch.context() as patch:
            no_new_file(patch)
            for quarter in range(4):
                outage.report(settings, TO, "calmon-watchdog", "database or disk is full", NOW + quarter * HOUR / 4)
            patch.setattr(Store, "put_note", _full)
            outage.end(settings, monitor.store, NOW + HOUR)
            outage.report(settings, TO, "calmon-watchdog", "database or disk is full", NOW + HOUR)
            assert len(workspace.messages) == 1
        outage.end(settings, monitor.store, NOW + 2 * HOUR)
        outage.end(settings, monitor.store, NOW + 3 * HOUR)
        assert monitor.store.notes() == {}
    assert len(workspace.messages) == 2
    assert all("can be used again" in each["text"] for each in workspace.messages)


def _full(_store: Store, _note: Note) -> None:
    raise OperationalError("INSERT", {}, Exception("database or disk is full"))


class UsualSender(SlackSender):
    """Slack as it usually is: an answer takes a moment, in which another flow may fail too."""

    def send(self, delivery: Delivery, root: Sent | None = None) -> Sent:
        time.sleep(0.3)
        return super().send(delivery, root)


def at_once(work: Callable[[], None], monkeypatch: pytest.MonkeyPatch, workspace: slack.FakeSlack) -> None:
    """Do the same in two threads, which open the file each for itself, as two processes do."""
    monkeypatch.setattr(outage, "sender_of", lambda _: UsualSender(slack.TOKEN, workspace.url))
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work) for _ in range(2)]:
            done.result()


@pytest.mark.parametrize("room", ["there is a file", "the first outage ever"])
def test_two_flows_that_fail_at_the_same_moment_send_one_message_and_one_end(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch, room: str
):
    settings = settings_with(world, workspace)
    with world.opened(lambda: NOW) as monitor:
        if room == "there is a file":
            outage.end(settings, monitor.store, NOW)
        for now in (NOW, NOW + 25 * HOUR):
            at_once(lambda now=now: outage.report(settings, TO, "calmon-daily", "gone", now), monkeypatch, workspace)
        assert len(workspace.messages) == 2, "the message and its reminder"
        root, reminder = workspace.messages
        assert reminder["thread_ts"] == root["ts"]
        at_once(lambda: outage.end(settings, monitor.store, NOW + 26 * HOUR), monkeypatch, workspace)
    assert len(workspace.messages) == 3, "one end"
    assert workspace.asked("chat.update") == 1


def test_a_process_that_hangs_with_the_claim_keeps_no_message_back(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
):
    settings = settings_with(world, workspace)
    monkeypatch.setattr(outage, "PATIENCE_S", 0.3)
    with world.opened(lambda: NOW) as monitor:
        outage.end(settings, monitor.store, NOW)
        file = outage.file_of(settings)
        with file.with_name(f"{file.name}.lock").open("a") as hanging:
            fcntl.flock(hanging, fcntl.LOCK_EX)
            outage.report(settings, TO, "calmon-daily", "gone", NOW)
            outage.end(settings, monitor.store, NOW + HOUR)
    assert len(workspace.messages) == 2


def test_where_a_file_cannot_be_locked_the_outage_is_reported_all_the_same(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
):
    def refused(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refused)
    settings = settings_with(world, workspace)
    for quarter in range(3):
        outage.report(settings, TO, "calmon-watchdog", "gone", NOW + quarter * HOUR / 4)
    assert len(workspace.messages) == 1


LOST = slack.Fault.server_error(accept=True)
REFUSED = slack.Fault.slack_error("channel_not_found")


def test_a_message_of_which_the_answer_was_lost_is_found_and_not_sent_again(world: World, workspace: slack.FakeSlack):
    settings = settings_with(world, workspace)
    workspace.fail("chat.postMessage", LOST)
    for quarter in range(3):
        outage.report(settings, TO, "calmon-watchdog", "gone", NOW + quarter * HOUR / 4)
    workspace.fail("chat.postMessage", LOST)
    for hours in (25, 26, 27):
        outage.report(settings, TO, "calmon-watchdog", "gone", NOW + hours * HOUR)
    root, reminder = workspace.messages
    assert reminder["thread_ts"] == root["ts"]
    assert workspace.asked("conversations.history") == 1
    assert workspace.asked("conversations.replies") == 1


def test_a_message_of_which_the_answer_was_lost_is_ended_where_the_history_comes_back_before_the_next_report(
    world: World, workspace: slack.FakeSlack
):
    settings = settings_with(world, workspace)
    workspace.fail("chat.postMessage", LOST)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    with world.opened(lambda: NOW) as monitor:
        outage.end(settings, monitor.store, NOW + HOUR)
        outage.end(settings, monitor.store, NOW + 2 * HOUR)
    root, reply = workspace.messages
    assert reply["thread_ts"] == root["ts"]
    assert "can be used again" in root["text"]


def test_a_message_that_slack_refused_is_not_looked_for_and_goes_where_the_route_says_now(
    world: World, workspace: slack.FakeSlack
):
    settings = settings_with(world, workspace)
    workspace.fail("chat.postMessage", REFUSED)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    outage.report(settings, TO.model_copy(update={"channel": "#ml-oncall"}), "calmon-watchdog", "gone", NOW + HOUR)
    assert len(workspace.shown("ml-oncall")) == 1
    assert workspace.asked("conversations.history") == 0


class KilledSender(SlackSender):
    """Slack takes the message, and then the process ends."""

    def send(self, delivery: Delivery, root: Sent | None = None) -> Sent:
        super().send(delivery, root)
        raise SystemExit(137)


def test_a_message_that_a_process_had_sent_when_it_was_killed_is_found_by_the_next_one(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
):
    settings = settings_with(world, workspace)
    with monkeypatch.context() as patch:
        patch.setattr(outage, "sender_of", lambda _: KilledSender(slack.TOKEN, workspace.url))
        with pytest.raises(SystemExit):
            outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW + HOUR)
    assert len(workspace.messages) == 1


@pytest.mark.parametrize("operation", ["edit", "reply"])
def test_an_end_that_a_process_had_sent_when_it_was_killed_is_said_once(
    world: World, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch, operation: str
):
    class Killed(SlackSender):
        def send(self, delivery: Delivery, root: Sent | None = None) -> Sent:
            sent = super().send(delivery, root)
            if delivery.operation == operation:
                raise SystemExit(137)
            return sent

    settings = settings_with(world, workspace)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    with world.opened(lambda: NOW) as monitor:
        with monkeypatch.context() as patch:
            patch.setattr(outage, "sender_of", lambda _: Killed(slack.TOKEN, workspace.url))
            with pytest.raises(SystemExit):
                outage.end(settings, monitor.store, NOW + HOUR)
        for hours in (2, 3):
            outage.end(settings, monitor.store, NOW + hours * HOUR)
    root, _only_reply = workspace.messages
    assert "can be used again" in root["text"]


def test_an_end_of_which_the_answer_was_lost_is_said_once(world: World, workspace: slack.FakeSlack):
    settings = settings_with(world, workspace)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    workspace.fail("chat.postMessage", LOST)
    with world.opened(lambda: NOW) as monitor:
        for hours in (1, 2, 3):
            outage.end(settings, monitor.store, NOW + hours * HOUR)
    assert len(workspace.messages) == 2


def test_two_machines_that_share_their_reports_send_one_message(
    world: World, workspace: slack.FakeSlack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    settings = settings_with(world, workspace)
    (tmp_path / "shared").mkdir()
    for name in ("one", "two"):
        (tmp_path / name / "var").mkdir(parents=True)
        (tmp_path / name / "var" / "reports").symlink_to(tmp_path / "shared")
        monkeypatch.chdir(tmp_path / name)
        outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    assert len(workspace.messages) == 1
    with world.opened(lambda: NOW) as monitor:
        outage.end(settings, monitor.store, NOW + HOUR)
        monkeypatch.chdir(tmp_path / "one")
        outage.end(settings, monitor.store, NOW + HOUR)
    assert len(workspace.messages) == 2


def test_an_outage_that_an_earlier_version_has_reported_is_ended_in_its_own_file(
    world: World, workspace: slack.FakeSlack, tmp_path: Path
):
    settings = settings_with(world, workspace)
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW)
    (tmp_path / "var" / "reports" / "history-outage.json").rename(tmp_path / "var" / "history-outage.json")
    outage.report(settings, TO, "calmon-watchdog", "gone", NOW + HOUR)
    assert len(workspace.messages) == 1
    with world.opened(lambda: NOW) as monitor:
        outage.end(settings, monitor.store, NOW + 2 * HOUR)
        outage.end(settings, monitor.store, NOW + 3 * HOUR)
    assert len(workspace.messages) == 2
    assert (tmp_path / "var" / "history-outage.json").read_text("utf-8").strip() == ""


def test_a_shared_folder_that_is_gone_is_no_reason_to_send_more_messages(
    world: World, workspace: slack.FakeSlack, tmp_path: Path
):
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "reports").symlink_to(tmp_path / "not mounted")
    settings = settings_with(world, workspace)
    for quarter in range(3):
        outage.report(settings, TO, "calmon-watchdog", "gone", NOW + quarter * HOUR / 4)
    assert len(workspace.messages) == 1
    assert json.loads((tmp_path / "var" / "history-outage.json").read_text("utf-8"))["number"] == 1


def test_a_flow_that_fails_on_a_full_disk_is_one_message_and_none_that_was_stored_comes_later(
    tmp_path: Path, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
):
    from flows import hooks

    at, world = [NOW], make_world(tmp_path, config=CONFIG.replace('"}', '", repeat: 24h}'))
    told = {"slack_bot_token": slack.TOKEN, "slack_api_url": workspace.url}
    for name, value in (world.environment | {f"CALMON_{name.upper()}": each for name, each in told.items()}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(hooks, "utc_now", lambda: at[0])
    with world.opened(lambda: NOW, **told) as monitor:
        outage.end(monitor.settings, monitor.store, NOW)
    sa.event.listen(sa.Engine, "before_cursor_execute", _nearly_full)
    try:
        for quarter in range(3):
            at[0] = NOW + quarter * HOUR / 4
            failed = SimpleNamespace(message="OperationalError: database or disk is full")
            hooks.report_monitor_failed(SimpleNamespace(name="calmon-weekly"), None, failed)
    finally:
        sa.event.remove(sa.Engine, "before_cursor_execute", _nearly_full)
    with world.opened(lambda: NOW + 2 * HOUR, **told) as monitor:
        outage.end(monitor.settings, monitor.store, NOW + 2 * HOUR)
        monitor.store.drop_note(failed_note("weekly"))
        watch_runs(monitor)
        deliver(monitor)
    roots = {message.get("thread_ts", message["ts"]) for message in workspace.messages}
    assert len(roots) == 1


def _nearly_full(_connection: sa.Connection, _cursor: object, text: str, given: object, *_: object) -> None:
    """A disk with room for a message, though not for the row that grows when it is sent: no page is left for it."""
    if text.startswith("UPDATE deliveries") or len(str(given)) > outage.TRIED:
        raise OperationalError(text, {}, Exception("database or disk is full"))


def test_a_history_that_can_be_read_on_a_full_disk_says_for_how_long_its_message_counts(
    world: World, workspace: slack.FakeSlack
):
    with world.opened(lambda: NOW, slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as monitor:
        assert not is_not_running_reported(monitor.store, monitor.config, NOW)
        note_failure(monitor.store, "calmon-weekly", "database or disk is full", NOW)
        watch_runs(monitor)
        deliver(monitor)
        told = [is_not_running_reported(monitor.store, monitor.config, NOW + n * HOUR) for n in (0, 23, 25)]
        monitor.store.drop_note(failed_note("weekly"))
        watch_monitor(monitor)  # a look at runs alone ends nothing
        assert not is_not_running_reported(monitor.store, monitor.config, NOW + HOUR)
    assert told == [True, True, False]


def test_the_statement_with_its_data_is_not_in_the_message_of_an_outage():
    error = str(OperationalError("INSERT INTO deliveries VALUES (?)", {"payload": "secret text"}, Exception("full")))
    made = message.history_down(
        "calmon-weekly", f"{error}\nagain: {error}\nat last", NOW, NOW, channel="#a", mention=None, repeat=None,
        number=0, ttl_s=30,
    )  # fmt: skip
    assert "full" in str(made)
    assert "at last" in str(made)
    assert "INSERT" not in str(made)
    assert "secret text" not in str(made)


def test_a_failure_noted_under_a_clock_ahead_is_none_now_and_ends_with_the_next_run(tmp_path: Path):
    with alerts_world(tmp_path) as alerts:
        store, now = alerts.monitor.store, alerts.clock.now
        note_failure(store, "calmon-weekly", "a test", now + timedelta(days=30))
        assert "flow_failed" not in reasons(alerts)
        window = week("2026-W02", UTC_ZONE)
        store.begin_run(window, ["tickets"], run="r", acts=True, rules_revision="r", now=now)
        store.finish_run(window, ["tickets"], state="failed", now=now)
        assert set(store.notes()) == {failed_note("weekly")}
        store.finish_run(window, ["tickets"], state="done", now=now, drops=failed_note("weekly"))
        assert store.notes() == {}


def reasons(alerts: AlertsWorld) -> set[str]:
    monitor = alerts.monitor
    seen = observed(monitor.store, monitor.config, alerts.clock.now)
    return {each.reason.value for each in findings(seen, alerts.clock.now)}


def test_a_window_that_is_not_over_was_judged_under_a_clock_ahead_and_is_not_the_newest(tmp_path: Path):
    with alerts_world(tmp_path) as alerts:
        store, now = alerts.monitor.store, alerts.clock.now
        over, names = day(f"{now - timedelta(days=1):%Y-%m-%d}", UTC_ZONE), ("over", "ahead")
        for window, run in zip((over, day(f"{now:%Y-%m-%d}", UTC_ZONE)), names, strict=True):
            store.begin_run(window, ["tickets"], run=run, acts=True, rules_revision="r", now=now)
            store.finish_run(window, ["tickets"], state="done", now=now)
            store.save_reading(window, StoredReading("tickets", "ok"), now)
        seen = observed(store, alerts.monitor.config, now)
        assert {run.window_start for run in seen.runs} == {over.start}
        assert {reading.window_start for reading in seen.readings} == {over.start}
