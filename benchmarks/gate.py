"""Decisions per second of a gate's snapshot in one thread, compared with a plain look-up in a dictionary."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from openfeature import api
from openfeature.evaluation_context import EvaluationContext

from benchmarks.tables import ROOT, Table, machine, publish
from benchmarks.timing import in_turns
from monitor.automation import AsyncGate, Gate, GateReason
from monitor.automation.gate.openfeature import CalmonProvider
from monitor.automation.gate.sources import StoreSource
from monitor.core.records import SwitchState
from monitor.history.store import Store

DOCS = ROOT / "benchmarks" / "results" / "gate.md"
LABELS = 200
WANTED = 200_000
Item = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of labels, items and rounds."""

    questions: int = 200_000
    rounds: int = 7


QUICK = Size(questions=5_000, rounds=2)


@dataclass(frozen=True, slots=True)
class Contestant:
    """One way to ask: ``run`` asks about every item, and returns how many answers were yes."""

    name: str
    run: Callable[[Sequence[Item]], int]
    items: Sequence[Item]


def history(folder: str) -> str:
    """Make a history with many labels that are on; every fifth has blocked ranges. Returns its address."""
    url, now = f"sqlite:///{folder}/history.sqlite", datetime.now(UTC)
    with Store.from_url(url) as store:
        for number in range(LABELS):
            blocked = ((0.90, 0.91), (0.97, 0.98)) if number % 5 == 0 else ()
            state = SwitchState(
                "tickets", f"label-{number}", "on", blocked, now + timedelta(days=2), changed_at=now, version=1
            )
            store.apply_switch(SwitchState("tickets", state.label), state, None)
        store.publish_thresholds({("tickets", None): 0.8}, now)
    return url


def items(size: Size, labels: Sequence[str], scores: Sequence[float]) -> list[Item]:
    """Items with these labels and scores, in turns."""
    pairs = zip(itertools.cycle(labels), itertools.cycle(scores), strict=False)
    return [("tickets", label, score) for label, score in itertools.islice(pairs, size.questions)]


def contestants(size: Size, gate: Gate) -> list[Contestant]:
    """The plain look-up first, then the gate's ways to ask."""
    known = [f"label-{number}" for number in range(LABELS)]
    free = [label for number, label in enumerate(known) if number % 5]
    ranged = known[::5]
    mixed = items(size, known, (0.93, 0.31, 0.85, 0.905, 0.78, 0.99, 0.64))
    table = {("tickets", label): 0.8 for label in known}
    client = api.get_client()

    def look_up(asked: Sequence[Item]) -> int:
        yes = 0
        for source, label, score in asked:
            if score >= table[source, label]:
                yes += 1
        return yes

    def ask(asked: Sequence[Item]) -> int:
        allows, yes = gate.allows, 0
        for source, label, score in asked:
            if allows(source, label, score=score):
                yes += 1
        return yes

    async def ask_awaiting(asked: Sequence[Item]) -> int:
        allows, yes = AsyncGate(gate).allows, 0
        for source, label, score in asked:
            if await allows(source, label, score=score):
                yes += 1
        return yes

    def ask_client(asked: Sequence[Item]) -> int:
        return sum(
            client.get_boolean_value(f"automate.{source}.{label}", False, EvaluationContext(None, {"score": score}))
            for source, label, score in asked
        )

    return [
        Contestant("a dictionary, and one comparison", look_up, mixed),
        Contestant("gate: a mix of answers", ask, mixed),
        Contestant("gate: yes", ask, items(size, free, (0.93,))),
        Contestant("gate: yes, past blocked ranges", ask, items(size, ranged, (0.93,))),
        Contestant("gate: below the threshold", ask, items(size, known, (0.31,))),
        Contestant("gate: a label never set", ask, items(size, ["nobody"], (0.93,))),
        Contestant("AsyncGate: a mix of answers", lambda asked: asyncio.run(ask_awaiting(asked)), mixed),
        Contestant("OpenFeature's client: a mix of answers", ask_client, mixed[: len(mixed) // 20]),
    ]


def race(size: Size, runners: Sequence[Contestant]) -> list[list[float]]:
    """Decisions per second of every round."""
    timings = in_turns({each.name: partial(each.run, each.items) for each in runners}, size.rounds)
    return [[len(each.items) / s for s in timing.seconds] for each, timing in zip(runners, timings, strict=True)]


def table_of(size: Size, runners: Sequence[Contestant], rates: Sequence[Sequence[float]], yes: Sequence[int]) -> Table:
    """The table; ratios are of medians, to the dictionary."""
    bare = statistics.median(rates[0])
    rows = tuple(
        (
            runner.name, *(f"{rate:,.0f}" for rate in (min(found), statistics.median(found), max(found))),
            f"{1e6 / statistics.median(found):.2f}", f"{bare / statistics.median(found):.1f}x",
            f"{share / len(runner.items):.0%}",
        )
        for runner, found, share in zip(runners, rates, yes, strict=True)
    )  # fmt: skip
    columns = ("what", "min /s", "median /s", "max /s", "median µs", "/ dictionary", "yes")
    title = f"Decisions a second: {LABELS} labels, {size.questions:,} questions, one thread, {size.rounds} rounds"
    slowest = min(statistics.median(found) for found in rates[1:6])
    notes = (
        "The dictionary knows neither lease, age, blocked ranges nor the source's switch: it is the floor, no peer.",
        f"Wanted: {WANTED:,} a second from memory. The slowest median of `Gate` is {slowest:,.0f}.",
    )
    return Table(title, columns, rows, notes)


def measured(size: Size) -> Table:
    """Measure all ways on a new history. The gate refreshes in the background meanwhile, as in a router."""
    with tempfile.TemporaryDirectory() as folder, Gate(StoreSource(history(folder))) as gate:
        api.set_provider(CalmonProvider(gate))
        runners = contestants(size, gate)
        yes = [runner.run(runner.items) for runner in runners]
        assert gate.allows("tickets", "label-1", score=0.93).reason is GateReason.ON
        rates = race(size, runners)
        api.clear_providers()
    return table_of(size, runners, rates, yes)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=str(__doc__).split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="few questions: does it run, not how fast it is")
    parser.add_argument("--write-docs", action="store_true", help="put the table into benchmarks/results/gate.md")
    given = parser.parse_args(arguments)
    if given.quick and given.write_docs:
        parser.error("--quick is a look only: its table does not belong into the docs")
    table, page = measured(QUICK if given.quick else Size()), DOCS if given.write_docs else None
    publish([table], "bench", "gate", f"; {machine()}", page=page)


if __name__ == "__main__":
    main()
