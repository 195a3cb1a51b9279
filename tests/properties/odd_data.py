"""Data as nobody here made it by hand: shapes x engines x defects from a seed; every row is counted or said.

``python -m tests.properties.odd_data 60`` reads and describes sixty of them, and lets `calmon init` and `calmon run` go
over each.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import chdir, closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
from typer.testing import CliRunner

from monitor.cli import app
from monitor.config.load import load_config
from monitor.config.model import SourceConfig
from monitor.core import windows
from monitor.operations.describe_source import describe
from monitor.operations.starter_files import starter_config
from monitor.warehouse.reader import RelationError, Warehouse

WEEK = windows.week("2026-W46", ZoneInfo("UTC"))
NOW = datetime(2026, 11, 16, 6, tzinfo=UTC)
SHAPES, ENGINES = ("long", "single", "wide"), ("csv", "parquet", "duckdb", "sqlite")
LABELS = ("0", "1", "refund")
Row = dict[str, Any]
ODD_DATES = (
    "2026-11-11 10:00:00 -0300", "2026-11-11 10:00,5", "2026-11-11T10:00Z", "11/11/2026 2:30 PM", "46337.5",
    "1794391200", "", None, "2026-11-31", "soon", "2027-01-01", "2026-11-11 10:00 Europe/Berlin", "-infinity",
    "9999-12-31 23:59:59-01:00",
)  # fmt: skip
ODD_NUMBERS = (
    "1,500",
    "97%",
    "0,5",
    "1.0000000000000002",
    "-1e-17",
    "nan",
    "inf",
    "",
    None,
    "x",
    "101",
    "true",
    "1e999",
)
ODD_LABELS = (
    "refund ", "Refund", "NA", "", None, "1.0", "0.00", "re\u0301sume", "r\u00e9sum\u00e9", "x" * 1200, "\t",
    "a;b\"c'd",
)  # fmt: skip


def _dates(row: Row, rng: random.Random) -> None:
    row["resolved_at"] = rng.choice(ODD_DATES)


def _numbers(row: Row, rng: random.Random) -> None:
    name = rng.choice([name for name in row if name in ("score", "confidence", "actual") or name.startswith("p_")])
    row[name] = rng.choice(ODD_NUMBERS)


def _labels(row: Row, rng: random.Random) -> None:
    name = rng.choice([name for name in row if name in ("label", "predicted_label", "true_label", "item")])
    row[name] = rng.choice(ODD_LABELS)


DEFECTS = {"dates": _dates, "numbers": _numbers, "labels": _labels}


@dataclass(frozen=True)
class Outcome:
    """What became of the rows of one file: ``made`` of them, and those that were counted and said.

    ``refused``: why nothing was read. ``asked``: what `calmon init` asked. ``failed``: what nobody should see.
    """

    name: str
    made: int
    counted: int = 0
    said: int = 0
    refused: str = ""
    asked: str = ""
    failed: str = ""

    @property
    def is_complete(self) -> bool:
        """Whether no row was lost in silence."""
        return not self.failed and (bool(self.refused) or self.made == self.counted + self.said)


def rows_of(shape: str, defect: str, rng: random.Random) -> list[Row]:
    """Rows of one shape, of which about one in six has a defect and some are there twice."""
    rows = []
    for number in range(rng.randrange(20, 60)):
        when = (WEEK.start + timedelta(minutes=rng.randrange(7 * 1440))).strftime("%Y-%m-%d %H:%M:%S")
        truth, given = rng.choice(LABELS), rng.choice(LABELS)
        row = {"item": f"t{number}", "resolved_at": when}
        if shape == "single":
            row |= {"predicted_label": given, "confidence": "0.9", "true_label": truth}
        elif shape == "wide":
            row |= {f"p_{label}": "0.8" if label == given else "0.1" for label in LABELS} | {"true_label": truth}
        else:
            row |= {"label": given, "score": "0.7", "actual": str(rng.randrange(2))}
        if rng.random() < 1 / 6:
            DEFECTS[defect](row, rng)
        rows += [row] * (2 if rng.random() < 0.05 else 1)
    return rows


def settings_of(shape: str) -> dict[str, Any]:
    """How rows of a shape are read."""
    if shape == "single":
        return {"kind": "single_label", "score_is": "confidence_in_prediction"}
    wide = {"kind": "multiclass", "wide": {"score": "p_{label}"}, "columns": {"true_label": "true_label"}}
    return {"score_is": "probability_of_label", **(wide if shape == "wide" else {})}


def write(rows: list[Row], engine: str, folder: Path) -> tuple[str, str]:
    """(address of the warehouse, relation) of these rows; all of their columns are text, but numbers in a database."""
    names = list(rows[0])
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t (" + ", ".join(f'"{name}" VARCHAR' for name in names) + ")")
        connection.executemany(
            f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [list(row.values()) for row in rows]
        )
        numbers = [n for n in names if n in ("score", "confidence", "actual") or n.startswith("p_")]
        typed = ", ".join(f"""coalesce(try_cast("{n}" AS DOUBLE), 'NaN') AS "{n}" """ for n in numbers)
        if engine == "csv":
            connection.execute(f"COPY t TO '{folder}/t.csv' (HEADER)")
            return "duckdb://", f"{folder}/t.csv"
        if engine == "parquet":
            connection.execute(f"COPY (SELECT * REPLACE ({typed}) FROM t) TO '{folder}/t.parquet'")
            return "duckdb://", f"{folder}/t.parquet"
        if engine == "duckdb":
            connection.execute(
                f"ATTACH '{folder}/t.duckdb' AS d; CREATE TABLE d.t AS SELECT * REPLACE ({typed}) FROM t"
            )
            return f"duckdb:///{folder}/t.duckdb", "t"
    with closing(sqlite3.connect(folder / "t.sqlite")) as database, database:
        types = ", ".join(f'"{name}" {"REAL" if name in numbers else "TEXT"}' for name in names)
        database.execute(f"CREATE TABLE t ({types})")
        database.executemany(
            f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", [list(row.values()) for row in rows]
        )
    return f"sqlite:///{folder}/t.sqlite", "t"


def outcome_of(shape: str, engine: str, defect: str, seed: int) -> Outcome:
    """Make one file, read and describe it, and account for its rows."""
    rng = random.Random(f"{shape}{engine}{defect}{seed}")  # noqa: S311 - no secret
    rows, name = rows_of(shape, defect, rng), f"{shape} {engine} {defect} {seed}"
    with TemporaryDirectory() as folder:
        url, relation = write(rows, engine, Path(folder))
        source = SourceConfig.model_validate({"relation": relation, **settings_of(shape)})
        with Warehouse.from_url(url, relations=source.relations) as warehouse:
            try:
                reading = warehouse.read("t", source, WEEK, now=NOW)
                describe(warehouse, "t", source, reading)
            except RelationError as error:
                return Outcome(name, len(rows), refused=str(error))
    said = sum(each.rows for each in reading.quality)
    return Outcome(name, len(rows) * (len(LABELS) if shape == "wide" else 1), reading.rows, said)


def outcome_of_commands(shape: str, engine: str, defect: str, seed: int) -> Outcome:
    """Make one file, let `calmon init` and `calmon run` go over it, and account for its rows by what the run prints.

    Where `calmon init` asks, the source is written as its questions would be answered.
    """
    rng = random.Random(f"{shape}{engine}{defect}{seed}")  # noqa: S311 - no secret
    rows, name = rows_of(shape, defect, rng), f"{shape} {engine} {defect} {seed}"
    with TemporaryDirectory() as folder, chdir(folder):
        url, relation = write(rows, engine, Path(folder))
        place = relation if url == "duckdb://" else url.partition("///")[2]
        commands = CliRunner(env={"CALMON_STORE_URL": "sqlite:///history.sqlite", "COLUMNS": "300"})
        init = commands.invoke(app, ["init", place, "--yes"])
        if init.exit_code:
            Path("alerts.yaml").write_text(starter_config("t", relation, settings_of(shape), "UTC"), "utf-8")
        commands.env["CALMON_WAREHOUSE_URL"] = url
        run = commands.invoke(app, ["run", "weekly", "--week", WEEK.name, "--json"])
        failed = [each for each in (init, run) if not isinstance(each.exception, SystemExit | None)]
        if failed or run.exit_code:
            return Outcome(name, len(rows), failed=f"{run.output} {failed}")
        document = json.loads(run.stdout)
        (source,) = load_config(Path("alerts.yaml")).sources.values()
    counted = [each["n"] for each in document["estimates"] if each["label"] is None and each["where"] == "all"]
    rows_each = len(LABELS) if source.wide is not None else 1
    told = "" if init.exit_code else " ".join(init.stdout.split())  # lines may be wrapped anywhere
    said = sum(each["rows"] for each in document["quality"])
    said += rows_each * sum(map(int, re.findall(r"(\d+) more replaced by a newer row", told)))
    said += sum(map(int, re.findall(r"(\d+) rows? ha\w+ no truth", told)))
    made = len(rows) * rows_each
    return Outcome(name, made, max(counted, default=0), said, asked=init.stderr.strip() if init.exit_code else "")


def outcomes(files: int, of: Callable[[str, str, str, int], Outcome]) -> list[Outcome]:
    """So many files, each combination in turn with a seed of its own."""
    combinations = list(product(SHAPES, ENGINES, DEFECTS))
    return [of(*combinations[n % len(combinations)], n) for n in range(files)]


def report(outcomes: list[Outcome]) -> None:
    """Print each outcome, and how many of them there are."""
    for each in outcomes:
        lost, why = "" if each.is_complete else "  LOST", each.failed or each.refused or each.asked
        print(f"{each.name:32} made {each.made:4} counted {each.counted:4} said {each.said:4}{lost} {why[:200]}")
    refused, asked = (sum(bool(getattr(each, kind)) for each in outcomes) for kind in ("refused", "asked"))
    lost = sum(not each.is_complete for each in outcomes)
    print(f"{len(outcomes)} files, {refused} refused, init asks of {asked}, {lost} lose rows")


if __name__ == "__main__":
    for way in (outcome_of, outcome_of_commands):
        report(outcomes(int(sys.argv[1]) if len(sys.argv) > 1 else 60, way))
