"""The bytes of a year of weekly and daily runs of 20 labels in the history, before and after pruning.

One week and its last day are run with the shipped file, on scores with all decimals (the worst case), and of four and
two. Copies of both fill the year before, since the size of a window does not depend on its week. What is left after
pruning is also copied to PostgreSQL. ``python -m benchmarks.history_size`` prints the table.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import numpy as np
import sqlalchemy as sa

from benchmarks.populations import LABELS, Population
from benchmarks.tables import Table, publish
from benchmarks.timing import fresh
from benchmarks.weeks import DAYS, SOURCE, setting, shipped
from benchmarks.whole_run import postgres_url
from monitor import run
from monitor.config.model import Config
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.counts import CELLS, Counts, counts_from_rows, pool
from monitor.core.records import Window
from monitor.core.windows import SETTLE
from monitor.history.store import Store
from monitor.history.tables import metadata
from monitor.operations.change_switch import SwitchChange, operate
from monitor.operations.prune import prune
from monitor.warehouse.reader import Reading, Warehouse

SEED, ROWS, YEAR = 20260101, 2_000, 52
GRID = 2.0**40
CHANNELS = {"web": 0.5, "email": 0.3, "phone": 0.2}
SHOWN = ("cells", "estimates", "verdicts", "shifts", "switch_events")
COPIED = ("runs", "readings", "counts", "cells", "quality", "estimates", "verdicts", "shifts", "diagnoses")
PART = 5_000  # rows that are copied together
POSTGRESQL = "postgresql"
PAGE = Path(__file__).parent / "results" / "scale.md"
NEVER = 0.5


@dataclass(frozen=True)
class Case:
    """The decimals of the scores (None: all), and whether channels are estimated too."""

    decimals: int | None = None
    channels: bool = False


CASES = (Case(), Case(decimals=4), Case(decimals=2), Case(channels=True))


class _Made:
    """A warehouse with ``ROWS`` rows for each label and week, a seventh of them a day."""

    def __init__(self, case: Case, populations: Mapping[str, Population]) -> None:
        self._case, self._populations = case, populations

    def read(self, name: str, _config: object, window: Window, **_: object) -> Reading:
        """The reading of one window."""
        n = ROWS if window.schedule == "weekly" else ROWS // DAYS
        labels: dict[str, Counts] = {}
        segments: dict[tuple[str, str], dict[str, Counts]] = {}
        rng = np.random.default_rng([SEED, n])
        for label, population in self._populations.items():
            parts = {value: self._counts(rng, population, round(n * share)) for value, share in CHANNELS.items()}
            labels[label] = pool(parts.values())
            for value, counts in parts.items() if self._case.channels else ():
                segments.setdefault(("channel", value), {})[label] = counts
        return Reading(name, window, labels, segments, 1.0, {}, (), sum(counts.rows for counts in labels.values()))

    def _counts(self, rng: np.random.Generator, population: Population, n: int) -> Counts:
        cells, outcomes = population.rows(rng, n)
        score = cells / CELLS
        if self._case.decimals is None:
            score = np.clip(score + (rng.random(n) - 0.5) / CELLS, 0.0, 1.0)
        else:
            score = np.round(score, self._case.decimals)
        counts = counts_from_rows(score, outcomes, automate_at=population.automate_at)
        sums = {each: np.rint(getattr(counts, each) * GRID) / GRID for each in ("ws", "wsy", "ws2")}
        return replace(counts, **sums)

    def newest(self, _name: str, _config: object, *, near: datetime, **_: object) -> datetime:
        """The newest row is at ``near``."""
        return near

    def kept_open(self) -> AbstractContextManager[None]:
        """Nothing to keep open."""
        return nullcontext()


class _Nowhere:
    """A sender for runs that send nothing."""

    def send(self, *_: object) -> Any:
        """Never called, since every label is as in the baseline."""
        raise NotImplementedError

    find = find_unfinished = check = send


def config(case: Case) -> Config:
    """The shipped file with one source. Evidence adds up to nothing: the weeks are copies, and so is their chance."""
    more: dict[str, Any] = {"features": (), "segments": ("channel",) if case.channels else ()}
    source = shipped().sources[SOURCE].model_copy(update=more)
    rules = tuple(
        rule.model_copy(update={"threshold": NEVER}) if rule.accumulates else rule for rule in shipped().rules
    )
    return shipped().model_copy(update={"sources": {SOURCE: source}, "rules": rules})


def measured(case: Case) -> dict[str, dict[str, int]]:
    """Bytes by table after a year, and after pruning.

    "" is the whole file, and :data:`POSTGRESQL` the same rows there.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.sqlite"
        with Store.from_url(f"sqlite:///{file}") as store:
            week, last_day, rules = _judged(store, case, folder)
            _fill(file, week, last_day, YEAR)
            found = {"a year": sizes(file)}
            prune(store, rules, week.end + SETTLE)
            found["pruned"] = sizes(file)
            with postgres_url() as url:
                found["pruned"][POSTGRESQL] = size_in_postgresql(file, url)
        return found


def _judged(store: Store, case: Case, folder: str) -> tuple[Window, Window, Config]:
    """Run a day and its week. Returns both windows and the configuration."""
    scene = setting(LABELS, ROWS, 1, np.random.default_rng(SEED))
    (week,) = scene.windows
    last_day = windows.previous(windows.containing("daily", week.end, scene.config.zone), scene.config.zone)
    store.save_baselines(list(scene.baselines.values()))
    rules = config(case)
    for label in LABELS:
        operate(store, rules, SwitchChange(SOURCE, label.name, True, "ana", "the first day"), lambda: week.start)
    for window in (last_day, week):
        _run(store, case, folder, window)
    return week, last_day, rules


def _run(store: Store, case: Case, folder: str, window: Window) -> None:
    settings = load_settings({"CALMON_WAREHOUSE_URL": "duckdb:///unused.duckdb", "CALMON_REPORT_DIR": folder})
    warehouse = cast("Warehouse", _Made(case, {each.name: each for each in LABELS}))
    monitor = Monitor(config(case), settings, warehouse, store, _Nowhere(), lambda: window.end + SETTLE)
    run.run_window(monitor, window, act="auto")


def _fill(file: Path, week: Window, last_day: Window, weeks: int) -> None:
    """Copy a week and its last day to all of ``weeks`` weeks that end with it."""
    with closing(sqlite3.connect(file)) as connection:
        _spread(connection, week, windows.before(week, weeks - 1, shipped().zone))
        _spread(connection, last_day, windows.before(last_day, weeks * DAYS, shipped().zone))
        connection.commit()


def _spread(connection: sqlite3.Connection, window: Window, past: Sequence[Window]) -> None:
    """Copy what a run has stored for ``window`` to each of the windows ``past``."""
    for name in COPIED:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        connection.execute(
            f"DELETE FROM {name} WHERE schedule = ? AND window_start <> ?", (window.schedule, _stored(window.start))
        )
        for each in past:
            changed = {"window_start": _stored(each.start), "window_name": each.name, "window_end": _stored(each.end)}
            new = {column: f":{column}" for column in changed} | {"id": "lower(hex(randomblob(8)))"}
            rest = f"SELECT {', '.join(new.get(column, column) for column in columns)} FROM {name}"
            here = {"schedule": window.schedule, "here": _stored(window.start)}
            connection.execute(
                f"INSERT INTO {name} {rest} WHERE schedule = :schedule AND window_start = :here", changed | here
            )
    _spread_events(connection, window, past)


def _spread_events(connection: sqlite3.Connection, window: Window, past: Sequence[Window]) -> None:
    """Copy the events of renewed leases of a run to each of the windows ``past``."""
    fields = "source, label, kind, from_state, to_state, blocked, lease_until, until, actor, reason, verdict, waits_for"
    copied = f"SELECT :key || id, :at, {fields} FROM switch_events WHERE kind = 'renewed' AND key LIKE :like"
    like = f"{window.schedule}:{window.name}:%"
    for each in past:
        values = {"key": f"{each.schedule}:{each.name}:0123456789ab:", "at": _stored(each.end), "like": like}
        connection.execute(f"INSERT INTO switch_events (key, at, {fields}) {copied}", values)


def _stored(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S.%f}"


def sizes(file: Path) -> dict[str, int]:
    """Table -> bytes with its indexes; "" -> bytes of the whole file."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        owners = dict(connection.execute("SELECT name, tbl_name FROM sqlite_master").fetchall())
        found: Counter[str] = Counter()
        for name, size in connection.execute("SELECT name, SUM(pgsize) FROM dbstat GROUP BY name"):
            found[owners.get(name, name)] += size
    return {**found, "": file.stat().st_size}


def size_in_postgresql(file: Path, url: str) -> int:
    """Bytes of the same rows in an empty PostgreSQL database: its tables, their indexes and their long values."""
    Store.from_url(url).close()  # creates the tables
    here, there = sa.create_engine(f"sqlite:///{file}"), sa.create_engine(url)
    with here.connect() as source, there.begin() as target:
        for table in metadata.sorted_tables:
            target.execute(sa.delete(table))
            for part in source.execute(sa.select(table)).mappings().partitions(PART):
                target.execute(sa.insert(table), [dict(row) for row in part])
    relations = "pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    with there.connect() as connection:
        found = connection.exec_driver_sql(f"SELECT SUM(pg_total_relation_size(oid)) FROM {relations}").scalar_one()
    here.dispose()
    there.dispose()
    return int(found)


def row_of(case: Case, found: Mapping[str, Mapping[str, int]]) -> tuple[str, ...]:
    """The line of a case: MB of the file, and of the largest tables after pruning."""
    scores = "all decimals" if case.decimals is None else f"{case.decimals} decimals"
    whole = (("a year", ""), ("pruned", ""), ("pruned", POSTGRESQL))
    sized = [f"{found[name][part] / 1e6:.1f}" for name, part in whole]
    parts = [f"{found['pruned'][name] / 1e6:.1f}" for name in SHOWN]
    return (scores, "channel" if case.channels else "none", *sized, *parts)


def table(cases: Sequence[Case]) -> Table:
    """The table; each case is measured in its own process."""
    names = ("all", "pruned", "PostgreSQL", "counts", "estimates", "verdicts", "shifts", "switch")
    return Table(
        f"MB of a year of 20 labels: {YEAR} weekly and {YEAR * DAYS + 1} daily runs, {ROWS:,} rows a label and week",
        ("scores", "segments", *names),
        tuple(row_of(case, fresh(measured, case)) for case in cases),
        ("In SQLite, and *PostgreSQL* is the *pruned* history there, with its indexes, as after `VACUUM FULL`.",
         "*Pruned* is what `calmon db prune` leaves after a year, its largest tables beside it. Nothing is in breach: "
         "incidents and their messages come on top.",),
        texts=2,
    )  # fmt: skip


def main() -> None:
    """Print the table, or write it into benchmarks/results/scale.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write-docs", action="store_true", help="Write the table into benchmarks/results/scale.md.")
    options = parser.parse_args()
    publish([table(CASES)], "history-size", "history_size", page=PAGE if options.write_docs else None)


if __name__ == "__main__":
    main()
