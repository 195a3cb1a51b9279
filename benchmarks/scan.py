"""The grouping query of a run on DuckDB, compared with a plain scan of the same table."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from benchmarks.size import Size
from benchmarks.tables import Table
from benchmarks.timing import Timing, fresh, in_turns, times
from monitor.config.model import SourceConfig
from monitor.core.windows import week
from monitor.warehouse.checks import Layout, parsed
from monitor.warehouse.dialects import DIALECTS
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import RelationProblem
from monitor.warehouse.shapes import long_form
from monitor.warehouse.statements import Statements

SOURCE = SourceConfig(relation="predictions", score_is="probability_of_label")
WINDOW = week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
LABELS = 20


def address(path: Path) -> str:
    """The address of a DuckDB file, queried with one thread."""
    return f"duckdb:///{path}?threads=1"


def tables(size: Size) -> Iterator[Table]:
    """The table, measured in its own process."""
    yield table_of(size, fresh(timings, size))


def timings(size: Size) -> list[Timing]:
    """The timings of the statements on a new DuckDB file, in turns, after one round to warm up."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warehouse.duckdb"
        write_table(path, size.table_rows)
        with queries(path) as runs:
            return in_turns(runs, size.scans, warm_up=True)


def table_of(size: Size, found: Sequence[Timing]) -> Table:
    """The table, with ratios to the plain scan."""
    rows = tuple((timing.name, *timing.shown, times(timing.median / found[0].median)) for timing in found)
    title = f"DuckDB, {size.table_rows:,} rows of {LABELS} labels, one thread, {size.scans} rounds"
    note = "The plain scan reads one column and keeps one number; the grouping keeps seven sums for every score."
    return Table(title, ("what", "min s", "median s", "max s", "/ plain scan"), rows, (note,))


@contextmanager
def seeded(path: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """A connection to a DuckDB file, whose random numbers are the same in each run."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET threads = 1")  # otherwise random() differs between runs
        connection.execute("SELECT setseed(0.20260101)")
        yield connection


def write_table(path: Path, rows: int, weeks: int = 1) -> None:
    """Write ``rows`` calibrated rows of twenty labels, in ``weeks`` weeks up to the judged one, with all decimals."""
    start, seconds = WINDOW.start - timedelta(weeks=weeks - 1), weeks * 604800 - 1.0
    with seeded(path) as connection:
        connection.execute(
            f"""
            CREATE TABLE predictions AS
            SELECT item, label, score, (random() < score)::INTEGER AS actual, resolved_at FROM (
                SELECT (i // {LABELS})::VARCHAR AS item, 'label ' || (i % {LABELS}) AS label,
                       pow(random(), 3) AS score,
                       TIMESTAMPTZ '{start.isoformat()}' + to_seconds(i * {seconds} / {rows}) AS resolved_at
                FROM range({rows}) AS r(i)
            )
            """
        )


@contextmanager
def queries(path: Path) -> Iterator[dict[str, Callable[[], object]]]:
    """Name -> timed function. The file stays open, with one thread."""
    engine = sa.create_engine(address(path), poolclass=NullPool, connect_args={"read_only": True})
    with engine.connect() as connection, Warehouse.from_url(address(path)) as warehouse:
        connection.exec_driver_sql("SET TimeZone = 'UTC'")
        dialect = DIALECTS["duckdb"]
        groups = Statements(SOURCE, _layout(connection), dialect, WINDOW, NOW).groups(latest=False)
        plain = "SELECT count(*), sum(score) FROM predictions"
        yield {
            "plain scan: count(*), sum(score)": lambda: connection.exec_driver_sql(plain).all(),
            "the grouping query, into numpy": lambda: dialect.fetch(connection.execute(groups)),
            "a whole reading (checks of rows, duplicates, dependence, grouping)": lambda: warehouse.read(
                "predictions", SOURCE, WINDOW, now=NOW
            ),
        }
    engine.dispose()


def _layout(connection: sa.Connection) -> Layout:
    dialect = DIALECTS["duckdb"]
    relation = parsed("predictions", SOURCE, dialect)
    assert not isinstance(relation, RelationProblem)
    layout = long_form(connection, "predictions", SOURCE, relation, dialect)
    assert isinstance(layout, Layout)
    return layout
