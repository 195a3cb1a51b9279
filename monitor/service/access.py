"""Who may ask the HTTP service for what: tokens and their scopes, this machine, a proxy where people sign in."""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import logging
import re
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

from anyio import to_thread
from fastapi import Request
from fastapi.responses import Response
from fastapi.routing import APIRoute

from monitor.service.problems import ProblemReason, RequestRefused
from monitor.service.request_limits import CALLER
from monitor.service.tokens import TokensBroken, TokensFile, entry_of, hidden

log = logging.getLogger("monitor.http")

SCOPE = "x-scope"
"""Where the OpenAPI description of an address has the scope that it needs."""
QUERY = "x-query"
"""Where it has the query parameters that its function does not declare."""
PAGE: Literal["page"] = "page"
OPEN: Literal["open"] = "open"
"""The scope of the documents, which everybody may read: they are the same in every installation."""
_REPEATED = frozenset({"segment"})
"""Query parameters that may be given more than once: one value for each column."""
_R = ProblemReason


@dataclass(frozen=True, slots=True)
class TrustedProxy:
    """A proxy on this machine where people sign in: ``header`` has their name, ``host`` is the host they ask for.

    The host keeps out a page of another site that reaches this address under a name of its own: such a page could
    send any header.
    """

    header: str
    host: str

    def person(self, request: Request) -> str | None:
        """The name of the person who signed in; None where the request is not from that proxy."""
        peer = request.client.host if request.client else ""
        named = request.headers.getlist(self.header)
        if not is_loopback(peer) or request.headers.get("host", "").lower() != self.host.lower() or len(named) != 1:
            return None
        name = "".join(char for char in named[0] if char.isprintable()).strip()[:100]
        return f"proxy:{hidden(name)}" if name else None


@dataclass(frozen=True, slots=True)
class Guard:
    """Who may do what. ``local``: the service listens on this machine only. ``proxy`` names those who may see pages."""

    tokens: TokensFile | None
    local: bool
    proxy: TrustedProxy | None = None

    def let(self, request: Request, scope: str) -> str | None:
        """The name of the caller (None: no name is needed). Raises :class:`RequestRefused`."""
        if scope == OPEN:
            return None
        here, reads = self.local and is_loopback(request.headers.get("host", "")), scope in (PAGE, "read")
        if here and self.tokens is None and reads:
            return None
        if self.proxy is not None and scope == PAGE and (person := self.proxy.person(request)) is not None:
            return person
        if self.tokens is None and reads:
            raise RequestRefused(_R.NOT_LOCAL)
        page = scope == PAGE
        asks = {"WWW-Authenticate": 'Basic realm="calmon", charset="UTF-8"' if page else 'Bearer realm="calmon"'}
        return self.let_token(
            _token(request.headers.get("authorization", ""), page=page), "read" if page else scope, asks
        )

    def let_token(self, token: str | None, scope: str, asks: Mapping[str, str] | None = None) -> str:
        """The name of a token; ``asks`` are the headers that ask for one. Raises :class:`RequestRefused`."""
        if self.tokens is None:
            raise RequestRefused(_R.NO_TOKENS)
        try:
            entries = self.tokens.entries()
        except TokensBroken as broken:
            log.error("%s", broken)
            raise RequestRefused(_R.TOKENS_UNREADABLE) from None
        entry = entry_of(entries, token) if token else None
        if entry is None:
            raise RequestRefused(_R.TOKEN_UNKNOWN if token else _R.TOKEN_MISSING, headers=asks)
        if scope not in entry.scopes:
            has = f"{entry.name} may {', '.join(sorted(entry.scopes))}, but not {scope}"
            raise RequestRefused(_R.SCOPE_MISSING, has)
        return entry.name


def is_loopback(host: str) -> bool:
    """Whether a host, or a Host header, is this machine itself.

    A page of another site that reaches this machine under a name of that site (DNS rebinding) has another host.

    >>> is_loopback("127.0.0.1:8080"), is_loopback("[::1]:80"), is_loopback("localhost"), is_loopback("evil.example")
    (True, True, True, False)
    """
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::\d*)?", host)
    name = bracketed[1] if bracketed else (host.rpartition(":")[0] if host.count(":") == 1 else host)
    if name.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _token(header: str, *, page: bool) -> str | None:
    """The token of an Authorization header; a browser can only send it as the password of Basic."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip() or None
    if not page or scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value.strip(), validate=True).decode("utf-8").partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


class GuardedRoute(APIRoute):
    """A route that checks the caller before the request. Its scope is in the OpenAPI document."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler behind the guard. Raises KeyError where the route has no scope."""
        inner, extra = super().get_route_handler(), self.openapi_extra or {}
        scope = str(extra[SCOPE])
        names = {field.alias for field in self.dependant.query_params} | set(extra.get(QUERY, ()))

        async def handler(request: Request) -> Response:
            guard: Guard = request.app.state.guard
            # in a thread, since it reads a file
            request.scope[CALLER] = await to_thread.run_sync(guard.let, request, scope)
            # parameters that would be ignored are refused: ``?scor=0.3`` must not be answered as if no score were given
            given = [name for name, _ in request.query_params.multi_items() if name not in _REPEATED]
            given += {*request.query_params} & _REPEATED
            if len(given) != len(set(given)) or not set(given) <= names:
                known = ", ".join(sorted(names)) or "none"
                raise RequestRefused(
                    _R.REQUEST_INVALID, f"a query parameter is unknown or is given twice; known: {known}"
                )
            if self.body_field is not None:
                media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
                if media_type != "application/json":
                    raise RequestRefused(_R.NOT_JSON)
                if len(request.headers.getlist("idempotency-key")) > 1:
                    raise RequestRefused(_R.REQUEST_INVALID, "Idempotency-Key is given twice")
                refuse_repeated_keys(await request.body())
            return await inner(request)

        return handler


def refuse_repeated_keys(body: bytes) -> None:
    """Refuse JSON with a key twice: which value counts depends on who reads it. What is no JSON is refused elsewhere.

    >>> refuse_repeated_keys(b'{"reason": "a", "reason": "b"}')
    Traceback (most recent call last):
    monitor.service.problems.RequestRefused: request_invalid
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise RequestRefused(_R.REQUEST_INVALID, "the body has a key twice")
        return dict(pairs)

    with suppress(ValueError, RecursionError):
        json.loads(body, object_pairs_hook=once)


def named(operation: str, scope: str, summary: str) -> dict[str, Any]:
    """The OpenAPI description of an address, and the scope that it needs."""
    extra = {SCOPE: scope, "security": [{"token": []}]}
    return {"operation_id": operation, "summary": summary, "openapi_extra": extra}
