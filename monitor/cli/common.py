"""The application object, what its commands share, and how it reports errors.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 a breach (only with --exit-code).
"""

from __future__ import annotations

import atexit
import gc
import io
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar
from zoneinfo import ZoneInfo

import typer
from rich.text import Text
from sqlalchemy.exc import InterfaceError, OperationalError

from monitor.cli.demand import OnDemand
from monitor.config import log_handler
from monitor.config.env_file import read_into
from monitor.config.load import load_config
from monitor.config.model import Config
from monitor.config.problems import ConfigProblems
from monitor.config.settings import Settings, SettingsError, load_settings, variables
from monitor.config.unknown_variables import unknown_variables
from monitor.context import Monitor, utc_now
from monitor.core import windows
from monitor.core.files import write_whole
from monitor.core.process_environment import system_user
from monitor.core.records import Refused, Schedule, Window, WrongRequest
from monitor.core.redaction import error_text, hide_at_the_edge, without_secrets
from monitor.core.windows import WindowError, last_ready, named
from monitor.core.wording import clean
from monitor.history.errors import HistoryError, WrongStoreAddress
from monitor.history.store import Store
from monitor.operations.open import open_monitor, open_store
from monitor.report.console import console, plain_table
from monitor.warehouse.relation import RelationError, WarehouseFailed, WrongWarehouseAddress

FAILED, USAGE, BREACH = 1, 2, 3
CELL_LENGTH = 400

out = console()
err = console(stderr=True)


class Commands(OnDemand):
    """The commands of ``calmon`` in the order of its help, with their modules."""

    tasks: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "Begin: calmon init tickets.csv": {
            "demo": "monitor.cli.demo",
            "init": "monitor.cli.init",
            "check": "monitor.cli.checks",
            "docs": "monitor.cli.docs",
            "version": "monitor.cli.version",
        },
        "Evaluate: calmon run weekly": {
            "baseline": "monitor.cli.baseline",
            "release": "monitor.cli.release",
            "run": "monitor.cli.runs",
            "backfill": "monitor.cli.runs",
            "replay": "monitor.cli.replay",
        },
        "Look at what was found: calmon report --week 2026-W46": {
            "report": "monitor.cli.history",
            "history": "monitor.cli.history",
            "explain": "monitor.cli.history",
            "examples": "monitor.cli.examples",
            "dashboard": "monitor.cli.service",
            "annotations": "monitor.cli.annotations",
        },
        "Decide and react: calmon automation status": {
            "automation": "monitor.cli.automation",
            "audit": "monitor.cli.audit",
            "incidents": "monitor.cli.incidents",
            "label": "monitor.cli.label",
            "slack": "monitor.cli.slack",
        },
        "Better scores: calmon recalibrate --label billing": {
            "recalibrate": "monitor.cli.recalibration",
        },
        "Run it unattended: calmon serve": {
            "serve": "monitor.cli.serve",
            "status": "monitor.cli.status",
            "health": "monitor.cli.health",
            "db": "monitor.cli.database",
        },
    }
    """The tasks of users, each with an example: the panels of the help, and the commands of each."""
    modules: ClassVar[Mapping[str, str]] = {
        name: module for commands in tasks.values() for name, module in commands.items()
    }

    summaries: ClassVar[Mapping[str, str]] = {
        "demo": "Make 26 weeks of tickets and e-mails, pin, backfill, run the last week, and say what was found.",
        "init": "Look at your table or file, propose how to read it, and write alerts.yaml and .env. Never overwrites.",
        "check": (
            "Validate alerts.yaml, reach warehouse, store and Slack, show what would run, and what its rules can show."
        ),
        "docs": "The documents: a list of them, or one. Messages name the one to read.",
        "version": "The version, the schema of its history, and the version of Python.",
        "baseline": "What labels looked like when they were trusted.",
        "release": "Note a release once, compare the weeks since it with those before, and say what pins them.",
        "run": "Evaluate one window now, without Prefect.",
        "backfill": "Evaluate many past windows, oldest first. Never switches anything and never sends.",
        "replay": "Which incidents a rules file would have opened, beside the present one. Changes and sends nothing.",
        "report": (
            "A week: the story of each label that needs somebody, and the estimates of all; with --label, its evidence."
        ),
        "history": "The trend of one metric, label by label.",
        "explain": "Why a label is judged as it is: its story, then the checks of its newest verdicts.",
        "examples": "The rows behind a finding: ids of items, the most confident errors first.",
        "dashboard": ("Pages for people, and the switch over HTTP for routers and operators. Ends with Ctrl-C."),
        "annotations": "Notes at a time of a source or label, shown on every axis.",
        "automation": "The switch: what may act alone, and who changed it.",
        "audit": "Truth for what acts alone: how many items to check, and which.",
        "incidents": "Troubles of labels, sources and the monitor, from first to resolved.",
        "label": "Labels of the classifier that have another name now.",
        "slack": "The buttons of Slack messages: acknowledge, silence, automation off, and on for operators.",
        "recalibrate": "Map scores to scores that mean what they say, fitted on stored rows; shows what it is worth.",
        "serve": "Run the weekly and daily schedules, the watch and the outbox in this terminal, as `make serve` does.",
        "status": "What is open, what waits for somebody, and what comes next: to begin a day with, and to hand over.",
        "health": "Whether runs, data, messages and leases are as they should be. Exit 0: yes; 1: not.",
        "db": "The history database.",
    }

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, in the panel of its task."""
        found = super().get_command(ctx, cmd_name)
        panel = next((task for task, commands in self.tasks.items() if cmd_name in commands), None)
        if found is not None and panel is not None:
            found.rich_help_panel = panel
        return found

    def invoke(self, ctx: Any) -> Any:
        """Do the command; every error that a person can fix is one plain message."""
        with plain_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="calmon",
    cls=Commands,
    help="Watches whether a classifier's confidence scores still mean what they say.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Each command has examples: [bold]calmon run weekly --help[/bold]. Completion of words in this shell: "
    "[bold]calmon --install-completion[/bold]",
)
Commands.owner = app


@app.callback()
def _before_commands() -> None:
    # Typer makes no group of an application that has no command yet
    with suppress(OSError):  # a note that cannot be written must not prevent a stop
        for text in unknown_variables(os.environ, variables()):
            warn(f"note: {text}")


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON document to standard output, nothing else.")]
SourceOption = Annotated[str | None, typer.Option("--source", help="Only this source of alerts.yaml.")]
WeekOption = Annotated[
    str | None, typer.Option("--week", help="An ISO week like 2026-W46; default: the last ready one.")
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Only this label.")]
ByOption = Annotated[str | None, typer.Option("--by", help="Who does this; default: the system user.")]


def say(text: str, *, style: str = "") -> None:
    """Print a line as it is: nothing in it is markup, and it is not broken, so that a command in it can be copied."""
    out.print(Text(text, style=style), soft_wrap=True)


def warn(text: str, *, style: str = "") -> None:
    """The same on standard error."""
    err.print(Text(text, style=style), soft_wrap=True)


def print_json(document: Any) -> None:
    """Print the one document of ``--json``: times as ISO 8601 writes them; numbers that are not finite are an error."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False, default=_plain))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


UsageError = WrongRequest


def cells(*texts: str) -> list[Text]:
    """Texts from data or people as cells of a table: "[/red]" stays text, and no control character is left."""
    return [Text(clean(text, length=CELL_LENGTH)) for text in texts]


def print_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None, nothing: str = ""
) -> None:
    """Print texts from data or people as a table, or ``nothing`` where there is none."""
    table = plain_table(*head, title=cells(title)[0] if title else None)
    for row in rows:
        table.add_row(*cells(*row))
    if nothing and not table.rows:
        say(nothing)
    else:
        out.print(table)


@contextmanager
def lines_at_the_end() -> Iterator[list[str]]:
    """Print what a command did of its subjects once it is through, or has failed.

    An output that cannot be written, such as a pipe whose reader has ended, must not end a stop at its first label.
    """
    lines: list[str] = []
    try:
        yield lines
    finally:
        for line in lines:
            say(clean(line, 2 * CELL_LENGTH))


def fail(message: str, code: int = FAILED, *, then: str | None = None) -> typer.Exit:
    """Print a plain error to standard error, and the command to call ``then``; returns the exit to raise."""
    warn(f"error: {without_secrets(message)}", style="red")
    if then is not None:
        warn(f"next: {then}")
    return typer.Exit(code)


@contextmanager
def plain_errors() -> Iterator[None]:
    """Every error that a person can fix ends the command with one plain message; raises typer.Exit with its code."""
    try:
        yield
    except ConfigProblems as problems:
        warn(str(problems))
        there = Path(problems.problems[0].file).exists()
        warn(f"next: calmon {'check --offline' if there else 'init'}")
        raise typer.Exit(USAGE) from problems
    except (SettingsError, WrongStoreAddress, WrongWarehouseAddress) as error:
        raise fail(str(error), USAGE, then="calmon check") from error
    except WrongRequest as error:
        raise fail(str(error), USAGE) from error
    except (HistoryError, Refused) as error:
        raise fail(str(error)) from error
    except (RelationError, WarehouseFailed) as error:
        raise fail(str(error), then="calmon check") from error
    except (OperationalError, InterfaceError) as error:  # a connection that was lost, a full disk
        raise fail(f"the history does not answer: {first_line(error.orig)}", then="calmon check") from error
    except BrokenPipeError:  # the reader of our output has closed it
        raise
    except OSError as error:
        what = error.strerror or str(error) or type(error).__name__
        raise fail(what if error.filename is None else f"{error.filename}: {what}") from error
    except MemoryError as error:
        raise fail("too little free memory: nothing is lost; give it more, then repeat") from error
    except KeyboardInterrupt:
        warn("stopped: what was stored stays, and the same command goes on from there")
        raise typer.Exit(FAILED) from None


def first_line(error: object) -> str:
    """The first line of a driver's message, without its additions."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def print_next(command: str, why: str, settings: Settings) -> None:
    """A command to go on with, as it can be pasted into the same shell."""
    elsewhere = "" if settings.config == Path("alerts.yaml") else f"CALMON_CONFIG={shlex.quote(str(settings.config))} "
    say(f"next: {elsewhere}{command}    # {why}")


def write(path: Path, content: str | bytes, *, folders: bool = False) -> None:
    """Write a file that the command line names. Raises typer.Exit (1), after a plain error, where that fails."""
    try:
        write_whole(path, content, folders=folders)
    except OSError as error:
        raise fail(f"{path} cannot be written: {error.strerror or error}") from error


def settings() -> Settings:
    """The settings of this environment."""
    return load_settings(os.environ)


def configuration() -> Config:
    """alerts.yaml, with which a command checks its arguments before it opens (or creates) anything."""
    return load_config(settings().config)


def monitor(*, writes: bool = True, reads: bool = True) -> AbstractContextManager[Monitor]:
    """The adapters of this environment; without ``reads``, no warehouse."""
    return open_monitor(settings(), writes=writes, reads=reads, missed=warn)


def store(*, writes: bool = False) -> AbstractContextManager[Store]:
    """The history of this environment; an empty one in memory where it is only read, and there is none."""
    return open_store(settings(), writes=writes, missed=warn)


def store_address() -> str:
    """The address of the history in this environment."""
    return settings().store_url.get_secret_value()


def existing_store() -> Store:
    """The history of this environment, which must be there. Raises HistoryError."""
    return Store.from_url(store_address(), create=False)


def window_of(config: Config, schedule: Schedule, name: str | None) -> Window:
    """The named window, or the last ready one; raises WindowError for one that is not over yet."""
    now, zone = utc_now(), config.zone
    if name is None:
        return last_ready(schedule, now, zone)
    window = named(schedule, name, zone)
    if window.end > now:
        ready = last_ready(schedule, now, zone).name
        raise WindowError(f"{window.name} is not over yet; the last ready one is {ready}")
    return window


def check_source(config: Config, source: str | None) -> list[str] | None:
    """The requested source, or None for all. Raises UsageError for an unknown one."""
    if source is None:
        return None
    if source not in config.sources:
        raise UsageError(f"alerts.yaml has no source {source!r}; it has: {', '.join(config.sources)}")
    return [source]


def source_with(history: Store, names: Sequence[str], label: str | None, window: Window) -> str:
    """The only one of these sources, or the only one that had the label in the window (None: that had rows).

    Raises UsageError where several had it, or none.
    """
    if len(names) == 1:
        return names[0]
    readings = {name: history.load_reading(window.schedule, window.start, name) for name in names}
    having = [name for name, reading in readings.items() if reading is not None and label in reading.labels]
    if len(having) != 1:
        which = "these have rows" if label is None else f"these have the label {label!r}"
        raise UsageError(f"say which source with --source; {which}: {', '.join(having) or 'none'}")
    return having[0]


def check_stored_source(history: Store, source: str | None) -> None:
    """Raise UsageError for a source that neither the history nor alerts.yaml has.

    What was stored of a source that alerts.yaml has lost can be read, and so can the history without alerts.yaml.
    """
    if source is None or history.known_labels(source):
        return
    with suppress(ConfigProblems, SettingsError):
        check_source(configuration(), source)


def check_reason(reason: str) -> None:
    """Raise UsageError for an empty reason."""
    if not reason.strip():
        raise UsageError("--reason may not be empty: the next person wants to know why")


def who(by: str | None) -> str:
    """The name under which a change is stored. Raises UsageError for an empty one, as from an unset shell variable."""
    if by is not None and not by.strip():
        raise UsageError("--by is empty, and a change needs a name: leave --by out for the system's user")
    return system_user() if by is None else by


def moment(text: str | None, config: Config) -> datetime | None:
    """An ISO date and time; without an offset it is in the configured time zone. Raises WindowError."""
    return None if text is None else windows.moment(text, config.zone)


def stated(at: datetime | None, zone: ZoneInfo) -> str:
    """A time with its zone, for a sentence; "" for none.

    >>> stated(datetime(2026, 11, 16, 6, 3, tzinfo=ZoneInfo("UTC")), ZoneInfo("Europe/Berlin"))
    '2026-11-16 07:03 Europe/Berlin'
    """
    return "" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M} {zone.key}"


def zone_of_history() -> ZoneInfo:
    """The configured time zone; UTC where alerts.yaml cannot be read, since the history can be read without it."""
    try:
        return configuration().zone
    except (ConfigProblems, SettingsError):
        return ZoneInfo("UTC")


@cache
def program() -> Any:
    """The command that :data:`app` runs, built once: in tests a process runs hundreds of commands."""
    return typer.main.get_command(app)


def main() -> None:
    """The entry point of ``calmon``. After an unforeseen error: its traceback without secrets, and SystemExit (1)."""
    atexit.register(_end_quickly)
    _open_closed_streams()
    _write_any_letter()
    hide_at_the_edge()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what had begun is stored as failed, as after Ctrl-C
    try:
        with plain_errors():
            read_into(os.environ)
            log_to = log_handler.handler()
            logging.basicConfig(handlers=[log_to], level=log_to.level or logging.WARNING)
            program()()
    except typer.Exit as end:  # outside of a command nothing else makes an exit of it
        raise SystemExit(end.exit_code) from None
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not show a password
        sys.stderr.write(error_text(error))
        raise SystemExit(FAILED) from None


def _open_closed_streams() -> None:
    """Give the null device to a standard stream that was closed.

    Otherwise the next file to be opened, such as the warehouse, gets the stream's number and what libraries print.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # in the order of their numbers: each gets the lowest that is free
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - for the whole process


def _write_any_letter() -> None:
    r"""Write a letter that the encoding of a stream does not have with a backslash, like \xe9."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _end_quickly() -> None:
    """Spare the searches of all objects for reference cycles with which Python ends a process: they take 0.1 s.

    DuckDB needs the last of them: its binding prints which of its objects are left.
    """
    gc.disable()
    if "duckdb" not in sys.modules:
        gc.freeze()
