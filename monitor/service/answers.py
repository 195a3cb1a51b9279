"""What the addresses of the HTTP service share: the backend, headers of caches, and pages made one at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from fastapi.responses import JSONResponse, Response

from monitor.service.backend import Service
from monitor.service.problems import ProblemReason, RequestRefused

T = TypeVar("T")

PAGES_WAITING = 4


def backend_of(request: Request) -> Service:
    """The backend of the application that answers the request."""
    backend: Service = request.app.state.backend
    return backend


def fresh(body: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """JSON that no cache keeps."""
    return JSONResponse(body, headers={"Cache-Control": "no-store", **(headers or {})})


def iso(moment: datetime | None) -> str | None:
    """A moment in UTC, as ISO 8601."""
    return None if moment is None else moment.astimezone(UTC).isoformat()


def has(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this answer already: the weak comparison of RFC 9110."""
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return if_none_match == "*" or tag.removeprefix("W/") in known


async def made(request: Request, make: Callable[[], T]) -> T:
    """Make a page, one at a time: a page takes seconds, in which routers wait.

    Raises :class:`RequestRefused` where several wait already.
    """
    limiter: CapacityLimiter = request.app.state.pages
    if limiter.statistics().tasks_waiting >= PAGES_WAITING:
        raise RequestRefused(ProblemReason.TOO_BUSY, headers={"Retry-After": "5"})
    return await to_thread.run_sync(make, limiter=limiter)
