"""The same rows in every installed engine, and the results of a weekly run on them.

Counts must be equal, estimates agree to 1e-9, and verdicts have the same ids. The data include
bad rows of every reason, unusual names, scores with all decimals, and a week of 169 hours.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import sqlalchemy as sa

from monitor.config.settings import load_settings
from monitor.core.windows import week
from monitor.operations.open import open_monitor
from monitor.run import run_window
from monitor.warehouse.reader import Reading

ZONE = "Europe/Berlin"
WINDOW = week("2026-W43", ZoneInfo(ZONE))  # summer time ends on its Sunday
NOW = datetime(2026, 10, 26, 9, tzinfo=UTC)
LABELS = ("billing", 'Zugang für "Gäste"', "it's; DROP TABLE x --", "фишинг", "100% :sure")
TABLE = "resolved_tickets"
PATIENCE_S = "7200"  # time-outs on a busy machine must not look like a difference
COLUMNS = {
    "item": "ticket-id %", "label": "Label", "score": "score", "actual": "was right?", "resolved_at": "resolved at",
    "cluster": "thread", "weight": "order",
}  # fmt: skip
CONFIG = """\
version: 1
timezone: {zone}
sources:
  tickets: {{relation: {table}, columns: {columns}, score_is: probability_of_label, segments: [channel],
    automate_at: 0.8, labels: {{billing: {{automate_at: 0.9}}}}}}
  sampled: {{relation: {table}, columns: {weighted}, score_is: probability_of_label, automate_at: 0.8}}
  whole: {{relation: {table}, columns: {whole}, score_is: probability_of_label, automate_at: 0.8}}
evaluation: {{resamples: 200, min_samples: 300, pool_weeks: 1}}
baseline: {{weeks: 6, min_pairs: 3000}}
rules:
  - {{id: automated-overconfidence, metric: overconfidence, where: automated, condition: above, threshold: 0.05,
     min_samples: 30, severity: critical, actions: [slack, disable_automation]}}
  - {{id: ece-above, metric: ece, condition: above, threshold: 0.02, severity: warning, actions: [slack]}}
  - {{id: mce-blocks-scores, metric: mce, condition: above, threshold: 0.2, severity: critical, actions: [slack]}}
  - {{id: auc-floor, metric: roc_auc, condition: below, threshold: 0.8, severity: warning, actions: [slack]}}
automation: {{when_not_evaluated: keep, initial: on_first_ok}}
routes: [{{channel: "#ml-monitoring"}}]
"""


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one engine: the reading of each source, and the document of the run."""

    engine: str
    readings: Mapping[str, Reading]
    document: Mapping[str, Any]


def write_rows(path: Path, rows: int) -> None:
    """Write a Parquet file of ``rows`` rows, always the same; nine tenths are in the window."""
    odd = {
        "ticket-id %": "NULL", "Label": "NULL", "Label ": "''", "Label  ": "repeat('ü', 501)", "score": "NULL",
        "score ": "1.5", "score  ": "-0.25", "was right?": "NULL", "was right? ": "2", "order": "0",
        "resolved at": "NULL", "resolved at ": "TIMESTAMPTZ '2031-01-01 00:00:00+00'", "hit": "NULL", "hit ": "-1",
    }  # fmt: skip
    values = {
        "ticket-id %": f"'t' || (i // {len(LABELS)})", "Label": f"({_listed()})[1 + i % {len(LABELS)}]", "score": "s",
        "was right?": "CASE WHEN u < s * s THEN 1e0 WHEN u < s THEN 0.75e0 ELSE 0e0 END",
        "hit": "CASE WHEN u < s THEN 1 ELSE 0 END",  # whole numbers by type, which some engines add up otherwise
        "resolved at": f"TIMESTAMPTZ '{WINDOW.start.isoformat()}' + to_microseconds(CAST(i * {_step(rows)} AS BIGINT))",
        "thread": "CASE i % 11 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'c' || (i // 17) END",
        "order": "0.5e0 + (i * 7919 % 1000) / 700e0", "channel": "CASE i % 7 WHEN 0 THEN NULL WHEN 1 THEN 'e-mail' "
        "ELSE 'web' END", "model_version": "'v' || (i % 3)",
    }  # fmt: skip
    for turn, (name, wrong) in enumerate(odd.items()):
        values[name.strip()] = f"CASE WHEN i % 997 = {turn} THEN {wrong} ELSE {values[name.strip()]} END"
    columns = ", ".join(f'{value} AS "{name}"' for name, value in values.items())
    # some rows repeat an (item, label) of the window, with another score and an earlier date
    again = '* REPLACE ("resolved at" - INTERVAL 1 SECOND AS "resolved at", score * 0.5 AS score)'
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1; SET TimeZone = 'UTC'; SELECT setseed(0.20260101)")
        connection.execute(
            f"CREATE TABLE drawn AS SELECT {columns} FROM "
            f"(SELECT i, pow(random(), 0.7) AS s, CASE i % 3 WHEN 0 THEN random() ELSE i // 17 * 0.618e0 % 1 END AS u "
            f"FROM range({rows}) AS r(i))"
        )
        connection.execute(f"INSERT INTO drawn SELECT {again} FROM drawn WHERE score BETWEEN 0.5 AND 0.51")
        connection.execute(f"COPY drawn TO '{path}' (FORMAT parquet)")


def _listed() -> str:
    return "[" + ", ".join("'" + label.replace("'", "''") + "'" for label in LABELS) + "]"


def _step(rows: int) -> float:
    """Microseconds between two rows."""
    return (WINDOW.end - WINDOW.start).total_seconds() * 1e6 / (0.9 * rows)


# --- the engines


def in_duckdb(rows: Path, folder: Path) -> str:
    """A DuckDB file with the rows."""
    path = folder / "warehouse.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"CREATE TABLE {TABLE} AS SELECT * FROM '{rows}'")
    return f"duckdb:///{path}"


def in_sqlite(rows: Path, folder: Path) -> str:
    """An SQLite file with the rows, dates as ISO text."""
    path = folder / "warehouse.sqlite"
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        dated = "* REPLACE (strftime(\"resolved at\", '%Y-%m-%d %H:%M:%S.%f') || '+00:00' AS \"resolved at\")"
        found = connection.execute(f"SELECT {dated} FROM '{rows}'")
        names = [column[0] for column in found.description]
        with closing(sqlite3.connect(path)) as target, target:
            target.execute(f"CREATE TABLE {TABLE} ({', '.join(_quoted(name) for name in names)})")
            while part := found.fetchmany(50_000):
                target.executemany(f"INSERT INTO {TABLE} VALUES ({', '.join('?' * len(names))})", part)
    return f"sqlite:///{path}"


def in_clickhouse(rows: Path, _: Path) -> str:
    """ClickHouse in this process, with the rows in a table of its own database."""
    from tests.engines.filled import clickhouse_client

    client = clickhouse_client()
    client.command("CREATE DATABASE IF NOT EXISTS engines")
    client.command(f"DROP TABLE IF EXISTS engines.{TABLE}")
    client.command(
        f"CREATE TABLE engines.{TABLE} ENGINE = MergeTree ORDER BY tuple() AS SELECT * FROM file('{rows}', Parquet)"
    )
    return "chdb:///:memory:?database=engines"


def in_spark(rows: Path, _: Path) -> str:
    """A table of Spark in two or more files, with two workers."""
    from tests.engines.filled import SPARK_MASTER, spark_session

    session = spark_session()
    session.sql("CREATE DATABASE IF NOT EXISTS engines")
    session.read.parquet(str(rows)).repartition(4).write.mode("overwrite").saveAsTable(f"engines.{TABLE}")
    return f"spark:///engines?master={SPARK_MASTER}"


def in_snowflake(rows: Path, _: Path) -> str:
    """A table of fakesnow, which emulates Snowflake by a DuckDB in this process."""
    import snowflake.connector

    from tests.engines.filled import OCTET_LENGTH, ready_for_snowflake

    ready_for_snowflake()
    with snowflake.connector.connect(database="ENGINES", schema="PUBLIC") as connection:
        connection._duck_conn.execute(OCTET_LENGTH)
        connection._duck_conn.execute(f"CREATE OR REPLACE TABLE {TABLE.upper()} AS SELECT * FROM '{rows}'")
    return "snowflake://monitor:unused@account/ENGINES/PUBLIC"


def in_postgresql(rows: Path, url: str) -> str:
    """A PostgreSQL database with the rows."""
    import psycopg

    plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    types = dict.fromkeys(("ticket-id %", "Label", "thread", "channel", "model_version"), "text")
    types |= dict.fromkeys(("score", "was right?", "order"), "double precision")
    types |= {"resolved at": "timestamptz", "hit": "integer"}
    csv = rows.with_suffix(".csv")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY (SELECT * FROM '{rows}') TO '{csv}' (HEADER, NULLSTR '<none>')")
        names = [column[0] for column in connection.execute(f"SELECT * FROM '{rows}' LIMIT 0").description]
    with psycopg.connect(plain) as target, target.cursor() as cursor:
        columns = ", ".join(f"{_quoted(name)} {types[name]}" for name in names)
        cursor.execute(f"CREATE TABLE {TABLE} ({columns})".encode())
        with (
            cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT csv, HEADER, NULL '<none>')".encode()) as copy,
            csv.open("rb") as file,
        ):
            while part := file.read(1 << 20):
                copy.write(part)
    return url


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


LOADED = {
    "duckdb": ("duckdb", in_duckdb),
    "sqlite": ("sqlite3", in_sqlite),
    "clickhouse": ("chdb", in_clickhouse),
    "snowflake": ("fakesnow", in_snowflake),
    "spark": ("pyspark", in_spark),
}
"""Engine -> (the package that it needs, the function that loads the rows and returns the address)."""


# --- the results


def run_on(engine: str, url: str, folder: Path) -> Found:
    """One weekly run with its own history, and its readings."""
    folder.mkdir()
    plain = {name: column for name, column in COLUMNS.items() if name != "weight"}
    mapped = {"columns": plain, "weighted": COLUMNS, "whole": plain | {"actual": "hit"}}
    text = CONFIG.format(zone=ZONE, table=TABLE, **{name: _flow(columns) for name, columns in mapped.items()})
    (folder / "alerts.yaml").write_text(text, "utf-8")
    settings = load_settings(
        {"CALMON_WAREHOUSE_URL": url, "CALMON_STORE_URL": f"sqlite:///{folder / 'history.sqlite'}",
         "CALMON_CONFIG": str(folder / "alerts.yaml"), "CALMON_WAREHOUSE_TIMEOUT_S": PATIENCE_S}
    )  # fmt: skip
    with open_monitor(settings, clock=lambda: NOW) as monitor:
        readings = {}
        read = monitor.warehouse.read

        def remembered(name: str, *args: Any, **more: Any) -> Reading:
            readings[name] = read(name, *args, **more)
            return readings[name]

        monitor.warehouse.read = remembered  # type: ignore[method-assign]  # the readings of the run itself
        result = run_window(monitor, WINDOW)
    return Found(engine, readings, result.document)


def _flow(columns: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}: '{column}'" for name, column in columns.items()) + "}"


def differences(one: Found, other: Found) -> Iterator[str]:
    """The differences between two engines, as text. (SQLite stores NaN as NULL; these rows have no NaN.)"""
    for name in sorted(one.readings.keys() ^ other.readings.keys()):
        yield f"{name}: {(other if name in one.readings else one).engine} could not read it"
    for name in one.readings.keys() & other.readings.keys():
        reading, theirs = one.readings[name], other.readings[name]
        if {label: counts.digest() for label, counts in reading.labels.items()} != {
            label: counts.digest() for label, counts in theirs.labels.items()
        }:
            yield f"{name}: counts"
        if (reading.rows, reading.versions) != (theirs.rows, theirs.versions):
            yield f"{name}: rows {reading.rows} and {theirs.rows}"
        if not math.isclose(reading.whole_design_effect, theirs.whole_design_effect, rel_tol=1e-9):
            yield f"{name}: design effect {reading.whole_design_effect} and {theirs.whole_design_effect}"
        if _digests_of_segments(reading) != _digests_of_segments(theirs):
            yield f"{name}: segments"
    quality = [
        sorted((q["source"], q["reason"], q["rows"]) for q in found.document["quality"]) for found in (one, other)
    ]
    if quality[0] != quality[1]:
        yield f"rejected rows {quality}"
    if [v["id"] for v in one.document["verdicts"]] != [v["id"] for v in other.document["verdicts"]]:
        yield "ids of verdicts"
    yield from _estimates(one.document["estimates"], other.document["estimates"])


def _digests_of_segments(reading: Reading) -> Mapping[tuple[str, str], Mapping[str, str]]:
    parts = reading.segments.items()
    return {key: {label: counts.digest() for label, counts in labels.items()} for key, labels in parts}


def _estimates(ours: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if len(ours) != len(theirs):
        yield f"{len(ours)} and {len(theirs)} estimates"
    for one, other in zip(ours, theirs, strict=False):
        for name, value in one.items():
            same = value == other[name]
            if isinstance(value, float) and isinstance(other[name], float):
                same = math.isclose(value, other[name], rel_tol=1e-9, abs_tol=1e-9)
            if not same:
                yield f"{one['source']} {one['label']} {one['metric']} {name}: {value} and {other[name]}"
