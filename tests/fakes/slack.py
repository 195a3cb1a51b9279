"""A local HTTP server that speaks as much of Slack's Web API as this project uses, faults included.

It keeps every message it accepts and never removes a repeat, so a test sees what a channel would
show. Faults are scripted per method, one a call: ``fake.fail("chat.postMessage", Fault.status(500))``.

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
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from slack_sdk import WebClient

TOKEN = "xoxb-local-test"
ALL_SCOPES = frozenset({"chat:write", "channels:read", "groups:read", "channels:history", "groups:history"})
TOTAL_BLOCKS = 16_000  # Slack names no number; 17,700 characters of JSON were seen refused
SHORT = 0.3  # seconds a client waits for an answer that is scripted not to come
PATIENT = 60.0  # seconds it waits for one that will come, however slow the machine

Answer = dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """What goes wrong with one call. ``accept``: the call does its work all the same."""

    kind: str  # status | error | hang | reset
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
    messages: list[Answer] = field(default_factory=list)
    calls: list[tuple[str, Answer]] = field(default_factory=list)
    worked: int = 0  # calls that have had their effect, if any; the answer may still be to come
    scripts: dict[str, deque[Fault]] = field(default_factory=lambda: defaultdict(deque))
    always: dict[str, Fault] = field(default_factory=dict)
    url: str = ""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def fail(self, method: str, *faults: Fault) -> None:
        """The next calls of ``method`` meet these faults, one each."""
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
        """What the channel of that name shows, oldest first."""
        return [m["text"] for m in self.messages if m["channel"] == self.channels[channel]]

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
            if token not in self.tokens:
                return {"ok": False, "error": "invalid_auth" if token else "not_authed"}
            handler = _METHODS.get(method)
            return (
                handler(self, arguments) if handler else {"ok": False, "error": "unknown_method", "req_method": method}
            )

    def lacks(self, *any_of: str) -> Answer | None:
        if self.scopes & set(any_of):
            return None
        return {"ok": False, "error": "missing_scope", "needed": any_of[0], "provided": ",".join(sorted(self.scopes))}

    def channel_id(self, given: str) -> str | None:
        name = given.removeprefix("#")
        if self.any_channel and name not in self.channels and name not in self.channels.values():
            self.channels[name] = f"C{len(self.channels) + 1:03d}"
        return self.channels.get(name) or (name if name in self.channels.values() else None)


def _auth_test(slack: FakeSlack, _: Answer) -> Answer:
    return {
        "ok": True,
        "url": "https://example.invalid/",
        "team": "Local",
        "user": "calmon",
        "team_id": "T1",
        "user_id": "U1",
    }


def _post_message(slack: FakeSlack, arguments: Answer) -> Answer:
    refused = slack.lacks("chat:write")
    if refused:
        return refused
    id = slack.channel_id(str(arguments.get("channel", "")))
    name = next((n for n, i in slack.channels.items() if i == id), "")
    if id is None:
        return {"ok": False, "error": "channel_not_found"}
    if name in slack.archived:
        return {"ok": False, "error": "is_archived"}
    if name in slack.not_member:
        return {"ok": False, "error": "not_in_channel"}
    text, blocks = arguments.get("text") or "", arguments.get("blocks") or []
    problem = _form_problem(text, blocks, arguments.get("metadata"))
    if problem:
        return problem
    last = float(slack.messages[-1]["ts"]) if slack.messages else 0.0
    ts = f"{max(time.time(), last + 0.000_001):.6f}"
    message = {"type": "message", "channel": id, "ts": ts, "text": text, "blocks": blocks}
    message |= {"metadata": arguments["metadata"]} if arguments.get("metadata") else {}
    slack.messages.append(message)
    return {"ok": True, "channel": id, "ts": ts, "message": message}


def _form_problem(text: str, blocks: Any, metadata: Any) -> Answer | None:
    if not text and not blocks:
        return {"ok": False, "error": "no_text"}
    if len(text) > 40_000:
        return {"ok": False, "error": "msg_too_long"}
    if metadata is not None and not (
        isinstance(metadata, dict) and metadata.get("event_type") and isinstance(metadata.get("event_payload"), dict)
    ):
        return {"ok": False, "error": "invalid_metadata_format"}
    problems = list(_block_problems(blocks)) if isinstance(blocks, list) else ["blocks must be an array"]
    if problems:
        return {
            "ok": False,
            "error": "invalid_blocks",
            "response_metadata": {"messages": [f"[ERROR] {p}" for p in problems]},
        }
    if len(json.dumps(blocks)) > TOTAL_BLOCKS:
        return {"ok": False, "error": "msg_blocks_too_long"}
    return None


def _block_problems(blocks: list[Any]) -> Iterator[str]:
    """What Slack would not take, with the pointer it gives."""
    if len(blocks) > 50:
        yield "no more than 50 items allowed [json-pointer:/blocks]"
    for i, block in enumerate(blocks):
        at = f"/blocks/{i}"
        kind = block.get("type") if isinstance(block, dict) else None
        if kind == "header":
            yield from _text_problems(block.get("text"), f"{at}/text", 150, ("plain_text",))
        elif kind == "section":
            fields = block.get("fields") or []
            if block.get("text") is None and not fields:
                yield f"missing required field: text [json-pointer:{at}]"
            elif block.get("text") is not None:
                yield from _text_problems(block["text"], f"{at}/text", 3000, ("mrkdwn", "plain_text"))
            if len(fields) > 10:
                yield f"no more than 10 items allowed [json-pointer:{at}/fields]"
            for j, one in enumerate(fields):
                yield from _text_problems(one, f"{at}/fields/{j}", 2000, ("mrkdwn", "plain_text"))
        elif kind == "context":
            elements = block.get("elements") or []
            if not 1 <= len(elements) <= 10:
                yield f"1 to 10 items allowed [json-pointer:{at}/elements]"
            for j, one in enumerate(elements):
                yield from _text_problems(one, f"{at}/elements/{j}", 3000, ("mrkdwn", "plain_text"))
        elif kind not in ("divider", "actions"):
            yield f"unsupported type: {kind} [json-pointer:{at}/type]"


def _text_problems(text: Any, at: str, longest: int, kinds: tuple[str, ...]) -> Iterator[str]:
    allowed = {"mrkdwn": {"type", "text", "verbatim"}, "plain_text": {"type", "text", "emoji"}}
    if not isinstance(text, dict) or text.get("type") not in kinds:
        yield f"must be one of {', '.join(kinds)} [json-pointer:{at}/type]"
        return
    if set(text) - allowed[text["type"]]:
        yield f"no more fields allowed [json-pointer:{at}]"
    length = len(text.get("text") or "")
    if length == 0:
        yield f"must be more than 0 characters [json-pointer:{at}/text]"
    if length > longest:
        yield f"must be less than {longest + 1} characters [json-pointer:{at}/text]"


def _page(slack: FakeSlack, items: list[Answer], arguments: Answer) -> tuple[list[Answer], str]:
    first = int(str(arguments.get("cursor") or "at:0").removeprefix("at:"))
    size = min(int(arguments.get("limit") or 100), slack.page_size)
    return items[first : first + size], f"at:{first + size}" if first + size < len(items) else ""


def _list(slack: FakeSlack, arguments: Answer) -> Answer:
    types = str(arguments.get("types") or "public_channel").split(",")
    refused = slack.lacks("channels:read") or (slack.lacks("groups:read") if "private_channel" in types else None)
    if refused:
        return refused
    found = [{"id": id, "name": name, "is_archived": name in slack.archived} for name, id in slack.channels.items()]
    page, cursor = _page(slack, found, arguments)
    return {"ok": True, "channels": page, "response_metadata": {"next_cursor": cursor}}


def _history(slack: FakeSlack, arguments: Answer) -> Answer:
    refused = slack.lacks("channels:history")
    if refused:
        return refused
    id = arguments.get("channel")  # Slack takes names for posting only
    if id not in slack.channels.values():
        return {"ok": False, "error": "channel_not_found"}
    low, high = float(arguments.get("oldest") or 0), float(arguments.get("latest") or "inf")
    found = [m for m in reversed(slack.messages) if m["channel"] == id and low < float(m["ts"]) < high]
    if str(arguments.get("include_all_metadata", "")).lower() not in ("1", "true"):
        found = [{k: v for k, v in m.items() if k != "metadata"} for m in found]
    page, cursor = _page(slack, found, arguments)
    return {"ok": True, "messages": page, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


_METHODS = {
    "auth.test": _auth_test,
    "chat.postMessage": _post_message,
    "conversations.list": _list,
    "conversations.history": _history,
}


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

    def _misbehave(self, fault: Fault) -> None:
        if fault.kind == "error":
            self._reply(200, {"ok": False, "error": fault.error})
        elif fault.kind == "status":
            headers = {} if fault.retry_after is None else {"Retry-After": f"{fault.retry_after:g}"}
            content = fault.body if fault.body is not None else {"ok": False, "error": fault.error}
            self._reply(fault.status, content, headers)
        else:
            if fault.kind == "hang":
                self.server.slack._over.wait(fault.seconds)
            # close with RST: the client sees "connection reset", not an orderly end
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.close_connection = True
            self.connection.close()

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
def running(port: int = 0, **settings: Any) -> Iterator[FakeSlack]:
    """The server on 127.0.0.1 while the block lasts; ``fake.url`` is what CALMON_SLACK_API_URL takes."""
    fake = FakeSlack(**settings)
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


@contextlib.contextmanager
def timed_out_where_scripted(slack: FakeSlack) -> Iterator[None]:
    """Every slack-sdk client of this process times out where a hang is scripted, and nowhere else.

    One time-out for all calls would be too long for the many that hang, or too short for a sound one
    on a busy machine. A call that hangs has had its effect, if any, when its client gives up.
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
