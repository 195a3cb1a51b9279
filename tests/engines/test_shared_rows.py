"""Spark reads the rows of a window once for several SELECTs."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.core.records import Expected
from monitor.warehouse.reader import Warehouse
from tests.conftest import Loader
from tests.integration.test_asked_at_once import NOW, WEEK, facts, outside_the_window, scans_of, some_rows, source

here = find_spec("pyspark") is not None and shutil.which("java") is not None


def files_read(warehouse: Warehouse, asked: list[tuple[str, Any]]) -> list[int]:
    """How often the files of the table are read by each statement, by the plan that was carried out at last."""
    from tests.engines.filled import spark_session

    session = spark_session()
    session.sql(f"USE {warehouse._url.database}")
    found = []
    for statement, values in asked:
        frame = session.sql(statement, args=dict(values))
        frame.collect()
        found.append(frame._jdf.queryExecution().executedPlan().toString().partition("Initial Plan")[0])
    return [plan.count("FileScan") for plan in found]


@pytest.mark.skipif(not here, reason="Spark is an extra that is not installed here: make test-engines")
def test_a_window_of_ranks_with_repeated_rows_is_read_by_one_scan(load: Loader) -> None:
    expected, config = Expected(repeats=True), source("top_k")
    rows = some_rows(6, weights=True, repeats=True, apart=False)
    duckdb, spark = load(rows, engines=("duckdb", "spark")).values()
    asked: list[tuple[str, Any]] = []
    sa.event.listen(spark._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2:4]))
    found = spark.read("tickets", config, WEEK, now=NOW, expected=expected)
    theirs = duckdb.read("tickets", config, WEEK, now=NOW, expected=expected)
    assert facts(found)["counted"] == facts(theirs)["counted"]
    assert (found.rejected, found.whole_design_effect) == (theirs.rejected, theirs.whole_design_effect)
    assert any(each.reason == "duplicate" for each in found.quality)
    counting = [each for each in asked if "SELECT *" not in each[0] and not outside_the_window(each[0])]
    assert scans_of([text for text, _ in counting]) == [1]
    assert files_read(spark, counting) == [1]
