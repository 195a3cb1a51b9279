"""A local HTTP server with the part of Slack's Web API that this project uses, faults included.

It keeps every accepted message and never removes a repeat, so a test sees what a channel would show. Faults are
scripted per method, one a call: ``fake.fail("chat.postMessage", Fault.status(500))``. With
``running(socket_mode=True)`` it speaks Socket Mode too (:mod:`tests.fakes.slack_socket`), and :class:`InProcessClient`
speaks with it without a network.

``python -m tests.fakes.slack --port 8099`` runs it alone; then ``GET /_control/messages`` lists what
came, ``POST /_control/faults`` with ``{"method": ..., "faults": [{"kind": "status", "status": 500}]}``
scripts, ``{"method": ..., "always": {...}}`` scripts for good and ``POST /_control/heal`` ends that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import socket
import struct
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slack_sdk import WebClient
from slack_sdk.web.file_upload_v2_result import FileUploadV2Result

from tests.fakes.slack_forms import form_problem as _form_problem  # noqa: F401 - other tests ask it too
from tests.fakes.slack_methods import APP_METHODS, METHODS, Answer
from tests.fakes.slack_socket import SocketServer

TOKEN = "xoxb-local-test"
APP_TOKEN = "xapp-local-test"
ALL_SCOPES = frozenset({
    "chat:write", "channels:read", "groups:read", "channels:history", "groups:history", "files:write",
    "usergroups:read", "users:read",
})  # fmt: skip
UPLOAD = "upload"  # the name under which the upload of a file's content is scripted
SHORT = 0.3  # seconds a client waits for an answer that is scripted not to come
PATIENT = 60.0  # seconds it waits for one that will come, however slow the machine

Work = Callable[[], Answer]


@dataclass(frozen=True)
class Fault:
    """A fault of one call. ``accept``: the call has its effect nevertheless."""

    kind: str  # status | error | hang | reset | drip (``body`` is the answer's beginning, then a byte each ``seconds``)
    accept: bool = False
    status: int = 500
    retry_after: float | None = None
    error: str = ""
    seconds: float = 30.0
    body: str | None = None

    @staticmethod
    def rate_limited(retry_after: float = 1.0) -> Fault:
        return Fault("status", status=429, retry_after=retry_after, error="ratelimited")

    @staticmethod
    def server_error(status: int = 500, *, accept: bool = False) -> Fault:
        return Fault("status", accept=accept, status=status, error="internal_error")

    @staticmethod
    def slack_error(code: str) -> Fault:
        return Fault("error", error=code)

    @staticmethod
    def hang(seconds: float = 30.0, *, accept: bool = False) -> Fault:
        return Fault("hang", accept=accept, seconds=seconds)

    @staticmethod
    def reset(*, accept: bool = False) -> Fault:
        return Fault("reset", accept=accept)

    @staticmethod
    def page(body: str, status: int = 200) -> Fault:
        """An answer that is not JSON, as of a proxy's log-in page."""
        return Fault("status", status=status, body=body)


@dataclass
class FakeSlack:
    """The workspace: channels by name, who may do what, what was posted and what will go wrong."""

    tokens: set[str] = field(default_factory=lambda: {TOKEN})
    scopes: set[str] = field(default_factory=lambda: set(ALL_SCOPES))
    channels: dict[str, str] = field(default_factory=lambda: {"ml-oncall": "C001", "ml-monitoring": "C002"})
    archived: set[str] = field(default_factory=set)
    not_member: set[str] = field(default_factory=set)
    any_channel: bool = False
    page_size: int = 1000
    clock: Callable[[], float] = time.time
    team: str = "T1"
    app_tokens: set[str] = field(default_factory=lambda: {APP_TOKEN})
    people: dict[str, str] = field(default_factory=lambda: {"U1": "ada", "U2": "bob"})
    groups: dict[str, list[str]] = field(default_factory=dict)
    messages: list[Answer] = field(default_factory=list)
    first_texts: dict[str, str] = field(default_factory=dict)  # ts -> the text before any edit
    private: list[Answer] = field(default_factory=list)  # what chat.postEphemeral showed to one person
    views: list[Answer] = field(default_factory=list)  # the modals that were opened
    triggers: set[str] = field(default_factory=set)  # trigger ids that may still open one
    files: dict[str, Answer] = field(default_factory=dict)
    socket: SocketServer | None = None
    calls: list[tuple[str, Answer]] = field(default_factory=list)
    worked: int = 0  # calls that have had their effect, if any, perhaps without an answer yet
    scripts: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Fault] = field(default_factory=dict)
    url: str = ""
    _last_ts: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls of ``method`` have these faults, one each."""
        self.scripts[method].extend(faults)

    def fail_always(self, method: str, fault: Fault) -> None:
        self.always[method] = fault

    def heal(self) -> None:
        self.scripts.clear()
        self.always.clear()

    def asked(self, method: str) -> int:
        """How often ``method`` was called."""
        return sum(name == method for name, _ in self.calls)

    def texts(self, channel: str) -> list[str]:
        """What the channel of that name shows, oldest first, threads left out."""
        return [m["text"] for m in self.shown(channel) if m.get("thread_ts", m["ts"]) == m["ts"]]

    def shown(self, channel: str) -> list[Answer]:
        """Every message of the channel of that name, threads included."""
        return [m for m in self.messages if m["channel"] == self.channels[channel]]

    def thread(self, ts: str) -> list[Answer]:
        """The answers in the thread of a message."""
        return [m for m in self.messages if m.get("thread_ts") == ts]

    def message(self, channel: str, ts: str) -> Answer | None:
        """The message at that place, or None."""
        return next((m for m in self.messages if m["channel"] == channel and m["ts"] == ts), None)

    def delete(self, ts: str) -> None:
        """A person deletes the message."""
        self.messages[:] = [m for m in self.messages if m["ts"] != ts]

    def next_ts(self) -> str:
        """A timestamp after all others."""
        self._last_ts = max(self.clock(), self._last_ts + 0.000_001)
        return f"{self._last_ts:.6f}"

    def add(self, channel: str, text: str, blocks: list[Any], metadata: Any, thread: str) -> Answer:
        """Show a new message. An answer to a deleted message is posted in the channel itself, as in Slack."""
        ts = self.next_ts()
        message = {"type": "message", "channel": channel, "ts": ts, "text": text, "blocks": blocks}
        message |= {"metadata": metadata} if metadata else {}
        message |= {"thread_ts": thread} if thread and self.message(channel, thread) else {}
        self.messages.append(message)
        self.first_texts[ts] = text
        return message

    def will_hang(self, method: str) -> bool:
        """Whether the next call of ``method`` gets no answer."""
        with self._lock:
            script = self.scripts.get(method)
            fault = script[0] if script else self.always.get(method)
            return fault is not None and fault.kind == "hang"

    def next_fault(self, method: str) -> Fault | None:
        with self._lock:
            script = self.scripts.get(method)
            return script.popleft() if script else self.always.get(method)

    def answer(self, method: str, token: str, arguments: Answer) -> Answer:
        with self._lock:
            if token not in (self.app_tokens if method in APP_METHODS else self.tokens):
                return {"ok": False, "error": "invalid_auth" if token else "not_authed"}
            handler = METHODS.get(method) or APP_METHODS.get(method)
            return (
                handler(self, arguments) if handler else {"ok": False, "error": "unknown_method", "req_method": method}
            )

    def upload(self, id: str, content: bytes) -> bool:
        """Take a file's content, as the address of files.getUploadURLExternal does."""
        with self._lock:
            file = self.files.get(id)
            if file is None or len(content) != file["length"]:
                return False
            file["content"] = content
            return True

    def lacks(self, *any_of: str) -> Answer | None:
        if self.scopes & set(any_of):
            return None
        return {"ok": False, "error": "missing_scope", "needed": any_of[0], "provided": ",".join(sorted(self.scopes))}

    def channel_id(self, given: str) -> str | None:
        name = given.removeprefix("#")
        if self.any_channel and name not in self.channels and name not in self.channels.values():
            self.channels[name] = f"C{len(self.channels) + 1:03d}"
        return self.channels.get(name) or (name if name in self.channels.values() else None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    slack: FakeSlack


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        if path.startswith("/_control/"):
            self._control(path.removeprefix("/_control/"), json.loads(body or b"{}"))
            return
        if path.startswith("/upload/v1/"):
            self._upload(path.rpartition("/")[2], body)
            return
        self._api(path.rpartition("/")[2], self._arguments(body))

    def do_GET(self) -> None:
        if urlsplit(self.path).path == "/_control/messages":
            self._reply(200, self.server.slack.messages)
        else:
            self._reply(404, {"ok": False, "error": "not_found"})

    def _arguments(self, body: bytes) -> Answer:
        if "json" in (self.headers.get("Content-Type") or "") and body[:1] == b"{":
            return dict(json.loads(body))
        return {key: values[-1] for key, values in parse_qs(body.decode()).items()}

    def _api(self, method: str, arguments: Answer) -> None:
        slack = self.server.slack
        slack.calls.append((method, arguments))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or str(arguments.get("token") or "")
        fault = slack.next_fault(method)
        answer = slack.answer(method, token, arguments) if fault is None or fault.accept else None
        slack.worked += 1
        if fault is None:
            self._reply(200, answer)
        else:
            self._misbehave(fault)

    def _upload(self, id: str, body: bytes) -> None:
        slack = self.server.slack
        slack.calls.append((UPLOAD, {"id": id}))
        fault = slack.next_fault(UPLOAD)
        taken = slack.upload(id, body) if fault is None or fault.accept else False
        slack.worked += 1
        if fault is None:
            self._reply(200 if taken else 400, f"OK - {len(body)}" if taken else "bad upload")
        else:
            self._misbehave(fault)

    def _misbehave(self, fault: Fault) -> None:
        if fault.kind == "error":
            self._reply(200, {"ok": False, "error": fault.error})
        elif fault.kind == "status":
            headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            content = fault.body if fault.body is not None else {"ok": False, "error": fault.error}
            self._reply(fault.status, content, headers)
        elif fault.kind == "drip":
            self._drip(fault)
        else:
            if fault.kind == "hang":
                self.server.slack._over.wait(fault.seconds)
            # close with RST, so that the client gets "connection reset" and not an orderly end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

    def _drip(self, fault: Fault) -> None:
        """Answer byte by byte, as long as the client reads; only the beginning without ``seconds``."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.write((fault.body or "").encode())
            while fault.seconds and not self.server.slack._over.wait(fault.seconds):
                self.wfile.write(b" ")

    def _control(self, what: str, arguments: Answer) -> None:
        slack = self.server.slack
        if what == "heal":
            slack.heal()
        elif what == "faults":
            slack.fail(arguments["method"], *(Fault(**f) for f in arguments.get("faults", ())))
            if arguments.get("always"):
                slack.fail_always(arguments["method"], Fault(**arguments["always"]))
        self._reply(200, {"ok": True})

    def _reply(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        body = content.encode() if isinstance(content, str) else json.dumps(content).encode()
        with contextlib.suppress(OSError):  # the client has given up
            self.send_response(status)
            self.send_header("Content-Type", "text/html" if isinstance(content, str) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the connection was closed on purpose
            super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextlib.contextmanager
def running(port: int = 0, *, socket_mode: bool = False, **settings: Any) -> Iterator[FakeSlack]:
    """The server on 127.0.0.1 while the block lasts; ``fake.url`` is what CALMON_SLACK_API_URL takes."""
    fake = FakeSlack(**settings)
    fake.socket = SocketServer() if socket_mode else None
    server = _Server(("127.0.0.1", port), _Handler)
    server.slack = fake
    fake.url = f"http://127.0.0.1:{server.server_address[1]}/api/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield fake
    finally:
        fake._over.set()
        server.shutdown()
        server.server_close()
        thread.join()
        if fake.socket is not None:
            fake.socket.close()


class InProcessClient(WebClient):
    """The SDK's client, its HTTP replaced by a call of the fake: the same answers and faults without a network.

    ``during`` is called within a call that hangs, with a function for Slack's later work, and decides when to call it.
    """

    def __init__(self, slack: FakeSlack, token: str = TOKEN, during: Callable[[Work], None] | None = None) -> None:
        super().__init__(token=token, base_url=slack.url or "http://in-process.invalid/api/", retry_handlers=[])
        self._slack, self._during = slack, during

    def _perform_urllib_http_request(self, *, url: str, args: dict[str, dict[str, Any]]) -> dict[str, Any]:
        method = urlsplit(url).path.rpartition("/")[2]
        arguments = args.get("json") or {k: v for k, v in (args.get("params") or {}).items() if v is not None}
        token = str(args["headers"].get("Authorization", "")).removeprefix("Bearer ")
        self._slack.calls.append((method, arguments))
        answer = self._through(method, lambda: self._slack.answer(method, token, json.loads(json.dumps(arguments))))
        return {"status": answer[0], "headers": answer[1], "body": json.dumps(answer[2])}

    def _upload_file(self, *, url: str, data: bytes, **_: Any) -> FileUploadV2Result:
        self._slack.calls.append((UPLOAD, {}))
        id = url.rpartition("/")[2]
        status, _headers, _body = self._through(UPLOAD, lambda: {"ok": self._slack.upload(id, data)})
        return FileUploadV2Result(status=status, body="")

    def _through(self, method: str, work: Work) -> tuple[int, dict[str, str], Answer]:
        fault = self._slack.next_fault(method)
        if fault is None:
            return 200, {}, work()
        effect = work if fault.accept else dict
        if fault.kind == "hang" and self._during is not None:
            self._during(effect)
        else:
            effect()
        if fault.kind == "error":
            return 200, {}, {"ok": False, "error": fault.error}
        if fault.kind == "status":
            headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            return fault.status, headers, {"ok": False, "error": fault.error}
        raise TimeoutError("timed out") if fault.kind == "hang" else ConnectionResetError(104, "reset by peer")


@contextlib.contextmanager
def timed_out_where_scripted(slack: FakeSlack) -> Iterator[None]:
    """Every slack-sdk client of this process times out where a hang is scripted, and nowhere else.

    One time-out for all calls would be too long for the many that hang, or too short for normal calls on a busy
    machine. A call that hangs has had its effect, if any, when its client gives up.
    """
    plain = WebClient.api_call

    def api_call(client: WebClient, api_method: str, **arguments: Any) -> Any:
        hangs, worked = slack.will_hang(api_method), slack.worked
        client.timeout = SHORT if hangs else PATIENT  # type: ignore[assignment]  # urllib takes fractions
        try:
            return plain(client, api_method, **arguments)
        finally:
            deadline = time.monotonic() + PATIENT
            while hangs and slack.worked == worked and time.monotonic() < deadline:
                time.sleep(0.01)

    WebClient.api_call = api_call  # type: ignore[method-assign]
    try:
        yield
    finally:
        WebClient.api_call = plain  # type: ignore[method-assign]


def main() -> None:
    parser = argparse.ArgumentParser(description="A local server that speaks Slack's Web API.")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--token", default=TOKEN)
    arguments = parser.parse_args()
    with running(arguments.port, tokens={arguments.token}, any_channel=True) as fake:
        print(f"CALMON_SLACK_API_URL={fake.url} CALMON_SLACK_BOT_TOKEN={arguments.token}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
