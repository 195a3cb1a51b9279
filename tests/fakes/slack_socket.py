"""Socket Mode of the local Slack: a real WebSocket on which envelopes go out and acknowledgements come back.

As with Slack, an envelope that is not acknowledged is sent again (:meth:`SocketServer.redeliver`), on any connection,
and a connection may be closed after a notice (:meth:`SocketServer.refresh`) or just break (:meth:`SocketServer.drop`).
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

Envelope = dict[str, Any]
PATIENT = 60.0


class SocketServer:
    """The WebSocket endpoint: ``sent`` and ``acked`` by envelope id, ``connections`` alive, ``opened`` ever."""

    def __init__(self) -> None:
        self._server: Server = serve(self._talk, "127.0.0.1", 0, logger=None)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._changed = threading.Condition()
        self._tickets = itertools.count(1)
        self._valid: set[str] = set()
        self.sent: dict[str, Envelope] = {}
        self.acked: dict[str, list[float]] = {}
        self.connections: list[ServerConnection] = []
        self.opened = 0
        self.refused = 0
        self._thread.start()

    def new_url(self) -> str:
        """An address good for one connection, as apps.connections.open gives it."""
        ticket = f"ticket-{next(self._tickets)}"
        self._valid.add(ticket)
        host, port = self._server.socket.getsockname()[:2]
        return f"ws://{host}:{port}/link/?ticket={ticket}&app_id=A1"

    def _talk(self, connection: ServerConnection) -> None:
        ticket = (connection.request.path if connection.request else "").partition("ticket=")[2].partition("&")[0]
        if ticket not in self._valid:
            self.refused += 1
            connection.close(1008, "too_many_websockets")
            return
        self._valid.discard(ticket)
        connection.send(json.dumps({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A1"}}))
        with self._changed:
            self.connections.append(connection)
            self.opened += 1
            self._changed.notify_all()
        try:
            for text in connection:
                self._heard(json.loads(text))
        except ConnectionClosed:
            pass
        finally:
            with self._changed:
                self.connections.remove(connection)
                self._changed.notify_all()

    def _heard(self, answer: Envelope) -> None:
        with self._changed:
            self.acked.setdefault(str(answer.get("envelope_id")), []).append(time.monotonic())
            self._changed.notify_all()

    def wait(self, what: Any, seconds: float = PATIENT) -> None:
        """Wait until ``what()`` is true; AssertionError after ``seconds``."""
        with self._changed:
            assert self._changed.wait_for(what, seconds), "the Socket Mode client did not get there"

    def connected(self, opened: int = 1) -> None:
        """Wait until the client has connected ``opened`` times and is connected."""
        self.wait(lambda: self.opened >= opened and self.connections)

    def send(self, payload: Envelope, kind: str = "interactive") -> str:
        """Send one envelope on the newest connection; returns its id."""
        id = f"envelope-{len(self.sent) + 1}"
        self.sent[id] = {
            "envelope_id": id, "type": kind, "accepts_response_payload": True, "payload": payload,
        }  # fmt: skip
        self.redeliver(id)
        return id

    def redeliver(self, id: str) -> None:
        """Send the same envelope again."""
        attempt = {"retry_attempt": len(self.acked.get(id, ())), "retry_reason": ""}
        self.raw(json.dumps(self.sent[id] | attempt))

    def raw(self, text: str) -> None:
        """Send any text on the newest connection."""
        self.wait(lambda: bool(self.connections))
        self.connections[-1].send(text)

    def acknowledged(self, id: str, times: int = 1) -> None:
        """Wait until the envelope was acknowledged ``times`` times."""
        self.wait(lambda: len(self.acked.get(id, ())) >= times)

    def refresh(self) -> None:
        """Ask the client to connect anew, as Slack does every few hours."""
        self.raw(json.dumps({"type": "disconnect", "reason": "refresh_requested", "debug_info": {}}))

    def drop(self) -> None:
        """Break every connection without a notice."""
        for connection in list(self.connections):
            connection.socket.shutdown(2)

    def close(self) -> None:
        self.drop()
        self._server.shutdown()
        self._thread.join(10)
