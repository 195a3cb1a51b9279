"""Relations taken apart, statements as text, and the small arithmetic of the warehouse, without a database."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from monitor.config.model import SourceConfig
from monitor.config.relation import CsvFiles, ParquetFiles, Query, RelationSyntaxError, TableName, parse_relation
from monitor.core import windows
from monitor.core.records import RejectReason
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.duckdb import DuckDB
from monitor.warehouse.postgresql import PostgreSQL
from monitor.warehouse.relation import from_clause
from monitor.warehouse.sqlite import SQLite, microseconds
from monitor.warehouse.statements import Statements

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
BAD_ROWS = Path(__file__).parents[3] / "docs" / "bad-rows.md"


def statements(engine: str = "postgresql", **settings: Any) -> Statements:
    config = SourceConfig(**{"relation": "tickets", "score_is": "probability_of_label"} | settings)
    kinds = {"item": "text", "label": "text", "score": "number", "actual": "number", "resolved_at": "timestamptz"}
    columns = {name: Column(f"the {name}", kind) for name, kind in kinds.items()}  # type: ignore[arg-type]
    layout = Layout(from_clause(parse_relation(config.relation)), columns)
    return Statements(config, layout, DIALECTS[engine], WEEK, datetime(2026, 11, 16, 6, tzinfo=UTC))


DIALECTS = {dialect.name: dialect for dialect in (DuckDB(), PostgreSQL(), SQLite())}


def sql(statement: sa.Select[Any] | sa.CompoundSelect[Any]) -> str:
    return str(statement.compile(dialect=postgresql.dialect()))


# --- relations


@pytest.mark.parametrize(
    ("text", "relation"),
    [
        ("tickets", TableName(("tickets",))),
        (" support.tickets ", TableName(("support", "tickets"))),
        ('"Support Team"."a ""b"".c"', TableName(("Support Team", 'a "b".c'))),
        ("data/2026/*.parquet", ParquetFiles("data/2026/*.parquet")),
        ("s3://bucket/tickets.PARQUET", ParquetFiles("s3://bucket/tickets.PARQUET")),
        ("SELECT 1", Query("SELECT 1")),
        ("/* all */ select ';' -- ;\n;", Query("select ';'")),
        ("WITH a AS (SELECT 1) SELECT * FROM a ; ", Query("WITH a AS (SELECT 1) SELECT * FROM a")),
        ("SELECT \"update\", 'drop' FROM t", Query("SELECT \"update\", 'drop' FROM t")),
        ("SELECT * FROM tickets;  -- all of them", Query("SELECT * FROM tickets")),
        ("SELECT * FROM lake.parquet", Query("SELECT * FROM lake.parquet")),
        ("-- of the lake\n(SELECT * FROM exports.csv)", Query("(SELECT * FROM exports.csv)")),
        ("with/select-2026.csv", CsvFiles("with/select-2026.csv")),
        ("select*.csv", CsvFiles("select*.csv")),
        ("/**/tickets.parquet", ParquetFiles("/**/tickets.parquet")),
    ],
)
def test_a_relation_is_a_name_a_path_or_one_select(text: str, relation: object) -> None:
    assert parse_relation(text) == relation


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1; SELECT 2", "several statements"),
        ("SELECT 1;;", "several statements"),
        ("SELECT 1) AS x, (SELECT 2", "never opened"),
        ("SELECT (1", "never closed"),
        ("SELECT 'open", "a string that does not end"),
        ("SELECT 'a\\' OR 1=1 --'", "backslash"),
        ('SELECT "open', "a quoted name that does not end"),
        ("SELECT $tag$;$tag$", "dollar-quoted"),
        ("SELECT /* open", "comment"),
        ("SELECT /* a /* b */ 1", "comment"),
        ("WITH x AS (update t SET a = 1 RETURNING *) SELECT * FROM x", "UPDATE"),
        ("SELECT 1 UNION (Delete FROM t)", "DELETE"),
        ("SELECT update FROM t", "UPDATE"),
        ("DELETE FROM tickets", "DELETE statement"),
        ("tickets; DROP TABLE tickets", "several statements"),
        ("data/*.csv*", "does not end as a file of data does"),
        ("a.b.c.d", "is not a relation"),
        ("tickets t", "is not a relation"),
        ("", "is not a relation"),
    ],
)
def test_anything_else_is_refused_with_its_fix(text: str, told: str) -> None:
    with pytest.raises(RelationSyntaxError, match=re.escape(told)) as raised:
        parse_relation(text)
    assert raised.value.remedy


def test_a_name_is_quoted_where_it_must_be_and_only_there() -> None:
    for text, quoted in (
        ("tickets", "tickets"),
        ("a.Tickets", 'a."Tickets"'),
        ('"x""; DROP"', '"x""; DROP"'),
        ("order", '"order"'),
    ):
        assert f"FROM {quoted} AS relation" in sql(
            sa.select(sa.text("1")).select_from(from_clause(parse_relation(text)))
        )


def test_a_select_is_a_subquery_and_nothing_in_it_is_a_placeholder() -> None:
    clause = from_clause(parse_relation("SELECT ':a' AS x, 1::int AS y, '\\:b' AS z -- end"))
    compiled = sa.select(sa.literal_column("*")).select_from(clause).compile(dialect=sqlite.dialect())
    assert "FROM (SELECT ':a' AS x, 1::int AS y, '\\:b' AS z\n) AS relation" in str(compiled)
    assert compiled.params == {}


def test_a_path_is_a_bound_value() -> None:
    compiled = sa.select(sa.literal_column("*")).select_from(from_clause(ParquetFiles("it's.parquet"))).compile()
    assert list(compiled.params.values()) == ["it's.parquet"]
    assert "it's" not in str(compiled)


# --- statements


def all_statements(built: Statements) -> list[sa.Select[Any] | sa.CompoundSelect[Any]]:
    examples = [
        built.examples([reason])
        for reason in (RejectReason.SCORE_MISSING, RejectReason.DATE_MISSING, RejectReason.DUPLICATE)
    ]
    sums = [replace(built, latest=True).groups(), built.groups("label"), built.feature_sample(5)]
    more = [built.of_items(), built.undated_examples(), built.number_of_values("label", 200)]
    return [
        built.rejected(), built.undated(), built.repeated(), built.fingerprint(), *examples, *sums, *more
    ]  # fmt: skip


@pytest.mark.parametrize("engine", sorted(DIALECTS))
def test_names_are_quoted_and_labels_are_bound_in_every_statement(engine: str) -> None:
    label = "'; DROP TABLE tickets; --"
    built = statements(engine, labels={label: {"automate_at": 0.9}}, segments=("label",), features=("item",))
    for statement in all_statements(built):
        text = sql(statement)
        assert 'relation."the item"' in text
        assert "DROP" not in text
    assert label in built.groups().compile(dialect=postgresql.dialect()).params.values()


# --- small arithmetic


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1970-01-02", 86_400.0), ("1970-01-01 00:01", 60.0), ("1970-01-01T00:00:01.000001", 1.000001),
        ("1970-01-01T00:00:00z", 0.0), ("1970-01-01 02:00:00+02", 0.0), ("1970-01-01T02:00:00+0200", 0.0),
        (" 1970-01-01T00:00:00-00:30 ", 1800.0), (1_794_391_200, 1_794_391_200.0), (1.5e9, 1.5e9),
    ],
)  # fmt: skip
def test_an_instant_is_an_iso_date_or_seconds_since_1970(value: object, seconds: float) -> None:
    assert microseconds(value) == round(seconds * 1_000_000)


@pytest.mark.parametrize(
    "value",
    ["now", "", "2026-02-30", "2026-11-10 25:00", "20261110", "2026-W46-1", "2026-11-10 noon", "1763424000",
     None, b"2026-11-10", 1.8e12, 46_336.5, 20_261_110, float("nan"), float("inf"), "0001-01-01T00:00:00+14:00x",
     "٢٠٢٦-11-10"],
)  # fmt: skip
def test_anything_else_is_no_instant(value: object) -> None:
    assert microseconds(value) is None


# --- documentation


def test_every_reason_to_set_a_row_aside_has_a_section_that_says_what_to_do() -> None:
    sections = re.split(r"^## ", BAD_ROWS.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    titles = [section.splitlines()[0].strip("`") for section in sections]
    assert titles == [reason.value for reason in RejectReason]
    for title, section in zip(titles, sections, strict=True):
        assert re.search(r"\*\*What it is\.\*\* \S", section), title
        assert re.search(r"\*\*What to do\.\*\* \S", section), title
