"""The cost of a window by its rows, extrapolated to a billion rows a day: ``python -m benchmarks.volume``.

One source of 20 labels in a DuckDB file, one thread, each size in its own process. It measures a bare grouped scan, a
reading with all its checks, its statements and the table scans in their plans, the bytes of all results (which leave
the warehouse), judging by the shipped rules, and the bytes added to the history. Times are processor seconds, so that
other work on the machine counts little. The last columns are extrapolated by the cost of a row between the two largest
sizes.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import duckdb
import sqlalchemy as sa
from sqlalchemy import event

from benchmarks.scan import LABELS, NOW, WINDOW, address, write_table
from benchmarks.tables import Table, console
from benchmarks.timing import fresh, number
from benchmarks.weeks import SOURCE, shipped
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.context import Monitor
from monitor.history.store import Store
from monitor.run import Stage, perform, stages
from monitor.warehouse.dialects import DIALECTS, Arrays
from monitor.warehouse.reader import Warehouse

ROWS = (1_000_000, 10_000_000, 100_000_000)
A_DAY = 1_000_000_000
PLAIN = "SELECT label, count(*), sum(score), sum(actual) FROM predictions GROUP BY label"
GIB = 2**30


@dataclass(frozen=True, slots=True)
class Volume:
    """One size: processor seconds, statements and scans of a reading, bytes that leave the warehouse, bytes stored."""

    rows: int
    plain: float
    reading: float
    statements: int
    scans: int
    left: int
    judging: float
    acting: float
    kept: int
    file: int


@dataclass
class _Seen:
    """The statements and table scans of a reading, and the bytes of its results."""

    statements: int = 0
    scans: int = 0
    bytes: int = field(default=0)

    def fetched(self, fetch: Callable[[Any], Arrays]) -> Callable[[Any], Arrays]:
        """``fetch``, with its bytes counted; a value that is not a number counts as its text."""

        def counting(result: Any) -> Arrays:
            found = fetch(result)
            for column in found.values():
                text = sum(len(str(value)) for value in column) if column.dtype == object else 0
                self.bytes += text or column.nbytes
            return found

        return counting

    def asked(self, connection: sa.Connection, _: Any, statement: str, parameters: Any, *__: Any) -> None:
        """Count one statement, and the table scans in its plan."""
        if "predictions" not in statement or not statement.lstrip().startswith(("SELECT", "WITH")):
            return
        cursor = connection.connection.cursor()
        cursor.execute(f"EXPLAIN {statement}", parameters)
        self.statements += 1
        self.scans += sum(plan.count("Seq Scan") for _, plan in cursor.fetchall())


def config() -> Config:
    """The shipped rules, on the table."""
    source = shipped().sources[SOURCE].model_copy(update={"relation": "predictions", "features": (), "segments": ()})
    return shipped().model_copy(update={"sources": {SOURCE: source}})


def measured(folder: Path, rows: int) -> Volume:
    """Measure one size. Statements and bytes are counted in a separate reading, so that this takes no measured time."""
    path, history = folder / f"{rows}.duckdb", folder / f"{rows}.sqlite"
    write_table(path, rows)
    with duckdb.connect(str(path), read_only=True, config={"threads": 1}) as connection:
        plain = min(_processor(lambda: connection.execute(PLAIN).fetchall()) for _ in range(3))
    seen = _counted(path)
    spent: dict[str, float] = {}

    def do(stage: Stage) -> Any:
        began = time.process_time()
        found = stage.work()
        spent[stage.name.value] = time.process_time() - began
        return found

    with Warehouse.from_url(address(path)) as warehouse, Store.from_url(f"sqlite:///{history}") as store:
        empty = _size(history)
        monitor = Monitor(config(), Settings(), warehouse, store, None, lambda: NOW + timedelta(days=1))
        warehouse.read(SOURCE, config().sources[SOURCE], WINDOW, now=NOW)  # to warm up
        perform(stages(monitor, WINDOW, [SOURCE], "never"), do)
    added = _size(history) - empty
    return Volume(
        rows, plain, spent["read"], seen.statements, seen.scans, seen.bytes, spent["judge"], spent["act"], added,
        path.stat().st_size,
    )  # fmt: skip


def _counted(path: Path) -> _Seen:
    seen, dialect = _Seen(), type(DIALECTS["duckdb"])()
    object.__setattr__(dialect, "fetch", seen.fetched(dialect.fetch))
    with closing(Warehouse(sa.make_url(address(path)), None, dialect)) as warehouse:
        event.listen(warehouse._engine, "before_cursor_execute", seen.asked)
        warehouse.read(SOURCE, config().sources[SOURCE], WINDOW, now=NOW, fingerprint=True)
    return seen


def _processor(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def _size(history: Path) -> int:
    """The bytes of a history without its free space."""
    with tempfile.TemporaryDirectory() as folder, closing(sqlite3.connect(history)) as connection:
        copy = Path(folder) / "copy.sqlite"
        connection.execute("VACUUM INTO ?", (str(copy),))
        return copy.stat().st_size


def table_of(found: list[Volume]) -> Table:
    """The table of measured sizes, and of a day and a week at a billion rows a day."""
    before, last = found[-2:]

    def near(size: int) -> str:
        return f"{number(size / 1e6)} or little more"

    def grown(of: Callable[[Volume], float], rows: int) -> str:
        a_row = (of(last) - of(before)) / (last.rows - before.rows)
        return number(of(last) + a_row * (rows - last.rows))

    lines: tuple[tuple[str, Callable[[Volume], str], Callable[[int], str]], ...] = (
        ("bare grouped scan, processor s", lambda v: number(v.plain), lambda rows: grown(lambda v: v.plain, rows)),
        ("reading, processor s", lambda v: number(v.reading), lambda rows: grown(lambda v: v.reading, rows)),
        ("statements of it", lambda v: str(v.statements), lambda _: str(last.statements)),
        ("scans of the window in their plans", lambda v: str(v.scans), lambda _: str(last.scans)),
        ("GiB scanned: scans x file", lambda v: number(v.scans * v.file / GIB),
         lambda rows: grown(lambda v: v.scans * v.file / GIB, rows)),
        ("MB that leave the warehouse", lambda v: number(v.left / 1e6), lambda _: near(last.left)),
        ("judging, processor s", lambda v: number(v.judging), lambda _: number(last.judging)),
        ("recording, processor s", lambda v: number(v.acting), lambda _: number(last.acting)),
        ("MB that the history gains", lambda v: number(v.kept / 1e6), lambda _: near(last.kept)),
    )  # fmt: skip
    rows = tuple((name, *(of(each) for each in found), more(A_DAY), more(7 * A_DAY)) for name, of, more in lines)
    notes = (
        f"DuckDB, one thread, {LABELS} labels, {last.file / last.rows:.0f} bytes a row in the file. No segments.",
        "The last two columns are arithmetic. What grows with the rows: what a row more took between the two largest "
        "sizes, times the rows. What does not (labels x cells): as of the largest size.",
    )
    columns = ("", *(f"{each.rows:,} rows" for each in found), f"{A_DAY:,} (a day)", f"{7 * A_DAY:,} (a week)")
    return Table("A window by its rows", columns, rows, notes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="Rows of the window.")
    parser.add_argument("--markdown", action="store_true", help="As docs/scale.md has it.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        table = table_of([fresh(measured, Path(folder), rows) for rows in options.rows])
    print(table.markdown()) if options.markdown else table.show(console())


if __name__ == "__main__":
    main()
