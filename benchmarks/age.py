"""Does a run cost more when the history is old? One week of history against 260 weeks, of twenty labels.

The same weekly runs are done on both: reading (from memory), judging, recording, acting, messages with their pictures,
the check of the watchdog, and sending (to nowhere). ``python -m benchmarks.age`` prints processor seconds and queries
by stage, for SQLite and, with ``--postgresql ADDRESS``, for PostgreSQL. There, databases ``calmon_age_N`` are created
anew, and the seconds of the server are counted too.
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import sqlalchemy as sa

from benchmarks.channel import Trouble, planted
from benchmarks.nowhere import Nowhere
from benchmarks.populations import LABELS, raised
from benchmarks.tables import Table, console
from benchmarks.timing import fresh, number, times
from benchmarks.weeks import DAYS, SOURCE, ByLabel, Setting, drawn, setting, shipped
from monitor import run
from monitor.alerting.health.watchdog import watch_monitor
from monitor.alerting.incidents import RECALL
from monitor.config.model import Config
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Delivery, Incident, IncidentEvent, SwitchEvent, Verdict, Window
from monitor.core.windows import SETTLE
from monitor.history import estimate_rows, tables
from monitor.history.store import Store
from monitor.history.switches import event_row
from monitor.history.window_numbers import number_of
from monitor.operations import collect
from monitor.operations.change_switch import SwitchChange, operate
from monitor.warehouse.reader import Reading, Warehouse

WANTED = 1.2
SHORT, LONG = 1, 260
SEED, ROWS = 20260101, 2_000
BEFORE, ROUNDS = 1, 4  # weeks that are run before the measured ones; the first measured one warms up
BAD = ("label 05", "label 09", "label 16")
INCIDENT_EVERY, PICTURE = 13, 60_000
DAILY_METRICS = ("ece", "mce", "roc_auc")
STAGES = ("collecting", "judging", "recording and acting", "a look of the watchdog")


@dataclass
class Spent:
    """Processor seconds and queries of every stage."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    queries: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STAGES, 0))

    @property
    def total(self) -> float:
        """The seconds of all stages."""
        return sum(self.seconds.values())


@dataclass
class _FromMemory:
    """A warehouse that holds the counts of every week in memory."""

    year: Setting
    rows: ByLabel

    def read(self, name: str, _config: object, window: Window, **_: object) -> Reading:
        """The reading of one week."""
        index = self.year.windows.index(window) if window in self.year.windows else 0
        labels = {label: rows.counts(index) for label, rows in self.rows.items()}
        return Reading(name, window, labels, {}, 1.0, {}, (), sum(counts.rows for counts in labels.values()))

    def newest(self, _name: str, _config: object, *, near: datetime, **_: object) -> datetime:
        """The newest row is at ``near``."""
        return near

    def kept_open(self) -> AbstractContextManager[None]:
        """Nothing to keep open."""
        return nullcontext()


def config() -> Config:
    """The shipped file with one source and its weekly rules.

    Daily rules are left out, since no days are run: an acting rule that is never judged renews no lease, and so all
    labels would go off at once.
    """
    source = shipped().sources[SOURCE].model_copy(update={"features": (), "segments": ()})
    weekly = tuple(rule for rule in shipped().rules if rule.schedule == "weekly")
    return shipped().model_copy(update={"sources": {SOURCE: source}, "rules": weekly})


def scene() -> tuple[Setting, ByLabel]:
    """The weeks that are run. One more label gets worse in each of three of them."""
    rng, count = np.random.default_rng(SEED), BEFORE + ROUNDS
    year = setting(LABELS, ROWS, count, rng)
    named = {label.name: label for label in LABELS}
    worse = [
        Trouble(name, BEFORE + i, count, "ECE rises by .15", raised(named[name], 0.15)) for i, name in enumerate(BAD)
    ]
    return year, planted(drawn(LABELS, count, ROWS, rng), worse, count, ROWS, rng)


class _Clock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now


@contextmanager
def opened(url: str, year: Setting, rows: ByLabel) -> Iterator[tuple[Monitor, _Clock]]:
    """A monitor on a new history, with baselines and every label on."""
    clock = _Clock()
    clock.now = year.windows[0].start
    with tempfile.TemporaryDirectory() as folder, Store.from_url(url) as store:
        settings = load_settings({"CALMON_WAREHOUSE_URL": "duckdb:///unused.duckdb", "CALMON_REPORT_DIR": folder})
        store.save_baselines(list(year.baselines.values()))
        warehouse = cast("Warehouse", _FromMemory(year, rows))
        monitor = Monitor(config(), settings, warehouse, store, Nowhere(), clock)
        for label in rows:
            operate(store, config(), SwitchChange(SOURCE, label, True, "ana", "the first day"), clock)
        yield monitor, clock


def measured(url: str, weeks: int) -> Spent:
    """The cost of the measured weeks after ``weeks`` weeks of history."""
    year, rows = scene()
    spent = Spent()
    with opened(url, year, rows) as (monitor, clock), _database(url) as engine, _counting() as queries:
        for index, window in enumerate(year.windows):
            clock.now = window.end + SETTLE
            used = Spent()
            _run(monitor, window, _Watch(engine, used, queries))
            if index == BEFORE - 1:
                age(monitor, engine, window, weeks - BEFORE)
            if index > BEFORE:
                spent = _added(spent, used)
    return spent


def _added(one: Spent, other: Spent) -> Spent:
    return Spent(
        {stage: one.seconds[stage] + other.seconds[stage] for stage in STAGES},
        {stage: one.queries[stage] + other.queries[stage] for stage in STAGES},
    )


@dataclass
class _Watch:
    """Measures the stages, one after the other."""

    engine: sa.Engine
    used: Spent
    queries: list[str]

    def __call__(self, stage: str, work: Callable[[], Any]) -> Any:
        seconds, queries = self._seconds(), len(self.queries)
        done = work()
        self.used.seconds[stage] += self._seconds() - seconds
        self.used.queries[stage] += len(self.queries) - queries
        return done

    def _seconds(self) -> float:
        return time.process_time() + _server_seconds(self.engine)


def _run(monitor: Monitor, window: Window, watch: _Watch) -> None:
    """A weekly run in the stages of ``monitor.run``, and a check of the watchdog."""
    run.begin(monitor, window, [SOURCE], "auto")
    data = watch("collecting", lambda: collect.collect(monitor, window, [SOURCE], store=True))
    evaluated = watch("judging", lambda: run.judge(monitor, data))
    watch("recording and acting", lambda: run.record_and_act(monitor, window, evaluated, "auto"))
    watch("a look of the watchdog", lambda: (watch_monitor(monitor), run.deliver(monitor)))


@contextmanager
def _counting() -> Iterator[list[str]]:
    """The list of all SQL statements that are sent within the block."""
    found: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if "pg_stat_activity" not in statement:
            found.append(statement)

    sa.event.listen(sa.Engine, "before_cursor_execute", note)
    yield found
    sa.event.remove(sa.Engine, "before_cursor_execute", note)


@contextmanager
def _database(url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    yield engine
    engine.dispose()


def _server_seconds(engine: sa.Engine) -> float:
    """Processor seconds of PostgreSQL's processes for our connections, if they run on this machine."""
    if engine.dialect.name != "postgresql":
        return 0.0
    with engine.connect() as connection:
        processes = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
        pids = connection.execute(sa.text(processes)).scalars().all()
    return sum(_ticks(pid) for pid in pids) / 100


def _ticks(pid: int) -> int:
    user, system = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[11:13]
    return int(user) + int(system)


# An older history, made by copying the newest week


def age(monitor: Monitor, engine: sa.Engine, newest: Window, weeks: int) -> None:
    """Add ``weeks`` earlier weeks: verdicts, estimates, readings, events, incidents and messages."""
    past = windows.before(newest, weeks + 1, monitor.config.zone)[1:]
    with engine.begin() as connection:
        for week in past:
            day = windows.containing("daily", week.start, monitor.config.zone)
            for window in (week, *(_after(day, days) for days in range(DAYS))):
                _copy_window(connection, newest, window)
    verdicts = monitor.store.verdicts(window_start=newest.start)
    by_label = {each.subject.label: each for each in verdicts if each.rule == verdicts[0].rule}
    # older than what a new breach reopens: recent messages are edited when switches change, in a history of any age
    for week in past[RECALL["weekly"] + 1 :: INCIDENT_EVERY]:
        for verdict in by_label.values():
            _incident(monitor.store, verdict, week)


def _after(day: Window, days: int) -> Window:
    for _ in range(days):
        day = windows.following(day, shipped().zone)
    return day


def _copy_window(connection: sa.Connection, newest: Window, window: Window) -> None:
    """Copy what the run of ``newest`` has stored to ``window``; for a day fewer metrics than for a week."""
    schedule = {"schedule": window.schedule, "window_start": window.start}
    name, end, at = {"window_name": window.name}, {"window_end": window.end}, window.end + SETTLE
    daily = window.schedule == "daily"
    _copy(connection, tables.runs, newest, schedule | name | end | {"started_at": at, "finished_at": at})
    _copy(connection, tables.readings, newest, schedule | {"read_at": at})
    _copy(connection, tables.counts, newest, schedule)
    _copy_estimates(connection, newest, window, DAILY_METRICS if daily else None)
    _copy_verdicts(connection, newest, window, sa.literal("ece") if daily else tables.verdict_series.c.metric)
    renewed = [
        SwitchEvent(
            f"{window.schedule}:{window.name}", SOURCE, label.name, at, "renewed", "on", "on",
            f"{window.schedule} run", "within the threshold", lease_until=at + timedelta(days=10),
        ) for label in LABELS
    ]  # fmt: skip
    connection.execute(tables.switch_events.insert(), [event_row(each) for each in renewed])


def _copy(connection: sa.Connection, table: sa.Table, newest: Window, changed: Mapping[str, Any], *where: Any) -> None:
    mine = (table.c.schedule == newest.schedule, table.c.window_start == newest.start)
    columns = [
        sa.literal(changed[c.name], c.type).label(c.name) if isinstance(changed.get(c.name), str | datetime)
        else changed.get(c.name, c) for c in table.c
    ]  # fmt: skip
    there = table.c.schedule == changed["schedule"], table.c.window_start == changed["window_start"]
    connection.execute(table.delete().where(*there))  # the run of ``newest`` has stored windows that it pools
    connection.execute(table.insert().from_select([c.name for c in table.c], sa.select(*columns).where(*mine, *where)))


def _copy_verdicts(connection: sa.Connection, newest: Window, window: Window, metric: sa.ColumnElement[Any]) -> None:
    """Copy the verdicts of a window on this metric to another window."""
    evaluations, series = tables.evaluations, tables.verdict_series
    of_newest = evaluations.c.schedule == newest.schedule, evaluations.c.window_start == newest.start
    found = connection.execute(sa.select(evaluations.c.id, evaluations.c.rules_revision).where(*of_newest))
    for evaluation, revision in found.all():
        insert = evaluations.insert().values(
            schedule=window.schedule, window_start=window.start, window_end=window.end, window_name=window.name,
            rules_revision=revision, stored_at=window.end + SETTLE,
        ).returning(evaluations.c.id)  # fmt: skip
        changed = {
            "evaluation_id": sa.literal(connection.execute(insert).scalar_one()),
            "id": sa.func.substr(tables.judged.c.id, 1, 12) + _tag(window),
        }
        columns = [changed.get(column.name, column) for column in tables.judged.c]
        copied = sa.select(*columns).join(series, series.c.id == tables.judged.c.series_id)
        copied = copied.where(tables.judged.c.evaluation_id == evaluation, series.c.metric == metric)
        connection.execute(tables.judged.insert().from_select([c.name for c in tables.judged.c], copied))


def _copy_estimates(connection: sa.Connection, newest: Window, window: Window, metrics: tuple[str, ...] | None) -> None:
    """Copy the estimates of a window (None: all metrics) to another window."""
    source, target = (number_of(connection, each.schedule, each.start, each.name) for each in (newest, window))
    for table in (tables.estimated, tables.estimate_extras):
        connection.execute(table.delete().where(table.c.window_id == target))
        columns = [sa.literal(target) if column.name == "window_id" else column for column in table.c]
        copied = sa.select(*columns).where(table.c.window_id == source)
        connection.execute(table.insert().from_select([column.name for column in table.c], copied))
    if metrics is not None:
        not_kept = tables.estimate_series.c.metric.not_in(metrics)
        estimate_rows.remove(connection, window.schedule, window.start, not_kept)


def _tag(window: Window) -> str:
    return hashlib.sha256(f"{window.schedule} {window.name}".encode()).hexdigest()[:12]


def _incident(store: Store, verdict: Verdict, week: Window) -> None:
    """Store an incident of two weeks with its message, picture, replies and edits."""
    at, label, id = week.end + SETTLE, verdict.subject.label, verdict.id[:12] + _tag(week)
    root = f"{label}-{week.name}"
    incident = Incident(
        id=id, rule=verdict.rule, source=SOURCE, label=label, severity="warning", state="resolved", schedule="weekly",
        opened_at=at, opened_window=week.name, first_verdict=id, last_verdict=id, last_window_start=week.start,
        breaches=2, reason="above_threshold", resolved_at=at + timedelta(days=14), resolved_window=week.name,
        root=root,
    )  # fmt: skip
    event = IncidentEvent(f"{id}:1", id, at, "resolved", "within again", "run", week.name)
    store.apply_incidents([incident], [], [], [event])
    for index, kind in enumerate(("post", "file", "reply", "reply", "edit", "edit", "edit")):
        store.add_delivery(_message(root, kind, index, at))


def _message(root: str, kind: Any, index: int, at: datetime) -> Delivery:
    payload = {"text": "x" * (PICTURE if kind == "file" else 3_000), "blocks": []}
    return Delivery(
        root if kind == "post" else f"{root}-{index}", "incidents", "#ml-monitoring", payload, at, state="sent",
        operation=kind, root=None if kind == "post" else root, sequence=max(index - 3, 0) if kind == "edit" else 0,
        sent_at=at, external_channel="C1", external_id=str(index),
    )  # fmt: skip


def table_of(name: str, short: Spent, long: Spent) -> Table:
    """The table of both costs, by stage."""
    both = (short, long)
    rows = [
        (stage, *(number(each.seconds[stage]) for each in both), *(str(each.queries[stage]) for each in both))
        for stage in STAGES
    ]
    ratio = long.total / short.total
    rows.append(("all", number(short.total), number(long.total), times(ratio), "" if ratio <= WANTED else "too much"))
    return Table(
        f"{name}: processor seconds and queries of {ROUNDS - 1} weekly runs after {SHORT} and {LONG} weeks of history",
        ("", f"s, {SHORT}", f"s, {LONG}", f"queries, {SHORT}", f"queries, {LONG}"), tuple(rows),
    )  # fmt: skip


def _new_database(address: str, weeks: int) -> str:
    url = sa.make_url(address).set(drivername="postgresql+psycopg")
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(f"DROP DATABASE IF EXISTS calmon_age_{weeks}"))
        connection.execute(sa.text(f"CREATE DATABASE calmon_age_{weeks}"))
    engine.dispose()
    return url.set(database=f"calmon_age_{weeks}").render_as_string(hide_password=False)


def main() -> None:
    """Print a table for each database."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--postgresql", help="The address of a server where databases may be made.")
    parser.add_argument("--weeks", type=int, default=LONG, help="How old the older history is.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spent = [fresh(measured, f"sqlite:///{folder}/{weeks}.sqlite", weeks) for weeks in (SHORT, options.weeks)]
        table_of("SQLite", *spent).show(console())
    if options.postgresql:
        spent = [fresh(measured, _new_database(options.postgresql, w), w) for w in (SHORT, options.weeks)]
        table_of("PostgreSQL", *spent).show(console())


if __name__ == "__main__":
    main()
