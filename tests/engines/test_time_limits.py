"""The time limit of a reading is sent to the engines whose drivers cannot cancel a statement."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from monitor.warehouse.cloud import BigQuery, Redshift, Trino
from monitor.warehouse.dialects import Dialect
from monitor.warehouse.reader import Warehouse
from tests.engines.test_compiled_sql import PACKAGES, missing

SECONDS = 59.5


def pinged(engine: sa.Engine, dialect: Dialect) -> None:
    """Asks the engine one question, with a limit of some seconds."""
    Warehouse(engine.url, engine, dialect, timeout_s=SECONDS).ping()


def wanted(name: str) -> None:
    """Skips a test of an engine that is not installed."""
    if missing(PACKAGES[name]):
        pytest.skip(f"{name} is an extra that is not installed here: make test-engines")


@pytest.mark.filterwarnings("ignore:Cannot create BigQuery Storage")
def test_bigquery_starts_jobs_with_a_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted("bigquery")
    from google.auth.credentials import AnonymousCredentials
    from google.cloud import bigquery

    sent = []
    answered = {
        "jobComplete": True, "schema": {"fields": [{"name": "1", "type": "INTEGER", "mode": "NULLABLE"}]},
        "rows": [{"f": [{"v": "1"}]}], "totalRows": "1", "jobReference": {"projectId": "p", "jobId": "j"},
    }  # fmt: skip

    def request(_: Any, *, data: Mapping[str, Any] | None = None, **__: Any) -> Mapping[str, Any]:
        if data is not None:
            sent.append(data)
        return answered | {"configuration": {"query": {}}, "status": {"state": "DONE"}}

    client = bigquery.Client("p", credentials=AnonymousCredentials())
    monkeypatch.setattr(type(client._connection), "api_request", request)
    made = sa.create_engine("bigquery://p?user_supplied_client=true", connect_args={"client": client})
    pinged(made, BigQuery())
    (job,) = sent
    assert str(job.get("jobTimeoutMs") or job["configuration"]["jobTimeoutMs"]) == "61000"


def test_redshift_limits_the_statements_of_its_session() -> None:
    wanted("redshift")
    sent = []

    class Cursor:
        description = (("1", 23, None, None, None, None, None),)
        rowcount = 1

        def execute(self, statement: str, _: object = None) -> None:
            sent.append(statement)

        def fetchone(self) -> tuple[int]:
            return (1,)

        def fetchall(self) -> list[tuple[int]]:
            return [(1,)]

        def close(self) -> None:
            """Nothing is open."""

    class Connection:
        notices: tuple[str, ...] = ()

        def cursor(self, *_: Any, **__: Any) -> Cursor:
            return Cursor()

        def commit(self) -> None:
            """Nothing was written."""

        rollback = close = commit

    made = sa.create_engine(
        "redshift+redshift_connector://host/db", creator=Connection, poolclass=NullPool, _initialize=False
    )
    pinged(made, Redshift())
    assert [each for each in sent if "timeout" in each] == ["SET statement_timeout TO 61000"]


@contextmanager
def coordinator() -> Iterator[tuple[int, list[tuple[str, str | None]]]]:
    """The port of a server that answers as Trino does, and its statements with the settings of their session."""
    sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            sent.append((text, self.headers.get("X-Trino-Session")))
            answer = {"id": "q", "infoUri": "", "stats": {"state": "FINISHED"}, "columns": [], "data": []}
            body = json.dumps(answer).encode()
            self.send_response(200)
            if text.startswith("SET SESSION"):
                self.send_header(
                    "X-Trino-Set-Session", text.removeprefix("SET SESSION ").replace(" ", "").replace("'", "")
                )
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_port, sent
    finally:
        server.shutdown()
        server.server_close()


def test_trino_limits_the_queries_of_its_session() -> None:
    wanted("trino")
    with coordinator() as (port, sent):
        pinged(sa.create_engine(f"trino://monitor@127.0.0.1:{port}/memory", poolclass=NullPool), Trino())
    texts = [text for text, _ in sent]
    assert "SET SESSION query_max_run_time = '61s'" in texts
    (settings,) = [settings for text, settings in sent if text == "SELECT 1"]
    assert settings == "query_max_run_time=61s"
