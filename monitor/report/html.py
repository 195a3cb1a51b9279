"""One self-contained page about a window: it sends no request, and every text in it is escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from monitor.core.records import Interval, Subject, Where
from monitor.core.wording import OVERCONFIDENCE, count_of
from monitor.evaluation.label_state import outcome_text
from monitor.report import elements, words
from monitor.report.data import ReportData, SubjectReport, at_text, headline, now_text
from monitor.report.detail import Detail
from monitor.report.element import Element
from monitor.report.figures.curves import Curve, curve_svg
from monitor.report.figures.evidence import evidence_data, evidence_svg
from monitor.report.figures.panels import reliability_svg, trend_svg
from monitor.report.figures.scale import Scale
from monitor.report.figures.trend import Trend
from monitor.report.markdown import finding_text
from monitor.report.shift_words import shift_sentence

RARE = 0.1
"""The share of hits below which the precision-recall curve says more than the ROC."""
MAIN_TREND: tuple[str, Where] = ("ece", "all")
_ERRORS = {"ece": "ECE", "mce": "MCE"}
POLICY = (
    "default-src 'none'; script-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)
"""What a page may load: nothing."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the page; ``note`` names the thresholds, since there is no room for a legend."""

    title: str
    drawing: Markup
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One subject of the page with its figures."""

    id: str
    report: SubjectReport
    main: Figure | None
    reliability: Figure | None
    small: tuple[Figure, ...]
    curves: tuple[Figure, ...]
    evidence: tuple[Figure, ...]

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in the order of the page."""
        found = (self.main, self.reliability, *self.small, *self.curves, *self.evidence)
        return tuple(figure for figure in found if figure is not None)

    @property
    def tables(self) -> tuple[Element, ...]:
        """The tables about this label alone, and that of its recalibration."""
        report, detail = self.report, self.report.detail
        gains = () if detail is None or not detail.gains else (elements.recalibration([(report, detail)]),)
        return (*elements.apart_from_segments(report), *gains)


def html_report(data: ReportData) -> str:
    """The page as one string; the same data give the same bytes."""
    scales = data.scales
    return page(
        "report.html.j2",
        data=data,
        sections=[_section(f"s{k}", report, data, scales) for k, report in enumerate(data.by_attention)],
        tables=elements.of_selection(data),
        headline=headline(data),
        shift_sentence=shift_sentence(data.shifts, data.shifted),
        shifted=[found.result for found in data.shifted],
        at=at_text(data),
        now=now_text(data),
    )


def page(template: str, **values: Any) -> str:
    """A template of this package with the style sheet of all pages."""
    style = Markup(template_text("report.css"))  # noqa: S704 - a file of this package
    return environment().get_template(template).render(style=style, policy=POLICY, **values)


def _section(name: str, report: SubjectReport, data: ReportData, scales: Mapping[tuple[str, Where], Scale]) -> Section:
    drawn = {(trend.metric, trend.where): trend for trend in report.trends if not trend.empty}
    figures = {
        key: Figure(words.metric_name(*key), trend_svg(trend, scales[key], trend_summary(trend)), threshold_note(trend))
        for key, trend in drawn.items()
    }
    main, reliability = figures.pop(MAIN_TREND, None), _reliability_figure(report, data.window.name)
    curves = () if report.detail is None else tuple(_curve_figures(report.detail, data))
    evidence = tuple(Figure(f"Evidence of {line.rule}", evidence_svg(line)) for line in evidence_data(report.verdicts))
    return Section(name, report, main, reliability, tuple(figures.values()), curves, evidence)


def _curve_figures(detail: Detail, data: ReportData) -> Iterator[Figure]:
    acts_from = f"automate_at {detail.automate_at:.2f}"
    if (curve := detail.risk_coverage) is not None:
        note = elements.threshold_text(detail, data.target)
        yield Figure("Risk and coverage", curve_svg(curve, _summary(curve)), note)
    if (curve := detail.roc) is not None:
        yield Figure("ROC", curve_svg(curve, _summary(curve)), acts_from)
    if (curve := detail.precision_recall) is not None:
        note = "read this one: few rows are true" if curve.reference[0][1] < RARE else acts_from
        yield Figure("Precision and recall", curve_svg(curve, _summary(curve)), note)
    for k, bins in detail.ranks.items():
        error = detail.interval(f"ece_at_{k}")
        note = "" if error is None else f"ECE@{k} {words.measured(error)}"
        yield Figure(f"Reliability at {k}", reliability_svg(bins, (data.window.name, "")), note)


def _summary(curve: Curve) -> str:
    text, chosen = f"{curve.name} curve", curve.chosen
    text += "" if curve.area is None else f", area {words.number(curve.area)}"
    if chosen is not None and chosen.threshold is not None:
        text += f"; at score {chosen.threshold:.4f} the {curve.x_title} is {words.number(chosen.x)}"
        text += f", the {curve.y_title} {words.number(chosen.y)}"
    return f"{text}."


def threshold_note(trend: Trend) -> str:
    """The names of the orange lines, for a figure without a legend."""
    drawn = [line for line in trend.thresholds if line.level is not None]
    return ", ".join(f"{line.rule} {words.number(line.level)}" for line in drawn)


def trend_summary(trend: Trend) -> str:
    """A figure in one sentence, for those who cannot see it."""
    name, known = words.metric_name(trend.metric, trend.where), [p for p in trend.points if p.value is not None]
    if not known:
        return f"{name}: no values."
    first, last = known[0], known[-1]
    text = f"{name} over {count_of(len(known), 'window')} from {first.window} to {last.window}: "
    text += f"from {words.number(first.value)} to {words.number(last.value)}"
    text += "" if trend.baseline is None else f", baseline {words.number(trend.baseline)}"
    breaches = [point.window for point in trend.points if point.breach]
    return f"{text}; {'breach in ' + ', '.join(breaches) if breaches else 'no breach'}."


def _reliability_figure(report: SubjectReport, window: str) -> Figure | None:
    bins = report.reliability
    if bins is None or not bins.points:
        return None
    errors = {title: report.detail.interval(metric) for metric, title in _ERRORS.items()} if report.detail else {}
    note = "; ".join(f"{title} {words.measured(found)}" for title, found in errors.items() if found is not None)
    return Figure("Reliability", reliability_svg(bins, (window, "baseline" if bins.baseline else "")), note)


@cache
def environment() -> Environment:
    """The templates of this package; every value in them is escaped."""
    loader = PackageLoader("monitor.report", "templates")
    found = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    found.trim_blocks = found.lstrip_blocks = True
    found.globals.update(
        words=words,
        count_of=count_of,
        finding_text=finding_text,
        outcome_text=outcome_text,
        detail_text=elements.detail_text,
        overconfidence=OVERCONFIDENCE,
    )
    found.tests["subject"] = lambda cell: isinstance(cell, Subject)
    found.tests["interval"] = lambda cell: isinstance(cell, Interval)
    found.tests["marked"] = lambda cell: isinstance(cell, tuple)
    return found


def template_text(name: str) -> str:
    """A file of the package's templates as it is."""
    return (files("monitor.report") / "templates" / name).read_text(encoding="utf-8")
