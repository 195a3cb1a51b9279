"""One statement of each kind in the SQL of every engine that comes as an extra, by the dialect of its own package.

``python -m tests.engines.compiled`` writes those of engines that no test can run to ``tests/cases/sql``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.config.relation import TableName
from monitor.core.records import RejectReason, Window
from monitor.core.windows import week
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.cloud import division_options
from monitor.warehouse.engines import ENGINES
from monitor.warehouse.items import STATEMENTS, NumberStatements, RankedStatements, WholeStatements
from monitor.warehouse.relation import from_clause
from monitor.warehouse.statements import ExampleQuery, Statements
from monitor.warehouse.unresolved import UnresolvedStatements

FOLDER = Path(__file__).parents[1] / "cases" / "sql"
WINDOW = week("2026-W46", ZoneInfo("Europe/Berlin"))
SPAN = week("2026-W45", ZoneInfo("Europe/Berlin"))
NOW = datetime(2026, 11, 17, tzinfo=UTC)
COMPILED = ("clickhouse", "spark", "snowflake", "bigquery", "redshift", "trino")
NOT_RUN = ("bigquery", "redshift", "trino")
"""What no test can run; their SQL is kept, so that a change of it is seen."""
SOURCE = SourceConfig(
    relation="marts.resolved_tickets", score_is="probability_of_label", segments=["channel"], features=["channel"],
    labels={"it's": {"automate_at": 0.9}}, automate_at=0.8,
)  # fmt: skip
KINDS = {
    "item": "text", "label": "text", "score": "number", "actual": "boolean", "predicted": "number",
    "resolved_at": "timestamptz", "predicted_at": "date", "cluster": "text", "weight": "number",
    "model_version": "text", "channel": "text", "deviation": "number",
}  # fmt: skip


def sql_dialect(engine: str) -> sa.Dialect:
    """The dialect of the engine's package, with named parameters where it has the choice."""
    if engine == "clickhouse":
        from clickhouse_connect.cc_sqlalchemy.dialect import ClickHouseDialect as Found
    elif engine == "spark":
        from monitor.warehouse.spark_driver import SessionDialect as Found
    elif engine == "snowflake":
        from snowflake.sqlalchemy.snowdialect import SnowflakeDialect
        from snowflake.sqlalchemy.version import VERSION

        return SnowflakeDialect(**division_options(VERSION))
    elif engine == "bigquery":
        from sqlalchemy_bigquery.base import BigQueryDialect as Found
    elif engine == "redshift":
        from sqlalchemy_redshift.dialect import RedshiftDialect_psycopg2 as Found
    else:
        from trino.sqlalchemy.dialect import TrinoDialect as Found
    return Found()


def statements(engine: str) -> Iterator[tuple[str, sa.Select[Any]]]:
    """One statement of each kind, by what it is for."""
    columns = {name: Column(name, kind) for name, kind in KINDS.items()}
    layout = Layout(from_clause(TableName(("marts", "resolved_tickets"))), columns)
    bare = {name: column for name, column in columns.items() if name not in ("weight", "cluster")}
    dialect = ENGINES[engine].dialect
    plain = Statements(SOURCE, layout, dialect, WINDOW, NOW)
    unweighted = replace(plain, layout=replace(layout, columns=bare))
    kinds = ("top_k", "multiclass", "regression")
    ranked, whole, numbers = (STATEMENTS[kind](SOURCE, layout, dialect, WINDOW, NOW) for kind in kinds)
    assert isinstance(ranked, RankedStatements)
    assert isinstance(whole, WholeStatements)
    assert isinstance(numbers, NumberStatements)
    span = Window(SPAN.start, WINDOW.end, "", "weekly")
    predicted = UnresolvedStatements(SOURCE, layout, dialect, span, NOW)
    labels = ["billing", "it's"]
    yield "rows and their fingerprint", plain.fingerprint()
    yield "counts", unweighted.groups()
    yield "counts by segment, with weights, of the latest rows", replace(plain, latest=True).groups("channel")
    yield "values of a segment", plain.number_of_values("channel", 200)
    yield "versions", plain.versions()
    yield "items", unweighted.of_items(labels)
    yield "items with weights", plain.of_items(labels)
    yield "repeated", plain.repeated()
    yield "rejected", plain.rejected()
    yield "examples", plain.examples([RejectReason.SCORE_OUT_OF_RANGE, RejectReason.DUPLICATE])
    yield "undated", plain.undated()
    yield "examples of undated rows", plain.undated_examples()
    yield "dependence by label", plain.label_dependence()
    yield "dependence in bands of scores by label", plain.band_dependence()
    yield "dependence in clusters", plain.dependence("item", "cluster")
    yield "dependence of items", plain.item_dependence()
    yield "ranks", ranked.ranked_groups()
    yield "dependence of ranks", ranked.ranked_dependence("item", "cluster")
    yield "gains of items", ranked.of_items(labels)
    yield "items without one truth", whole.untrue()
    yield "whole rows", whole.whole_rows(share=0.1, least=20.0)
    yield "numbers", numbers.numbers(1000)
    yield "pairs", plain.pairs(5)
    yield "feature sample", plain.feature_sample(100)
    yield "rows behind a finding", replace(plain, latest=True).behind(ExampleQuery("billing"))
    yield "newest", plain.newest(NOW)
    yield "delays", predicted.delays((SPAN, WINDOW))
    yield "rows for scores of ours", plain.raw(("item", "resolved_at", "predicted_at", "actual"))


def compiled(engine: str) -> dict[str, str]:
    """The SQL of each statement with its values in place of parameters, for people and for sqlglot to read."""
    dialect, found = sql_dialect(engine), {}
    for name, statement in statements(engine):
        made = statement.compile(dialect=dialect, compile_kwargs={"render_postcompile": True})
        text = str(made)
        for key in sorted(made.params, key=len, reverse=True):
            value = made.params[key]
            shown = _literal(value, "\\'" if engine == "bigquery" else "''")
            for mark in (f"%({key})s", f":`{key}`", f":{key}"):
                text = text.replace(mark, shown)
        found[name] = re.sub(r"[ \t]+\n", "\n", text.replace("%%", "%")).strip()
    return found


def _literal(value: Any, quote: str) -> str:
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(each, quote) for each in value) + "]"
    return "'" + str(value).replace("'", quote) + "'" if isinstance(value, str | datetime) else repr(value)


def text_of(engine: str) -> str:
    """All statements of an engine as one file."""
    return "\n\n".join(f"-- {name}\n{sql};" for name, sql in compiled(engine).items()) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in NOT_RUN:
        (FOLDER / f"{each}.sql").write_text(text_of(each), "utf-8")
