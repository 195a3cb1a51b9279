"""A DuckDB file of calibrated rows of twenty labels, whose random numbers are the same each time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb

from monitor.config.model import SourceConfig
from monitor.core.windows import week

SOURCE = SourceConfig(relation="predictions", score_is="probability_of_label")
WINDOW = week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
LABELS = 20


def address(path: Path) -> str:
    """The address of a DuckDB file, queried with one thread."""
    return f"duckdb:///{path}?threads=1"


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
