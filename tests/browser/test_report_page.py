"""The report page in a real Chromium: quiet, alone, and with the numbers of the history."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page

from monitor.report.data import ReportData
from monitor.report.html import html_report
from tests.browser.conftest import CUT_TEXTS, PATIENCE_MS
from tests.fakes.report_data import HOSTILE, report_data

pytestmark = pytest.mark.browser
WINDOW = (1280, 900)


@dataclass
class Opened:
    """A page with everything it asked for and complained about."""

    page: Page
    data: ReportData
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def opened(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    data = report_data()
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html_report(data), encoding="utf-8")
    seen = Opened(chromium.new_page(viewport={"width": WINDOW[0], "height": WINDOW[1]}), data)
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.set_default_timeout(PATIENCE_MS)
    seen.page.goto(path.as_uri())
    yield seen
    seen.page.close()


@contextmanager
def resized(page: Page, width: int, height: int) -> Iterator[None]:
    """A window of that size, and then the usual one again."""
    fit(page, width, height)
    yield
    fit(page, *WINDOW)


def fit(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})


def test_the_console_stays_empty(opened: Opened) -> None:
    assert opened.complaints == []


def test_nothing_is_asked_of_any_server(opened: Opened) -> None:
    assert opened.requests
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_every_figure_is_visible_and_fits_the_page(opened: Opened) -> None:
    boxes = opened.page.evaluate(
        """() => [...document.querySelectorAll("svg")].map(figure => {
            const svg = figure.getBoundingClientRect();
            return [svg.width, svg.height, svg.right <= document.documentElement.clientWidth];
        })"""
    )
    assert len(boxes) == 2 * len(opened.data.subjects)  # its trend and its reliability
    assert all(width > 200 and height > 100 and fits for width, height, fits in boxes)


def test_no_text_of_a_figure_is_cut_at_its_edge(opened: Opened) -> None:
    assert opened.page.locator("svg text").count() > 0
    assert opened.page.evaluate(CUT_TEXTS) == []


def test_a_hostile_label_is_shown_letter_by_letter(opened: Opened) -> None:
    assert opened.page.get_by_text(HOSTILE, exact=True).first.inner_text() == HOSTILE
    assert opened.page.locator("img").count() == 0


def test_a_narrow_screen_scrolls_the_tables_and_not_the_page(opened: Opened) -> None:
    with resized(opened.page, 400, 800):
        wide = opened.page.evaluate("document.documentElement.scrollWidth")
    assert wide <= 400


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_can_be_read_in_light_and_dark(opened: Opened, scheme: str) -> None:
    opened.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    ratios = opened.page.evaluate(
        """() => {
            const light = c => { const [r, g, b] = c.match(/[0-9.]+/g).map(Number).map(v => v / 255)
                .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
                return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
            const card = light(getComputedStyle(document.querySelector(".card")).backgroundColor);
            const ratio = c => (Math.max(light(c), card) + 0.05) / (Math.min(light(c), card) + 0.05);
            const html = [...document.querySelectorAll("td, th, .soft, .state, .level, .breach, .off, a")]
                .map(e => getComputedStyle(e).color);
            const svg = [...document.querySelectorAll("svg text")].map(e => getComputedStyle(e).fill);
            return [...new Set([...html, ...svg])].map(ratio);
        }"""
    )
    opened.page.emulate_media(color_scheme="light")
    assert len(ratios) > 3
    assert min(ratios) >= 4.5


def test_printed_figures_fit_the_paper(opened: Opened) -> None:
    with resized(opened.page, 688, 1000):  # A4 less two margins of 14 mm
        opened.page.emulate_media(media="print")
        over = opened.page.evaluate(
            """() => [...document.querySelectorAll("svg")].filter(svg => svg.getBoundingClientRect().right >
                svg.closest("figure").getBoundingClientRect().right + 1).map(svg => svg.ariaLabel)"""
        )
        opened.page.screenshot(path=os.environ.get("CALMON_TEST_PRINT"), full_page=True)
        opened.page.emulate_media(media="screen")
    assert over == []
    assert opened.complaints == []
