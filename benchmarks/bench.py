"""`make bench`: speed compared with other libraries, the cost of replays, and the gate, in one run and one thread.

The libraries do different work (the notes say what): a ratio says how long a user waits, not whose code is better.
"""

from __future__ import annotations

import argparse
import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version

from rich.console import Console

from benchmarks import gate, race, replay
from benchmarks.peers import PEERS
from benchmarks.tables import ROOT, Table, commit_of, console, write_between
from benchmarks.timing import QUICK, Size, fresh, timed

DOCS = ROOT / "benchmarks" / "results" / "scale.md"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "duckdb")
PARTS = {
    "intervals beside peers": race.tables,
    "replay": replay.tables,
}


def machine() -> str:
    """A description of this machine."""
    libraries = [f"{name} {version(name)}" for name in LIBRARIES]
    libraries += [f"{peer.name} {peer.version}" for peer in PEERS if peer.installed]
    return f"Python {platform.python_version()}, {', '.join(libraries)}; {platform.machine()}, {os.cpu_count()} cores"


def measured(size: Size, shown: Console) -> list[Table]:
    """All tables but the gate's, each printed as soon as it is measured."""
    found = []
    waiting = Console(stderr=True)
    for name, tables in PARTS.items():
        waiting.print(f"measuring: {name} ...")
        for table in tables(size):
            table.show(shown)
            found.append(table)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data: does it run, not how fast it is")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into benchmarks/results/")
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error("--quick is a look only: its tables do not belong into the docs")
    shown = console()
    seconds, tables = timed(lambda: measured(QUICK if given.quick else Size(), shown))
    shown.print(f"{machine()}; {seconds:.0f} s\n")
    if given.write_docs:
        day = datetime.now(UTC).date().isoformat()
        origin = f"Made by `python -m benchmarks.bench` on {day} at commit {commit_of(ROOT)}.\n{machine()}."
        write_between(DOCS, "bench", "\n\n".join([origin, *(table.markdown() for table in tables)]))
        shown.print(f"written: {DOCS.relative_to(ROOT)}\n")
    flags = [name for name, is_set in (("--quick", given.quick), ("--write-docs", given.write_docs)) if is_set]
    fresh(gate.main, flags)


if __name__ == "__main__":
    main()
