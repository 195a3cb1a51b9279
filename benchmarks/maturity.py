"""Late truths, easy items first: incidents of rules that wait for truths and of rules that do not.

Worlds in DuckDB, run by the whole program week by week. The scores of all items of a week are calibrated, but not of
those that are resolved first. Three ways: truths without delays, delays and rules that judge at once, delays and rules
with ``mature: 0.9``. ``python -m benchmarks.maturity`` prints the incidents of quiet worlds, when a planted fault is
found, whether the last estimates equal those of a run that began when all truths were known, and the coverage of the
interval of the expected share.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.checkout import ROOT, commit_of
from benchmarks.nowhere import Nowhere
from benchmarks.tables import Table, console, write_between
from monitor.context import Monitor
from monitor.core.maturity import Maturity
from monitor.core.records import Incident, Window
from monitor.core.windows import SETTLE
from monitor.operations.pin_baseline import pin
from monitor.run import run_window
from tests.fakes.late_truths import LABELS, LateTruths, late_truths

SEED, MATURE, ROWS = 20260101, 0.9, 2_000
BASELINE, FIRST, JUDGED, AFTER = 8, 14, 8, 5
"""Weeks of the baseline, first judged week, number of judged weeks, number of later runs in which truths arrive."""
FAULT_AT, FAULT = 2, 0.25
"""From this judged week on (counted from 0), the hit rate of the first label is lower than its scores by FAULT."""
WAYS: dict[str, dict[str, Any]] = {
    "no delays": {"mature": None, "at_once": True},
    "delays, rules judge at once": {"mature": None},
    f"delays, mature: {MATURE}": {"mature": MATURE},
}
DOCS = ROOT / "docs" / "statistics.md"
Estimates = dict[tuple[Any, ...], tuple[float | None, ...]]


@dataclass(frozen=True)
class Found:
    """The result of one way to judge a world: incidents, the last estimates of the judged weeks, and maturities."""

    incidents: list[Incident]
    estimates: Estimates
    first: dict[tuple[str, str | None], Maturity]
    last: dict[tuple[str, str | None], Maturity]
    replies: int


@contextmanager
def _opened(world: LateTruths, way: str, mature: float | None) -> Iterator[Monitor]:
    with world.judged_by(way, mature=mature) as monitor:
        yield replace(monitor, sender=Nowhere())


def _judged(world: LateTruths) -> tuple[Window, ...]:
    return world.weeks[FIRST : FIRST + JUDGED]


def judge(world: LateTruths, way: str, *, mature: float | None, at_once: bool = False) -> Found:
    """Run the program after each week, and then until all truths of the judged weeks are known."""
    first: dict[tuple[str, str | None], Maturity] = {}
    for window in world.weeks[FIRST:]:
        world.at(window.end + SETTLE, at_once=at_once)
        with _opened(world, way, mature) as monitor:
            if window is world.weeks[FIRST]:
                pin(monitor, world.weeks[0], world.weeks[BASELINE - 1], by="benchmark", reason="benchmark")
            result = run_window(monitor, window)
        known = (m for part in result.evaluated for m in part.maturity)
        first |= {(window.name, m.subject.label): m for m in known if window in _judged(world)}
    return _found(world, way, mature, first)


def judge_late(world: LateTruths) -> Found:
    """Judge the same weeks for the first time after every truth is known."""
    world.at(world.weeks[-1].end + SETTLE)
    with _opened(world, "late", None) as monitor:
        pin(monitor, world.weeks[0], world.weeks[BASELINE - 1], by="benchmark", reason="benchmark")
        for window in _judged(world):
            run_window(monitor, window, act="never")
    return _found(world, "late", None, {})


def _found(world: LateTruths, way: str, mature: float | None, first: dict[tuple[str, str | None], Maturity]) -> Found:
    names = {window.name: window for window in _judged(world)}
    with _opened(world, way, mature) as monitor:
        store, since = monitor.store, world.weeks[FIRST].start
        incidents = [i for i in store.incidents() if not i.is_of_monitor and i.opened_window in names]
        estimates: Estimates = {}
        for e in store.estimates(schedule="weekly", segments=True):
            if e.window.name in names:
                key = (e.window.name, e.subject, e.metric, e.where)
                estimates[key] = (e.n, e.interval.value, e.interval.low, e.interval.high, e.interval.plug_in)
        ends = store.maturities("weekly", "tickets", since=since).values()
        last = {(m.window.name, m.subject.label): m for m in ends if m.window.name in names}
        replies = sum(each.operation == "reply" for each in store.deliveries())
    return Found(incidents, estimates, first, last, replies)


@dataclass
class Tally:
    """The results of several worlds, by way."""

    false: dict[str, int]
    label_weeks: int = 0
    found_after_d: dict[str, list[float]] | None = None
    differing: dict[str, int] | None = None
    compared: int = 0
    covered: int = 0
    expected: int = 0
    errors: float = 0.0
    young: float = 0.0


def play(worlds: int, rows: int) -> Tally:
    """Play quiet worlds and as many with a fault, in all ways."""
    tally = Tally(dict.fromkeys(WAYS, 0), found_after_d={way: [] for way in WAYS}, differing=dict.fromkeys(WAYS, 0))
    for number in range(2 * worlds):
        faulty = number >= worlds
        faults = [0.0] * (FIRST + FAULT_AT) + [FAULT] * (JUDGED + AFTER) if faulty else []
        with tempfile.TemporaryDirectory() as folder:
            world = late_truths(
                Path(folder), weeks=FIRST + JUDGED + AFTER, size=rows, seed=SEED + number, faults=faults
            )
            found = {f"{at}": judge(world, f"way{at}", **options) for at, options in enumerate(WAYS.values())}
            _count(tally, world, dict(zip(WAYS, found.values(), strict=True)), faulty=faulty)
            if not faulty:
                _compare(tally, dict(zip(WAYS, found.values(), strict=True)), judge_late(world))
    return tally


def _count(tally: Tally, world: LateTruths, found: dict[str, Found], *, faulty: bool) -> None:
    begins = world.weeks[FIRST + FAULT_AT]
    assert tally.found_after_d is not None
    for way, result in found.items():
        true = [i for i in result.incidents if faulty and i.label == LABELS[0] and i.opened_window >= begins.name]
        tally.false[way] += len(result.incidents) - len(true)
        if faulty:
            opened = min((i.opened_at for i in true), default=None)
            tally.found_after_d[way].append(
                float("inf") if opened is None else (opened - begins.end) / timedelta(days=1)
            )
    tally.label_weeks += JUDGED * len(LABELS)


def _compare(tally: Tally, found: dict[str, Found], late: Found) -> None:
    """Compare the last estimates with those of a run with all truths, and expected shares with the known ones."""
    assert tally.differing is not None
    for way, result in found.items():
        if way != "no delays":
            tally.differing[way] += sum(result.estimates.get(key) != value for key, value in late.estimates.items())
    tally.compared += len(late.estimates)
    waited = list(found.values())[-1]
    for key, young in waited.first.items():
        came = waited.last[key].share
        if young.low is not None and young.high is not None and young.expected is not None:
            tally.expected += 1
            tally.covered += young.low - 1e-9 <= came <= young.high + 1e-9
            tally.errors += young.expected - came
            tally.young += young.share


def tables_of(tally: Tally, worlds: int) -> list[Table]:
    """The tables of the page."""
    assert tally.found_after_d is not None
    assert tally.differing is not None
    lines = []
    for way in WAYS:
        after = sorted(tally.found_after_d[way])
        differs = "–" if way == "no delays" else f"{tally.differing[way]:,} of {tally.compared:,}"
        median, seen = after[len(after) // 2], f"{sum(d < 1e9 for d in after)} of {len(after)}"
        lines.append((way, f"{tally.false[way]}", seen, f"{median:.1f}", differs))
    heads = ("way", "false incidents", "faults found", "days after the week's end", "last estimates that differ")
    note = (
        f"{2 * worlds} worlds ({worlds} of them with a fault), {tally.label_weeks:,} label-weeks, two rules; "
        f"of young weeks {tally.young / tally.expected:.0%} of the items had their truth, the final share was in the "
        f"95% interval in {tally.covered} of {tally.expected}, mean error {tally.errors / tally.expected:+.4f}."
    )
    return [Table("Truths that come late", heads, tuple(lines), (note,), texts=1)]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maturity", description=str(__doc__).split("\n")[0])
    parser.add_argument("--worlds", type=int, default=3, help="quiet worlds, and as many with a fault (default 3)")
    parser.add_argument("--rows", type=int, default=ROWS, help=f"items of a label in a week (default {ROWS:,})")
    parser.add_argument("--write-docs", action="store_true", help="put the table into docs/statistics.md")
    given = parser.parse_args(arguments)
    if given.worlds < 1 or given.rows < 200:
        parser.error("--worlds must be at least 1, and --rows at least 200")
    began = time.process_time()
    found = tables_of(play(given.worlds, given.rows), given.worlds)
    for table in found:
        table.show(console())
    if given.write_docs:
        origin = (
            f"Made by `python -m benchmarks.maturity --worlds {given.worlds} --write-docs` at commit "
            f"{commit_of(ROOT)}, seed {SEED}, {time.process_time() - began:,.0f} s of a processor."
        )
        write_between(DOCS, "maturity", "\n\n".join([origin, *(table.markdown() for table in found)]))


if __name__ == "__main__":
    main()
