"""``calmon run``, ``calmon backfill``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from monitor.alerting.health import outage
from monitor.cli import common as cli
from monitor.config.model import Config
from monitor.context import ActMode
from monitor.core import windows
from monitor.core.records import Schedule
from monitor.history.errors import HistoryLost
from monitor.operations.open import open_monitor
from monitor.report.terminal import run_summary
from monitor.run import run_window

run_app = typer.Typer(no_args_is_help=True, help="Evaluate one window now, without Prefect.")
cli.app.add_typer(run_app, name="run")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Store nothing, switch nothing, send nothing.")]
Act = Annotated[bool, typer.Option("--act", help="Act even though a newer window has been evaluated.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Leave with 3 where a verdict is a breach.")]


@run_app.command(
    epilog="Examples:  calmon run weekly  ·  calmon run weekly --week 2026-W46 --json  ·  "
    "calmon run weekly --source tickets --dry-run"
)
def weekly(
    week: Annotated[str | None, typer.Option(help="An ISO week like 2026-W46; default: the last ready one.")] = None,
    source: cli.SourceOption = None,
    json_output: cli.JsonFlag = False,
    dry_run: DryRun = False,
    act: Act = False,
    exit_code: ExitCode = False,
) -> None:
    """Evaluate one week: read, estimate, compare, decide, switch, send."""
    _run("weekly", week, source, json_output=json_output, dry_run=dry_run, act=act, exit_code=exit_code)


@run_app.command(epilog="Examples:  calmon run daily  ·  calmon run daily --date 2026-11-16 --exit-code")
def daily(
    date: Annotated[str | None, typer.Option(help="A day like 2026-11-16; default: the last ready one.")] = None,
    source: cli.SourceOption = None,
    json_output: cli.JsonFlag = False,
    dry_run: DryRun = False,
    act: Act = False,
    exit_code: ExitCode = False,
) -> None:
    """Evaluate one day by the daily rules."""
    _run("daily", date, source, json_output=json_output, dry_run=dry_run, act=act, exit_code=exit_code)


def _run(
    schedule: Schedule, name: str | None, source: str | None, *,
    json_output: bool, dry_run: bool, act: bool, exit_code: bool,
) -> None:  # fmt: skip
    mode: ActMode = "always" if act else "auto"
    with cli.plain_errors():
        config = cli.configuration()
        window, names = cli.window_of(config, schedule, name), cli.check_source(config, source)
    opening = open_monitor(cli.settings(), writes=not dry_run)
    with cli.plain_errors(), lost_reported(config, f"calmon run {schedule}"), opening as opened:
        outage.end(opened.settings, opened.clock())
        with status() as say:
            result = run_window(opened, window, sources=names, dry_run=dry_run, act=mode, progress=say)
        if json_output:
            typer.echo(json.dumps(result.document, indent=1, ensure_ascii=False, allow_nan=False))
        else:
            cli.out.print(run_summary(result.evaluated, result.actions, opened.config))
            for part in (part for part in result.evaluated if part.problem):
                text = f"{part.source}: {part.problem}: {part.error}"
                cli.err.print(text, style="red", markup=False, soft_wrap=True)
    if all(part.problem for part in result.evaluated):
        raise typer.Exit(cli.FAILED)
    if exit_code and result.breached:
        raise typer.Exit(cli.BREACH)


@contextmanager
def lost_reported(config: Config, what: str) -> Iterator[None]:
    """A run that finds its history gone says so to people, too: nobody may be looking at this terminal."""
    try:
        yield
    except HistoryLost as error:
        outage.report_lost(cli.settings(), config, what, error)
        raise


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A spinner on standard error that says what is going on."""
    with cli.err.status("starting") as spinner:
        yield spinner.update


@contextmanager
def bar(total: int, text: str) -> Iterator[Callable[[str], None]]:
    """A progress bar on standard error; each call is one step done."""
    what = (SpinnerColumn(), TextColumn("{task.description}"))
    how_far = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*what, *how_far, console=cli.err) as progress:
        task = progress.add_task(text, total=total)

        def advance(note: str) -> None:
            progress.update(task, advance=1, description=note)

        yield advance


@cli.app.command(epilog="Example:  calmon backfill --from 2026-W30 --to 2026-W46")
def backfill(
    first: Annotated[str, typer.Option("--from", help="The first window: 2026-W30, or 2026-07-20 with --daily.")],
    last: Annotated[str, typer.Option("--to", help="The last window, included.")],
    source: cli.SourceOption = None,
    daily_windows: Annotated[bool, typer.Option("--daily", help="Days instead of weeks.")] = False,
) -> None:
    """Evaluate many past windows, oldest first. Never switches anything and never sends."""
    schedule: Schedule = "daily" if daily_windows else "weekly"
    with cli.plain_errors():
        config = cli.configuration()
        names = cli.check_source(config, source)
        ends = cli.window_of(config, schedule, first), cli.window_of(config, schedule, last)
        span = windows.span(*ends, config.zone)
    with cli.monitor() as opened:
        breaches = 0
        with bar(len(span), "backfill") as advance:
            for window in span:
                result = run_window(opened, window, sources=names, act="never")
                breaches += sum(v.outcome == "breach" for part in result.evaluated for v in part.verdicts)
                advance(window.name)
    cli.out.print(f"{len(span)} windows evaluated, {breaches} breaches found; nothing was switched or sent.")
