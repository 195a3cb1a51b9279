"""The page: self-contained, escaped, the same for the same data, with its numbers in it."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from monitor.core.records import Interval, RejectedRows
from monitor.report.data import ReportData, ReportNote, SegmentLine
from monitor.report.figures.panels import point_words
from monitor.report.html import html_report, threshold_note
from monitor.story.label import story_lines
from tests.fakes.report_data import HOSTILE, STORIES, Story, report_data

UNKNOWN = Interval(None, None, None, None)


class Page(HTMLParser):
    """What a parser that knows no more than HTML sees."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            attributes, seen = self.scripts[-1]
            self.scripts[-1] = (attributes, seen + data)
        elif self._inside != "style":
            self.text += data


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


@pytest.fixture(scope="module")
def page(data: ReportData) -> Page:
    return Page(html_report(data))


def test_the_same_data_give_the_same_page_to_the_byte(data: ReportData):
    assert html_report(data) == html_report(report_data())


def test_each_label_has_its_story_one_trend_and_one_reliability_figure_which_say_what_they_show(
    data: ReportData, page: Page
):
    labels = [a["aria-label"] for tag, a in page.tags if tag == "svg"]
    assert all(labels)
    assert len(labels) == len(STORIES) * 2
    assert any("breach in 2026-W43, 2026-W44, 2026-W45, 2026-W46" in (label or "") for label in labels)
    for report in data.subjects:
        assert all(line.replace("`", "") in page.text for line in story_lines(report.story))
        assert all(point_words(point) in page.text for point in report.trend.points if point.value is not None)
        assert all(f"{point.n:,} row" in page.text for point in report.reliability.points)
    assert page.text.index("billing must not act alone") < page.text.index("account is fine")


def test_hostile_labels_notes_and_sources_are_text_and_no_script_may_run(data: ReportData, page: Page):
    bad = '<script>alert("x")</script>'
    hostile = replace(data, noted=(ReportNote(bad),), quality=(RejectedRows(bad, bad, 1),))
    seen = Page(html_report(hostile))
    assert HOSTILE in page.text
    assert seen.text.count(bad) == 3
    for each in (page, seen):
        assert not each.scripts
        assert not [a for tag, a in each.tags if tag == "img"]
        assert not [name for _, a in each.tags for name in a if name.startswith("on")]
        (policy,) = [a["content"] for tag, a in each.tags if tag == "meta" and "Policy" in str(a.get("http-equiv"))]
        assert str(policy).startswith("default-src 'none'; script-src 'none'")


def test_the_page_names_no_address_to_load_from(page: Page):
    loading = [(tag, a[k]) for tag, a in page.tags for k in ("src", "href", "srcset", "data", "action") if k in a]
    assert {value for tag, value in loading if tag == "link"} == {"data:,"}
    assert all((value or "").startswith("#") for tag, value in loading if tag == "a")
    assert {tag for tag, _ in loading} <= {"a", "link"}


def test_rows_set_aside_shifts_and_notes_are_shown(page: Page):
    for words in ("3 score out of range", "v7 (2,310 rows)", "No shift found in 1 test"):
        assert words in page.text


def test_a_report_without_a_single_label_says_so_and_draws_nothing():
    seen = Page(html_report(replace(report_data([]), shifts=(), quality=(), noted=())))
    assert "Nothing of this window is in the history." in seen.text
    assert not [tag for tag, _ in seen.tags if tag == "svg"]


def test_the_tables_of_a_label_are_folded_evidence(data: ReportData, page: Page):
    line = SegmentLine("channel", "<b>web", 90, Interval(0.19, 0.1, 0.3, 0.2), UNKNOWN, UNKNOWN)
    report = replace(data.subjects[1], segments=(line,))
    seen = Page(html_report(replace(data, subjects=(report,))))
    assert "channel = <b>web" in seen.text
    for title in ("Verdicts", "All metrics", "Reliability", "Risk and coverage", "By segment"):
        assert title in seen.text
    assert not [a for tag, a in page.tags if tag == "details" and "open" in a]


def test_a_figure_without_a_legend_names_its_thresholds(data: ReportData, page: Page):
    note = threshold_note(data.subjects[1].trend)
    assert note.startswith("ece-increase 0.0")
    assert note in page.text


def test_one_window_alone_makes_a_page():
    assert "Calibration report 2026-W46" in html_report(report_data([Story("billing")], weeks=1))
