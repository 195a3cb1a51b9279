"""What a simulation consists of, how it is spread over two processes, and what came of it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import reduce
from operator import add

from benchmarks.coverage import Cell, Coverage, cells, cover, together
from benchmarks.populations import HARD, LABELS, POPULATIONS, Population
from benchmarks.weeks import Judged, Series, judge

SEED = 20260101
WORKERS = 2
QUARTER = 13
RISE = 0.05

Task = Cell | Series
Advance = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """How much is simulated. ``calm`` maps rows a label-week -> series; a series has ``weeks`` weeks."""

    repetitions: int
    sizes: tuple[int, ...]
    calm: tuple[tuple[int, int], ...]
    weeks: int
    risen: int
    risen_n: int = 5000
    populations: tuple[Population, ...] = POPULATIONS
    seed: int = SEED

    def tasks(self) -> list[Task]:
        """The long ones first, so that both processes end together."""
        calm = [Series(k, n, self.weeks, self.seed) for n, series in self.calm for k in range(series)]
        risen = [Series(k, self.risen_n, 1, self.seed + 1, _planted(k), RISE) for k in range(self.risen)]
        return [*calm, *risen, *cells(self.populations, self.sizes, self.repetitions, self.seed)]


def full(repetitions: int) -> Plan:
    """The plan of ``repetitions`` intervals a cell; weeks in proportion (200: two years at 2,000 rows)."""
    quarters = max(1, repetitions // 25)
    calm = ((500, max(1, quarters // 2)), (2000, quarters))
    risen = max(1, repetitions // 5)
    return Plan(repetitions, (200, 1000, 5000), calm, QUARTER, risen, populations=(*POPULATIONS, *HARD))


QUICK = Plan(40, (200, 1000), ((500, 1), (2000, 1)), 2, 2)


@dataclass(frozen=True, slots=True)
class Findings:
    """What a plan found: coverage by cell, unchanged weeks by rows a label-week, weeks with a rise."""

    plan: Plan
    coverage: tuple[Coverage, ...]
    calm: tuple[Judged, ...]
    risen: Judged
    seconds: float = field(default=0.0, compare=False)


def _planted(number: int) -> tuple[str, ...]:
    """Three labels, other ones every time."""
    return tuple(LABELS[(number + step) % len(LABELS)].name for step in (0, 7, 14))


def done(task: Task) -> Coverage | Judged:
    """One part of the work."""
    return cover(task) if isinstance(task, Cell) else judge(task)


def _numbered(numbered: tuple[int, Task]) -> tuple[int, Coverage | Judged]:
    return numbered[0], done(numbered[1])


def cost(task: Task) -> float:
    """About how long it takes, in intervals of the ECE: for the progress bar."""
    return task.last - task.first if isinstance(task, Cell) else 150.0 * task.weeks


def run(plan: Plan, advance: Advance) -> Findings:
    """The whole plan in two fresh processes; every part has its own seed, so their order does not matter."""
    tasks = plan.tasks()
    results: dict[int, Coverage | Judged] = {}
    with multiprocessing.get_context("spawn").Pool(WORKERS) as pool:
        for index, result in pool.imap_unordered(_numbered, enumerate(tasks)):
            results[index] = result
            advance(cost(tasks[index]))
    return gathered(plan, tasks, [results[index] for index in range(len(tasks))])


def run_here(plan: Plan) -> Findings:
    """The same in this process."""
    tasks = plan.tasks()
    return gathered(plan, tasks, [done(task) for task in tasks])


def gathered(plan: Plan, tasks: list[Task], results: list[Coverage | Judged]) -> Findings:
    """The parts put together."""
    coverage = together(part for part in results if isinstance(part, Coverage))
    judged = [(task, part) for task, part in zip(tasks, results, strict=True) if isinstance(part, Judged)]
    calm = {n: [part for task, part in judged if part.n == n and not _rises(task)] for n, _ in plan.calm}
    risen = [part for task, part in judged if _rises(task)]
    return Findings(plan, tuple(coverage), tuple(reduce(add, parts) for parts in calm.values()), reduce(add, risen))


def _rises(task: Task) -> bool:
    return isinstance(task, Series) and bool(task.planted)
