"""The summary of a window: all labels on one page without scripts, with a figure of each breach."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from monitor.core.records import Subject, Verdict
from monitor.report import words
from monitor.report.data import ReportData, SubjectReport, at_text, headline, now_text
from monitor.report.figures.panels import trend_svg
from monitor.report.figures.scale import scale_of
from monitor.report.html import page

FIGURES_SHOWN = 60


def summary_html(data: ReportData, *, links: Mapping[Subject, str] | None = None, index: str | None = None) -> str:
    """The summary as one page; the same data give the same page.

    ``links`` are the addresses of the labels' pages, ``index`` is that of the list of weeks.
    """
    breaches = [(report, verdict) for report in data.by_attention for verdict in report.breaches]
    shown = [(report, verdict, breach_figure(report, verdict)) for report, verdict in breaches[:FIGURES_SHOWN]]
    before, begun, ended = changes(data)
    return page(
        "summary.html.j2",
        data=data,
        links=links or {},
        index=index,
        headline=headline(data),
        at=at_text(data),
        now=now_text(data),
        before=before,
        begun=begun,
        ended=ended,
        figures=shown,
        further=len(breaches) - len(shown),
    )


def changes(
    data: ReportData,
) -> tuple[str | None, list[tuple[SubjectReport, list[str]]], list[tuple[SubjectReport, list[str]]]]:
    """The window before, and by label the metrics that are in breach only now, and those that were only then."""
    names = {p.window: p.start for report in data.subjects for t in report.trends for p in t.points}
    earlier = [name for name, start in names.items() if start < data.window.start]
    if not earlier:
        return None, [], []
    before = max(earlier, key=lambda name: names[name])
    now = {report.subject: _in_breach(report, data.window.name) for report in data.subjects}
    then = {report.subject: _in_breach(report, before) for report in data.subjects}
    begun = [(r, new) for r in data.by_attention if (new := [m for m in now[r.subject] if m not in then[r.subject]])]
    ended = [(r, old) for r in data.by_attention if (old := [m for m in then[r.subject] if m not in now[r.subject]])]
    return before, begun, ended


def _in_breach(report: SubjectReport, window: str) -> list[str]:
    """The metrics for which a rule found a breach in that window."""
    return [
        words.metric_name(trend.metric, trend.where)
        for trend in report.trends
        if any(point.window == window and point.breach for point in trend.points)
    ]


def breach_figure(report: SubjectReport, verdict: Verdict) -> Markup | None:
    """The metric of a breach over the windows, with its interval, the thresholds and the baseline; None: no trend."""
    trend = report.trend(verdict.metric, verdict.where)
    if trend is None or trend.empty:
        return None
    values = [v for p in trend.points for v in (p.value, p.low, p.high)]
    scale = scale_of(trend.metric, [*values, trend.baseline], [line.level for line in trend.thresholds])
    return trend_svg(trend, scale, f"{words.metric_name(trend.metric, trend.where)} of {report.subject.name}")
