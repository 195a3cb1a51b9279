"""``calmon history``, ``calmon report``, ``calmon explain``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from monitor.adapters import Monitor
from monitor.cli import app as cli
from monitor.document import estimate_row, verdict_row
from monitor.explanation import Known, document, explain, sentences
from monitor.metrics.registry import METRICS
from monitor.records import Schedule, Verdict, Where
from monitor.report.export import history_csv, history_json, history_parquet, write_history_parquet
from monitor.report.terminal import history_table, report_view
from monitor.reporting import report_of, write_report

NOTHING = "the history has nothing of that; `calmon run weekly` makes some, `calmon report` shows what there is"

HistoryFormat = Literal["table", "csv", "json", "parquet"]


@cli.app.command(
    epilog="Examples:  calmon history --metric ece  ·  calmon history --label billing --format csv  ·  "
    "calmon history --metric shortfall --where automated"
)
def history(
    metric: Annotated[str, typer.Option(help=f"One of: {', '.join(METRICS)}.")] = "ece",
    source: cli.SourceOption = None,
    label: cli.LabelOption = None,
    where: Annotated[Where, typer.Option(help="Over which rows.")] = "all",
    schedule: Annotated[Schedule, typer.Option(help="Weeks or days.")] = "weekly",
    format: Annotated[HistoryFormat, typer.Option("--format", help="How to print it.")] = "table",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file (on a terminal, parquet needs one).")
    ] = None,
) -> None:
    """The trend of one metric, label by label."""
    with cli.store() as store:
        if metric not in METRICS:
            raise cli.UsageError(f"{metric!r} is not a metric; choose one of: {', '.join(METRICS)}")
        found = store.estimates(metric=metric, source=source, where=where, schedule=schedule)
        found = [e for e in found if label is None or e.subject.label == label]
        verdicts = store.verdicts(schedule=schedule, source=source)
    if format == "parquet":
        if output is not None:
            write_history_parquet(found, output)
        elif sys.stdout.isatty():
            raise cli.fail("parquet is no text for a terminal: say where with --output FILE", cli.USAGE)
        else:
            typer.echo(history_parquet(found), nl=False)
        return
    if format == "table" and output is None:
        cli.out.print(history_table(found, verdicts) if found else NOTHING)
        return
    text = history_csv(found) if format in ("csv", "table") else history_json(found)
    if output is not None:
        output.write_text(text, "utf-8")
    else:
        typer.echo(text, nl=not text.endswith("\n"))


@cli.app.command(epilog="Examples:  calmon report  ·  calmon report --week 2026-W46 --html report.html")
def report(
    week: Annotated[str | None, typer.Option(help="An ISO week; default: the last ready one.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the self-contained page to this file.")] = None,
    json_output: cli.JsonFlag = False,
) -> None:
    """Everything about a week: lights, numbers, verdicts, bad rows; or the page with every figure."""
    with cli.monitor(writes=False) as opened:
        window = cli.window_of(opened.config, "weekly", week)
        if html is not None:
            path, _ = write_report(opened, window, html)
            cli.err.print(f"written: {path}", markup=False)
            return
        if json_output:
            estimates = opened.store.estimates(schedule="weekly", window_start=window.start, segments=True)
            verdicts = opened.store.verdicts(schedule="weekly", window_start=window.start)
            page = {
                "window": window.name,
                "estimates": [estimate_row(e) for e in estimates],
                "verdicts": [verdict_row(v) for v in verdicts],
            }
            typer.echo(json.dumps(page, indent=1, allow_nan=False))
            return
        cli.out.print(report_view(report_of(opened, window)))


@cli.app.command("explain", epilog="Example:  calmon explain 3f2a  (the first characters of an id are enough)")
def explain_command(
    verdict: Annotated[str, typer.Argument(help="A verdict's id, or how it begins.")], json_output: cli.JsonFlag = False
) -> None:
    """Why a verdict is what it is, in plain sentences with its numbers."""
    with cli.monitor(writes=False) as opened:
        explanation = explain(_known(opened, opened.store.verdict(verdict)))
        if json_output:
            typer.echo(json.dumps(document(explanation), indent=1, allow_nan=False))
            return
        for sentence in sentences(explanation):
            cli.out.print(sentence, markup=False, highlight=False)


def _known(opened: Monitor, verdict: Verdict) -> Known:
    """The verdict with what the history holds about it."""
    source, label, window = verdict.subject.source, verdict.subject.label, verdict.window
    current = opened.store.verdicts(
        schedule=window.schedule, window_start=window.start, source=source, label=label, rule=verdict.rule
    )
    newer = [other.id for other in current]
    alone = opened.store.estimates(
        schedule=window.schedule, window_start=window.start, source=source, label=label,
        metric=verdict.metric, where=verdict.where,
    )  # fmt: skip
    versions = {baseline.version: baseline for baseline in opened.store.baselines(source, label)}
    return Known(
        verdict=verdict,
        revision=opened.config.revision,
        baseline=versions.get(verdict.baseline_version or 0),
        alone=alone[0] if alone else None,
        newer=newer[0] if newer and verdict.id not in newer else None,
    )
