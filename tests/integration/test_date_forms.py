"""A date is the same in a CSV file, DuckDB and SQLite; what is none is refused with its form and what to do."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.operations.describe_source import describe
from monitor.warehouse.dates import instant_of
from monitor.warehouse.reader import Warehouse
from monitor.warehouse.statements import ExampleQuery
from tests.conftest import Loader

pytestmark = pytest.mark.postgres

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
EVERY = ExampleQuery(right=True, limit=100)
DAY = "2026-11-11"
READ = {
    DAY: "00:00",
    f"{DAY}T10:00": "10:00",
    f"{DAY}t10:00:00z": "10:00",
    f" {DAY} 9:05 ": "09:05",
    f"{DAY} 10:00:00 Z": "10:00",
    f"{DAY} 10:00:00 +00:00": "10:00",
    f"{DAY} 10:00:00 -0300": "13:00",
    f"{DAY} 10:00:00.123 +01": "09:00:00.123",
    f"{DAY} 10:00:00,123": "10:00:00.123",
    f"{DAY}  10:00:00.1234567": "10:00:00.123456",
    f"{DAY} 10:00:00 utc": "10:00",
    f"{DAY} 10:00 Europe/Berlin": "09:00",
    f"{DAY} 10:00:00 America/Argentina/Buenos_Aires": "13:00",
    f"{DAY} 10:00:00 Etc/GMT+1": "11:00",
}
REFUSED = (
    "11/11/2026 2:30 PM", "11.11.2026", "11 Nov 2026 10:00", "46336.5", "1794391200", "1794391200000", "2461356.5",
    "20261111",
    f"{DAY} 10:00:00 PM", f"{DAY} 24:00", f"{DAY} 10:00:60", "2026-02-30", f"{DAY} (BC)", f"{DAY} 10:00 CET",
    f"{DAY} 10:00 Mars/Base", "now", "infinity", "0000-01-01", "-", f"{DAY} 10:00+24:00",
)  # fmt: skip


def table_of(texts: list[str]) -> list[dict[str, object]]:
    return [
        {"item": f"t{place:02}", "label": "refund", "score": 0.9, "actual": 1, "resolved_at": text}
        for place, text in enumerate(texts)
    ]


def source(**settings: object) -> SourceConfig:
    known = {"relation": "resolved_tickets", "score_is": "probability_of_label"}
    return SourceConfig.model_validate(known | settings)


def test_the_same_texts_are_the_same_dates_in_every_engine(load: Loader, tmp_path: Path) -> None:
    texts = [*READ, *REFUSED]
    dates = [datetime.fromisoformat(f"{DAY} {clock}+00:00") for clock in READ.values()]
    assert [instant_of(text) for text in texts] == [*dates, *[None] * len(REFUSED)]
    file = tmp_path / "tickets.csv"
    lines = (f'{row["item"]},refund,0.9,1,"{row["resolved_at"]}"' for row in table_of(texts))
    file.write_text("\n".join(["item,label,score,actual,resolved_at", *lines]), encoding="utf-8")
    tables = load(table_of(texts), types={"resolved_at": "TEXT"}, engines=["duckdb", "sqlite"])
    with Warehouse.from_url("duckdb://", relations=[str(file)]) as of_file:
        for engine, warehouse in {**tables, "file": of_file}.items():
            config = source(relation=str(file)) if engine == "file" else source()
            rows = warehouse.examples("tickets", config, WEEK, EVERY, now=NOW)
            read = {row.item: row.resolved_at for row in rows}
            assert read == {f"t{place:02}": when for place, when in enumerate(dates)}, engine
            reading = warehouse.read("tickets", config, WEEK, now=NOW)
            assert {(each.reason, each.rows) for each in reading.quality} == {("date_malformed", len(REFUSED))}, engine


FORMS = {
    "46336.5": ("days of Excel", "(CAST(closed AS DOUBLE PRECISION) - 25569) * 86400"),
    "1794391200": ("seconds since 1970", "to_timestamp(CAST(closed AS DOUBLE PRECISION))"),
    "1794391200000": ("milliseconds since 1970", "to_timestamp(CAST(closed AS DOUBLE PRECISION) / 1000.0)"),
    "2461356.5": ("Julian days", "(CAST(closed AS DOUBLE PRECISION) - 2440587.5) * 86400"),
    "11/13/2026 2:30 PM": ("written as %m/%d/%Y %I:%M %p", "strptime(closed, '%m/%d/%Y %I:%M %p')"),
    "13 Nov 2026": ("written as %d %b %Y", "strptime(closed, '%d %b %Y')"),
}


@pytest.mark.parametrize("text", FORMS)
def test_another_form_is_named_with_a_remedy_of_the_engine_that_works(load: Loader, text: str) -> None:
    name, sql = FORMS[text]
    rows = [{("closed" if key == "resolved_at" else key): value for key, value in row.items()}
            for row in table_of([text] * 3)]  # fmt: skip
    config = source(columns={"resolved_at": "closed"})
    for engine, warehouse in load(rows, types={"closed": "TEXT"}).items():
        if engine == "postgresql":
            (problem,) = warehouse.check("tickets", config)
            said = str(problem)
        else:
            (said, *_) = describe(warehouse, "tickets", config, warehouse.read("tickets", config, WEEK, now=NOW)).doubts
        assert name in said, engine
        if engine != "duckdb":
            continue
        assert sql in said
        made = said.rpartition("SELECT: ")[2]
        select = f"SELECT * EXCLUDE (closed), {made} AS resolved_at FROM resolved_tickets"
        assert warehouse.read("tickets", source(relation=select), WEEK, now=NOW).rows == 3


@pytest.mark.parametrize("number", [46336.5, 1794391200, 1794391200000, 2461356.5])
def test_numbers_are_named_by_every_engine_and_made_dates_by_its_remedy(load: Loader, number: float) -> None:
    config = source()
    for engine, warehouse in load(table_of([number] * 3), types={"resolved_at": "DOUBLE PRECISION"}).items():  # type: ignore[list-item]
        if engine == "sqlite" and number == 1794391200:
            assert warehouse.read("tickets", config, WEEK, now=NOW).rows == 3
            continue
        if engine == "sqlite":
            (said, *_) = describe(warehouse, "tickets", config, warehouse.read("tickets", config, WEEK, now=NOW)).doubts
        else:
            (problem,) = warehouse.check("tickets", config)
            said = str(problem)
        made = said.rpartition("SELECT: ")[2]
        select = f"SELECT item, label, score, actual, {made} AS resolved_at FROM resolved_tickets"
        assert warehouse.read("tickets", source(relation=select), WEEK, now=NOW).rows == 3, engine


def test_dates_beyond_python_end_no_check(load: Loader) -> None:
    odd = ["9999-12-31 23:59:59-01:00", "0001-01-01 00:00:00+01:00", "10000-01-01", "-0044-03-15", "", " "]
    for engine, warehouse in load(
        table_of([*odd, DAY]), types={"resolved_at": "TEXT"}, engines=["duckdb", "sqlite"]
    ).items():
        reading = warehouse.read("tickets", source(), WEEK, now=NOW)
        assert reading.rows == 1, engine
        assert reading.rows + sum(each.rows for each in reading.quality) == len(odd) + 1, engine
        describe(warehouse, "tickets", source(), reading)
