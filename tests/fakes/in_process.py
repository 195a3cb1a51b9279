"""The HTTP service in this process: the real application on a real history, without a socket."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
from starlette.types import ASGIApp

from monitor.config.settings import Settings
from monitor.context import utc_now
from monitor.service.access import Guard
from monitor.service.app import create_app
from monitor.service.backend import Service
from monitor.service.tokens import TokensFile


class ServiceClient:
    """A client of the application, with these headers; every request runs on one event loop."""

    def __init__(self, app: ASGIApp, runner: asyncio.Runner, headers: dict[str, str]) -> None:
        self._app, self._runner, self._headers = app, runner, headers

    def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """Send a request, and wait for the whole answer."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            base = "http://127.0.0.1:8080"
            async with httpx.AsyncClient(transport=transport, base_url=base, headers=self._headers) as client:
                return await client.request(method, path, **more)

        return self._runner.run(ask())

    def get(self, path: str, **more: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **more)

    def rows(self, path: str) -> list[dict[str, str]]:
        """The rows of a CSV file that a page offers."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return list(csv.DictReader(io.StringIO(answer.text)))

    def post(self, path: str, **more: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, **more)


@contextmanager
def in_process(
    settings: Settings, tokens: Path | None = None, *, token: str = "", clock: Callable[[], datetime] = utc_now
) -> Iterator[ServiceClient]:
    """A client of the service with these settings and this token."""
    service = Service(settings, clock=clock)
    guard = Guard(TokensFile(tokens) if tokens else None, local=True)
    with asyncio.Runner() as runner:
        yield ServiceClient(create_app(service, guard), runner, {"Authorization": f"Bearer {token}"} if token else {})
    service.close()
