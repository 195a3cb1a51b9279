"""Rows that arrive while a source is read, where an engine does not see one state of the rows throughout."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.warehouse.reader import Warehouse
from tests.conftest import TYPES
from tests.engines.filled import FILLED, clickhouse_client
from tests.integration.test_warehouse_reading import NOW, WEEK, bad, row, source

TABLE = "resolved_tickets"
ARRIVING = {
    "a pair twice, and a score that is none": (("t9", "later", 0.7), ("t9", "later", 0.6), ("t8", "billing", 1.5)),
    "a plain row": (("t9", "billing", 0.7),),
}
"""The first pair is of a label that no row had before."""
HASHES = "AS hash"
"""What only the statement of a fingerprint has; ClickHouse's quotes the name."""
RUN: dict[str, tuple[str, Callable[[Any, str], Any]]] = {
    "clickhouse": ("chdb", lambda _, statement: clickhouse_client().command(statement)),
    # in the same session: another one would go on reading the files that it knows
    "spark": ("pyspark", lambda connection, statement: connection._session.sql(statement)),
}
"""By engine: the module of its driver, and what runs a statement on it, past the monitor."""


def missing(engine: str) -> bool:
    return find_spec(RUN[engine][0]) is None or (engine == "spark" and shutil.which("java") is None)


def database_of(url: str) -> str:
    """The database of an address of :data:`FILLED`."""
    parsed = sa.make_url(url)
    return str(parsed.query.get("database", parsed.database))


def insertion(database: str, arriving: Sequence[tuple[str, str, float]]) -> str:
    moment = f"TIMESTAMP '{WEEK.start + timedelta(days=2):%Y-%m-%d %H:%M:%S}'"
    rows = (f"('{item}', '{label}', {score}, 1.0, {moment})" for item, label, score in arriving)
    return f"INSERT INTO {database}.{TABLE} (item, label, score, actual, resolved_at) VALUES {', '.join(rows)}"


@pytest.mark.parametrize("engine", RUN)
@pytest.mark.parametrize("before", [[], [row("t1"), row("t2")]], ids=["an empty week", "a week with rows"])
@pytest.mark.parametrize("what", ARRIVING)
@pytest.mark.parametrize("behind", [HASHES, "wsy", "rows_r"], ids=["after the rows", "the counts", "the items"])
def test_rows_that_arrive_during_a_reading_change_the_fingerprint_of_the_next(
    engine: str, before: Sequence[dict[str, Any]], what: str, behind: str
) -> None:
    if missing(engine):
        pytest.skip(f"{engine} is an extra that is not installed here: make test-engines")
    url = FILLED[engine](before, {name: TYPES[name] for name in row()}, TABLE, ())
    with Warehouse.from_url(url) as warehouse:
        known = warehouse.fingerprint("tickets", source(), WEEK, now=NOW)
        waiting = [insertion(database_of(url), ARRIVING[what])]

        def arrive(connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
            if behind in statement.replace("`", "") and waiting:
                RUN[engine][1](connection.connection.driver_connection, waiting.pop())

        sa.event.listen(warehouse._engine, "after_cursor_execute", arrive)
        found = warehouse.read("tickets", source(), WEEK, now=NOW)
        assert waiting == []
        assert found.fingerprint == known != warehouse.fingerprint("tickets", source(), WEEK, now=NOW)
        if behind == HASHES:
            twice = {"duplicate": 1, "score_out_of_range": 1} if len(ARRIVING[what]) > 1 else {}
            assert (found.rows, bad(found)) == (len(before) + 1, twice)
        if behind == "rows_r":
            assert (found.rows, bad(found)) == (len(before), {})
