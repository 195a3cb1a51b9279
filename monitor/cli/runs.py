"""``calmon run``, ``calmon backfill``."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

from monitor.alerting.health import outage
from monitor.cli import common as cli
from monitor.config.model import Config
from monitor.context import ActMode
from monitor.core import windows
from monitor.core.records import Schedule, Subject, Window
from monitor.core.wording import clean, count_of
from monitor.history.errors import HistoryLost
from monitor.operations.open import open_monitor
from monitor.report.terminal import run_summary
from monitor.report.words import listed
from monitor.run import Run, catch_up, perform, run_window
from monitor.story.gather import Teller

run_app = typer.Typer(no_args_is_help=True, help="Evaluate one window now, without Prefect.")
cli.app.add_typer(run_app, name="run")

DryRun = Annotated[bool, typer.Option("--dry-run", help="Store nothing, switch nothing, send nothing.")]
Act = Annotated[bool, typer.Option("--act", help="Act even though a newer window has been evaluated.")]
FewerRows = Annotated[
    bool,
    typer.Option("--fewer-rows", help="Judge it again even where the warehouse has fewer of its rows than it had."),
]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Leave with 3 where a verdict is a breach.")]


@run_app.command(
    epilog="Examples:  calmon run weekly  ·  calmon run weekly --week 2026-W46 --json  ·  "
    "calmon run weekly --source tickets --dry-run"
)
def weekly(
    week: cli.WeekOption = None,
    source: cli.SourceOption = None,
    json_output: cli.JsonFlag = False,
    dry_run: DryRun = False,
    act: Act = False,
    fewer_rows: FewerRows = False,
    exit_code: ExitCode = False,
) -> None:
    """Evaluate one week: read, estimate, compare, decide, switch, send."""
    _run(
        "weekly", week, source, json_output=json_output, dry_run=dry_run, act=act, exit_code=exit_code,
        fewer_rows=fewer_rows,
    )  # fmt: skip


@run_app.command(epilog="Examples:  calmon run daily  ·  calmon run daily --date 2026-11-16 --exit-code")
def daily(
    date: Annotated[str | None, typer.Option(help="A day like 2026-11-16; default: the last ready one.")] = None,
    source: cli.SourceOption = None,
    json_output: cli.JsonFlag = False,
    dry_run: DryRun = False,
    act: Act = False,
    fewer_rows: FewerRows = False,
    exit_code: ExitCode = False,
) -> None:
    """Evaluate one day by the daily rules."""
    _run(
        "daily", date, source, json_output=json_output, dry_run=dry_run, act=act, exit_code=exit_code,
        fewer_rows=fewer_rows,
    )  # fmt: skip


def _run(
    schedule: Schedule,
    name: str | None,
    source: str | None,
    *,
    json_output: bool,
    dry_run: bool,
    act: bool,
    exit_code: bool,
    fewer_rows: bool,
) -> None:
    mode: ActMode = "always" if act else "auto"
    config = cli.configuration()
    window, names = cli.window_of(config, schedule, name), cli.check_source(config, source)
    with (
        lost_reported(config, f"calmon run {schedule}"),
        open_monitor(cli.settings(), config, writes=not dry_run) as opened,
    ):
        if not dry_run:
            outage.end(opened.settings, opened.store, opened.clock())
        with status() as say:
            due = Run(window, tuple(names or config.sources), mode, dry_run, say, fewer_rows)
            missed = catch_up(opened, due) if name is None and mode == "auto" and not dry_run else []
            result = perform(opened, due)
        for earlier in missed:
            cli.warn(f"{earlier.window.name} was missed, and is judged now")
        if json_output:
            cli.print_json(result.document)
        else:
            verdicts = [verdict for part in result.evaluated for verdict in part.verdicts]
            stories = Teller.of(opened).of_window(result.diagnoses, verdicts)
            cli.out.print(run_summary(result.evaluated, stories, result.actions))
            if (read := opened.warehouse.bytes_read) is not None:
                cli.say(f"The warehouse read {read / 1e6:,.1f} MB of its tables for this run.")
            if config.automation.dry_run and not dry_run:  # what lets the next ones act
                settings = opened.settings
                cli.say(f"Nothing was switched. To let it act, take `dry_run: true` out of {settings.config}, then:")
                go_live = 'calmon automation enable --all --reason "go live"'
                cli.print_next(go_live, "except labels in breach", settings)
                cli.print_next(windows.run_command(window.schedule, window.name), "acts on what was found", settings)
            elif any(action.state.startswith("not sent") for action in result.actions):
                cli.print_next("calmon check", "where messages go, and what is missing for it", opened.settings)
        for part in (part for part in result.evaluated if part.problem):
            text = f"{part.source}: {part.problem}: {part.error}"
            cli.warn(text, style="red")
    if all(part.problem for part in result.evaluated):
        cli.warn("next: calmon check")
        raise typer.Exit(cli.FAILED)
    if exit_code and result.breached:
        raise typer.Exit(cli.BREACH)


@contextmanager
def lost_reported(config: Config, what: str) -> Iterator[None]:
    """Report a lost history of a run by message too: nobody may be looking at this terminal."""
    try:
        yield
    except HistoryLost as error:
        outage.report_lost(cli.settings(), config, what, error)
        raise


@contextmanager
def status() -> Iterator[Callable[[str], None]]:
    """A spinner on standard error with the present step."""
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


@cli.app.command(
    epilog="Examples:  calmon backfill --from 2026-W30 --to 2026-W46  ·  "
    "calmon backfill --from 2026-07-20 --to 2026-07-26 --daily"
)
def backfill(
    first: Annotated[str, typer.Option("--from", help="The first window: 2026-W30, or 2026-07-20 with --daily.")],
    last: Annotated[str, typer.Option("--to", help="The last window, included.")],
    source: cli.SourceOption = None,
    daily_windows: Annotated[bool, typer.Option("--daily", help="Days instead of weeks.")] = False,
) -> None:
    """Evaluate many past windows, oldest first. Never switches anything and never sends.

    Several processes, or a cluster, can share the work of a long span in Prefect: docs/operations.md.
    """
    schedule: Schedule = "daily" if daily_windows else "weekly"
    config = cli.configuration()
    names = cli.check_source(config, source)
    ends = cli.window_of(config, schedule, first), cli.window_of(config, schedule, last)
    span = windows.span(*ends, config.zone)
    done: list[_Past] = []
    try:
        with (
            cli.plain_errors(),  # an error is said before what was done until then
            cli.monitor() as opened,
            bar(len(span), "backfill") as advance,
        ):
            for window in span:
                result = run_window(opened, window, sources=names, act="never")
                problems = {part.source: part.error for part in result.evaluated if part.problem}
                done.append(_Past(window.name, _told_of(result), problems, len(problems) == len(result.evaluated)))
                advance(window.name)
    finally:
        if done:
            options = f"{' --daily' if daily_windows else ''}{f' --source {shlex.quote(source)}' if source else ''}"
            _last_word(done, span[len(done) :], options)


@dataclass(frozen=True, slots=True)
class _Past:
    """What a backfill keeps of a window: who is needed, why which sources could not be read, and whether none could."""

    window: str
    told: str
    problems: Mapping[str, str]
    is_unread: bool


def _told_of(result: Run) -> str:
    """Who is needed in a window, and the command that shows why; "" where no rule could be judged."""
    window, troubled = result.window, [each for each in result.diagnoses if each.needs_somebody]
    if all(verdict.outcome == "not_evaluated" for part in result.evaluated for verdict in part.verdicts):
        return ""
    if not troubled:
        return f"{window.name}: no label needs somebody"
    names = listed([Subject(each.source, each.label).name for each in troubled])
    need, option = "need" if len(troubled) > 1 else "needs", "week" if window.schedule == "weekly" else "date"
    return f"{window.name}: {names} {need} somebody: calmon report --{option} {window.name}"


def _last_word(done: Sequence[_Past], rest: Sequence[Window], options: str) -> None:
    """Print what a backfill did, also where it was stopped. Raises typer.Exit where a window could not be read."""
    unread, read = [past for past in done if past.is_unread], [past for past in done if not past.is_unread]
    for source in dict.fromkeys(source for past in read for source in past.problems):
        without = [past for past in read if source in past.problems]
        many = f"{len(without)} windows, the last {without[-1].window}" if len(without) > 1 else without[0].window
        text = f"{source} could not be read in {many}: {without[-1].problems[source]}"
        cli.warn(f"note: {clean(text, length=cli.CELL_LENGTH)}")
    cli.say(f"{count_of(len(read), 'window')} evaluated; nothing was switched or sent.")
    if vain := [past.window for past in read if not past.told]:
        cli.say(f"no rule could be judged in {listed(vain)}: calmon explain LABEL says why")
    for line in [past.told for past in done if past.told][-1:]:
        cli.say(line)
    if rest:
        cli.warn(f"next: calmon backfill --from {rest[0].name} --to {rest[-1].name}{options}    # the rest")
    if unread:
        why = next(iter(unread[-1].problems.values()), "")
        many = f"{count_of(len(unread), 'window')} could not be read, the last {unread[-1].window}: {why}"
        raise cli.fail(many, then="calmon check")
