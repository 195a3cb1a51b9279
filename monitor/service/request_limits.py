"""The limits of the HTTP service: checks on every request before it is handled, and one log line after it.

Pure ASGI, so that it works for every application behind it. No header and no query reaches the log, and text in a
path that looks like a token is hidden there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from unicodedata import category
from urllib.parse import quote, unquote_to_bytes

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from monitor.service.problems import MEDIA_TYPE, ProblemReason, RequestRefused
from monitor.service.tokens import hidden

log = logging.getLogger("monitor.http")

BODY_BYTES = 16 * 1024
BODY_SECONDS = 10.0
AT_ONCE = 128
"""More than can wait in all lanes together, so that routers are still answered."""
FOR_CHANGES = 16
"""So many more may be changes (POST): nobody is refused an "off" because many read."""
CALLER = "calmon.caller"
_LOGGED_PATH = 300
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "x-frame-options": "SAMEORIGIN"}
_HEADERS = tuple((name.encode(), value.encode()) for name, value in _SAFE.items())


def problem_response(refused: RequestRefused, docs: str | None) -> Response:
    """The answer that says why a request was refused."""
    return JSONResponse(refused.body(docs), refused.status, headers=refused.headers, media_type=MEDIA_TYPE)


class RequestLimits:
    """Accepts a request: not too many at once, a path that is text, a body that is small and arrives in time.

    A HEAD is handled like a GET; the server leaves the body out.
    """

    def __init__(self, app: ASGIApp, *, docs: str | None = None, at_once: int = AT_ONCE) -> None:
        self._app = app
        self._docs = docs
        self._free = at_once

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        started, answer = perf_counter(), _Answer(send)
        inner = {**scope, "method": "GET" if scope["method"] == "HEAD" else scope["method"]}
        try:
            await self._let_in(inner, receive, answer)
        finally:
            raw = unquote_to_bytes(scope["raw_path"]).decode("utf-8", "replace")
            path = quote(hidden(raw)[:_LOGGED_PATH], safe="/*")
            took, caller = 1000 * (perf_counter() - started), inner.get(CALLER) or "-"
            log.info("%s %s %d %.1f ms %s", hidden(scope["method"]), path, answer.status, took, caller)
        return None

    async def _let_in(self, scope: Scope, receive: Receive, send: _Answer) -> None:
        try:
            # not UTF-8, or with control characters, which could end a line of the log
            try:
                path = unquote_to_bytes(scope["raw_path"]).decode("utf-8")
            except UnicodeDecodeError:
                raise RequestRefused(ProblemReason.PATH_INVALID) from None
            if any(category(char) == "Cc" for char in path):
                raise RequestRefused(ProblemReason.PATH_INVALID)
            replayed = await _whole_body(scope, receive)  # first: else a few slow bodies would keep everybody out
            if self._free + (FOR_CHANGES if scope["method"] == "POST" else 0) <= 0:
                raise RequestRefused(ProblemReason.TOO_BUSY, headers={"Retry-After": "1"})
            self._free -= 1
            try:
                await self._app(scope, replayed, send)
            finally:
                self._free += 1
        except RequestRefused as refused:
            await problem_response(refused, self._docs)(scope, receive, send)
        except asyncio.CancelledError:  # only the server cancels requests: those that still wait when it has to end
            ending = RequestRefused(ProblemReason.TOO_BUSY, "the service is being ended", {"Retry-After": "5"})
            if not send.status:
                await problem_response(ending, self._docs)(scope, receive, send)


class _Answer:
    """``send``, which also keeps the status and adds the headers of every answer."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message["headers"], *_HEADERS]}
        await self._send(message)


async def _whole_body(scope: Scope, receive: Receive) -> Receive:
    """Read the body, up to the limit, whether its length was announced or not; returns a function to read it again."""
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if announced.isdigit() and int(announced[:20]) > BODY_BYTES:
        raise _too_large()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            messages = await _messages(receive)
    except TimeoutError:
        raise RequestRefused(ProblemReason.BODY_TOO_SLOW, headers={"Connection": "close"}) from None

    async def again() -> Message:
        return messages.popleft() if messages else await receive()

    return again


async def _messages(receive: Receive) -> deque[Message]:
    messages: deque[Message] = deque()
    size, more = 0, True
    while more:
        message = await receive()
        messages.append(message)
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
        if size > BODY_BYTES:
            raise _too_large()
    return messages


def _too_large() -> RequestRefused:
    return RequestRefused(ProblemReason.BODY_TOO_LARGE, f"at most {BODY_BYTES:,} bytes", {"Connection": "close"})
