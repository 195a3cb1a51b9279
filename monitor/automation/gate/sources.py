"""The sources of a gate's snapshot: the history itself, or calmon's HTTP service.

A reading ends within its time limit. Every failure is a :class:`ReadFailed` with a text without secrets.
"""

from __future__ import annotations

import json
import re
import secrets
import socket
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self
from urllib.parse import urlsplit

from monitor.automation.gate.forks import Whole
from monitor.automation.gate.snapshot import REQUEST, SwitchSnapshot, from_json, snapshot_of, to_json
from monitor.automation.state import GateReason
from monitor.config.environment import bearer_token, service_address
from monitor.core.sessions import TimeLimit, hang_up, in_words

if TYPE_CHECKING:
    from http.client import HTTPConnection, HTTPResponse

PATH = "/v1/automation"
LARGEST_BODY = 16 * 2**20
_PIECE = 2**16
_WHOLE = Whole()
"""Imports and readings of SQLite are inside it, so that a fork waits for their end."""


class ReadFailed(Exception):
    """A reading failed; ``reason`` is the gate's reason once it must close."""

    def __init__(self, reason: GateReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


class Source(Protocol):
    """Reads a snapshot, or None if the last one is still valid; raises :class:`ReadFailed`."""

    reason: GateReason

    def read(self, limit_s: float) -> SwitchSnapshot | None:
        """The snapshot now, within about ``limit_s`` seconds."""

    def for_child(self) -> Self:
        """A copy for a forked process, which shares nothing with this one."""

    def forget(self) -> None:
        """Read the whole snapshot next time, whether it has changed or not."""


class StoreSource:
    """The history in SQLite or PostgreSQL. SQLAlchemy is imported with the first reading."""

    reason = GateReason.STORE_UNREADABLE

    def __init__(self, url: str, folder: Path | None = None) -> None:
        self._url = url
        self._folder = folder or Path.cwd()  # now, since the program may change its folder before the first reading
        self._reader: Any = None

    def for_child(self) -> Self:
        """A new source with the same address."""
        return type(self)(self._url, self._folder)

    def forget(self) -> None:
        """Do nothing: each reading is complete."""

    def read(self, limit_s: float) -> SwitchSnapshot:
        """Read the snapshot in one transaction. Raises :class:`ReadFailed`."""
        try:
            with _WHOLE:
                from monitor.history.errors import HistoryError  # noqa: PLC0415 - not needed with HTTP
                from monitor.history.reader import SwitchReader  # noqa: PLC0415
        except ImportError as error:
            raise ReadFailed(self.reason, f"{error.name} is not installed here") from error
        limit = TimeLimit(limit_s)
        try:
            with _WHOLE:  # the driver
                self._reader = self._reader or SwitchReader(self._url, limit_s=limit_s, folder=self._folder)
            with _WHOLE if self._reader.is_file else nullcontext(), limit.watching(self._reader.cancel):
                at, found = self._reader.read()
            # the same check as for HTTP: an invalid row must not mean "yes"
            return from_json(to_json(snapshot_of(at, found.switches, found.automate_at, found.identity)))
        except HistoryError as error:
            detail = f"the history did not answer within {in_words(limit_s)}" if limit.expired else str(error)
            raise ReadFailed(self.reason, detail) from error
        except ImportError as error:
            detail = f"{error.name or 'psycopg'} is not installed here; it comes with calibration-monitor"
            raise ReadFailed(self.reason, detail) from error
        except Exception as error:  # tables may hold anything
            raise ReadFailed(self.reason, f"the history holds what is no snapshot: {type(error).__name__}") from error


class HttpSource:
    """``GET /v1/automation`` of calmon's service, each time on a new connection; redirects are not followed.

    Raises ValueError for an invalid address or token.
    """

    reason = GateReason.SERVICE_FAILED

    def __init__(self, url: str, token: str | None = None) -> None:
        self._url = service_address(url)
        self._token = bearer_token(token) if token else None
        self._etag: str | None = None

    def for_child(self) -> Self:
        """A new source with the same address and token, which remembers no answer."""
        return type(self)(self._url, self._token)

    def forget(self) -> None:
        """Request the whole snapshot next time, not only whether it has changed."""
        self._etag = None

    def read(self, limit_s: float) -> SwitchSnapshot | None:
        """Read the snapshot; None if the service answers that it has not changed. Raises :class:`ReadFailed`."""
        with _WHOLE:
            from http.client import HTTPException  # noqa: PLC0415 - not needed with a history

        limit = TimeLimit(limit_s)
        connection = _connection(self._url, limit_s)
        sockets: list[socket.socket] = []
        try:
            with limit.watching(lambda: hang_up([connection.sock, *sockets])):
                connection.connect()
                sockets.append(connection.sock)  # the connection drops it after the first line of the answer
                return self._ask(connection)
        except ReadFailed as error:
            if not limit.expired:
                raise
            raise ReadFailed(self.reason, f"no answer within {in_words(limit_s)}") from error
        except (OSError, HTTPException, ValueError, RecursionError) as error:
            is_late = limit.expired or isinstance(error, TimeoutError)
            self._fail(f"no answer within {in_words(limit_s)}" if is_late else _in_words(error), error)
        finally:
            connection.close()

    def _ask(self, connection: HTTPConnection) -> SwitchSnapshot | None:
        request_id = secrets.token_hex(16)
        headers = {"Accept": "application/json", "Cache-Control": "no-store", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self._token}"} if self._token else {}
        headers |= {"If-None-Match": self._etag} if self._etag else {}
        connection.request("GET", f"{urlsplit(self._url).path}{PATH}?request={request_id}", headers=headers)
        with closing(connection.getresponse()) as answer:
            if answer.headers.get("Age", "0").strip() != "0":  # a cached answer may be outdated
                self._fail("a cache answered in place of the service")
            if answer.status == 304 and self._etag:
                self._refuse_other(answer.headers.get(REQUEST), request_id)
                return None
            self._refuse(answer)
            document = json.loads(self._body(answer), parse_constant=_no_number)
            snapshot = from_json(document)
            self._refuse_other(document.get("request"), request_id)
            etag = answer.headers.get("ETag", "")
            self._etag = etag if re.fullmatch(r'(W/)?"[!#-~]{1,200}"', etag) else None
            return snapshot

    def _refuse_other(self, found: object, request_id: str) -> None:
        """Refuse an answer to another request: it comes from a cache, and may be outdated."""
        if found != request_id:
            self._fail("the answer is of another request: a cache answered in place of the service")

    def _refuse(self, answer: HTTPResponse) -> None:
        if answer.status in (401, 403):
            self._fail(f"the service refuses the token ({answer.status})")
        if 300 <= answer.status < 400:
            self._fail(f"the service sends elsewhere ({answer.status}), and redirects are not followed")
        if answer.status != 200:
            self._fail(f"the service answers {answer.status}")

    def _body(self, answer: HTTPResponse) -> bytes:
        pieces, size = [], 0
        while piece := answer.read1(_PIECE):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                self._fail(f"the answer is larger than {LARGEST_BODY // 2**20} MiB")
        if answer.length:  # the number of missing bytes, if the service announced a length
            self._fail("the answer ends in the middle")
        return b"".join(pieces)

    def _fail(self, detail: str, cause: BaseException | None = None) -> NoReturn:
        raise ReadFailed(self.reason, detail) from cause


def _connection(url: str, limit_s: float) -> HTTPConnection:
    from http.client import HTTPConnection, HTTPSConnection  # noqa: PLC0415

    parts = urlsplit(url)
    kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=limit_s)


def _in_words(error: BaseException) -> str:
    """The error in words, without any text that was sent or received."""
    if isinstance(error, ValueError | RecursionError):
        return "the answer is no snapshot of switches"
    reason = getattr(error, "strerror", None)
    return f"the service cannot be reached: {reason or type(error).__name__}"


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


__all__ = ["HttpSource", "ReadFailed", "Source", "StoreSource"]
