"""A backfill by one process and by worker processes: seconds, processor seconds, and whether the histories are equal.

``python -m benchmarks.backfill`` writes a DuckDB file of 8 weeks for the baseline and 52 more, 20 labels of 2,000 rows
a week, and evaluates the 52 weeks by the shipped rules: without workers, on one worker process and on two, in turns.
Each backfill has its own process, whose libraries have one thread. ``--dask`` adds a Dask cluster of as many processes
(the extra ``dask``). Histories are compared value by value, except their ids and the names of runs, which are random.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd

from benchmarks.contestants import SEED
from benchmarks.costs import config, made
from benchmarks.populations import LABELS
from benchmarks.scan import address
from benchmarks.tables import Table, console
from benchmarks.timing import fresh, number, times
from benchmarks.weeks import SOURCE
from monitor.backfill import evaluate_past
from monitor.config.settings import load_settings
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import Window
from monitor.history.store import Store
from monitor.operations import pin_baseline
from monitor.operations.open import open_warehouse
from monitor.operations.workers import Workers, dask_cluster, processes

BASELINE, WEEKS, ROWS, ROUNDS = 8, 52, 2_000, 2
COUNTS = (0, 1, 2)
LAST = "2026-W44"
WANTED = 1.7
RANDOM = {"run", "history_id"}  # columns with random values


@dataclass(frozen=True, slots=True)
class Took:
    """One backfill: seconds, processor seconds of its own process without the workers, and a hash of the history."""

    name: str
    count: int
    seconds: float
    here: float
    history: str


def span(weeks: int) -> list[Window]:
    """The weeks of the baseline, and those that are evaluated."""
    last = windows.week(LAST, config().zone)
    return [*reversed(windows.before(last, BASELINE + weeks - 1, config().zone)), last]


def write(path: Path, weeks: int, rows: int) -> None:
    """Write a warehouse with all these weeks."""
    rng = np.random.default_rng(SEED)
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC'")
        for index, week in enumerate(span(weeks)):
            connection.register("made", pd.concat([made(label, week, rows, rng) for label in LABELS]))
            begin = f"INSERT INTO {SOURCE}" if index else f"CREATE TABLE {SOURCE} AS"
            connection.execute(f"{begin} SELECT * REPLACE (item || ' {week.name}' AS item) FROM made")


def took(folder: Path, name: str, weeks: int, count: int, dask: bool) -> Took:
    """Run one backfill into a new history. Its time includes starting and ending the workers."""
    history = folder / f"{name}.sqlite"
    history.unlink(missing_ok=True)
    warehouse, store = address(folder / "warehouse.duckdb"), f"sqlite:///{history}"
    os.environ.update(CALMON_WAREHOUSE_URL=warehouse, CALMON_STORE_URL=store)
    settings, all_weeks = load_settings(os.environ), span(weeks)
    now = all_weeks[-1].end + timedelta(hours=7)
    with open_warehouse(settings, config()) as reads, Store.from_url(store) as history_store:
        monitor = Monitor(config(), settings, reads, history_store, None, lambda: now)
        pin_baseline.pin(monitor, all_weeks[0], all_weeks[BASELINE - 1], by="benchmark", reason="benchmark")
        wall, here = time.perf_counter(), time.process_time()
        with started(count, dask) as workers:
            for _ in evaluate_past(monitor, all_weeks[BASELINE:], [SOURCE], workers):
                pass
        spent = time.perf_counter() - wall, time.process_time() - here
    return Took(name, count, *spent, digest(history))


def started(count: int, dask: bool) -> AbstractContextManager[Workers | None]:
    """The workers: none, processes, or a Dask cluster of processes."""
    if not count:
        return nullcontext()
    return local_cluster(count) if dask else processes(count)


@contextmanager
def local_cluster(count: int) -> Iterator[Workers]:
    """A Dask scheduler in this process, and ``count`` worker processes of one thread."""
    from distributed import LocalCluster  # noqa: PLC0415 - an extra

    with (
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
        dask_cluster(cluster.scheduler_address) as workers,
    ):
        yield workers


def digest(path: Path) -> str:
    """A hash of every value of every table, without random ones."""
    found = hashlib.sha256()
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY 1")
        ]
        for name in names:
            rows = connection.execute(f"SELECT * FROM {name}")
            columns = [each[0] for each in rows.description]
            for row in rows:
                values = [value for column, value in zip(columns, row, strict=True) if column not in RANDOM]
                found.update(repr((name, values)).encode())
    return found.hexdigest()[:16]


def table_of(weeks: int, rows: int, rounds: Sequence[Sequence[Took]]) -> Table:
    """The table of the quickest round of each backfill, with its ratio to one worker."""
    best = [min(each, key=lambda took: took.seconds) for each in zip(*rounds, strict=True)]
    one = next((each.seconds for each in best if each.name == "processes 1"), best[0].seconds)
    lines = tuple(
        (each.name, number(each.seconds), number(max(t.seconds for t in all_rounds)), number(each.here),
         times(one / each.seconds))
        for each, all_rounds in zip(best, zip(*rounds, strict=True), strict=True)
    )  # fmt: skip
    same = len({each.history for all_rounds in rounds for each in all_rounds}) == 1
    notes = (
        f"{weeks} weeks of {len(LABELS)} labels with {rows:,} rows each, {len(rounds)} rounds in turns; starting the "
        "processes is counted. Load of the machine at the end (1, 5, 15 minutes, of "
        f"{os.cpu_count()} cores): {', '.join(f'{each:.1f}' for each in os.getloadavg())}.",
        f"The histories are {'equal' if same else 'NOT EQUAL'}, value by value. Wanted of 2 processes: {WANTED}x.",
    )
    columns = ("by", "min s", "max s", "processor s here", "times as fast as on one worker")
    return Table(f"`calmon backfill`: {weeks} weeks, {len(LABELS)} labels", columns, lines, notes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--rows", type=int, default=ROWS, help="Rows of a label in a week.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--workers", type=int, nargs="+", default=COUNTS, help="So many processes; 0: none.")
    parser.add_argument("--dask", action="store_true", help="A Dask cluster of processes as well.")
    options = parser.parse_args()
    kinds = [(f"processes {n}" if n else "no workers", n, False) for n in options.workers]
    kinds += [(f"Dask {n}", n, True) for n in options.workers if n and options.dask]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        fresh(write, folder / "warehouse.duckdb", options.weeks, options.rows)
        rounds = [
            [fresh(took, folder, kind, options.weeks, count, dask) for kind, count, dask in kinds]
            for _ in range(options.rounds)
        ]
    table_of(options.weeks, options.rows, rounds).show(console())


if __name__ == "__main__":
    main()
