"""How much a run had the warehouse read, where the engine says it: ClickHouse, over HTTP and in this process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from monitor.cli import app
from monitor.warehouse.reader import Warehouse
from tests.conftest import TYPES, Loader
from tests.engines.filled import FILLED, clickhouse_client
from tests.integration.test_warehouse_reading import NOW, WEEK, row, source

pytestmark = pytest.mark.skipif(find_spec("chdb") is None, reason="chdb is an extra: make test-engines")
ROOT = Path(__file__).parents[2]
WEEKS, EACH, ROW = 10, 20_000, 50  # a row has some 50 bytes: two short texts, two doubles, a date
FIRST = f"{WEEK.start - timedelta(weeks=WEEKS - 1):%Y-%m-%d %H:%M:%S}"
TABLE = f"""CREATE TABLE predictions ENGINE = MergeTree ORDER BY resolved_at SETTINGS index_granularity = 1024 AS
SELECT 't' || toString(number) AS item, 'label ' || toString(number % 5) AS label, (number % 1000) / 1000 AS score,
  toFloat64(number % 3 = 0) AS actual,
  toDateTime64('{FIRST}', 6, 'UTC') + toIntervalSecond(intDiv(number * 604800, {EACH})) AS resolved_at
FROM numbers({WEEKS * EACH})"""


@contextmanager
def server() -> Iterator[str]:
    """The address of a server with the table."""
    import clickhouse_connect

    command = [sys.executable, "-m", "tests.engines.clickhouse_server"]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        port = int(process.stdout.readline())
        clickhouse_connect.get_client(host="127.0.0.1", port=port).command(TABLE)
        try:
            yield f"clickhouse://127.0.0.1:{port}/default"
        finally:  # else it would be waited for without end
            process.communicate("\n", timeout=60)


def read(url: str) -> int | None:
    with Warehouse.from_url(url) as warehouse:
        assert warehouse.bytes_read is None
        found = warehouse.read("tickets", source(relation="predictions"), WEEK, now=NOW)
        assert found.rows == EACH
        return warehouse.bytes_read


def test_a_server_says_what_a_reading_read_and_that_other_weeks_are_left_out() -> None:
    with server() as url:
        found = [read(url), read(url)]
    assert [EACH * ROW < (each or 0) < WEEKS * EACH * ROW for each in found] == [True, True], found


def test_the_engine_in_this_process_counts_them_too() -> None:
    rows = [row(f"t{number}", score=number / 1_000) for number in range(1_000)]
    url = FILLED["clickhouse"](rows, {name: TYPES[name] for name in row()}, "resolved_tickets", ())
    with Warehouse.from_url(url) as warehouse:
        read, events = [], []
        for _ in range(10):
            warehouse.read("tickets", source(), WEEK, now=NOW)
            read.append(warehouse.bytes_read or 0)
            events.append(clickhouse_client().query("SELECT count() FROM system.events").result_rows)
    # to ask for the counter reads the engine's table of events, which is longer once another kind of event was seen
    steps = zip(read[1:], read[:-1], events[1:], events[:-1], strict=True)
    known = {after - before for after, before, now, then in steps if now == then == events[-1]}
    assert len(known) == 1
    # a first connection reads the engine's settings as well
    assert read[0] > known.pop() > 1_000 * ROW


def test_a_run_says_it_in_one_line(tmp_path: Path) -> None:
    configured = {
        "version": 1,
        "sources": {"mail": {"relation": "predictions", "score_is": "probability_of_label"}},
        "rules": [{"id": "ece-above", "metric": "ece", "condition": "above", "threshold": 0.9, "schedule": "weekly",
                   "severity": "warning", "actions": ["slack"]}],
        "automation": {"when_not_evaluated": "keep"},
    }  # fmt: skip
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(configured), "utf-8")
    with server() as url:
        environment = {
            "CALMON_WAREHOUSE_URL": url, "CALMON_STORE_URL": f"sqlite:///{tmp_path / 'history.sqlite'}",
            "CALMON_CONFIG": str(tmp_path / "alerts.yaml"),
        }  # fmt: skip
        done = CliRunner(env=environment).invoke(app, ["run", "weekly", "--week", WEEK.name])
    assert done.exit_code == 0, done.output
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("The warehouse read ")]
    assert line.endswith(" MB of its tables for this run.")
    assert EACH * ROW < float(line.split()[3].replace(",", "")) * 1e6 < 3 * WEEKS * EACH * ROW


def test_engines_that_do_not_say_it_give_none(load: Loader) -> None:
    for warehouse in load([row("t1")]).values():
        warehouse.read("tickets", source(), WEEK, now=NOW)
        assert warehouse.bytes_read is None
