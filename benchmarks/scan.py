"""The grouping query of a run on DuckDB, beside a plain scan of the same table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from monitor.rules.model import SourceConfig
from monitor.warehouse.checks import Layout, layout_of, parsed
from monitor.warehouse.dialects import DIALECTS
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.relation import RelationProblem
from monitor.warehouse.statements import Statements
from monitor.windows import week

SOURCE = SourceConfig(relation="predictions", score_is="probability_of_label")
WINDOW = week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
LABELS = 20


def write_table(path: Path, rows: int) -> None:
    """``rows`` rows of twenty labels, all of one week, calibrated, scores with all their decimals."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET threads = 1")  # or random() is not the same every time
        connection.execute("SELECT setseed(0.20260101)")
        connection.execute(
            f"""
            CREATE TABLE predictions AS
            SELECT item, label, score, (random() < score)::INTEGER AS actual, resolved_at FROM (
                SELECT (i // {LABELS})::VARCHAR AS item, 'label ' || (i % {LABELS}) AS label,
                       pow(random(), 3) AS score,
                       TIMESTAMPTZ '{WINDOW.start.isoformat()}' + to_seconds(i * 604799.0 / {rows}) AS resolved_at
                FROM range({rows}) AS r(i)
            )
            """
        )


@contextmanager
def queries(path: Path) -> Iterator[dict[str, Callable[[], object]]]:
    """What is timed, by name; the file is open all the time, with one thread."""
    address = f"duckdb:///{path}?threads=1"
    engine = sa.create_engine(address, poolclass=NullPool, connect_args={"read_only": True})
    with engine.connect() as connection, Warehouse.from_url(address) as warehouse:
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
    layout = layout_of(connection, "predictions", SOURCE, relation, dialect)
    assert isinstance(layout, Layout)
    return layout
