"""``calmon slack``: the buttons of Slack messages, through Socket Mode."""

from __future__ import annotations

import logging
import signal
import threading

import typer

from monitor.alerting.health.issues import LISTENER_NOTE
from monitor.alerting.slack.client import web_client
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.alerting.slack.socket_mode import SocketModeResponder, listen
from monitor.cli import common as cli
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.context import Monitor, SlackCheck
from monitor.core.records import Note
from monitor.core.redaction import without_secrets
from monitor.operations.slack_buttons import Buttons

log = logging.getLogger(__name__)


@cli.app.command(
    "slack",
    epilog="Examples:  CALMON_SLACK_APP_TOKEN_FILE=/run/secrets/app CALMON_SLACK_BOT_TOKEN_FILE=/run/secrets/bot "
    "calmon slack",
)
def slack_command() -> None:
    """The buttons of Slack messages: acknowledge, silence, automation off, and on for operators.

    Listens through Socket Mode, so no public address is needed. Ends with Ctrl-C or SIGTERM.
    """
    with cli.monitor() as opened:
        app_token = _tokens(opened)
        who = SlackCheck(False, problem="no bot token") if opened.sender is None else opened.sender.check()
        if not who.ok:
            raise cli.fail(f"Slack: {who.problem}")
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        settings = opened.settings
        client = web_client(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)  # type: ignore[union-attr]  # _tokens has looked

        def deliver() -> object:
            return drain(opened.store, opened.sender, now=opened.clock, worker=worker_id(), due_only=True)

        def config() -> Config:
            return load_config(settings.config)

        buttons = Buttons(opened, SocketModeResponder(client), who.team_id, config=config, deliver=deliver)
        listens = f"calmon listens for buttons as {who.user} in {who.team}"
        listen(
            app_token, client, buttons.handle, stop, connected=lambda: typer.echo(listens),
            alive=lambda: _note_alive(opened),
        )  # fmt: skip
    typer.echo("calmon has stopped listening")


def _note_alive(opened: Monitor) -> None:
    """Store that it is connected, for ``calmon health`` and the watchdog. A history that is down ends no listener."""
    try:
        opened.store.put_note(Note(LISTENER_NOTE, opened.clock()))
    except Exception as error:  # noqa: BLE001 - presses are answered as far as possible, and the next note follows
        log.warning("it was not noted that calmon slack is connected: %s", without_secrets(error))


def _tokens(opened: Monitor) -> str:
    """The app token; both tokens must be there."""
    settings = opened.settings
    if settings.slack_app_token is None:
        raise cli.UsageError(
            "CALMON_SLACK_APP_TOKEN is not set: turn Socket Mode on for the Slack app and make an app-level token "
            "(xapp-...) with the scope connections:write"
        )
    if settings.slack_bot_token is None:
        raise cli.UsageError("CALMON_SLACK_BOT_TOKEN is not set: without it nobody who presses can be answered")
    return settings.slack_app_token.get_secret_value()
