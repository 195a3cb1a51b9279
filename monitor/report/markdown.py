"""The report in Markdown, for Prefect artifacts and pull requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from monitor.core.records import Action, Interval, Subject, Verdict, Where
from monitor.core.wording import clean, plain_words
from monitor.report import words
from monitor.report.data import ReportData, SubjectReport, at_text, headline, now_text
from monitor.report.elements import Cell, Element, of_all, of_one
from monitor.report.figures.sparkline import sparkline

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&])")


def summary_markdown(data: ReportData, actions: Sequence[Action] = (), *, to_do: bool = True) -> str:
    """The window on one page: headline, findings, what to do, labels, what was done, rows set aside, notes."""
    aside = [(escape(q.source), escape(q.reason.replace("_", " ")), f"{q.rows:,}") for q in data.quality]
    parts = [
        f"# Calibration {data.window.name}",
        f"{words.window_text(data.window, data.tz)} ({data.zone}). **{headline(data)}** {now_text(data)}".rstrip(),
        _findings(data),
        _section("What to do", _to_do(data) if to_do else ""),
        _section("Labels", labels_markdown(data)),
        _section("Done", _actions(actions)),
        _section("Rows set aside", _table(("source", "reason", "rows"), aside, numbers=(2,)) if aside else ""),
        _section("Notes", "\n".join(f"- {escape(note)}" for note in data.notes)),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def report_markdown(data: ReportData) -> str:
    """Everything about the window: the summary, the elements of all labels, then those of each label."""
    parts = [summary_markdown(data, to_do=False).rstrip(), *(element_markdown(element) for element in of_all(data))]
    for report in data.by_attention:
        if report.detail is not None:
            parts += [f"## {_name(report.subject)}", *(element_markdown(each, "###") for each in of_one(report))]
    return "\n\n".join(parts) + "\n"


def element_markdown(element: Element, level: str = "##") -> str:
    """One element as a section; columns that are drawn in characters are left out."""
    kept = [k for k in range(len(element.head)) if k not in element.drawn]
    rows = [[_cell(row[k]) for k in kept] for row in element.rows]
    numbers = [place for place, k in enumerate(kept) if k in element.numbers]
    table = _table([escape(element.head[k]) for k in kept], rows, numbers=numbers)
    note = f"\n\n{escape(element.note)}" if element.note else ""
    return f"{level} {escape(element.title)}\n\n{table}{note}"


def _cell(cell: Cell) -> str:
    if isinstance(cell, Subject):
        return _name(cell) if cell.segment is None else escape(words.segment(cell))
    if isinstance(cell, Interval):
        return words.measured(cell)
    if isinstance(cell, tuple):
        return f"{words.measured(cell[0])} {escape(cell[1])}"
    return "<br>".join(escape(line) for line in cell.split("\n"))


def labels_markdown(data: ReportData) -> str:
    """The table of labels, those first that need somebody."""
    rows = [
        (
            "<br>".join(escape(line) for line in report.state.lines),
            _name(report.subject),
            f"{report.rows:,}",
            words.number(report.value("ece")),
            change_text(report, data.unit),
            words.number(report.value("mce")),
            words.number(report.value("roc_auc")),
            words.number(report.value("shortfall", "automated")),
            escape(report.switch.words) if report.switch else "–",
            escape(report.switch_now.words) if report.switch_now else "–",
            report.level,
        )
        for report in data.by_attention
    ]
    numbers = ("rows", "ECE", "change", "MCE", "ROC AUC", "shortfall (automated)")
    head = ("state", "label", *numbers, f"automation {at_text(data)}", "automation now", "level")
    return _table(head, rows, numbers=range(2, 8)) if rows else "No label was read in this window."


def change_text(report: SubjectReport, unit: str) -> str:
    """The change of the ECE, and what it is of where a verdict pooled several windows."""
    change = report.change
    told = words.pooled(change.windows, unit, change.value)
    return words.number(change.change, sign=True) + (f" ({told})" if told else "")


def trend_markdown(data: ReportData, metric: str = "ece", where: Where = "all") -> str:
    """One line a label: the trend of a metric, its first and last value and its breaches."""
    head = ("label", "trend", "first", "last", "95% interval", "n", "breaches")
    scale = data.scales.get((metric, where))
    if scale is None:
        return "Nothing in the history yet."
    rows = [
        (
            _name(report.subject),
            sparkline(trend.values, scale),
            words.number(next((v for v in trend.values if v is not None), None)),
            words.number(trend.last.value),
            words.interval(trend.last.low, trend.last.high),
            f"{trend.last.n:,}",
            ", ".join(point.window for point in trend.points if point.breach) or "–",
        )
        for report in data.by_attention
        if (trend := report.trend(metric, where)) is not None and trend.last is not None and not trend.empty
    ]
    note = f"Trend: one scale for all labels, {scale.words}."
    return f"{_table(head, rows, numbers=(2, 3, 4, 5))}\n\n{note}" if rows else "Nothing in the history yet."


def escape(text: str) -> str:
    """Foreign text as Markdown shows it letter by letter, in one line.

    >>> escape("a|b <img> [x](y)")
    'a\\\\|b \\\\<img\\\\> \\\\[x\\\\]\\\\(y\\\\)'
    """
    return _SPECIAL.sub(r"\\\1", clean(text, length=400))


def _findings(data: ReportData) -> str:
    lines = [
        f"- **{escape(v.rule)}** ({v.severity}): {escape(finding_text(v, data.unit))} "
        f"Reason: `{v.reason}`, verdict `{v.id[:12]}`."
        for v in data.breaches
    ]
    return _section("Breaches", "\n".join(lines))


def finding_text(verdict: Verdict, unit: str) -> str:
    """A breach in a sentence, with what was pooled for it."""
    told = words.pooled(verdict.windows, unit)
    return f"{plain_words(verdict)}{f' ({told})' if told and told not in plain_words(verdict) else ''}."


def _to_do(data: ReportData) -> str:
    """What the verdicts ask for, label by label; labels with nothing to do are left out."""
    return "\n".join(
        f"- {_name(report.subject)}: {escape(one.words)}"
        for report in data.by_attention
        if report.detail is not None
        for one in report.detail.conclusion.advice
        if one.act != "nothing"
    )


def _actions(actions: Sequence[Action]) -> str:
    return "\n".join(
        f"- {escape(a.kind.replace('_', ' '))}, {_name(Subject(a.source, a.label))}: {escape(a.state)}" for a in actions
    )


def _name(subject: Subject) -> str:
    return escape(subject.name)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int]) -> str:
    right = set(numbers)
    rule = ["---:" if k in right else "---" for k in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
