"""The report in a terminal: Rich tables. Names from data are texts, never markup."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from monitor.alerts.words import clean
from monitor.evaluation import Evaluated
from monitor.figures.sparkline import sparkline
from monitor.records import Action, Estimate, Interval, Outcome, Subject, Verdict, Where, Window
from monitor.rejection_words import sentence
from monitor.report import words
from monitor.report.data import ReportData, SubjectReport, headline
from monitor.report.elements import Cell, Element, of_all, of_one
from monitor.report.light import Light, light
from monitor.report.markdown import verdict_words
from monitor.rules.model import Config

__all__ = [
    "HistoryRow", "console", "element_view", "history_rows", "history_table", "light", "light_table", "plain_table",
    "report_view", "run_summary", "verdict_table",
]  # fmt: skip

SPARKS = 53
WIDE = 140
Series = tuple[Subject, str, Where]
_STYLES: Mapping[Light, str] = {"red": "bold red", "amber": "yellow", "green": "green", "grey": "dim"}
_SIGNS: Mapping[Light, str] = {"red": "▲", "amber": "◆", "green": "●", "grey": "○"}
_NAME_WIDTH, _VERDICT_WIDTH = 18, 20
_OUTCOMES: Mapping[Outcome, str] = {
    "breach": "bold red", "unconfirmed": "yellow", "ok": "green", "not_evaluated": "dim",
}  # fmt: skip


def console(*, stderr: bool = False) -> Console:
    """A console; where it is no terminal (a file, a log), lines are wide enough for whole tables.

    The variable COLUMNS says otherwise, as everywhere.
    """
    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, width=None if stream.isatty() else int(os.environ.get("COLUMNS", WIDE)))


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One subject's trend of one metric: its values by window, oldest first, and the newest estimate."""

    subject: Subject
    metric: str
    where: Where
    windows: tuple[str, ...]
    values: tuple[float | None, ...]
    last: Estimate
    outcome: Outcome | None

    @property
    def first_value(self) -> float | None:
        """The oldest value there is."""
        return next((value for value in self.values if value is not None), None)

    @property
    def change(self) -> float | None:
        """The newest value less the oldest."""
        first, last = self.first_value, self.last.interval.value
        return None if first is None or last is None else last - first


def history_rows(estimates: Iterable[Estimate], verdicts: Iterable[Verdict] = ()) -> list[HistoryRow]:
    """One row a (source, label, metric, population), by name; segments are left out.

    Windows without an estimate of the subject, although another has one, are gaps (None). The
    outcome is that of the newest window: a breach of any rule on the metric, else ok where one was
    evaluated, else not evaluated; None where no rule watches it.
    """
    by_series: dict[Series, dict[Window, Estimate]] = defaultdict(dict)
    for estimate in estimates:
        if estimate.subject.segment is None:
            by_series[estimate.subject, estimate.metric, estimate.where][estimate.window] = estimate
    shown = sorted({window for series in by_series.values() for window in series})
    outcomes = _outcomes(verdicts)
    return [
        _history_row(key, series, shown, outcomes)
        for key, series in sorted(by_series.items(), key=lambda item: _by_name(*item[0]))
    ]


def history_table(estimates: Iterable[Estimate], verdicts: Iterable[Verdict] = ()) -> Table:
    """The history as a table with sparklines, one line a row of :func:`history_rows`.

    Sparklines of one metric share no scale: each shows its own label's ups and downs.
    """
    rows = history_rows(estimates, verdicts)
    spans = [row.windows for row in rows if row.windows]
    measures = sorted({words.metric_name(row.metric, row.where) for row in rows})
    title = f"{min(w[0] for w in spans)} to {max(w[-1] for w in spans)}" if spans else "Nothing in the history yet"
    table = _table(
        f"{measures[0]}, {title}" if len(measures) == 1 else title,
        ("label", *(["metric"] if len(measures) > 1 else []), "trend"),
        ("first", "last", "change", "95% interval", "n"),
        ("outcome",),
    )
    for row in rows:
        table.add_row(*_history_cells(row, several=len(measures) > 1))
    return table


def light_table(data: ReportData) -> Table:
    """One line a label: its light, what it is, what changed, what the rules say, whether it may act."""
    table = _table(
        f"{data.window.name}: {headline(data)}",
        ("light", "label"),
        ("ECE", "change"),
        ("trend", "verdict", "acts"),
    )
    for report in data.by_attention:
        table.add_row(*_light_row(report))
    return table


def verdict_table(verdicts: Iterable[Verdict]) -> Table:
    """Every verdict with its numbers: breaches first, then what could not be judged, then the rest.

    Below the rule stands its reason, below the label the verdict's id, for ``calmon explain``; ``p`` is adjusted.
    """
    table = _table("Verdicts", ("rule", "label"), ("value", "change", "limit", "p", "n"), ())
    order: dict[Outcome, int] = {"breach": 0, "unconfirmed": 1, "not_evaluated": 2, "ok": 3}
    for v in sorted(verdicts, key=lambda v: (order[v.outcome], v.subject.name, v.rule)):
        told = Text(f"{v.rule}\n").append(words.reason_text(v), style=_OUTCOMES[v.outcome])
        table.add_row(
            told, _name(v.subject).append(f"\n{v.id[:12]}", style="dim"), words.number(v.value),
            words.number(v.change, sign=True), words.number(v.threshold), words.p_text(v.p_adjusted), f"{v.n:,}",
        )  # fmt: skip
    return table


def run_summary(evaluated: Sequence[Evaluated], actions: Sequence[Action], config: Config) -> RenderableType:
    """What a run found and did: counts by outcome, the breaches, the actions, the rows set aside.

    Sources in the order of ``config``.
    """
    order = list(config.sources)
    parts = sorted(evaluated, key=lambda part: order.index(part.source) if part.source in order else len(order))
    breaches = [v for part in parts for v in part.verdicts if v.outcome == "breach"]
    shown: list[RenderableType] = [_source_line(part) for part in parts]
    if breaches:
        shown.append(verdict_table(breaches))
    if actions:
        shown.append(_action_table(actions))
    return Group(*shown)


def report_view(data: ReportData, *, full: bool = False) -> RenderableType:
    """Everything about a window, as ``calmon report`` prints it; ``full``: with each label's own tables."""
    telling = [v for v in data.verdicts if v.outcome != "ok"]
    shown: list[RenderableType] = [
        Text(f"{words.window_text(data.window, data.tz)} ({data.zone})", style="dim"),
        light_table(data),
    ]
    if not data.subjects:
        run = f"calmon run {data.window.schedule} --{'week' if data.window.schedule == 'weekly' else 'date'}"
        shown.append(Text(f"Nothing of this window is in the history; `{run} {data.window.name}` evaluates it."))
    if telling:
        shown += [verdict_table(telling), Text("Why one is what it is: calmon explain ID, with the id below its label")]
    shown += [part for element in of_all(data) for part in element_view(element)]
    if full:
        shown += [part for report in data.by_attention for part in _alone(report)]
    if data.quality:
        shown.append(_quality_table(data))
    shown += [Text(f"note: {clean(note, length=400)}", style="dim") for note in data.notes]
    return Group(*shown)


def element_view(element: Element) -> list[RenderableType]:
    """One element as a table with its note below."""
    table = Table(
        title=element.title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False,
        padding=(0, 1, 0, 0),
    )  # fmt: skip
    for place, name in enumerate(element.head):
        named = place == 0 and any(isinstance(row[0], Subject) and row[0].segment is None for row in element.rows)
        kept = named or place in element.numbers | element.whole | element.drawn
        table.add_column(name, justify="right" if place in element.numbers else "left", no_wrap=kept, overflow="fold")
    shown: Cell | None = None
    for row in element.rows:
        first = Text("") if row[0] == shown and isinstance(shown, Subject) else _cell(row[0])
        table.add_row(first, *(_cell(cell) for cell in row[1:]))
        shown = row[0]
    return [table, *([Text(element.note, style="dim")] if element.note else [])]


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Subject):
        return _name(cell) if cell.segment is None else Text(clean(words.segment(cell)))
    if isinstance(cell, str):
        return Text(cell)
    interval, mark = (cell, "") if isinstance(cell, Interval) else cell
    plain = words.measured(interval).replace("(", "").replace(")", "")  # so that it breaks between its parts
    return Text(f"{plain} {mark}".rstrip())


def _alone(report: SubjectReport) -> list[RenderableType]:
    parts = [part for element in of_one(report) for part in element_view(element)]
    return [Text(f"\n{clean(report.subject.name)}", style="bold"), *parts] if parts else []


def _outcomes(verdicts: Iterable[Verdict]) -> dict[tuple[Series, Window], Outcome]:
    found: dict[tuple[Series, Window], Outcome] = {}
    weight: dict[Outcome, int] = {"breach": 3, "unconfirmed": 2, "ok": 1, "not_evaluated": 0}
    for v in verdicts:
        key = ((v.subject, v.metric, v.where), v.window)
        if key not in found or weight[v.outcome] > weight[found[key]]:
            found[key] = v.outcome
    return found


def _history_row(
    key: Series,
    series: Mapping[Window, Estimate],
    shown: Sequence[Window],
    outcomes: Mapping[tuple[Series, Window], Outcome],
) -> HistoryRow:
    newest = max(series)
    return HistoryRow(
        *key,
        windows=tuple(window.name for window in shown),
        values=tuple(series[window].interval.value if window in series else None for window in shown),
        last=series[newest],
        outcome=outcomes.get((key, newest)),
    )


def _by_name(subject: Subject, metric: str, where: Where) -> tuple[str, bool, str, str, str]:
    return subject.source, subject.label is not None, subject.label or "", metric, where


def _light_row(report: SubjectReport) -> Sequence[RenderableType]:
    trend = report.trend("ece")
    switch = report.switch.words if report.switch else "–"
    return (
        Text(f"{_SIGNS[report.light]} {report.light}", style=_STYLES[report.light]),
        _name(report.subject),
        words.number(report.value("ece")),
        words.number(report.change[0], sign=True),
        _Spark(trend.values if trend else ()),
        Text(_lines(verdict_words(report).split("; "), _VERDICT_WIDTH), style="bold red" if report.breaches else ""),
        Text(_lines([switch], 8), style="red" if switch.startswith("off") else ""),
    )


def _history_cells(row: HistoryRow, *, several: bool) -> Sequence[RenderableType]:
    seen = row.last.interval
    return (
        _name(row.subject),
        *([words.metric_name(row.metric, row.where)] if several else []),
        _Spark(row.values),
        words.number(row.first_value),
        words.number(seen.value),
        words.number(row.change, sign=True),
        words.interval(seen.low, seen.high).replace(" to ", "–"),
        f"{row.last.n:,}",
        _outcome(row.outcome),
    )


@dataclass(frozen=True, slots=True)
class _Spark:
    """A sparkline that shows as many of the newest windows as there is room for."""

    values: Sequence[float | None]

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        longest = min(len(self.values), SPARKS)
        return Measurement(min(longest, 8), longest)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(sparkline(self.values)[-min(options.max_width, SPARKS) :], no_wrap=True)


def plain_table(*columns: str, title: str | Text | None = None) -> Table:
    """A table of texts: narrow terminals fold a text, they never cut it, since the end may be what tells two apart."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for name in columns:
        table.add_column(name, overflow="fold")
    return table


def _table(title: str, left: Sequence[str], numbers: Sequence[str], right: Sequence[str]) -> Table:
    """A table that can be read at 80 columns: no rules between columns, no torn word; the trend gives way."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0)
    )
    for name in (*left, *numbers, *right):
        table.add_column(name, justify="right" if name in numbers else "left", no_wrap=name not in ("trend", "state"))
    return table


def _source_line(part: Evaluated) -> Text:
    counted = {outcome: sum(v.outcome == outcome for v in part.verdicts) for outcome in _OUTCOMES}
    bad = sum(q.rows for q in part.quality)
    text = Text(f"{clean(part.source)} {part.window.name}: ", style="bold")
    if part.problem is not None:
        return text.append(f"not evaluated, {part.problem.value.replace('_', ' ')}", style="bold red")
    text.append(
        f"{_count(counted['breach'], 'breach', 'breaches')}", style="bold red" if counted["breach"] else "green"
    )
    told = f", {counted['ok']} ok, {counted['not_evaluated']} not evaluated{_why_not(part.verdicts)}"
    text.append(told + (f"; {_count(bad, 'row', 'rows')} set aside" if bad else ""), style="not bold")
    rejected = sentence(part.rejected)
    return text.append(f"\n{clean(rejected, length=600)}" if rejected else "", style="bold red")


def _why_not(verdicts: Iterable[Verdict]) -> str:
    """The reasons of what was not evaluated, in brackets: silence has a cause as well."""
    reasons = dict.fromkeys(words.reason_text(v) for v in verdicts if v.outcome == "not_evaluated")
    return f" ({', '.join(reasons)})" if reasons else ""


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _action_table(actions: Sequence[Action]) -> Table:
    table = _table("Actions", ("action", "label", "state"), (), ())
    for action in actions:
        table.add_row(action.kind.replace("_", " "), _name(Subject(action.source, action.label)), Text(action.state))
    return table


def _quality_table(data: ReportData) -> Table:
    table = _table("Rows set aside", ("source", "reason"), ("rows",), ())
    for q in data.quality:
        table.add_row(Text(clean(q.source)), Text(q.reason.replace("_", " ")), f"{q.rows:,}")
    return table


def _name(subject: Subject) -> Text:
    name = clean(subject.name)
    fits = subject.label is None or len(name) <= _NAME_WIDTH
    return Text(_lines([name] if fits else [f"{clean(subject.source)}/", clean(subject.label or "")], _NAME_WIDTH))


def _lines(parts: Iterable[str], width: int) -> str:
    """Each part on lines of its own, at most ``width`` wide."""
    return "\n".join(line for part in parts for line in wrap(part, width, break_on_hyphens=False) or [""])


def _outcome(outcome: Outcome | None) -> Text:
    return Text("–") if outcome is None else Text(outcome.replace("_", "\n"), style=_OUTCOMES[outcome])
