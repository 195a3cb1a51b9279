"""A year of runs with faults must end as the same year without: same history, switches, incidents and messages.

52 weeks and 364 days of a small made-up warehouse are judged once undisturbed, and once for each seed with faults.
``python -m benchmarks.faults --seeds 20 --engine sqlite`` prints one line for each seed. It exits with 1 if anything
differs, or if people were not notified once and in time of a fault that needs them. With ``--engine postgresql``
history and warehouse are on a new PostgreSQL server.
"""

from __future__ import annotations

import argparse
import logging
import os
import resource
import sys
import tempfile
import traceback
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.fault_left import Left, differences, left_behind, notified, said_early
from benchmarks.fault_plan import Fault, Kind, planned
from benchmarks.fault_play import Year, play
from benchmarks.fault_world import CONFIG, WEEKS, commands, judged_once, rows, schedule, write_warehouse
from tests.conftest import new_postgres_database, start_postgres
from tests.fakes import slack
from tests.fakes.world import make_world

FAULTS, SHOWN = 30, 1_500


@dataclass
class Bench:
    """The years of one engine. They share the rows and the results computed from them. ``server``: PostgreSQL's."""

    folder: Path
    weeks: int
    server: str | None = None
    kept: dict[Any, Any] = field(default_factory=dict)
    frame: pd.DataFrame = field(init=False)
    warehouse: str = field(init=False)
    sending: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.frame = rows(self.weeks)
        self.warehouse = write_warehouse(self.folder, self.frame, self.database())

    def database(self) -> str | None:
        """The address of a new database for a history; None if the history is a file."""
        return None if self.server is None else new_postgres_database(self.server)

    def year(self, name: str, plan: dict[int, Fault], store_url: str | None) -> Left:
        """Play one year on a new history, in that database or in a file."""
        folder = self.folder / name
        folder.mkdir()
        with slack.running() as server, judged_once(self.kept):
            world = make_world(folder, config=CONFIG, warehouse_url=self.warehouse, store_url=store_url)
            year = Year(world, server, self.kept, self.frame)
            play(year, self.weeks, plan)
            self.sending |= set() if plan else year.sending
            return left_behind(year)

    def plan(self, seed: int, faults: int) -> dict[int, Fault]:
        """The faults of a seed. The quiet year, which is played first, shows which runs send messages."""
        return planned(seed, schedule(self.weeks), faults, self.sending, set(commands(self.weeks)))


def line(seed: int, quiet: Left, faulty: Left, seconds: float) -> tuple[str, bool]:
    """The result of one seed as a line, and whether everything is as it should be."""
    found, notices = differences(quiet, faulty), notified(quiet, faulty)
    bad = [
        *found, *(f"late: {each}" for each in notices.late), *(f"not asked for: {each}" for each in notices.more),
        *(f"too soon: {each}" for each in faulty.too_soon),
    ]  # fmt: skip
    kinds = Counter(met.kind for met in faulty.met if not met.goes_on)
    of_kind = ", ".join(f"{kinds[kind]} {kind}" for kind in Kind if kinds[kind])
    text = (
        f"seed {seed}: {kinds.total()} faults ({of_kind}); "
        f"{len(found)} differences; {len(said_early(quiet, faulty))} replies about windows not judged in time; "
        f"{notices.once} of {notices.asked} faults that ask for somebody notified once, "
        f"{len(notices.late)} late, {len(notices.more)} notices too many; {len(faulty.too_soon)} reminders too soon; "
        f"{seconds:.0f} s of processor"
    )
    return "\n".join([text, *(f"  WRONG  {each[:SHOWN]}" for each in bad)]), not bad


def in_child(bench: Bench, seed: int, faults: int, quiet: Left) -> bool:
    """Play one seed in a fork of this process, which has the cached results and frees its memory at its end."""
    database = bench.database()
    child = os.fork()
    if not child:
        good = False
        try:
            left = bench.year(f"seed-{seed}", bench.plan(seed, faults), database)
            used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
            text, good = line(seed, quiet, left, sum(each.ru_utime + each.ru_stime for each in used))
            print(text, flush=True)
        except BaseException:  # noqa: BLE001 - the year ended early: this process ends here
            print(f"seed {seed}: ended early", flush=True)
            traceback.print_exc()
        os._exit(0 if good else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main() -> None:
    """Play the quiet year and one for each seed, print a line for each, and exit with 1 if something is wrong."""
    parser = argparse.ArgumentParser(description="Years of runs with faults against the same year without.")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--engine", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--weeks", type=int, default=WEEKS)
    parser.add_argument("--faults", type=int, default=FAULTS)
    options = parser.parse_args()
    logging.disable(logging.ERROR)  # the faults are planted
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="calmon-faults-", ignore_cleanup_errors=True))
        )
        server = str(_server(stack, folder).get_uri()) if options.engine == "postgresql" else None
        bench = Bench(folder, options.weeks, server)
        quiet = bench.year("quiet", {}, bench.database())
        counts = ", ".join(f"{len(found)} {name}" for name, found in quiet.parts.items() if found)
        print(f"{options.engine}: {8 * options.weeks} runs; without faults {counts}, {len(quiet.notices)} notices")
        sys.stdout.flush()
        seeds = range(options.first, options.first + options.seeds)
        equal = [in_child(bench, seed, options.faults, quiet) for seed in seeds]
        print(f"{sum(equal)} of {len(equal)} seeds equal, each notice once and in time")
    sys.exit(0 if all(equal) else 1)


def _server(stack: ExitStack, folder: Path) -> Any:
    found = start_postgres(folder / "data")
    stack.callback(found.cleanup)
    return found


if __name__ == "__main__":
    main()
