"""Messages around a history that was put back from a backup: what Slack has already is found, not sent again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from monitor.alerting.health.watchdog import watch_monitor
from monitor.core.windows import week
from monitor.history import archive
from monitor.history.readings import StoredReading
from tests.fakes.alerts_world import UTC_ZONE, AlertsWorld, Judged, alerts_world
from tests.fakes.slack import TOKEN, FakeSlack, Fault

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
BILLING = Judged("billing", "automated-overconfidence", "breach", 0.12)
PHISHING = Judged("phishing", "automated-overconfidence", "breach", 0.11)
FINE = Judged("phishing", "automated-overconfidence", "ok", 0.01)
SEARCHES = ("conversations.history", "conversations.replies")


@pytest.fixture
def world(tmp_path: Path, slack: FakeSlack) -> Iterator[AlertsWorld]:
    with alerts_world(tmp_path, slack_bot_token=TOKEN, slack_api_url=slack.url) as found:
        yield found


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'history.sqlite'}"


def restore(world: AlertsWorld, folder: Path) -> None:
    archive.restore(url(folder), folder / "copy.sqlite", by="ann", reason="disk", now=world.clock.now)
    world.monitor.store.confirm(why="looked at", by="ann", now=world.clock.now)
    world.clock.now += HOUR


def searches(slack: FakeSlack) -> int:
    return sum(map(slack.asked, SEARCHES))


def shown(slack: FakeSlack) -> list[str]:
    """What the channel shows: the beginning of each text, "picture" for a picture."""
    return [message["text"][:10] or "picture" for message in slack.messages]


def test_what_waited_in_the_backup_and_was_sent_after_it_is_not_sent_again(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    world.sends = False
    world.evaluate("2026-W02", [BILLING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.drain(world.clock.now + HOUR)
    sent, place = shown(slack), {d.id: d.external_id for d in world.deliveries()}
    restore(world, tmp_path)
    assert {d.state for d in world.deliveries()} == {"pending"}
    world.drain(world.clock.now)
    assert shown(slack) == sent == ["billing mu", "picture"]
    assert {d.id: d.external_id for d in world.deliveries()} == place


def test_a_week_that_is_evaluated_again_after_a_restore_calls_nobody_twice(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [BILLING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.evaluate("2026-W03", [BILLING, PHISHING])
    sent = shown(slack)
    restore(world, tmp_path)
    world.evaluate("2026-W03", [BILLING, PHISHING])
    assert shown(slack) == sent
    assert sent.count("phishing m") == 1
    assert world.incident("phishing").root is not None


@pytest.mark.parametrize(("what", "more"), [("acknowledges", {}), ("silences", {"length": DAY})])
def test_a_reply_is_found_after_a_restore_although_somebody_had_changed_its_incident_by_hand(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path, what: str, more: dict[str, timedelta]
) -> None:
    world.evaluate("2026-W02", [PHISHING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.person(what, "phishing", "ana", **more)
    world.evaluate("2026-W03", [FINE])
    sent = shown(slack)
    assert sum("phishing is fine again" in message["text"] for message in slack.messages) == 2
    restore(world, tmp_path)
    world.evaluate("2026-W03", [FINE])
    assert shown(slack) == sent


def read(world: AlertsWorld, name: str, error: str = "") -> None:
    """The source is read for a week, or not; the watchdog looks after the run."""
    window = week(name, UTC_ZONE)
    world.clock.now = max(world.clock.now + HOUR, window.end + 7 * HOUR)
    found = StoredReading("tickets", "relation_error" if error else "ok", labels={}, rows=2000, error=error or None)
    world.monitor.store.save_reading(window, found, world.clock.now)
    watch_monitor(world.monitor)
    world.drain(world.clock.now)


@pytest.mark.parametrize(
    ("error", "says"),
    [("", ":large_green_circle:"), ("no column score", "*New: Monitor: automation of tickets ended")],
)
def test_the_end_of_a_trouble_of_the_monitor_and_that_of_a_lease_in_it_are_found_after_a_restore(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path, error: str, says: str
) -> None:
    def replies() -> int:
        return sum(message["text"].startswith(says) for message in slack.messages if "thread_ts" in message)

    if error:
        world.evaluate("2026-W02", [FINE])  # a lease, which ends
    read(world, "2026-W03", error="no column score")
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    read(world, "2026-W04", error)
    assert replies() == 1
    restore(world, tmp_path)
    read(world, "2026-W04", error)
    assert replies() == 1


def test_the_return_of_a_trouble_of_the_monitor_is_not_looked_for_since_an_earlier_one_may_have_its_name(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    read(world, "2026-W03", error="no column score")
    read(world, "2026-W03")
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    read(world, "2026-W03", error="no column score")
    read(world, "2026-W03")
    restore(world, tmp_path)
    read(world, "2026-W03", error="no column score")
    assert sum(message["text"].startswith("*It is back") for message in slack.messages) == 2


def test_nothing_is_looked_for_of_a_window_that_ended_after_the_restore_and_nothing_without_a_restore(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [BILLING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    assert searches(slack) == 0
    restore(world, tmp_path)
    world.evaluate("2026-W03", [BILLING, PHISHING])
    assert searches(slack) == 0


def test_after_a_restore_the_next_reminder_comes_a_repeat_later_although_the_lost_one_had_its_number(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [BILLING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.drain(world.clock.now + DAY + HOUR)
    restore(world, tmp_path)
    for hours, sent in ((0, 1), (22, 1), (24, 2)):
        world.drain(world.clock.now + hours * HOUR)
        assert sum("Not acknowledged yet" in message["text"] for message in slack.messages) == sent


def test_without_the_history_scope_what_may_be_a_repeat_says_so_and_nothing_else_does(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    world.evaluate("2026-W02", [BILLING])
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.evaluate("2026-W03", [PHISHING])
    slack.scopes -= {"channels:history"}
    restore(world, tmp_path)
    before = len(slack.messages)
    world.evaluate("2026-W03", [PHISHING])
    again = [m for m in slack.messages[before:] if not m.get("files")]
    assert [m["text"][:17] for m in again] == ["(possible repeat)"]
    before = len(slack.messages)
    world.evaluate("2026-W04", [BILLING, PHISHING])
    assert slack.messages[before:]
    assert not any("possible repeat" in m["text"] for m in slack.messages[before:])


def test_while_slack_cannot_be_searched_a_message_of_a_restored_history_waits(
    world: AlertsWorld, slack: FakeSlack, tmp_path: Path
) -> None:
    archive.backup(url(tmp_path), tmp_path / "copy.sqlite")
    world.evaluate("2026-W02", [BILLING])
    sent = shown(slack)
    restore(world, tmp_path)
    slack.fail_always("conversations.history", Fault.server_error())
    world.evaluate("2026-W02", [BILLING])
    assert shown(slack) == sent
    slack.heal()
    world.drain(world.clock.now + HOUR)
    assert shown(slack) == sent
    assert {d.state for d in world.deliveries()} == {"sent"}
