"""One self-contained page about a window: it sends no request, and every text in it is escaped."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from monitor.core.records import Interval, Subject, Where
from monitor.core.wording import OVERCONFIDENCE, count_of
from monitor.evaluation.label_state import outcome_text
from monitor.report import elements, words
from monitor.report.data import ReportData, SubjectReport, at_text, headline, now_text
from monitor.report.detail import Detail
from monitor.report.document import detail_document, plain, plain_document, record, state_document
from monitor.report.element import Element
from monitor.report.figures.boxes import HEIGHT as BOX_HEIGHT
from monitor.report.figures.boxes import boxes_drawing
from monitor.report.figures.curves import Curve, curve_drawing
from monitor.report.figures.drawings import Drawing, reliability_drawing, trend_drawing
from monitor.report.figures.evidence import evidence_data, evidence_drawing, evidence_summary
from monitor.report.figures.scale import Scale
from monitor.report.figures.trend import Trend
from monitor.report.markdown import finding_text
from monitor.report.run_document import quality_row
from monitor.report.shift_words import shift_sentence

RARE = 0.1
"""The share of hits below which the precision-recall curve says more than the ROC."""
MAIN_TREND: tuple[str, Where] = ("ece", "all")
_ERRORS = {"ece": "ECE", "mce": "MCE"}
_KINDS = ("id", "rule", "metric", "where", "outcome", "reason", "severity")
_VERDICT = (*_KINDS, "value", "baseline", "change", "p_adjusted", "threshold", "n")


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of the page; ``summary`` is its text for screen readers.

    ``note`` names the thresholds where there is no room for a legend.
    """

    id: str
    title: str
    summary: str
    drawing: Drawing
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One subject of the page with its figures."""

    id: str
    report: SubjectReport
    main: Figure | None
    reliability: Figure | None
    small: tuple[Figure, ...]
    curves: tuple[Figure, ...] = ()

    @property
    def figures(self) -> tuple[Figure, ...]:
        """All figures, in the order of the page."""
        found = (self.main, self.reliability, *self.small, *self.curves)
        return tuple(figure for figure in found if figure is not None)

    @property
    def tables(self) -> tuple[Element, ...]:
        """The tables about this label alone, and that of its recalibration."""
        report, detail = self.report, self.report.detail
        gains = () if detail is None or not detail.gains else (elements.recalibration([(report, detail)]),)
        return (*elements.apart_from_segments(report), *gains)


def html_report(data: ReportData) -> str:
    """The page as one string; the same data give the same bytes.

    Scripts are allowed by their hash only. The numbers of the figures are in the page as JSON: ``#calmon-data`` is the
    history by subject, ``#calmon-figures`` what Plotly draws, by element id.
    """
    scales = data.scales
    sections = [_section(f"s{k}", report, data, scales) for k, report in enumerate(data.by_attention)]
    scripts = (plotly(), template_text("report.js"))
    drawings = {figure.id: plain(figure.drawing) for section in sections for figure in section.figures}
    return page(
        "report.html.j2",
        data=data,
        sections=sections,
        tables=elements.of_selection(data),
        headline=headline(data),
        shift_sentence=shift_sentence(data.shifts, data.shifted),
        shifted=[found.result for found in data.shifted],
        at=at_text(data),
        now=now_text(data),
        page_json=Markup(script_json(page_data(data, sections))),  # noqa: S704 - escaped by script_json
        figures_json=Markup(script_json(drawings)),  # noqa: S704 - escaped by script_json
        plotly=Markup(scripts[0]),  # noqa: S704 - Plotly's own bundle
        script=Markup(scripts[1]),  # noqa: S704 - a file of this package
        policy=content_policy(scripts),
    )


def page(template: str, **values: Any) -> str:
    """A template of this package with the style sheet of all pages."""
    style = Markup(template_text("report.css"))  # noqa: S704 - a file of this package
    return environment().get_template(template).render(style=style, **values)


def content_policy(scripts: Sequence[str]) -> str:
    """A policy that allows these inline scripts, inline styles and data images, and nothing else."""
    digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    hashes = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    allowed = f"script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def script_json(value: Any) -> str:
    """JSON that is safe inside a ``<script>`` element: ASCII, without ``<``, ``>`` and ``&``.

    >>> script_json({"label": "</script>"})
    '{"label": "\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def page_data(data: ReportData, sections: Sequence[Section]) -> dict[str, Any]:
    """The numbers behind the page, for programs; numbers that are not finite are null."""
    return plain_document(
        schema=1,
        schedule=data.window.schedule,
        window={"name": data.window.name, "start": data.window.start, "end": data.window.end},
        zone=data.zone,
        generated_at=data.generated_at,
        headline=headline(data),
        automation_at=data.switched_at or data.generated_at,
        subjects=[_subject_data(section) for section in sections],
        quality=[quality_row(q) for q in data.quality],
        notes=data.notes,
    )


def _subject_data(section: Section) -> dict[str, Any]:
    report = section.report
    about = {"id": section.id, "source": report.subject.source, "label": report.subject.label}
    state = {"state": state_document(report.state), "level": report.level}
    switches = {"automation": record(report.switch), "automation_now": record(report.switch_now)}
    parts = {
        "rows": report.rows,
        "trends": [asdict(t) | {"figure": _figure_id(section.id, t)} for t in report.trends if not t.empty],
        "reliability": record(report.reliability),
        "segments": [asdict(segment) for segment in report.segments],
        "detail": None if report.detail is None else detail_document(report.detail),
        "verdicts": [{name: getattr(v, name) for name in _VERDICT} for v in report.verdicts],
    }
    return about | state | switches | parts


def _section(name: str, report: SubjectReport, data: ReportData, scales: Mapping[tuple[str, Where], Scale]) -> Section:
    drawn = {(trend.metric, trend.where): trend for trend in report.trends if not trend.empty}
    figures = {key: _trend_figure(name, trend, report, data, scales[key]) for key, trend in drawn.items()}
    main, reliability = figures.pop(MAIN_TREND, None), _reliability_figure(name, report)
    curves = () if report.detail is None else tuple(_curve_figures(name, report.detail, data.target))
    return Section(name, report, main, reliability, (*figures.values(), *_evidence_figures(name, report)), curves)


def _evidence_figures(name: str, report: SubjectReport) -> Iterator[Figure]:
    """The growing evidence of each rule that accumulates it."""
    for line in evidence_data(report.verdicts):
        note = f"{line.rule}: {line.needed:,.0f} needed"
        drawing = evidence_drawing(line)
        yield Figure(f"{name}-evidence-{line.rule}", "Evidence", evidence_summary(line), drawing, note)


def _curve_figures(name: str, detail: Detail, target: float) -> Iterator[Figure]:
    if detail.risk_coverage is not None:
        curve, note = detail.risk_coverage, elements.threshold_text(detail, target)
        yield Figure(f"{name}-risk", "Risk and coverage", _summary(curve), _lower(curve_drawing(curve)), note)
    if detail.roc is not None:
        note = f"automate_at {detail.automate_at:.2f}"
        yield Figure(f"{name}-roc", "ROC", _summary(detail.roc), _lower(curve_drawing(detail.roc)), note)
    if detail.precision_recall is not None:
        curve = detail.precision_recall
        note = (
            "read this one: few rows are true"
            if curve.reference[0][1] < RARE
            else f"automate_at {detail.automate_at:.2f}"
        )
        yield Figure(f"{name}-precision", "Precision and recall", _summary(curve), _lower(curve_drawing(curve)), note)
    for k, bins in detail.ranks.items():
        error = detail.interval(f"ece_at_{k}")
        lines = [f"ECE@{k} {words.measured(error)}"] if error is not None else []
        summary = f"Reliability diagram of the {k} highest scores of each item, {count_of(bins.rows, 'row')}. "
        summary += " ".join(lines)
        yield Figure(f"{name}-at-{k}", f"Reliability at {k}", summary, _lower(reliability_drawing(bins, lines)))
    if detail.boxes.named:
        box_texts = "; ".join(
            f"{which} ones: median score {box.median:.2f}, half of them from {box.lower:.2f} to {box.upper:.2f}"
            for which, box in detail.boxes.named
        )
        yield Figure(f"{name}-boxes", "Scores of right and wrong", f"{box_texts}.", boxes_drawing(detail.boxes))


def _lower(drawing: Drawing) -> Drawing:
    """The drawing, as high as the boxes beside it."""
    return drawing | {"layout": drawing["layout"] | {"height": BOX_HEIGHT}}


def _summary(curve: Curve) -> str:
    text, chosen = f"{curve.name} curve", curve.chosen
    text += "" if curve.area is None else f", area {words.number(curve.area)}"
    if chosen is not None and chosen.threshold is not None:
        text += f"; at score {chosen.threshold:.4f} the {curve.x_title} is {words.number(chosen.x)}"
        text += f", the {curve.y_title} {words.number(chosen.y)}"
    return f"{text}."


def _figure_id(section: str, trend: Trend) -> str:
    return f"{section}-{trend.metric}-{trend.where}"


def _trend_figure(name: str, trend: Trend, report: SubjectReport, data: ReportData, scale: Scale) -> Figure:
    span, baseline, small = None, report.baseline, (trend.metric, trend.where) != MAIN_TREND
    if baseline is not None and trend.points:  # the part of its time that the trend shows
        start, end = max(baseline.start, trend.points[0].start), min(baseline.end, trend.points[-1].start)
        span = (start, end) if start < end else None
    return Figure(
        id=_figure_id(name, trend),
        title=words.metric_name(trend.metric, trend.where),
        summary=trend_summary(trend),
        drawing=trend_drawing(trend, data.tz, scale, baseline_span=span, small=small),
        note=threshold_note(trend) if small else "",
    )


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


def _reliability_figure(name: str, report: SubjectReport) -> Figure | None:
    bins = report.reliability
    if bins is None or not bins.points:
        return None
    worst = max(bins.points, key=lambda point: abs(point.score - point.rate))
    summary = (
        f"Reliability diagram of {count_of(bins.rows, 'row')} in {count_of(len(bins.points), 'bin')}; "
        f"the largest gap is at mean score {words.number(worst.score)}, "
        f"hit rate {words.number(worst.rate)}, {count_of(worst.n, 'row')}."
    )
    errors = {title: report.detail.interval(metric) for metric, title in _ERRORS.items()} if report.detail else {}
    lines = [f"{title} {words.measured(found)}" for title, found in errors.items() if found is not None]
    summary += f" {'; '.join(lines)}." if lines else ""
    return Figure(f"{name}-reliability", "Reliability", summary, reliability_drawing(bins, lines))


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


@cache
def plotly() -> str:
    """Plotly's own bundle."""
    # a browser reads \r\n as \n before it hashes the script
    return str(get_plotlyjs()).replace("\r\n", "\n")
