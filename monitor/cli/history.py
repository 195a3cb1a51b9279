"""``calmon history``, ``calmon report``, ``calmon explain``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Group

from monitor.cli import common as cli
from monitor.config.problems import closest
from monitor.context import Monitor
from monitor.core.records import SCHEDULES, SEVERITY_RANK, Estimate, Schedule, Subject, Verdict, Where, Window
from monitor.core.windows import WindowError, first_day, nominal, run_command
from monitor.core.wording import clean
from monitor.history.errors import NotFound
from monitor.history.values import plain
from monitor.metrics.names import CONTRACT, metric_named
from monitor.metrics.registry import METRICS
from monitor.operations.further_tables import further_tables
from monitor.operations.missed import missed_windows
from monitor.report.collect import collect_report
from monitor.report.data import AS_A_WHOLE, TARGET_ACCURACY, ReportData, nothing_of, only
from monitor.report.document import report_document
from monitor.report.explanation import Explanation, document, explain, lines
from monitor.report.export import history_csv, history_json, history_parquet
from monitor.report.html import html_report
from monitor.report.run_document import label_row
from monitor.report.tables import Cell
from monitor.report.terminal import element_view, history_view, report_view, story_text
from monitor.report.words import listed
from monitor.story.gather import BACK, Teller

IN_FULL = 3
"""Of how many verdicts of a label every check is shown; of the others the sentence."""
FIRST = datetime(1970, 1, 1, tzinfo=UTC)

NOTHING = "the history has nothing of that: `calmon report` shows what there is, and `calmon run weekly` adds a week"


HistoryFormat = Literal["table", "csv", "json", "parquet"]


@cli.app.command(
    epilog="Examples:  calmon history --metric ece  ·  calmon history --label billing --format csv  ·  "
    "calmon history --metric overconfidence --where automated  ·  calmon history --rule automated-overconfidence  ·  "
    "calmon history --from 2026-W30 --to 2026-W40  ·  calmon history --missing"
)
def history(
    metric: Annotated[str, typer.Option(help="Any metric of docs/metrics.md.")] = "ece",
    rule: Annotated[
        str | None, typer.Option(help="A rule of alerts.yaml: its metric, over the rows that it is about.")
    ] = None,
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    where: Annotated[Where, typer.Option(help="Over which rows.")] = "all",
    schedule: Annotated[Schedule, typer.Option(help="Weeks or days.")] = "weekly",
    last: Annotated[int | None, typer.Option(min=1, help="Only the newest so many windows.")] = None,
    first_window: Annotated[
        str | None, typer.Option("--from", help="The first window: 2026-W30, or 2026-07-20 with --schedule daily.")
    ] = None,
    last_window: Annotated[str | None, typer.Option("--to", help="The last window, included.")] = None,
    format: Annotated[HistoryFormat, typer.Option("--format", help="How to print it.")] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file (on a terminal, parquet needs one).")
    ] = None,
    missing: Annotated[
        bool, typer.Option("--missing", help="Instead: the windows that were never judged, each with its command.")
    ] = False,
) -> None:
    """The trend of one metric, label by label.

    All sparklines have one scale, from the metric's best value to the worst that is drawn. Without --last, --from or
    --to the table draws the newest 26 windows.
    """
    if missing:
        _print_missing(source)
        return
    begins, ends = days_of(schedule, first_window, last_window, last)
    metric = metric_named(metric)
    if rule is not None:
        metric, where, schedule = _of_rule(rule)
    if metric not in METRICS:
        raise cli.UsageError(f"{metric!r} is not a metric; choose one of: {', '.join(METRICS)}")
    with cli.store() as store:
        stored = store.estimates(metric=metric, source=source, where=where, schedule=schedule)
        if not stored:
            cli.check_stored_source(store, source)
        found = [e for e in stored if label in (None, e.subject.label) and begins <= nominal(e.window) <= ends]
        if last is not None:
            newest = sorted({e.window for e in found})[-last:]
            found = [e for e in found if e.window in newest]
        until = store.removed_until(schedule) if metric not in CONTRACT or schedule != "weekly" else None
        of_then = until is not None and any(each.window.start <= until for each in found)
        if until is not None and last is None and begins <= until.date() and not of_then:
            began = f"of a window that began at {until:%Y-%m-%d %H:%M} UTC or before"
            cli.warn(f"No estimate of {metric} {began}: `calmon db prune` may have removed it.")
    _write_history(found, format, output, requested=any((first_window, last_window, last)))


def _print_missing(source: str | None) -> None:
    """The windows since the first judged one that were never judged, by schedule."""
    with cli.monitor(writes=False, reads=False) as opened:
        config = opened.config
        sources = cli.check_source(config, source) or list(config.sources)
        lasts = [cli.window_of(config, each, None) for each in SCHEDULES if config.rules_for(each)]
        found = [
            each
            for last in lasts
            for each in missed_windows(opened.store, last, config.zone, sources, back=last.end - FIRST)
        ]
    for window, of in found:
        one = f" --source {shlex.quote(of[0])}" if len(of) == 1 < len(config.sources) else ""
        cli.say(f"{window.name}  {listed(list(of))}: {run_command(window.schedule, window.name)}{one}")
    if not found:
        cli.say("No window was missed: each since the first judged one was judged.")


def _write_history(
    found: Sequence[Estimate],
    format: HistoryFormat,
    output: Path | None,
    *,
    requested: bool,
) -> None:
    if format == "table" and output is None:
        cli.out.print(history_view(found, requested=requested) if found else NOTHING)
        return
    content: str | bytes
    if format == "parquet":
        content = history_parquet(found)
    else:
        content = history_json(found) if format == "json" else history_csv(found)
    if output is not None:
        cli.write(output, content)
    elif isinstance(content, bytes) and sys.stdout.isatty():
        raise cli.UsageError("parquet is no text for a terminal: say where with --output FILE")
    else:
        typer.echo(content, nl=isinstance(content, str) and not content.endswith("\n"))


def _of_rule(name: str) -> tuple[str, Where, Schedule]:
    """What a rule of alerts.yaml is about: its metric, population and schedule. Raises UsageError."""
    rules = {rule.id: rule for rule in cli.configuration().rules}
    if name not in rules:
        raise cli.UsageError(f"alerts.yaml has no rule {name!r}; it has: {listed(list(rules))}")
    rule = rules[name]
    if rule.metric is None:
        raise cli.UsageError(f"rule {name!r} is a shift test, which has no trend of a metric")
    return rule.metric, rule.where, rule.schedule


def days_of(schedule: Schedule, first: str | None, last: str | None, newest: int | None) -> tuple[date, date]:
    """The first days of the first and the last window that the options name.

    Raises WindowError for an invalid name or an empty span, UsageError for --last with --from.
    """
    if first is not None and newest is not None:
        raise cli.UsageError("--last and --from are two answers to one question: give one of them")
    begins = date.min if first is None else first_day(schedule, first)
    ends = date.max if last is None else first_day(schedule, last)
    if begins > ends:
        raise WindowError(f"--from {first} is later than --to {last}; give the earlier one first")
    return begins, ends


@cli.app.command(
    epilog="Examples:  calmon report  ·  calmon report --week 2026-W46 --html report.html  ·  "
    "calmon report --label billing --html billing.html  ·  "
    "calmon report --label billing --target 0.98  ·  calmon report --label '*'"
)
def report(
    week: cli.WeekOption = None,
    source: cli.SourceOption = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Only this label, with all its metrics and bins; '*': the source as a whole."),
    ] = None,
    target: Annotated[
        float, typer.Option(help="The accuracy that the threshold for what acts alone must be shown to reach.")
    ] = TARGET_ACCURACY,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write it to this file as one page that needs nothing else."),
    ] = None,
    more: Annotated[
        bool,
        typer.Option(
            "--more",
            help="With --label: how much numbers vary between parts of the rows, and the cheapest threshold; from the "
            "warehouse which labels come together ('*'), and which way of making scores is best calibrated.",
        ),
    ] = False,
    json_output: cli.JsonFlag = False,
) -> None:
    """A week: the story of each label that needs somebody, and the estimates of all; with --label, its evidence.

    As text, as one page or as JSON. Automation is told of the newest week only. Reads the history only; --more prints
    further tables of one label instead, some of which read the warehouse.
    """
    if more and label is None:
        raise cli.UsageError("--more is about one label: give --label L, or '*' for the source as a whole")
    if not 0 < target < 1:
        raise cli.UsageError(f"--target is a share between 0 and 1, such as 0.95, not {target:g}")
    with cli.monitor(writes=False) as opened:
        cli.check_stored_source(opened.store, source)
        window = cli.window_of(opened.config, "weekly", week)
        found = collect_report(opened.store, opened.config, window, opened.clock(), target=target)
        data = _chosen(found if source is None else _explained(opened, found, source), source, label)
        if more:
            _print_more(opened, data, window, json_output=json_output)
            return
        if html is not None:
            cli.write(html, html_report(data), folders=True)
            cli.warn(f"written: {html}")
        if json_output:
            estimates = opened.store.estimates(schedule="weekly", window_start=window.start, segments=True)
            shown = {(one.subject.source, one.subject.label) for one in data.subjects}
            kept = [e for e in estimates if (e.subject.source, e.subject.label) in shown]
            cli.print_json(report_document(data, kept))
        elif html is None:
            cli.out.print(report_view(data, full=label is not None))


def _print_more(opened: Monitor, data: ReportData, window: Window, *, json_output: bool) -> None:
    """The further tables of each subject, as tables or as JSON."""
    document = []
    for report in data.subjects:
        elements = further_tables(opened, report.subject, window)
        tables = [{"title": one.title, "head": one.head, "rows": [_row(row) for row in one.rows]} for one in elements]
        document.append({"source": report.subject.source, "label": report.subject.label, "tables": tables})
        if not json_output:
            cli.say(report.subject.name, style="bold")
            cli.out.print(Group(*(part for element in elements for part in element_view(element))))
    if json_output:
        cli.print_json(plain(document))


def _row(row: Sequence[Cell]) -> list[object]:
    return [cell.label if isinstance(cell, Subject) else cell for cell in row]


def _explained(opened: Monitor, data: ReportData, source: str) -> ReportData:
    """The report of all sources, with what it says if this source has no result in its window."""
    newest = opened.store.newest_window(data.window.schedule, source)
    return replace(data, nothing=nothing_of(data, source, newest, configured=source in opened.config.sources))


def _chosen(data: ReportData, source: str | None, label: str | None) -> ReportData:
    """The requested part. Raises UsageError for a label that the window does not have."""
    found = only(data, source, label)
    if label is not None and not found.subjects:
        if source is not None and not only(data, source).subjects:
            raise cli.UsageError(data.nothing)
        known = sorted({one.subject.label for one in only(data, source).subjects if one.subject.label is not None})
        raise cli.UsageError(f"{data.window.name} has no label {label!r}; it has: {listed(known)}")
    return found


@cli.app.command(
    "explain",
    epilog="Examples:  calmon explain billing  ·  calmon explain billing --source tickets  ·  calmon explain 3f2a  "
    "(a verdict: the first characters of its id)",
)
def explain_command(
    what: Annotated[str, typer.Argument(help="A label, '*' for a source as a whole, or how a verdict's id begins.")],
    source: cli.SourceOption = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """Why a label is judged as it is: its story, then the checks of its newest verdicts.

    With a verdict's id, all that is known of that verdict.
    """
    with cli.monitor(writes=False) as opened:
        cli.check_stored_source(opened.store, source)
        judged = opened.store.newest_diagnoses(back=BACK, until=opened.clock())  # in the year before the newest window
        subjects = [(each.source, each.label) for each in judged if source in (None, each.source)]
        named = [each for each in subjects if each[1] == (None if what in (AS_A_WHOLE, "(all labels)") else what)]
        if not named:
            explanation = _explanation_of(opened, _verdict_of(opened, what, subjects))
            if json_output:
                cli.print_json(document(explanation))
            else:
                cli.out.print(*lines(explanation), sep="\n", markup=False, highlight=False)
            return
        for place, (name, label) in enumerate(named):
            if place and not json_output:
                cli.out.print()
            _print_label(opened, name, label, json_output=json_output)


def _verdict_of(opened: Monitor, what: str, judged: Sequence[tuple[str, str | None]]) -> Verdict:
    """The verdict whose id begins so. Raises NotFound, which names the label that was probably meant."""
    try:
        return opened.store.verdict(what)
    except NotFound as error:
        near = closest(what, [label for _, label in judged if label])
        hint = "" if near is None else f"; did you mean {clean(near)}?"
        raise NotFound(
            f"no judged label is called {clean(what)!r}, and no verdict has an id that begins so{hint}"
        ) from error


def _print_label(opened: Monitor, source: str, label: str | None, *, json_output: bool) -> None:
    story = Teller.of(opened).of_label(source, label)
    newest = [
        verdict
        for schedule in ("weekly", "daily")
        if (window := opened.store.newest_window(schedule, source)) is not None
        for verdict in opened.store.verdicts(schedule=schedule, source=source, label=label)
        if verdict.window.name == window
    ]
    if story is None:
        raise cli.UsageError(f"{label or source} was not judged")
    if json_output:
        about = label_row(story.diagnosis, None if story.switch is None else story.switch.state)
        verdicts = [document(_explanation_of(opened, verdict)) for verdict in newest]
        cli.print_json(about | {"verdicts": verdicts})
        return
    cli.out.print(story_text(story))
    not_fine = [verdict for verdict in newest if verdict.outcome != "ok"]
    gravest = sorted(not_fine, key=lambda v: (v.outcome != "breach", SEVERITY_RANK[v.severity], v.rule))
    for place, verdict in enumerate(gravest):
        told = lines(_explanation_of(opened, verdict), short=True)
        shown = told if place < IN_FULL else islice(told, 1)
        cli.out.print("", *shown, sep="\n", markup=False, highlight=False)
    if len(gravest) > IN_FULL:
        cli.say(f"\nThe checks of each: calmon explain {gravest[-1].id[:12]}")
    fine = ", ".join(verdict.rule for verdict in newest if verdict.outcome == "ok")
    if fine:
        cli.say(f"\nWithin their limits: {fine}.")


def _explanation_of(opened: Monitor, verdict: Verdict) -> Explanation:
    """The verdict's explanation with what the history has about it."""
    source, label, window = verdict.subject.source, verdict.subject.label, verdict.window
    current = opened.store.verdicts(
        schedule=window.schedule, window_start=window.start, source=source, label=label, rule=verdict.rule
    )
    newer = current[0].id if current and verdict.id not in [other.id for other in current] else None
    versions = {baseline.version: baseline for baseline in opened.store.baselines(source, label)}
    quality = opened.store.quality(window.schedule, window.start)
    return explain(verdict, opened.config.revision, versions.get(verdict.baseline_version or 0), newer, quality)
