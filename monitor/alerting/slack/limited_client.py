"""slack-sdk's client with a limit for each request. Of its own, only each wait for bytes is limited.

A server that sends a byte every few seconds would otherwise hold a run for as long as it likes. Redirects are not
followed: the answer of another address says nothing about the message.
"""

from __future__ import annotations

import socket
import urllib.request
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from typing import Any

from slack_sdk import WebClient
from slack_sdk.web.file_upload_v2_result import FileUploadV2Result

from monitor.core.sessions import TimeLimit, hang_up

OVERRIDDEN = ("_perform_urllib_http_request_internal", "_upload_file")
if missing := [name for name in OVERRIDDEN if not hasattr(WebClient, name)]:
    raise ImportError(f"this slack-sdk has no {', '.join(missing)}, without which a call has no time limit")


class LimitedClient(WebClient):
    """A client each of whose requests ends after ``timeout`` seconds, whatever arrives until then."""

    def _perform_urllib_http_request_internal(self, url: str, req: urllib.request.Request) -> dict[str, Any]:
        """The whole answer, whatever its status. Raises OSError, of which TimeoutError when its time is up."""
        if not url.lower().startswith("http"):  # urllib opens files too
            raise ValueError("not an address of HTTP")
        through = {"http": self.proxy, "https": self.proxy} if self.proxy else None  # None: as the environment says
        limit, sockets = TimeLimit(self.timeout), list[socket.socket]()
        handlers = (urllib.request.ProxyHandler(through), _Answers(sockets, self.ssl))
        opener = urllib.request.build_opener(*handlers)
        try:
            with limit.watching(partial(hang_up, sockets)), opener.open(req, timeout=self.timeout) as answer:
                charset = answer.headers.get_content_charset() or "utf-8"
                return {"status": answer.status, "headers": answer.headers, "body": answer.read().decode(charset)}
        except Exception as error:
            if limit.expired:
                raise TimeoutError("the whole answer did not come in time") from error
            raise
        finally:
            for each in sockets:
                each.close()

    def _upload_file(self, *, url: str, data: bytes, **_: Any) -> FileUploadV2Result:
        request = urllib.request.Request(url, data, method="POST")  # noqa: S310 - it is refused where it is opened
        answer = self._perform_urllib_http_request_internal(url, request)
        return FileUploadV2Result(status=answer["status"], body=answer["body"])


class _Answers(urllib.request.HTTPSHandler, urllib.request.HTTPHandler, urllib.request.HTTPErrorProcessor):
    """Opens connections whose ``sockets`` are kept. Every answer is one, a refusal and a redirect too."""

    def __init__(self, sockets: list[socket.socket], context: Any) -> None:
        super().__init__(context=context)
        self._sockets, self._tls = sockets, context

    def http_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_connection, HTTPConnection, self._sockets), req)

    def https_open(self, req: urllib.request.Request) -> HTTPResponse:
        return self.do_open(partial(_connection, HTTPSConnection, self._sockets), req, context=self._tls)

    def http_response(self, request: urllib.request.Request, response: HTTPResponse) -> HTTPResponse:
        return response

    https_response = http_response


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
