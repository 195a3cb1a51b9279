"""The window is a condition that engines understand: what lies outside of it is not scanned."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse.reader import Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("Europe/Berlin"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
ROW = {"item": "t1", "label": "billing", "score": 0.9, "actual": 1.0, "resolved_at": WEEK.start + timedelta(days=1)}
PARTITIONED = (
    "CREATE TABLE parted (LIKE resolved_tickets) PARTITION BY RANGE (resolved_at)",
    *(
        f"CREATE TABLE parted_{n} PARTITION OF parted FOR VALUES FROM ('2026-{n}-01') TO ('2026-{n + 1}-01')"
        for n in (10, 11)
    ),
    "CREATE TABLE parted_older PARTITION OF parted FOR VALUES FROM ('2020-01-01') TO ('2026-10-01')",
)


def plan(warehouse: Warehouse, relation: str) -> str:
    """How the engine means to group the rows of the window."""
    config = SourceConfig(relation=relation, score_is="probability_of_label")
    with warehouse._rows("tickets", config, WEEK, NOW) as (rows, _):
        connection = rows.connection
        made = rows.statements.groups().compile(connection.engine)
        values = made.construct_params()
        found = connection.exec_driver_sql(f"EXPLAIN {made}", values if connection.engine.name != "duckdb" else
                                           tuple(values[name] for name in made.positiontup or ()))  # fmt: skip
        return "\n".join(str(text) for row in found for text in row)


def test_postgresql_reads_no_partition_but_that_of_the_window(load: Loader) -> None:
    warehouse = load([ROW], then=PARTITIONED, engines=("postgresql",))["postgresql"]
    found = plan(warehouse, "parted")
    assert "parted_11" in found
    assert "parted_10" not in found
    assert "parted_older" not in found


def test_duckdb_takes_the_window_into_its_scan(load: Loader) -> None:
    days = (ROW | {"item": f"t{day}", "resolved_at": WEEK.start - timedelta(days=day)} for day in range(-20, 60))
    warehouse = load(list(days), engines=("duckdb",))["duckdb"]
    scan = plan(warehouse, "resolved_tickets").rpartition("╭")[2]  # the last box: of what all else is made
    assert "scan" in scan.lower(), scan
    assert "resolved_at >=" in scan, scan
