"""The report in a terminal: Rich tables. Names from data are texts, never markup."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import (
    IN_NO_WINDOW,
    SEVERITY_RANK,
    Action,
    Estimate,
    Interval,
    Outcome,
    RejectedRows,
    RejectReason,
    Subject,
    Verdict,
    Where,
    Window,
)
from monitor.core.rejection_words import sentence
from monitor.core.windows import run_command, series_of, with_gaps
from monitor.core.wording import clean, count_of, maturity_words
from monitor.evaluation.evaluate import Evaluated
from monitor.report import expected, words
from monitor.report.console import plain_table
from monitor.report.data import ReportData
from monitor.report.explanation import unconfirmed_words
from monitor.report.figures.scale import Scale, level_of, scale_of, sparkline
from monitor.report.tables import Cell, Element, of_all, of_one, shift_sentence
from monitor.story.label import LabelStory, story_lines
from monitor.story.window import actions_words, counts_words, doubts, needing

SPARKS = 53
FEWEST = 5  # as wide as the word "trend"
Series = tuple[Subject, str, Where]
_STORY = {
    DiagnosisState.UNSAFE: "bold red",
    DiagnosisState.DEGRADED: "yellow",
    DiagnosisState.CANNOT_TELL: "magenta",
    DiagnosisState.FINE: "green",
}
_OUTCOMES: Mapping[Outcome, str] = {
    "breach": "bold red",
    "unconfirmed": "yellow",
    "not_evaluated": "magenta",
    "ok": "green",
}
"""The outcomes, worst first, with their styles."""
_NAME_WIDTH, _RULES_WIDTH = 18, 9


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One subject's trend of one metric: its values by window, oldest first, and the newest estimate.

    ``verdicts`` are those of the rules on this metric in the newest estimate's window, ``limits`` are their levels.
    """

    subject: Subject
    metric: str
    where: Where
    windows: tuple[str, ...]
    values: tuple[float | None, ...]
    last: Estimate
    verdicts: tuple[Verdict, ...] = ()
    limits: tuple[float, ...] = ()

    @property
    def first_value(self) -> float | None:
        """The oldest known value; None without one."""
        return next((value for value in self.values if value is not None), None)

    @property
    def change(self) -> float | None:
        """The newest value minus the oldest."""
        first, last = self.first_value, self.last.interval.value
        return None if first is None or last is None else last - first


def history_rows(
    estimates: Iterable[Estimate], verdicts: Iterable[Verdict] = (), *, newest: int | None = None
) -> list[HistoryRow]:
    """One row for each (source, label, metric, population), by name, over the ``newest`` windows; no segments.

    A window in which only other subjects have an estimate, or none, is a gap (None). All windows must be of one time
    zone (:func:`monitor.core.windows.series_of`).
    """
    by_series: dict[Series, dict[Window, Estimate]] = defaultdict(dict)
    whole_labels = [estimate for estimate in estimates if estimate.subject.segment is None]
    shown = with_gaps(estimate.window for estimate in whole_labels)[-(newest or 0) :]
    for estimate in whole_labels:
        if estimate.window >= shown[0]:
            by_series[estimate.subject, estimate.metric, estimate.where][estimate.window] = estimate
    of_rules: dict[Series, list[Verdict]] = defaultdict(list)
    starts = {(window.schedule, window.start) for window in shown}
    for v in sorted(verdicts, key=lambda v: v.window.start):
        if (v.window.schedule, v.window.start) in starts:
            of_rules[v.subject, v.metric, v.where].append(v)
    rows = [_history_row(key, series, shown, of_rules.get(key, [])) for key, series in by_series.items()]

    def place(row: HistoryRow) -> tuple[str, bool, str, str, str]:
        return row.subject.source, row.subject.label is not None, row.subject.label or "", row.metric, row.where

    return sorted(rows, key=place)


def history_view(
    estimates: Sequence[Estimate], verdicts: Sequence[Verdict] = (), *, requested: bool = False
) -> RenderableType:
    """The history as tables: windows of another time zone are a series of their own, in a table of their own.

    ``requested``: the user chose these windows, so all are drawn; else as many of the newest as there is room for.
    """
    found = series_of(estimate.window for estimate in estimates)
    tables: list[RenderableType] = []
    for place, series in enumerate(found):
        in_series = [e for e in estimates if e.window in set(series)]
        if place:
            span = f"{series[0].name} to {series[-1].name}"
            tables.append(Text(f"Windows of another time zone, {span}: a series of its own", style="bold"))
        tables.append(history_table(in_series, verdicts, requested=requested))
    return Group(*tables) if tables else Text("Nothing in the history yet")


def history_table(
    estimates: Iterable[Estimate], verdicts: Iterable[Verdict] = (), *, requested: bool = False
) -> RenderableType:
    """The history of one time zone as a table with sparklines, a line for each of :func:`history_rows`.

    All sparklines of a metric have one scale, over the windows that are drawn.
    """
    found, known = list(estimates), list(verdicts)
    most = len(with_gaps(estimate.window for estimate in found if estimate.subject.segment is None))
    if not most:
        return Text("Nothing in the history yet")
    drawn = most if requested else min(most, SPARKS)
    return _Fitted(
        lambda shown, _: _history_table(history_rows(found, known, newest=shown), shown, most), drawn, requested
    )


def _history_table(rows: Sequence[HistoryRow], shown: int, most: int) -> Table:
    by_metric: dict[tuple[str, Where], list[HistoryRow]] = defaultdict(list)
    for row in rows:
        by_metric[row.metric, row.where].append(row)
    scales = {
        key: scale_of(key[0], [v for row in group for v in row.values], [v for row in group for v in row.limits])
        for key, group in by_metric.items()
    }
    measures = {words.metric_name(*key): scale.words for key, scale in scales.items()}
    several = len(measures) > 1
    span = f"{rows[0].windows[0]} to {rows[0].windows[-1]}"
    omitted = "" if shown == most else f", the newest {shown} of {most} windows"
    title = f"{span}{omitted}" if several else f"{next(iter(measures))}, {span}{omitted}"
    names = ("label", "metric", "trend") if several else ("label", "trend")
    table = _table(title, names, ("first", "last", "change", "95% interval", "n"), ("rules",))
    scale = "; ".join(f"{name}: {text}" if several else text for name, text in sorted(measures.items()))
    shown_of = "first, last and change are of the windows shown; rules: only those of the metric"
    table.caption = f"trend: one scale for all labels, {scale}; {shown_of}"
    for row in rows:
        table.add_row(*_history_cells(row, scales[row.metric, row.where], several=several))
    return table


def run_summary(
    evaluated: Sequence[Evaluated], stories: Sequence[LabelStory], actions: Sequence[Action] = ()
) -> RenderableType:
    """A run: the story of each label that needs somebody, what cannot be told, counts, the data, what was done."""
    shown: list[RenderableType] = stories_view(stories)
    windows = ", ".join(dict.fromkeys(part.window.name for part in evaluated))
    shown.append(Text(f"{windows}: {counts_words(stories)}.", style="bold"))
    in_trouble = {story.source for story in stories if story.diagnosis.is_trouble}
    shown += [line for part in evaluated for line in _source_lines(part, told=part.source in in_trouble)]
    done = actions_words(actions)
    return Group(*shown, *([Text(f"Done: {done}.")] if done else []))


def story_text(story: LabelStory) -> RenderableType:
    """The story of a label in at most three lines; what a narrow terminal wraps is indented."""
    first, *more = story_lines(story)
    lines: list[RenderableType] = [
        Text(f"{first}.", style=_STORY[story.state]),
        *(Padding(Text(f"{line}."), (0, 0, 0, 2)) for line in more),
    ]
    return Group(*lines)


def report_view(data: ReportData, *, full: bool = False) -> RenderableType:
    """A window, as ``calmon report`` prints it: stories, counts, estimates; ``full``: with each label's own tables."""
    shown: list[RenderableType] = [Text(f"{words.window_text(data.window, data.tz)} ({data.zone})", style="dim")]
    if data.subjects:
        shown += stories_view(data.stories)
        shown.append(Text(f"{data.window.name}: {counts_words(data.stories)}.", style="bold"))
    else:
        shown += [Text(f"{data.nothing}."), Text(f"next: {run_command(data.window.schedule, data.window.name)}")]
    shown += [part for element in of_all(data) for part in element_view(element)]
    for report in data.by_attention if full else ():
        tables = [part for element in of_one(report, data.target) for part in element_view(element)]
        shown += [Text(f"\n{clean(report.subject.name)}", style="bold"), *tables] if tables else []
    shown += map(Text, words.rejected_words(data.quality))
    if shifts := shift_sentence(data.shifts, data.shifted):
        shown.append(Text(shifts))
    shown += [Text(f"note: {clean(note, length=400)}", style="dim") for note in data.notes]
    return Group(*shown)


def stories_view(stories: Sequence[LabelStory]) -> list[RenderableType]:
    """The story of each label that needs somebody, then a line for each that cannot be judged."""
    lines = [Text(f"{line}.", style=_STORY[DiagnosisState.CANNOT_TELL]) for line in doubts(stories)]
    return [*map(story_text, needing(stories)), *lines]


def element_view(element: Element) -> list[RenderableType]:
    """One element as a table with its note below."""
    table = plain_table(title=element.title)
    for place, name in enumerate(element.head):
        named = place == 0 and any(isinstance(row[0], Subject) and row[0].segment is None for row in element.rows)
        whole = named or place in element.numbers | element.whole | element.drawn
        table.add_column(name, justify="right" if place in element.numbers else "left", no_wrap=whole, overflow="fold")
    previous: Cell | None = None
    for row in element.rows:
        first = Text("") if row[0] == previous and isinstance(previous, Subject) else _cell(row[0])
        table.add_row(first, *(_cell(cell) for cell in row[1:]))
        previous = row[0]
    return [table, *([Text(element.note, style="dim")] if element.note else [])]


def _cell(cell: Cell) -> Text:
    if isinstance(cell, Subject):
        return _name(cell) if cell.segment is None else Text(clean(words.segment(cell)))
    if isinstance(cell, str):
        return Text(cell)
    interval, mark = (cell, "") if isinstance(cell, Interval) else cell
    plain = words.measured(interval).replace("(", "").replace(")", "")  # so that a line breaks between its parts
    return Text(f"{plain} {mark}".rstrip())


def _history_row(
    key: Series, series: Mapping[Window, Estimate], shown: Sequence[Window], verdicts: Sequence[Verdict]
) -> HistoryRow:
    newest = max(series)
    now = tuple(v for v in verdicts if v.window.start == newest.start)
    limits = {v.rule: level_of(v) for v in verdicts}  # the newest of each rule
    names = tuple(window.name for window in shown)
    values = tuple(series[window].interval.value if window in series else None for window in shown)
    levels = tuple(level for level in limits.values() if level is not None)
    return HistoryRow(*key, names, values, series[newest], now, levels)


def _history_cells(row: HistoryRow, scale: Scale, *, several: bool) -> Sequence[RenderableType]:
    interval = row.last.interval
    return (
        _name(row.subject),
        *([words.metric_name(row.metric, row.where)] if several else []),
        Text(sparkline(row.values, scale), overflow="fold"),
        words.number(row.first_value),
        words.number(interval.value),
        words.number(row.change, sign=True),
        words.interval(interval.low, interval.high).replace(" to ", "–"),
        f"{row.last.n:,}",
        _rules(row.verdicts),
    )


def _rules(verdicts: Sequence[Verdict]) -> Text:
    """The worst outcome of the rules on one metric, with the number of windows where they were pooled."""
    if not verdicts:
        return Text("no rule")
    worst = min(verdicts, key=lambda v: (list(_OUTCOMES).index(v.outcome), SEVERITY_RANK[v.severity], v.rule))
    said = {"breach": f"{worst.severity} breach", "unconfirmed": unconfirmed_words(worst), "ok": "ok"}
    unjudged = dict.fromkeys(words.reason_text(v) for v in verdicts if v.outcome == "not_evaluated")
    shown = said.get(worst.outcome, f"not evaluated ({', '.join(unjudged)})")
    text = Text(_lines([shown], _RULES_WIDTH), style=_OUTCOMES[worst.outcome])
    pooled = words.pooled(worst.windows, worst.window.unit)
    return text.append("\n" + _lines([pooled], _RULES_WIDTH), style="dim") if pooled else text


@dataclass(frozen=True, slots=True)
class _Fitted:
    """A table whose trends show as many of the newest windows as there is room for, at least :data:`FEWEST`.

    ``build`` makes it for (windows, columns of the terminal), so that title, scale and numbers fit what is drawn.
    ``whole``: all windows are drawn, and a narrow terminal wraps the trend.
    """

    build: Callable[[int, int], Table]
    most: int
    whole: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least, width = min(FEWEST, self.most), options.max_width
        room = width - console.measure(self.build(least, width), options=options).maximum
        yield self.build(self.most if self.whole else max(least, min(self.most, FEWEST + room)), width)


def _table(title: str, left: Sequence[str], numbers: Sequence[str], right: Sequence[str]) -> Table:
    """A table that fits 80 columns: no lines between columns, no broken word; the trend gets narrower first."""
    table = plain_table(title=title)
    table.caption_justify = "left"
    for name in (*left, *numbers, *right):
        drawn, least = (True, FEWEST) if name == "trend" else (False, None)
        table.add_column(name, no_wrap=not drawn, overflow="fold", min_width=least)
        table.columns[-1].justify = "right" if name in numbers else "left"
    return table


def _source_lines(part: Evaluated, *, told: bool) -> Iterator[Text]:
    """What is to be known about the data of one source, of which stories are ``told`` or not, and what was restated."""
    name = f"{clean(part.source)} {part.window.name}"
    if part.problem is not None:
        yield Text(f"{name}: not evaluated, {part.problem.value.replace('_', ' ')}", style="bold red")
        return
    if rejected := _rejected_text(part.quality):
        yield Text(f"{name}: {rejected}.")
    if part.verdicts and all(verdict.outcome == "not_evaluated" for verdict in part.verdicts):
        why = ", ".join(sorted({verdict.reason.value.replace("_", " ") for verdict in part.verdicts}))
        before = " What is told above is of the windows before." if told else ""
        yield Text(f"{name}: no rule could be judged: {why}.{before}", style="bold red")
    yield from map(Text, _truth_lines(part))
    if expectation := expected.sentence(e for e in part.estimates if e.subject == Subject(part.source, None)):
        yield Text(f"{name}: {expectation}", style="dim")
    if refused := sentence(part.rejected):
        yield Text(clean(refused, length=600), style="bold red")


def _rejected_text(quality: Sequence[RejectedRows]) -> str:
    """How many rows were rejected, and how many of them the share of rejected rows leaves out."""
    every = sum(each.rows for each in quality)
    left_out = sum(each.rows for each in quality if each.reason in (*IN_NO_WINDOW, RejectReason.DUPLICATE))
    more = f", {left_out:,} of them duplicates or in no window" if left_out else ""
    return f"{count_of(every, 'row')} rejected{more}" if every else ""


def _truth_lines(part: Evaluated) -> Iterator[str]:
    """The label maturity of a source, and the windows that were judged again because truths came late."""
    whole = next((m for m in part.maturity if m.subject.label is None), None)
    if whole is not None:
        yield f"{maturity_words(whole)}."
    yield from words.not_read_words(part.source, part.quality)
    yield from words.left_out_words(part.shifts)
    yield from words.rows_deleted_words(part.quality)
    yield from words.labels_words(part.source, part.quality)
    if part.restated:
        yield f"Judged again, since truths came late: {', '.join(past.window.name for past in part.restated)}."


def _name(subject: Subject) -> Text:
    name = clean(subject.name)
    fits = subject.label is None or len(name) <= _NAME_WIDTH
    return Text(_lines([name] if fits else [f"{clean(subject.source)}/", clean(subject.label or "")], _NAME_WIDTH))


def _lines(parts: Iterable[str], width: int) -> str:
    """Each part on lines of its own, at most ``width`` wide."""
    return "\n".join(line for part in parts for line in wrap(part, width, break_on_hyphens=False) or [""])
