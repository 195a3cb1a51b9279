"""What `calmon check` says of data: rows, labels, dates, what was rejected, and what contradicts the configuration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.model import SourceConfig
from monitor.context import utc_now
from monitor.core import windows
from monitor.operations.describe_source import Description, describe
from monitor.warehouse.reader import Warehouse
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
Row = dict[str, Any]


def rows(n: int = 120, **changed: Any) -> list[Row]:
    return [
        {"item": f"t{number // 2}", "label": ("billing", "refund")[number % 2], "score": (number % 10) / 10,
         "actual": number % 3 % 2, "resolved_at": WEEK.start + timedelta(hours=number)} | changed
        for number in range(n)
    ]  # fmt: skip


def described(warehouse: Warehouse, **settings: Any) -> Description:
    known = {"relation": "resolved_tickets", "score_is": "probability_of_label"}
    source = SourceConfig.model_validate(known | settings)
    reading = warehouse.read("tickets", source, WEEK, now=NOW, whole=False)
    return describe(warehouse, "tickets", source, reading)


def test_a_source_is_described_alike_by_every_engine(load: Loader) -> None:
    data = rows()
    data[5] |= {"score": None}
    data[9] |= {"score": 1.5}
    for engine, warehouse in load(data).items():
        found = described(warehouse)
        zone = "dates with a time zone"
        assert found.data == f"120 rows, 2 labels, from 2026-11-09 to 2026-11-13, {zone}", engine
        assert found.window == (
            "118 rows: billing 60, refund 58; 1 rejected (0.8%) as score_missing (t2); "
            "1 rejected (0.8%) as score_out_of_range (t4)"
        ), engine
        assert found.doubts == (
            "1 of 120 scores are above 1 (up to 1.5), and these rows are rejected: find out how they are made",
        ), engine
    for engine, doubts in first_doubts(load([*data[:9], data[9] | {"score": 97.0}, *data[10:]])).items():
        assert doubts == (
            "1 of 120 scores are above 1 (up to 97.0), and these rows are rejected: find out how they are made; "
            "if these alone are percentages, divide them by 100 in a SELECT",
        ), engine
    for engine, doubts in first_doubts(load([row | {"score": 1.00001} for row in data])).items():
        assert doubts == (
            "120 of 120 scores are above 1 (up to 1.00001), and these rows are rejected: find out how they are made",
        ), engine


def test_an_empty_table_is_said_to_be_empty(load: Loader) -> None:
    types = dict(
        zip(
            ("item", "label", "score", "actual", "resolved_at"),
            ("TEXT", "TEXT", "DOUBLE PRECISION", "INTEGER", "TIMESTAMP"),
            strict=True,
        )
    )
    for engine, warehouse in load([], types=types).items():
        found = described(warehouse)
        assert (found.data, found.window) == ("no rows", "0 rows"), engine
        assert found.doubts == ("there is no row: nothing can be evaluated",), engine


def first_doubts(warehouses: dict[str, Warehouse], **settings: Any) -> dict[str, Sequence[str]]:
    return {engine: described(warehouse, **settings).doubts for engine, warehouse in warehouses.items()}


def test_scores_in_percent_and_truths_that_are_null_are_doubted(load: Loader) -> None:
    data = [row | {"score": 97.0, "actual": None} for row in rows()]
    for engine, doubts in first_doubts(load(data)).items():
        assert doubts == (
            "scores go up to 97: if they are in percent, write score_scale: 100",
            "no row has a truth (all are NULL or empty): nothing can be evaluated until some have",
        ), engine
    for engine, doubts in first_doubts(load(rows()), score_scale=100).items():
        assert doubts == ("no score is above 0.9, so score_scale: 100 does not fit: leave it out",), engine


@pytest.mark.parametrize("scale", [1, 100])
def test_scores_and_outcomes_that_rounding_took_out_of_their_range_count_as_its_ends(
    load: Loader, scale: float
) -> None:
    data = [row | {"score": row["score"] * scale, "actual": float(row["actual"])} for row in rows()]
    for place, score in enumerate((1.0000000000000002, 1.0000001, -1e-17, -1e-7)):
        data[place] |= {"score": score * scale}
    data[4] |= {"actual": 1.0000000000000002}
    scaled = SourceConfig(relation="resolved_tickets", score_is="probability_of_label", score_scale=scale)
    for engine, warehouse in load(data).items():
        reading = warehouse.read("tickets", scaled, WEEK, now=NOW)
        assert (reading.rows, reading.quality) == (120, ()), engine
        cells = {int(cell) for counts in reading.labels.values() for cell in counts.cell}
        assert {0, 10_000} <= cells, engine
        assert not described(warehouse, score_scale=scale).doubts, engine
    data[0] |= {"score": 1.0001 * scale}
    for engine, warehouse in load(data).items():
        (lost,) = warehouse.read("tickets", scaled, WEEK, now=NOW).quality
        assert (lost.reason, lost.rows) == ("score_out_of_range", 1), engine


def test_dates_that_do_not_fit_the_pattern_in_types_are_said_not_to_fit_it(tmp_path: Path) -> None:
    path = tmp_path / "tickets.csv"
    lines = [f"t{n},refund,0.{n},1,{day}" for n, day in enumerate(("10.11.2026", "11.11.2026", "31.11.2026", "n/a"))]
    path.write_text("\n".join(["item,label,score,actual,closed", *lines]), encoding="utf-8")
    settings = {"relation": str(path), "columns": {"resolved_at": "closed"}}
    for named in ("resolved_at", "closed"):
        with Warehouse.from_url("duckdb://", relations=[str(path)]) as warehouse:
            (doubt,) = described(warehouse, **settings, types={named: "%d.%m.%Y"}).doubts
        misfits = "2 of 4 dates (31.11.2026) do not fit %d.%m.%Y"
        assert doubt == f"{misfits}, the pattern in types, and these rows are rejected", named
    with Warehouse.from_url("duckdb://", relations=[str(path)]) as warehouse:
        (doubt, *_) = described(warehouse, **settings).doubts
    assert doubt.endswith('write types: {closed: "%d.%m.%Y"}')


def test_a_value_that_is_no_date_hides_neither_the_time_zone_of_the_others_nor_gets_the_advice_for_dates(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tickets.csv"
    lines = [f"t{n},refund,0.{n},1,{day}" for n, day in enumerate(("2026-11-10T08:00:00+01:00", "", "unknown"))]
    path.write_text("\n".join(["item,label,score,actual,resolved_at", *lines]), encoding="utf-8")
    with Warehouse.from_url("duckdb://", relations=[str(path)]) as warehouse:
        found = described(warehouse, relation=str(path))
    assert found.data.endswith("from 2026-11-10 to 2026-11-10, dates with a time zone")
    (doubt,) = [each for each in found.doubts if "dates" in each]
    assert doubt == (
        "1 of 3 dates (unknown) are no ISO dates, and these rows are rejected: correct them where they come from: no "
        "form of a date fits such a value"
    )


def test_one_row_an_item_without_predicted_is_doubted(load: Loader) -> None:
    data = [row | {"item": f"t{place}"} for place, row in enumerate(rows())]
    for engine, (doubt,) in first_doubts(load(data)).items():
        assert doubt.startswith("there is one row an item and no column predicted, so a row with a score below .5"), (
            engine
        )
    for engine, doubts in first_doubts(load([row | {"predicted": 1} for row in data])).items():
        assert doubts == (), engine


def test_truths_of_which_none_is_positive_are_doubted(load: Loader) -> None:
    data = [row | {"category": row["label"].title()} for row in rows()]
    config = {"kind": "single_label", "score_is": "confidence_in_prediction"}
    columns = {"predicted_label": "label", "confidence": "score", "true_label": "category"}
    for engine, (doubt, *_) in first_doubts(load(data), **config, columns=columns).items():
        assert doubt == "no truth of 120 is positive: they may be of another spelling than the labels", engine
    for engine, (doubt,) in first_doubts(
        load([row | {"actual": "ja"} for row in data], types={"actual": "TEXT"}), positive=["yes"]
    ).items():
        assert (
            doubt == "no truth of 120 is positive: they may be written in other words: give its words with positive"
        ), engine


def test_a_week_without_rows_is_named_with_the_date_of_the_newest(load: Loader) -> None:
    data = [row | {"resolved_at": row["resolved_at"] - timedelta(days=21)} for row in rows()]
    for engine, (doubt,) in first_doubts(load(data)).items():
        assert doubt == "no row is of 2026-W46; the newest is of 2026-10-23", engine


def test_rows_of_the_future_are_counted_in_the_relation_and_not_in_the_week(load: Loader) -> None:
    data = rows()
    data[3] |= {"resolved_at": NOW + timedelta(days=9)}
    for engine, warehouse in load(data).items():
        told = "119 rows: billing 60, refund 59; in all of the relation 1 rejected as date_in_future (t1)"
        assert described(warehouse).window == told, engine


@pytest.mark.parametrize("type_", ["TIMESTAMP WITH TIME ZONE", "TIMESTAMP", "DATE"])
@pytest.mark.parametrize("odd", ["infinity", "-infinity", "0044-03-15 BC", "12026-11-10"])
def test_a_date_that_python_does_not_have_is_left_out_of_the_range(load: Loader, odd: str, type_: str) -> None:
    engines = ["duckdb", "postgresql"]
    written = odd if "BC" not in odd else "0044-03-15 (BC)"
    for engine in engines:
        date = written if engine == "duckdb" else odd
        then = [f"UPDATE resolved_tickets SET resolved_at = '{date}' WHERE item = 't7'"]
        warehouse = load(rows(), types={"resolved_at": type_}, then=then, engines=[engine])[engine]
        found = described(warehouse)
        assert found.data.startswith("120 rows, 2 labels, from 2026-11-09 to 2026-11-13, "), engine
        dates = {sample.name: sample.values for sample in warehouse.samples("resolved_tickets")}["resolved_at"]
        assert len(dates) == 118, engine


def test_sources_of_numbers_and_of_made_scores_are_described(load: Loader) -> None:
    numbers = [row | {"predicted": 3.0, "deviation": 1.0, "actual": 2.5} for row in rows()]
    made = [row | {"token_logprobs": "[-0.1]"} for row in rows()]
    for engine, warehouse in load(numbers, types={"deviation": "DOUBLE PRECISION"}).items():
        assert described(warehouse, kind="regression").doubts == (), engine
    for engine, warehouse in load(made).items():
        score = {"from": "token_logprobs", "method": "mean_probability"}
        assert described(warehouse, score=score).doubts == (), engine


def test_check_prints_what_it_found_and_where_the_history_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [f"t{number},refund,{number % 100},1,2026-11-10" for number in range(200)]
    (tmp_path / "tickets.csv").write_text("\n".join(["item,label,score,actual,resolved_at", *lines]), encoding="utf-8")
    (tmp_path / "alerts.yaml").write_text(
        "version: 1\nsources: {tickets: {relation: tickets.csv, score_is: probability_of_label}}\n"
        "rules: [{id: a, metric: ece, threshold: 0.05}]\nautomation: {when_not_evaluated: keep}\n",
        encoding="utf-8",
    )
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["check"])
    assert found.exit_code == 0, found.output
    assert "tickets.csv can be read: 200 rows, 1 label, from 2026-11-10 to 2026-11-10" in found.stdout
    assert "scores go up to 99: if they are in percent, write score_scale: 100" in found.stdout
    assert "sqlite:///var/history.sqlite does not exist yet" in found.stdout


def test_check_names_labels_of_alerts_yaml_that_no_row_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    day = (utc_now() - timedelta(days=7)).date()  # one of the days below is in the last ready week, whatever today is
    lines = [
        f"t{n},{label},0.{n % 90 + 10},1,{day - timedelta(days=d)}"
        for n in range(40)
        for label in ("refund", "spam")
        for d in (0, 4, 8)
    ]
    lines += [
        f"b{n},bad,7.5,1,{day - timedelta(days=d)}" for n in range(3) for d in (0, 4, 8)
    ]  # rejected rows are rows
    (tmp_path / "tickets.csv").write_text("\n".join(["item,label,score,actual,resolved_at", *lines]), encoding="utf-8")
    (tmp_path / "empty.csv").write_text(f"item,label,score,actual,resolved_at\nt1,old,0.5,1,{day - timedelta(days=90)}")
    (tmp_path / "alerts.yaml").write_text(
        "version: 1\nsources:\n"
        "  empty: {relation: empty.csv, score_is: probability_of_label, labels: {old: {}}}\n"
        "  tickets: {relation: tickets.csv, score_is: probability_of_label, "
        "labels: {refnd: {critical: true}, spam: {}, bad: {}}}\n"
        "  gone: {relation: gone.csv, score_is: probability_of_label}\n"
        "rules:\n  - {id: a, metric: ece, threshold: 0.05, match: {label: spam, source: tickets}}\n"
        "  - {id: b, metric: ece, threshold: 0.05, match: {label: zebra, source: tickets}}\n"
        "  - {id: c, metric: ece, threshold: 0.05, match: {label: zebra}}\n"
        "  - {id: d, metric: ece, threshold: 0.05, match: {label: spam, critical: true}}\n"
        "  - {id: e, metric: ece, threshold: 0.05, match: {except: [spam, refnd], source: tickets}}\n"
        "routes:\n  - {match: {label: refund, source: tickets}, channel: '#a'}\n"
        "  - {match: {label: spm, source: tickets}, channel: '#b'}\n"
        "automation: {when_not_evaluated: keep}\n",
        encoding="utf-8",
    )
    found = CliRunner(env={"COLUMNS": "300"}).invoke(app, ["check"])
    said = {" ".join(line.split()) for line in found.stdout.splitlines() if "which no row of the last week has" in line}
    assert said == {
        "source tickets note labels names the label 'refnd', which no row of the last week has: is it 'refund'?",
        "rule b note match names the label 'zebra', which no row of the last week has",
        "rule e note match names the label 'refnd', which no row of the last week has: is it 'refund'?",
        "route 2 note match names the label 'spm', which no row of the last week has: is it 'spam'?",
    }, found.output
    assert "match names the label 'spam', which is not critical, so it has no verdict" in found.stdout
