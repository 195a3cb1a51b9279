"""What the addresses of the HTTP service share: the backend, headers of caches, and pages made one at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from monitor.history.values import plain
from monitor.service.backend import Service
from monitor.service.problems import ProblemReason, RequestRefused

T = TypeVar("T")

WAITING = 20
"""So many may wait in one lane; more are asked to come again."""
LANES = ("pages", "items", "metrics")
"""In each one answer is made at a time: items wait for the warehouse, and hold up neither pages nor Prometheus."""


@dataclass
class Lane:
    """One answer at a time; ``inside`` are those that are made or wait. (A limiter's own count comes late.)"""

    limiter: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    inside: int = 0


def backend_of(request: Request) -> Service:
    """The backend of the application that answers the request."""
    backend: Service = request.app.state.backend
    return backend


def fresh(body: dict[str, Any], *, already: bool = False) -> Response:
    """JSON that no cache keeps; ``already``: an earlier request did what it tells."""
    headers = {"Cache-Control": "no-store"} | ({"Idempotency-Replayed": "true"} if already else {})
    return JSONResponse(plain(body), headers=headers)


def has(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this answer already: the weak comparison of RFC 9110."""
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return if_none_match == "*" or tag.removeprefix("W/") in known


async def made(request: Request, make: Callable[[], T], lane: str = "pages") -> T:
    """Make a page, one at a time in its lane: a page takes seconds, in which routers wait.

    Raises :class:`RequestRefused` where many wait already.
    """
    chosen: Lane = request.app.state.lanes[lane]
    if chosen.inside > WAITING:
        raise RequestRefused(ProblemReason.TOO_BUSY, headers={"Retry-After": "5"})
    chosen.inside += 1
    try:
        return await to_thread.run_sync(make, limiter=chosen.limiter)
    finally:
        chosen.inside -= 1
