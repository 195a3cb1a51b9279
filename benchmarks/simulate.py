"""`make simulate`: coverage of the intervals, how soon changes are found, and what rings where nothing is wrong.

It uses the functions of runs, on seeded made-up rows whose truth is known. Finished tasks are stored at
once, so an interrupted study continues with --resume.
"""

from __future__ import annotations

import argparse
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from benchmarks.findings import tables
from benchmarks.plan import FULL, PARTS, QUICK, WORKERS, Done, Notebook, Plan, Task, gathered, key_of, run
from benchmarks.quiet import SEED as QUIET_SEED
from benchmarks.tables import DOCS, ROOT, commit_of, publish

NOTEBOOK = ROOT / "var" / "simulate.jsonl"


SECTIONS = {"simulate": PARTS[:3], "power": PARTS[3:4], "quiet": PARTS[4:]}
"""Name in the docs -> the parts whose tables are there."""


def measured(tasks: Sequence[Task], finished: dict[str, Done], notebook: Notebook, workers: int) -> dict[str, Done]:
    """Do all tasks that are not ``finished``, with a progress bar on standard error. Returns all results."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    found = dict(finished)
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        bar = progress.add_task("simulating", total=sum(task.cost for task in tasks))
        progress.advance(bar, sum(task.cost for task in tasks if key_of(task) in found))
        for task, result in run(tasks, found, workers):
            notebook.add(result)
            found[result.key] = result
            progress.advance(bar, task.cost)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulate", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a look only: seconds instead of minutes")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="only these (default: all)")
    parser.add_argument("--years", type=int, default=FULL.years, help=f"quiet years a line (default {FULL.years})")
    parser.add_argument("--labels", type=int, default=FULL.power, help=f"changed labels a line (default {FULL.power})")
    parser.add_argument("--resume", action="store_true", help="go on with a study that was interrupted")
    parser.add_argument("--workers", type=int, default=WORKERS, help=f"processes (default {WORKERS})")
    parser.add_argument("--notebook", type=Path, default=NOTEBOOK, help="where what is finished is written down")
    parser.add_argument(
        "--write-docs", action="store_true", help="put the tables into benchmarks/results/statistics.md"
    )
    given = parser.parse_args(arguments)
    if given.write_docs and given.quick:
        parser.error("--write-docs takes the whole study, not --quick")
    try:
        _study(QUICK if given.quick else replace(FULL, years=given.years, power=given.labels), given)
    except ValueError as error:
        parser.error(str(error))


def _study(plan: Plan, given: argparse.Namespace) -> None:
    notebook = Notebook(given.notebook, hashlib.sha256(commit_of(ROOT).encode()).hexdigest()[:16])
    tasks = plan.tasks(given.parts)
    finished = notebook.resume() if given.resume and given.notebook.exists() else notebook.begin()
    finished = measured(tasks, finished, notebook, given.workers)
    findings, spent = gathered(tasks, finished), Counter[str]()
    for task in tasks:
        spent[task.part] += round(finished[key_of(task)].seconds)
    for name, parts in SECTIONS.items():
        chosen = {part: findings[part] for part in parts if part in findings}
        if chosen:
            seed = QUIET_SEED if name == "quiet" else plan.seed
            more = f", seed {seed}, {sum(spent[part] for part in chosen):,} s of a processor"
            page = DOCS if given.write_docs else None
            command = f"simulate --parts {' '.join(chosen)} --labels {plan.power} --years {plan.years}"
            publish(tables(chosen), name, command, more, page=page)


if __name__ == "__main__":
    main()
