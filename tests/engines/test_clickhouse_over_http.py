"""A server of ClickHouse that is asked over HTTP, as one in operation is."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from monitor.warehouse.reader import Warehouse
from tests.integration.test_warehouse_reading import NOW, WEEK, source

pytestmark = pytest.mark.skipif(find_spec("chdb") is None, reason="chdb is an extra: make test-engines")
ROOT = Path(__file__).parents[2]
TABLE = f"""CREATE TABLE predictions ENGINE = MergeTree ORDER BY resolved_at AS
SELECT 't' || toString(number) AS item, 'label ' || toString(number % 5) AS label, (number % 1000) / 1000 AS score,
  toFloat64(number % 3 = 0) AS actual,
  toDateTime64('{WEEK.start:%Y-%m-%d %H:%M:%S}', 6, 'UTC') + toIntervalHour(number) AS resolved_at
FROM numbers(500)"""


def test_a_server_is_read_over_http() -> None:
    import clickhouse_connect

    command = [sys.executable, "-m", "tests.engines.clickhouse_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        clickhouse_connect.get_client(host="127.0.0.1", port=port).command(TABLE)
        try:
            with Warehouse.from_url(f"clickhouse://127.0.0.1:{port}/default") as warehouse:
                found = warehouse.read("tickets", source(relation="predictions"), WEEK, now=NOW)
        finally:  # else it would be waited for without end
            process.communicate("\n", timeout=60)
    assert found.rows == (WEEK.end - WEEK.start).days * 24
    assert set(found.labels) == {f"label {number}" for number in range(5)}
