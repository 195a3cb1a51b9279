"""Slack's side of the buttons: Socket Mode, and the Web API calls that a press needs. No decision is made here.

Socket Mode is a WebSocket that this program opens, so it needs no public address. The SDK's client keeps it
alive, and reconnects when Slack asks for it or the connection breaks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.builtin import SocketModeClient
from slack_sdk.socket_mode.client import BaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse

from monitor.alerting.slack.client import call, content_of
from monitor.core.records import Refused
from monitor.core.redaction import without_secrets

PING_S = 5.0
ALIVE_S = 300.0
"""How often a listener reports that it is connected."""
_AGAIN_S = 0.2

log = logging.getLogger(__name__)


class SocketModeResponder:
    """The calls to Slack for a press. Every method raises :class:`monitor.alerting.slack.client.TransportError`."""

    def __init__(self, client: WebClient) -> None:
        self._client = client

    def whisper(self, channel: str, user: str, text: str) -> None:
        """Show one person a text in a channel; nobody else sees it. ``text`` is escaped already."""
        call(lambda: self._client.chat_postEphemeral(channel=channel, user=user, text=text))

    def open_modal(self, trigger: str, view: Mapping[str, Any]) -> None:
        """Show a modal to the person who pressed; Slack accepts the trigger for three seconds."""
        call(lambda: self._client.views_open(trigger_id=trigger, view=dict(view)))

    def members(self, group: str) -> frozenset[str]:
        """The ids of the users in a user group (scope ``usergroups:read``)."""
        answer = call(lambda: self._client.usergroups_users_list(usergroup=group))
        users = answer.get("users")
        return frozenset(map(str, users)) if isinstance(users, list) else frozenset()


def listen(
    app_token: str,
    client: WebClient,
    handle: Callable[[Mapping[str, Any]], object],
    stop: threading.Event,
    *,
    connected: Callable[[], object] = lambda: None,
    alive: Callable[[], object] = lambda: None,
    ping: float = PING_S,
    every: float = ALIVE_S,
) -> None:
    """Hand every press to ``handle`` until ``stop`` is set; one that is being handled then is finished.

    Every envelope is acknowledged before it is handled. ``handle`` is called in threads of the SDK. A broken
    connection is noticed after ``ping`` seconds. ``alive`` is called at once and ``every`` so many seconds, while there
    is a connection. Raises :class:`Refused`.
    """
    socket = SocketModeClient(app_token, web_client=client, ping_interval=ping)
    if client.proxy is None:
        socket.proxy = None
    socket.socket_mode_request_listeners.append(_listener(handle))
    try:
        socket.connect()
        connected()
        alive()
        while not stop.wait(every):
            if socket.is_connected():
                alive()
    except SlackApiError as error:
        code = content_of(error.response).get("error")
        raise Refused(
            f"Slack opens no connection ({code}): turn Socket Mode on for the app and set CALMON_SLACK_APP_TOKEN to "
            "an app-level token (xapp-...) with the scope connections:write"
        ) from error
    except OSError as error:
        raise Refused(f"Slack was not reached: {without_secrets(error)}") from error
    finally:
        _close(socket)


def _close(socket: SocketModeClient) -> None:
    """Close the connection, and wait until that is done.

    A thread of the SDK that begins to receive just then takes back that the session is over, and the SDK would wait for
    it without end. So it is said again until the SDK is done.
    """
    closing = threading.Thread(target=_closed, args=(socket,), daemon=True)
    closing.start()
    while closing.is_alive():
        socket.current_session_state.terminated = True
        closing.join(_AGAIN_S)


def _closed(socket: SocketModeClient) -> None:
    """Close the connection. While the SDK is replacing it, it may be closed already, which raises an error."""
    try:
        socket.close()
    except (AttributeError, OSError) as error:
        log.debug("the connection was closed already: %s", error)


def _listener(
    handle: Callable[[Mapping[str, Any]], object],
) -> Callable[[BaseSocketModeClient, SocketModeRequest], None]:
    def on_request(client: BaseSocketModeClient, request: SocketModeRequest) -> None:
        try:
            client.send_socket_mode_response(SocketModeResponse(envelope_id=request.envelope_id))
        except Exception as error:  # noqa: BLE001 - whatever breaks, Slack sends it again; a press acts once
            log.warning("a press could not be acknowledged: %s", error)
        if request.type == "interactive":
            handle(request.payload if isinstance(request.payload, Mapping) else {})

    return on_request
