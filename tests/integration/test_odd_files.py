"""Files and texts as other programs leave them: odd names, hidden and cut files, bytes, signs of percent."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.environment import database_address
from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.operations.describe_source import describe
from monitor.warehouse.reader import Reading, RelationError, Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
HEAD = "item,label,score,actual,resolved_at"
ROWS = [f"t{n},retour,0.{n},1,2026-11-10" for n in range(1, 9)]
TABLE = """\
SELECT 't' || i AS item, 'rück' AS label, 0.9 AS score, 1 AS actual, DATE '2026-11-10' AS resolved_at
FROM range(8) r(i)"""


def source(relation: object = "resolved_tickets", **settings: object) -> SourceConfig:
    known = {"relation": str(relation), "score_is": "probability_of_label"}
    return SourceConfig.model_validate(known | settings)


def read(relation: object, url: str = "duckdb://") -> Reading:
    config = source(relation)
    with Warehouse.from_url(url, relations=config.relations if url == "duckdb://" else ()) as warehouse:
        return warehouse.read("tickets", config, WEEK, now=NOW)


def write_csv(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([HEAD, *ROWS]), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: str = TABLE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")
    return path


NAMES = ("50% off", "a;b", "c#d", "what?", "it's", "[1]", "a b", "x=1&y=2", "réf", "a:b")


@pytest.mark.parametrize("name", NAMES)
def test_a_path_may_have_any_character(tmp_path: Path, name: str) -> None:
    for path in (write_csv(tmp_path / name / f"{name}.csv"),):
        assert read(path).rows == 8
    plain = write_parquet(tmp_path / "plain.parquet")
    named = tmp_path / f"{name}.parquet"
    named.write_bytes(plain.read_bytes())
    assert read(named).rows == 8


@pytest.mark.parametrize("name", NAMES)
def test_a_database_may_have_any_name_but_for_the_beginning_of_options(tmp_path: Path, name: str) -> None:
    file = tmp_path / f"{name}.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE resolved_tickets (item, label, score, actual, resolved_at)")
        connection.execute("INSERT INTO resolved_tickets VALUES ('t1', 'refund', 0.9, 1, '2026-11-10')")
        connection.commit()
    if "?" in name:
        with pytest.raises(ValueError, match=r"has a \?"):
            database_address(f"sqlite:///{file}")
    else:
        assert read("resolved_tickets", database_address(f"sqlite:///{file}")).rows == 1


@pytest.mark.parametrize("beside", ["._a", "~$a"])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_hidden_files_of_a_pattern_are_left_out_and_said(tmp_path: Path, ending: str, beside: str) -> None:
    (write_csv if ending == "csv" else write_parquet)(tmp_path / "data" / f"a.{ending}")
    (tmp_path / "data" / f"{beside}.{ending}").write_bytes(b"\0\5\26\7Mac OS X")
    config = source(tmp_path / "data" / f"*.{ending}")
    with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
        reading = warehouse.read("tickets", config, WEEK, now=NOW)
        said = describe(warehouse, "tickets", config, reading).doubts
    assert reading.rows == 8
    assert any(
        f"1 hidden file of {config.relation} left out: " in doubt and f"{beside}.{ending}" in doubt for doubt in said
    )


@pytest.mark.parametrize("share", [0.5, 0.0])
def test_a_cut_file_is_refused_by_its_name(tmp_path: Path, share: float) -> None:
    whole = write_parquet(tmp_path / "a.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(whole[: int(len(whole) * share)])
    with pytest.raises(RelationError, match=r"b\.parquet.*; it is cut, or no Parquet file: write it again"):
        read(tmp_path / "*.parquet")


def test_init_of_a_folder_says_which_files_it_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("b.csv", "c.csv"):
        write_csv(tmp_path / "data" / name)
    write_parquet(tmp_path / "data" / "a.parquet")
    for beside in (".a.parquet", "b.csv.bak", "_SUCCESS"):
        (tmp_path / "data" / beside).write_bytes(b"x")
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["init", "data", "--yes"])
    assert (
        "note: only the files of data that end in .csv are read, not _SUCCESS, a.parquet, b.csv.bak\n" in found.output
    )
    assert "relation: data/*.csv" in (tmp_path / "alerts.yaml").read_text("utf-8")


def test_bytes_are_decoded_or_the_column_is_refused(load: Loader, tmp_path: Path) -> None:
    rows = [{"item": f"t{n}", "label": "rück", "score": 0.9, "actual": 1, "resolved_at": WEEK.start} for n in range(3)]
    decoded = {"duckdb": "decode(label)", "postgresql": "convert_from(label, 'UTF8')"}
    as_bytes = {"duckdb": "encode(label)", "postgresql": "convert_to(label, 'UTF8')", "sqlite": "CAST(label AS BLOB)"}
    for engine, warehouse in load(rows).items():
        inner = f"SELECT item, {as_bytes[engine]} AS label, score, actual, resolved_at FROM resolved_tickets"
        if engine == "sqlite":
            assert set(warehouse.read("tickets", source(inner), WEEK, now=NOW).labels) == {"rück"}
            continue
        (problem,) = warehouse.check("tickets", source(inner))
        assert str(problem) == (
            f"tickets: column label (label) is bytes, no text; decode it in a view or a SELECT: {decoded[engine]}"
        )
        outer = f"SELECT item, {decoded[engine]} AS label, score, actual, resolved_at FROM ({inner}) r"
        assert set(warehouse.read("tickets", source(outer), WEEK, now=NOW).labels) == {"rück"}
    file = write_parquet(tmp_path / "old.parquet", f"SELECT * REPLACE (encode(label) AS label) FROM ({TABLE})")
    assert set(read(file).labels) == {"rück"}


def test_a_sign_of_percent_is_read_in_files(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    scores = ("97%", "97 %", "9,5%", "0.5%", "100%", "101%", "%", "97%%x")
    path.write_text(
        "\n".join([HEAD.replace(",", ";"), *(f"t{n};a;{score};1;2026-11-10" for n, score in enumerate(scores))])
    )
    reading = read(path)
    assert sorted(int(cell) for cell in reading.labels["a"].cell) == [50, 950, 9700, 10_000]
    assert {(each.reason, each.rows) for each in reading.quality} == {
        ("score_out_of_range", 1),
        ("score_not_a_number", 2),
    }
    assert reading.rows == 5
