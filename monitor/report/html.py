"""One self-contained page about a window: it sends no request, and every text in it is escaped."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from monitor.core.records import Interval, Subject
from monitor.core.wording import count_of
from monitor.report import words
from monitor.report.data import ReportData
from monitor.report.figures.label_trend import label_trend
from monitor.report.figures.panels import reliability_svg
from monitor.report.figures.trend import Trend
from monitor.report.tables import of_all, of_one, ranges, shift_sentence
from monitor.story.label import story_lines
from monitor.story.window import counts_words

POLICY = (
    "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""What a page may load: nothing."""


def html_report(data: ReportData) -> str:
    """The page as one string; the same data give the same bytes."""
    sections = []
    for report in data.by_attention:
        lines = ["No rule judged it"] if report.story is None else story_lines(report.story)
        figures = []  # (title, drawing, note)
        if (trend := report.trend) is not None and not trend.empty:
            name = words.metric_name(trend.metric, trend.where)
            figures.append((name, label_trend(trend, {}, (), data.window.end), threshold_note(trend)))
        if (bins := report.reliability) is not None and bins.points:
            names = data.window.name, "baseline" if bins.baseline else ""
            figures.append(("Reliability", reliability_svg(bins, names), ""))
        sections.append({"report": report, "lines": lines, "figures": figures, "tables": of_one(report)})
    return page(
        "report.html.j2",
        data=data,
        counts=counts_words(data.stories),
        sections=sections,
        tables=[each for each in (*of_all(data), ranges(data)) if each.rows],
        shift_sentence=shift_sentence(data.shifts, data.shifted),
    )


def page(template: str, **values: Any) -> str:
    """A template of this package with the style sheet of all pages."""
    style = Markup((files("monitor.report") / "templates" / "report.css").read_text("utf-8"))  # noqa: S704 - our file
    return environment().get_template(template).render(style=style, policy=POLICY, **values)


def threshold_note(trend: Trend) -> str:
    """The names of the lines of limits, for a figure without room for a legend."""
    return ", ".join(f"{rule} {words.number(level)}" for rule, level in trend.limits.items())


def templates_of(package: str) -> Environment:
    """The templates of a package; every value in them is escaped."""
    loader = PackageLoader(package, "templates")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    found.globals.update(words=words, count_of=count_of)
    return found


@cache
def environment() -> Environment:
    """The templates of this package."""
    found = templates_of("monitor.report")
    found.tests["subject"] = lambda cell: isinstance(cell, Subject)
    found.tests["interval"] = lambda cell: isinstance(cell, Interval)
    return found
