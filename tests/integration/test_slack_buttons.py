"""Presses of buttons: real messages, real history, Slack's Web API and Socket Mode spoken by a local server."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.socket_mode.builtin import SocketModeClient
from typer.testing import CliRunner

from monitor.alerting.health.issues import LISTENER_NOTE
from monitor.alerting.slack.client import web_client
from monitor.alerting.slack.socket_mode import SocketModeResponder, listen
from monitor.cli import app
from monitor.config.load import load_config
from monitor.context import Monitor
from monitor.core.records import Incident, Refused
from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from monitor.operations.slack_buttons import Buttons, PressRefusal
from monitor.run import deliver, run_window
from monitor.story.incident import event_words
from tests.fakes.slack import APP_TOKEN, TOKEN, Answer, FakeSlack, Fault, running
from tests.fakes.slack_presses import button, modal
from tests.fakes.world import CONFIG, WEEKS, World, pinned_world

ROOT = Path(__file__).parents[2]
OPERATED = CONFIG.replace("initial: on_first_ok}", 'initial: on_first_ok, operators: ["<@U1>", "<!subteam^S01>"]}')
PATIENT = 60.0


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, list[Answer], dict[str, Answer]]:
    """A week that opened two incidents, automation off, and what Slack shows of it."""
    world = pinned_world(tmp_path_factory.mktemp("broken"), config=OPERATED)
    with running() as slack, world.opened(slack_bot_token=TOKEN, slack_api_url=slack.url) as monitor:
        zone = monitor.config.zone
        run_window(monitor, week(WEEKS[9], zone))
        run_window(monitor, week(WEEKS[10], zone))
        assert len(slack.texts("ml-monitoring")) == 1
        return world, list(slack.messages), dict(slack.files)


@pytest.fixture
def world(broken: tuple[World, list[Answer], dict[str, Answer]], tmp_path: Path) -> World:
    """That week, to be changed by one test; the warehouse is only read, so it is shared."""
    prepared = broken[0]
    shutil.copy(prepared.folder / "history.sqlite", tmp_path / "history.sqlite")
    shutil.copy(prepared.folder / "alerts.yaml", tmp_path / "alerts.yaml")
    return replace(prepared, folder=tmp_path, store_url=f"sqlite:///{tmp_path / 'history.sqlite'}")


@pytest.fixture
def slack(broken: tuple[World, list[Answer], dict[str, Answer]]) -> Iterator[FakeSlack]:
    with running(socket_mode=True, messages=[dict(m) for m in broken[1]], files=dict(broken[2])) as fake:
        yield fake


@pytest.fixture
def monitor(world: World, slack: FakeSlack) -> Iterator[Monitor]:
    with world.opened(slack_bot_token=TOKEN, slack_api_url=slack.url) as opened:
        yield opened


@pytest.fixture
def buttons(monitor: Monitor, slack: FakeSlack) -> Buttons:
    return handler(monitor, slack)


def handler(monitor: Monitor, slack: FakeSlack) -> Buttons:
    desk = SocketModeResponder(web_client(TOKEN, slack.url))
    return Buttons(
        monitor, desk, slack.team, config=lambda: load_config(monitor.settings.config),
        deliver=lambda: deliver(monitor),
    )  # fmt: skip


def critical(monitor: Monitor) -> Incident:
    return next(i for i in monitor.store.incidents() if i.severity == "critical")


def living(slack: FakeSlack) -> str:
    return str(next(m for m in slack.shown("ml-monitoring") if "thread_ts" not in m))


def kinds(monitor: Monitor, incident: Incident) -> list[tuple[str, str]]:
    return [(e.kind, e.actor) for e in monitor.store.incident_events(incident.id)]


def switch(monitor: Monitor) -> tuple[str, str, str]:
    state = monitor.store.switch("tickets", "slipping")
    return state.state, state.actor, state.reason


ADA, BOB = "ada (Slack U1)", "bob (Slack U2)"


def test_an_acknowledgement_is_stored_with_who_pressed_and_shown_at_once(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    found = critical(monitor)
    buttons.handle(button(slack, "incident_ack", found.id))
    assert (critical(monitor).state, critical(monitor).acknowledged_by) == ("acknowledged", ADA)
    assert kinds(monitor, found)[-1] == ("acknowledged", ADA)
    assert ADA in living(slack)
    assert slack.private[-1]["user"] == "U1"


def test_who_has_changed_the_switch_gets_an_answer_also_where_the_message_cannot_be_changed(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object, **__: object) -> None:
        raise RuntimeError("the history is locked")

    monkeypatch.setattr("monitor.alerting.compose.switch_edits", breaks)
    buttons.handle(button(slack, "automation_on", critical(monitor).id))
    assert "turned on" in buttons.handle(modal(slack, "looked at it"))
    assert switch(monitor)[0] == "on"
    assert "turned on" in slack.private[-1]["text"]


@pytest.mark.parametrize(("action", "days"), [("incident_silence_day", 1), ("incident_silence_week", 7)])
def test_a_silence_lasts_from_the_press_on(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons, action: str, days: int
) -> None:
    payload = button(slack, action, critical(monitor).id, "U2")
    buttons.handle(payload)
    found = critical(monitor)
    assert (found.state, found.silenced_by) == ("silenced", BOB)
    pressed = float(payload["actions"][0]["action_ts"])
    assert found.silenced_until.timestamp() - pressed == pytest.approx(days * 86_400, abs=0.01)


def test_anybody_turns_automation_off_and_an_operator_on_again_with_a_reason(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    id = critical(monitor).id
    buttons.handle(button(slack, "automation_off", id, "U2"))
    assert switch(monitor)[:2] == ("off", BOB)
    buttons.handle(button(slack, "automation_on", id))
    assert switch(monitor)[0] == "off"  # nothing before the reason
    view = slack.views[-1]
    assert "slipping" in view["blocks"][0]["text"]["text"]
    buttons.handle(modal(slack, "looked at it: a bad import"))
    assert switch(monitor) == ("on", ADA, "looked at it: a bad import")
    assert "automation of tickets/slipping: turned on" in slack.private[-1]["text"]
    assert "Automation is left on" in living(slack)


def test_who_turns_on_a_label_of_a_source_that_is_off_is_answered_that_it_does_not_act_yet(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    change_switch(monitor, "tickets", None, enable=False, by="ben", reason="an audit")
    buttons.handle(button(slack, "automation_on", critical(monitor).id))
    buttons.handle(modal(slack, "looked at it"))
    assert "turned on. Automation is off for all of tickets since" in slack.private[-1]["text"]


def test_a_member_of_a_group_of_operators_is_one(monitor: Monitor, slack: FakeSlack, buttons: Buttons) -> None:
    slack.groups["S01"] = ["U2"]
    buttons.handle(button(slack, "automation_on", critical(monitor).id, "U2"))
    buttons.handle(modal(slack, "checked by hand", "U2"))
    assert switch(monitor) == ("on", BOB, "checked by hand")


@pytest.mark.parametrize(
    ("user", "refusal"),
    [
        ("U2", PressRefusal.NOT_AN_OPERATOR),
        ("U2", PressRefusal.OPERATORS_UNKNOWN),  # Slack does not say who is in the group
        ("U1", PressRefusal.NO_OPERATORS),  # who was taken out of alerts.yaml is none from then on
    ],
)
def test_who_is_no_operator_is_refused_privately_and_that_is_stored(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons, world: World, user: str, refusal: PressRefusal
) -> None:
    slack.groups["S01"] = ["U3"]
    if refusal is PressRefusal.OPERATORS_UNKNOWN:
        slack.scopes.discard("usergroups:read")
    if refusal is PressRefusal.NO_OPERATORS:
        (world.folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    said = buttons.handle(button(slack, "automation_on", critical(monitor).id, user))
    assert said.startswith(refusal)
    (refused,) = [e for e in monitor.store.incident_events(critical(monitor).id) if e.kind == "refused"]
    assert refusal in refused.reason
    assert event_words(refused).startswith("automation on: ")
    assert ([p["user"] for p in slack.private], switch(monitor)[0], slack.views) == ([user], "off", [])


def test_who_stopped_being_an_operator_while_the_modal_was_open_is_refused(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons, world: World
) -> None:
    buttons.handle(button(slack, "automation_on", critical(monitor).id))
    (world.folder / "alerts.yaml").write_text(CONFIG, "utf-8")
    said = buttons.handle(modal(slack, "I have a reason"))
    assert said.startswith(PressRefusal.NO_OPERATORS)
    assert switch(monitor)[0] == "off"


def test_a_modal_without_a_reason_changes_nothing(monitor: Monitor, slack: FakeSlack, buttons: Buttons) -> None:
    buttons.handle(button(slack, "automation_on", critical(monitor).id))
    assert buttons.handle(modal(slack, " \u200b ")).startswith(PressRefusal.REASON_MISSING)
    assert switch(monitor)[0] == "off"


HOSTILE = {
    "nothing": ({"type": None, "user": None}, PressRefusal.NOT_UNDERSTOOD),
    "another type": ({"type": "shortcut"}, PressRefusal.NOT_UNDERSTOOD),
    "no actions": ({"actions": []}, PressRefusal.UNKNOWN_ACTION),
    "actions that are none": ({"actions": "rm -rf"}, PressRefusal.UNKNOWN_ACTION),
    "an unknown action": ({"actions": [{"action_id": "drop_tables", "value": "x"}]}, PressRefusal.UNKNOWN_ACTION),
    "no value": ({"actions": [{"action_id": "incident_ack", "action_ts": "1.0"}]}, PressRefusal.NO_INCIDENT),
    "a value that is no text": (
        {"actions": [{"action_id": "incident_ack", "value": {"a": 1}, "action_ts": "1.0"}]}, PressRefusal.NO_INCIDENT,
    ),
    "an unknown incident": (
        {"actions": [{"action_id": "automation_off", "value": "x' OR 1=1 --", "action_ts": "1.0"}]},
        PressRefusal.UNKNOWN_INCIDENT,
    ),
    "a wild card": (
        {"actions": [{"action_id": "automation_off", "value": "%", "action_ts": "1.0"}]}, PressRefusal.UNKNOWN_INCIDENT,
    ),
    "no time": (
        {"actions": [{"action_id": "incident_ack", "value": "x", "action_ts": "now"}]}, PressRefusal.NOT_UNDERSTOOD,
    ),
    "endless time": (
        {"actions": [{"action_id": "incident_ack", "value": "x", "action_ts": "1e400"}]}, PressRefusal.NOT_UNDERSTOOD,
    ),
    "another workspace": ({"team": {"id": "T999"}}, PressRefusal.OTHER_WORKSPACE),
    "no workspace": ({"team": None, "user": {"id": "U1"}}, PressRefusal.OTHER_WORKSPACE),
    "a guest from another workspace": ({"user": {"id": "U9", "team_id": "T999"}}, PressRefusal.OTHER_WORKSPACE),
    "another modal": ({"type": "view_submission", "view": {"callback_id": "x"}}, PressRefusal.UNKNOWN_ACTION),
    "a modal without memory": (
        {"type": "view_submission", "view": {"callback_id": "automation_on", "private_metadata": "{"}},
        PressRefusal.NO_INCIDENT,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changed", "reason"), HOSTILE.values(), ids=HOSTILE)
def test_what_is_not_understood_is_refused_by_name_and_changes_nothing(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons, changed: dict[str, Any], reason: PressRefusal
) -> None:
    before = (monitor.store.incidents(), monitor.store.switches())
    said = buttons.handle(button(slack, "incident_ack", critical(monitor).id, **changed))
    assert said.startswith(reason.value)
    assert (monitor.store.incidents(), monitor.store.switches()) == before


def test_the_beginning_of_an_id_is_not_enough_for_a_button(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    said = buttons.handle(button(slack, "automation_off", critical(monitor).id[:8]))
    assert said == PressRefusal.UNKNOWN_INCIDENT


def test_a_press_that_comes_again_does_nothing_twice_also_to_another_process(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    found = critical(monitor)
    for action in ("incident_silence_day", "automation_off"):
        payload = button(slack, action, found.id)
        for each in (buttons, buttons, handler(monitor, slack)):
            each.handle(payload)
    assert [kind for kind, _ in kinds(monitor, found)].count("silenced") == 1
    pressed = [e for e in monitor.store.switch_events("tickets", "slipping") if e.actor == ADA]
    assert len(pressed) == 1
    buttons.handle(button(slack, "automation_on", found.id))
    sent = modal(slack, "checked it")
    for each in (buttons, handler(monitor, slack)):
        each.handle(sent)
    assert [e.kind for e in monitor.store.switch_events("tickets", "slipping") if e.actor == ADA][1:] == ["enabled"]


def test_a_refusal_that_comes_again_is_answered_and_stored_once(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    slack.groups["S01"] = []
    payload = button(slack, "automation_on", critical(monitor).id, "U2")
    first, again = buttons.handle(payload), buttons.handle(payload)
    assert first == again
    assert first.startswith(PressRefusal.NOT_AN_OPERATOR)
    assert len(slack.private) == 1
    handler(monitor, slack).handle(payload)
    assert [kind for kind, _ in kinds(monitor, critical(monitor))].count("refused") == 1


def test_where_slack_takes_no_answer_the_press_is_done_all_the_same(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    slack.fail_always("chat.postEphemeral", Fault.server_error())
    slack.fail_always("chat.update", Fault.server_error())
    buttons.handle(button(slack, "incident_ack", critical(monitor).id))
    assert critical(monitor).state == "acknowledged"


# Through Socket Mode


@contextmanager
def listening(slack: FakeSlack, handle: Callable[[Mapping[str, Any]], object]) -> Iterator[None]:
    stop, failed = threading.Event(), []

    def run() -> None:
        try:
            listen(APP_TOKEN, web_client(TOKEN, slack.url), handle, stop, ping=0.5)
        except Refused as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        slack.socket.connected()
        yield
    finally:
        stop.set()
        thread.join(PATIENT)
    assert not thread.is_alive()
    assert failed == []


def until(what: Any) -> None:
    deadline = time.monotonic() + PATIENT
    while not what():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def test_an_envelope_is_acknowledged_before_the_press_is_done(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    may_go_on = threading.Event()

    def slowly(payload: Mapping[str, Any]) -> None:
        assert may_go_on.wait(PATIENT)
        buttons.handle(payload)

    with listening(slack, slowly):
        envelope = slack.socket.send(button(slack, "incident_ack", critical(monitor).id))
        slack.socket.acknowledged(envelope)
        assert critical(monitor).state == "open"
        may_go_on.set()
        until(lambda: ADA in living(slack))
    assert critical(monitor).state == "acknowledged"


def test_garbage_on_the_wire_stops_nothing_and_a_redelivered_envelope_does_nothing_twice(
    monitor: Monitor, slack: FakeSlack, buttons: Buttons
) -> None:
    with listening(slack, buttons.handle):
        for garbage in ("{", "null", "{}", '{"type": "interactive"}', '{"envelope_id": 1, "type": 2, "payload": 3}'):
            slack.socket.raw(garbage)
        for kind in ("events_api", "slash_commands", "unheard_of"):
            slack.socket.acknowledged(slack.socket.send({"x": 1}, kind))
        envelope = slack.socket.send(button(slack, "incident_silence_day", critical(monitor).id))
        slack.socket.acknowledged(envelope)
        slack.socket.redeliver(envelope)
        slack.socket.acknowledged(envelope, times=2)
        until(lambda: critical(monitor).state == "silenced")
    assert [kind for kind, _ in kinds(monitor, critical(monitor))].count("silenced") == 1


@pytest.mark.parametrize("how", ["refresh", "drop"])
def test_it_connects_anew_by_itself(monitor: Monitor, slack: FakeSlack, buttons: Buttons, how: str) -> None:
    with listening(slack, buttons.handle):
        getattr(slack.socket, how)()
        slack.socket.connected(opened=2)
        slack.socket.acknowledged(slack.socket.send(button(slack, "incident_ack", critical(monitor).id)))
        until(lambda: critical(monitor).state == "acknowledged")
    assert [kind for kind, _ in kinds(monitor, critical(monitor))].count("acknowledged") == 1


def test_a_listener_reports_that_it_is_connected_while_it_is(slack: FakeSlack) -> None:
    stop, alive = threading.Event(), threading.Event()
    seen = []

    def note() -> None:
        seen.append(time.monotonic())
        if len(seen) == 3:
            alive.set()

    listening = threading.Thread(
        target=listen, args=(APP_TOKEN, web_client(TOKEN, slack.url), lambda _: None, stop),
        kwargs={"alive": note, "every": 0.02},
    )  # fmt: skip
    listening.start()
    try:
        assert alive.wait(PATIENT)
    finally:
        stop.set()
        listening.join(PATIENT)
    assert not listening.is_alive()


def test_a_listener_ends_that_is_stopped_while_it_begins_to_receive(
    slack: FakeSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, begins = threading.Event(), threading.Event()
    named = SocketModeClient.session_id

    def until_it_is_closed(self: SocketModeClient) -> str | None:
        """The SDK's thread of a session asks for its name before it says that the session is not over."""
        if threading.current_thread() is self.current_session_runner.thread and not self.closed:
            begins.set()
            while self.current_session is not None and self.current_session.is_active():
                time.sleep(0.01)
        return named(self)

    monkeypatch.setattr(SocketModeClient, "session_id", until_it_is_closed)
    listening = threading.Thread(
        target=listen, args=(APP_TOKEN, web_client(TOKEN, slack.url), lambda _: None, stop), daemon=True
    )
    listening.start()
    assert begins.wait(PATIENT)
    stop.set()
    listening.join(20)
    assert not listening.is_alive()


def test_a_wrong_app_token_is_said_plainly(slack: FakeSlack) -> None:
    with pytest.raises(Refused, match=r"invalid_auth.*connections:write"):
        listen("xapp-wrong", web_client(TOKEN, slack.url), lambda _: None, threading.Event())


def environment(world: World, slack: FakeSlack) -> dict[str, str]:
    return world.environment | {
        "CALMON_SLACK_BOT_TOKEN": TOKEN, "CALMON_SLACK_APP_TOKEN": APP_TOKEN, "CALMON_SLACK_API_URL": slack.url,
    }  # fmt: skip


def test_the_command_listens_until_it_is_asked_to_end(world: World, slack: FakeSlack, monitor: Monitor) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "monitor", "slack"], cwd=world.folder, text=True, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, env=os.environ | environment(world, slack) | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    slack.socket.connected()
    slack.socket.acknowledged(slack.socket.send(button(slack, "incident_ack", critical(monitor).id)))
    until(lambda: ADA in living(slack))
    until(lambda: LISTENER_NOTE in monitor.store.notes())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENT)
    assert (process.returncode, err) == (0, "")
    assert out.splitlines() == ["calmon listens for buttons as calmon in Local", "calmon has stopped listening"]


@pytest.mark.parametrize(
    ("variable", "value", "code", "said"),
    [
        ("CALMON_SLACK_APP_TOKEN", "", 2, "CALMON_SLACK_APP_TOKEN is not set: turn Socket Mode on"),
        ("CALMON_SLACK_BOT_TOKEN", "", 2, "CALMON_SLACK_BOT_TOKEN is not set"),
        ("CALMON_SLACK_BOT_TOKEN", "xoxb-wrong", 1, "Slack: invalid_auth"),
        ("CALMON_SLACK_APP_TOKEN", "xapp-wrong", 1, "Slack opens no connection (invalid_auth)"),
    ],
)
def test_a_missing_or_wrong_token_is_a_plain_error(
    world: World, slack: FakeSlack, variable: str, value: str, code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, given in (environment(world, slack) | {variable: value}).items():
        monkeypatch.setenv(name, given)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    result = CliRunner().invoke(app, ["slack"])
    for number, handled in before.items():
        signal.signal(number, handled)
    assert result.exit_code == code, result.output
    assert said in " ".join(result.stderr.split())


def test_every_refusal_has_its_line_in_the_docs() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text("utf-8")
    assert [reason.value for reason in PressRefusal if f"| `{reason.value}` |" not in page] == []
