"""A reading with rejected or repeated rows, clusters, segments or ranks by few scans, beside one scan for each.

``python -m benchmarks.one_scan`` makes a table of an engine and reads it both ways, in turns. The results must be
equal. It shows which engines should read by one scan, and when (``Dialect.few_scans``).
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from benchmarks.checkout import commit_of
from benchmarks.engines import LOADED, TABLE, postgres_url
from benchmarks.scan import LABELS, NOW, WINDOW, address, seeded
from benchmarks.tables import Table, console, write_between
from benchmarks.timing import fresh, number, peak, times
from benchmarks.whole_run import server_of, spent_by
from monitor.config.model import SourceConfig
from monitor.core.counts import Counts
from monitor.core.records import Expected
from monitor.core.wording import count_of
from monitor.warehouse.dialects import FewScans
from monitor.warehouse.reader import Reading, Warehouse

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "scale.md"
_ROWS = f"SELECT item, label, score, actual, resolved_at FROM {TABLE}"
REPEATED = "repeated rows"
SOURCES = {
    "rejected rows": SourceConfig(relation=_ROWS, score_is="probability_of_label"),
    "clusters": SourceConfig(relation=TABLE, score_is="probability_of_label"),
    "clusters and 2 segments": SourceConfig(
        relation=TABLE, score_is="probability_of_label", segments=("channel", "language")
    ),
    REPEATED: SourceConfig(relation=_ROWS.replace("item", "item_again AS item"), score_is="probability_of_label"),
    "ranks (`top_k`)": SourceConfig(relation=_ROWS, score_is="probability_of_label", kind="top_k"),
    "whole rows (`multiclass`)": SourceConfig(
        relation=_ROWS.replace("actual", "one_of_four AS actual"), score_is="probability_of_label", kind="multiclass"
    ),
}
"""By what they have beside their counts. All have rejected rows."""
ENGINES = ("duckdb", "postgresql", "clickhouse", "spark")
"""Those that can be read both ways. (SQLite can too, but has one thread and calls functions of ours once a row.)"""


@dataclass(frozen=True, slots=True)
class Took:
    """The processor seconds of each round by several scans and by two, of one of the sources; and how many scans."""

    source: str
    plain: tuple[float, ...]
    at_once: tuple[float, ...]
    scans: tuple[int, int]


def write_table(path: Path, rows: int) -> None:
    """Write ``rows`` rows of one week: items of four, in clusters of sixteen; one row in a hundred is rejected.

    By ``item_again`` in place of ``item``, one in a hundred repeats the (item, label) of another.
    """
    with seeded(path) as connection:
        connection.execute(
            f"""
            CREATE TABLE {TABLE} AS
            SELECT 'item ' || (i // 4) AS item, 'label ' || (i % {LABELS}) AS label, round(random(), 4) AS score,
                   CASE WHEN random() < 0.01 THEN 5 ELSE (random() < 0.5)::INTEGER END AS actual,
                   CASE WHEN hash(i) % 100 = 0 THEN 5 ELSE (hash(i // 4) % 4 = i % 4)::INTEGER END AS one_of_four,
                   TIMESTAMPTZ '{WINDOW.start.isoformat()}' + to_seconds(i % 600000) AS resolved_at,
                   'item ' || ((CASE WHEN hash(i) % 100 = 1 AND i >= {LABELS} THEN i - {LABELS} ELSE i END) // 4)
                       AS item_again,
                   'thread ' || (i // 16) AS cluster, 'channel ' || (i % 5) AS channel,
                   'language ' || (hash(i) % 6) AS language
            FROM range({rows}) AS r(i)
            """
        )


@contextmanager
def loaded(path: Path, engine: str) -> Iterator[tuple[str, Callable[[], float]]]:
    """The address of the table of a DuckDB file in another engine, and what counts its processor seconds."""
    if engine == "duckdb":
        yield address(path), time.process_time
        return
    kind = "csv" if engine == "postgresql" else "parquet"
    rows = path.with_suffix(f".{kind}")
    with duckdb.connect(str(path), read_only=True) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(f"COPY {TABLE} TO '{rows}' (FORMAT {kind})")
    if engine == "postgresql":
        with _in_postgresql(rows) as found:
            yield found
    else:
        yield LOADED[engine][1](rows, path.parent), _of_spark if engine == "spark" else time.process_time


@contextmanager
def _in_postgresql(rows: Path) -> Iterator[tuple[str, Callable[[], float]]]:
    """A new server with the rows, without workers beside a session."""
    import psycopg  # noqa: PLC0415 - only here

    with postgres_url() as url:
        plain = sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(plain, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(
                f"CREATE TABLE {TABLE} (item text, label text, score double precision, actual integer, "
                "one_of_four integer, resolved_at timestamptz, item_again text, cluster text, channel text, "
                "language text)".encode()
            )
            with cursor.copy(f"COPY {TABLE} FROM STDIN (FORMAT csv, HEADER)".encode()) as copy:
                copy.write(rows.read_bytes())
            cursor.execute(f"VACUUM ANALYZE {TABLE}".encode())
            cursor.execute("ALTER SYSTEM SET max_parallel_workers_per_gather = 0")
            cursor.execute("SELECT pg_reload_conf()")
        server = server_of(plain)
        yield url, lambda: time.process_time() + spent_by(server)


def measured(path: Path, rounds: int, engine: str = "duckdb") -> list[Took]:
    """Both ways in turns. Raises AssertionError if they find something else."""
    found = []
    with loaded(path, engine) as (url, spent):
        _read(url, "clusters", spent)  # the engine may start at its first statement
        for source in SOURCES:
            seconds: dict[FewScans, list[float]] = {"never": [], "always": []}
            scans: dict[FewScans, int] = {}
            for _ in range(rounds):
                results = []
                for few, of in seconds.items():
                    took, scans[few], reading = _read(url, source, spent, few)
                    of.append(took)
                    results.append(_facts(reading))
                if results[0] != results[1]:
                    raise AssertionError("the two ways differ")
            numbers = (scans["never"], scans["always"])
            found.append(Took(source, tuple(seconds["never"]), tuple(seconds["always"]), numbers))
    return found


def peaks(path: Path) -> list[tuple[float, float]]:
    """The most MiB that a process of its own holds which reads a DuckDB file by several scans, and by two."""
    url = address(path)
    return [(fresh(_peak, url, source, "never"), fresh(_peak, url, source, "always")) for source in SOURCES]


def _peak(url: str, source: str, few: FewScans) -> float:
    _read(url, source, time.process_time, few)
    return peak()


def _of_spark() -> float:
    """The processor seconds of this process, of Spark's driver and of its workers."""
    below = {os.getpid()}
    for _ in range(4):  # Python starts the driver, which starts workers, which start executors
        below |= {pid for pid, parent in _parents().items() if parent in below}
    return sum(map(spent_by, below))


def _parents() -> dict[int, int]:
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            found[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    return found


def _read(url: str, source: str, spent: Callable[[], float], few: FewScans = "never") -> tuple[float, int, Reading]:
    """A reading: its processor seconds, its scans of the window, and what it found."""
    with closing(Warehouse.from_url(url)) as warehouse:
        with warehouse._session("") as connection:
            warehouse._dialect = warehouse._dialect.of(connection).reading_by(few)
        asked: list[str] = []
        sa.event.listen(warehouse._engine, "before_cursor_execute", lambda *seen: asked.append(seen[2]))
        began = spent()
        expected = Expected(repeats=source == REPEATED)
        reading = warehouse.read("predictions", SOURCES[source], WINDOW, now=NOW, fingerprint=True, expected=expected)
        took = spent() - began
        beside = ("SELECT *", "undated")  # the names of the columns, and rows outside the window
        scans = sum(TABLE in text and not any(each in text for each in beside) for text in asked)
        return took, scans, reading


def _facts(reading: Reading) -> tuple[object, ...]:
    counted: list[Mapping[Any, Counts]] = [reading.labels, reading.items, reading.ranked, *reading.segments.values()]
    parts = ((name, counts.digest(), counts.design_effect) for part in counted for name, counts in part.items())
    whole = reading.whole
    rows = () if whole is None else (whole.labels, whole.items, _bytes(whole.probability, whole.truth, whole.weight))
    rest = (reading.rejected, reading.quality, reading.whole_design_effect, reading.fingerprint)
    return (tuple(parts), *rest, *rows)


def _bytes(*arrays: npt.NDArray[np.float64]) -> tuple[bytes, ...]:
    return tuple(array.tobytes() for array in arrays)


def table_of(
    rows: int, found: Sequence[Took], engine: str = "duckdb", memory: Sequence[tuple[float, float]] = ()
) -> Table:
    """The table; ``memory`` has the :func:`peaks` of its lines, if they were measured."""
    lines = []
    for each in found:
        one, other = statistics.median(each.plain), statistics.median(each.at_once)
        several, few = map(str, each.scans)
        lines.append((each.source, several, number(one), few, number(other), times(other / one)))
    columns = ("a source with", "scans", "processor s", "scans, at once", "processor s, at once", "ratio")
    notes = (
        f"{_SHOWN[engine]}, {rows:,} rows of {LABELS} labels in one week, one in a hundred rejected; medians of "
        f"{count_of(len(found[0].plain), 'round')} in turns. The results are equal.",
        *(f"With {line[0]} a process holds {one:,.0f} MiB at most by {line[1]} scans, {other:,.0f} MiB by {line[3]}."
          for line, (one, other) in zip(lines, memory, strict=False)),
    )  # fmt: skip
    return Table(
        f"A reading by one or two scans, beside one scan for each: {_SHOWN[engine]}", columns, tuple(lines), notes
    )


_SHOWN = {
    "duckdb": "DuckDB, one thread", "postgresql": "PostgreSQL, one process a session",
    "clickhouse": "ClickHouse in the process (chDB)",
    "spark": "Spark with two workers, its processes counted",
}  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES[:1]))
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true", help="Write the tables into docs/scale.md.")
    given = parser.parse_args()
    for engine in given.engines:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "warehouse.duckdb"
            fresh(write_table, path, given.rows)  # what follows begins with the peak of this process
            memory = peaks(path) if engine == "duckdb" else ()
            table = table_of(given.rows, fresh(measured, path, given.rounds, engine), engine, memory)
        table.show(console())
        if given.write_docs:
            day = datetime.now(UTC).date().isoformat()
            rounds = "" if given.rounds == parser.get_default("rounds") else f" --rounds {given.rounds}"
            command = f"python -m benchmarks.one_scan --engines {engine}{rounds} --write-docs"
            made = f"Made by `{command}` on {day} at commit {commit_of(ROOT)}."
            write_between(DOCS, f"one scan {engine}", "\n\n".join([made, table.markdown()]))


if __name__ == "__main__":
    main()
