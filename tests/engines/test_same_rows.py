"""The same 50,000 rows in every engine: equal counts, estimates to 1e-9, the same verdicts.

And rows that arrive while a source is read, where an engine does not see one state of the rows throughout. In one file,
since Spark's processes then start once.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from monitor.core.records import RejectReason
from monitor.warehouse.reader import Warehouse
from tests.conftest import TYPES, new_postgres_database
from tests.engines.filled import FILLED, clickhouse_client
from tests.engines.same_rows import LOADED, Found, differences, in_postgresql, run_on, write_rows
from tests.integration.test_warehouse_reading import NOW, WEEK, bad, row, source

ROWS = 50_000
OF_OTHER_KINDS = {
    "prediction_invalid", "deviation_invalid", "outcome_not_finite", "no_true_label", "several_true_labels",
    "line_unreadable",
}  # fmt: skip
NOT_HERE = {"predicted_invalid", "date_malformed", "score_not_a_number"}  # no such column; not in every engine


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows as one Parquet file."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    write_rows(path, ROWS)
    return path


@pytest.fixture(scope="module")
def expected(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What DuckDB finds."""
    folder = tmp_path_factory.mktemp("expected")
    return run_on("duckdb", LOADED["duckdb"][1](rows, folder), folder / "run")


def missing(engine: str) -> bool:
    return find_spec(LOADED[engine][0]) is None or (engine == "spark" and shutil.which("java") is None)


# pytest's limit would end a reading of SQLite on a busy machine, which would then look like a difference.
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("engine", [engine for engine in LOADED if engine != "duckdb"])
def test_an_engine_finds_what_duckdb_finds(engine: str, rows: Path, expected: Found, tmp_path: Path) -> None:
    if missing(engine):
        java = "; Spark wants java: apt-get install openjdk-17-jre-headless" if engine == "spark" else ""
        pytest.skip(f"{engine} is an extra that is not installed here: make test-engines{java}")
    assert list(differences(expected, run_on(engine, LOADED[engine][1](rows, tmp_path), tmp_path / "run"))) == []


@pytest.mark.skipif(all(missing(engine) for engine in LOADED if engine not in ("duckdb", "sqlite")), reason="as above")
@pytest.mark.postgres
def test_postgresql_finds_what_duckdb_finds(rows: Path, expected: Found, tmp_path: Path, postgres_url: str) -> None:
    url = in_postgresql(rows, new_postgres_database(postgres_url))
    assert list(differences(expected, run_on("postgresql", url, tmp_path / "run"))) == []


@pytest.mark.skipif(all(missing(engine) for engine in LOADED if engine not in ("duckdb", "sqlite")), reason="as above")
def test_the_rows_are_odd_in_every_way(expected: Found) -> None:
    reasons = {q["reason"] for q in expected.document["quality"]}
    assert reasons == {reason.value for reason in RejectReason} - OF_OTHER_KINDS - NOT_HERE
    assert len(expected.readings["tickets"].labels) == 5
    assert expected.readings["tickets"].whole_design_effect > 1
    assert {v["outcome"] for v in expected.document["verdicts"]} >= {"ok", "breach"}


# --- rows that arrive

TABLE = "resolved_tickets"
ARRIVING = {
    "a pair twice, and a score that is none": (("t9", "later", 0.7), ("t9", "later", 0.6), ("t8", "billing", 1.5)),
    "a plain row": (("t9", "billing", 0.7),),
}
"""The first pair is of a label that no row had before."""
HASHES = "AS hash"
"""What only the statement of a fingerprint has; ClickHouse's quotes the name."""
RUN = {
    "clickhouse": lambda _, statement: clickhouse_client().command(statement),
    # in the same session: another one would go on reading the files that it knows
    "spark": lambda connection, statement: connection._session.sql(statement),
}
"""By engine: what runs a statement on it, past the monitor."""


def database_of(url: str) -> str:
    """The database of an address of :data:`FILLED`."""
    parsed = sa.make_url(url)
    return str(parsed.query.get("database", parsed.database))


def insertion(database: str, arriving: Sequence[tuple[str, str, float]]) -> str:
    moment = f"TIMESTAMP '{WEEK.start + timedelta(days=2):%Y-%m-%d %H:%M:%S}'"
    rows = (f"('{item}', '{label}', {score}, 1.0, {moment})" for item, label, score in arriving)
    return f"INSERT INTO {database}.{TABLE} (item, label, score, actual, resolved_at) VALUES {', '.join(rows)}"


@pytest.mark.parametrize("engine", RUN)
@pytest.mark.parametrize("behind", [HASHES, "wsy", "rows_r"], ids=["after the rows", "the counts", "the items"])
@pytest.mark.parametrize(
    ("what", "before"),
    [("a pair twice, and a score that is none", []), ("a plain row", [row("t1"), row("t2")])],
    ids=["much, in an empty week", "a row, in a week with rows"],
)
def test_rows_that_arrive_during_a_reading_change_the_fingerprint_of_the_next(
    engine: str, what: str, before: Sequence[dict[str, Any]], behind: str
) -> None:
    if missing(engine):
        pytest.skip(f"{engine} is an extra that is not installed here: make test-engines")
    url = FILLED[engine](before, {name: TYPES[name] for name in row()}, TABLE, ())
    with Warehouse.from_url(url) as warehouse:
        known = warehouse.fingerprint("tickets", source(), WEEK, now=NOW)
        waiting = [insertion(database_of(url), ARRIVING[what])]

        def arrive(connection: sa.Connection, _cursor: Any, statement: str, *_: Any) -> None:
            if behind in statement.replace("`", "") and waiting:
                RUN[engine](connection.connection.driver_connection, waiting.pop())

        sa.event.listen(warehouse._engine, "after_cursor_execute", arrive)
        found = warehouse.read("tickets", source(), WEEK, now=NOW)
        assert waiting == []
        assert found.fingerprint == known != warehouse.fingerprint("tickets", source(), WEEK, now=NOW)
        if behind == HASHES:
            twice = {"duplicate": 1, "score_out_of_range": 1} if len(ARRIVING[what]) > 1 else {}
            assert (found.rows, bad(found)) == (len(before) + 1, twice)
        if behind == "rows_r":
            assert (found.rows, bad(found)) == (len(before), {})
