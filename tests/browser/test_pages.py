"""The pages of the dashboard in a real Chromium, served by the real service over a history of evaluated weeks."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Locator, Page

from monitor.history.store import Store
from monitor.report import words
from monitor.service.pages import PAGES
from tests.browser.conftest import CUT_TEXTS, HOSTILE, PATIENCE_MS, VERSIONS, follow
from tests.fakes.service import Running
from tests.fakes.world import LABELS, WEEKS

pytestmark = pytest.mark.browser
ADDRESSES = (
    "", "automation", "incidents", "monitor", "rules", "label/tickets/slipping",
    "label/tickets/steady?against=2026-W31", "label/tickets/", "items/tickets/slipping",
    f"compare?a={WEEKS[8]}&b={WEEKS[11]}&label=slipping",
    "compare?a=version:2.1&b=version:2.2", "incidents/{incident}",
)  # fmt: skip


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
def test_a_page_opens_quietly_asks_nobody_else_and_fits_a_phone(
    opened: Opened, service: Running, incident: str, address: str
) -> None:
    page = opened.page
    opened.requests.clear()
    opened.complaints.clear()
    page.set_viewport_size({"width": 1280, "height": 900})
    answer = page.goto(f"{service.url}/{address.format(incident=incident)}")
    assert answer.status == 200
    assert page.get_by_role("navigation").get_by_role("link").count() == len([each for each in PAGES if each.nav]) + 1
    assert opened.complaints == []
    assert [url for url in opened.requests if not url.startswith((service.url, "data:"))] == []
    assert page.locator("img").count() == 0
    assert page.evaluate(CUT_TEXTS) == []
    page.set_viewport_size({"width": 400, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert page.evaluate(CUT_TEXTS) == []
    page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("address", ADDRESSES)
def test_a_name_of_one_long_word_widens_no_page(opened: Opened, service: Running, incident: str, address: str) -> None:
    page = opened.page
    page.goto(f"{service.url}/{address.format(incident=incident)}")
    page.evaluate("document.querySelectorAll('bdi').forEach(each => each.textContent = 'W'.repeat(180))")
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_monitor_page_has_room_for_its_tables_on_a_wide_screen(opened: Opened, service: Running) -> None:
    opened.page.set_viewport_size({"width": 1400, "height": 900})
    opened.page.goto(f"{service.url}/monitor")
    widths = opened.page.evaluate("[...document.querySelectorAll('.pair > section')].map(each => each.clientWidth)")
    opened.page.set_viewport_size({"width": 1280, "height": 900})
    assert min(widths) >= 550  # six columns, the names of sources and reasons among them


@pytest.mark.parametrize("address", ["", "label/tickets/slipping", "incidents", "automation"])
def test_figures_and_tables_fit_a_sheet_of_paper(opened: Opened, service: Running, address: str) -> None:
    page = opened.page
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})  # A4 without its margins
    page.goto(f"{service.url}/{address}")
    widths = page.evaluate("[...document.querySelectorAll('html, .wide')].map(each => each.scrollWidth)")
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert max(widths) <= 703


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_serious_finding(
    opened: Opened, service: Running, incident: str, scheme: Literal["light", "dark"]
) -> None:
    opened.page.emulate_media(color_scheme=scheme)
    found = {}
    for address in ADDRESSES:
        opened.page.goto(f"{service.url}/{address.format(incident=incident)}")
        violations = Axe().run(opened.page).response["violations"]
        serious = [each for each in violations if each["impact"] in ("serious", "critical")]
        found |= {(address, v["id"]): [node["html"][:160] for node in v["nodes"][:3]] for v in serious}
    opened.page.emulate_media(color_scheme="light")
    assert found == {}


@pytest.mark.parametrize("address", ["", "label/tickets/slipping"])
def test_the_keyboard_reaches_everything_that_can_be_used(opened: Opened, service: Running, address: str) -> None:
    page = opened.page
    page.goto(f"{service.url}/{address}")
    count = page.evaluate(
        """() => { const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']")]
            .filter(each => each.type !== "hidden" && each.checkVisibility());
            all.forEach((each, place) => { each.dataset.place = place; }); return all.length; }"""
    )
    reached = set()
    for _ in range(count + 2):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.dataset.place"))
    assert {str(place) for place in range(count)} <= reached


def test_an_answer_is_sent_again_only_where_it_changed(service: Running, incident: str) -> None:
    with service.client() as client:
        for address in (each.format(incident=incident) for each in ADDRESSES):
            first = client.get(f"/{address}")
            again = client.get(f"/{address}", headers={"If-None-Match": first.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert "unsafe" not in first.headers["content-security-policy"]


def test_a_comparison_shows_the_stored_numbers_of_both_weeks_significant_ones_first(
    opened: Opened, service: Running
) -> None:
    page = opened.page
    page.goto(f"{service.url}/compare?a={WEEKS[8]}&b={WEEKS[11]}")
    with Store.from_url(service.place.store_url) as store:
        estimates = {(e.window.name, e.subject.label, e.metric, e.where): e for e in store.estimates(source="tickets")}
    with service.client() as client:
        lines = list(
            csv.DictReader(io.StringIO(client.get(f"/compare?a={WEEKS[8]}&b={WEEKS[11]}&csv=differences").text))
        )
    for line in lines:
        label = line["label"] or None
        for side, name in (("a", WEEKS[8]), ("b", WEEKS[11])):
            found = estimates[name, label, line["metric"], line["where"]].interval
            assert (float(line[side]), float(line[f"{side}_low"])) == pytest.approx((found.value, found.low), abs=1e-12)
        assert float(line["change"]) == pytest.approx(float(line["b"]) - float(line["a"]))
    significant = [line["significant"] for line in lines]
    assert significant == sorted(significant, reverse=True)
    assert {line["label"] for line in lines if line["significant"] == "1"} >= {"slipping"}
    rows = page.locator("table.differences tbody tr")
    assert rows.count() == len(lines)
    assert rows.first.locator("td.num").first.inner_text().split()[0] == words.number(float(lines[0]["a"]))
    follow(page.get_by_role("link", name="curves of slipping").first)
    assert page.locator("#curves").inner_text() == "Reliability of slipping"
    assert page.locator("circle title").count() > 5


QUESTIONS = (
    ("what is worst", (), ".story", "slipping must not act alone"),
    ("when did it begin", (), ".story", "since 2026-W"),
    ("who turned it off", ("Automation",), "main", "looked <b>odd</b>"),
    ("what did automation cost", ("Automation",), "main", "Extra errors"),
    ("what next", ("slipping",), ".told", "Next step|Now"),
    ("which scores", ("slipping",), "#scores", "Scores of"),
    ("which incidents are open", ("Incidents",), "main", "open"),
    ("the wrong items", ("slipping", "The items behind it"), "main", "really"),
)


@pytest.mark.parametrize(("question", "clicks", "place", "answer"), QUESTIONS, ids=[each[0] for each in QUESTIONS])
def test_a_question_of_an_ml_lead_is_answered_in_two_clicks(
    opened: Opened, service: Running, question: str, clicks: tuple[str, ...], place: str, answer: str
) -> None:
    page = opened.page
    page.goto(service.url)
    for name in clicks:
        follow(page.get_by_role("link", name=name).first)
    found = "\n".join(page.locator(place).all_inner_texts())
    assert any(part in found for part in answer.split("|")), f"{question}: {found[:300]}"
    assert len(clicks) <= 2


def texts_of(table: Locator) -> list[list[str]]:
    """The cells of each row of a table's body."""
    return [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]


def test_which_of_two_versions_is_better_is_answered_by_the_stored_numbers_of_their_weeks(
    opened: Opened, service: Running
) -> None:
    page = opened.page
    page.goto(service.url)
    follow(page.get_by_role("link", name="Compare", exact=True))
    page.select_option("select[name=a]", "version:2.1")
    page.select_option("select[name=b]", "version:2.2")
    follow(page.get_by_role("button", name="Compare"))
    page.wait_for_url("**/compare?**b=version**")
    said = " to ".join(f"version {name} ({weeks[0]} to {weeks[-1]})" for name, weeks in VERSIONS.items())
    assert page.locator("#what").inner_text() == f"{said}, tickets"
    with Store.from_url(service.place.store_url) as store:
        found = [e for e in store.estimates(source="tickets") if (e.metric, e.where) == ("ece", "all")]
    rows = texts_of(page.locator("table.differences"))
    shown = {row[0]: row for row in rows if row[1] == words.metric_name("ece", "all")}
    for label in LABELS:
        before, after = (
            sum(e.n * (e.interval.value or 0.0) for e in mine) / sum(e.n for e in mine)
            for weeks in VERSIONS.values()
            for mine in [[e for e in found if e.subject.label == label and e.window.name in weeks]]
        )
        numbers = [cell.split()[0] for cell in shown[label][2:5]]
        assert numbers == [words.number(before), words.number(after), words.number(after - before, sign=True)]
    assert shown["slipping"][6] == "worse"
    assert shown["steady"][6] == "not significant"


def test_the_overview_s_week_and_filters_are_in_its_address(opened: Opened, service: Running) -> None:
    page = opened.page
    page.goto(service.url)
    page.select_option("select[name=range]", "13")
    page.wait_for_url("**/?*range=13*")
    page.select_option("select[name=week]", WEEKS[9])
    page.wait_for_url(f"**/?*week={WEEKS[9]}*")
    assert page.get_by_role("heading", level=1).inner_text() == f"Overview as of {WEEKS[9]}"
    page.goto(f"{service.url}/?q=steady")
    assert page.locator(".story").count() == 1


def test_hostile_names_are_text_on_every_page(opened: Opened, service: Running) -> None:
    page = opened.page
    for address in ("automation", f"label/tickets/{quote(HOSTILE, safe='')}", "", "compare"):
        page.goto(f"{service.url}/{address}")
        assert page.locator("img, main i").count() == 0
        assert page.title() != "gone"
    page.goto(f"{service.url}/label/tickets/{quote(HOSTILE, safe='')}")
    assert page.get_by_role("heading", level=1).inner_text() == f"tickets/{HOSTILE}"
    page.goto(service.url)
    assert "prompt <i>v7</i>" in (page.locator("main").text_content() or "")
