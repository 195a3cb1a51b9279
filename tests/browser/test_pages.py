"""The pages of the dashboard in a real Chromium, served by the real service over a history of evaluated weeks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page

from monitor.evaluation.label_state import State, states_of
from monitor.history.store import Store
from monitor.service.pages.registry import PAGES
from tests.browser.conftest import HOSTILE
from tests.browser.test_report_page import PATIENCE_MS
from tests.fakes.service import Running
from tests.fakes.world import WEEKS

pytestmark = pytest.mark.browser
ADDRESSES = ("", "automation", "weeks", "incidents", "monitor")


@dataclass
class Opened:
    """A tab with everything it asked for and complained about."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def opened(chromium: Browser) -> Iterator[Opened]:
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    seen = Opened(page)
    page.on("request", lambda request: seen.requests.append(request.url))
    page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    page.set_default_timeout(PATIENCE_MS)
    yield seen
    page.close()


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_page_opens_quietly_asks_nobody_else_and_fits_a_phone(opened: Opened, service: Running, address: str) -> None:
    page = opened.page
    opened.requests.clear()
    opened.complaints.clear()
    page.set_viewport_size({"width": 1280, "height": 900})
    answer = page.goto(f"{service.url}/{address}")
    assert answer is not None
    assert answer.status == 200
    assert page.get_by_role("navigation").get_by_role("link").count() == len([each for each in PAGES if each.nav]) + 1
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith((service.url, "data:"))] == []
    assert page.locator("img").count() == 0
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.set_viewport_size({"width": 1280, "height": 900})


def test_an_answer_is_sent_again_only_where_it_changed(service: Running) -> None:
    with service.client() as client:
        for address in ADDRESSES:
            first = client.get(f"/{address}")
            again = client.get(f"/{address}", headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert "unsafe" not in first.headers["content-security-policy"]


def test_the_overview_shows_the_stored_states_and_every_verdict_of_every_week(opened: Opened, service: Running) -> None:
    page = opened.page
    page.goto(service.url)
    with Store.from_url(service.place.store_url) as store:
        newest = store.runs("weekly", limit=1)[0]
        states = states_of(store.verdicts(schedule="weekly", window_start=newest["window_start"]))
        verdicts = store.verdicts(schedule="weekly")
    rows = page.locator(".grid-table tbody tr")
    assert rows.count() == len(states)
    named, values = (page.locator(f".tile {part}").all_inner_texts() for part in (".what", ".value"))
    tiles = dict(zip(named, values, strict=True))
    labels = [state for subject, state in states.items() if subject.label is not None]
    assert int(tiles["In breach"]) == sum(state.state is State.BREACH for state in labels) >= 1
    assert int(tiles["Automation off"]) == len(labels)
    names = page.locator("[data-names]").get_attribute("data-names")
    assert names is not None
    for subject, state in states.items():
        row = rows.filter(has=page.get_by_role("link", name=subject.label or subject.name, exact=True))
        assert row.locator(".state").inner_text() == state.clauses[0].what
        letters = row.locator("svg").get_attribute("data-cells")
        assert letters is not None
        for name, letter in zip(names.split(), letters, strict=True):
            mine = {v.outcome for v in verdicts if v.subject == subject and v.window.name == name}
            assert letter in expected(mine), (subject, name)


def expected(outcomes: set[str]) -> str:
    """The letters that a cell of these outcomes may have."""
    if "breach" in outcomes:
        return "34"
    if "unconfirmed" in outcomes:
        return "2"
    if "not_evaluated" in outcomes:
        return "ab" if "ok" in outcomes else "?"
    return "01" if outcomes else "."


def test_the_overview_s_filters_are_in_its_address_and_its_tables_are_csv(opened: Opened, service: Running) -> None:
    page = opened.page
    page.goto(service.url)
    page.select_option("select[name=state]", "breach")
    page.wait_for_url(f"{service.url}/?state=breach")
    assert page.locator(".grid-table tbody tr").count() == 1
    page.get_by_role("link", name="as text").click()
    page.wait_for_url(f"{service.url}/?state=breach&as=text")
    shown = page.locator(".mono").inner_text()
    with service.client() as client:
        lines = list(csv.DictReader(io.StringIO(client.get("/?state=breach&csv=grid").text)))
    assert "".join(line["band"].removeprefix("band ") for line in lines) == shown
    assert {line["label"] for line in lines} == {"slipping"}


def test_the_switches_are_listed_with_who_and_why(opened: Opened, service: Running) -> None:
    page = opened.page
    page.goto(f"{service.url}/automation")
    rows = page.locator("tbody tr")
    off = rows.filter(has_text="steady")
    assert off.locator(".off").inner_text() == "off"
    assert "looked <b>odd</b>" in off.inner_text()
    assert rows.filter(has_text=HOSTILE).locator("th").inner_text() == HOSTILE


def test_every_week_has_its_report(opened: Opened, service: Running) -> None:
    page = opened.page
    page.goto(f"{service.url}/weeks")
    links = page.locator("main li a")
    assert links.all_inner_texts() == list(reversed(WEEKS[7:12]))
    links.first.click()
    assert page.get_by_role("heading", level=1).inner_text() == f"Calibration report {WEEKS[11]}"
