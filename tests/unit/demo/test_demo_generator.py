"""The rows of the demo, read back from the file."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest

from monitor.core import windows
from monitor.demo.generator import write_demo
from monitor.demo.population import PLANTED, SOURCES, WEEKS

UTC_ZONE = ZoneInfo("UTC")
END = windows.week("2026-W46", UTC_ZONE)
START = END.end - timedelta(weeks=WEEKS)
GOOD = """
    SELECT *, CAST(floor(epoch(resolved_at - ?) / 604800) AS INTEGER) + 1 AS week FROM {source}
    WHERE score BETWEEN 0 AND 1 AND NOT isnan(score) AND actual IS NOT NULL AND year(resolved_at) < 2900
    QUALIFY row_number() OVER (PARTITION BY item, label ORDER BY resolved_at DESC) = 1
"""


@pytest.fixture(scope="module")
def told() -> list[tuple[int, int]]:
    """What the progress callback was told while the file was written."""
    return []


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, told: list[tuple[int, int]]) -> Path:
    path = tmp_path_factory.mktemp("demo") / "demo.duckdb"
    write_demo(path, END, progress=lambda done, total: told.append((done, total)))
    return path


@pytest.fixture(scope="module")
def rows(written: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(str(written), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for source in SOURCES:
            connection.execute(f"CREATE TEMP TABLE good_{source} AS {GOOD.format(source=source)}", [START])
        yield connection


def one(connection: duckdb.DuckDBPyConnection, statement: str) -> tuple[object, ...]:
    found = connection.execute(statement).fetchone()
    assert found is not None
    return found


def content(path: Path) -> list[tuple[object, ...]]:
    """A fingerprint of each table, whatever the order of its rows and the time it lies in."""
    with duckdb.connect(str(path), read_only=True) as connection:
        return [
            one(connection, f"SELECT count(*), sum(hash(COLUMNS(* EXCLUDE (resolved_at, predicted_at)))) FROM {source}")
            for source in SOURCES
        ]


def test_it_covers_the_26_weeks_that_end_with_the_one_given(rows: duckdb.DuckDBPyConnection) -> None:
    for source, spec in SOURCES.items():
        found = rows.execute(
            f"SELECT week, count(DISTINCT item), count(*) FROM good_{source} GROUP BY week ORDER BY week"
        ).fetchall()
        assert [week for week, _, _ in found] == list(range(1, WEEKS + 1))
        assert all(abs(items - spec.items) < 0.06 * spec.items for _, items, _ in found)
        assert one(rows, f"SELECT max(resolved_at) < '{END.end}' FROM good_{source}") == (True,)


def test_every_item_has_one_row_for_every_label_of_its_source(rows: duckdb.DuckDBPyConnection) -> None:
    for source, spec in SOURCES.items():
        # an item whose only row is malformed has none left; no other item may be short of a row
        counts = rows.execute(f"SELECT DISTINCT count(*) FROM good_{source} GROUP BY item HAVING count(*) > 1")
        assert counts.fetchall() == [(len(spec.labels),)]


def test_the_baseline_weeks_hold_enough_pairs_for_every_label(rows: duckdb.DuckDBPyConnection) -> None:
    for source in SOURCES:
        fewest = one(rows, f"SELECT min(n) FROM (SELECT count(*) n FROM good_{source} WHERE week <= 8 GROUP BY label)")
        assert int(str(fewest[0])) >= 10_000


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    "wrong",
    ["score IS NULL", "isnan(score)", "score = 1.7", "score = -0.1", "actual IS NULL", "resolved_at IS NULL",
     "resolved_at = '2999-12-31'"],
)  # fmt: skip
def test_each_week_has_one_malformed_row_of_each_kind(source: str, wrong: str, rows: duckdb.DuckDBPyConnection) -> None:
    assert one(rows, f"SELECT count(*) FROM {source} WHERE {wrong}") == (WEEKS,)


def test_the_same_seed_writes_the_same_rows_and_another_seed_others(written: Path, tmp_path: Path) -> None:
    write_demo(tmp_path / "again.duckdb", END)
    write_demo(tmp_path / "other.duckdb", END, seed=7)
    assert content(tmp_path / "again.duckdb") == content(written)
    assert content(tmp_path / "other.duckdb") != content(written)


def test_the_documentation_names_every_planted_change_and_its_weeks() -> None:
    page = (Path(__file__).parents[3] / "docs" / "demo.md").read_text(encoding="utf-8")
    for change in PLANTED:
        row = f"| {change.source}/{change.label} | {change.kind} | {change.week} | {change.passes_threshold} |"
        assert row in page
