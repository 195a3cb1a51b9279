"""Plays a planned history: the real warehouse, runs, commands, buttons and drains, with a clock that is moved by hand.

After each step the ``observer`` is called, with what was done.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from random import Random
from tempfile import mkdtemp
from typing import Any

import click
import duckdb

from monitor import run
from monitor.alerting.health.watchdog import watch_monitor
from monitor.alerting.slack.outbox import drain, worker_id
from monitor.config.load import load_config
from monitor.config.settings import Settings, load_settings
from monitor.context import Monitor
from monitor.core.records import Window
from monitor.core.windows import day, week
from monitor.operations import incident_actions
from monitor.operations.pin_baseline import pin
from monitor.operations.refuse_premature import WindowRefused
from monitor.operations.slack_buttons import Buttons
from monitor.report.console import PlainConsole
from tests.fakes.world import make_world
from tests.truth.clockwork import Channel, Clock, Whispers, clockwork
from tests.truth.world import KINDS, OPERATOR, START, STRANGER, UTC_ZONE, Event, Plan, plan, rows_of

cli: Any = importlib.import_module("monitor.cli.common")
TEAM, PUBLIC = "T1", "https://calmon.example.com"


class Killed(BaseException):
    """The process of a run is gone: nobody is left to note it."""


@dataclass
class Told:
    """A history while it is played."""

    plan: Plan
    monitor: Monitor
    clock: Clock
    folder: Path
    channel: Channel | None
    whispers: Whispers
    buttons: Buttons
    rng: Random
    filled: datetime = START
    presses: int = 0
    printed: list[tuple[tuple[str, ...], int, str]] = field(default_factory=list)
    ran: frozenset[str] = frozenset()

    def command(self, *args: str) -> str:
        """Run a command as a person in a terminal does; what it printed is kept."""
        text = io.StringIO()
        cli.out.file = cli.err.file = text
        with redirect_stdout(text), redirect_stderr(text):
            try:
                code = cli.program().main(args=list(args), prog_name="calmon", standalone_mode=False) or 0
            except click.exceptions.Exit as ended:
                code = ended.exit_code
            except click.ClickException as error:
                error.show(text)
                code = error.exit_code
        self.printed.append((args, int(code), text.getvalue()))
        return text.getvalue()

    def incident_of(self, source: str, label: str) -> str | None:
        """The newest incident of a label, also one of many labels."""
        about = [i for i in self.monitor.store.incidents() if i.source == source and label in (i.label, *i.labels)]
        return max(about, key=lambda incident: incident.opened_at).id if about else None


Observer = Callable[[Told, Event], None]


@contextmanager
def opened(planned: Plan, folder: Path) -> Iterator[Told]:
    """The monitor of a plan, with its warehouse, its clock and its Slack."""
    clock, more = Clock(START), {"public_url": PUBLIC} if planned.linked else {}
    for name in ("history.sqlite", "warehouse.duckdb"):
        shutil.copy(pinned(planned.seed % KINDS) / name, folder / name)
    world = make_world(folder, config=planned.yaml, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    environment = world.environment | {f"CALMON_{key.upper()}": value for key, value in more.items()}
    channel, whispers = Channel() if planned.token else None, Whispers()
    with clockwork(clock, channel), _environment(environment), _wide(), world.opened(clock, **more) as monitor:
        buttons = Buttons(
            monitor, whispers, TEAM, config=lambda: load_config(folder / "alerts.yaml"),
            deliver=lambda: run.deliver(monitor),
        )  # fmt: skip
        yield Told(planned, monitor, clock, folder, channel, whispers, buttons, Random(f"play {planned.seed}"))


@cache
def pinned(kind: int) -> Path:
    """A folder with a history that has only a baseline, and the warehouse with its weeks: made once in a process.

    Plans of one kind have the same sources, labels and rules, and the same rows in the baseline's weeks.
    """
    planned, folder, clock = plan(kind), Path(mkdtemp(prefix="truth-")), Clock(START)
    with duckdb.connect(str(folder / "warehouse.duckdb")) as connection:
        for source in planned.labels:
            frame = rows_of(planned, source, planned.baseline[0])
            connection.register("frame", frame)
            connection.execute(f"CREATE TABLE {source} AS SELECT * FROM frame LIMIT 0")
            for window in planned.baseline:
                _insert(connection, source, rows_of(planned, source, window))
    world = make_world(folder, config=planned.yaml, warehouse_url=f"duckdb:///{folder / 'warehouse.duckdb'}")
    with clockwork(clock, None), _environment(world.environment), _wide(), world.opened(clock) as monitor:
        pin(monitor, planned.baseline[0], planned.baseline[-1], by="ana", reason="first", anyway=True)
    return folder


def _insert(connection: Any, source: str, frame: Any) -> None:
    if len(frame):
        connection.register("frame", frame)
        connection.execute(f"INSERT INTO {source} SELECT * FROM frame")


@contextmanager
def _environment(wanted: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("CALMON_")]:
        del os.environ[name]
    os.environ.update(wanted)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@contextmanager
def _wide() -> Iterator[None]:
    """Consoles of 2,000 columns, and no log lines."""
    before, disabled = (cli.out, cli.err), logging.root.manager.disable
    cli.out, cli.err = (PlainConsole(width=2000, file=io.StringIO(), no_color=True) for _ in range(2))
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        cli.out, cli.err = before
        logging.disable(disabled)


def environment_settings() -> Settings:
    """The settings of the history that is played."""
    return load_settings(dict(os.environ))


def play(planned: Plan, folder: Path, observer: Observer) -> None:
    """Play a history to its end; ``observer`` sees each step when it is done."""
    with opened(planned, folder) as told:
        for event in planned.events:
            told.clock.now = max(event.at, told.clock.now) if event.kind != "run" else event.at
            told.ran = frozenset()
            _DO[event.kind](told, event)
            observer(told, event)


# --- runs


def _run(told: Told, event: Event) -> None:
    """A run of some sources, perhaps by a wrong clock, with late truths, a source that is away, or killed half way."""
    window: Window = (week if event.more["schedule"] == "weekly" else day)(event.what, UTC_ZONE)
    _fill(told, event)
    right, hidden, stages = told.clock.now, event.more.get("hidden"), run.STAGES
    told.clock.now = right + timedelta(minutes=event.more.get("jump", 0))
    told.ran = frozenset(event.more["sources"])
    if hidden:
        _sql(told, f"ALTER TABLE {hidden} RENAME TO hidden")
    if event.more.get("killed"):
        run.STAGES = tuple(stage if stage is not run.act else _kill for stage in stages)
    note, run.note_failure = run.note_failure, run.note_failure if not event.more.get("killed") else lambda *_: None
    try:
        run.run_window(told.monitor, window, sources=event.more["sources"])
    except (Killed, WindowRefused):
        pass
    finally:
        run.STAGES, run.note_failure = stages, note
        told.clock.now = max(right, told.clock.now)
        if hidden:
            _sql(told, f"ALTER TABLE hidden RENAME TO {hidden}")


def _kill(monitor: Monitor, due: run.Run) -> run.Run:
    raise Killed


def _fill(told: Told, event: Event) -> None:
    """Rows that have come since; and late truths of a label in the week before."""
    planned, until = told.plan, told.clock.now
    with duckdb.connect(str(told.folder / "warehouse.duckdb")) as connection:
        for window in planned.weeks:
            if window.end > told.filled and window.start < until:
                for source in planned.labels:
                    frame = rows_of(planned, source, window)
                    came = (frame["resolved_at"] >= told.filled) & (frame["resolved_at"] < until)
                    _insert(connection, source, frame[came])
        if "late" in event.more:
            source, label, mood = event.more["late"]
            window = week(event.what, UTC_ZONE)
            about = [label, window.start, window.end]
            connection.execute(f"DELETE FROM {source} WHERE label = ? AND resolved_at >= ? AND resolved_at < ?", about)
            _insert(connection, source, rows_of(planned, source, window, label, mood))
    told.filled = max(until, told.filled)


def _sql(told: Told, statement: str) -> None:
    with duckdb.connect(str(told.folder / "warehouse.duckdb")) as connection:
        connection.execute(statement)


# --- what comes round


def _drain(told: Told, event: Event) -> None:
    incident_actions.due_repeats(told.monitor)
    drain(told.monitor.store, told.monitor.sender, now=told.clock, worker=worker_id(), due_only=True)


def _watch(told: Told, event: Event) -> None:
    watch_monitor(told.monitor)
    _drain(told, event)


def _slack(told: Told, event: Event) -> None:
    if told.channel is not None:
        told.channel.down = event.what == "down"


def _look(told: Told, event: Event) -> None:
    """Somebody looks at everything: the observer reads, nothing happens."""


def _backup(told: Told, event: Event) -> None:
    told.command("db", "backup", str(told.folder / "copy.sqlite"))


def _restore(told: Told, event: Event) -> None:
    given = event.more
    told.command("db", "restore", str(told.folder / "copy.sqlite"), "--reason", given["why"], "--by", given["by"])


def _confirm(told: Told, event: Event) -> None:
    told.command("db", "confirm", "--reason", "looked at", "--by", event.more["by"])


# --- people


def _person(told: Told, event: Event) -> None:
    _ACTS[event.what](told, event)


def _switch(told: Told, event: Event) -> None:
    given, enable = event.more, event.what == "enable"
    if given["way"] == "slack":
        incident = told.incident_of(given["source"], given["label"])
        if incident is not None:
            _press(told, "automation_on" if enable else "automation_off", incident, given["why"])
        return
    until = [] if given["hours"] is None else [
        "--until", f"{told.clock.now + timedelta(hours=given['hours']):%Y-%m-%dT%H:%M}"
    ]  # fmt: skip
    about = ["--source", given["source"], "--label", given["label"], "--reason", given["why"], "--by", given["by"]]
    told.command("automation", event.what, *about, *until)


def _whole(told: Told, event: Event) -> None:
    """The source's own switch."""
    given, word = event.more, "enable" if event.more["on"] else "disable"
    about = ["--source", given["source"], "--reason", given["why"], "--by", given["by"]]
    told.command("automation", word, *about, *(["--all"] if given["pick"] < 0.5 else []))


def _annotate(told: Told, event: Event) -> None:
    given = event.more
    told.command(
        "annotations", "add", "--source", given["source"], "--label", given["label"], "--by", given["by"],
        "--at", f"{told.clock.now:%Y-%m-%dT%H:%M}", given["why"],
    )  # fmt: skip


def _about_incident(told: Told, event: Event) -> None:
    given, known = event.more, told.monitor.store.incidents()
    known = [incident for incident in known if incident.is_open] or known
    if not known:
        return
    one = known[int(given["pick"] * len(known))].id
    if given["way"] == "slack" and event.what in ("acknowledge", "silence"):
        _press(told, "incident_ack" if event.what == "acknowledge" else "incident_silence_day", one, given["why"])
        return
    more = {
        "acknowledge": ["ack", one], "resolve": ["resolve", one, "--reason", given["why"]],
        "silence": ["silence", one, "--for", f"{given['hours'] or 30}h"], "note": ["note", one, given["why"]],
    }[event.what]  # fmt: skip
    told.command("incidents", *more, "--by", given["by"])


def _press(told: Told, action: str, incident: str, why: str) -> None:
    """A button, and the modal where it opens one."""
    user, name = OPERATOR if told.rng.random() < 0.85 else STRANGER
    told.presses += 1
    who = {"id": user, "username": name, "team_id": TEAM}
    element = {
        "type": "button", "action_id": action, "value": incident,
        "action_ts": f"{told.clock.now.timestamp() + told.presses / 1000:.6f}",
    }  # fmt: skip
    views = len(told.whispers.views)
    told.buttons.handle({
        "type": "block_actions", "team": {"id": TEAM}, "trigger_id": f"t{told.presses}", "user": who,
        "channel": {"id": "C001"}, "actions": [element],
    })  # fmt: skip
    if len(told.whispers.views) > views:
        view = dict(told.whispers.views[-1]) | {"id": f"V{told.presses}"}
        view["state"] = {"values": {"reason": {"reason": {"type": "plain_text_input", "value": why}}}}
        told.buttons.handle({"type": "view_submission", "team": {"id": TEAM}, "view": view, "user": who})


_DO: Mapping[str, Callable[[Told, Event], None]] = {
    "run": _run, "drain": _drain, "watch": _watch, "person": _person, "slack": _slack, "look": _look,
    "backup": _backup, "restore": _restore, "confirm": _confirm,
}  # fmt: skip
_ACTS: Mapping[str, Callable[[Told, Event], None]] = {
    "enable": _switch, "disable": _switch, "whole": _whole, "annotate": _annotate, "acknowledge": _about_incident,
    "silence": _about_incident, "resolve": _about_incident, "note": _about_incident,
}  # fmt: skip
