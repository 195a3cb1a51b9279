"""Connections of the HTTP service, limited so that idle ones never keep an operator's "off" out.

A connection without a request is closed after :data:`HEAD_SECONDS`. Above a share of the file descriptors of this
process, the oldest idle connection is closed. A connection with a request under way is never closed.
"""

from __future__ import annotations

import asyncio
import resource
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 15.0
MOST_IDLE = 400
WANTED_FILES = 8192


def raise_file_limit() -> int:
    """Raise this process's limit of open files to what it needs, as far as it may; returns the limit now set."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
        return target
    return soft


def protocol(most_idle: int = MOST_IDLE, head_seconds: float = HEAD_SECONDS) -> type[H11Protocol]:
    """uvicorn's protocol with these limits; the connections of one server are counted together."""
    limits = {"most_idle": most_idle, "head_seconds": head_seconds, "idle": OrderedDict()}
    return type("LimitedProtocol", (_Limited,), limits)


class _Limited(H11Protocol):
    most_idle: int
    head_seconds: float
    idle: OrderedDict[_Limited, None]
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.idle[self] = None
        self._deadline = self.loop.call_later(self.head_seconds, self._close_if_idle)
        while len(self.idle) > self.most_idle:
            oldest = next(iter(self.idle))
            oldest._close_if_idle()
            self.idle.pop(oldest, None)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_request():
            self.idle.pop(self, None)
            self._no_deadline()
        elif self._deadline is None:  # the head of a later request has begun; uvicorn waits for its end for ever
            self._deadline = self.loop.call_later(self.head_seconds, self._close_if_idle)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._has_request() and not self.transport.is_closing():
            self.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        self.idle.pop(self, None)
        self._no_deadline()
        super().connection_lost(exc)

    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_if_idle(self) -> None:
        if not self._has_request() and not self.transport.is_closing():
            self.transport.abort()  # there is nothing to answer, and an orderly close could take for ever

    def _no_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
