"""slack-sdk's client with a limit for each whole call. Of its own, only each wait for bytes is limited.

A server that sends a byte every few seconds would otherwise hold a run for as long as it likes. Redirects are not
followed: the answer of another address says nothing about the message.
"""

from __future__ import annotations

import socket
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any

from slack_sdk import WebClient
from slack_sdk.web.file_upload_v2_result import FileUploadV2Result

from monitor.core.sessions import TimeLimit

_here = threading.local()  # the sockets of this thread's request: presses are handled in several threads


OVERRIDDEN = ("_perform_urllib_http_request", "_perform_urllib_http_request_internal", "_upload_file")
if missing := [name for name in OVERRIDDEN if not hasattr(WebClient, name)]:
    raise ImportError(f"this slack-sdk has no {', '.join(missing)}, without which a call has no time limit")


class LimitedClient(WebClient):
    """A client each of whose requests ends after ``timeout`` seconds, whatever arrives until then."""

    def _perform_urllib_http_request(self, *, url: str, args: dict[str, dict[str, Any]]) -> dict[str, Any]:
        with self._limited():
            return super()._perform_urllib_http_request(url=url, args=args)

    def _perform_urllib_http_request_internal(self, url: str, req: urllib.request.Request) -> dict[str, Any]:
        return self._ask(req)

    def _upload_file(self, *, url: str, data: bytes, **_: Any) -> FileUploadV2Result:
        with self._limited():
            answer = self._ask(urllib.request.Request(url, data, method="POST"))  # noqa: S310 - see _ask
            return FileUploadV2Result(status=answer["status"], body=answer["body"])

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """End the requests of the block when its time is up, with TimeoutError."""
        limit, sockets = TimeLimit(self.timeout), list[socket.socket]()
        _here.sockets = sockets
        try:
            with limit.watching(lambda: _hang_up(sockets)):
                yield
        except Exception as error:
            if limit.expired:
                raise TimeoutError("the whole answer did not come in time") from error
            raise
        finally:
            for each in sockets:
                each.close()

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        if not request.full_url.lower().startswith("http"):  # urllib opens files too
            raise ValueError("not an address of HTTP")
        through = {"http": self.proxy, "https": self.proxy} if self.proxy else None  # None: as the environment says
        handlers = (_Plain(_here.sockets), _Encrypted(_here.sockets, self.ssl), _NoRedirects())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler(through), *handlers)
        with opener.open(request, timeout=self.timeout) as answer:
            charset = answer.headers.get_content_charset() or "utf-8"
            return {"status": answer.status, "headers": answer.headers, "body": answer.read().decode(charset)}


class _Plain(urllib.request.HTTPHandler):
    def __init__(self, sockets: list[socket.socket]) -> None:
        super().__init__()
        self._made = partial(_connection, HTTPConnection, sockets)

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._made, req)


class _Encrypted(urllib.request.HTTPSHandler):
    def __init__(self, sockets: list[socket.socket], context: Any) -> None:
        super().__init__(context=context)
        self._made, self._tls = partial(_connection, HTTPSConnection, sockets), context

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(self._made, req, context=self._tls)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Return nothing, so that the redirect is the answer."""


def _connection(
    kind: type[HTTPConnection], sockets: list[socket.socket], *arguments: Any, **named: Any
) -> HTTPConnection:
    made = kind(*arguments, **named)
    made._create_connection = partial(_connected, sockets)  # type: ignore[attr-defined]  # http.client's own place for it
    return made


def _connected(sockets: list[socket.socket], *arguments: Any, **named: Any) -> socket.socket:
    """A connected socket. A duplicate is kept, since TLS takes the socket itself over during its handshake."""
    made = socket.create_connection(*arguments, **named)
    sockets.append(made.dup())
    return made


def _hang_up(sockets: list[socket.socket]) -> None:
    for each in tuple(sockets):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
