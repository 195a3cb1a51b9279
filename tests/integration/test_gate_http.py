"""A gate over HTTP, from a real server that is honest, broken, slow, or lies."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from monitor.automation import Gate, GateReason
from monitor.automation.gate.snapshot import SwitchSnapshot, to_json
from monitor.automation.gate.sources import LARGEST_BODY, HttpSource
from monitor.core.records import SwitchState

ROOT = Path(__file__).parents[2]
TTL = 1.0
SLOW_MACHINE = 10.0
TOKEN = "cal_s3cret"


class Handler(BaseHTTPRequestHandler):
    server: Service

    def do_GET(self) -> None:
        path, _, once = self.path.partition("?request=")
        self.server.once = once
        self.server.requests.append((path, dict(self.headers)))
        with suppress(OSError):
            self.server.behave(self)

    def log_message(self, *_: object) -> None: ...


class Service(ThreadingHTTPServer):
    """A server whose ``behave`` answers; well by default, with an ETag that changes with the switches."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.behave: Callable[[Handler], None] = self.well
        self.states = [state()]
        self.at: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.over = threading.Event()
        self.once = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def document(self) -> dict[str, Any]:
        board = SwitchSnapshot(self.at(), {(s.source, s.label): s for s in self.states}, {("tickets", None): 0.8})
        return {**to_json(board), "request": self.once}

    def well(self, handler: Handler) -> None:
        if handler.headers["Authorization"] != f"Bearer {TOKEN}":
            return answer(handler, b"{}", 401)
        document = self.document()
        etag = f'"{abs(hash(json.dumps(document["switches"])))}"'
        if handler.headers["If-None-Match"] == etag:
            return answer(handler, b"", 304, **{"Calmon-Request": self.once})
        return answer(handler, json.dumps(document).encode(), ETag=etag)

    def handle_error(self, *_: object) -> None: ...


def state(value: str = "on", lease: timedelta = timedelta(days=2)) -> SwitchState:
    at = datetime.now(UTC)
    until = at + lease if value == "on" else None
    return SwitchState("tickets", "billing", value, lease_until=until, changed_at=at, version=1)  # type: ignore[arg-type]


def answer(handler: Handler, body: bytes, status: int = 200, **headers: str) -> None:
    handler.send_response(status)
    for name, value in ({"Content-Length": str(len(body)), "Content-Type": "application/json"} | headers).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield found
        found.over.set()
        found.shutdown()
        thread.join()


@contextmanager
def gate_of(service: Service, ttl_s: float = TTL) -> Iterator[Gate]:
    with Gate(HttpSource(service.url, TOKEN), ttl_s=ttl_s) as gate:
        yield gate


def asked(gate: Gate) -> str:
    return gate.allows("tickets", "billing", score=0.93).reason.value


def wait_for(gate: Gate, reason: str) -> tuple[float, str]:
    began = time.monotonic()
    while True:
        decision = gate.allows("tickets", "billing", score=0.93)
        took = time.monotonic() - began
        if decision.reason.value == reason:
            return took, decision.detail
        assert took < TTL + SLOW_MACHINE, decision
        time.sleep(0.005)


def closes(gate: Gate) -> str:
    took, detail = wait_for(gate, "service_failed")
    assert took < TTL + 1.0
    return detail


def test_it_asks_with_the_token_and_only_whether_anything_has_changed(service: Service) -> None:
    with gate_of(service) as gate:
        assert asked(gate) == "on"
        end = time.monotonic() + SLOW_MACHINE
        while len(service.requests) < 3:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert asked(gate) == "on"
        service.states = [state("off")]
        wait_for(gate, "off")
    paths, headers = zip(*service.requests, strict=True)
    assert set(paths) == {"/v1/automation"}
    assert {h["Authorization"] for h in headers} == {f"Bearer {TOKEN}"}
    assert "If-None-Match" not in headers[0]
    assert all("If-None-Match" in h for h in headers[1:3])


def test_a_base_path_is_kept_and_a_token_is_not_needed(service: Service) -> None:
    service.behave = lambda handler: answer(handler, json.dumps(service.document()).encode())
    with Gate.from_env({"CALMON_GATE_URL": f"{service.url}/calmon/", "CALMON_GATE_TTL_S": "5"}) as gate:
        assert asked(gate) == "on"
    path, headers = service.requests[0]
    assert (path, "Authorization" in headers) == ("/calmon/v1/automation", False)


def test_a_wrong_token_closes_it_and_is_not_reported(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    with Gate(HttpSource(service.url, "cal_wrong"), ttl_s=TTL) as gate:
        decision = gate.allows("tickets", "billing", score=0.93)
    assert (decision.reason, decision.detail) == (GateReason.SERVICE_FAILED, "the service refuses the token (401)")
    assert "cal_wrong" not in caplog.text + repr(decision)


def body(content: bytes | str, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: answer(handler, content if isinstance(content, bytes) else content.encode(), **headers)


def good() -> str:
    return json.dumps(
        to_json(SwitchSnapshot(datetime.now(UTC), {("tickets", "billing"): state()}, {("tickets", None): 0.8}))
    )


def cut_off(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    handler.wfile.write(good().encode())


def cut_off_in_a_chunk(handler: Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffff\r\n" + good().encode())


def other_protocol(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-x\r\n")


def hang(handler: Handler) -> None:
    handler.server.over.wait(20)


def drip(handler: Handler) -> None:
    """A byte every 50 ms: no single operation on the socket ever takes long."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Long: ")
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def drip_body(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server.over.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()


def endless(handler: Handler) -> None:
    handler.send_response(200)
    handler.end_headers()
    while not handler.server.over.is_set():
        handler.wfile.write(b" " * 2**16)


def without(*keys: str) -> str:
    document = json.loads(good())
    for key in keys:
        del document[key]
    return json.dumps(document)


def with_score(score: float) -> str:
    return json.dumps(json.loads(good()) | {"automate_at": [{"source": "tickets", "label": None, "score": score}]})


FAULTS = {
    "500": (lambda h: answer(h, good().encode(), 500), "the service answers 500"),
    "503": (lambda h: answer(h, b"", 503), "the service answers 503"),
    "204": (lambda h: answer(h, b"", 204), "the service answers 204"),
    "403": (lambda h: answer(h, good().encode(), 403), "refuses the token (403)"),
    "404": (lambda h: answer(h, b"<html>", 404), "the service answers 404"),
    "nothing": (lambda h: None, "cannot be reached"),
    "no HTTP": (other_protocol, "cannot be reached: BadStatusLine"),
    "a log-in page": (body("<html>Please log in</html>"), "no snapshot of switches"),
    "empty": (body(""), "no snapshot of switches"),
    "half of it": (body(good()[:200]), "no snapshot of switches"),
    "not UTF-8": (body(b"\xff\xfe{"), "no snapshot of switches"),
    "another document": (body("[]"), "no snapshot of switches"),
    "no switches": (body(without("switches")), "no snapshot of switches"),
    "no time": (body(without("at")), "no snapshot of switches"),
    "NaN": (body(with_score(math.nan)), "no snapshot of switches"),
    "a huge number": (body(good().replace("0.8}", "1" + "0" * 9000 + "}")), "no snapshot of switches"),
    "nested": (body("[" * 200_000), "no snapshot of switches"),
    "cut off": (cut_off, "ends in the middle"),
    "cut off in a chunk": (cut_off_in_a_chunk, "cannot be reached: IncompleteRead"),
    "too large": (body(b" " * (LARGEST_BODY + 2**17)), "larger than 16 MiB"),
    "a cache": (body(good(), Age="1"), "a cache answered"),
    "a cache's not changed": (lambda h: answer(h, b"", 304, Age="7"), "a cache answered"),
    "hanging": (hang, "no answer within 0.5 s"),
    "dripping": (drip, "no answer within 0.5 s"),
    "dripping body": (drip_body, "no answer within 0.5 s"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_no_honest_answer_closes_it_within_the_ttl_and_it_opens_again(service: Service, fault: str) -> None:
    behave, said = FAULTS[fault]
    with gate_of(service) as gate:
        assert asked(gate) == "on"
        service.behave = behave
        assert said in closes(gate)
        service.behave = service.well
        service.over.set()
        wait_for(gate, "on")


@pytest.mark.parametrize("fault", ["500", "hanging", "dripping", "half of it"])
def test_a_gate_that_never_read_anything_is_closed_with_the_reason_at_once(service: Service, fault: str) -> None:
    service.behave, said = FAULTS[fault]
    with gate_of(service) as gate:
        began = time.monotonic()
        decision = gate.allows("tickets", "billing", score=0.93)
        assert (decision.allowed, decision.reason) == (False, GateReason.SERVICE_FAILED)
        assert time.monotonic() - began < 0.5 + SLOW_MACHINE
        assert said in closes(gate)


def test_an_endless_answer_closes_it(service: Service) -> None:
    with gate_of(service) as gate:
        assert asked(gate) == "on"
        service.behave = endless
        assert closes(gate) in ("the answer is larger than 16 MiB", "no answer within 0.5 s")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_not_followed_so_that_nobody_else_gets_the_token(service: Service, status: int) -> None:
    with Service() as other:
        thread = threading.Thread(target=other.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        service.behave = lambda handler: answer(handler, b"", status, Location=f"{other.url}/v1/automation")
        with gate_of(service) as gate:
            assert "redirects are not followed" in closes(gate)
        assert other.requests == []
        other.shutdown()
        thread.join()


def test_not_changed_is_believed_only_of_what_was_read(service: Service) -> None:
    service.behave = lambda handler: answer(handler, b"", 304)
    with gate_of(service) as gate:
        assert "redirects" in closes(gate) or "304" in closes(gate)


def test_nobody_listening_closes_it(service: Service) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        with Gate(HttpSource(url, TOKEN), ttl_s=TTL) as gate:
            assert closes(gate) == "the service cannot be reached: Connection refused"


def test_a_name_that_does_not_exist_closes_it() -> None:
    with Gate(HttpSource("http://calmon.invalid"), ttl_s=TTL) as gate:
        assert gate.allows("tickets", "billing", score=0.93).reason is GateReason.SERVICE_FAILED


def test_a_server_without_a_certificate_is_not_asked_for_anything(service: Service) -> None:
    with Gate(HttpSource(service.url.replace("http:", "https:"), TOKEN), ttl_s=TTL) as gate:
        assert not gate.allows("tickets", "billing", score=0.93)
    assert service.requests == []


@pytest.mark.parametrize("years", [-30, 30])
def test_the_services_clock_gives_the_rest_of_a_lease_whatever_the_routers_clock_says(
    service: Service, years: int
) -> None:
    """To this process the service's clock is years off; to the service it is this one's."""
    shift = timedelta(days=365 * years)
    lease = datetime.now(UTC) + shift + timedelta(seconds=2.5)
    service.at = lambda: datetime.now(UTC) + shift
    service.states = [SwitchState("tickets", "billing", "on", lease_until=lease, version=1)]
    with gate_of(service) as gate:
        assert asked(gate) == "on"
        took, _ = wait_for(gate, "lease_ended")
        assert 1.0 < took < 2.5 + 1.0


def test_an_old_answer_does_not_prolong_a_lease(service: Service) -> None:
    """A proxy that repeats an old answer, or a service whose clock jumps back."""
    began = datetime.now(UTC)
    service.at = lambda: began
    service.states = [SwitchState("tickets", "billing", "on", lease_until=began + timedelta(seconds=2.5), version=1)]
    service.behave = lambda handler: answer(handler, json.dumps(service.document()).encode())
    with gate_of(service) as gate:
        assert asked(gate) == "on"
        wait_for(gate, "answer_old")


ROUTER = """
import sys, time
from monitor.automation import Gate
gate = Gate.from_env()
print(gate.allows("tickets", "billing", score=0.93).reason.value, flush=True)
sys.stdin.readline()
began = time.monotonic()
while gate.allows("tickets", "billing", score=0.93) and time.monotonic() < began + 20:
    time.sleep(0.002)
print(f"{time.monotonic() - began:.3f}", gate.allows("tickets", "billing", score=0.93).reason.value, flush=True)
"""


def test_a_router_in_a_process_of_its_own_notices(service: Service) -> None:
    environ = os.environ | {
        "CALMON_GATE_URL": service.url, "CALMON_GATE_TOKEN": TOKEN, "CALMON_GATE_TTL_S": "2", "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    command = [sys.executable, "-c", ROUTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as router:
        assert router.stdout.readline() == "on\n"
        service.states = [state("off")]
        router.stdin.write("\n")
        router.stdin.flush()
        took, reason = router.stdout.readline().split()
    assert reason == "off"
    assert float(took) < 3.0  # the TTL and a second
