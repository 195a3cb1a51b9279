"""Every link of every message leads to a page of a running service that answers 200, in a browser without a token."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest

from monitor.alerting.health.issues import WatchReason
from monitor.alerting.slack.links import Links
from monitor.core import documents
from monitor.core.records import Reason
from monitor.core.windows import week
from monitor.history.store import Store
from tests.fakes.alerts_world import UTC_ZONE, Judged, alerts_world
from tests.fakes.service import Running, make_place, running
from tests.unit.alerting.test_incident_message import MESSAGES

GOLDEN = "https://calmon.example.org"
LINK = re.compile(r"<(https?://[^|>\s]+)\|")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service without tokens, as on one's own machine, whose history holds the weeks of the golden messages."""
    place = make_place(tmp_path_factory.mktemp("links"), tokens=False)
    with Store.from_url(place.store_url) as store:
        for name in ("2026-W46", "2026-W47", "2026-W48"):
            window = week(name, UTC_ZONE)
            store.begin_run(
                window, ["tickets"], run="r", acts=True, rules_revision="", now=datetime(2026, 1, 1, tzinfo=UTC)
            )
            store.finish_run(window, ["tickets"], state="done", now=datetime(2026, 1, 1, tzinfo=UTC))
    with running(place) as found:
        yield found


def links_in(*payloads: object) -> list[str]:
    return list(dict.fromkeys(LINK.findall(json.dumps(payloads, ensure_ascii=False))))


def follow(service: Running, urls: list[str], base: str) -> None:
    assert urls
    with service.client() as client:
        answers = {url: client.get(url.removeprefix(base)) for url in urls}
    assert {url: answer.status_code for url, answer in answers.items()} == dict.fromkeys(urls, 200)
    assert all(answer.headers["content-type"].startswith("text/html") for answer in answers.values())


def test_every_link_of_every_golden_message_answers(service: Running) -> None:
    named = [url for url in links_in(*(make() for make in MESSAGES.values())) if url.startswith(GOLDEN)]
    assert named == [f"{GOLDEN}/label/tickets/billing", f"{GOLDEN}/label/tickets/"]
    follow(service, named, GOLDEN)


def test_every_link_of_what_a_monitor_writes_about_its_weeks_answers(tmp_path: Path) -> None:
    place = make_place(tmp_path, tokens=False)
    with running(place) as service:
        (tmp_path / "world").mkdir()
        with alerts_world(tmp_path / "world", sends=False, public_url=service.url) as world:
            breach = Judged("billing", "automated-overconfidence", "breach", 0.12)
            also = Judged("refund", "ece-increase", "breach", 0.07)
            world.evaluate("2026-W02", [breach, also])
            world.evaluate("2026-W03", [breach, Judged("refund", "ece-increase", "unconfirmed", 0.04)])
            urls = links_in(*(delivery.payload for delivery in world.deliveries() if delivery.operation != "file"))
        with Store.from_url(place.store_url) as store:  # the service reads the history that the monitor writes
            for name in ("2026-W02", "2026-W03"):
                store.begin_run(
                    week(name, UTC_ZONE), ["tickets"], run="r", acts=True, rules_revision="", now=datetime.now(UTC)
                )
        assert {f"{service.url}/label/tickets/{name}" for name in ("billing", "refund")} <= {*urls}
        follow(service, urls, service.url)


@pytest.mark.parametrize("reason", [*Reason, *WatchReason])
def test_the_runbook_page_of_every_reason_answers(service: Running, reason: Reason | WatchReason) -> None:
    url = Links(GOLDEN, pages=documents.pages()).runbook(reason.value)
    assert url is not None
    follow(service, [url], GOLDEN)


def test_documents_need_no_token_where_the_other_pages_do(tmp_path: Path) -> None:
    with running(make_place(tmp_path)) as service:
        reached = {"Host": "calmon.example.org"}  # as another machine asks
        with httpx.Client(base_url=service.url, headers=reached, timeout=60) as client:
            assert client.get("/docs/runbook/increased").status_code == 200
            assert client.get("/docs/runbook/increased.md").status_code == 200
            assert client.get("/docs/").status_code == 200
            asked = client.get("/?week=2026-W46")
            assert asked.status_code == 401
            assert asked.headers["www-authenticate"].startswith("Basic")  # a browser asks for the token
            opened = client.get("/docs/alerts", headers=reached)
            assert "script" not in opened.headers["content-security-policy"]


@pytest.mark.parametrize("path", ["/docs/nothing", "/docs/../alerts.yaml", "/docs/%2e%2e/alerts.yaml", "/docs/x.png"])
def test_what_is_no_document_is_not_found(service: Running, path: str) -> None:
    with service.client() as client:
        assert client.get(path).status_code == 404
