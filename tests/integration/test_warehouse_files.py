"""Files as a warehouse: CSV and Parquet, by paths and patterns, without a database."""

from __future__ import annotations

import gzip
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
from monitor.operations.describe_source import not_judged, window_in_words
from monitor.warehouse import csv_lines
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


@pytest.mark.parametrize(("yes", "no", "hits"), [("yes", "no", 2.0), ("no", "yes", 1.0), ("y", "n", 2.0)])
def test_words_that_duckdb_reads_as_booleans_within_a_select_keep_their_meaning(
    yes: str, no: str, hits: float, tmp_path: Path
) -> None:
    rows = [f"{n},refund,0.9,{word},2026-11-10 09:00" for n, word in enumerate(("yes", "no", "Yes"))]
    path = written(tmp_path / "tags.csv", rows)
    reading = read(f"SELECT * FROM '{path}'", positive=[yes], negative=[no])
    assert bad(reading) == {}
    assert found(reading)["refund"] == (3, pytest.approx(2.7), hits)


def problem(path: Path | str) -> str:
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


LONG = "t1,refund, partly,0.9,1,2026-11-10 09:00"


def set_aside(reading: Reading) -> list[tuple[str, str]]:
    """The lines that are no rows, and why."""
    found = (each for each in reading.quality if each.reason == "line_unreadable")
    return [(str(example["line"]), str(example["why"])) for each in found for example in each.examples]


def lost(reading: Reading) -> dict[str | None, int]:
    """The rejected rows of the window, by label."""
    found = {}
    for cell in reading.rejected:
        found[cell.label] = found.get(cell.label, 0) + cell.rows
    return found


IN_WINDOW = (LONG, 't2,refund,"a quote" too many,0.9,1,2026-11-10', "t3,refund,, and, more,0.9,1,2026-11-15 23:59:59")
BESIDE = (
    "t4,refund, partly,0.9,1,2026-11-16 00:00",
    "t5,refund, 2026-11-10, partly,0.9,1,2026-11-03 09:00",
    "t6,refund,,,,,,x",
)


@pytest.mark.parametrize("copied", [csv_lines.COPIED_BYTES, 0], ids=["copied", "large"])
def test_lines_of_the_window_that_are_no_rows_are_rejected_rows_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copied: int
) -> None:
    monkeypatch.setattr(csv_lines, "COPIED_BYTES", copied)
    good = [f"x{n},refund,0.{n % 7 + 1},{n % 2},2026-11-10 09:00" for n in range(200)]
    path = written(tmp_path / "tickets.csv", [*good, *IN_WINDOW, *BESIDE])
    reading = read(path)
    assert bad(reading) == {"line_unreadable": 6}
    assert lost(reading) == {None: 3}
    config = SourceConfig.model_validate({"relation": str(path), "score_is": "probability_of_label"})
    said = not_judged(reading, config, 0.01)
    assert said.startswith(
        "not judged: all labels: 3 of 203 rows have no label that can be read: most of them are lines of a file that "
        "cannot be divided into its columns. Let the program that writes the file quote the values"
    )
    assert not_judged(reading, config, 0.02) == ""


def test_the_date_of_such_a_line_may_have_a_form_of_its_own_or_be_in_a_file_of_truths(tmp_path: Path) -> None:
    rows = [f"{n};refund;0,9;1;10.11.2026" for n in range(10)]
    more = ["a;refund; partly;0,9;1;10.11.2026", "b;refund; partly;0,9;1;10.10.2026", "c;refund;;;;;"]
    path = written(tmp_path / "german.csv", [*rows, *more], HEAD.replace(",", ";"))
    assert lost(read(path, types={"resolved_at": "%d.%m.%Y"})) == {None: 1}
    scores = written(tmp_path / "scores.csv", [f"{n},refund,0.9" for n in range(10)], "item,label,score")
    truths = [f"{n},1,2026-11-10" for n in range(10)]
    extra = ["x,1, so to say,2026-11-11", "y,1, so to say,2026-10-11"]
    joined = written(tmp_path / "truths.csv", [*truths, *extra], "item,actual,resolved_at")
    reading = read(scores, truth={"relation": str(joined), "on": {"item": "item"}})
    assert (reading.rows, lost(reading)) == (10, {None: 1})


def test_of_a_table_with_a_column_for_each_label_a_line_is_a_row_of_each(tmp_path: Path) -> None:
    rows = [f"{n},0.9,0.1,refund,2026-11-10" for n in range(10)]
    path = written(
        tmp_path / "wide.csv", [*rows, "x,0.9,0.1,refund, partly,2026-11-10"], "item,p_a,p_b,true_label,resolved_at"
    )
    reading = read(path, wide={"score": "p_{label}"})
    assert (reading.rows, lost(reading)) == (20, {None: 2})


@pytest.mark.parametrize("good", [GOOD, MANY], ids=["few", "many"])
@pytest.mark.parametrize("short", [(), ("t2,refund",)], ids=["alone", "beside a short one"])
@pytest.mark.parametrize("copied", [csv_lines.COPIED_BYTES, 0], ids=["copied", "large"])
def test_a_line_with_too_many_fields_is_set_aside_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: list[str], short: tuple[str, ...], copied: int
) -> None:
    monkeypatch.setattr(csv_lines, "COPIED_BYTES", copied)
    path = written(tmp_path / "tickets.csv", [*good, LONG, *short, *good])
    reading = read(path)
    assert found(reading) == {"refund": (len(good), pytest.approx(0.9 * len(good)), len(good))}
    missing = {"date_missing": 1} if short else {}
    assert bad(reading) == {"line_unreadable": 1, "duplicate": len(good), **missing}
    assert set_aside(reading) == [(f"line {len(good) + 2} of {path}", "more fields than names")]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("before", [(), ("Tickets of May", "")], ids=["names first", "a title first"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "with a byte order mark"])
@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
def test_the_number_of_an_unreadable_line_counts_line_breaks_in_quotes(
    tmp_path: Path, end: str, before: tuple[str, ...], mark: str, ending: str
) -> None:
    lines = [*before, HEAD, LONG, 't2,"re', "fund", 'it",0.9,1,2026-11-10', LONG, f"{LONG},and,more", *ROWS]
    path = tmp_path / f"tickets.{ending}"
    with gzip.open(path, "wb") if ending.endswith("gz") else path.open("wb") as file:
        file.write((mark + end.join(lines)).encode())
    reading = read(path)
    assert reading.rows == 5
    numbers = [at for at, line in enumerate(lines, start=1) if line.startswith(LONG)]
    assert [line for line, _ in set_aside(reading)] == [f"line {at} of {path}" for at in numbers]


def test_text_after_a_closing_quote_is_set_aside_and_a_quote_within_a_value_is_text(tmp_path: Path) -> None:
    odd = ['t1,"refund"x,0.9,1,2026-11-10', 't2,5" disk,0.9,1,2026-11-10', "t3,refund"]
    path = written(tmp_path / "tickets.csv", [*GOOD, 't0,"a, b",0.9,1,2026-11-10', *odd])
    reading = read(path)
    assert sorted(reading.labels) == ['5" disk', "a, b", "refund"]
    assert set_aside(reading) == [(f"line 203 of {path}", "text after a closing quote")]
    assert bad(reading) == {"line_unreadable": 1, "date_missing": 1}


def test_a_line_of_more_than_two_megabytes_is_set_aside(tmp_path: Path) -> None:
    path = written(tmp_path / "tickets.csv", [*GOOD, f"t1,{'x' * 3_000_000},0.9,1,2026-11-10", *ROWS])
    reading = read(path)
    assert (reading.rows, set_aside(reading)) == (204, [(f"line 202 of {path}", "more than 2,000,000 bytes")])


def test_a_quote_may_be_escaped_by_a_backslash_also_beside_a_short_line(tmp_path: Path) -> None:
    rows = [*GOOD, r't1,"say \"no\", please",0.9,1,2026-11-10']
    for more in ((), ("t2,refund", "t3,refund")):
        reading = read(written(tmp_path / "tickets.csv", [*rows, *more]))
        assert 'say "no", please' in reading.labels
        assert (reading.rows, bad(reading)) == (201, {"date_missing": 2} if more else {})


def test_values_are_quoted_where_no_value_was_for_many_lines(tmp_path: Path) -> None:
    rows = [*MANY, '"t1","refund","0,5","1","2026-11-10"', 't2,"a ""b"" c",0.9,1,2026-11-10']
    reading = read(written(tmp_path / "tickets.csv", rows))
    assert {label: counts.rows for label, counts in reading.labels.items()} == {"refund": 30_001, 'a "b" c': 1}


def test_single_quotes_are_quotes_where_values_need_them(tmp_path: Path) -> None:
    rows = [f"'t{n}','refund, or not','0.9','1','2026-11-10'" for n in range(50)]
    assert read(written(tmp_path / "tickets.csv", rows)).labels["refund, or not"].rows == 50


def test_a_quote_that_does_not_end_takes_no_lines_with_it(tmp_path: Path) -> None:
    unended = 't1,"refund,0.9,1,2026-11-10 09:00'
    assert read(written(tmp_path / "alone.csv", [*MANY, unended, *MANY])).rows == 30_001  # no quotes: a plain character
    for more in (["t2,refund"], ["t2,refund", *['t3,"refund",0.9,1,2026-11-10'] * 3], ["t2,refund", LONG, unended]):
        path = written(tmp_path / "tickets.csv", [*MANY, unended, *MANY, *more])
        assert f"line 30002 of {path} has a quoted value that does not end" in problem(path)


def test_a_file_may_end_within_a_quoted_value(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    path.write_text("\n".join([HEAD, *GOOD, 't1,refund,0.9,1,"2026-11-1']), encoding="utf-8")
    reading = read(path)
    assert (reading.rows, bad(reading)) in [(200, {"date_missing": 1}), (200, {"date_malformed": 1})]


def test_unreadable_lines_of_truths_are_counted_too(tmp_path: Path) -> None:
    rows = ["t1,refund,0.9,2026-11-09", "t2,refund,0.8,2026-11-09", "t3,a,b,0.9,2026-11-09"]
    scores = written(tmp_path / "scores.csv", rows, "ticket,label,score,predicted_at")
    truths = written(tmp_path / "truths.csv", ["t1,1,2026-11-10", "t2,1,x,2026-11-11"], "id,actual,resolved_at")
    settings = {"columns": {"item": "ticket"}, "truth": {"relation": str(truths), "on": {"ticket": "id"}}}
    assert bad(read(scores, **settings)) == {"line_unreadable": 2}
    reading = read(scores, **settings, unresolved=True)
    assert (reading.rows, bad(reading)) == (1, {"line_unreadable": 2})
    assert reading.unresolved is not None


def test_lines_that_were_corrected_are_no_longer_counted(tmp_path: Path) -> None:
    path = written(tmp_path / "tickets.csv", [*ROWS, LONG])
    config = SourceConfig(relation=str(path), score_is="probability_of_label")
    with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
        first = warehouse.read("tickets", config, WEEK, now=NOW)
        written(path, [*ROWS, LONG.replace(", partly", "")])
        second = warehouse.read("tickets", config, WEEK, now=NOW)
    assert (first.rows, bad(first)) == (4, {"line_unreadable": 1})
    assert (second.rows, bad(second)) == (5, {})
    assert first.fingerprint != second.fingerprint


def test_check_names_the_lines_that_are_no_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "tickets.csv", [*ROWS, LONG, LONG])
    told = window_in_words(read(path))
    assert told.endswith(f"in all of the relation 2 rejected as line_unreadable (line 6 of {path}, line 7 of {path})")


def test_files_of_a_pattern_may_have_other_separators_titles_and_columns(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    written(folder / "a.csv", [*ROWS, "a5,refund"])
    written(folder / "b.csv", ["b1;refund;0,9;1;2026-11-10", "b2;a;b;0,9;1;2026-11-10"] * 2, HEAD.replace(",", ";"))
    written(folder / "c.csv", [HEAD.replace(",", "\t"), "c1\trefund\t0.9\t1\t2026-11-10"], "Tickets of May")
    written(folder / "d.csv", ["", HEAD, "d1,refund,0.9,1,2026-11-10"], "# Tickets, of May")
    written(folder / "e.csv", ["2026-11-10;1;0,5;web;refund;e1"], "resolved_at;actual;score;channel;label;item")
    written(folder / "f.csv", [HEAD.replace(",", ";"), "f1;refund;0,5;1;2026-11-10"], "sep=;")
    (folder / "g.csv").write_text("")
    written(folder / "h.csv", [], HEAD)
    reading = read(folder / "*.csv")
    assert {label: counts.rows for label, counts in reading.labels.items()} == {"delivery": 2, "refund": 7}
    assert bad(reading) == {"line_unreadable": 2, "date_missing": 1, "duplicate": 1}
    assert [line for line, _ in set_aside(reading)] == [f"line {n} of {folder}/b.csv" for n in (3, 5)]


def test_a_file_without_rows_has_none_and_one_without_names_is_refused(tmp_path: Path) -> None:
    assert (read(written(tmp_path / "names.csv", [])).rows, bad(read(tmp_path / "names.csv"))) == (0, {})
    for text in ("", "\n", "\n \n"):
        (path := tmp_path / "empty.csv").write_text(text)
        assert f"{path} is empty; a CSV file begins with a line of names" in problem(path)
    (tmp_path / "one.csv").write_text("item\n1\n2\n")
    assert f"{tmp_path}/one.csv has no line of names: it begins with item" in problem(tmp_path / "one.csv")


def test_a_file_that_begins_with_a_row_is_refused_with_what_it_begins_with(tmp_path: Path) -> None:
    said = problem(written(tmp_path / "tickets.csv", ROWS[1:], ROWS[0]))
    assert f"the line of names of {tmp_path}/tickets.csv has none of the columns item, label, score, " in said
    assert "it has: 1 (1), refund, 0.97, 1 (2), 2026-11-10 09:00" in said
    assert said.count("\n") == 0


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.zst"])
@pytest.mark.parametrize(("first", "then"), [("\n", "\r\n"), ("\r\n", "\n"), ("\r", "\r")])
def test_line_ends_may_be_of_any_kind_and_of_two_kinds(tmp_path: Path, first: str, then: str, ending: str) -> None:
    text = first.join([HEAD, *MANY]) + first + then.join([*ROWS[:3], "t9,refund"]) + then
    path = tmp_path / f"tickets.{ending}"
    packed = pd.DataFrame({"line": [text]})  # as it is: no quote, separator or line end is added
    with duckdb.connect() as connection:
        connection.register("lines", packed)
        form = "FORMAT csv, HEADER false, DELIM '\x01', QUOTE '', ESCAPE ''"
        connection.execute(f"COPY (FROM lines) TO '{path}' ({form})")
    reading = read(path)
    assert (reading.rows, bad(reading)) == (30_003, {"date_missing": 1})


def test_two_kinds_of_line_ends_and_quotes_say_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    for odd in ('t1,"refund",0.9,1,2026-11-10', LONG):
        path.write_bytes("\r\n".join([HEAD, *GOOD, "\n".join([*ROWS[:2], odd])]).encode())
        assert f"{path} has line ends of two kinds, those of Windows and of Unix; write all" in problem(path)


def test_values_beyond_the_names_refuse_a_file_only_where_most_lines_have_some(tmp_path: Path) -> None:
    beyond = ["a,refund,0.9,1,2026-11-10,,,", *["b,refund,0.9,1,2026-11-10,2"] * 2]
    few = written(tmp_path / "few.csv", [*ROWS[:2], *beyond])
    assert (read(few).rows, bad(read(few))["line_unreadable"]) == (3, 2)
    said = problem(written(tmp_path / "tickets.csv", beyond))
    assert f"most lines of {tmp_path}/tickets.csv have more fields than its line of names, {HEAD}: the first is" in said
    assert "is line 3; remove lines before the names" in said


def test_a_name_with_brackets_is_a_file_and_no_pattern(tmp_path: Path) -> None:
    written(tmp_path / "tickets1.csv", ["other,refund,0.9,1,2026-11-10"])
    for name in ("tickets[1].csv", "tickets (1).csv", "100% [of] ?.csv"):
        assert read(written(tmp_path / name)).rows == 4
        assert read(written(tmp_path / name, [*ROWS, LONG])).rows == 4
    assert read(tmp_path / "tickets*.csv").rows == 5


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


def test_numbers_and_dates_may_be_written_as_in_germany(tmp_path: Path) -> None:
    rows = ["1;refund;97,5;1;10.11.2026 09:00", "2;refund;41;0;11.11.2026 10:30", "3;refund;50;0;31.11.2026 10:30"]
    path = written(tmp_path / "tickets.csv", rows, HEAD.replace(",", ";"))
    reading = read(path, score_scale=100, types={"resolved_at": "%d.%m.%Y %H:%M"})
    assert found(reading) == {"refund": (2, pytest.approx(1.385), 1.0)}
    assert bad(reading) == {"date_malformed": 1}


def test_a_comma_that_may_be_of_thousands_is_a_decimal_point_in_scores_only(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    weights = ("1,500", "2,5", "0,125", "12,000,000", "3")
    rows = [f"t{n};refund;0,900;1;2026-11-10;{weight}" for n, weight in enumerate(weights)]
    reading = read(written(path, rows, HEAD.replace(",", ";") + ";weight"))
    assert bad(reading) == {"weight_invalid": 2}
    assert found(reading)["refund"][1:] == (pytest.approx(0.9 * 5.625), 5.625)


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
    for types, kind in (({}, "object"), ({"length": "text"}, "object"), ({"length": "number"}, "float64")):
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


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_other_engines_read_no_files(engine: str, tmp_path: Path) -> None:
    from monitor.warehouse.checks import OpenSource, relation_of
    from monitor.warehouse.engines import ENGINES

    config = SourceConfig(relation="data/*.csv", score_is="probability_of_label")
    nothing = None  # is asked
    with pytest.raises(RelationError) as refused:
        relation_of(OpenSource(nothing, "tickets", config, ENGINES[engine].dialect))
    assert str(refused.value) == f"tickets: {engine} cannot read CSV files; use DuckDB, or name a table"


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


def test_parquet_files_have_columns_in_any_order_and_the_widest_type_of_each(tmp_path: Path) -> None:
    rows = (
        "'t1' AS item, 'refund' AS label, 1 AS score, true AS actual, TIMESTAMP '2026-11-10 09:00' AS resolved_at",
        "0.97::DOUBLE AS score, 't2' AS item, 'refund' AS label, 0.75 AS actual, "
        "TIMESTAMPTZ '2026-11-10 09:00+00' AS resolved_at, 'web' AS channel",
    )
    for order in (rows, rows[::-1]):
        for name, row in zip("ab", order, strict=True):
            duckdb.sql(f"COPY (SELECT {row}) TO '{tmp_path}/{name}.parquet'")
        reading = read(tmp_path / "*.parquet", segments=["channel"])
        assert found(reading) == {"refund": (2, pytest.approx(1.97), 1.75)}
        assert sorted(value for _, value in reading.segments) == ["(none)", "web"]


NANOSECONDS = "TIMESTAMP_NS '2026-11-15 23:59:59.999999600'"


@pytest.mark.parametrize("late", [NANOSECONDS, f"({NANOSECONDS} AT TIME ZONE 'UTC')"])
def test_a_date_in_the_last_half_microsecond_of_a_window_is_in_that_window(tmp_path: Path, late: str) -> None:
    first = late.replace("11-15", "11-08")  # of the week before
    rows = (f"('t1', 'refund', 0.9, 1, {late})", f"('t2', 'refund', 0.8, 1, {first})")
    table = f"SELECT * FROM (VALUES {', '.join(rows)}) AS t ({HEAD})"
    duckdb.sql(f"COPY ({table}) TO '{tmp_path}/tickets.parquet'")
    assert found(read(tmp_path / "tickets.parquet")) == {"refund": (1, pytest.approx(0.9), 1.0)}
    assert read(table).rows == 1
    forever = table.replace(first, "'infinity'" if "ZONE" not in late else first)
    assert bad(read(forever)) == ({"date_in_future": 1} if "ZONE" not in late else {})


def test_text_in_parquet_files_says_that_types_can_make_it_a_number(tmp_path: Path) -> None:
    plain = written(tmp_path / "plain.csv", head=HEAD.replace("score", "conf"))
    duckdb.sql(f"COPY (SELECT * FROM read_csv('{plain}', all_varchar = true)) TO '{tmp_path}/tickets.parquet'")
    with pytest.raises(RelationError, match=r"column conf \(score\) is text, such as 0.97; write types: \{conf: n"):
        read(tmp_path / "tickets.parquet", columns={"score": "conf"})
    types = {"conf": "number", "actual": "number"}
    assert read(tmp_path / "tickets.parquet", columns={"score": "conf"}, types=types).rows == 4


@pytest.mark.parametrize(
    ("pattern", "written_so"),
    [("%Y-%m-%d %H:%M:%S %z", "2026-11-10 01:30:00 +0200"), ("%d/%b/%Y:%H:%M:%S %z", "10/Nov/2026:01:30:00 +0200")],
)
def test_a_pattern_with_a_time_zone_is_heeded_and_described(tmp_path: Path, pattern: str, written_so: str) -> None:
    path = written(tmp_path / "tickets.csv", [f"t1,refund,0.9,1,{written_so}"])
    config = SourceConfig(relation=str(path), score_is="probability_of_label", types={"resolved_at": pattern})
    with Warehouse.from_url("duckdb://", relations=config.relations) as warehouse:
        survey = warehouse.survey("tickets", config)
        assert (survey.first, survey.zone) == (datetime(2026, 11, 9, 23, 30, tzinfo=UTC), True)
        plain = config.model_copy(update={"types": {}})
        assert warehouse.survey("tickets", plain).unread == int("%b" in pattern)  # the other is an ISO date


def test_blanks_before_a_date_are_no_part_of_it(tmp_path: Path) -> None:
    rows = ["t1, refund, 0.9, 1, 2026-11-10 09:00", "t2, refund, 0.8 , 0 ,2026-11-11T09:00:00Z "]
    reading = read(written(tmp_path / "tickets.csv", rows, HEAD.replace(",", " , ")))
    assert (reading.rows, bad(reading)) == (2, {})
