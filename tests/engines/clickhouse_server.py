"""A local server that speaks ClickHouse's HTTP, with chDB behind it: ``python -m tests.engines.clickhouse_server``.

It runs what is posted, with the settings of the address, and answers as a server does: the bytes in the format that the
statement asks for, and a summary of what was read. It prints its port first. A process of its own, since a process has
one chDB.
"""

from __future__ import annotations

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

TRANSPORT = {
    "database", "query", "query_id", "session_id", "wait_end_of_query", "send_progress_in_http_headers",
    "http_headers_progress_interval_ms", "enable_http_compression", "client_protocol_version", "default_format",
    "cancel_http_readonly_queries_on_client_close",
}  # fmt: skip
"""Parameters of an address that are no settings of a statement here."""


def handler_of(engine: Any) -> type[BaseHTTPRequestHandler]:
    """Answers statements, one at a time."""
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = dict(parse_qsl(urlsplit(self.path).query))
            statement = self.rfile.read(int(self.headers["Content-Length"])).decode() or asked["query"]
            settings = [f"{name} = '{value}'" for name, value in asked.items() if name not in TRANSPORT]
            reads = statement.lstrip().upper().startswith(("SELECT", "WITH"))
            if reads and settings and " FORMAT " in f" {' '.join(statement.split())} ":
                before, _, form = statement.rpartition("FORMAT")
                statement = f"{before} SETTINGS {', '.join(settings)} FORMAT{form}"
            self._answer(statement)

        def _answer(self, statement: str) -> None:
            try:
                with turn:
                    found = engine.query(statement, "TabSeparated")
            except Exception as error:  # noqa: BLE001 - whatever the engine refuses, is the answer
                self._send(500, str(error).encode(), {"X-ClickHouse-Exception-Code": "1"})
                return
            read = {"read_rows": str(found.storage_rows_read()), "read_bytes": str(found.storage_bytes_read())}
            self._send(200, found.bytes() or b"", {"X-ClickHouse-Summary": json.dumps(read)})

        def do_GET(self) -> None:
            self._send(200, b"Ok.\n", {})

        def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed but the port."""

    return Handler


def _end_with_input(server: ThreadingHTTPServer) -> None:
    input()
    server.shutdown()


def main() -> None:
    """Serves until standard input ends."""
    import chdb

    server = ThreadingHTTPServer(("127.0.0.1", 0), handler_of(chdb.connect(":memory:")))
    threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()
    os._exit(0)  # chDB's own end, with threads of clients still there, now and then crashes and hangs in its report


if __name__ == "__main__":
    main()
