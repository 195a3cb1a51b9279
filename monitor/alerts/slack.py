"""Slack's Web API through slack-sdk: one attempt per call, and every failure told apart.

The SDK's own retries are off: a retry after a lost answer would post a message twice. What may have
been accepted is *ambiguous*; the outbox looks for it (:meth:`SlackSender.find`) before it sends again.
"""

from __future__ import annotations

import errno
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from slack_sdk import WebClient
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.web import SlackResponse

from monitor.records import Delivery

RATE_LIMITED = "ratelimited"
PAGES = 10
PAGE = 200

#: The message itself is at fault: no later attempt can succeed.
MESSAGE_ERRORS = frozenset({
    "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text", "invalid_attachments",
    "invalid_metadata_format", "invalid_metadata_schema", "metadata_too_large", "metadata_must_be_sent_from_app",
    "too_many_attachments", "invalid_arguments", "invalid_json", "json_not_object",
})  # fmt: skip
#: Somebody must mend something first; the message is kept. The words say what.
REMEDIES = {
    "invalid_auth": "the bot token is not valid: set CALMON_SLACK_BOT_TOKEN to a current one",
    "not_authed": "no bot token reached Slack: set CALMON_SLACK_BOT_TOKEN",
    "token_revoked": "the bot token was revoked: install the app again and set CALMON_SLACK_BOT_TOKEN",
    "token_expired": "the bot token has expired: set CALMON_SLACK_BOT_TOKEN to a current one",
    "account_inactive": "the app's account was deactivated: install the app again",
    "missing_scope": "the bot token lacks a scope",
    "channel_not_found": "no such channel, or the app cannot see it: correct `channel` in routes or invite the app",
    "is_archived": "the channel is archived: unarchive it or name another in routes",
    "not_in_channel": "the app is not in the channel: invite it",
    "restricted_action": "the workspace forbids posting there: ask its administrator",
}
#: Searching is not possible with this token or server, however often it is tried.
_CANNOT_SEARCH = frozenset({
    "missing_scope", "not_allowed_token_type", "unknown_method", "method_deprecated", "channel_not_found",
    "not_in_channel", "access_denied", "no_permission", "restricted_action", "team_access_not_granted",
})  # fmt: skip
_SERVER_AT_FAULT = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_NEVER_ARRIVED = frozenset({
    errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL,
})  # fmt: skip


class TransportError(Exception):
    """A call to Slack failed.

    ``permanent``: no later attempt of the same can succeed. ``ambiguous``: the message may have been
    accepted all the same. ``retry_after``: seconds for which Slack asked to be left alone.
    """

    def __init__(
        self, message: str, *, permanent: bool = False, ambiguous: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.permanent = permanent
        self.ambiguous = ambiguous
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class Sent:
    """Where a message stands: Slack's id of the channel and the message's timestamp in it."""

    channel_id: str
    ts: str


@dataclass(frozen=True, slots=True)
class Check:
    """What ``auth.test`` said, for ``calmon check``: ``problem`` is empty where all is well."""

    ok: bool
    team: str = ""
    user: str = ""
    problem: str = ""


class SlackSender:
    """Posts deliveries and looks for them. ``timeout`` (seconds) holds for each call."""

    def __init__(self, token: str, api_url: str | None = None, timeout: float = 6.0) -> None:
        url = api_url or WebClient.BASE_URL
        self._client = WebClient(token=token, base_url=url, timeout=timeout, retry_handlers=[])  # type: ignore[arg-type]  # urllib takes fractions
        if proxy_bypass(urlsplit(url).hostname or ""):
            self._client.proxy = None  # the SDK reads HTTPS_PROXY but not NO_PROXY

    def send(self, delivery: Delivery) -> Sent:
        """Post the delivery's payload, once. Raises :class:`TransportError`."""
        payload = delivery.payload
        answer = _call(
            lambda: self._client.chat_postMessage(
                channel=delivery.channel,
                text=payload["text"],
                blocks=payload.get("blocks"),
                metadata=payload.get("metadata"),
                unfurl_links=False,
                unfurl_media=False,
            )
        )
        return Sent(str(answer.get("channel") or ""), str(answer.get("ts") or ""))

    def find(self, delivery: Delivery) -> Sent | None:
        """The delivery in the history of its channel, known by its id in the message's metadata.

        None: the whole searched history does not hold it. Raises :class:`TransportError`,
        ``permanent`` where the token may not read the history or it is too long to be sure.
        """
        channel = delivery.external_channel or self._channel_id(delivery.channel)
        for message in self._history(channel):
            metadata = message.get("metadata") or {}
            if (metadata.get("event_payload") or {}).get("delivery_id") == delivery.id:
                return Sent(channel, str(message["ts"]))
        return None

    def check(self) -> Check:
        """Ask Slack who we are; never raises."""
        try:
            answer = _call(self._client.auth_test)
        except TransportError as error:
            return Check(False, problem=error.message)
        return Check(True, team=str(answer.get("team", "")), user=str(answer.get("user", "")))

    def _channel_id(self, channel: str) -> str:
        """The id behind ``#name``; the name itself where the list does not tell (a proxy may take it)."""
        name = channel.removeprefix("#")
        for types in ("public_channel,private_channel", "public_channel"):
            ask = partial(self._client.conversations_list, types=types, limit=PAGE)
            try:
                for found in _pages("channels", ask):
                    if name in (found.get("name"), found.get("id")):
                        return str(found["id"])
            except TransportError as error:
                if not error.permanent:
                    raise
        return name

    def _history(self, channel: str) -> Iterator[Mapping[str, Any]]:
        # No `oldest`: our clock and Slack's may differ, and the newest come first anyhow.
        ask = partial(self._client.conversations_history, channel=channel, limit=PAGE, include_all_metadata=True)
        return _pages("messages", ask)


def _pages(key: str, ask: Callable[..., SlackResponse]) -> Iterator[Mapping[str, Any]]:
    """The items under ``key`` of all pages, asked for one by one as they are needed."""
    cursor: str | None = None
    for _ in range(PAGES):
        answer = _call(partial(ask, cursor=cursor), searching=True)
        yield from answer.get(key) or ()
        cursor = (answer.get("response_metadata") or {}).get("next_cursor") or None
        if cursor is None:
            return
    raise TransportError(f"more than {PAGES * PAGE} {key}: not searched to the end", permanent=True)


def _call(call: Callable[[], SlackResponse], *, searching: bool = False) -> SlackResponse:
    """One call, every failure turned into a :class:`TransportError`."""
    try:
        return call()
    except SlackApiError as error:
        raise _refused(error, searching=searching) from error
    except (OSError, SlackClientError) as error:
        raise _unreachable(error) from error
    except Exception as error:  # an answer the SDK cannot digest must not stop a run; it may have been sent
        raise TransportError(
            f"Slack's answer was not understood ({type(error).__name__}: {error})", ambiguous=True
        ) from error


def _refused(error: SlackApiError, *, searching: bool) -> TransportError:
    """What Slack's own error means for this message."""
    response = error.response
    status, code = response.status_code, str(response.get("error") or "no error named")
    if status == 429 or code in (RATE_LIMITED, "rate_limited"):
        after = _seconds(response.headers)
        return TransportError(f"{RATE_LIMITED}: Slack asks for {after:g} s of quiet", retry_after=after)
    if searching and (code in _CANNOT_SEARCH or status == 404):
        return TransportError(f"cannot search: {_named(code, response)}", permanent=True)
    if code in MESSAGE_ERRORS:
        return TransportError(f"{code}: {_details(response)}", permanent=True)
    # Slack's codes have no spaces: words come from a proxy between us, and nobody knows what it let through
    unclear = status >= 500 or code in _SERVER_AT_FAULT or (status == 200 and " " in code)
    if unclear or status != 200:
        return TransportError(f"Slack answered {status} ({_short(code)})", ambiguous=unclear)
    return TransportError(_named(code, response))


def _unreachable(error: Exception) -> TransportError:
    """No answer. Only where no connection came about is it certain that nothing was accepted."""
    cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
    never = isinstance(cause, (socket.gaierror, ssl.SSLCertVerificationError)) or (
        isinstance(cause, OSError) and cause.errno in _NEVER_ARRIVED
    )
    what = "no answer in time" if isinstance(cause, TimeoutError) else f"{type(cause).__name__}: {cause}"
    return TransportError(f"Slack was not reached ({_short(what)})", ambiguous=not never)


def _named(code: str, response: SlackResponse) -> str:
    needed = response.get("needed")
    remedy = REMEDIES.get(code, "see Slack's documentation of chat.postMessage")
    return f"{_short(code)}: {remedy}{f' ({needed})' if needed else ''}"


def _details(response: SlackResponse) -> str:
    told = (response.get("response_metadata") or {}).get("messages") or response.get("errors") or ()
    return _short("; ".join(map(str, told)) or "Slack refuses the form of the message")


def _seconds(headers: Mapping[str, Any]) -> float:
    """``Retry-After`` in seconds; half a minute where it is missing or odd."""
    told = [str(v[0]) if isinstance(v, list) else str(v) for k, v in headers.items() if k.lower() == "retry-after"]
    try:
        return max(0.0, float(told[0])) if told else 30.0
    except ValueError:
        return 30.0


def _short(text: str) -> str:
    return text if len(text) <= 200 else text[:199] + "…"
