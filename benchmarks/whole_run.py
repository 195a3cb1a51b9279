"""A whole ``calmon run weekly`` on large tables, compared with a bare grouped scan: ``python -m benchmarks.whole_run``.

Tables of three sizes, each of ten weeks of 20 labels. A run judges the last week by the shipped rules, against a
baseline of the eight weeks before. The run is its own process, started as by a user; so is the scan, which groups the
rows of the same week by label and score. Processor seconds include the database's processes; the peak memory does not.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import duckdb
import yaml

from benchmarks.tables import ROOT, Table, machine, publish
from benchmarks.timing import ONE_THREAD, fresh, number
from monitor.core.windows import week

DOCS = ROOT / "benchmarks" / "results" / "scale.md"
ROWS = {
    "duckdb": (1_000_000, 10_000_000, 100_000_000),
    "postgresql": (400_000, 2_000_000, 20_000_000),
}
WEEKS, ROUNDS, LABELS = 10, 3, 20
WINDOW = week("2026-W46", ZoneInfo("UTC"))
NOT_OF_A_USER = {*ONE_THREAD, "PYTHONDONTWRITEBYTECODE"}  # a user's modules are compiled once
FIXED_S, TIMES = 5.0, 1.5
"""Target: at most TIMES times the bare scan and FIXED_S seconds, and at most WANTED_MB."""
WANTED_MB = 600
FIRST = WINDOW.start - timedelta(weeks=WEEKS - 1)
TABLE = "predictions"
SOURCE = f"""\
  mail: {{relation: {TABLE}, score_is: probability_of_label, automate_at: 0.8}}
"""
SCAN = (
    f"SELECT label, floor(score * 10000 + 0.5) AS cell, count(*), sum(actual) FROM {TABLE} "
    "WHERE resolved_at >= TIMESTAMPTZ '{start}' AND resolved_at < TIMESTAMPTZ '{end}' GROUP BY 1, 2"
)


def scan_sql() -> str:
    """SQL of the bare scan."""
    start, end = (f"{moment:%Y-%m-%d %H:%M:%S}+00:00" for moment in (WINDOW.start, WINDOW.end))
    return SCAN.format(start=start, end=end)


@dataclass(frozen=True, slots=True)
class Cost:
    """Processor seconds of a process, and of its children and its database; and its peak memory in MB."""

    process: float
    others: float
    peak: float

    @property
    def processor(self) -> float:
        """The processor seconds of all."""
        return self.process + self.others


@dataclass(frozen=True, slots=True)
class Whole:
    """One engine: the rows of its table, a bare scan of a tenth of them, and the run on that tenth."""

    engine: str
    rows: int
    scan: Cost
    run: Cost


@dataclass(frozen=True, slots=True)
class Filled:
    """A table: its address for calmon, the program that scans it, and its server's seconds."""

    url: str
    scan: str
    server: Callable[[], float] = lambda: 0.0


# --- processes


def cost_of(command: Sequence[str], environment: Mapping[str, str], folder: Path) -> Cost:
    """The cost of a process and of children that it left running, which are waited for. RuntimeError if it fails."""
    own_environment = {name: value for name, value in os.environ.items() if name not in NOT_OF_A_USER}
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: this process can wait for its orphans
    with tempfile.TemporaryFile("w+") as output:
        child = subprocess.Popen(  # noqa: S603 - programs of this module
            command, cwd=folder, env=own_environment | dict(environment), stdout=output, stderr=subprocess.STDOUT
        )
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        while _one_more_ended():
            pass
        output.seek(0)
        if child.returncode:
            raise RuntimeError(f"{command} failed: {output.read()[-2000:]}")
    process_s = used.ru_utime + used.ru_stime
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(process_s, children.ru_utime + children.ru_stime - process_s, used.ru_maxrss * 1024 / 1e6)


def _one_more_ended() -> bool:
    try:
        os.wait()
    except ChildProcessError:
        return False
    return True


def spent_by(pid: int) -> float:
    """The processor seconds of a server's main process and of its children, ended ones included."""
    ticks = os.sysconf("SC_CLK_TCK")
    found = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(stat.parent.name) == pid:
            found += sum(map(int, fields[11:15]))
        elif int(fields[1]) == pid:
            found += sum(map(int, fields[11:13]))
    return found / ticks


def server_of(url: str) -> int:
    """The main process of a PostgreSQL server on this machine."""
    import psycopg  # noqa: PLC0415 - only here

    with psycopg.connect(url) as connection:
        row = connection.execute("SHOW data_directory").fetchone()
    assert row is not None
    return int((Path(row[0]) / "postmaster.pid").read_text().split()[0])


# --- the engines


def write_table(path: Path, rows: int) -> None:
    """Write ``rows`` calibrated rows of twenty labels in the weeks up to the judged one, with all decimals."""
    seconds = WEEKS * 604800 - 1.0
    with duckdb.connect(str(path)) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET threads = 1")  # otherwise random() differs between runs
        connection.execute("SELECT setseed(0.20260101)")
        connection.execute(
            f"""
            CREATE TABLE {TABLE} AS
            SELECT item, label, score, (random() < score)::INTEGER AS actual, resolved_at FROM (
                SELECT (i // {LABELS})::VARCHAR AS item, 'label ' || (i % {LABELS}) AS label,
                       pow(random(), 3) AS score,
                       TIMESTAMPTZ '{FIRST.isoformat()}' + to_seconds(i * {seconds} / {rows}) AS resolved_at
                FROM range({rows}) AS r(i)
            )
            """
        )


@contextmanager
def postgres_url() -> Iterator[str]:
    """The address of an empty database on a new server."""
    from tests.conftest import new_postgres_database, start_postgres  # noqa: PLC0415 - starts nothing by itself

    with tempfile.TemporaryDirectory(prefix="calmon-bench-", ignore_cleanup_errors=True) as folder:
        server = start_postgres(Path(folder) / "data")
        try:
            yield new_postgres_database(str(server.get_uri()))
        finally:
            server.cleanup()


@contextmanager
def in_duckdb(folder: Path, rows: int) -> Iterator[Filled]:
    """A DuckDB file, queried with DuckDB's default number of threads."""
    path = folder / "warehouse.duckdb"
    write_table(path, rows)
    scan = f"import duckdb; duckdb.connect({str(path)!r}, read_only=True).execute({scan_sql()!r}).fetchall()"
    yield Filled(f"duckdb:///{path}", scan)


@contextmanager
def in_postgresql(folder: Path, rows: int) -> Iterator[Filled]:
    """A PostgreSQL server with a table in partitions of one week."""
    import psycopg  # noqa: PLC0415 - only here

    with postgres_url() as url:
        plain = url.replace("postgresql+psycopg", "postgresql")
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute(
                f"CREATE TABLE {TABLE} (item text, label text, score double precision, actual integer, "
                "resolved_at timestamptz) PARTITION BY RANGE (resolved_at)"
            )
            for number in range(WEEKS):
                start, end = (FIRST + timedelta(weeks=number + more) for more in (0, 1))
                connection.execute(
                    f"CREATE TABLE week_{number} PARTITION OF {TABLE} FOR VALUES FROM ('{start}') TO ('{end}')".encode()
                )
            connection.execute(
                f"INSERT INTO {TABLE} SELECT (i / {LABELS})::text, 'label ' || i % {LABELS}, s, "
                f"(random() < s)::integer, '{FIRST}'::timestamptz + i * interval '1 second' * "
                f"({WEEKS} * 604800.0 / {rows}) FROM (SELECT i, power(random(), 3) AS s FROM "
                f"generate_series(0, {rows - 1}) AS i)".encode()
            )
            connection.execute(f"VACUUM ANALYZE {TABLE}".encode())
        pid = server_of(plain)
        scan = f"import psycopg; psycopg.connect({plain!r}).execute({scan_sql()!r}).fetchall()"
        yield Filled(url, scan, lambda: spent_by(pid))


ENGINES = {"duckdb": in_duckdb, "postgresql": in_postgresql}


# --- measuring


def shipped(folder: Path) -> Path:
    """The shipped rules on the table: alerts.yaml with another source."""
    text, given = (ROOT / "alerts.yaml").read_text("utf-8"), folder / "alerts.yaml"
    changed = re.sub(r"(?ms)^sources:\n.*?\n\n(?=evaluation:)", f"sources:\n{SOURCE}\n", text)
    assert set(yaml.safe_load(changed)["sources"]) == {"mail"}
    given.write_text(changed, "utf-8")
    return given


def measured(engine: str, rows: int, folder: Path, rounds: int) -> Whole:
    """Measure one engine: make the table and its baseline, then scan and run in turns."""
    with ENGINES[engine](folder, rows) as filled:
        environment = {
            "PYTHONPATH": str(ROOT), "CALMON_WAREHOUSE_URL": filled.url, "CALMON_CONFIG": str(shipped(folder)),
        }  # fmt: skip

        def cost(*command: str, history: str = "history.sqlite") -> Cost:
            before, store = filled.server(), {"CALMON_STORE_URL": f"sqlite:///{folder / history}"}
            found = fresh(cost_of, [sys.executable, *command], environment | store, folder)
            time.sleep(0.5)  # until the server has ended the connection's process
            return replace(found, others=found.others + filled.server() - before)

        calmon = ("-m", "monitor")
        cost(*calmon, "baseline", "pin", "--anyway", "--from", "2026-W38", "--to", "2026-W45")
        scans, runs = [], []
        for number in range(rounds):
            again = f"history-{number}.sqlite"  # a run judges a week once
            shutil.copy(folder / "history.sqlite", folder / again)
            scans.append(cost("-c", filled.scan))
            runs.append(cost(*calmon, "run", "weekly", "--week", WINDOW.name, history=again))
    return Whole(engine, rows, middle_of(scans), middle_of(runs))


def middle_of(costs: Sequence[Cost]) -> Cost:
    """The cost whose processor seconds are the median (of an even number: the higher one), with the highest peak."""
    ordered = sorted(costs, key=lambda each: each.processor)
    return replace(ordered[len(ordered) // 2], peak=max(each.peak for each in costs))


def table_of(found: Sequence[Whole], rounds: int) -> Table:
    """The table of targets and measured values."""
    lines = []
    for each in found:
        allowed = TIMES * each.scan.processor + FIXED_S
        is_met = each.run.processor <= allowed and each.run.peak <= WANTED_MB
        lines.append(
            (each.engine, f"{each.rows:,}", f"{each.rows // WEEKS:,}", number(each.scan.processor),
             number(each.run.process), number(each.run.others), number(each.run.processor), number(allowed),
             f"{each.run.peak:,.0f}", "yes" if is_met else "NO")
        )  # fmt: skip
    columns = (
        "engine", "rows", "of the week", "bare scan, processor s", "run: its process", "run: the database's", "run",
        "wanted", "peak MB", "as wanted",
    )  # fmt: skip
    notes = (
        f"Wanted: at most {TIMES} times the bare scan and {FIXED_S:.0f} s, at most {WANTED_MB} MB. {LABELS} labels, "
        "the shipped rules, a baseline of eight weeks.",
        "The bare scan counts rows and right ones by label and score (10,001 cells), in a process of its own that "
        "imports the driver. DuckDB is in the process; of PostgreSQL the database's processes are counted beside it, "
        "and the peak is calmon's alone.",
        f"Scan and run in turns, {rounds} rounds: the medians of their processor seconds, and the highest peak."
        if rounds > 1
        else "One scan and one run.",
    )
    return Table("A whole weekly run over a large table", columns, tuple(lines), notes)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=["duckdb"])
    parser.add_argument("--rows", nargs="+", type=int, help="Of each table. Default: three sizes.")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="Scans and runs in turns, whose medians count.")
    parser.add_argument("--write-docs", action="store_true", help="Put it into benchmarks/results/scale.md.")
    options = parser.parse_args()
    for engine in options.engines:
        found = []
        for rows in options.rows or ROWS[engine]:
            with tempfile.TemporaryDirectory(prefix="calmon-whole-") as folder:
                Path(folder).chmod(0o755)
                found.append(measured(engine, rows, Path(folder), options.rounds))
        command = f"whole_run --engines {engine} --rounds {options.rounds}"
        page = DOCS if options.write_docs else None
        publish([table_of(found, options.rounds)], f"whole-{engine}", command, f"; {machine()}", page=page)


if __name__ == "__main__":
    main()
