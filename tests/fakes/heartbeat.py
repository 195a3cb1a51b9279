"""A real server for heartbeats: it notes the calls, and answers, hangs or hangs up, as a test sets it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Calls:
    """The ``url`` to call, and the calls: (path, body). ``answer`` is a status, "hang", "reset" or "redirect"."""

    url: str = ""
    answer: int | str = 200
    made: list[tuple[str, str]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)


@contextmanager
def running() -> Iterator[Calls]:
    calls = Calls()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            calls.made.append((self.path, body))
            if calls.answer == "hang":
                calls.over.wait(30)
            if calls.answer in ("hang", "reset"):
                self.close_connection = True
                return
            self.send_response(302 if calls.answer == "redirect" else int(calls.answer))
            if calls.answer == "redirect":
                self.send_header("Location", f"http://{self.headers['Host']}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    calls.url = f"http://127.0.0.1:{server.server_address[1]}/ping/secret-1234"
    try:
        yield calls
    finally:
        calls.over.set()
        server.shutdown()
        server.server_close()
        thread.join()
