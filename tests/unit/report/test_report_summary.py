"""The summary as a file: small, without a script."""

from __future__ import annotations

import html
from dataclasses import replace

import pytest
from markupsafe import escape

from monitor.core.records import Subject
from monitor.report.data import ReportData
from monitor.report.figures.panels import point_words
from monitor.report.summary import breach_figure, changes, summary_html
from tests.fakes.report_data import report_data

MOST_BYTES = 1_000_000


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data()


def test_the_summary_has_every_label_and_a_figure_of_every_breach_and_no_script(data: ReportData) -> None:
    page = summary_html(data)
    assert "<script" not in page
    assert "script-src 'none'" in html.unescape(page)
    for report in data.subjects:
        assert f"<bdi>{escape(report.subject.label)}</bdi>" in page
    breaches = [(report, v) for report in data.subjects for v in report.breaches]
    assert breaches
    assert page.count('role="img"') == len(breaches)
    for report, verdict in breaches:
        trend = report.trend(verdict.metric, verdict.where)
        assert trend is not None
        for point in trend.points:
            if point.value is not None:
                assert point_words(point) in page
    assert "written" not in page
    assert page == summary_html(report_data())


def test_200_labels_are_under_a_megabyte(data: ReportData) -> None:
    breached = next(report for report in data.subjects if report.breaches)
    fine = next(report for report in data.subjects if not report.breaches)
    many = [
        replace(breached if k % 5 == 0 else fine, subject=Subject("tickets", f"label number {k} of two hundred"))
        for k in range(200)
    ]
    page = summary_html(replace(data, subjects=tuple(many), verdicts=()))
    assert len(page.encode()) < MOST_BYTES
    assert page.count("label number") >= 200


def test_what_changed_is_what_is_in_breach_in_one_of_the_two_windows_alone(data: ReportData) -> None:
    before, begun, ended = changes(data)
    assert before is not None
    for report in data.subjects:
        for trend in report.trends:
            by_window = {point.window: point.breach for point in trend.points}
            now, then = by_window.get(data.window.name, False), by_window.get(before, False)
            named = {
                which: [metrics for found, metrics in lines if found.subject == report.subject]
                for which, lines in (("begun", begun), ("ended", ended))
            }
            assert any(trend.metric in str(metrics).lower() for metrics in named["begun"]) or not (now and not then)
            assert named["ended"] or not (then and not now)
    assert changes(report_data(weeks=1))[0] is None
    assert "no window before this one" in summary_html(report_data(weeks=1))
    assert summary_html(data).count("In breach") >= 2


def test_a_breach_without_a_trend_has_no_figure(data: ReportData) -> None:
    report = next(report for report in data.subjects if report.breaches)
    assert breach_figure(replace(report, trends=()), report.breaches[0]) is None
