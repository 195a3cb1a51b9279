"""`make bench`: speed compared with other libraries, the cost of replays, and the gate, in one run and one thread.

The libraries do different work (the notes say what): a ratio says how long a user waits, not whose code is better.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from importlib.metadata import version

from rich.console import Console

from benchmarks import gate, race, replay
from benchmarks.peers import PEERS
from benchmarks.tables import ROOT, Table, machine, publish
from benchmarks.timing import QUICK, Size, fresh, timed

DOCS = ROOT / "benchmarks" / "results" / "scale.md"
LIBRARIES = ("numpy", "scipy", "scikit-learn", "duckdb")
PARTS = {
    "intervals beside peers": race.tables,
    "replay": replay.tables,
}


def libraries() -> str:
    """The libraries that are compared, with their versions."""
    found = [f"{name} {version(name)}" for name in LIBRARIES]
    return ", ".join([*found, *(f"{peer.name} {peer.version}" for peer in PEERS if peer.installed)])


def measured(size: Size) -> list[Table]:
    """All tables but the gate's."""
    found: list[Table] = []
    for name, tables in PARTS.items():
        Console(stderr=True).print(f"measuring: {name} ...")
        found += tables(size)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data: does it run, not how fast it is")
    parser.add_argument("--write-docs", action="store_true", help="put the tables into benchmarks/results/")
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error("--quick is a look only: its tables do not belong into the docs")
    seconds, tables = timed(lambda: measured(QUICK if given.quick else Size()))
    more = f"; {machine()}, {libraries()}; {seconds:.0f} s"
    publish(tables, "bench", "bench", more, page=DOCS if given.write_docs else None)
    flags = [name for name, is_set in (("--quick", given.quick), ("--write-docs", given.write_docs)) if is_set]
    fresh(gate.main, flags)


if __name__ == "__main__":
    main()
