"""The report in a terminal: Rich tables. Names from data are texts, never markup."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from textwrap import wrap

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import IN_NO_WINDOW, Action, Estimate, Interval, RejectReason, Subject, Window
from monitor.core.rejection_words import sentence
from monitor.core.windows import run_command, series_of, with_gaps
from monitor.core.wording import clean, count_of, maturity_words
from monitor.evaluation.evaluate import Evaluated
from monitor.report import words
from monitor.report.console import plain_table
from monitor.report.data import ReportData
from monitor.report.figures.scale import scale_of, sparkline
from monitor.report.tables import Cell, Element, of_all, of_one, shift_sentence
from monitor.story.label import LabelStory, story_lines
from monitor.story.window import actions_words, counts_words, doubts, needing

NEWEST = 26
"""So many windows are drawn unless others were requested."""
_STORY = {
    DiagnosisState.UNSAFE: "bold red",
    DiagnosisState.DEGRADED: "yellow",
    DiagnosisState.CANNOT_TELL: "magenta",
    DiagnosisState.FINE: "green",
}
_NAME_WIDTH = 18


def history_view(estimates: Sequence[Estimate], *, requested: bool = False) -> RenderableType:
    """The history of one metric as tables: windows of another time zone are a series of their own.

    ``requested``: the user chose these windows, so all are drawn; else the newest.
    """
    whole = [estimate for estimate in estimates if estimate.subject.segment is None]
    shown: list[RenderableType] = []
    for place, series in enumerate(series_of(estimate.window for estimate in whole)):
        if place:
            span = f"{series[0].name} to {series[-1].name}"
            shown.append(Text(f"Windows of another time zone, {span}: a series of its own", style="bold"))
        shown += element_view(_history([e for e in whole if e.window in set(series)], requested=requested))
    return Group(*shown) if shown else Text("Nothing in the history yet")


def _history(estimates: Sequence[Estimate], *, requested: bool) -> Element:
    """A line for each subject by name, all on one scale; a window without an estimate of it is a dot."""
    every = with_gaps(estimate.window for estimate in estimates)
    windows = every if requested else every[-NEWEST:]
    by_subject: dict[Subject, dict[Window, Estimate]] = defaultdict(dict)
    for estimate in estimates:
        if estimate.window in windows:
            by_subject[estimate.subject][estimate.window] = estimate
    first = estimates[0]
    scale = scale_of(first.metric, [e.interval.value for of in by_subject.values() for e in of.values()])
    ordered = sorted(by_subject, key=lambda s: (s.source, s.label is not None, s.label or ""))
    rows: list[tuple[Cell, ...]] = []
    for subject in ordered:
        series = by_subject[subject]
        values = [series[window].interval.value if window in series else None for window in windows]
        newest, begun = series[max(series)], next((value for value in values if value is not None), None)
        interval = newest.interval
        change = None if begun is None or interval.value is None else interval.value - begun
        limits = words.interval(interval.low, interval.high).replace(" to ", "–")
        drawn = sparkline(values, scale), words.number(interval.value), words.number(change, sign=True)
        rows.append((subject, *drawn, limits, f"{newest.n:,}"))
    omitted = "" if len(windows) == len(every) else f", the newest {len(windows)} of {len(every)} windows"
    title = f"{words.metric_name(first.metric, first.where)}, {windows[0].name} to {windows[-1].name}{omitted}"
    note = f"trend: one scale for all labels, {scale.low:.3g} to {scale.high:.3g}; change is of the windows shown"
    head = ("label", "trend", "last", "change", "95% interval", "n")
    return Element(title, head, rows, "ldrrrr", note)


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
    return Group(
        Text(f"{first}.", style=_STORY[story.state]),
        *(Padding(Text(f"{line}."), (0, 0, 0, 2)) for line in more),
    )


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
        tables = [part for element in of_one(report) for part in element_view(element)]
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
    for place, (name, kind) in enumerate(zip(element.head, element.columns, strict=True)):
        named = place == 0 and any(isinstance(row[0], Subject) and row[0].segment is None for row in element.rows)
        is_whole = named or kind != "l"
        table.add_column(name, justify="right" if kind == "r" else "left", no_wrap=is_whole, overflow="fold")
    for row in element.rows:
        table.add_row(*map(_cell, row))
    return [table, *([Text(element.note, style="dim")] if element.note else [])]


def _cell(cell: Cell) -> Text:
    if isinstance(cell, str):
        return Text(cell)
    if isinstance(cell, Interval):
        return Text(words.measured(cell).replace("(", "").replace(")", ""))  # so that a line breaks between its parts
    if cell.segment is not None:
        return Text(clean(words.segment(cell)))
    name = clean(cell.name)
    fits = cell.label is None or len(name) <= _NAME_WIDTH
    parts = [name] if fits else [f"{clean(cell.source)}/", clean(cell.label or "")]
    lines = (line for part in parts for line in wrap(part, _NAME_WIDTH, break_on_hyphens=False) or [""])
    return Text("\n".join(lines))


def _source_lines(part: Evaluated, *, told: bool) -> Iterator[Text]:
    """What is to be known about the data of one source, of which stories are ``told`` or not, and what was restated."""
    name = f"{clean(part.source)} {part.window.name}"
    if part.problem is not None:
        stays = any(verdict.outcome != "not_evaluated" for verdict in part.verdicts)
        said = "not read again, what was judged of it stays" if stays else "not evaluated"
        yield Text(f"{name}: {said}, {part.problem.value.replace('_', ' ')}", style="bold red")
        return
    if every := sum(each.rows for each in part.quality):
        # the share of rejected rows leaves these out
        left_out = sum(e.rows for e in part.quality if e.reason in (*IN_NO_WINDOW, RejectReason.DUPLICATE))
        more = f", {left_out:,} of them duplicates or in no window" if left_out else ""
        yield Text(f"{name}: {count_of(every, 'row')} rejected{more}.")
    if part.verdicts and all(verdict.outcome == "not_evaluated" for verdict in part.verdicts):
        why = ", ".join(sorted({verdict.reason.value.replace("_", " ") for verdict in part.verdicts}))
        before = " What is told above is of the windows before." if told else ""
        yield Text(f"{name}: no rule could be judged: {why}.{before}", style="bold red")
    yield from (Text(f"{maturity_words(each)}.") for each in part.maturity if each.subject.label is None)
    yield from map(Text, words.reading_words(part.source, part.quality))
    yield from map(Text, words.left_out_words(part.shifts))
    if part.restated:
        again = ", ".join(past.window.name for past in part.restated)
        yield Text(f"Judged again, since truths came late: {again}.")
    if expectation := words.before_truth_words(e for e in part.estimates if e.subject == Subject(part.source, None)):
        yield Text(f"{name}: {expectation}", style="dim")
    if refused := sentence(part.rejected):
        yield Text(clean(refused, length=600), style="bold red")
