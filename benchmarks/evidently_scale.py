"""Drift of many rows: Evidently's preset on all of them, and our tests on samples drawn in the warehouse, in one run.

Both begin with a DuckDB file and end with a page and a distance for each column. Some columns have changed, some only a
little, most not at all.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from time import process_time
from zoneinfo import ZoneInfo

import duckdb

from benchmarks.size import QUICK, Size
from benchmarks.tables import Table, console
from benchmarks.timing import fresh, number, peak, timed, times
from monitor.config.model import SourceConfig
from monitor.core.records import ShiftResult, Window
from monitor.core.windows import week
from monitor.evaluation.shift.drift_report import DRIFT_THRESHOLD, feature_drift
from monitor.evaluation.shift.findings import findings
from monitor.operations.collect import REFERENCE_SAMPLES
from monitor.warehouse.reader import Warehouse

WINDOW = week("2026-W46", ZoneInfo("UTC"))
REFERENCE = Window(WINDOW.start - timedelta(weeks=12), WINDOW.start - timedelta(weeks=4), "before", "weekly")
NUMBERS, TEXTS = 12, 8
MOVED = {"number_0": 0.5, "number_1": 0.25, "text_0": 0.5, "text_1": 0.35}
"""Changed columns: a number by this many standard deviations, a text by this share of its commonest value."""
COLUMNS = (*(f"number_{k}" for k in range(NUMBERS)), *(f"text_{k}" for k in range(TEXTS)))
LABELS, RATE = 5, 0.01
SOURCE = SourceConfig(relation="tickets", score_is="probability_of_label", features=COLUMNS)


@dataclass(frozen=True, slots=True)
class Found:
    """The seconds and memory of one way, and the columns that it calls drifted; ``processor`` is in seconds."""

    name: str
    seconds: float
    processor: float
    memory: float
    drifted: tuple[str, ...]
    page: int = 0


def write_table(path: Path, rows: int) -> None:
    """Write ``rows`` items in the window and as many in the baseline's weeks, one row for each item."""
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET threads = 1")  # otherwise random() differs between runs
        connection.execute("SELECT setseed(0.20260101)")
        for name, span in (("CREATE TABLE tickets AS", REFERENCE), ("INSERT INTO tickets", WINDOW)):
            moved = MOVED if span is WINDOW else {}
            columns = ", ".join(_column(name, moved.get(name, 0.0)) for name in COLUMNS)
            seconds = (span.end - span.start).total_seconds() - 1
            connection.execute(
                f"""
                {name} SELECT '{span.name}' || i AS item, 'label ' || (i % {LABELS}) AS label, score,
                       (random() < score)::INTEGER AS actual,
                       TIMESTAMPTZ '{span.start.isoformat()}' + to_seconds(i * {seconds} / {rows}) AS resolved_at,
                       {columns}
                FROM (SELECT i, random() AS score FROM range({rows}) AS r(i))
                """
            )


def _column(name: str, moved: float) -> str:
    if name.startswith("number"):  # normal by Box and Muller
        return f"sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) + {moved} AS {name}"
    return f"CASE WHEN random() < {moved} THEN 'v0' ELSE 'v' || (12 * random() * random())::INTEGER END AS {name}"


def evidently(path: Path, folder: Path) -> Found:
    """Evidently's usual way: load all rows into pandas, run its preset, write its page."""
    began = process_time()
    imports = _import_evidently()
    page = folder / "evidently.html"
    seconds, drifted = timed(lambda: _preset(path, page))
    processor = process_time() - began
    return Found("Evidently's preset, all rows", imports + seconds, processor, peak(), drifted, _size(page))


def _preset(path: Path, page: Path) -> tuple[str, ...]:
    from evidently import DataDefinition, Dataset, Report  # noqa: PLC0415 - imported and timed before
    from evidently.presets import DataDriftPreset  # noqa: PLC0415 - as above

    numbers, texts = COLUMNS[:NUMBERS], COLUMNS[NUMBERS:]
    definition = DataDefinition(numerical_columns=list(numbers), categorical_columns=list(texts))
    query = f"SELECT {', '.join(COLUMNS)} FROM tickets WHERE resolved_at >= ? AND resolved_at < ?"
    with duckdb.connect(str(path), read_only=True, config={"threads": 1}) as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations
        connection.execute("SET enable_progress_bar = false")
        sides = [connection.execute(query, [span.start, span.end]).df() for span in (WINDOW, REFERENCE)]
        snapshot = Report([DataDriftPreset()]).run(*(Dataset.from_pandas(side, definition) for side in sides))
        page.write_text(snapshot.get_html_str(as_iframe=False), encoding="utf-8")
    found = (each for each in snapshot.dict()["metrics"] if "column" in each["config"])
    return tuple(sorted(each["config"]["column"] for each in found if each["value"] >= DRIFT_THRESHOLD))


def ours(path: Path, rows: int, page: Path | None) -> tuple[Found, tuple[str, ...]]:
    """Our way: draw two samples in the warehouse, run all tests, write Evidently's page of the samples (None: no)."""
    began = process_time()
    imports = _import_evidently() if page is not None else 0.0

    def run() -> list[ShiftResult]:
        with Warehouse.from_url(f"duckdb:///{path}?threads=1") as warehouse:
            now, then = (
                warehouse.feature_sample("tickets", SOURCE, span, limit=limit, at_least=rows // LABELS)
                for span, limit in ((WINDOW, SOURCE.sample_size), (REFERENCE, REFERENCE_SAMPLES * SOURCE.sample_size))
            )
        return feature_drift("tickets", WINDOW, now, then, html=page)

    seconds, results = timed(run)
    processor = process_time() - began
    drifted = tuple(sorted(each.column for each in results if each.detail.get("drifted")))
    name = f"ours, samples of {SOURCE.sample_size:,}, {'no page' if page is None else 'with the page'}"
    size = 0 if page is None else _size(page)
    found = Found(name, imports + seconds, processor, peak(), drifted, size)
    return found, tuple(sorted({each.result.column for each in findings(results, RATE)}))


def _import_evidently() -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own deprecations
        return timed(lambda: (import_module("evidently"), import_module("evidently.presets")))[0]


def _size(page: Path) -> int:
    return page.stat().st_size if page.exists() else 0


def measured(rows: int) -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """Evidently, then ours without and with the page, each in its own process with one thread."""
    with tempfile.TemporaryDirectory() as name:
        path, folder = Path(name) / "warehouse.duckdb", Path(name)
        fresh(write_table, path, rows)
        quick, _ = fresh(ours, path, rows, None)
        whole, significant = fresh(ours, path, rows, folder / "ours.html")
        return (fresh(evidently, path, folder), quick, whole), significant


def tables(size: Size) -> Iterator[Table]:
    """The table of ``make bench``."""
    found, significant = measured(size.drift_rows)
    yield table_of(size.drift_rows, found, significant)


def table_of(rows: int, found: Sequence[Found], significant: Sequence[str]) -> Table:
    """The table of seconds, memory and drifted columns; Evidently comes first."""
    theirs = found[0]
    lines = tuple(
        (each.name, number(each.seconds), number(each.processor), f"{each.memory:,.0f}",
         times(theirs.seconds / each.seconds), times(theirs.processor / each.processor), ", ".join(each.drifted))
        for each in found
    )  # fmt: skip
    alike = "the same" if all(each.drifted == theirs.drifted for each in found) else "NOT the same"
    notes = (
        "From the file to the distances, and to Evidently's page; memory at its peak; one thread.",
        "Importing Evidently counts. Where other work runs beside it, seconds of a processor say more than the clock.",
        f"Columns at a distance of {DRIFT_THRESHOLD} or more: {alike}. Findings of our tests, one family at {RATE}: "
        f"{', '.join(significant) or 'none'}.",
    )
    title = f"Drift of {rows:,} + {rows:,} rows, {len(COLUMNS)} columns, DuckDB"
    heads = ("what", "s", "processor s", "MiB", "x by the clock", "x by processor", "drifted")
    return Table(title, heads, lines, notes)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    about = str(__doc__).split("\n")[0]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evidently_scale", description=about)
    parser.add_argument("--quick", action="store_true", help="small data: does it run, not how fast it is")
    given = parser.parse_args(arguments)
    for table in tables(QUICK if given.quick else Size()):
        table.show(console())


if __name__ == "__main__":
    main()
