"""The page of `calmon dashboard` in a real Chromium, served by the real service over a history of evaluated weeks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, sync_playwright

from monitor.core.windows import week
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.browser.test_report_page import CHROMIUM, PATIENCE_MS
from tests.fakes.service import Place, Running, running
from tests.fakes.world import BASELINE, WEEKS, make_world

pytestmark = pytest.mark.browser
HOSTILE = "</td><img src=x onerror=document.title='gone'>"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two weeks were evaluated; an operator turned one label off, and one with a hostile name on."""
    world = make_world(tmp_path_factory.mktemp("world"))
    with world.opened() as monitor:
        zone = monitor.config.zone
        pin(monitor, week(BASELINE[0], zone), week(BASELINE[1], zone), by="ann", reason="start")
        for name in WEEKS[8:10]:
            run_window(monitor, week(name, zone), act="never")
        change_switch(monitor, "tickets", "steady", enable=False, by="ann", reason="looked <b>odd</b>")
        change_switch(monitor, "tickets", HOSTILE, enable=True, by="ann", reason="why not")
    with running(Place(world.folder, world.store_url, {})) as found:
        yield found


@pytest.fixture(scope="module")
def page(service: Running) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--disable-dev-shm-usage", "--headless"],
            timeout=PATIENCE_MS,
        )
        opened = browser.new_page(viewport={"width": 1280, "height": 900})
        opened.set_default_timeout(PATIENCE_MS)
        yield opened
        browser.close()


def test_the_page_shows_every_switch_and_the_newest_week_and_leads_to_another(page: Page, service: Running) -> None:
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(service.url)
    rows = page.locator("table").first.locator("tbody tr")
    assert rows.count() == 2
    off = rows.filter(has_text="steady")
    assert off.locator(".off").inner_text() == "off"
    assert "looked <b>odd</b>" in off.inner_text()
    hostile = rows.filter(has_text=HOSTILE)
    assert hostile.locator("th").inner_text() == HOSTILE
    assert page.locator("img").count() == 0
    report = page.frame_locator("iframe")
    assert report.get_by_role("heading", level=1).inner_text() == f"Calibration report {WEEKS[9]}"
    report.locator("html[data-figures=drawn]").wait_for()
    assert page.locator("option").all_inner_texts() == [WEEKS[9], WEEKS[8]]
    page.select_option("#week", WEEKS[8])
    page.get_by_role("button", name="Show").click()
    page.wait_for_url(f"{service.url}/?week={WEEKS[8]}")
    assert report.get_by_role("heading", level=1).inner_text() == f"Calibration report {WEEKS[8]}"
    report.locator("html[data-figures=drawn]").wait_for()
    assert page.locator("#week").input_value() == WEEKS[8]
    assert complaints == []
    assert all(url.startswith((service.url, "data:", "blob:")) for url in asked)


def test_nothing_on_the_page_changes_anything(page: Page, service: Running) -> None:
    page.goto(service.url)
    assert page.locator("form").evaluate_all("forms => forms.map(form => form.method)") == ["get"]
    assert page.get_by_role("button").all_inner_texts() == ["Show"]


def test_a_narrow_screen_scrolls_the_table_and_not_the_page(page: Page, service: Running) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    page.goto(service.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
