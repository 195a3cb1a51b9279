"""`make bench`: speed beside peers, all in one run and one thread.

They do different work (the notes say what): a ratio says how long a user waits, not who codes better.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.checkout import DOCS, ROOT, commit_of
from benchmarks.contestants import Answer, Contestant, contestants, count, made_up_label, made_up_rows, row_bootstrap
from benchmarks.scan import queries, write_table
from benchmarks.tables import Table, console, write_between

PATIENCE = 30.0  # seconds a round: what would take longer is measured with fewer resamples
PILOT = 20
LIBRARIES = ("numpy", "scipy", "scikit-learn", "duckdb")
WORK = (
    "They do different work. Ours: debiased ECE and MCE with intervals that cover (test inversion, exact limits).",
    "The row bootstraps read all rows and give percentile limits of the plug-in values, which do not cover.",
    "In a run the warehouse counts (second table) and only counts are read; counting in numpy is shown for fairness.",
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much is benched."""

    labels: int = 20
    rows: int = 100_000
    resamples: int = 1000
    sklearn_done: int = 10
    rounds: int = 3
    table_rows: int = 1_000_000
    scans: int = 15


QUICK = Size(labels=4, rows=20_000, resamples=100, sklearn_done=5, rounds=2, table_rows=100_000, scans=5)


@dataclass(frozen=True, slots=True)
class Timing:
    """The seconds of every round, scaled where fewer resamples were measured."""

    name: str
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return statistics.median(self.seconds)

    @property
    def shown(self) -> tuple[str, str, str]:
        """Smallest, middle and largest, for people."""
        return tuple(f"{value:,.4g}" for value in (min(self.seconds), self.median, max(self.seconds)))  # type: ignore[return-value]


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """How long it took, in seconds, and what came of it."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def times(ratio: float) -> str:
    """A ratio for people."""
    return f"{ratio:,.0f}x" if ratio >= 10 else f"{ratio:.2f}x"


def affordable(size: Size) -> int:
    """How many resamples of the numpy row bootstrap a round may measure, from a short trial."""
    rows = made_up_rows(1, size.rows)
    seconds, _ = timed(lambda: row_bootstrap(rows, PILOT))
    predicted = seconds / PILOT * size.resamples * size.labels
    return size.resamples if predicted <= PATIENCE else max(PILOT, int(size.resamples * PATIENCE / predicted))


def peak_of(index: int, size: Size) -> float:
    """MiB that one contestant needs in a process of its own, input included, libraries not.

    What reads counts gets them label by label: a run never holds the rows either.
    """
    contestant = contestants(2, 2, 2)[index]
    warm_up(contestant)
    before = _peak()
    if contestant.reads == "counts":
        contestant.run([], [count([made_up_label(label, size.rows)])[0] for label in range(size.labels)], 2)
    else:
        contestant.run(made_up_rows(size.labels, size.rows), [], 2)
    return _peak() - before


def _peak() -> float:
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest / (2**20 if sys.platform == "darwin" else 2**10)


def warm_up(contestant: Contestant) -> None:
    """Once on a few rows: what is imported or compiled at first use is not what is measured."""
    rows = made_up_rows(1, 200)
    contestant.run(rows, count(rows), 2)


def peaks(size: Size, advance: Callable[[], None]) -> list[float]:
    """The memory of every contestant, each in a fresh process.

    To be asked before anything large is made here: a child begins with the peak of its parent.
    """
    found = []
    for index in range(len(contestants(2, 2, 2))):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            found.append(pool.apply(peak_of, (index, size)))
        advance()
    return found


def race(
    size: Size, runners: Sequence[Contestant], advance: Callable[[], None]
) -> tuple[list[Timing], list[list[Answer]]]:
    """Every contestant in every round, in turns, so that a slow moment of the machine hits all of them."""
    rows = made_up_rows(size.labels, size.rows)
    counts = count(rows)
    seconds: dict[str, list[float]] = {runner.name: [] for runner in runners}
    answers: dict[str, list[Answer]] = {}
    for runner in runners:
        warm_up(runner)
    for _ in range(size.rounds):
        for runner in runners:
            took, result = timed(lambda runner=runner: runner.run(rows, counts, runner.done))  # type: ignore[misc]
            seconds[runner.name].append(took * runner.scale)
            if isinstance(result, list) and isinstance(result[0], Answer):
                answers[runner.name] = result
            advance()
    return [Timing(name, tuple(values)) for name, values in seconds.items()], list(answers.values())


def disagreement(answers: Sequence[Sequence[Answer]]) -> float:
    """The largest difference of two contestants' plug-in ECEs on the same label."""
    by_label = [[answer.plug_in for answer in label] for label in zip(*answers, strict=True)]
    return max(max(values) - min(values) for values in by_label)


def race_table(
    size: Size, runners: Sequence[Contestant], timings: Sequence[Timing], memory: Sequence[float], apart: float
) -> Table:
    """The contestants; ratios are of medians, to the two forms of ours."""
    analytic, bootstrap = timings[1].median, timings[2].median
    rows = [
        (
            runner.name, runner.reads, runner.resamples, *timing.shown,
            times(timing.median / analytic), times(timing.median / bootstrap), f"{peak:,.0f}",
        )
        for runner, timing, peak in zip(runners, timings, memory, strict=True)
    ]  # fmt: skip
    with_counting = [timings[3].median / (timings[0].median + mine) for mine in (analytic, bootstrap)]
    notes = (
        *WORK,
        f"Counting included, the numpy row bootstrap takes {times(with_counting[0])} as long as the analytic form "
        f"and {times(with_counting[1])} as long as the bootstrap form.",
        f"Plug-in ECEs of one label differ by at most {apart:.1g} (edges on 10,001 cells or on exact quantiles).",
        "Memory is the peak of a process of its own (getrusage) above what Python and libraries take, input included.",
    )
    columns = ("what", "reads", "resamples", "min s", "median s", "max s", "/ analytic", "/ bootstrap", "MiB")
    title = f"ECE, MCE and 95% intervals: {size.labels} labels of {size.rows:,} rows, one thread, {size.rounds} rounds"
    return Table(title, columns, tuple(rows), notes, texts=3)


def scans(size: Size, advance: Callable[[], None]) -> list[Timing]:
    """The statements on a fresh DuckDB file, in turns, after one round to warm up."""
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "warehouse.duckdb"
        write_table(path, size.table_rows)
        with queries(path) as runs:
            for number in range(size.scans + 1):
                for name, run in runs.items():
                    took, _ = timed(run)
                    seconds.setdefault(name, [])
                    seconds[name] += [took] if number else []
                advance()
    return [Timing(name, tuple(values)) for name, values in seconds.items()]


def scan_table(size: Size, timings: Sequence[Timing]) -> Table:
    """Ratios to the plain scan."""
    plain = timings[0].median
    rows = tuple((timing.name, *timing.shown, times(timing.median / plain)) for timing in timings)
    title = f"DuckDB, {size.table_rows:,} rows of 20 labels, one thread, {size.scans} rounds"
    note = "The plain scan reads one column and keeps one number; the grouping keeps seven sums for every score."
    return Table(title, ("what", "min s", "median s", "max s", "/ plain scan"), rows, (note,))


def machine() -> str:
    """What it ran on."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    return f"Python {platform.python_version()}, {libraries}; {platform.machine()}, {os.cpu_count()} cores"


def measured(size: Size) -> list[Table]:
    """Both tables, with a progress bar on standard error."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        steps = 5 + 5 * size.rounds + size.scans + 1
        bar = progress.add_task("memory", total=steps)

        def advance() -> None:
            progress.advance(bar)

        memory = peaks(size, advance)
        progress.update(bar, description="intervals")
        runners = contestants(size.resamples, affordable(size), min(size.sklearn_done, size.resamples))
        timings, answers = race(size, runners, advance)
        progress.update(bar, description="queries")
        second = scan_table(size, scans(size, advance))
    return [race_table(size, runners, timings, memory, disagreement(answers)), second]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data: does it run, not how fast it is")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into docs/statistics.md")
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error("--quick is a look only: its tables do not belong into the docs")
    seconds, tables = timed(lambda: measured(QUICK if given.quick else Size()))
    shown = console()
    for table in tables:
        table.show(shown)
    shown.print(f"{machine()}; {seconds:.0f} s")
    if given.write_docs:
        day = datetime.now(UTC).date().isoformat()
        origin = f"Made by `python -m benchmarks.bench` on {day} at commit {commit_of(ROOT)}.\n{machine()}."
        write_between(DOCS, "bench", "\n\n".join([origin, *(table.markdown() for table in tables)]))
        shown.print(f"written: {DOCS.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
