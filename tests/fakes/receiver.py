"""A receiver beside Slack: an HTTP server on this machine that records what Apprise's ``json://`` sends it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Receiver:
    """What came, as (title, text, kind); while ``refuses`` it answers 500."""

    address: str = ""
    came: list[tuple[str, str, str]] = field(default_factory=list)
    asked: int = 0
    refuses: bool = False


@contextmanager
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            found.asked += 1
            if not found.refuses:
                found.came.append((sent["title"], sent["message"], sent["type"]))
            self.send_response(500 if found.refuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.address = f"json://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
