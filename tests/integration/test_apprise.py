"""Receivers beside Slack, through Apprise and a local HTTP server: told at the beginning and at the end, and once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from monitor.alerting.health import outage
from monitor.alerting.health.look import observed
from monitor.alerting.health.watchdog import is_not_running_reported, note_failure, watch_monitor
from monitor.cli import app
from monitor.core.records import Action, Delivery
from monitor.operations.act import settled
from monitor.operations.incident_actions import resolve
from tests.fakes import slack
from tests.fakes.alerts_world import CONFIG, AlertsWorld, Judged, alerts_world
from tests.fakes.receiver import Receiver, receiver
from tests.fakes.world import make_world

pytestmark = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated")  # Apprise imports it on Python 3.11
BOTH = CONFIG.replace('channel: "#ml-oncall",', 'channel: "#ml-oncall", apprise: oncall,')
ALONE = (
    BOTH
    .replace('channel: "#ml-oncall", apprise: oncall, mention: "<!subteam^S0123>", repeat: 24h', "apprise: oncall")
    .replace('{channel: "#ml-monitoring", repeat: 1w}', "{apprise: mail}")
)  # fmt: skip
RULE = "automated-overconfidence"
BROKEN, WORSE, GOOD = (
    [Judged("billing", RULE, "breach", 0.12)], [Judged("billing", RULE, "breach", 0.2)],
    [Judged("billing", RULE, "ok")],
)  # fmt: skip
DEGRADED = [Judged("billing", RULE, "ok"), Judged("billing", "ece-increase", "breach", 0.06)]


@pytest.fixture
def oncall() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@contextmanager
def world_with(folder: Path, oncall: Receiver, *, config: str = BOTH, **more: str) -> Iterator[AlertsWorld]:
    given = {"apprise": f"oncall={oncall.address}", "public_url": "https://calmon.example.org"} | more
    with alerts_world(folder, config=config, **given) as world:
        yield world


def beside(world: AlertsWorld) -> list[Delivery]:
    return [each for each in world.deliveries() if each.is_beside_slack]


def test_it_is_told_when_an_incident_opens_and_when_it_is_over_and_not_in_between(
    tmp_path: Path, oncall: Receiver
) -> None:
    with world_with(tmp_path, oncall) as world:
        world.evaluate("2026-W03", BROKEN)
        assert len(oncall.came) == 1
        world.evaluate("2026-W04", WORSE)
        world.evaluate("2026-W05", GOOD)
        world.drain(world.clock.now + timedelta(hours=1))
    (top, text, kind), (end, last, over) = oncall.came
    assert (top, kind) == ("billing must not act alone", "failure")
    assert "https://calmon.example.org/label/tickets/billing" in text
    assert "Next: " in text or "Now: " in text or "Automation is off" in text
    assert not any(mark in text for mark in ("*", ":red_circle:"))  # no Slack
    assert (end, over) == ("Over: billing is fine again", "success")
    assert last.startswith("Billing is fine again.")


def test_what_becomes_critical_calls_a_receiver_that_the_lesser_trouble_did_not(
    tmp_path: Path, oncall: Receiver
) -> None:
    with world_with(tmp_path, oncall) as world:
        world.evaluate("2026-W03", DEGRADED)
        assert oncall.came == []  # the route of warnings names none
        world.person("silences", "billing", "ann", length=timedelta(days=9))
        world.evaluate("2026-W04", BROKEN)
        assert [top for top, _, _ in oncall.came] == ["billing must not act alone"]
        world.evaluate("2026-W05", DEGRADED)
        resolve(world.monitor, world.incident("billing").id, "ann", "known")
        world.drain(world.clock.now)
    assert [kind for _, _, kind in oncall.came] == ["failure", "success"]
    assert "resolved by hand: known" in oncall.came[-1][1]


def test_a_receiver_that_refuses_holds_up_neither_slack_nor_itself_for_good(tmp_path: Path, oncall: Receiver) -> None:
    with (
        slack.running() as workspace,
        world_with(tmp_path, oncall, slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as world,
    ):
        oncall.refuses = True
        world.evaluate("2026-W03", BROKEN)
        assert [each["text"].split(":")[0] for each in workspace.messages][:1] == ["billing must not act alone"]
        (kept,) = beside(world)
        assert (kept.state, oncall.came) == ("failed", [])
        assert oncall.address not in (kept.error or "")  # an address holds keys
        oncall.refuses = False
        world.drain(world.clock.now + timedelta(hours=1))
        world.drain(world.clock.now + timedelta(hours=2))
        assert (len(oncall.came), beside(world)[0].state) == (1, "sent")


def test_slack_that_refuses_does_not_hold_up_the_receiver(tmp_path: Path, oncall: Receiver) -> None:
    with (
        slack.running() as workspace,
        world_with(tmp_path, oncall, slack_bot_token=slack.TOKEN, slack_api_url=workspace.url) as world,
    ):
        workspace.archived.add("ml-oncall")
        world.evaluate("2026-W03", BROKEN)
        assert [top for top, _, _ in oncall.came] == ["billing must not act alone"]
        assert {each.state for each in world.deliveries() if not each.is_beside_slack} <= {"failed", "pending"}


def test_it_is_stored_before_it_is_sent_and_sent_once_by_who_comes_next(tmp_path: Path, oncall: Receiver) -> None:
    with world_with(tmp_path, oncall) as world:
        world.sends = False
        world.evaluate("2026-W03", BROKEN)
        assert ([each.state for each in beside(world)], oncall.came) == (["pending"], [])
        world.sends = True
        world.evaluate("2026-W03", BROKEN)
        world.drain(world.clock.now)
        assert len(oncall.came) == 1


def test_an_incident_that_was_open_before_the_route_named_it_is_told_of(tmp_path: Path, oncall: Receiver) -> None:
    with alerts_world(tmp_path) as world:
        world.evaluate("2026-W03", BROKEN)
        now = world.clock.now
    with world_with(tmp_path, oncall) as world:
        world.drain(now + timedelta(hours=1))
        world.drain(now + timedelta(hours=2))
    assert [top for top, _, _ in oncall.came] == ["billing must not act alone"]


def test_a_trouble_of_the_monitor_is_told_once_and_its_end_too(tmp_path: Path, oncall: Receiver) -> None:
    with world_with(tmp_path, oncall) as world:
        world.evaluate("2026-W03", GOOD)
        world.clock.now += timedelta(days=9)
        for _ in range(3):  # the watchdog looks each quarter of an hour
            watch_monitor(world.monitor)
            world.drain(world.clock.now + timedelta(minutes=15))
        ((top, text, kind),) = oncall.came
        assert (top, kind) == ("Monitor: automation of tickets ended", "failure")
        assert text.splitlines()[0].endswith("no evaluation renewed it, so automation is off.")
        assert text.splitlines()[-1] == "https://calmon.example.org/monitor"
        world.evaluate("2026-W04", GOOD)
        watch_monitor(world.monitor)
        world.drain(world.clock.now + timedelta(minutes=15))
        assert [kind for _, _, kind in oncall.came] == ["failure", "success"]
        assert oncall.came[-1][0].startswith("Over: Monitor: nothing is wrong since")


def test_check_and_test_know_the_receivers(tmp_path: Path, oncall: Receiver) -> None:
    made = make_world(tmp_path, config=BOTH)

    def calmon(*words: str, **more: str) -> tuple[int, str]:
        found = CliRunner(env=made.environment | {"COLUMNS": "200"} | more).invoke(app, list(words))
        return found.exit_code, " ".join(found.output.split())

    given = {"CALMON_APPRISE": f"oncall={oncall.address}"}
    assert "Apprise ok oncall" in calmon("check", **given)[1]
    assert "Apprise failed a route names oncall, which CALMON_APPRISE has not" in calmon("check")[1]
    wrong = {"CALMON_APPRISE": "oncall=nowhere://x"}
    assert "Apprise does not understand the address of oncall" in calmon("check", **wrong)[1]
    assert "CALMON_APPRISE holds no list of names" in calmon("check", CALMON_APPRISE="json://127.0.0.1")[1]
    assert "oncall (Apprise) critical sent" in calmon("incidents", "test", **given)[1]
    assert [top for top, _, _ in oncall.came] == ["Test of calmon"]


def test_routes_without_a_channel_tell_of_a_label_and_of_the_monitor_and_one_that_refuses_holds_up_nobody(
    tmp_path: Path, oncall: Receiver
) -> None:
    assert "channel:" not in ALONE
    with receiver() as mail:
        both = f"oncall={oncall.address} mail={mail.address}"
        with world_with(tmp_path, oncall, config=ALONE, apprise=both) as world:
            oncall.refuses = True
            others = [Judged("complaint", "ece-increase", "breach", 0.06), Judged("refund", RULE, "ok")]
            world.evaluate("2026-W03", [*BROKEN, *others])
            told = [top for top, _, _ in mail.came]
            assert (told, oncall.came) == (["complaint has scores that do not match what turns out"], [])
            oncall.refuses = False
            for hours in (1, 2):
                world.drain(world.clock.now + timedelta(hours=hours))
            assert [top for top, _, _ in oncall.came] == ["billing must not act alone"]
            assert {each.channel for each in world.deliveries()} == {"apprise:oncall", "apprise:mail"}
            world.clock.now += timedelta(days=9)
            for _ in range(2):
                watch_monitor(world.monitor)
                world.drain(world.clock.now + timedelta(minutes=15))
            assert [top for top, _, _ in oncall.came[1:]] == ["Monitor: automation of tickets ended"]
            note_failure(world.monitor.store, "calmon-weekly", "no such file", world.clock.now)
            watch_monitor(world.monitor)
            world.drain(world.clock.now + timedelta(minutes=15))
            assert is_not_running_reported(world.monitor.store, world.monitor.config, world.clock.now)


def test_check_incidents_and_a_run_say_how_it_went_with_a_route_without_a_channel(
    tmp_path: Path, oncall: Receiver
) -> None:
    with world_with(tmp_path, oncall, config=ALONE) as world:  # there is no address of mail
        world.evaluate("2026-W03", BROKEN)
        asked = Action("slack", "tickets", "billing", "")
        assert [each.state for each in settled(world.monitor, [asked])] == ["sent"]
        assert observed(world.monitor.store, world.monitor.config, world.clock.now).untold == frozenset()
        complaint = [Judged("complaint", RULE, "breach", 0.12)]
    with world_with(tmp_path, oncall, config=CONFIG) as world:  # and no token
        world.evaluate("2026-W04", [*BROKEN, *complaint])
        untold = observed(world.monitor.store, world.monitor.config, world.clock.now).untold
        assert untold == {("tickets", "billing"), ("tickets", "complaint")}
    made = make_world(tmp_path, config=ALONE)
    given = {"CALMON_APPRISE": f"oncall={oncall.address}", "COLUMNS": "200"}

    def calmon(*words: str) -> str:
        return " ".join(CliRunner(env=made.environment | given).invoke(app, list(words)).output.split())

    assert "Apprise failed a route names mail, which CALMON_APPRISE has not" in calmon("check")
    assert "critical slack, disable_automation oncall (Apprise)" in calmon("check")
    told = calmon("incidents", "test")
    assert "oncall (Apprise) critical sent" in told
    assert "mail (Apprise) info failed: CALMON_APPRISE has no 'mail'" in told


def test_an_outage_of_the_history_is_told_of_its_end_too_without_a_channel(tmp_path: Path, oncall: Receiver) -> None:
    with world_with(tmp_path, oncall, config=ALONE) as world:
        settings, store, now = world.monitor.settings, world.monitor.store, world.clock.now
        to = world.monitor.config.critical_route
        assert to is not None
        for _ in range(2):
            outage.report(settings, to, "calmon-weekly", "no such file", now)
        assert [(top, kind) for top, _, kind in oncall.came] == [("Monitor", "failure")]
        assert oncall.came[0][1] == "the history cannot be used: no such file"
        for _ in range(2):
            outage.end(settings, store, now + timedelta(hours=2))
        (top, text, kind) = oncall.came[-1]
        assert (len(oncall.came), kind) == (2, "success")
        assert top.startswith("The history can be used again")
        assert text.endswith("(2 h 0 min).")
