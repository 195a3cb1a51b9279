"""What a relation may be, what is wrong with one, and that the warehouse is only ever read."""

from __future__ import annotations

import os
import re
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pytest
import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse.engines import ENGINES
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed, WarehouseTimeout
from monitor.warehouse.relation import WrongWarehouseAddress
from monitor.warehouse.sqlite import SQLite
from monitor.warehouse.sqlite_files import open_for_reading
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
FILES = ("duckdb", "sqlite")


def source(**settings: Any) -> SourceConfig:
    return SourceConfig(**{"relation": "resolved_tickets", "score_is": "probability_of_label"} | settings)


def row(item: str = "t1", label: str = "billing", score: Any = 0.9, **more: Any) -> dict[str, Any]:
    return {
        "item": item,
        "label": label,
        "score": score,
        "actual": 1,
        "resolved_at": WEEK.start + timedelta(days=1),
    } | more


def rows_read(warehouse: Warehouse, config: SourceConfig) -> int:
    assert warehouse.check("tickets", config) == []
    return warehouse.read("tickets", config, WEEK, now=NOW).rows


# --- forms of a relation


def test_a_view_and_a_select_and_a_name_with_its_schema_are_relations(load: Loader) -> None:
    view = "CREATE VIEW good AS SELECT * FROM resolved_tickets WHERE label <> 'spam'"
    selects = (
        "good",
        "select * from resolved_tickets where label <> 'spam';",
        "WITH kept AS (SELECT *, 'a;b :c % ''' AS note FROM resolved_tickets) -- no spam\n"
        "SELECT * FROM kept WHERE label <> 'spam'",
    )
    for engine, warehouse in load([row("a"), row("b", "spam")], then=[view]).items():
        with warehouse._session("") as connection:
            schema = warehouse._dialect.default_schema(connection)
        for relation in (*selects, f"{schema}.good", f'"{schema}"."good"'):
            assert rows_read(warehouse, source(relation=relation)) == 1, (engine, relation)


def test_casts_and_comments_at_the_end_of_a_select_are_understood(load: Loader) -> None:
    relation = (
        "SELECT item, label, score::float8 AS score, actual, resolved_at FROM resolved_tickets /* all; */ -- end;"
    )
    for warehouse in load([row("a")], engines=("duckdb", "postgresql")).values():
        assert rows_read(warehouse, source(relation=relation)) == 1


@pytest.mark.parametrize("type_", ["TIMESTAMP_NS", "TIMESTAMPTZ_NS", "TIMESTAMP_MS", "TIMESTAMP_S"])
@pytest.mark.parametrize("form", ["table", "parquet"])
def test_dates_of_any_precision_are_read(tmp_path: Path, type_: str, form: str) -> None:
    times = {"first": WEEK.start, "last": WEEK.end - timedelta(seconds=1), "before": WEEK.start - timedelta(seconds=1)}
    values = ", ".join(f"('{name}', '{when:%Y-%m-%d %H:%M:%S}')" for name, when in times.items())
    rows = (
        f"SELECT item, 'billing' AS label, .9 AS score, 1 AS actual, CAST(date AS {type_}) AS resolved_at, "
        f"CAST(date AS {type_}) AS predicted_at FROM (VALUES {values}) AS t(item, date)"
    )
    database, file = tmp_path / "w.duckdb", tmp_path / "rows.parquet"
    with duckdb.connect(str(database)) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"CREATE TABLE kept AS {rows}")
        connection.execute(f"COPY kept TO '{file}' (FORMAT parquet)")
    with Warehouse.from_url(f"duckdb:///{database}") as warehouse:
        relation = "kept" if form == "table" else str(file)
        for window_on in ("resolved_at", "predicted_at"):
            config = source(relation=relation, window_on=window_on, latest_by=("resolved_at",), features=("item",))
            assert rows_read(warehouse, config) == 2
            taken = warehouse.feature_sample("tickets", config, WEEK, limit=9)
            assert sorted(taken["item"]) == ["first", "last"]
        assert warehouse.newest("tickets", config, near=NOW, now=NOW) == times["last"]
        seen = warehouse.survey("tickets", config)
        assert (seen.first, seen.last) == (times["before"], times["last"])


HOSTILE = (
    "DELETE FROM resolved_tickets",
    "SELECT 1; DROP TABLE resolved_tickets",
    "SELECT * FROM resolved_tickets; DROP TABLE resolved_tickets; --",
    "SELECT * FROM resolved_tickets) AS x; DROP TABLE resolved_tickets; SELECT (1",
    "WITH gone AS (DELETE FROM resolved_tickets RETURNING *) SELECT * FROM gone",
    "resolved_tickets; DROP TABLE resolved_tickets",
    'resolved_tickets"; DROP TABLE resolved_tickets; --',
    "DROP TABLE resolved_tickets",
    "ATTACH 'other.db'",
    "SELECT 'a\\'; DROP TABLE resolved_tickets; --'",
    "SELECT $$'$$; DROP TABLE resolved_tickets; --'",
    "SELECT /* /* */ ; DROP TABLE resolved_tickets; -- */ 1",
    "SELECT * FROM resolved_tickets UNION SELECT $1",
    "",
    "   ",
)


def test_anything_but_one_select_is_refused_before_it_meets_the_database(load: Loader) -> None:
    for engine, warehouse in load([row()]).items():
        for relation in HOSTILE:
            config = source().model_copy(update={"relation": relation})
            (problem,) = warehouse.check("tickets", config)
            assert problem.remedy, (engine, relation)
            with pytest.raises(RelationError):
                warehouse.read("tickets", config, WEEK, now=NOW)
        assert rows_read(warehouse, source()) == 1


def test_a_quoted_name_is_only_ever_a_name(load: Loader) -> None:
    for warehouse in load([row()]).values():
        (problem,) = warehouse.check("tickets", source(relation='"x""; DROP TABLE resolved_tickets; --"'))
        assert "refuses the relation" in problem.message
        assert rows_read(warehouse, source()) == 1


def test_a_function_that_writes_is_stopped_by_the_read_only_transaction(load: Loader) -> None:
    sneaky = (
        "CREATE FUNCTION sneaky() RETURNS SETOF resolved_tickets LANGUAGE sql AS "
        "'INSERT INTO resolved_tickets SELECT * FROM resolved_tickets RETURNING *'"
    )
    warehouse = load([row()], then=[sneaky], engines=("postgresql",))["postgresql"]
    with pytest.raises(RelationError, match="read-only"):
        warehouse.read("tickets", source(relation="SELECT * FROM sneaky()"), WEEK, now=NOW)
    assert rows_read(warehouse, source()) == 1


@pytest.mark.parametrize("table", ['"order"', '"Odd ""Table""; DROP TABLE x"', '"100% :sure"'])
def test_columns_and_tables_with_hostile_or_reserved_names_are_read(load: Loader, table: str) -> None:
    columns = {
        "item": "select",
        "label": 'o"dd; DROP TABLE x; --',
        "score": "100% :sure",
        "actual": "group",
        "resolved_at": "Order By",
    }
    types = {
        theirs: {"score": "DOUBLE PRECISION", "actual": "INTEGER", "resolved_at": "TIMESTAMP"}.get(ours, "TEXT")
        for ours, theirs in columns.items()
    }
    types = {name.replace('"', '""'): kind for name, kind in types.items()} | {"user": "TEXT"}
    plain = row("a") | {"resolved_at": datetime(2026, 11, 10)}  # noqa: DTZ001 - the column is naive
    theirs = {columns[name].replace('"', '""'): value for name, value in plain.items()} | {"user": "x"}
    config = source(relation=table, columns=columns, segments=("user",), features=("user",))
    for engine, warehouse in load([theirs], types=types, table=table).items():
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        assert (list(reading.labels), list(reading.segments)) == (["billing"], [("user", "x")]), engine
        assert warehouse.feature_sample("tickets", config, WEEK, limit=1)["user"].tolist() == ["x"]


def test_labels_and_values_are_data_whatever_they_hold(load: Loader) -> None:
    labels = ["'; DROP TABLE resolved_tickets; --", 'say "hi"', "100% :sure $1 ?", "naïve ☃", " ", "\\"]
    rows = [row(label, label, channel=label) for label in labels]
    config = source(segments=("channel",), labels={label: {"automate_at": 0.95} for label in labels[:3]})
    for warehouse in load(rows).values():
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        assert set(reading.labels) == set(labels)
        assert {value for _, value in reading.segments} == set(labels)
        assert {label for label, counts in reading.labels.items() if not counts.automated[0]} == set(labels[:3])


def test_columns_are_found_in_another_case_of_letters_where_only_one_fits(load: Loader) -> None:
    rows = [{name.upper(): value for name, value in row("a").items()}]
    types = {"SCORE": "DOUBLE PRECISION", "ACTUAL": "INTEGER", "RESOLVED_AT": "TIMESTAMP WITH TIME ZONE"}
    for warehouse in load(rows, types=types).values():
        assert rows_read(warehouse, source()) == 1


# --- problems


def test_every_problem_of_a_relation_is_reported_at_once_with_its_remedy(load: Loader) -> None:
    config = source(
        score_is="confidence_in_prediction", window_on="predicted_at", segments=("channel",), features=("body",),
        columns={"item": "ticket", "weight": "sampling", "colour": "x"},
    )  # fmt: skip
    for engine, warehouse in load([row(score="0.9")], types={"score": "TEXT"}).items():
        problems = warehouse.check("tickets", config)
        text = "\n".join(problem.message for problem in problems)
        for part in ("ticket (for item)", "sampling (for weight)", "predicted is missing", "predicted_at is missing",
                     "channel is missing", "body is missing", "score (score) is text", "'colour'"):  # fmt: skip
            assert part in text, (engine, part)
        assert len(problems) == 8
        assert all(problem.source == "tickets" and problem.remedy for problem in problems)
        with pytest.raises(RelationError) as raised:
            warehouse.read("tickets", config, WEEK, now=NOW)
        assert raised.value.problems == tuple(problems)


def test_a_relation_that_does_not_exist_is_a_problem_with_a_remedy(load: Loader) -> None:
    for warehouse in load([row()]).values():
        (problem,) = warehouse.check("tickets", source(relation="nowhere"))
        assert "nowhere" in problem.message
        assert "alerts.yaml" in problem.remedy


def test_a_select_that_cannot_run_is_a_problem_of_the_relation(load: Loader) -> None:
    for warehouse in load([row()]).values():
        for relation in ("SELECT nothing FROM resolved_tickets", "SELECT FROM WHERE"):
            (problem,) = warehouse.check("tickets", source(relation=relation))
            assert "refuses the relation" in problem.message


def test_a_text_score_of_a_select_is_found_in_its_values_where_sqlite_declares_no_type(load: Loader) -> None:
    warehouse = load([row(), row("b")], engines=("sqlite",))["sqlite"]
    texts = "SELECT item, label, CAST(score AS TEXT) AS score, actual, resolved_at FROM resolved_tickets"
    (problem,) = warehouse.check("tickets", source(relation=texts))
    assert "score (score) is text" in problem.message
    mixed = texts.replace("CAST(score AS TEXT)", "iif(item = 'b', 'high', score)")
    reading = warehouse.read("tickets", source(relation=mixed), WEEK, now=NOW)
    assert (reading.rows, [quality.reason for quality in reading.quality]) == (1, ["score_not_a_number"])


def test_a_text_date_in_postgresql_is_a_problem_whose_remedy_is_a_cast(load: Loader) -> None:
    warehouse = load([row(resolved_at="2026-11-10")], types={"resolved_at": "TEXT"}, engines=("postgresql",))[
        "postgresql"
    ]
    (problem,) = warehouse.check("tickets", source())
    assert "resolved_at" in problem.message
    assert "cast it in a view" in problem.remedy


def test_a_boolean_score_is_a_problem(load: Loader) -> None:
    for warehouse in load([row(score=True)], types={"score": "BOOLEAN"}, engines=("duckdb", "postgresql")).values():
        (problem,) = warehouse.check("tickets", source())
        assert "is boolean" in problem.message


def test_a_column_that_a_select_gives_twice_is_a_problem(load: Loader) -> None:
    twice = "SELECT *, 0.5 AS score FROM resolved_tickets"
    warehouse = load([row()], engines=("postgresql",))["postgresql"]
    (problem,) = warehouse.check("tickets", source(relation=twice))
    assert "there 2 times" in problem.message


# --- the warehouse itself


def test_a_file_that_does_not_exist_is_not_created_and_the_message_says_what_to_do(tmp_path: Path) -> None:
    for engine in FILES:
        path = tmp_path / f"none.{engine}"
        with Warehouse.from_url(f"{engine}:///{path}") as warehouse:
            with pytest.raises(WarehouseFailed, match="CALMON_WAREHOUSE_URL"):
                warehouse.check("tickets", source())
            with pytest.raises(WarehouseFailed, match="is not there"):
                warehouse.read("tickets", source(), WEEK, now=NOW)
        assert not path.exists()


def test_a_file_of_another_kind_is_a_failure_of_the_warehouse(tmp_path: Path) -> None:
    for engine in FILES:
        path = tmp_path / f"text.{engine}"
        path.write_text("this is no database " * 1000)
        with Warehouse.from_url(f"{engine}:///{path}") as warehouse, pytest.raises(WarehouseFailed):
            warehouse.check("tickets", source())


def test_a_server_that_does_not_answer_is_a_failure_and_its_password_is_not_reported() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"postgresql://monitor:secret@127.0.0.1:{closed.getsockname()[1]}/tickets"
        with Warehouse.from_url(url) as warehouse, pytest.raises(WarehouseFailed, match="does not answer") as raised:
            warehouse.ping()
    assert "secret" not in str(raised.value)


def test_a_connection_that_breaks_is_a_failure_that_may_be_retried(load: Loader, postgres_url: str) -> None:
    warehouse = load([row()], engines=("postgresql",))["postgresql"]
    kill = (
        "SELECT item, label, score, actual, resolved_at, pg_terminate_backend(pg_backend_pid()) FROM resolved_tickets"
    )
    with pytest.raises(WarehouseFailed):
        warehouse.read("tickets", source(relation=kill, segments=("pg_terminate_backend",)), WEEK, now=NOW)
    assert rows_read(warehouse, source()) == 1


ENDLESS = {
    "postgresql": "SELECT t.* FROM resolved_tickets t, (SELECT pg_sleep(600)) AS slept",
    "duckdb": "SELECT t.* FROM resolved_tickets t, range(1000000000000) r WHERE hash(r.range) % 7 = 9",
    "sqlite": "SELECT t.* FROM resolved_tickets t, (WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
    "SELECT i FROM n) WHERE i < 0",
    "clickhouse": "SELECT t.* FROM resolved_tickets t, numbers(1000000000000) r WHERE sipHash64(number) % 7 = 9",
}


def test_a_reading_that_takes_too_long_is_cancelled_and_the_next_one_is_none_the_worse(load: Loader) -> None:
    for engine, plain in load([row()]).items():
        warehouse = Warehouse(plain._url, plain._engine, plain._dialect, timeout_s=1)
        with pytest.raises(WarehouseTimeout, match=r"no answer within 1 s: the warehouse \S+ was still busy"):
            warehouse.read("tickets", source(relation=ENDLESS[engine]), WEEK, now=NOW)
        assert rows_read(plain, source()) == 1


def test_a_cancelled_query_runs_on_nowhere(load: Loader) -> None:
    plain = load([row()], engines=("postgresql",))["postgresql"]
    warehouse = Warehouse(plain._url, plain._engine, plain._dialect, timeout_s=1)
    with pytest.raises(WarehouseTimeout):
        warehouse.read("tickets", source(relation=ENDLESS["postgresql"]), WEEK, now=NOW)
    busy = sa.text("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' "
                   "AND datname = current_database() AND pid <> pg_backend_pid()")  # fmt: skip
    with plain._engine.connect() as connection:
        assert connection.execute(busy).scalar_one() == 0


def test_postgresql_itself_ends_a_statement_whose_client_is_gone(load: Loader) -> None:
    warehouse = load([row()], engines=("postgresql",))["postgresql"]
    with warehouse._session("tickets") as connection:
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "905s"
    with warehouse._engine.connect() as connection:  # the same connection, outside of a reading
        assert connection.exec_driver_sql("SHOW statement_timeout").scalar_one() == "0"


@pytest.mark.parametrize("url", ["nonsense", "mysql://host/database", ""])
def test_an_address_that_is_none_is_a_failure_that_says_how_to_write_one(url: str) -> None:
    with pytest.raises(WrongWarehouseAddress, match=r"postgresql"):
        Warehouse.from_url(url)


def test_every_engine_answers_a_ping_and_reads_in_utc(load: Loader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setenv("PGTZ", "America/New_York")
    naive = [row("a", resolved_at=datetime(2026, 11, 9)), row("b", resolved_at=datetime(2026, 11, 8, 23, 59))]  # noqa: DTZ001
    for warehouse in load(naive, types={"resolved_at": "TIMESTAMP"}).values():
        warehouse.ping()
        assert rows_read(warehouse, source()) == 1


def test_between_two_readings_another_process_can_write_the_duckdb_file(load: Loader, tmp_path: Path) -> None:
    warehouse = load([row()], engines=("duckdb",))["duckdb"]
    assert rows_read(warehouse, source()) == 1
    (path,) = tmp_path.glob("*.duckdb")
    with duckdb.connect(str(path)) as writer:
        writer.execute("INSERT INTO resolved_tickets SELECT * REPLACE ('t2' AS item) FROM resolved_tickets")
    assert rows_read(warehouse, source()) == 2


def test_reading_leaves_the_files_as_they_were(load: Loader, tmp_path: Path) -> None:
    warehouses = load([row()], engines=FILES)
    before = {path: (path.read_bytes(), os.stat(path).st_mtime_ns) for path in tmp_path.iterdir()}  # noqa: PTH116 - nanoseconds
    for warehouse in warehouses.values():
        rows_read(warehouse, source())
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_a_postgresql_address_may_name_its_driver_or_not(load: Loader, fresh_postgres_url: str) -> None:
    plain = sa.make_url(fresh_postgres_url)
    for name in ("postgresql", "postgres", "postgresql+psycopg"):
        with Warehouse.from_url(plain.set(drivername=name).render_as_string(hide_password=False)) as warehouse:
            warehouse.ping()  # raises WarehouseFailed where nobody answers
            problems = warehouse.check("tickets", source())
            assert [problem.source for problem in problems] == ["tickets"], name


def test_sqlite_text_that_is_not_utf8_does_not_stop_a_reading(load: Loader, tmp_path: Path) -> None:
    warehouse = load([row("a")], engines=("sqlite",))["sqlite"]
    (path,) = tmp_path.glob("*.sqlite")
    connection = sqlite3.connect(path)
    connection.execute("UPDATE resolved_tickets SET label = CAST(x'ff41' AS TEXT)")
    connection.commit()
    connection.close()
    assert list(warehouse.read("tickets", source(), WEEK, now=NOW).labels) == ["\ufffdA"]


# --- a relation opens no file but those that are named


def tickets_in(folder: Path) -> str:
    """A database with a table and a view over a CSV file; returns its address."""
    with duckdb.connect(str(folder / "w.duckdb")) as connection:
        connection.execute(f"COPY ({ONE_ROW}) TO '{folder}/more.csv'")
        connection.execute(f"CREATE TABLE resolved_tickets AS {ONE_ROW}")
        connection.execute(f"CREATE VIEW from_file AS SELECT * FROM read_csv('{folder}/more.csv')")
    return f"duckdb:///{folder}/w.duckdb"


ONE_ROW = (
    "SELECT 'a' AS item, 'billing' AS label, 0.9::DOUBLE AS score, 1 AS actual, "
    f"TIMESTAMPTZ '{WEEK.start + timedelta(days=1):%Y-%m-%d %H:%M:%S+00}' AS resolved_at"
)
OPENS = {
    "the environment": "read_text('/proc/self/environ')",
    "the environment as CSV": "read_csv('/proc/self/environ', header = false, columns = {'content': 'VARCHAR'})",
    "a secret": "read_text('{folder}/secret')",
    "a list of files": "(SELECT file AS content FROM glob('/etc/*'))",
    "a web address": "(SELECT content FROM read_text('http://127.0.0.1:{port}/x.csv'))",
    "a web address by its name": "(SELECT 'x' AS content FROM 'http://127.0.0.1:{port}/x.parquet')",
    "another database": "(SELECT 'x' AS content FROM read_duckdb('{folder}/other.duckdb', table_name = 't'))",
}


@pytest.mark.parametrize("what", OPENS)
def test_a_select_opens_no_other_file_and_no_address_of_the_web(what: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("xoxb-token")
    with duckdb.connect(str(tmp_path / "other.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS a")
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        opened = OPENS[what].replace("{folder}", str(tmp_path)).replace("{port}", str(listening.getsockname()[1]))
        relation = f"SELECT content AS item, * EXCLUDE item FROM resolved_tickets, {opened} AS opened"
        with Warehouse.from_url(tickets_in(tmp_path)) as warehouse:
            problems = warehouse.check("tickets", source(relation=relation))
            with pytest.raises(RelationError) as raised:
                warehouse.read("tickets", source(relation=relation), WEEK, now=NOW)
        with pytest.raises(TimeoutError):
            listening.accept()
    assert problems == list(raised.value.problems)
    assert "DuckDB may not open that" in str(raised.value)
    assert "load other data into the database" in str(raised.value)
    assert "xoxb" not in str(raised.value)


@pytest.mark.parametrize(
    "relation",
    [
        "resolved_tickets", "from_file", "SELECT * FROM '{folder}/more.csv'",
        "SELECT * FROM read_csv('{folder}/more.csv')",
        "SELECT * FROM read_csv('{folder}/m*.csv')", "SELECT * FROM resolved_tickets UNION ALL SELECT * FROM from_file",
    ],
)  # fmt: skip
def test_the_files_that_a_relation_or_a_view_names_are_read(relation: str, tmp_path: Path) -> None:
    named = source(relation=relation.replace("{folder}", str(tmp_path)))
    with Warehouse.from_url(tickets_in(tmp_path)) as warehouse:
        assert rows_read(warehouse, named) == 1


def test_a_file_may_be_named_from_where_the_program_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = tickets_in(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Warehouse.from_url(url) as warehouse:
        assert rows_read(warehouse, source(relation="SELECT * FROM 'more.csv'")) == 1


def test_two_sources_at_once_share_what_both_may_read(tmp_path: Path) -> None:
    url = tickets_in(tmp_path)
    relations = ["resolved_tickets", f"SELECT * FROM '{tmp_path}/more.csv'"]
    with Warehouse.from_url(url, relations=relations) as warehouse, warehouse._session("tickets"):
        assert rows_read(warehouse, source(relation=relations[1])) == 1


def test_what_does_not_fit_into_memory_is_still_spilled(tmp_path: Path) -> None:
    with Warehouse.from_url(tickets_in(tmp_path)) as warehouse, warehouse._session("tickets") as connection:
        connection.exec_driver_sql("SET memory_limit = '200MB'")
        connection.exec_driver_sql("SET preserve_insertion_order = false")
        rows = connection.exec_driver_sql(
            "SELECT count(*) FROM (SELECT i, row_number() OVER (ORDER BY hash(i)) AS k FROM range(12000000) AS r(i))"
        )
        assert rows.scalar() == 12_000_000


def test_sqlite_attaches_nothing_and_loads_no_extension(load: Loader, tmp_path: Path) -> None:
    warehouse = load([row()], engines=("sqlite",))["sqlite"]
    for relation in ("ATTACH 'x.sqlite' AS x", "SELECT * FROM resolved_tickets; ATTACH 'x.sqlite' AS x"):
        assert warehouse.check("tickets", source(relation=relation))
    with pytest.raises(RelationError, match="not authorized"):
        warehouse.read(
            "tickets", source(relation="SELECT *, load_extension('x') AS y FROM resolved_tickets", segments=("y",)),
            WEEK, now=NOW,
        )  # fmt: skip
    with warehouse._session("tickets") as connection, pytest.raises(sa.exc.OperationalError):
        connection.exec_driver_sql("INSERT INTO resolved_tickets DEFAULT VALUES")


# --- PostgreSQL: the role in docs/warehouse-roles.md

ROLES = Path(__file__).parents[2] / "docs" / "warehouse-roles.md"
CALLS = (
    "pg_terminate_backend(pg_backend_pid())", "pg_cancel_backend(pg_backend_pid())", "pg_sleep(9)",
    "pg_advisory_lock(1)",
    "pg_try_advisory_lock(1)", "pg_notify('a', 'b')", "pg_read_file('/etc/passwd')", "lo_import('/etc/passwd')",
    "pg_ls_dir('/')", "set_config('x.y', lo_creat(-1)::text, false)",
)  # fmt: skip


def documented_role(admin_url: str, role: str) -> str:
    """Run the documented statements for a role of another name; returns its address."""
    address = sa.make_url(admin_url)
    (statements,) = re.findall(r"```sql\n(.*?)```", ROLES.read_text("utf-8"), re.DOTALL)
    mine = statements.replace("calmon_reader", role).replace("DATABASE warehouse", f'DATABASE "{address.database}"')
    engine = sa.create_engine(admin_url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(mine.replace("%", "%%"))
        connection.exec_driver_sql(f"ALTER ROLE {role} PASSWORD 'of a test'")
    engine.dispose()
    return address.set(username=role, password="of a test").render_as_string(hide_password=False)


def test_the_documented_role_reads_and_does_nothing_else(load: Loader, request: pytest.FixtureRequest) -> None:
    admin = load([row("a"), row("b")], engines=("postgresql",))["postgresql"]
    url = documented_role(admin._url.render_as_string(hide_password=False), "reader_one")
    with Warehouse.from_url(url) as warehouse:
        assert rows_read(warehouse, source()) == 2
        assert warehouse.beyond_select() == []
        for call in CALLS:
            relation = f"SELECT *, CAST({call} AS text) AS said FROM resolved_tickets"
            with pytest.raises(RelationError, match=r"permission denied|read-only transaction"):
                warehouse.read("tickets", source(relation=relation, segments=("said",)), WEEK, now=NOW)
        with warehouse._session("") as connection, pytest.raises(sa.exc.DBAPIError, match="read-only"):
            connection.exec_driver_sql("CREATE TEMPORARY TABLE t (a int)")
    writing = sa.create_engine(url)
    for statement in ("INSERT INTO resolved_tickets DEFAULT VALUES", "CREATE TABLE mine (a int)"):
        with writing.connect() as connection, pytest.raises(sa.exc.DBAPIError, match=r"read-only|permission"):
            connection.exec_driver_sql(statement)
        with writing.connect() as connection:
            connection.exec_driver_sql("SET default_transaction_read_only = off")
            connection.commit()
            with pytest.raises(sa.exc.DBAPIError, match="permission denied"):
                connection.exec_driver_sql(statement)
    writing.dispose()


def test_what_a_role_may_beyond_select_is_named(load: Loader) -> None:
    admin = load([row("a")], engines=("postgresql",))["postgresql"]
    address = admin._url.render_as_string(hide_password=False)
    assert admin.beyond_select() == ["is a superuser"]
    assert load([row("a")], engines=("duckdb",))["duckdb"].beyond_select() is None
    url = documented_role(address, "reader_two")
    engine = sa.create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for grant in (
            "GRANT INSERT ON resolved_tickets TO reader_two", "GRANT CREATE ON SCHEMA public TO reader_two",
            "GRANT pg_read_server_files TO reader_two", "ALTER ROLE reader_two CREATEDB",
            "GRANT EXECUTE ON FUNCTION pg_sleep(double precision) TO reader_two",
        ):  # fmt: skip
            connection.exec_driver_sql(grant)
    engine.dispose()
    with Warehouse.from_url(url) as warehouse:
        assert warehouse.beyond_select() == [
            "may create databases", "is a member of pg_read_server_files", "may create in schema public",
            "may write to resolved_tickets", "may call functions with effects: pg_sleep",
        ]  # fmt: skip


def test_check_warns_of_a_role_that_may_more_and_says_where_a_better_one_is(load: Loader) -> None:
    from monitor.cli.checks import _check_role

    warehouses = load([row("a")], engines=("duckdb", "postgresql"))
    (finding,) = _check_role(warehouses["postgresql"])
    assert (finding.what, finding.state) == ("warehouse role", "note")
    assert finding.text.startswith("the role is a superuser. ")
    assert "`calmon docs warehouse-roles`" in finding.text
    assert _check_role(warehouses["duckdb"]) == []


def test_a_view_that_is_made_between_two_readings_may_read_its_file(tmp_path: Path) -> None:
    with Warehouse.from_url(tickets_in(tmp_path)) as warehouse:
        assert rows_read(warehouse, source(relation="from_file")) == 1
        with duckdb.connect(str(tmp_path / "w.duckdb")) as connection:
            connection.execute(f"COPY ({ONE_ROW}) TO '{tmp_path}/later.csv'")
            connection.execute(f"CREATE VIEW later AS SELECT * FROM read_csv('{tmp_path}/later.csv')")
        assert rows_read(warehouse, source(relation="later")) == 1
        assert rows_read(warehouse, source(relation="from_file")) == 1


def test_a_column_that_gets_another_type_between_two_readings_stops_none(load: Loader) -> None:
    """Of a statement that is prepared, PostgreSQL says then that the plan it keeps must not change."""
    warehouse = load([row()], engines=["postgresql"])["postgresql"]
    with warehouse.kept_open():
        assert {rows_read(warehouse, source()) for _ in range(7)} == {1}
        address = warehouse._url.set(drivername="postgresql+psycopg")
        with sa.create_engine(address, poolclass=sa.NullPool).begin() as owner:
            owner.execute(sa.text("ALTER TABLE resolved_tickets ALTER score TYPE numeric"))
        assert rows_read(warehouse, source()) == 1


# --- readings in a row over one connection


def opened(warehouse: Warehouse) -> list[object]:
    """What is connected from now on."""
    found = []
    sa.event.listen(warehouse._engine, "connect", lambda connection, _: found.append(connection))
    return found


def test_what_a_pattern_stands_for_is_looked_up_for_each_reading(tmp_path: Path) -> None:
    tickets_in(tmp_path)
    every = source(relation=f"{tmp_path}/*.csv")
    with Warehouse.from_url("duckdb://", relations=every.relations) as warehouse, warehouse.kept_open():
        assert rows_read(warehouse, every) == 1
        duckdb.sql(f"COPY (SELECT 'b' AS item, * EXCLUDE item FROM ({ONE_ROW})) TO '{tmp_path}/later.csv'")
        assert rows_read(warehouse, every) == 2


# --- a SQLite file in WAL mode


def in_wal_mode(file: Path) -> sqlite3.Connection:
    """A writer of a file with one ticket, whose rows are all in the file itself."""
    writer = sqlite3.connect(file, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE resolved_tickets (item, label, score, actual, resolved_at)")
    add_ticket(writer, "t1")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return writer


def add_ticket(writer: sqlite3.Connection, item: str) -> None:
    writer.execute("INSERT INTO resolved_tickets VALUES (?, 'refund', 0.9, 1, '2026-11-10')", (item,))


def test_a_file_in_wal_mode_that_nobody_writes_is_read_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "tickets 50%.sqlite"
    in_wal_mode(file).close()
    with Warehouse.from_url(f"sqlite:///{file}") as warehouse:
        assert rows_read(warehouse, source()) == 1
        assert list(tmp_path.iterdir()) == [file]
    assert list(tmp_path.iterdir()) == [file]


def test_rows_that_are_in_the_wal_alone_are_read_beside_a_writer_and_after_it_crashed(tmp_path: Path) -> None:
    file = tmp_path / "tickets.sqlite"
    writer = in_wal_mode(file)
    with Warehouse.from_url(f"sqlite:///{file}") as warehouse:
        assert rows_read(warehouse, source()) == 1
        add_ticket(writer, "t2")
        assert rows_read(warehouse, source()) == 2
        add_ticket(writer, "t3")  # the writer goes on
    crashed = tmp_path / "crashed"
    crashed.mkdir()
    for name in ("tickets.sqlite", "tickets.sqlite-wal"):
        (crashed / name).write_bytes((tmp_path / name).read_bytes())
    before = {path.name: path.read_bytes() for path in crashed.iterdir()}
    with Warehouse.from_url(f"sqlite:///{crashed / file.name}") as warehouse:
        assert rows_read(warehouse, source()) == 3
    assert {path.name: path.read_bytes() for path in crashed.iterdir()} == before
    writer.close()


def test_a_file_that_is_written_while_it_is_read_at_rest_is_read_again_later(tmp_path: Path) -> None:
    file = tmp_path / "tickets.sqlite"
    in_wal_mode(file).close()
    engine = ENGINES["sqlite"].opened(sa.make_url(f"sqlite:///{file}"), set())
    with engine.connect() as connection, connection.begin():
        assert connection.exec_driver_sql("SELECT count(*) FROM resolved_tickets").scalar() == 1
    with (
        pytest.raises(sa.exc.OperationalError, match="written while it was read") as raised,
        engine.connect() as connection,
        connection.begin(),
        closing(sqlite3.connect(file)) as writer,
        writer,
    ):
        add_ticket(writer, "t2")
    assert not SQLite().of_the_relation(raised.value)


def test_the_locks_of_another_reader_of_this_process_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "tickets.sqlite"
    sqlite3.connect(file, isolation_level=None).execute("CREATE TABLE t (a)").connection.close()
    reader = open_for_reading(file)
    reader.execute("BEGIN")
    assert reader.execute("SELECT * FROM t").fetchall() == []
    open_for_reading(file).close()
    code = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('BEGIN EXCLUSIVE')"
    other = subprocess.run([sys.executable, "-c", code, file], capture_output=True, text=True, check=False)
    assert "locked" in other.stderr
    reader.close()


def test_the_remedy_for_percent_with_decimal_commas_makes_numbers_as_it_is_printed(load: Loader) -> None:
    rows = [row(score="62,5 %"), row(item="b", score="97,0%")]
    warehouse = load(rows, types={"score": "TEXT"}, engines=("duckdb",))["duckdb"]
    (problem,) = warehouse.check("tickets", source())
    assert "score (score) is text, such as 62,5 %" in problem.message
    made, _, scale = problem.remedy.partition("62,5 %: ")[2].partition(", and ")
    relation = f"SELECT * REPLACE ({made} AS score) FROM resolved_tickets"
    reading = warehouse.read("tickets", source(relation=relation, score_scale=float(scale.split()[-1])), WEEK, now=NOW)
    assert (reading.rows, reading.quality) == (2, ())
