"""Files as a warehouse: CSV and Parquet, by paths and patterns, without a database."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import pandas as pd
import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.warehouse import dialects
from monitor.warehouse.reader import Reading, RelationError, Warehouse, WarehouseFailed

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
HEAD = "item,label,score,actual,resolved_at"
ROWS = (
    "1,refund,0.97,1,2026-11-10 09:00",
    "2,refund,0.41,0,2026-11-10T10:00:00Z",
    "3,delivery,0.88,true,2026-11-11 11:00+02:00",
    '4,delivery,"0,63",false,2026-11-11',
)


def written(path: Path, rows: Sequence[str] = ROWS, head: str = HEAD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([head, *rows]) + "\n", encoding="utf-8")
    return path


def read(relation: object, *, url: str = "duckdb://", **settings: Any) -> Reading:
    config = SourceConfig.model_validate({"relation": str(relation), "score_is": "probability_of_label"} | settings)
    with Warehouse.from_url(url, relations=config.relations) as warehouse:
        return warehouse.read("tickets", config, WEEK, now=NOW)


def found(reading: Reading) -> dict[str, tuple[int, float, float]]:
    return {label: (c.rows, float(c.ws.sum()), float(c.wy.sum())) for label, c in reading.labels.items()}


def bad(reading: Reading) -> dict[str, int]:
    return {quality.reason: quality.rows for quality in reading.quality}


def test_a_csv_file_is_read_by_its_path_without_any_database(tmp_path: Path) -> None:
    reading = read(written(tmp_path / "tickets.csv"))
    assert found(reading) == {"refund": (2, pytest.approx(1.38), 1.0), "delivery": (2, pytest.approx(1.51), 1.0)}
    assert bad(reading) == {}


def test_values_that_are_no_numbers_or_dates_are_rejected_rows_wherever_they_come(tmp_path: Path) -> None:
    good = [f"x{number},refund,0.9,1,2026-11-10 09:00" for number in range(30_000)]
    late = (
        "A7,refund,n/a,1,2026-11-10 09:00", "8,refund,,1,2026-11-10 09:00", "9,refund,0.5,maybe,2026-11-10 09:00",
        "10,refund,0.5,1,31.11.2026", "11,refund,0.5,,2026-11-10 09:00", "12,,0.5,1,2026-11-10 09:00",
    )  # fmt: skip
    reading = read(written(tmp_path / "tickets.csv", [*good, *late]))
    assert reading.rows == 30_000
    assert bad(reading) == {
        "score_not_a_number": 1, "score_missing": 1, "outcome_out_of_range": 1, "date_malformed": 1,
        "outcome_missing": 1, "label_missing": 1,
    }  # fmt: skip


def test_of_words_only_true_and_false_and_their_first_letters_are_numbers(tmp_path: Path) -> None:
    words = ("yes", "no", "y", "n", "t", "f", "on", "off", "nan", "true", "false", "TRUE", "False", " true ")
    rows = [f"{n},refund,{word},1,2026-11-10 09:00" for n, word in enumerate(words)]
    reading = read(written(tmp_path / "tickets.csv", rows))
    assert bad(reading) == {"score_not_a_number": 7}
    assert found(reading) == {"refund": (7, 4.0, 7.0)}


GOOD = [f"x{number},refund,0.9,1,2026-11-10 09:00" for number in range(200)]
MANY = [f"x{number},refund,0.9,1,2026-11-10 09:00" for number in range(30_000)]


def problem(path: Path) -> str:
    with pytest.raises(RelationError) as raised:
        read(path)
    return str(raised.value)


@pytest.mark.parametrize("good", [GOOD, MANY], ids=["few", "many"])
@pytest.mark.parametrize("place", [0, 100, None])
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_line_with_too_few_fields_is_a_row_with_missing_values(
    tmp_path: Path, good: list[str], place: int | None, separator: str
) -> None:
    at = len(good) if place is None else place
    cut = ["t1,ref", "t2,refund,0.9", 't3,"re', 'fund",0.8,1,2026-11-10', "t4,refund,0.7,,2026-11-10", "t5"]
    rows = [row.replace(",", separator) for row in [*good[:at], *cut, *good[at:]]]
    reading = read(written(tmp_path / "100% of 'it'.csv", rows, HEAD.replace(",", separator)))
    assert reading.rows == len(good) + 1
    assert sorted(reading.labels) == ["re\nfund", "refund"]
    assert bad(reading) == {"date_missing": 3, "outcome_missing": 1}


def test_the_last_line_may_be_cut_and_numbers_have_decimal_commas(tmp_path: Path) -> None:
    rows = [f"{row};0,9" for row in ("a;refund;0,9;1;2026-11-10", "b;refund;0,8;1;2026-11-10")] * 100
    head = HEAD.replace(",", ";") + ";length"
    path = tmp_path / "tickets.csv"
    path.write_text("\n".join([head, *rows, "c;refund;0,7;1;2026-11-1"]), encoding="utf-8")
    reading = read(path)
    assert bad(reading) == {"date_malformed": 1, "duplicate": 198}


@pytest.mark.parametrize("good", [GOOD, MANY], ids=["few", "many"])
@pytest.mark.parametrize("short", [(), ("t2,refund",)], ids=["alone", "beside a short one"])
def test_a_line_with_too_many_fields_is_named(tmp_path: Path, good: list[str], short: tuple[str, ...]) -> None:
    rows = [*good, "t1,refund, partly,0.9,1,2026-11-10 09:00", *short, *good]
    path = written(tmp_path / "tickets.csv", rows)
    what = f"line {len(good) + 2} of {path} has 6 fields, and the line of names has 5"
    assert what in problem(path)


def test_a_quote_that_does_not_end_takes_no_lines_with_it(tmp_path: Path) -> None:
    unended = 't1,"refund,0.9,1,2026-11-10 09:00'
    assert read(written(tmp_path / "alone.csv", [*MANY, unended, *MANY])).rows == 30_001  # no quotes: a plain character
    path = written(tmp_path / "tickets.csv", [*MANY, unended, *MANY, "t2,refund"])
    assert f"a quoted value of {path} does not end" in problem(path)


@pytest.mark.parametrize("good", [GOOD, MANY], ids=["few", "many"])
@pytest.mark.parametrize("short", [(), ("t2,refund",)], ids=["alone", "beside a short line"])
def test_a_file_that_is_not_in_utf8_is_said_to_be_so(tmp_path: Path, good: list[str], short: tuple[str, ...]) -> None:
    path = tmp_path / "tickets.csv"
    for head in (HEAD, f"{HEAD},größe"):
        rows = [head, *good, "t1,rückgabe,0.9,1,2026-11-10", *short, *good]
        path.write_bytes("\n".join(rows).encode("latin-1"))
        said = problem(path)
        assert f"line {len(good) + 2} of {path} is not in UTF-8" in said
        assert "iconv -f latin1 -t utf-8" in said


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst"])
def test_one_file_of_a_pattern_may_have_a_short_line(tmp_path: Path, ending: str) -> None:
    for name, rows in (("a", GOOD), ("b", ["t1,refund", *ROWS]), ("c", ROWS)):
        lines = pd.DataFrame({"line": [HEAD, *rows]})
        form = "FORMAT csv, HEADER false, DELIM '\x01', QUOTE ''"  # the lines as they are
        with duckdb.connect() as connection:
            connection.register("lines", lines)
            connection.execute(f"COPY (FROM lines) TO '{tmp_path}/{name}.{ending}' ({form})")
    reading = read(tmp_path / f"*.{ending}")
    assert (reading.rows, bad(reading)) == (204, {"date_missing": 1, "duplicate": 4})


def test_large_files_with_a_short_line_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "COPIED_BYTES", 0)
    reading = read(written(tmp_path / "tickets.csv", [*MANY, "t1,refund"]))
    assert (reading.rows, bad(reading)) == (30_000, {"date_missing": 1})
    path = written(tmp_path / "long.csv", [*MANY, "t1,refund,0.9,1,2026-11-10,x"])
    assert f"line 30002 of {path} has 6 fields" in problem(path)


def test_short_lines_of_a_file_of_truths_are_rows_too(tmp_path: Path) -> None:
    scores = written(tmp_path / "scores.csv", ["t1,refund,0.9", "t2,refund"], "ticket,label,score")
    truths = written(tmp_path / "truths.csv", ["t1,1,2026-11-10", "t2,1,2026-11-11", "t3"], "id,actual,resolved_at")
    reading = read(scores, columns={"item": "ticket"}, truth={"relation": str(truths), "on": {"ticket": "id"}})
    assert found(reading) == {"refund": (1, pytest.approx(0.9), 1.0)}
    assert bad(reading) == {"score_missing": 1}


def test_numbers_and_dates_may_be_written_as_in_germany(tmp_path: Path) -> None:
    rows = ["1;refund;97,5;1;10.11.2026 09:00", "2;refund;41;0;11.11.2026 10:30", "3;refund;50;0;31.11.2026 10:30"]
    path = written(tmp_path / "tickets.csv", rows, HEAD.replace(",", ";"))
    reading = read(path, score_scale=100, types={"resolved_at": "%d.%m.%Y %H:%M"})
    assert found(reading) == {"refund": (2, pytest.approx(1.385), 1.0)}
    assert bad(reading) == {"date_malformed": 1}


def test_a_pattern_reads_many_files_with_columns_in_any_order(tmp_path: Path) -> None:
    written(tmp_path / "in" / "a.csv", ROWS[:2])
    written(tmp_path / "in" / "b.csv", ["2026-11-11,1,0.5,refund,9"], "resolved_at,actual,score,label,item")
    written(tmp_path / "in" / "c.txt", ["not,read"], "x,y")
    assert read(tmp_path / "in" / "*.csv").rows == 3


def test_folders_named_by_a_value_are_columns(tmp_path: Path) -> None:
    for region in ("eu", "us"):
        written(tmp_path / f"region={region}" / "a.csv", ROWS[:2] if region == "eu" else ROWS[2:])
    reading = read(tmp_path / "*" / "*.csv", segments=["region"])
    assert sorted(value for _, value in reading.segments) == ["eu", "us"]


@pytest.mark.parametrize("ending", ["csv.gz", "tsv", "CSV"])
def test_csv_files_may_be_packed_or_have_tabs(tmp_path: Path, ending: str) -> None:
    path, plain = tmp_path / f"tickets.{ending}", written(tmp_path / "plain.csv")
    separator = "\t" if ending == "tsv" else ","
    duckdb.sql(
        f"COPY (SELECT * FROM read_csv('{plain}', all_varchar = true)) TO '{path}' (FORMAT csv, DELIM '{separator}')"
    )
    assert read(path).rows == 4


def test_parquet_files_are_read_without_a_database_and_text_by_its_type(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.csv")
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{plain}', all_varchar = true)) TO '{tmp_path}/tickets.parquet'")
    reading = read(tmp_path / "*.parquet", types={"score": "number", "actual": "number"})
    assert found(reading) == found(read(plain))


def test_wide_files_and_truths_in_a_second_file_are_read(tmp_path: Path) -> None:
    scores = written(tmp_path / "scores.csv", ["t1,0.9,0.2", "t2,0.4,0.7"], "ticket,p_refund,p_delivery")
    truths = written(
        tmp_path / "truths.csv", ["t1,refund,2026-11-10", "t2,delivery,2026-11-11"], "id,category,resolved_at"
    )
    reading = read(
        scores, wide={"score": "p_{label}"}, truth={"relation": str(truths), "on": {"ticket": "id"}},
        columns={"item": "ticket", "true_label": "category"},
    )  # fmt: skip
    assert found(reading) == {"refund": (2, pytest.approx(1.3), 1.0), "delivery": (2, pytest.approx(0.9), 1.0)}


def test_predictions_and_truths_may_both_be_files_with_numbers_and_dates(tmp_path: Path) -> None:
    scores = written(tmp_path / "scores.csv", ["t1,refund,97", "t2,delivery,n/a"], "ticket,intent,percent")
    truths = written(tmp_path / "truths.csv", ["t1,1,10.11.2026", "t2,1,11.11.2026"], "ticket,correct,closed_at")
    reading = read(
        scores, kind="single_label", score_is="confidence_in_prediction", score_scale=100,
        truth={"relation": str(truths), "on": {"ticket": "ticket"}}, types={"resolved_at": "%d.%m.%Y"},
        columns={"item": "ticket", "predicted_label": "intent", "confidence": "percent", "actual": "correct",
                 "resolved_at": "closed_at"},
    )  # fmt: skip
    assert found(reading) == {"refund": (1, pytest.approx(0.97), 1.0)}
    assert bad(reading) == {"score_not_a_number": 1}


def test_features_are_text_unless_types_says_number(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", [f"{row},{place}" for place, row in enumerate(ROWS)], HEAD + ",length")
    for types, kind in (({}, "object"), ({"length": "number"}, "float64")):
        config = SourceConfig(relation=str(path), score_is="probability_of_label", features=("length",), types=types)
        with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
            assert str(warehouse.feature_sample("tickets", config, WEEK, limit=10)["length"].dtype) in (kind, "str")


def test_no_database_is_needed_where_all_relations_are_files(tmp_path: Path) -> None:
    path = written(tmp_path / "tickets.csv")
    address = f"duckdb:///{tmp_path}/none.duckdb"
    assert read(path, url=address).rows == 4
    assert not (tmp_path / "none.duckdb").exists()
    with pytest.raises(WarehouseFailed, match="is not there"):
        read("tickets", url=address)


def test_only_the_files_that_are_named_are_opened(tmp_path: Path) -> None:
    path, other = written(tmp_path / "tickets.csv"), written(tmp_path / "secret.csv")
    config = SourceConfig(relation=str(path), score_is="probability_of_label")
    with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
        assert warehouse.check("tickets", config) == []
        computed = SourceConfig(
            relation=f"SELECT * FROM read_csv('{tmp_path}/sec' || 'ret.csv')", score_is="probability_of_label"
        )
        (problem,) = warehouse.check("other", computed)
        assert "DuckDB may not open that" in problem.message
        assert other.exists()


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_other_engines_read_no_files(engine: str, tmp_path: Path) -> None:
    from monitor.warehouse.checks import parsed
    from monitor.warehouse.dialects import DIALECTS

    config = SourceConfig(relation="data/*.csv", score_is="probability_of_label")
    problem = parsed("tickets", config, DIALECTS[engine])
    assert str(problem) == f"tickets: {engine} cannot read CSV files; use DuckDB, or name a table"


def test_types_are_of_the_columns_of_files(tmp_path: Path) -> None:
    path = written(tmp_path / "tickets.csv")
    with Warehouse.from_url("duckdb://", relations=[str(path)]) as warehouse:
        config = SourceConfig(relation=str(path), score_is="probability_of_label", types={"closed": "number"})
        (problem,) = warehouse.check("tickets", config)
        assert problem.message == "types names closed, which the files do not have"
        (table,) = warehouse.check("tickets", config.model_copy(update={"relation": "tickets"}))
        assert table.message == "types are of the columns of files, and the relation names none"
        (none,) = warehouse.check("tickets", config.model_copy(update={"relation": f"{tmp_path}/no.csv", "types": {}}))
        assert none.message == f"No files found: {tmp_path}/no.csv"
