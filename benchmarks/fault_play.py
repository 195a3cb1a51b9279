"""A year of runs on one history. Each fault strikes its run, and is then fixed as the documentation says.

A flow does what Prefect would run: the stages, with new tries if something outside does not answer, and the hook of
``flows.hooks`` if the flow fails. A killed process is a real one: a fork of this process, ended by SIGKILL.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, cast
from unittest import mock

import duckdb
import pandas as pd
import psycopg
import sqlalchemy as sa
from slack_sdk import WebClient

from benchmarks.fault_plan import GATES_CLOSED, OUTAGES, PROMISED, QUARTER, STUCK_FOR, Fault, Kind
from benchmarks.fault_world import BASELINE, FIRST, START, ZONE, Remembered, backend_of, commands, schedule
from flows import hooks, stages
from monitor.alerting.health import outage, watchdog
from monitor.alerting.health.issues import FAILED_NOTE, WATCHDOG_NOTE
from monitor.alerting.health.troubles import QUIET
from monitor.alerting.slack import outbox
from monitor.automation.state import clock_behind
from monitor.config.load import load_config
from monitor.context import Monitor
from monitor.core.records import SCHEDULES, Note, Window
from monitor.core.windows import last_ready, week
from monitor.operations import open as opening
from monitor.operations.change_switch import change_switch
from monitor.operations.pin_baseline import pin
from monitor.run import Run, Stage, catch_up, deliver, perform
from monitor.warehouse.reader import Warehouse
from tests.fakes import slack
from tests.fakes.world import World, write_duckdb

LINES, STEPS, STATEMENTS = 105_000, 18, 200
"""The approximate numbers of lines of ``monitor``, stored steps and statements of a run.

A fault whose place is beyond the end of the run strikes at its end.
"""
SLACK_METHODS = (
    "chat.postMessage", "chat.update", "conversations.list", "conversations.history", "conversations.replies",
    "files.getUploadURLExternal", "files.completeUploadExternal", slack.UPLOAD,
)  # fmt: skip
SETTLING = timedelta(hours=1) + QUARTER
"""Stored deliveries are tried again within an hour."""
WRITES = ("INSERT", "UPDATE", "DELETE")


@dataclass(frozen=True, slots=True)
class Met:
    """A fault that struck: from when to when, and by when one message must be sent (None: it needs nobody).

    ``goes_on``: the fault before was put right, and this is what remains of it.
    """

    kind: Kind
    begun: datetime
    ended: datetime
    promised: datetime | None
    goes_on: bool = False


@dataclass
class Year:
    """One history during the year; ``now`` is the true time, ``ahead`` the error of the machine's clock."""

    world: World
    server: slack.FakeSlack
    kept: dict[Any, Any]
    frame: pd.DataFrame
    now: datetime = START
    ahead: timedelta = timedelta()
    met: list[Met] = field(default_factory=list)
    sending: set[int] = field(default_factory=set)
    early: set[str] = field(default_factory=set)
    """Windows that a run reached before they could be judged: no warehouse answered, or they were not over."""

    @property
    def more(self) -> dict[str, str]:
        """The settings in addition to those of the world."""
        return {"slack_bot_token": slack.TOKEN, "slack_api_url": self.server.url}

    def clock(self) -> datetime:
        """The time of the machine's clock."""
        return self.now + self.ahead

    @contextmanager
    def opened(self, *, plain: bool = False, fails: bool = False) -> Iterator[Monitor]:
        """The monitor. Its warehouse caches results (not if ``plain``); with ``fails`` it does not answer."""
        with self.world.opened(self.clock, **self.more) as monitor:
            reads = cast("Warehouse", Remembered(monitor.warehouse, self.kept, fails=fails))
            yield monitor if plain else replace(monitor, reads=reads)

    # --- flows

    def flow(
        self, window: Window, strike: Callable[[Monitor], object] = lambda _: None, *, plain: bool = False,
        fails: bool = False,
    ) -> bool:  # fmt: skip
        """Run the flow of one window, which begins with ``strike``. Returns whether it completed."""
        tries = _Tries()
        if fails or window.end > self.now:
            self.early.add(window.name)
        try:
            with self.opened(plain=plain, fails=fails) as monitor:
                outage.end(monitor.settings, monitor.store, self.clock())
                strike(monitor)
                due = Run(window, tuple(monitor.config.sources), try_again=lambda: tries.left > 0)
                catch_up(monitor, due)
                result = perform(monitor, due, do=tries.do)
                failed = stages.unread(result)
                reported = bool(failed) and tries.ask(lambda: watchdog.is_reported(monitor))
            stages.refuse_empty(result, reported=reported)
        except Exception as error:  # noqa: BLE001 - Prefect calls the hook after any error
            self.failed(f"calmon-{window.schedule}", error)
            return False
        return True

    def look(self) -> None:
        """Run the flow of the watchdog, which also sends what is due."""
        try:
            with self.opened() as monitor:
                outage.end(monitor.settings, monitor.store, self.clock())
                outage.refuse_full_still(monitor.settings, monitor.store, self.clock())
                monitor.store.put_note(Note(WATCHDOG_NOTE, self.clock()))
                monitor.store.drop_note(f"{FAILED_NOTE}calmon-watchdog")
                watchdog.watch_monitor(monitor)
                deliver(monitor, due_only=True)
        except Exception as error:  # noqa: BLE001 - as above
            self.failed("calmon-watchdog", error)

    def failed(self, flow: str, error: Exception) -> None:
        """Run the hook of a flow that failed."""
        text = f"Flow run encountered an exception: {type(error).__name__}: {error}"
        with mock.patch.object(hooks, "utc_now", self.clock):
            hooks.report_monitor_failed(SimpleNamespace(name=flow), None, SimpleNamespace(message=text))

    def wait(self, lasts: timedelta) -> None:
        """Let time pass, with a watchdog check every quarter of an hour."""
        until = self.now + lasts
        while self.now < until:
            self.now += QUARTER
            self.look()


@dataclass(slots=True)
class _Tries:
    """Performs stages like the tasks of ``flows.stages``, without the waits between tries."""

    left: int = stages.RETRIES

    def do(self, stage: Stage, monitor: Monitor, run: Run) -> Run:
        done: Run = self.ask(lambda: stage(monitor, run))
        return done

    def ask(self, question: Callable[[], Any]) -> Any:
        self.left = stages.RETRIES
        while True:
            try:
                return question()
            except stages.OUTSIDE as error:
                if not self.left or isinstance(error, TimeoutError):
                    raise
                self.left -= 1


def forked(*works: Callable[[], bool]) -> list[int]:
    """Do each of these in its own process, all at the same time. Returns how they ended (0, or minus the signal)."""
    children = [_fork(work) for work in works]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def _fork(work: Callable[[], bool]) -> int:
    child = os.fork()
    if child:
        return child
    ended = 1
    try:
        ended = 0 if work() else 1
    except BaseException:  # noqa: BLE001 - this process ends here
        traceback.print_exc()
    os._exit(ended)


# --- the faults: each function gets the run, and leaves the year as it is after people have fixed the fault


def strike(year: Year, window: Window, fault: Fault) -> None:
    """Do the run of ``window`` with its fault, then fix the fault or let it pass."""
    begun, before = year.now, len(year.met)
    by = _STRIKES[fault.kind](year, window, fault)
    goes_on, ended = len(year.met) > before, year.now
    begun = year.met[-1].ended if goes_on else begun
    if fault.kind is not Kind.AWAY:
        year.wait(QUARTER)
    year.met.append(Met(fault.kind, begun, ended, None if by is None else begun + by, goes_on))


def _line(year: Year, window: Window, fault: Fault) -> timedelta | None:
    fatal = 1 + int(fault.place * LINES)
    forked(lambda: _until_line(fatal, lambda: year.flow(window)))
    with year.opened() as monitor:
        runs = [r for r in monitor.store.runs(window.schedule, limit=3) if r["window_start"] == window.start]
    is_left = any(each["state"] == "running" for each in runs)
    lasts = max(fault.lasts, timedelta(hours=4))
    year.wait(lasts)
    assert year.flow(window)
    return PROMISED[Kind.LINE] if is_left else None


def _until_line(fatal: int, work: Callable[[], bool]) -> bool:
    """Do the work until ``fatal`` lines of ``monitor`` were run; then, or at its end, kill this process."""
    lines = 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if "/monitor/" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines >= fatal:
                _die()
        return trace

    sys.settrace(trace)
    work()
    _die()
    return False


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _step(year: Year, window: Window, fault: Fault) -> timedelta | None:
    fatal = 1 + int(fault.place * STEPS)

    def killed() -> bool:
        done = [0]

        def step() -> None:
            done[0] += 1
            if done[0] >= fatal:
                _die()

        plain = WebClient.chat_postMessage

        def post(client: WebClient, **arguments: Any) -> Any:
            answer = plain(client, **arguments)
            step()
            return answer

        WebClient.chat_postMessage = post  # type: ignore[method-assign, assignment]
        return year.flow(window, lambda monitor: _at_commits(monitor.store._engine, step))

    forked(killed)
    year.now += timedelta(minutes=10)
    assert year.flow(window)
    return None


def _at_commits(engine: sa.Engine, step: Callable[[], None]) -> None:
    """Call ``step`` before each commit that changes something."""

    def statement(connection: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        connection.info["writes"] = _changes(text) or connection.info.get("writes", False)

    def commit(connection: sa.Connection) -> None:
        if connection.info.pop("writes", False):
            step()

    sa.event.listen(engine, "before_cursor_execute", statement)
    sa.event.listen(engine, "commit", commit)


def _changes(statement: str) -> bool:
    return statement.lstrip().upper().startswith(WRITES)


def _workers(year: Year, window: Window, _: Fault) -> None:
    ended = forked(lambda: year.flow(window), lambda: year.flow(window))
    assert ended == [0, 0], ended


def _read(year: Year, window: Window, fault: Fault) -> None:
    assert year.flow(window, lambda m: _drop(m.warehouse._engine, 1 + int(fault.place * 20)), plain=True)


def _history(year: Year, window: Window, fault: Fault) -> None:
    assert year.flow(window, lambda monitor: _drop(monitor.store._engine, 1 + int(fault.place * STATEMENTS)))


def _drop(engine: sa.Engine, at: int) -> None:
    """Lose the connection at the n-th statement: end PostgreSQL's process, or raise an error of SQLite's driver."""
    statements = [0]

    def statement(connection: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        statements[0] += 1
        if statements[0] != at:
            return
        if connection.dialect.name == "postgresql":
            with psycopg.connect(engine.url.set(drivername="postgresql").render_as_string(False)) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", (backend_of(connection),))
        elif connection.dialect.name == "duckdb":
            raise duckdb.IOException("the connection was lost")
        else:
            raise sa.exc.OperationalError(text, {}, Exception("disk I/O error"))

    sa.event.listen(engine, "before_cursor_execute", statement)


def _warehouse(year: Year, window: Window, fault: Fault) -> timedelta:
    """Runs that become due meanwhile fail too: see :func:`play`."""
    assert not year.flow(window, fails=True)
    year.wait(min(fault.lasts, timedelta(hours=5)))
    return PROMISED[Kind.WAREHOUSE]


def _lost(year: Year, window: Window, fault: Fault) -> None:
    refusals = (
        slack.Fault.server_error(), slack.Fault.rate_limited(1), slack.Fault.reset(accept=True),
        slack.Fault.server_error(accept=True), slack.Fault.slack_error("channel_not_found"),
    )  # fmt: skip
    year.server.fail("chat.postMessage", refusals[int(fault.place * len(refusals))])
    assert year.flow(window)
    year.wait(SETTLING)
    year.server.heal()


def _slack(year: Year, window: Window, fault: Fault) -> None:
    """While Slack is down nobody can be notified there; afterwards all stored deliveries arrive once."""
    down = slack.Fault.server_error(503, accept=fault.place < 0.5)
    for method in SLACK_METHODS:
        year.server.fail_always(method, down)
    assert year.flow(window)
    year.wait(fault.lasts)
    year.server.heal()
    year.wait(SETTLING)


def _channel(year: Year, window: Window, fault: Fault) -> timedelta | None:
    name = "ml-oncall" if fault.place < 0.5 else "ml-monitoring"
    year.server.not_member.add(name)
    assert year.flow(window)
    with year.opened() as monitor:
        waiting = monitor.store.deliveries(["pending", "failed"])
    year.wait(fault.lasts)
    year.server.not_member.discard(name)
    year.wait(SETTLING)
    return STUCK_FOR if waiting else None


def _ahead(year: Year, window: Window, fault: Fault) -> timedelta:
    # with the clock less than two weeks ahead the newest row shows nothing, and the window is judged
    assert not _under_clock(year, window, timedelta(weeks=3 + int(fault.place * 7)), fault.lasts)
    return PROMISED[Kind.AHEAD]


def _days_ahead(year: Year, window: Window, fault: Fault) -> timedelta | None:
    """If a switch was changed under that clock, every gate is closed by the right one, until somebody confirms."""
    begun = year.now
    _under_clock(year, window, timedelta(days=2 + int(fault.place * 5)), fault.lasts)
    with year.opened() as monitor:
        if clock_behind(monitor.store.identity().newest_at, year.now) is None:
            return None
    year.met.append(Met(fault.kind, begun, year.now, None))
    year.wait(QUARTER)
    with year.opened() as monitor:
        monitor.store.confirm(why="the clock was ahead", by="ann", now=year.now)
    return GATES_CLOSED


def _behind(year: Year, window: Window, fault: Fault) -> timedelta | None:
    """The clock never goes behind the first run of the year: the year without faults has no older window.

    If a switch was changed after what that clock shows, every gate is closed until it is right.
    """
    most = min(20, (window.start - START).days - 1)
    ahead = -timedelta(days=1 + int(fault.place * most))
    with year.opened() as monitor:
        closed = clock_behind(monitor.store.identity().newest_at, year.now + ahead)
    _under_clock(year, window, ahead, fault.lasts)
    return None if closed is None else GATES_CLOSED


def _under_clock(year: Year, window: Window, ahead: timedelta, lasts: timedelta) -> bool:
    """Run the schedule with a wrong clock, on the rows up to the true time; then correct the clock."""
    real, path = year.world, year.world.folder / "until_now.duckdb"
    year.world = replace(real, warehouse_url=write_duckdb(path, year.frame[year.frame["resolved_at"] < year.now]))
    year.ahead = ahead
    done = year.flow(last_ready(window.schedule, year.clock(), ZONE), plain=True)
    year.wait(lasts)
    year.world, year.ahead = real, timedelta()
    assert year.flow(window)
    return done


def _disk(year: Year, window: Window, fault: Fault) -> timedelta | None:
    with _full_disk(year, fault):
        done = year.flow(window)
        year.wait(fault.lasts)
    assert year.flow(window)
    return None if done else PROMISED[Kind.DISK]


@contextmanager
def _full_disk(year: Year, fault: Fault) -> Iterator[None]:
    """A full disk: SQLite cannot add pages, PostgreSQL answers with its error, the monitor cannot write files."""
    left = [int(fault.place * STEPS)]

    def connected(connection: Any, _record: object) -> None:
        if hasattr(connection, "total_changes"):  # SQLite's
            connection.execute("PRAGMA max_page_count = 1")  # this sets it to the present number of pages

    def statement(connection: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        if connection.dialect.name == "postgresql" and _changes(text):
            left[0] -= 1
            if left[0] < 0:
                full = psycopg.errors.DiskFull("could not extend file: No space left on device")
                raise sa.exc.OperationalError(text, {}, full)

    plain = Path.open

    def opened(path: Path, mode: str = "r", *more: Any, **named: Any) -> Any:
        if mode[0] in "wxa":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return plain(path, mode, *more, **named)

    sa.event.listen(sa.Engine, "connect", connected)
    sa.event.listen(sa.Engine, "before_cursor_execute", statement)
    try:
        with mock.patch.object(Path, "open", opened):
            yield
    finally:
        sa.event.remove(sa.Engine, "connect", connected)
        sa.event.remove(sa.Engine, "before_cursor_execute", statement)


def _repeated(year: Year, window: Window, _: Fault) -> None:
    """The operator's command before this run is given twice: see :func:`play`."""
    assert year.flow(window)


def _away(_year: Year, _window: Window, _: Fault) -> None:
    """Neither this run nor the watchdog is done, nor those that become due meanwhile: see :func:`play`."""


_STRIKES: dict[Kind, Callable[[Year, Window, Fault], timedelta | None]] = {
    Kind.LINE: _line, Kind.STEP: _step, Kind.WORKERS: _workers, Kind.READ: _read, Kind.HISTORY: _history,
    Kind.WAREHOUSE: _warehouse, Kind.LOST: _lost, Kind.SLACK: _slack, Kind.CHANNEL: _channel, Kind.AHEAD: _ahead,
    Kind.DAYS_AHEAD: _days_ahead, Kind.BEHIND: _behind, Kind.DISK: _disk,
    Kind.REPEATED: _repeated, Kind.AWAY: _away,
}  # fmt: skip


# --- the year


@contextmanager
def surroundings(year: Year) -> Iterator[None]:
    """Set up the folder, environment and clocks of the year. Slack's clock is right."""
    plain = outbox.drain.__kwdefaults__
    with ExitStack() as stack:
        stack.enter_context(chdir(year.world.folder))
        settings = {f"CALMON_{name.upper()}": value for name, value in year.more.items()}
        stack.enter_context(mock.patch.dict(os.environ, year.world.environment | settings))
        stack.enter_context(mock.patch.dict(plain, {"sleep": lambda _: None}))  # a minute here takes no time
        config = load_config(year.world.folder / "alerts.yaml")  # read once: repeated reads took a tenth of the time
        stack.enter_context(mock.patch.object(opening, "load_config", return_value=config))
        year.server.clock = lambda: year.now.timestamp()  # noqa: PLW0108 - `now` changes
        yield


def play(year: Year, weeks: int, plan: dict[int, Fault]) -> None:
    """Play the whole year."""
    with surroundings(year):
        with year.opened() as monitor:
            first, last = (week(f"{FIRST + timedelta(weeks=n):%G-W%V}", ZONE) for n in (0, BASELINE - 1))
            pin(monitor, first, last, by="bench", reason="the year begins")
        down: _Outage | None = None
        for number, (window, at) in enumerate(schedule(weeks)):
            if down is not None and down.until <= at:
                down.over(year)
                down = None
            year.now, fault, sent = max(year.now, at), plan.get(number), len(year.server.messages)
            _command(year, number, weeks, 2 if fault is not None and fault.kind is Kind.REPEATED else 1)
            if down is not None:
                assert down.kind is Kind.AWAY or not year.flow(window, fails=True)
                down.missed.append(window)
            elif fault is not None:
                strike(year, window, fault)
                if fault.kind in OUTAGES:
                    down = _Outage(fault.kind, at + fault.lasts, [window])
            else:
                assert year.flow(window)
                if window.schedule == "weekly":
                    year.look()
            if len(year.server.messages) > sent:
                year.sending.add(number)
        if down is not None:
            down.over(year)
        for wait in (timedelta(hours=2), QUIET):  # what came back again and again ends only after a while
            year.now += wait
            year.look()


@dataclass
class _Outage:
    """The warehouse does not answer, or nothing runs, until ``until``: the windows that were missed are run then.

    After the first a person runs each, oldest first. After the second ``flows.start`` runs the newest of each schedule,
    which catches up with the others.
    """

    kind: Kind
    until: datetime
    missed: list[Window]

    def over(self, year: Year) -> None:
        """End the outage."""
        year.now, windows = max(year.now, self.until), self.missed
        if self.kind is Kind.AWAY:
            newest = {window.schedule: window for window in windows}
            windows = [newest[schedule] for schedule in SCHEDULES if schedule in newest]
        for window in windows:
            assert year.flow(window)
        year.look()
        struck = year.met[-1]
        year.met[-1] = replace(struck, ended=year.now)


def _command(year: Year, number: int, weeks: int, times: int) -> None:
    given = commands(weeks).get(number)
    for _ in range(times if given else 0):
        label, enable = cast("tuple[str, bool]", given)
        with year.opened() as monitor:
            change_switch(monitor, "tickets", label, enable=enable, by="ann", reason="looked", key=f"command {number}")
