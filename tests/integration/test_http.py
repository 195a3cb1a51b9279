"""The HTTP service in its own process, asked by a real client: who may do what, what is answered, what is kept."""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import re
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, urlsplit

import httpx
import pytest
import sqlalchemy as sa
from starlette.responses import JSONResponse
from typer.testing import CliRunner, Result

from monitor.automation.gate.snapshot import from_json, to_json
from monitor.cli import app
from monitor.config.load import load_config
from monitor.core.records import LABEL_BYTES
from monitor.history.reader import REVISION
from monitor.history.store import Store
from monitor.operations.change_switch import SwitchChange, operate
from monitor.service.access import Guard
from monitor.service.app import create_app
from monitor.service.backend import ReopeningStore, Service
from monitor.service.bodies import BoardBody
from monitor.service.problems import ProblemReason
from monitor.service.request_limits import AT_ONCE, FOR_CHANGES, RequestLimits
from monitor.service.tokens import TokensFile
from tests.fakes.service import LONG, ODD, PATIENCE_S, Place, Running, make_place, running

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[2] / "docs"
BOARD = "/v1/automation"


def path(label: str, verb: str = "", source: str = "tickets") -> str:
    return f"{BOARD}/{source}/{quote(label, safe='')}{'/' + verb if verb else ''}"


def problem(answer: httpx.Response, reason: str) -> dict[str, Any]:
    """The answer as the problem that it must be."""
    body = answer.json()
    assert body.get("reason") == reason, body
    status, title = ProblemReason(reason).status, ProblemReason(reason).heading
    assert (answer.status_code, body["status"], body["title"]) == (status, status, title)
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert set(body) == {"type", "title", "status", "detail", "reason"}
    return body


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(make_place(tmp_path_factory.mktemp("service"))) as running_service:
        yield running_service


@pytest.fixture(scope="module")
def on_postgresql(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from tests.conftest import new_postgres_database

    with running(make_place(tmp_path_factory.mktemp("service"), new_postgres_database(postgres_url))) as service:
        yield service


@pytest.fixture(params=["service", pytest.param("on_postgresql", marks=pytest.mark.postgres)])
def either(request: pytest.FixtureRequest) -> Running:
    """The service over each kind of history, for what is read from the history and stored in it."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


# Reading


def test_the_board_is_that_of_the_history_and_a_gate_can_read_it(either: Running) -> None:
    with either.client("router") as client:
        answer = client.get(BOARD)
    assert answer.status_code == 200
    BoardBody.model_validate_json(answer.text)
    board = from_json(answer.json())
    with Store.from_url(either.place.store_url) as store:
        assert dict(board.automate_at) == store.thresholds()
        assert sorted(board.switches, key=str) == sorted(((s.source, s.label) for s in store.switches()), key=str)
        for state in store.switches():
            found = board.switches[state.source, state.label]
            assert (found.state, found.lease_until, found.version) == (state.state, state.lease_until, state.version)
    assert to_json(board) | {"request": None} == answer.json()
    assert abs(board.at - datetime.now(UTC)) < timedelta(minutes=5)


def test_an_unchanged_board_is_a_304_and_a_changed_one_is_not(either: Running) -> None:
    with either.client("boss") as client:
        first, second = client.get(BOARD), client.get(BOARD)
        tag = first.headers["etag"]
        assert re.fullmatch(r'W/"[0-9a-f]{32}"', tag)
        assert first.json()["at"] != second.json()["at"]
        assert second.headers["etag"] == tag
        assert first.headers["cache-control"] == "private, no-cache"
        for given in (tag, tag.removeprefix("W/"), f'"x", {tag}', "*"):
            same = client.get(BOARD, headers={"If-None-Match": given})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
        for given in ('"x"', "", tag.strip('W/"')):
            assert client.get(BOARD, headers={"If-None-Match": given}).status_code == 200
        client.post(path("billing", "enable"), json={"reason": "another"})
        changed = client.get(BOARD, headers={"If-None-Match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag


@pytest.mark.parametrize(
    ("label", "score", "allowed", "reason"),
    [
        ("billing", "0.93", True, "on"),
        ("billing", "0.8", True, "on"),
        ("billing", "0.79999", False, "below_automate_at"),
        ("phishing", "0.99", False, "off"),
        ("legal", "0.99", False, "never_set"),
        ("nobody knows it", "0.99", False, "never_set"),
        (ODD, "1", True, "on"),
        (LONG, "1", False, "never_set"),
    ],
)
def test_a_decision_follows_from_label_and_score(
    service: Running, label: str, score: str, allowed: bool, reason: str
) -> None:
    with service.client("router") as client:
        body = client.get(path(label), params={"score": score}).json()
    assert (body["label"], body["allowed"], body["reason"]) == (label, allowed, reason)
    assert body["threshold"] == (0.9 if label == "phishing" else 0.8)
    assert (body["until"] is not None) == allowed


def test_without_a_score_there_is_never_a_yes(service: Running) -> None:
    with service.client("router") as client:
        found = {label: client.get(path(label)).json() for label in ("billing", "phishing", "legal")}
    assert {label: body["allowed"] for label, body in found.items()} == dict.fromkeys(found)
    assert [body["reason"] for body in found.values()] == ["on", "off", "never_set"]
    assert datetime.fromisoformat(found["billing"]["until"]) > datetime.now(UTC)


def test_slashes_in_a_label_may_be_written_or_encoded(service: Running) -> None:
    with service.client("router") as client:
        plain = client.get(f"{BOARD}/tickets/{quote('a/b/c', safe='/')}").json()
        encoded = client.get(f"{BOARD}/tickets/a%2Fb%2Fc").json()
    assert plain["label"] == encoded["label"] == "a/b/c"


@pytest.mark.parametrize("query", ["scor=0.3", "score=0.9&score=0.1", "score=0.9&x=", "score=nan", "score=2", "score="])
def test_a_query_that_could_be_misread_is_refused(service: Running, query: str) -> None:
    with service.client("router") as client:
        refused = problem(client.get(f"{path('billing')}?{query}"), "request_invalid")
    assert (refused["status"], refused.get("allowed")) == (422, None)


def raw(service: Running, method: str, target: str, headers: dict[str, str] | None = None, body: Any = None) -> Any:
    """One request whose target reaches the server exactly as it stands here."""
    connection = http.client.HTTPConnection(urlsplit(service.url).netloc, timeout=PATIENCE_S)
    connection.putrequest(method, target, skip_host=bool(headers and "Host" in headers))
    for name, value in (headers or {}).items():
        connection.putheader(name, value)
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return httpx.Response(answer.status, headers=dict(answer.getheaders()), content=text)


@pytest.mark.parametrize("label", ["a%FFb", "%C3", "a%00b", "a%0Ab", "billing%0A", "a%7F", "a%C2%85b"])
def test_a_path_that_is_no_text_is_refused_and_not_guessed(service: Running, label: str) -> None:
    bearer = {"Authorization": f"Bearer {service.place.tokens['boss']}"}
    before = _events(service.place)
    asked = problem(raw(service, "GET", f"{BOARD}/tickets/{label}?score=0.9", bearer), "path_invalid")
    changed = problem(raw(service, "POST", f"{BOARD}/tickets/{label}/disable", bearer), "path_invalid")
    assert (asked["status"], changed["status"]) == (400, 400)
    assert _events(service.place) == before


def test_labels_end_at_their_limit_of_bytes(service: Running) -> None:
    with service.client("boss") as client:
        assert client.get(path("ä" * (LABEL_BYTES // 2))).status_code == 200
        problem(client.get(path("ä" * (LABEL_BYTES // 2 + 1))), "request_invalid")
        problem(client.post(path("ä" * (LABEL_BYTES // 2 + 1), "disable"), json={"reason": "x"}), "request_invalid")
        problem(client.get(f"{BOARD}/tickets/"), "request_invalid")


def test_unknown_addresses_sources_and_weeks_are_not_found(service: Running) -> None:
    before = _events(service.place)
    with service.client("boss") as client:
        found = [
            problem(client.get(f"{BOARD}/nope/billing?score=1"), "unknown_source"),
            problem(client.post(f"{BOARD}/nope/billing/disable", json={"reason": "x"}), "unknown_source"),
            problem(client.post(f"{BOARD}/nope/enable", json={"reason": "x"}), "unknown_source"),
            problem(client.post(path("biling", "disable"), json={"reason": "x"}), "unknown_label"),
            problem(client.post(path("biling", "enable"), json={"reason": "x"}), "unknown_label"),
            problem(client.get("/v1/nothing"), "not_found"),
            problem(client.get("/v1/automation/"), "not_found"),
            problem(client.get("/?week=2026-W01"), "unknown_week"),
            problem(client.get("/?week=%3Cscript%3E"), "unknown_week"),
        ]
    assert {body["status"] for body in found} == {404}
    assert _events(service.place) == before


def test_head_is_get_without_a_body_and_options_says_what_there_is(service: Running) -> None:
    with service.client("router") as client:
        got, head = client.get(BOARD), client.head(BOARD)
        assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", got.headers["etag"])
        options = client.options(path("billing", "disable"))
        assert (options.status_code, options.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
        assert "access-control-allow-origin" not in options.headers
        wrong = client.put(BOARD)
        problem(wrong, "method_not_allowed")
        assert wrong.headers["allow"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize(
    "address",
    [BOARD, path("billing"), path("billing", "enable"), f"{BOARD}/tickets/disable", "/v1/annotations",
     "/v1/annotations/0a/remove", "/metrics", "/health", "/", "/items/tickets/billing", "/incidents", "/docs/",
     "/report", "/static/style.css", "/nowhere"],
)  # fmt: skip
def test_allow_names_the_methods_that_are_answered_and_no_other(service: Running, address: str) -> None:
    with service.client("boss") as client:
        said = client.options(address)
        allowed = set(said.headers["allow"].split(", ")) if "allow" in said.headers else set()
        for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE", "LINK"):
            answer = client.request(method, address)
            if said.status_code == 404:
                assert answer.status_code == 404
                continue
            assert (answer.status_code == 405) is (method not in allowed), (method, allowed)
            if answer.status_code == 405:
                assert set(answer.headers["allow"].split(", ")) == allowed


# Who may do what


@pytest.mark.parametrize(
    ("token", "allowed"),
    [("router", {"read"}), ("stopper", {"disable"}), ("starter", {"enable"}), ("boss", {"read", "disable", "enable"})],
)
def test_a_token_may_do_what_its_scopes_say_and_nothing_else(service: Running, token: str, allowed: set[str]) -> None:
    with service.client(token) as client:
        answers = {
            "read": [client.get(BOARD), client.get(path("billing"))],
            "disable": [client.post(path("spam", "disable", "mail"), json={"reason": "t"}),
                        client.post(f"{BOARD}/mail/disable", json={"reason": "t"})],
            "enable": [client.post(path("spam", "enable", "mail"), json={"reason": "t"}),
                       client.post(f"{BOARD}/mail/enable", json={"reason": "t"})],
        }  # fmt: skip
    for scope, found in answers.items():
        for answer in found:
            if scope in allowed:
                assert answer.status_code == 200, answer.text
            else:
                problem(answer, "scope_missing")


def every_address() -> list[tuple[str, str]]:
    changes = [path("billing", verb) for verb in ("disable", "enable")]
    changes += [f"{BOARD}/tickets/{verb}" for verb in ("disable", "enable")]
    return [("GET", BOARD), ("GET", path("billing")), *(("POST", address) for address in changes)]


@pytest.mark.parametrize(("method", "address"), every_address())
def test_without_a_good_token_nothing_is_read_or_changed(service: Running, method: str, address: str) -> None:
    with Store.from_url(service.place.store_url) as store:
        before = store.switch_events()
    token = service.place.tokens["boss"]
    with service.client() as client:
        for header in (None, "", "Bearer", f"Basic {token}", token, f"Token {token}"):
            headers = {} if header is None else {"Authorization": header}
            answer = client.request(
                method, address, json={"reason": "x"} if method == "POST" else None, headers=headers
            )
            problem(answer, "token_missing")
            assert answer.headers["www-authenticate"] == 'Bearer realm="calmon"'
        digest = TokensFile(service.place.folder / "tokens").entries()[0].digest
        for wrong in (token[:-1], token + "x", token.upper(), "calmon_", digest, "\xff"):
            header = {"Authorization": b"Bearer " + wrong.encode("latin-1")}
            problem(client.request(method, address, content=b"{", headers=header), "token_unknown")  # type: ignore[arg-type]
        query = client.request(method, address, params={"access_token": token})
        problem(query, "token_missing")
    with Store.from_url(service.place.store_url) as store:
        assert store.switch_events() == before


def test_a_revoked_token_ends_at_once_and_a_broken_file_refuses_everything(place: Place) -> None:
    file = place.folder / "tokens"
    good = file.read_text()
    with running(place) as service, service.client("router") as client:
        assert client.get(BOARD).status_code == 200
        file.write_text("".join(line for line in good.splitlines(True) if not line.startswith("router")))
        problem(client.get(BOARD), "token_unknown")
        file.write_text(good + "oops\n")
        problem(client.get(BOARD), "tokens_unreadable")
        with service.client("boss") as boss:
            problem(boss.post(path("billing", "disable"), json={"reason": "x"}), "tokens_unreadable")
        file.unlink()
        problem(client.get(BOARD), "tokens_unreadable")
        file.write_text(good)
        assert client.get(BOARD).status_code == 200
    assert "line 5: write NAME sha256:HASH SCOPES" in service.output()


def test_without_a_tokens_file_this_machine_may_read_and_nobody_may_change(tmp_path: Path) -> None:
    with running(make_place(tmp_path, tokens=False)) as service, service.client() as client:
        assert client.get(BOARD).status_code == 200
        assert client.get(path("billing"), params={"score": 0.9}).json()["allowed"] is True
        for address in (path("billing", "disable"), f"{BOARD}/tickets/enable"):
            problem(client.post(address, json={"reason": "x"}), "no_tokens")
        # a page that reached this address under a name of its own (DNS rebinding)
        for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"):
            problem(client.get(BOARD, headers={"Host": host}), "not_local")
            problem(client.get("/", headers={"Host": host}), "not_local")
        for host in ("localhost", "localhost:1234", "[::1]:80"):
            assert client.get(BOARD, headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("host", ["calmon.example", "127.0.0.1:8080", "localhost", "[::1]:8080"])
def test_where_tokens_are_the_pages_need_one_under_any_name(service: Running, host: str) -> None:
    token = service.place.tokens  # a proxy asks for 127.0.0.1 on behalf of everybody, unless it is told to keep Host
    with service.client() as client:
        away = {"Host": host}
        refused = client.get("/", headers=away)
        problem(refused, "token_missing")
        assert refused.headers["www-authenticate"].startswith("Basic ")
        assert client.get("/", headers=away, auth=("anybody", token["router"])).status_code == 200
        problem(client.get("/", headers=away, auth=("anybody", token["stopper"])), "scope_missing")
        problem(client.get("/rules", headers=away, auth=("anybody", "calmon_x")), "token_unknown")
        for other in ("Basic !!!", "Basic YQ==", "Basic"):
            problem(client.get("/", headers=away | {"Authorization": other}), "token_missing")
        # what a browser would send along by itself opens the pages only
        problem(client.get(BOARD, auth=("anybody", token["boss"])), "token_missing")


def test_whom_a_proxy_on_this_machine_names_may_see_the_pages_and_nothing_else(place: Place) -> None:
    public = {"Host": "calmon.example.org"}
    named = public | {"X-Forwarded-User": "ann"}
    environment = {"CALMON_PROXY_USER_HEADER": "X-Forwarded-User", "CALMON_PUBLIC_URL": "https://calmon.example.org/"}
    with running(place, **environment) as service, service.client() as client:
        assert client.get("/rules", headers=named).status_code == 200
        assert client.get("/items/tickets/billing", headers=named).status_code == 200
        for others in (public, named | {"Host": "evil.example"}, public | {"X-Forwarded-User": ""}):
            problem(client.get("/rules", headers=others), "token_missing")
        twice = [("Host", "calmon.example.org"), ("X-Forwarded-User", "ann"), ("X-Forwarded-User", "bob")]
        problem(client.get("/rules", headers=twice), "token_missing")
        problem(client.get(BOARD, headers=named), "token_missing")
        problem(client.post(path("billing", "disable"), json={"reason": "x"}, headers=named), "token_missing")
        problem(client.get("/items/tickets/billing"), "token_missing")  # ids of items, on this machine too
    assert "GET /rules 200" in service.output()
    assert "proxy:ann" in service.output()


def test_a_proxy_s_header_without_a_public_address_is_refused_at_the_start(place: Place) -> None:
    found = start(place, CALMON_PROXY_USER_HEADER="X-Forwarded-User")
    assert found.exit_code == 2
    assert "needs CALMON_PUBLIC_URL" in found.output


# Changing


def test_a_change_is_stored_with_who_why_and_until_when(either: Running) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=3)
    with either.client("boss") as client:
        on = client.post(path(ODD, "enable"), json={"reason": "retrained", "until": until.isoformat()}).json()
        off = client.post(path(ODD, "disable"), json={"reason": "naïve 🙂"}).json()
    with Store.from_url(either.place.store_url) as store:
        events = store.switch_events("tickets", ODD)[-2:]
        state = store.switch("tickets", ODD)
    assert [(e.kind, e.actor, e.reason) for e in events] == [
        ("enabled", "api:boss", "retrained"), ("disabled", "api:boss", "naïve 🙂"),
    ]  # fmt: skip
    assert events[0].until == until
    assert (state.state, state.by_operator, state.reason) == ("off", True, "naïve 🙂")
    assert (on["label"], on["state"], datetime.fromisoformat(on["until"])) == (ODD, "on", until)
    assert (off["state"], off["until"], off["lease_until"], off["by"]) == ("off", None, None, "api:boss")


def test_a_source_switched_off_stops_every_label_and_switched_on_lets_each_be_as_it_was(either: Running) -> None:
    with either.client("boss") as client:
        client.post(path("billing", "enable"), json={"reason": "start"})
        assert client.post(f"{BOARD}/tickets/disable", json={"reason": "stop"}).json()["label"] is None
        body = client.get(path("billing"), params={"score": 1}).json()
        assert (body["allowed"], body["reason"]) == (False, "source_off")
        assert client.post(f"{BOARD}/tickets/enable", json={"reason": "go"}).json()["state"] == "on"
        assert client.get(path("billing"), params={"score": 1}).json()["allowed"] is True
        assert client.get(path("legal"), params={"score": 1}).json()["reason"] == "never_set"


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "body.reason"),
        ({"reason": ""}, "body.reason"),
        ({"reason": "  \t"}, "body.reason"),
        ({"reason": "a\x00b"}, "body.reason"),
        ({"reason": "a\nb"}, "body.reason"),
        ({"reason": "a\x9bb"}, "body.reason"),
        ({"reason": 7}, "body.reason"),
        ({"reason": None}, "body.reason"),
        ({"reason": "x" * 1001}, "body.reason"),
        ({"reason": "x", "by": "somebody else"}, "body.by"),
        ({"reason": "x", "until": "tomorrow"}, "body.until"),
        ({"reason": "x", "until": "2099-01-01T00:00:00"}, "body.until"),
        ({"reason": "x", "until": 4102444800}, "body.until"),
        ({"reason": "x", "until": "4102444800"}, "body.until"),
        ({"reason": "x", "until": "2099-13-01T00:00:00Z"}, "body.until"),
        ({"reason": "x", "until": "9999-12-31T23:59:59-12:00"}, "body.until"),
        ([], "body"),
        ("x", "body"),
    ],
)
def test_a_body_that_is_not_as_it_must_be_is_refused_by_its_field(service: Running, body: Any, where: str) -> None:
    with service.client("boss") as client:
        answer = client.post(path("billing", "disable"), json=body)
    found = problem(answer, "request_invalid")
    assert found["detail"].startswith(f"{where}: ")


def test_a_change_that_is_over_is_refused(service: Running) -> None:
    with service.client("boss") as client:
        for verb in ("disable", "enable"):
            body = {"reason": "x", "until": "2020-01-01T00:00:00Z"}
            found = problem(client.post(path("billing", verb), json=body), "until_past")
            assert found["detail"] == "until must lie in the future"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[" * 16_000,
        b'{"reason": ' + b"9" * 6000 + b"}",
        b'{"reason": NaN}',
        b'{"reason": "a", "reason": "b"}',
        b'{"until": null, "reason": {"x": 1, "x": 2}}',
        rb'{"reason": "\ud800"}',
    ],
)
def test_a_body_that_cannot_be_read_is_refused(service: Running, body: bytes) -> None:
    before = _events(service.place)
    with service.client("boss") as client:
        headers = {"Content-Type": "application/json"}
        problem(client.post(path("billing", "disable"), content=body, headers=headers), "request_invalid")
    assert _events(service.place) == before


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonx"])
def test_only_json_is_read_so_that_no_form_of_a_foreign_page_is(service: Running, kind: str | None) -> None:
    before = _events(service.place)
    with service.client("boss") as client:
        headers = {"Content-Type": kind} if kind else {}
        problem(client.post(path("billing", "disable"), content=b'{"reason": "x"}', headers=headers), "not_json")
    assert _events(service.place) == before


def test_a_body_has_a_limit_whether_it_announces_its_length_or_not(service: Running) -> None:
    exact = json.dumps({"reason": "x"}).ljust(16 * 1024).encode()

    def pieces(body: bytes) -> Iterator[bytes]:
        yield from (body[k : k + 1000] for k in range(0, len(body), 1000))

    with service.client("boss") as client:
        headers = {"Content-Type": "application/json"}
        for content in (exact, pieces(exact)):
            assert client.post(path("billing", "disable"), content=content, headers=headers).status_code == 200
        for content in (exact + b" ", pieces(exact + b" ")):
            answer = client.post(path("billing", "disable"), content=content, headers=headers)
            problem(answer, "body_too_large")
    # refused on what it announces, before a byte of it has come
    problem(raw(service, "POST", path("billing", "disable"), {"Content-Length": "9" * 15}), "body_too_large")


# Once


def send(client: httpx.Client, key: str, label: str = "billing", verb: str = "disable", **body: str) -> httpx.Response:
    return client.post(path(label, verb), json={"reason": "once"} | body, headers={"Idempotency-Key": key})


def test_the_same_request_with_the_same_key_is_one_event_and_one_answer(either: Running) -> None:
    with either.client("boss") as client:
        first = send(client, "k-1")
        send(client, "k-2", verb="enable")  # somebody changes it meanwhile
        again = send(client, "k-1")
        state = client.get(path("billing")).json()
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.content == again.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert state["reason"] == "on"
    with Store.from_url(either.place.store_url) as store:
        assert sum(e.at.isoformat() == first.json()["at"] for e in store.switch_events()) == 1


@pytest.mark.parametrize(
    "other",
    [{"label": "legal"}, {"verb": "enable"}, {"reason": "another"}, {"until": "2099-01-01T00:00:00Z"}],
    ids=lambda other: next(iter(other)),
)
def test_a_key_with_another_request_is_refused_and_does_nothing(service: Running, other: dict[str, str]) -> None:
    key = f"other-{next(iter(other))}"
    with service.client("boss") as client:
        assert send(client, key).status_code == 200
        with Store.from_url(service.place.store_url) as store:
            before = store.switch_events()
        problem(send(client, key, **other), "idempotency_key_reused")
        with Store.from_url(service.place.store_url) as store:
            assert store.switch_events() == before


def test_a_key_belongs_to_its_token(service: Running) -> None:
    with service.client("boss") as boss, service.client("stopper") as stopper:
        assert send(boss, "shared").json()["by"] == "api:boss"
        assert send(stopper, "shared").json()["by"] == "api:stopper"


@pytest.mark.parametrize("key", ["", "a b", "x" * 201, "ä"])
def test_a_key_is_plain_and_short(service: Running, key: str) -> None:
    bearer = {"Authorization": f"Bearer {service.place.tokens['boss']}", "Content-Type": "application/json"}
    headers = {name: value.encode("utf-8") for name, value in (bearer | {"Idempotency-Key": key}).items()}
    before = _events(service.place)
    with service.client() as client:
        answer = client.post(path("billing", "disable"), content=b'{"reason": "x"}', headers=headers)  # type: ignore[arg-type]
    problem(answer, "request_invalid")
    assert _events(service.place) == before


def test_two_keys_in_one_request_are_refused(service: Running) -> None:
    before = _events(service.place)
    with service.client("boss") as client:
        headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]
        problem(client.post(path("billing", "disable"), json={"reason": "x"}, headers=headers), "request_invalid")
    assert _events(service.place) == before


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_two_services_at_once_make_one_event_of_a_key(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    url = request.getfixturevalue("fresh_postgres_url") if engine == "postgresql" else None
    place = make_place(tmp_path, url)
    rounds = 12
    with ExitStack() as stack:
        services = [stack.enter_context(running(place)) for _ in range(2)]
        clients = [stack.enter_context(service.client("boss")) for service in services]
        pool = stack.enter_context(ThreadPoolExecutor(8))
        for k in range(rounds):
            verb = ("disable", "enable")[k % 2]
            same = [pool.submit(send, clients[n % 2], f"same-{k}", verb=verb) for n in range(8)]
            answers = [future.result() for future in same]
            assert {a.status_code for a in answers} == {200}
            assert len({a.content for a in answers}) == 1
            labels = ("billing", "legal", "phishing", ODD) * 2
            other = [pool.submit(send, clients[n % 2], f"other-{k}", label, verb) for n, label in enumerate(labels)]
            codes = sorted(f.result().status_code for f in other)
            assert codes == [200] * 2 + [422] * 6  # one label is changed, once; its repetition is answered the same
        events = [e for e in _events(place) if e.actor == "api:boss"]
        assert len(events) == 2 * rounds
        assert len({e.key for e in events}) == 2 * rounds
    with running(place) as service, service.client("boss") as client:  # a key outlives the process
        assert send(client, "same-0").headers["idempotency-replayed"] == "true"
    assert len([e for e in _events(place) if e.actor == "api:boss"]) == 2 * rounds


def _events(place: Place) -> list[Any]:
    with Store.from_url(place.store_url) as store:
        return store.switch_events()


def test_many_changes_at_once_are_all_kept(either: Running) -> None:
    before = len(_events(either.place))
    with either.client("boss") as client, ThreadPoolExecutor(8) as pool:
        verbs = ["disable", "enable"] * 12
        codes = list(pool.map(lambda verb: client.post(path("legal", verb), json={"reason": "m"}).status_code, verbs))
    assert codes == [200] * 24
    events = _events(either.place)[before:]
    assert len(events) == 24
    assert all(now.from_state == then.to_state for then, now in itertools.pairwise(events))


# What may be broken around it


def test_a_history_that_is_gone_damaged_or_replaced_is_never_a_yes_and_never_a_500(place: Place) -> None:
    file, backup = place.folder / "history.sqlite", place.folder / "backup.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("VACUUM INTO ?", (str(backup),))
    with running(place) as service, service.client("boss") as client:
        client.post(path("billing", "disable"), json={"reason": "x"})
        for part in place.folder.glob("history.sqlite*"):
            part.unlink()  # the service still holds the old file open, in which billing is off
        for answer in (client.get(BOARD), client.get(path("billing")), client.get("/"),
                       client.post(path("billing", "disable"), json={"reason": "x"})):  # fmt: skip
            problem(answer, "store_unreadable")
        assert not file.exists()
        file.write_bytes(b"this is no database" * 1000)
        problem(client.get(BOARD), "store_unreadable")
        file.unlink()
        backup.rename(file)
        assert client.get(path("billing"), params={"score": 1}).json()["allowed"] is True
        assert client.post(path("billing", "disable"), json={"reason": "x"}).status_code == 200
        with Store.from_url(place.store_url) as store:
            assert store.switch("tickets", "billing").state == "off"
    assert "Traceback" not in service.output()


@pytest.mark.parametrize("journal", ["kept", "removed"])
def test_a_history_that_is_overwritten_is_not_answered_from_what_sqlite_remembers(place: Place, journal: str) -> None:
    file = place.folder / "history.sqlite"
    backup = file.read_bytes()
    with running(place) as service, service.client("router") as client:
        for _ in range(3):
            assert client.get(path("billing"), params={"score": 0.93}).json()["allowed"] is True
        if journal == "kept":
            file.write_bytes(b"\0" * len(backup))
            problem(client.get(path("billing"), params={"score": 0.93}), "store_unreadable")
            return
        for ending in ("-wal", "-shm"):
            Path(f"{file}{ending}").unlink()
        file.write_bytes(backup)
        off = SwitchChange("tickets", "billing", False, "ann", "new")
        with Store.from_url(place.store_url) as store:
            operate(store, load_config(place.folder / "alerts.yaml"), off, lambda: datetime.now(UTC))
        for _ in range(3):
            assert client.get(path("billing"), params={"score": 0.93}).json().get("allowed") in (None, False)


def test_a_history_in_use_is_opened_once_whatever_others_write(place: Place) -> None:
    with closing(ReopeningStore(place.store_url, lambda store: None)) as door:
        first = door.store()
        for number in range(5):
            with Store.from_url(place.store_url) as other:
                other.publish_thresholds({("tickets", None): number / 10}, datetime.now(UTC))
            assert door.store() is first
            assert door.store().thresholds() == {("tickets", None): number / 10}


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_a_history_that_a_newer_program_upgrades_is_a_yes_to_nobody(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    place = make_place(tmp_path, request.getfixturevalue("fresh_postgres_url") if engine == "postgresql" else None)
    newer = sa.create_engine(sa.make_url(place.store_url).set(drivername=_DRIVERS[engine]))
    set_revision = sa.text("UPDATE calmon_revision SET version_num = :revision")
    with running(place) as service, service.client("boss") as client, newer.connect() as connection:
        assert client.get(path("billing"), params={"score": 0.93}).json()["allowed"] is True
        connection.execute(set_revision, {"revision": "0099"})
        connection.commit()  # and stays open: in SQLite what it wrote is only in the journal
        for answer in (client.get(path("billing"), params={"score": 0.93}), client.get(BOARD), client.get("/"),
                       client.get("/metrics"), client.post(path("billing", "enable"), json={"reason": "x"}),
                       client.post(path("billing", "disable"), json={"reason": "x"})):  # fmt: skip
            problem(answer, "store_unreadable")
        connection.execute(set_revision, {"revision": REVISION})
        connection.commit()
        assert client.get(path("billing"), params={"score": 0.93}).json()["allowed"] is True
    newer.dispose()
    assert "the history is at schema revision 0099, this program needs" in service.output()


_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


def test_a_broken_alerts_yaml_still_lets_off_but_not_on_and_a_new_one_is_used(place: Place) -> None:
    config = place.folder / "alerts.yaml"
    good = config.read_text()
    with running(place) as service, service.client("boss") as client:
        config.write_text("nonsense: [")
        assert client.post(path("billing", "disable"), json={"reason": "x"}).status_code == 200
        problem(client.post(path("billing", "enable"), json={"reason": "x"}), "config_unreadable")
        assert client.get(BOARD).status_code == 200
        config.write_text(good.replace("automate_at: 0.8", "automate_at: 0.85"))
        assert client.post(path("billing", "enable"), json={"reason": "x"}).status_code == 200
        assert client.get(path("billing")).json()["threshold"] == 0.85


def test_health_needs_neither_token_nor_history(place: Place) -> None:
    with running(place) as service, service.client() as client:
        (place.folder / "history.sqlite").rename(place.folder / "gone")
        answer = client.get("/health")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


def test_a_body_that_never_ends_is_given_up(place: Place) -> None:
    with running(place) as service:
        host, port = urlsplit(service.url).hostname, urlsplit(service.url).port
        with socket.create_connection((host, port), timeout=PATIENCE_S) as slow:
            slow.sendall(b"POST /v1/automation/tickets/disable HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
            answer = slow.makefile("rb").read()
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"\r\nconnection: close" in head
    kind = {"content-type": "application/problem+json", "cache-control": "no-store"}
    problem(httpx.Response(int(head.split()[1]), headers=kind, content=body), "body_too_slow")


def test_bodies_that_strangers_send_slowly_keep_nobody_out(place: Place) -> None:
    with running(place) as service, ExitStack() as stack:
        host, port = urlsplit(service.url).hostname, urlsplit(service.url).port
        for _ in range(2 * AT_ONCE):
            waiting = stack.enter_context(socket.create_connection((host, port), timeout=PATIENCE_S))
            waiting.sendall(b"POST /v1/automation/tickets/disable HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        with service.client("boss") as client:
            assert {client.get(BOARD).status_code for _ in range(10)} == {200}
            assert client.post(path("billing", "disable"), json={"reason": "now"}).status_code == 200


def test_too_many_at_once_are_asked_to_come_again() -> None:
    async def ask() -> tuple[list[httpx.Response], list[httpx.Response]]:
        let_go = asyncio.Event()

        async def slow(scope: Any, receive: Any, send: Any) -> None:
            await let_go.wait()
            await JSONResponse({})(scope, receive, send)

        transport = httpx.ASGITransport(RequestLimits(slow, at_once=2))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            inside = [asyncio.create_task(client.get(BOARD)) for _ in range(2)]
            await asyncio.sleep(0.05)
            refused = await client.get(BOARD)
            changes = [asyncio.create_task(client.post(path("billing", "disable"))) for _ in range(FOR_CHANGES)]
            await asyncio.sleep(0.05)
            assert not any(each.done() for each in changes), "an off is let in although nobody may read"
            one_too_many = await client.post(path("billing", "disable"))
            let_go.set()
            return [refused, one_too_many], [*await asyncio.gather(*inside, *changes), await client.get(BOARD)]

    refused, others = asyncio.run(ask())
    for each in refused:
        problem(each, "too_busy")
        assert each.headers["retry-after"] == "1"
    assert [answer.status_code for answer in others] == [200] * (2 + FOR_CHANGES + 1)


# Secrets


def test_no_token_is_in_any_output_of_the_service(place: Place) -> None:
    with running(place, "--access-log") as service:
        for name, token in place.tokens.items():
            with service.client(name) as client, service.client() as stranger:
                client.get(BOARD)
                client.get(path("billing"), params={"score": 0.9})
                client.post(path("billing", "disable"), json={"reason": "x"})
                client.post(path("billing", "disable"), content=b"{")
                client.post(path("billing", "disable"), json={"reason": "x", token: token})
                # a token in every place where a person may put it by mistake
                stranger.get(f"{BOARD}?access_token={token}")
                stranger.get(f"{BOARD}/tickets/{token}")
                stranger.get(f"{BOARD}/tickets/{token.replace('_', '%5F', 1)}")
                stranger.get(f"/{token}")
                stranger.get(BOARD, headers={"Authorization": f"Bearer {token}x"})
                stranger.get(BOARD, headers={"Authorization": token})
                stranger.get("/", headers={"Host": "x"}, auth=(token, token))
                stranger.request(token, BOARD)
                raw(service, "GET", f"{BOARD}/tickets/{token}%FF", {"Authorization": f"Bearer {token}"})
        (place.folder / "tokens").write_text(f"router {place.tokens['router']} read\n")
        with service.client("router") as client:
            client.get(BOARD)
        service.stop()
        output = service.output()
    assert output.count("GET /v1/automation/tickets/billing 200") >= 2
    assert re.search(r"INFO monitor\.http: GET /v1/automation 401 [0-9.]+ ms -", output)
    assert re.search(r"POST /v1/automation/tickets/billing/disable 200 [0-9.]+ ms boss", output)
    for token in place.tokens.values():
        assert token not in output
        assert token.removeprefix("calmon_") not in output
    with Store.from_url(place.store_url) as store:
        assert not any(token in repr(store.switch_events()) for token in place.tokens.values())


# Starting and stopping


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_order(place: Place, number: int) -> None:
    with running(place) as service, service.client("router") as client:
        assert client.get(BOARD).status_code == 200
        assert service.stop(number) == 0
    assert "Traceback" not in service.output()


def start(place: Place, *options: str, **environment: str) -> Result:
    """The command where it ends before it listens, in this process."""
    given = {name: value for name, value in place.environment.items() if name.startswith("CALMON_")} | environment
    return CliRunner(env=given).invoke(app, ["dashboard", *options])


def test_a_taken_port_is_a_plain_error(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        found = start(place, "--port", str(taken.getsockname()[1]))
    assert found.exit_code == 1
    said = r"error: cannot listen on 127\.0\.0\.1, port \d+: Address already in use; choose another --port .*\n"
    assert re.fullmatch(said, found.stderr)
    assert found.stdout == ""


def test_what_is_wrong_at_the_start_is_said_and_nothing_listens(place: Place) -> None:
    (place.folder / "bad").write_text("router nonsense read\n")
    for options, environment, code, said in (
        (("--host", "0"), {"CALMON_API_TOKENS_FILE": ""}, 2, "there are no tokens: set CALMON_API_TOKENS_FILE"),
        (("--host", "::"), {"CALMON_API_TOKENS_FILE": ""}, 2, "lets other machines in"),
        ((), {"CALMON_API_TOKENS_FILE": str(place.folder / "bad")}, 2, "line 1: write NAME sha256:HASH SCOPES"),
        ((), {"CALMON_API_TOKENS_FILE": "missing"}, 2, "missing: cannot be read: No such file"),
        ((), {"CALMON_CONFIG": "missing.yaml"}, 2, "missing.yaml"),
        ((), {"CALMON_STORE_URL": "postgresql://x@127.0.0.1:1/x"}, 1, "does not answer"),
    ):  # fmt: skip
        found = start(place, "--port", "0", *options, **environment)
        assert found.exit_code == code, found.stderr
        assert said in found.stderr.replace("\n", " ")
        assert "Traceback" not in found.stderr
        assert found.stdout == ""


def test_a_tokens_file_that_everybody_can_read_is_warned_of(place: Place) -> None:
    (place.folder / "tokens").chmod(0o644)
    with running(place) as service:
        pass
    assert "warning: " in service.output()
    assert "chmod o-rw" in service.output()


def test_a_token_made_on_the_command_line_opens_the_service(place: Place) -> None:
    words = ["automation", "token", "--name", "new", "--scope", "read", "--scope", "disable"]
    made = subprocess.run(
        [sys.executable, "-m", "monitor", *words], env=place.environment, cwd=place.folder, capture_output=True,
        text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    token = made.stdout.strip()
    assert token.startswith("calmon_")
    assert token not in (place.folder / "tokens").read_text()
    with running(place) as service, service.client() as client:
        bearer = {"Authorization": f"Bearer {token}"}
        assert client.get(BOARD, headers=bearer).status_code == 200
        problem(client.post(path("billing", "enable"), json={"reason": "x"}, headers=bearer), "scope_missing")


def test_a_fault_of_the_program_is_reported_without_what_it_was() -> None:
    class Faulty:
        def board(self) -> None:
            raise RuntimeError("secret")

    app = create_app(cast("Service", Faulty()), Guard(None, local=True))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(BOARD)

    assert "secret" not in str(problem(asyncio.run(ask()), "internal_error"))


# What is written about it


def test_every_reason_is_in_the_page_in_the_openapi_and_met_in_these_tests(service: Running) -> None:
    with service.client() as client:
        described = json.dumps(client.get("/openapi.json").json()["paths"])
    page = (DOCS / "http.md").read_text("utf-8")
    for reason in ProblemReason:
        row = rf"^\| <a id=\"{reason.value}\"></a>`{reason.value}` \| {reason.status} \|"
        assert reason.heading
        assert re.search(row, page, re.MULTILINE), reason
        assert reason.value in ("unknown_week", "internal_error") or f"`{reason.value}`" in described, reason
        assert f'"{reason.value}")' in Path(__file__).read_text("utf-8"), f"{reason} is never met"


def test_the_openapi_is_the_frozen_one(service: Running) -> None:
    with service.client() as client:
        found = client.get("/openapi.json").json()
    assert found == json.loads((DOCS / "openapi.json").read_text("utf-8"))
