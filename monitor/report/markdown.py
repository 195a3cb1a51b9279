"""The summary of a window in Markdown, for Prefect artifacts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from monitor.core.records import Action, Subject, Verdict, Where
from monitor.core.wording import OVERCONFIDENCE, clean, plain_words
from monitor.report import words
from monitor.report.data import ReportData, at_text, headline, now_text
from monitor.report.figures.sparkline import sparkline

SENTENCES = 1_500
"""The most characters of a finding."""
_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~<>&])")

_OVERCONFIDENCE = f"\n\nOverconfidence: {OVERCONFIDENCE}, of automated items."


def summary_markdown(data: ReportData, actions: Sequence[Action] = ()) -> str:
    """The window on one page: headline, findings, what to do, labels, what was done, rejected rows, notes."""
    aside = [(escape(q.source), escape(q.reason.replace("_", " ")), f"{q.rows:,}") for q in data.quality]
    done = [
        f"{escape(a.kind.replace('_', ' '))}, {_name(Subject(a.source, a.label))}: {escape(a.state)}" for a in actions
    ]
    sections = {
        "Breaches": _bullets(_findings(data)),
        "What to do": _bullets(_to_do(data)),
        "Labels": labels_markdown(data) + (_OVERCONFIDENCE if data.subjects else ""),
        "Done": _bullets(done),
        "Rejected rows": _table(("source", "reason", "rows"), aside, numbers=(2,)) if aside else "",
        "Notes": _bullets(map(escape, data.notes)),
    }
    parts = [
        f"# Calibration {data.window.name}",
        f"{words.window_text(data.window, data.tz)} ({data.zone}). **{headline(data)}** {now_text(data)}".rstrip(),
        *(f"## {title}\n\n{body}" for title, body in sections.items() if body),
    ]
    return "\n\n".join(parts) + "\n"


def labels_markdown(data: ReportData) -> str:
    """The table of labels, those that need attention first."""
    rows = []
    for report in data.by_attention:
        change, switches = report.change, (report.switch, report.switch_now)
        pooled = words.pooled(change.windows, data.unit, change.value)
        numbers = [report.value("mce"), report.value("roc_auc"), report.value("overconfidence", "automated")]
        rows.append(
            (
                _lines(report.state.lines),
                _name(report.subject),
                f"{report.rows:,}",
                words.number(report.value("ece")),
                words.number(change.change, sign=True) + (f" ({pooled})" if pooled else ""),
                *(words.number(value) for value in numbers),
                *(escape(switch.words) if switch else "–" for switch in switches),
                report.level,
            )
        )
    names = ("rows", "ECE", "change", "MCE", "ROC AUC", "overconfidence (automated)")
    head = ("state", "label", *names, f"automation {at_text(data)}", "automation now", "level")
    return _table(head, rows, numbers=range(2, 8)) if rows else "No label was read in this window."


def trend_markdown(data: ReportData, metric: str = "ece", where: Where = "all") -> str:
    """One line for each label: the trend of a metric, its first and last value and its breaches."""
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


def escape(text: str, length: int = 400) -> str:
    """A text from the data in one line, escaped so that Markdown shows every character of it.

    >>> escape("a|b <img> [x](y)")
    'a\\\\|b \\\\<img\\\\> \\\\[x\\\\]\\\\(y\\\\)'
    """
    return _SPECIAL.sub(r"\\\1", clean(text, length))


def _findings(data: ReportData) -> Iterator[str]:
    for v in data.breaches:
        text = escape(finding_text(v, data.unit), SENTENCES)
        yield f"**{escape(v.rule)}** ({v.severity}): {text} Reason: `{v.reason}`, verdict `{v.id[:12]}`."


def finding_text(verdict: Verdict, unit: str) -> str:
    """A breach in one sentence with the windows pooled for it."""
    pooled = words.pooled(verdict.windows, unit)
    return f"{plain_words(verdict)}{f' ({pooled})' if pooled and pooled not in plain_words(verdict) else ''}."


def _to_do(data: ReportData) -> Iterator[str]:
    """What the verdicts ask for, label by label; labels with nothing to do are left out."""
    for report in data.by_attention:
        for one in report.detail.conclusion.advice if report.detail is not None else ():
            if one.act != "nothing":
                yield f"{_name(report.subject)}: {escape(one.words)}"


def _name(subject: Subject) -> str:
    return escape(subject.name)


def _lines(texts: Iterable[str]) -> str:
    return "<br>".join(map(escape, texts))


def _bullets(texts: Iterable[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Iterable[int]) -> str:
    right = set(numbers)
    rule = ["---:" if k in right else "---" for k in range(len(head))]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows))
