"""The plan of the study; running it in two processes, and resuming it after an interruption."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Protocol

from benchmarks.coverage import WALLS as NEAR_WALLS
from benchmarks.coverage import Cell, Kind, coverage_cells, in_parts
from benchmarks.populations import POPULATIONS, WALLS, Population
from benchmarks.power import LINES, Planted
from benchmarks.quiet import YEAR, years
from benchmarks.sampling import Clustered, Sampling, Thinned, Weighted
from benchmarks.tally import Line, Tally, together

SEED = 20260101
WORKERS = 2
PARTS = ("coverage", "walls", "dependent", "power", "quiet")
DEPENDENT = tuple(
    each for each in POPULATIONS if each.name in ("calibrated", "temperature 1.5", "verbal, temperature 1.5")
)
CLUSTERED_SHARES = (0.1, 0.3, 1.0)
WITH_COLUMN: tuple[Kind, ...] = ("bootstrap", "analytic", "mce")
WITHOUT_COLUMN: tuple[Kind, ...] = ("analytic", "mce")
FEW = 100  # rows, of labels near a wall besides


class Task(Protocol):
    """One piece of work: its part of the study, its approximate cost in seconds, and its tallies."""

    @property
    def part(self) -> str: ...
    @property
    def cost(self) -> float: ...
    def run(self) -> list[Tally]: ...


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is simulated.

    ``repetitions`` of every cell of ``sizes`` and of ``dependent`` rows; ``power``: changed labels of each line;
    ``years`` of ``weeks`` weeks in which nothing is wrong, with ``quiet`` rows a label-week.
    """

    repetitions: int
    sizes: tuple[int, ...]
    dependent: tuple[int, ...]
    power: int
    years: int
    weeks: int
    quiet: tuple[int, ...]
    lines: tuple[Line, ...] = LINES
    seed: int = SEED

    def tasks(self, parts: Iterable[str] = PARTS) -> list[Task]:
        """The tasks of these parts, in their order."""
        makers: Mapping[str, Callable[[], Sequence[Task]]] = {
            "coverage": lambda: coverage_cells(POPULATIONS, self.sizes, self.repetitions, self.seed),
            "walls": lambda: coverage_cells(WALLS, (FEW, *self.sizes), self.repetitions, self.seed, NEAR_WALLS),
            "dependent": self._dependent,
            "power": lambda: [
                Planted(line, number, self.seed + 2)
                for number in range(self.power)
                for line in self.lines
                if number < ceil(self.power / int(line[3]))
            ],
            "quiet": lambda: years(self.years, self.weeks, self.quiet),
        }
        chosen = set(parts)
        return [task for part in PARTS if part in chosen for task in makers[part]()]

    def _dependent(self) -> list[Task]:
        clusters = [(f"{share:.0%} in fives", share) for share in CLUSTERED_SHARES]
        ways: list[tuple[str, str, Sampling, tuple[Kind, ...]]] = [
            (name, "known" if known else "not known", Clustered(share, known), WITH_COLUMN if known else WITHOUT_COLUMN)
            for name, share in clusters
            for known in (True, False)
        ]
        ways += [
            ("log-normal weights", "known", Weighted(0.8), WITH_COLUMN),
            ("one in five below .5", "known", Thinned(5), WITH_COLUMN),
        ]
        return [
            part
            for name, known, sampling, kinds in ways
            for population in DEPENDENT
            for n in self.dependent
            for part in self._parts((name, known, population.name, n), population, n, sampling, kinds)
        ]

    def _parts(
        self, line: Line, population: Population, n: int, sampling: Sampling, kinds: tuple[Kind, ...]
    ) -> list[Cell]:
        cell = Cell("dependent", line, population, n, 0, 0, self.seed, kinds, sampling=sampling)
        return in_parts(cell, self.repetitions)


FULL = Plan(
    repetitions=1000, sizes=(200, 1000, 5000, 20_000), dependent=(200, 1000, 5000),
    power=200, years=50, weeks=YEAR, quiet=(200, 500, 2_000),
)  # fmt: skip
QUICK = Plan(
    repetitions=25, sizes=(200, 5000), dependent=(1000,), power=1, years=1, weeks=4, quiet=(200,), lines=LINES[:6],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """The result of one task, and its processor ``seconds``."""

    key: str
    seconds: float
    tallies: tuple[Tally, ...]


def key_of(task: Task) -> str:
    """The key of a task, from all of its fields."""
    return hashlib.sha256(repr(task).encode()).hexdigest()[:16]


def done(task: Task) -> Done:
    """Do one task."""
    began = time.process_time()  # not wall time, since the machine may do other work
    tallies = tuple(task.run())
    return Done(key_of(task), time.process_time() - began, tallies)


class Notebook:
    """The file in which results of finished tasks are stored, so that an interrupted study can be resumed.

    ``study`` names their study (plan and commit): results of different studies are never mixed.
    """

    def __init__(self, path: Path, study: str) -> None:
        self.path = path
        self.study = study

    def begin(self) -> dict[str, Done]:
        """Begin with an empty file, in which nothing is finished."""
        self._write([])
        return {}

    def resume(self) -> dict[str, Done]:
        """The finished tasks, by key. Raises ValueError if the file belongs to another study."""
        head, *lines = self.path.read_text(encoding="utf-8").splitlines()
        if head != self._head():
            raise ValueError(f"{self.path} was written by another plan or at another commit: start without --resume")
        found = [each for line in lines if (each := _read(line)) is not None]
        self._write(found)  # drops an incomplete last line, to which the next one would be added
        return {each.key: each for each in found}

    def add(self, finished: Done) -> None:
        """Add the result of a task."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_written(finished) + "\n")

    def _head(self) -> str:
        return json.dumps({"study": self.study})

    def _write(self, lines: Iterable[Done]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text("\n".join([self._head(), *map(_written, lines)]) + "\n", encoding="utf-8")


def _written(finished: Done) -> str:
    return json.dumps([finished.key, round(finished.seconds, 3), [tally.written() for tally in finished.tallies]])


def _read(line: str) -> Done | None:
    """The result in one line; None if the line is incomplete."""
    try:
        key, seconds, tallies = json.loads(line)
    except ValueError:
        return None
    found = tuple(Tally(part, tuple(name), count, sums) for part, name, count, sums in tallies)
    return Done(key, seconds, found)


def run(tasks: Sequence[Task], finished: Mapping[str, Done], workers: int = WORKERS) -> Iterator[tuple[Task, Done]]:
    """Do the tasks that are not ``finished``; yields each result. Each task has its own seed, so any order will do."""
    left = {key_of(task): task for task in tasks if key_of(task) not in finished}
    if workers == 1:
        yield from ((task, done(task)) for task in left.values())
        return
    pool = ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))
    try:
        for future in as_completed([pool.submit(done, task) for task in left.values()]):
            yield left[future.result().key], future.result()
    finally:  # also after an interruption: tasks that have not begun are cancelled
        pool.shutdown(cancel_futures=True)


def gathered(tasks: Sequence[Task], finished: Mapping[str, Done]) -> dict[str, list[Tally]]:
    """Part -> the tallies of all finished tasks, added up by line, in the order of the tasks."""
    results = (finished[key] for key in map(key_of, tasks) if key in finished)
    found: dict[str, list[Tally]] = {}
    for tally in together(tally for each in results for tally in each.tallies):
        found.setdefault(tally.part, []).append(tally)
    return found
