"""Answers that Slack does not document, as of a proxy or a broken server: no command ends with a traceback.

Where the answer does not say that nothing was accepted, the message is looked for before it is sent again.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from typing import Any

import pytest

from monitor.alerting.slack.client import SlackSender, TransportError, call
from monitor.alerting.slack.outbox import drain
from monitor.history.store import Store
from tests.fakes.slack import TOKEN, UPLOAD, FakeSlack, Fault
from tests.fakes.slack_schedule import START, composed

POST, UPDATE, HISTORY, COMPLETE = (
    "chat.postMessage", "chat.update", "conversations.history", "files.completeUploadExternal",
)  # fmt: skip
ROOT = composed("root", "post", START)


def run(store: Store, slack: FakeSlack) -> list[tuple[str, str]]:
    sender = SlackSender(TOKEN, slack.url)
    done = drain(store, sender, now=lambda: START, worker="host/1:1:1", sleep=lambda _: None)
    return [(each.operation, each.state) for each in done]


def odd(body: Any, status: int = 200, *, accept: bool = True) -> Fault:
    """This body; ``accept``: the call has had its effect."""
    return Fault("status", status=status, body=json.dumps(body), accept=accept)


NOT_UNDERSTOOD = [
    [], [1], {}, 0, 1, "ok", None, True, {"ok": True}, {"ok": "true"}, {"ok": 1, "ts": "1.0", "channel": "C001"},
    {"ok": True, "ts": 1.5, "channel": "C001"}, {"ok": True, "ts": "1.0"}, {"ok": True, "ts": "", "channel": ""},
    {"ok": True, "ts": None, "channel": ["C001"]},
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_UNDERSTOOD, ids=json.dumps)
def test_a_message_whose_answer_is_not_understood_is_looked_for_and_shown_once_with_its_place(
    store: Store, slack: FakeSlack, body: Any
) -> None:
    store.add_delivery(ROOT)
    slack.fail(POST, odd(body))
    assert run(store, slack) == [("post", "sent")]
    (shown,) = slack.messages
    (kept,) = store.deliveries()
    assert (kept.external_channel, kept.external_id) == ("C001", shown["ts"])


REFUSALS = [
    {"ok": False, "error": "invalid_blocks", "response_metadata": ["x"]},
    {"ok": False, "error": "invalid_blocks", "response_metadata": {"messages": 5}},
    {"ok": False, "error": "invalid_blocks", "errors": 5},
    {"ok": False, "error": "invalid_blocks", "errors": {"a": 1}},
    {"ok": False, "error": ["is_archived"]},
    {"ok": False, "error": {"a": 1}},
    {"ok": False, "error": "missing_scope", "needed": {"a": 1}},
    {"ok": None, "error": None},
]


@pytest.mark.parametrize("body", REFUSALS, ids=json.dumps)
def test_a_refusal_in_an_odd_form_stops_no_drain(store: Store, slack: FakeSlack, body: Any) -> None:
    store.add_delivery(ROOT)
    slack.fail_always(POST, odd(body, accept=False))
    ((_, state),) = run(store, slack)
    assert state == ("dead" if body["error"] == "invalid_blocks" else "failed")
    assert slack.messages == []


FOUND_ODDLY = [
    [], {"ok": True}, {"ok": True, "messages": None}, {"ok": True, "messages": {"a": 1}},
    {"ok": True, "messages": [None]}, {"ok": True, "messages": 5, "response_metadata": ["x"]},
    {"ok": "true", "messages": []},
]  # fmt: skip


@pytest.mark.parametrize("body", FOUND_ODDLY, ids=json.dumps)
def test_a_search_with_an_answer_that_is_not_understood_does_not_say_that_nothing_is_there(
    store: Store, slack: FakeSlack, body: Any
) -> None:
    store.add_delivery(ROOT)
    slack.fail(POST, Fault.reset(accept=True))
    slack.fail_always(HISTORY, odd(body))
    assert run(store, slack) == [("post", "failed")]
    slack.heal()
    assert run(store, slack) == [("post", "sent")]
    assert len(slack.messages) == 1


def test_messages_in_an_odd_form_are_passed_over_in_a_search(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(ROOT)
    others = [{"metadata": ["x"]}, {"metadata": {"event_payload": "root"}}, {"files": 5}, {"files": [1, {}]}]
    slack.fail(POST, Fault.reset())
    slack.fail(HISTORY, odd({"ok": True, "messages": others, "response_metadata": ["x"]}))
    assert run(store, slack) == [("post", "sent")]


@pytest.mark.parametrize("body", [[], {"ok": True}, {"ok": True, "files": 5}, {"ok": True, "files": [None]}, 5])
def test_a_file_whose_answer_is_not_understood_is_looked_for_and_shown_once(
    store: Store, slack: FakeSlack, body: Any
) -> None:
    store.add_delivery(ROOT)
    store.add_delivery(composed("picture", "file", START, "root"))
    slack.fail(COMPLETE, odd(body))
    assert run(store, slack) == [("post", "sent"), ("file", "failed")]
    assert run(store, slack) == [("file", "sent")]
    assert sum(bool(m.get("files")) for m in slack.messages) == 1


@pytest.mark.parametrize("body", [[], "ok", {"ok": "true"}, None])
def test_an_edit_whose_answer_is_not_understood_is_sent_again(store: Store, slack: FakeSlack, body: Any) -> None:
    store.add_delivery(ROOT)
    run(store, slack)
    store.add_delivery(composed("edit", "edit", START, "root", 1))
    slack.fail(UPDATE, odd(body, accept=False))
    assert run(store, slack) == [("edit", "sent")]
    assert slack.texts("ml-oncall") == ["edit"]


@pytest.mark.parametrize("status", [408, 300, 307, 308, 500, 502, 504])
@pytest.mark.parametrize("body", ["", "<html>time-out", "[]", '{"ok": false}'])
def test_a_message_that_was_accepted_before_such_a_status_is_shown_once(
    store: Store, slack: FakeSlack, status: int, body: str
) -> None:
    store.add_delivery(ROOT)
    slack.fail(POST, Fault("status", status=status, body=body, accept=True))
    assert run(store, slack) == [("post", "sent")]
    assert len(slack.messages) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 407, 413])
def test_what_a_proxy_refuses_is_not_looked_for(store: Store, slack: FakeSlack, status: int) -> None:
    store.add_delivery(ROOT)
    slack.fail(POST, Fault.page("<html>no", status))
    assert run(store, slack) == [("post", "sent")]
    assert slack.asked(HISTORY) == 0


def test_an_answer_of_bytes_is_not_understood(slack: FakeSlack) -> None:
    client = SlackSender(TOKEN, slack.url)._client
    answer = call(client.auth_test)
    answer.data = b"{}"
    with pytest.raises(TransportError, match="not understood") as raised:
        call(lambda: answer)
    assert raised.value.ambiguous


LIMIT = 1.0
SLOW = ["HTTP/1.1 200 OK\r\nX-A: ", "HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n",
        "HTTP/1.1 500 No\r\nContent-Length: 4000\r\n\r\n"]  # fmt: skip


@pytest.mark.parametrize("begin", SLOW, ids=["headers", "body", "body without a length", "body of an error"])
def test_an_answer_that_comes_byte_by_byte_is_given_up_after_the_limit_of_the_whole_call(
    slack: FakeSlack, begin: str
) -> None:
    slack.fail(POST, Fault("drip", accept=True, body=begin, seconds=LIMIT / 10))
    started = time.monotonic()
    with pytest.raises(TransportError) as raised:
        SlackSender(TOKEN, slack.url, timeout=LIMIT).send(ROOT)
    assert time.monotonic() - started < 4 * LIMIT
    assert raised.value.ambiguous
    assert len(slack.messages) == 1


def test_the_upload_of_a_file_is_limited_too(slack: FakeSlack) -> None:
    sender = SlackSender(TOKEN, slack.url, timeout=LIMIT)
    root = sender.send(ROOT)
    slack.fail(UPLOAD, Fault("drip", accept=True, body=SLOW[1], seconds=LIMIT / 10))
    started = time.monotonic()
    with pytest.raises(TransportError, match="no answer in time"):
        sender.send(composed("picture", "file", START, "root"), root)
    assert time.monotonic() - started < 4 * LIMIT


def test_a_tls_handshake_that_comes_byte_by_byte_is_given_up_as_well() -> None:
    over = threading.Event()

    def handshake(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"\x16\x03\x03\x40\x00")  # 16 KiB of a handshake follow
            while not over.wait(LIMIT / 10):
                connection.sendall(b"\x02")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=handshake, args=(server,))
        thread.start()
        started = time.monotonic()
        address = f"https://127.0.0.1:{server.getsockname()[1]}/api/"
        with pytest.raises(TransportError, match="no answer in time"):
            SlackSender(TOKEN, address, timeout=LIMIT).send(ROOT)
        assert time.monotonic() - started < 4 * LIMIT
        over.set()
        thread.join()


def test_a_redirect_is_not_followed(store: Store, slack: FakeSlack) -> None:
    store.add_delivery(ROOT)
    away = f"HTTP/1.1 302 Found\r\nLocation: {slack.url}auth.test\r\nContent-Length: 0\r\n\r\n"
    slack.fail(POST, Fault("drip", accept=True, body=away, seconds=0.0))
    assert run(store, slack) == [("post", "sent")]
    assert len(slack.messages) == 1
