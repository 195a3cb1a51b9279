"""A reading with clusters, segments and rejected rows by one scan for its counts, beside one scan for each.

``python -m benchmarks.one_scan`` makes a DuckDB file and reads it both ways, in turns, with one thread. The results
must be equal. It shows why only engines whose scans cost more than a processor's time read by one scan
(``Dialect.few_scans``).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import sqlalchemy as sa

from benchmarks.checkout import commit_of
from benchmarks.scan import LABELS, NOW, WINDOW, address, seeded
from benchmarks.tables import Table, console, write_between
from benchmarks.timing import fresh, number, times
from monitor.config.model import SourceConfig
from monitor.warehouse.dialects import DuckDB
from monitor.warehouse.reader import Reading, Warehouse

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "scale.md"
SEGMENTS: tuple[tuple[str, ...], ...] = ((), ("channel", "language"))


class OneScan(DuckDB):
    """DuckDB, read as engines are whose scans cost most."""

    few_scans = True


WAYS = (DuckDB(), OneScan())


@dataclass(frozen=True, slots=True)
class Took:
    """The processor seconds of each round by the plain way and by one scan, for these segments."""

    segments: tuple[str, ...]
    plain: tuple[float, ...]
    at_once: tuple[float, ...]


def write_table(path: Path, rows: int) -> None:
    """Write ``rows`` rows of one week: items of four, in clusters of sixteen; one row in a hundred is rejected."""
    with seeded(path) as connection:
        connection.execute(
            f"""
            CREATE TABLE predictions AS
            SELECT 'item ' || (i // 4) AS item, 'label ' || (i % {LABELS}) AS label, round(random(), 4) AS score,
                   CASE WHEN random() < 0.01 THEN 5 ELSE (random() < 0.5)::INTEGER END AS actual,
                   TIMESTAMPTZ '{WINDOW.start.isoformat()}' + to_seconds(i % 600000) AS resolved_at,
                   'thread ' || (i // 16) AS cluster, 'channel ' || (i % 5) AS channel,
                   'language ' || (hash(i) % 6) AS language
            FROM range({rows}) AS r(i)
            """
        )


def measured(path: Path, rounds: int) -> list[Took]:
    """Both ways in turns. Raises AssertionError if they find something else."""
    found = []
    for segments in SEGMENTS:
        seconds: list[list[float]] = [[], []]
        for _ in range(rounds):
            results = []
            for of, dialect in zip(seconds, WAYS, strict=True):
                took, reading = _read(path, dialect, segments)
                of.append(took)
                results.append(_facts(reading))
            if results[0] != results[1]:
                raise AssertionError("the two ways differ")
        found.append(Took(segments, tuple(seconds[0]), tuple(seconds[1])))
    return found


def _read(path: Path, dialect: DuckDB, segments: tuple[str, ...]) -> tuple[float, Reading]:
    config = SourceConfig(relation="predictions", score_is="probability_of_label", segments=segments)
    with closing(Warehouse(sa.make_url(address(path)), None, dialect)) as warehouse:
        began = time.process_time()
        reading = warehouse.read("predictions", config, WINDOW, now=NOW, fingerprint=True)
        return time.process_time() - began, reading


def _facts(reading: Reading) -> tuple[object, ...]:
    parts: Iterator[tuple[object, object]] = (
        (label, (counts.digest(), counts.design_effect))
        for part in (reading.labels, *reading.segments.values())
        for label, counts in part.items()
    )
    return (tuple(parts), reading.rejected, reading.quality, reading.whole_design_effect, reading.fingerprint)


def table_of(rows: int, found: Sequence[Took]) -> Table:
    """The table."""
    lines = []
    for each in found:
        scans = 2 + 1 + 1 + bool(each.segments)
        one, other = statistics.median(each.plain), statistics.median(each.at_once)
        what = f"clusters and {len(each.segments)} segments" if each.segments else "clusters"
        lines.append((what, str(scans), number(one), "2", number(other), times(other / one)))
    columns = ("a source with", "scans", "processor s", "scans, at once", "processor s, at once", "ratio")
    notes = (
        f"DuckDB, one thread, {rows:,} rows of {LABELS} labels in one week, one in a hundred rejected; medians of "
        f"{len(found[0].plain)} rounds in turns. The results are equal.",
    )
    return Table("A reading by two scans, beside the plain way", columns, tuple(lines), notes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write-docs", action="store_true", help="Write the table into docs/scale.md.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warehouse.duckdb"
        write_table(path, given.rows)
        table = table_of(given.rows, fresh(measured, path, given.rounds))
    table.show(console())
    if given.write_docs:
        day = datetime.now(UTC).date().isoformat()
        made = f"Made by `python -m benchmarks.one_scan --write-docs` on {day} at commit {commit_of(ROOT)}."
        write_between(DOCS, "one scan", "\n\n".join([made, table.markdown()]))


if __name__ == "__main__":
    main()
