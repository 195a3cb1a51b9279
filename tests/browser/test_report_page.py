"""The report page in a real Chromium: quiet, alone, and with the numbers of the history."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from monitor.report.data import ReportData
from monitor.report.figures.boxes import FiveNumbers
from monitor.report.html import html_report
from monitor.report.summary import summary_html
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
    path: Path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(html_report(data), encoding="utf-8")
    seen = Opened(chromium.new_page(viewport={"width": WINDOW[0], "height": WINDOW[1]}), data)
    seen.page.on("request", lambda request: seen.requests.append(request.url))
    seen.page.on("console", lambda message: seen.complaints.append(f"{message.type}: {message.text}"))
    seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    seen.page.set_default_timeout(PATIENCE_MS)
    seen.page.goto(path.as_uri())
    seen.page.wait_for_selector("html[data-figures=drawn]")
    yield seen
    seen.page.close()


def drawn(opened: Opened) -> dict[str, dict[str, Any]]:
    """What Plotly holds: element id -> trace name -> trace."""
    return opened.page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".js-plotly-plot")].map(place => [place.id,
            Object.fromEntries(place.data.map(t => [t.name, {x: t.x, y: t.y, customdata: t.customdata}]))]))"""
    )


def near(found: list[Any], wanted: list[Any]) -> bool:
    return len(found) == len(wanted) and all(
        (a is None and b is None) or (a is not None and b is not None and abs(a - b) <= 1e-12)
        for a, b in zip(found, wanted, strict=True)
    )


@contextmanager
def resized(page: Page, width: int, height: int) -> Iterator[None]:
    """A window of that size, and then the usual one again, each with its figures fitted to it."""
    fit(page, width, height)
    yield
    fit(page, *WINDOW)


def fit(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    # Plotly draws a figure anew some time after the window changed
    page.wait_for_function(
        """() => [...document.querySelectorAll(".js-plotly-plot")].every(place => {
            const svg = place.querySelector(".main-svg").getBoundingClientRect();
            return Math.abs(svg.width - place.getBoundingClientRect().width) <= 1;
        })"""
    )


def test_the_console_stays_empty(opened: Opened) -> None:
    assert opened.complaints == []


def test_nothing_is_asked_of_any_server(opened: Opened) -> None:
    assert opened.requests
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_trends_on_the_screen_are_those_of_the_history(opened: Opened) -> None:
    figures = drawn(opened)
    for k, report in enumerate(opened.data.by_attention):
        for trend in report.trends:
            traces = figures[f"s{k}-{trend.metric}-{trend.where}"]
            value = traces["value"]
            assert near(value["y"], list(trend.values))
            assert near([row[1] for row in value["customdata"]], [p.low for p in trend.points])
            assert near([row[2] for row in value["customdata"]], [p.high for p in trend.points])
            assert [row[0] for row in value["customdata"]] == [p.window for p in trend.points]
            assert near(traces["baseline"]["y"], [trend.baseline] * 2)
            for line in trend.thresholds:
                assert near(traces[line.rule]["y"], [line.level] * 2)
            breaches = [p.value for p in trend.points if p.breach]
            assert near(traces.get("breach", {"y": []})["y"], breaches)


def test_the_reliability_diagrams_on_the_screen_are_those_of_the_counts(opened: Opened) -> None:
    figures = drawn(opened)
    for k, report in enumerate(opened.data.by_attention):
        traces = figures[f"s{k}-reliability"]
        assert report.reliability is not None
        for name, points in (("window", report.reliability.points), ("baseline", report.reliability.baseline)):
            assert near(traces[name]["x"], [p.score for p in points])
            assert near(traces[name]["y"], [p.rate for p in points])
        assert traces["rows"]["y"] == [p.n for p in report.reliability.points]


def test_the_curves_and_boxes_on_the_screen_are_those_of_the_rows(opened: Opened) -> None:
    figures = drawn(opened)
    for k, report in enumerate(opened.data.by_attention):
        assert report.detail is not None
        for name, curve in (("risk", report.detail.risk_coverage), ("roc", report.detail.roc)):
            assert curve is not None
            traces = figures[f"s{k}-{name}"]
            assert near(traces["curve"]["x"], [p.x for p in curve.points])
            assert near(traces["curve"]["y"], [p.y for p in curve.points])
            assert near(traces["curve"]["customdata"], [p.threshold for p in curve.points])
            chosen = [] if curve.chosen is None else [curve.chosen.y]
            assert near(traces.get("threshold", {"y": []})["y"], chosen)
        boxes = opened.page.evaluate(
            """id => Object.fromEntries(document.getElementById(id).data.map(t => [t.name, t.type === "scatter" ? t.x :
                [t.lowerfence[0], t.q1[0], t.median[0], t.q3[0], t.upperfence[0]]]))""",
            f"s{k}-boxes",
        )
        assert boxes == expected_boxes(report.detail.boxes.named)


def expected_boxes(named: Iterable[tuple[str, FiveNumbers]]) -> dict[str, list[float]]:
    """Trace -> its scores: whiskers end at the fences, and what lies beyond is in a trace of its own."""
    found = {}
    for name, box in named:
        assert box.fences is not None
        found[name] = [box.fences[0], box.lower, box.median, box.upper, box.fences[1]]
        if box.outliers:
            found[f"{name}, outliers"] = list(box.outliers)
    return found


def test_the_boxes_are_where_their_scores_are(opened: Opened) -> None:
    places = opened.page.evaluate(
        """() => { const place = document.getElementById("s0-boxes");
            const plot = place.querySelector(".nsewdrag").getBoundingClientRect();
            const axis = place._fullLayout.xaxis.range;
            return [...place.querySelectorAll("path.box")].map(path => { const b = path.getBoundingClientRect();
                const score = x => axis[0] + (x - plot.left) / plot.width * (axis[1] - axis[0]);
                return [score(b.left), score(b.right)]; }); }"""
    )
    detail = opened.data.by_attention[0].detail
    assert detail is not None
    assert len(places) == 2
    for (left, right), (_, box) in zip(places, reversed(detail.boxes.named), strict=True):
        assert box.fences is not None
        assert abs(left - box.fences[0]) < 0.03
        assert abs(right - box.fences[1]) < 0.03


def test_every_figure_is_visible_and_fits_the_page(opened: Opened) -> None:
    boxes = opened.page.evaluate(
        """() => [...document.querySelectorAll(".js-plotly-plot")].map(place => {
            const svg = place.querySelector(".main-svg").getBoundingClientRect();
            return [svg.width, svg.height, svg.right <= document.documentElement.clientWidth];
        })"""
    )
    assert len(boxes) == 9 * len(opened.data.subjects)
    assert all(width > 200 and height > 150 and fits for width, height, fits in boxes)


def test_no_text_of_a_figure_lies_over_another(opened: Opened) -> None:
    overlaps = opened.page.evaluate(
        """() => [...document.querySelectorAll(".js-plotly-plot")].flatMap(place => {
            const texts = ".xtick text, .ytick text, .legendtext, .ytitle, .xtitle, .y2title";
            const boxes = [...place.querySelectorAll(texts)]
                .map(text => [text.textContent, text.getBoundingClientRect()]).filter(([, b]) => b.width > 0);
            return boxes.flatMap(([a, p], i) => boxes.slice(i + 1).filter(([, q]) =>
                p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 1 && q.top < p.bottom - 1)
                .map(([b]) => `${place.id}: ${a} / ${b}`));
        })"""
    )
    assert overlaps == []


def test_a_hostile_label_is_shown_letter_by_letter(opened: Opened) -> None:
    assert opened.page.get_by_role("link", name=HOSTILE, exact=True).inner_text() == HOSTILE
    assert opened.page.locator("img").count() == 0


def test_the_overview_leads_to_each_label(opened: Opened) -> None:
    links = opened.page.locator("#overview tbody a")
    assert links.count() == len(opened.data.subjects)
    for k in range(links.count()):
        target = links.nth(k).get_attribute("href")
        assert target is not None
        assert opened.page.locator(target).get_by_role("heading").first.is_visible()


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
            const svg = [...document.querySelectorAll(".js-plotly-plot text")].map(e => getComputedStyle(e).fill);
            return [...new Set([...html, ...svg])].map(ratio);
        }"""
    )
    opened.page.emulate_media(color_scheme="light")
    assert len(ratios) > 4
    assert min(ratios) >= 4.5


def test_printed_figures_fit_the_paper(opened: Opened) -> None:
    with resized(opened.page, 688, 1000):  # A4 less two margins of 14 mm
        opened.page.emulate_media(media="print")
        opened.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        over = opened.page.evaluate(
            """() => [...document.querySelectorAll(".js-plotly-plot")].filter(place => {
                const svg = place.querySelector(".main-svg").getBoundingClientRect();
                return svg.right > place.closest("figure").getBoundingClientRect().right + 1;
            }).map(place => place.id)"""
        )
        opened.page.screenshot(path=os.environ.get("CALMON_TEST_PRINT"), full_page=True)
        opened.page.emulate_media(media="screen")
        opened.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert over == []
    assert opened.complaints == []


def test_no_text_of_the_summary_s_charts_is_cut_at_the_edge(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "summary.html"
    path.write_text(summary_html(report_data()), encoding="utf-8")
    page = chromium.new_page(viewport={"width": WINDOW[0], "height": WINDOW[1]})
    page.goto(path.as_uri())
    assert page.locator("svg text").count() > 0
    assert page.evaluate(CUT_TEXTS) == []
    page.close()
