"""Slack's Web API through slack-sdk: one attempt per call, and an error of its own for each kind of failure.

The SDK's own retries are off: a retry after a lost answer would post a message twice. A message that may have
been accepted is *ambiguous*; the outbox looks for it (:meth:`SlackSender.find`) before it sends again.
"""

from __future__ import annotations

import base64
import binascii
import errno
import math
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import proxy_bypass

from monitor.config.settings import Settings
from monitor.context import Sent, SlackCheck
from monitor.core.records import Delivery
from monitor.core.redaction import without_secrets

if TYPE_CHECKING:
    from slack_sdk import WebClient
    from slack_sdk.errors import SlackApiError
    from slack_sdk.web import SlackResponse

RATE_LIMITED, NOT_REACHED = "ratelimited", "Slack was not reached"
PAGES = 50
PAGE = 200
#: How far Slack's clock and this machine's may differ where a search must rely on them.
CLOCKS_APART_S = 86_400.0
#: The longest wait, whatever a proxy puts into ``Retry-After``.
LONGEST_QUIET_S = 86_400.0
_TOO_MANY = "too_many"

#: The message itself is at fault: no later attempt can succeed.
MESSAGE_ERRORS = frozenset({
    "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text", "invalid_attachments",
    "invalid_metadata_format", "invalid_metadata_schema", "metadata_too_large", "metadata_must_be_sent_from_app",
    "too_many_attachments", "invalid_arguments", "invalid_json", "json_not_object", "alt_txt_too_large",
})  # fmt: skip
#: The message can no longer be changed by anybody. The words say why.
UNCHANGEABLE = {
    "message_not_found": "message_deleted: somebody deleted the message in Slack, so nothing can change in it",
    "thread_not_found": "message_deleted: somebody deleted the message in Slack",
    "cant_update_message": "cant_update_message: the message is another app's; was the bot token changed?",
    "edit_window_closed": "edit_window_closed: the workspace lets messages be edited for some time only",
}
#: Somebody must fix something first; the message is kept. The words say what.
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
#: Those of them that keep every message from one channel.
CHANNEL_ERRORS = ("channel_not_found", "is_archived", "not_in_channel", "restricted_action")
#: Those of them that keep every message, whatever its channel.
TOKEN_ERRORS = frozenset(REMEDIES) - {*CHANNEL_ERRORS, "missing_scope"}
#: Searching is not possible with this token or server, however often it is tried.
_CANNOT_SEARCH = frozenset({
    "missing_scope", "not_allowed_token_type", "unknown_method", "method_deprecated", "channel_not_found",
    "not_in_channel", "access_denied", "no_permission", "restricted_action", "team_access_not_granted",
})  # fmt: skip
_SERVER_AT_FAULT = frozenset({"internal_error", "fatal_error", "service_unavailable", "request_timeout"})
_NEVER_ARRIVED = frozenset(
    {errno.ECONNREFUSED, errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}
)


class TransportError(Exception):
    """A call to Slack failed.

    ``permanent``: no later attempt can succeed. ``ambiguous``: the message may have been accepted
    nevertheless. ``retry_after``: seconds that Slack asked to wait. ``code`` is Slack's own name of the error,
    where it gave one.
    """

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        ambiguous: bool = False,
        retry_after: float | None = None,
        code: str = "",
    ) -> None:
        self.message = without_secrets(message)
        super().__init__(self.message)
        self.permanent = permanent
        self.ambiguous = ambiguous
        self.retry_after = retry_after
        self.code = code


class SlackSender:
    """Posts deliveries and looks for them. ``timeout`` (seconds) is for each whole request."""

    def __init__(self, token: str, api_url: str | None = None, timeout: float = 6.0) -> None:
        self._token, self._url, self._timeout = token, api_url, timeout

    @cached_property
    def _client(self) -> WebClient:
        return web_client(self._token, self._url, self._timeout)

    def send(self, delivery: Delivery, root: Sent | None = None) -> Sent:
        """Post the delivery's payload once, or use it to edit, answer or illustrate the message at ``root``.

        Raises :class:`TransportError`.
        """
        if delivery.operation == "post":
            return self._post(delivery.payload, delivery.channel)
        if root is None:
            raise TransportError(f"a delivery to {delivery.operation} without its message", permanent=True)
        if delivery.operation == "edit":
            text, blocks = delivery.payload["text"], delivery.payload.get("blocks")
            # without metadata Slack keeps the message's own, by which it is found
            call(lambda: self._client.chat_update(channel=root.channel_id, ts=root.ts, text=text, blocks=blocks))
            return root
        if delivery.operation == "file":
            return self._upload(delivery, root)
        return self._post(delivery.payload, root.channel_id, thread=root.ts)

    def find(self, delivery: Delivery, root: Sent | None = None) -> Sent | None:
        """Find a delivery in its channel by its id, which is in a message's metadata or in a file's name.

        New messages are looked for in the channel, replies and files of ``root`` in its thread. None: it is not
        in the searched history. Raises :class:`TransportError`, ``permanent`` where the token may
        not read the history or it is too long to search.
        """
        if root is None:
            channel = delivery.external_channel or self._channel_id(delivery.channel)
            return _place(self._history(channel, delivery.created_at), delivery, channel)
        replies = self._client.conversations_replies
        ask = partial(replies, channel=root.channel_id, ts=root.ts, limit=PAGE, include_all_metadata=True)
        try:
            return _place(_pages("messages", ask), delivery, root.channel_id)
        except TransportError as error:
            if error.code != "thread_not_found":
                raise
            # Slack shows the replies to a deleted message in the channel itself
            return _place(self._history(root.channel_id, delivery.created_at), delivery, root.channel_id)

    def _post(self, payload: Mapping[str, Any], channel: str, thread: str | None = None) -> Sent:
        answer = call(
            lambda: self._client.chat_postMessage(
                channel=channel,
                text=payload["text"],
                blocks=payload.get("blocks"),
                metadata=payload.get("metadata"),
                thread_ts=thread,
                unfurl_links=False,
                unfurl_media=False,
            )
        )
        return _sent(answer.get("channel"), answer.get("ts"))

    def _upload(self, delivery: Delivery, root: Sent) -> Sent:
        """Put a file into the thread; its name holds the delivery's id, since a file has no metadata."""
        payload = delivery.payload
        try:
            content = base64.b64decode(payload["png"], validate=True)
        except (KeyError, binascii.Error) as error:
            raise TransportError(f"the file's content is not base64: {error}", permanent=True) from error
        answer = call(
            lambda: self._client.files_upload_v2(
                content=content,
                filename=_named_by(str(payload.get("filename") or "figure.png"), delivery.id),
                title=payload.get("title"),
                alt_txt=payload.get("alt"),
                channel=root.channel_id,
                thread_ts=root.ts,
            )
        )
        return _sent(root.channel_id, next((file.get("id") for file in _items(answer, "files")), None))

    def check(self) -> SlackCheck:
        """Ask Slack who we are; never raises."""
        try:
            answer = call(self._client.auth_test)
        except TransportError as error:
            return SlackCheck(False, problem=error.message)
        team, user, team_id = (str(answer.get(key) or "") for key in ("team", "user", "team_id"))
        return SlackCheck(True, team=team, user=user, team_id=team_id)

    def _channel_id(self, channel: str) -> str:
        """The id behind ``#name``; the name itself where the list does not have it (a proxy may take it)."""
        name = channel.removeprefix("#")
        for types in ("public_channel,private_channel", "public_channel"):
            ask = partial(self._client.conversations_list, types=types, limit=PAGE)
            try:
                for found in _pages("channels", ask):
                    if found.get("id") and name in (found.get("name"), found["id"]):
                        return str(found["id"])
            except TransportError as error:
                if not error.permanent:
                    raise
        return name

    def _history(self, channel: str, composed: datetime) -> Iterator[Mapping[str, Any]]:
        """The messages, newest first; of a long channel, at least all since a day before ``composed``.

        The request has no `oldest`: our clock and Slack's may differ, and most channels are short.
        """
        ask = partial(self._client.conversations_history, channel=channel, limit=PAGE, include_all_metadata=True)
        ts = ""
        try:
            for message in _pages("messages", ask):
                ts = str(message.get("ts") or "")
                yield message
        except TransportError as error:
            if error.code != _TOO_MANY or _number(ts, math.inf) > composed.timestamp() - CLOCKS_APART_S:
                raise


def web_client(token: str, api_url: str | None, timeout: float = 10.0) -> WebClient:
    """A client that never repeats a call by itself, and bypasses the proxy where NO_PROXY says so."""
    # a process that sends nothing need not wait for it
    from monitor.alerting.slack.limited_client import LimitedClient  # noqa: PLC0415

    url = api_url or LimitedClient.BASE_URL
    client = LimitedClient(token=token, base_url=url, timeout=timeout, retry_handlers=[])  # type: ignore[arg-type]  # urllib takes fractions
    if proxy_bypass(urlsplit(url).hostname or ""):
        client.proxy = None  # the SDK reads HTTPS_PROXY but not NO_PROXY
    return client


def sender_of(settings: Settings) -> SlackSender | None:
    """The Slack client, or None where there is no token."""
    if settings.slack_bot_token is None:
        return None
    return SlackSender(settings.slack_bot_token.get_secret_value(), settings.slack_api_url)


def _sent(channel: object, id: object) -> Sent:
    """The place that an answer names; one without a place may come from a proxy, and is looked for."""
    if not (isinstance(channel, str) and channel and isinstance(id, str) and id):
        raise _not_understood("it does not say where the message is")
    return Sent(channel, id)


def _items(answer: SlackResponse | Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The objects of a list in an answer; nothing of what is no list or no object."""
    found = answer.get(key)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _part(answer: SlackResponse | Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The object under ``key`` of an answer; empty where there is none."""
    found = answer.get(key)
    return found if isinstance(found, Mapping) else {}


def _place(messages: Iterable[Mapping[str, Any]], delivery: Delivery, channel: str) -> Sent | None:
    """The delivery's place among the messages, if it is there."""
    for message in messages:
        for file in _items(message, "files"):
            if delivery.id in f"{file.get('name')} {file.get('title')}":
                return _sent(channel, file.get("id"))
        if _part(_part(message, "metadata"), "event_payload").get("delivery_id") == delivery.id:
            return _sent(channel, message.get("ts"))
    return None


def _named_by(filename: str, id: str) -> str:
    """The file's name with the delivery's id in it.

    >>> _named_by("billing.png", "3f2a")
    'billing-3f2a.png'
    """
    if id in filename:
        return filename
    stem, dot, ending = filename.rpartition(".")
    return f"{stem}-{id}.{ending}" if dot else f"{filename}-{id}"


def _pages(key: str, ask: Callable[..., SlackResponse]) -> Iterator[Mapping[str, Any]]:
    """The items under ``key`` of all pages, requested one by one as they are needed."""
    cursor: Any = None
    for _ in range(PAGES):
        answer = call(partial(ask, cursor=cursor), searching=True)
        found = answer.get(key)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise _not_understood(f"its {key} are no list of objects")  # they may be there: no search without a result
        yield from found
        cursor = _part(answer, "response_metadata").get("next_cursor")
        if not cursor:
            return
    raise TransportError(f"more than {PAGES * PAGE} {key}: not searched to the end", permanent=True, code=_TOO_MANY)


def call(ask: Callable[[], SlackResponse], *, searching: bool = False) -> SlackResponse:
    """Make one call; every failure becomes a :class:`TransportError`."""
    from slack_sdk.errors import SlackApiError, SlackClientError  # noqa: PLC0415 - see above

    try:
        answer = ask()
    except SlackApiError as error:
        raise _refused(error, searching=searching) from error
    except (OSError, SlackClientError) as error:
        raise _unreachable(error) from error
    except Exception as error:  # an answer that the SDK cannot read must not stop a run; the message may have been sent
        raise _not_understood(f"{type(error).__name__}: {error}") from error
    if not isinstance(answer.data, dict) or answer.data.get("ok") is not True:
        raise _not_understood("it does not say whether the call succeeded")
    return answer


def _not_understood(why: str) -> TransportError:
    """The error of an answer that is not Slack's: whatever gave it may have let the message through."""
    return TransportError(f"Slack's answer was not understood ({_short(why)})", ambiguous=True)


def content_of(response: SlackResponse) -> Mapping[str, Any]:
    """What a refusal says; an error of ours where it is no JSON object."""
    return response.data if isinstance(response.data, dict) else {"error": "the answer is not Slack's"}


def _refused(error: SlackApiError, *, searching: bool) -> TransportError:
    """What Slack's own error means for this message."""
    response = error.response
    answer = content_of(response)
    status, code = response.status_code, str(answer.get("error") or "no error named")
    if status == 429 or code in (RATE_LIMITED, "rate_limited"):
        values = [v for k, v in response.headers.items() if k.lower() == "retry-after"]
        seconds = _number(str(values[0][0] if isinstance(values[0], list) else values[0]) if values else "", 30.0)
        after = min(max(0.0, seconds), LONGEST_QUIET_S)
        return TransportError(
            f"{RATE_LIMITED}: Slack asks for {after:g} s of quiet", retry_after=after, code=RATE_LIMITED
        )
    if code in UNCHANGEABLE:
        return TransportError(UNCHANGEABLE[code], permanent=True, code=code)
    if searching and (code in _CANNOT_SEARCH or status == 404):
        return TransportError(f"cannot search: {_named(code, answer)}", permanent=True, code=code)
    if code in MESSAGE_ERRORS:
        messages = _part(answer, "response_metadata").get("messages") or answer.get("errors")
        listed = messages if isinstance(messages, list) else []
        details = _short("; ".join(map(str, listed)) or "Slack refuses the form of the message")
        return TransportError(f"{code}: {details}", permanent=True, code=code)
    # Slack's codes have no spaces: words come from a proxy, and it is not known what that let through
    may_be_through = status >= 500 or status == 408 or 300 <= status < 400 or (status == 200 and " " in code)
    unclear = may_be_through or code in _SERVER_AT_FAULT
    if unclear or status != 200:
        return TransportError(f"Slack answered {status} ({_short(code)})", ambiguous=unclear)
    return TransportError(_named(code, answer), code=code)


def _unreachable(error: Exception) -> TransportError:
    """The error of a call without an answer. Only without a connection is it certain that nothing was accepted."""
    cause = error.reason if isinstance(error, URLError) and isinstance(error.reason, Exception) else error
    never = isinstance(cause, (socket.gaierror, ssl.SSLCertVerificationError)) or (
        isinstance(cause, OSError) and cause.errno in _NEVER_ARRIVED
    )
    what = "no answer in time" if isinstance(cause, TimeoutError) else f"{type(cause).__name__}: {cause}"
    return TransportError(f"{NOT_REACHED} ({_short(what)})", ambiguous=not never)


def _named(code: str, answer: Mapping[str, Any]) -> str:
    needed = answer.get("needed")
    remedy = REMEDIES.get(code, "see Slack's documentation of this error")
    return f"{_short(code)}: {remedy}{f' ({needed})' if needed else ''}"


def _number(text: str, otherwise: float) -> float:
    """The finite number in ``text``, else ``otherwise``.

    >>> _number("2.5", 30), _number("soon", 30), _number("inf", 30)
    (2.5, 30, 30)
    """
    try:
        found = float(text)
    except ValueError:
        return otherwise
    return found if math.isfinite(found) else otherwise


def _short(text: str) -> str:
    text = without_secrets(text)  # before it is cut
    return text if len(text) <= 200 else text[:199] + "…"
