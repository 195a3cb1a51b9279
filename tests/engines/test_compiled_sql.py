"""The SQL of every engine that comes as an extra: as it was, parsed in its own dialect, and only ever reading."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from monitor.warehouse.reader import Warehouse, WarehouseFailed
from tests.engines import compiled

PACKAGES = {
    "clickhouse": "clickhouse_connect", "spark": "databricks.sqlalchemy", "snowflake": "snowflake.sqlalchemy",
    "bigquery": "sqlalchemy_bigquery", "redshift": "sqlalchemy_redshift", "trino": "trino",
}  # fmt: skip


def missing(package: str) -> bool:
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:
        return True


@pytest.fixture(params=compiled.COMPILED)
def engine(request: pytest.FixtureRequest) -> str:
    if missing(PACKAGES[request.param]) or missing("sqlglot"):
        pytest.skip(f"{request.param} is an extra that is not installed here: make test-engines")
    return str(request.param)


@pytest.mark.parametrize("engine", compiled.NOT_RUN, indirect=True)
def test_the_sql_of_an_engine_that_is_not_run_is_as_it_was(engine: str) -> None:
    kept = (compiled.FOLDER / f"{engine}.sql").read_text("utf-8")
    assert kept == compiled.text_of(engine), "if it is meant: python -m tests.engines.compiled"


def test_each_statement_is_one_select_that_names_its_columns(engine: str) -> None:
    import sqlglot
    from sqlglot import exp

    writes = (exp.Insert, exp.Update, exp.Delete, exp.Merge, exp.Create, exp.Drop, exp.Alter, exp.Command, exp.Into)
    found = compiled.compiled(engine)
    assert len(found) == 28
    for name, sql in found.items():
        parsed = sqlglot.parse(sql, dialect="databricks" if engine == "spark" else engine)
        assert len(parsed) == 1, name
        (tree,) = parsed
        assert isinstance(tree, exp.Select | exp.Union), name
        assert not list(tree.find_all(*writes)), name
        stars = [star for star in tree.find_all(exp.Star) if not isinstance(star.parent, exp.Count)]
        assert not stars, name
        ours = {each.alias for each in tree.find_all(exp.CTE)}
        assert {table.name for table in tree.find_all(exp.Table)} - ours == {"resolved_tickets"}, name


def test_a_driver_that_finds_no_credentials_is_a_plain_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if missing(PACKAGES["bigquery"]):
        pytest.skip("bigquery is an extra that is not installed here: make test-engines")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # no machine of Google's is asked for them
    said = "the driver of bigquery could not be opened: Your default credentials were not found"
    with Warehouse.from_url("bigquery://project") as warehouse, pytest.raises(WarehouseFailed, match=said):
        warehouse.ping()
