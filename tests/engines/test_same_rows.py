"""The same 200,000 rows in every engine: equal counts, estimates to 1e-9, the same verdicts."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from monitor.core.records import RejectReason
from tests.conftest import new_postgres_database
from tests.engines.same_rows import LOADED, Found, differences, in_postgresql, run_on, write_rows

ROWS = 200_000
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
