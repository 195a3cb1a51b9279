"""Every statement of a reading in the SQL of every engine that comes as an extra, by the dialect of its own package.

``python -m tests.engines.compiled`` writes those of engines that no test can run to ``tests/cases/sql``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from monitor.config.model import SourceConfig
from monitor.config.relation import TableName
from monitor.core.records import RejectReason, Window
from monitor.core.windows import week
from monitor.warehouse.asked_at_once import asked_at_once
from monitor.warehouse.checks import Column, Layout
from monitor.warehouse.delays import DelayStatements
from monitor.warehouse.engines import ENGINES
from monitor.warehouse.examples import ExampleQuery
from monitor.warehouse.items import STATEMENTS, NumberStatements, RankedStatements, WholeStatements
from monitor.warehouse.reading import Reader
from monitor.warehouse.relation import from_clause
from monitor.warehouse.snowflake import division_options
from monitor.warehouse.statements import Statements

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


Made = sa.Select[Any] | sa.CompoundSelect[Any]


def statements(engine: str, *, named: bool = False) -> Iterator[tuple[str, Made]]:
    """All statements of a reading, of all kinds of sources, by what they are for; ``named`` as they are kept."""
    columns = {name: Column(name, kind) for name, kind in KINDS.items()}
    layout = Layout(from_clause(TableName(("marts", "resolved_tickets"))), columns)
    dialect = ENGINES[engine].dialect
    plain = Statements(SOURCE, layout, dialect, WINDOW, NOW, named=named)
    both: Mapping[str, Callable[[Statements], Made]] = {
        "rejected": lambda each: each.rejected(), "undated": lambda each: each.undated(),
        "repeated": lambda each: each.repeated(), "fingerprint": lambda each: each.fingerprint(),
        "groups": lambda each: each.groups(latest=True),
        "groups by segment": lambda each: each.groups(latest=False, segments=["channel"], versions=True),
        "examples": lambda each: each.examples([RejectReason.SCORE_OUT_OF_RANGE]),
        "duplicates": lambda each: each.examples([RejectReason.DUPLICATE]),
        "newest": lambda each: each.newest(NOW), "versions": lambda each: each.versions(latest=False),
        "dependence": lambda each: each.dependence("item", "cluster", latest=False),
        "dependence by label": lambda each: each.label_dependence(latest=False),
        "dependence of items": lambda each: each.item_dependence(latest=False),
        "items": lambda each: each.of_items(latest=False),
        "items of every row": lambda each: each.items_of_every_row([], hashed=True),
        "pairs": lambda each: each.pairs(5, latest=False),
        "feature sample": lambda each: each.feature_sample(100),
        "behind a finding": lambda each: each.behind(ExampleQuery("billing"), latest=True),
        "rejected in one scan": lambda each: each.rejected_in_one_scan(),
        "in one scan": lambda each: each.in_one_scan(segments=["channel"], versions=True, limit=200),
        "many values": lambda each: each.many_values(["channel"], 200),
        "many values of two columns": lambda each: each.many_values(["channel", "model_version"], 200),
        "combined": lambda each: each.combined({"billing": (5000, 10000)}, ("channel",), latest=False),
    }  # fmt: skip
    yield from ((name, made(plain)) for name, made in both.items())
    bare = {name: column for name, column in columns.items() if name not in ("weight", "cluster")}
    unweighted = replace(plain, layout=replace(layout, columns=bare))
    yield "items without weights", unweighted.of_items(latest=False)
    plainly = replace(layout, columns={name: column for name, column in columns.items() if name != "weight"})
    yield "items in clusters without weights", replace(plain, layout=plainly).of_items(latest=False)
    yield "groups without weights", unweighted.groups(latest=False)
    yield "in one scan without weights or clusters", unweighted.in_one_scan(limit=200)
    labels = ["billing", "it's"]
    yield "items of every row without weights", unweighted.items_of_every_row(labels, hashed=True)
    kinds = ("top_k", "multiclass", "regression")
    ranked, whole, numbers = (STATEMENTS[kind](SOURCE, layout, dialect, WINDOW, NOW, named=named) for kind in kinds)
    assert isinstance(ranked, RankedStatements)
    assert isinstance(whole, WholeStatements)
    assert isinstance(numbers, NumberStatements)
    windows = (SPAN, WINDOW)
    delays = DelayStatements(
        SOURCE, layout, dialect, Window(SPAN.start, WINDOW.end, "", "weekly"), NOW, NOW, None, windows
    )
    yield "delays", delays.delays()
    yield "ranks", ranked.ranked_groups(latest=False)
    yield "dependence of ranks", ranked.ranked_dependence("item", "cluster", latest=False)
    yield "gains of items", ranked.of_items(latest=False)
    yield "items without one truth", whole.untrue(latest=False)
    yield "whole rows", whole.whole_rows(latest=False, share=0.1, least=20.0)
    yield "numbers", numbers.numbers(1000, latest=False)
    for name, each in {"all at once": plain, "all at once by rank": ranked, "all at once of whole rows": whole}.items():
        if dialect.asks_at_once:
            yield name, at_once(each)
    if dialect.asks_at_once:
        kept = whole.over_kept_rows(placed=True)
        assert isinstance(kept, WholeStatements)
        yield "whole rows of kept rows", kept.whole_rows(latest=True, share=0.1, least=20.0)


def at_once(each: Statements) -> Made:
    """All questions of a reading whose rows repeat, and whose items are of several clusters, as one statement."""
    nobody = sa.create_mock_engine("sqlite://", lambda *_: None)
    reader = Reader(cast("sa.Connection", nobody), "tickets", each, hashed=True)
    return asked_at_once([*reader._of_window(each.over_kept_rows(placed=True), True, apart=True)], each.dialect)


def compiled(engine: str, *, named: bool = False) -> dict[str, str]:
    """The SQL of each statement with its values in place of parameters, for people and for sqlglot to read."""
    dialect, found = sql_dialect(engine), {}
    kind = KINDS["resolved_at"]
    moments = {"window_start": WINDOW.start, "window_end": WINDOW.end, "now": NOW}
    values = {f"{name}_{kind}": ENGINES[engine].dialect.bound(when, kind).value for name, when in moments.items()}
    for name, statement in statements(engine, named=named):
        made = (statement.params(values) if named else statement).compile(
            dialect=dialect, compile_kwargs={"render_postcompile": True}
        )
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
