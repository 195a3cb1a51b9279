"""What is kept of an outage of the history: its file has room on a full disk, and it ends when more is taken."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from monitor.alerting.health import message, outage
from monitor.alerting.health.issues import failed_note, findings
from monitor.alerting.health.outage import Recipient
from monitor.alerting.health.watchdog import is_not_running_reported, note_failure, observed, watch_runs
from monitor.config.settings import Settings
from monitor.core.records import Note
from monitor.core.windows import day, week
from monitor.history.readings import StoredReading
from monitor.history.store import Store
from monitor.run import deliver
from tests.fakes import slack
from tests.fakes.alerts_world import UTC_ZONE, AlertsWorld, alerts_world
from tests.fakes.world import CONFIG, World, make_world

NOW = datetime(2026, 9, 2, 6, tzinfo=UTC)
HOUR = timedelta(hours=1)
TO = Recipient("#ml-monitoring", None, timedelta(hours=24))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("outage"), config=CONFIG.replace('"}', '", repeat: 24h}'))


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
) -> None:
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


def test_a_flow_that_fails_on_a_full_disk_is_one_message_and_none_that_was_stored_comes_later(
    tmp_path: Path, workspace: slack.FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
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
) -> None:
    with world.opened(lambda: NOW, slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as monitor:
        assert not is_not_running_reported(monitor.store, monitor.config, NOW)
        note_failure(monitor.store, "calmon-weekly", "database or disk is full", NOW)
        watch_runs(monitor)
        deliver(monitor)
        told = [is_not_running_reported(monitor.store, monitor.config, NOW + n * HOUR) for n in (0, 23, 25)]
        monitor.store.drop_note(failed_note("weekly"))
        watch_runs(monitor)
        assert not is_not_running_reported(monitor.store, monitor.config, NOW + HOUR)
    assert told == [True, True, False]


def test_the_statement_with_its_data_is_not_in_the_message_of_an_outage() -> None:
    error = str(OperationalError("INSERT INTO deliveries VALUES (?)", {"payload": "secret text"}, Exception("full")))
    made = message.history_down(
        "calmon-weekly", f"{error}\nagain: {error}\nat last", NOW, NOW, channel="#a", mention=None, repeat=None,
        number=0, ttl_s=30,
    )  # fmt: skip
    assert "full" in str(made)
    assert "at last" in str(made)
    assert "INSERT" not in str(made)
    assert "secret text" not in str(made)


def test_a_failure_noted_under_a_clock_ahead_is_none_now_and_ends_with_the_next_run(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as alerts:
        store, now = alerts.monitor.store, alerts.clock.now
        note_failure(store, "calmon-weekly", "a test", now + timedelta(days=30))
        assert "flow_failed" not in reasons(alerts)
        window = week("2026-W02", UTC_ZONE)
        store.begin_run(window, run="r", acts=True, rules_revision="r", now=now)
        store.finish_run(window, state="failed", now=now)
        assert set(store.notes()) == {failed_note("weekly")}
        store.finish_run(window, state="done", now=now, drops=failed_note("weekly"))
        assert store.notes() == {}


def reasons(alerts: AlertsWorld) -> set[str]:
    monitor = alerts.monitor
    seen = observed(monitor.store, monitor.config, alerts.clock.now)
    return {each.reason.value for each in findings(seen, alerts.clock.now)}


def test_a_window_that_is_not_over_was_judged_under_a_clock_ahead_and_is_not_the_newest(tmp_path: Path) -> None:
    with alerts_world(tmp_path) as alerts:
        store, now = alerts.monitor.store, alerts.clock.now
        over, names = day(f"{now - timedelta(days=1):%Y-%m-%d}", UTC_ZONE), ("over", "ahead")
        for window, run in zip((over, day(f"{now:%Y-%m-%d}", UTC_ZONE)), names, strict=True):
            store.begin_run(window, run=run, acts=True, rules_revision="r", now=now)
            store.finish_run(window, state="done", now=now)
            store.save_reading(window, StoredReading("tickets", "ok"), now)
        seen = observed(store, alerts.monitor.config, now)
        assert {run.window_start for run in seen.runs} == {over.start}
        assert {reading.window_start for reading in seen.readings} == {over.start}
