"""Two weeks of runs with faults against the same weeks without; a year of it is ``python -m benchmarks.faults``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from benchmarks.fault_left import differences, notified
from benchmarks.fault_plan import Fault, Kind
from benchmarks.faults import Bench

WEEKS, PLACE, LASTS = 2, 0.3, timedelta(hours=1)
PLAN = {
    0: Kind.WORKERS, 1: Kind.LINE, 2: Kind.DAYS_AHEAD, 3: Kind.HISTORY, 4: Kind.STEP, 5: Kind.REPEATED, 6: Kind.READ,
    7: Kind.AHEAD, 8: Kind.WAREHOUSE, 9: Kind.BEHIND, 10: Kind.CHANNEL, 11: Kind.SLACK,
    13: Kind.LOST, 15: Kind.DISK,
}  # fmt: skip
"""Number of a run -> what goes wrong; 7 and 15 are the weekly ones, and from 10 on there are messages about a label."""


def test_weeks_with_every_fault_end_as_the_same_weeks_without(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WEEKS)
    quiet = bench.year("quiet", {}, None)
    faulty = bench.year("faulty", {run: Fault(kind, PLACE, LASTS) for run, kind in PLAN.items()}, None)
    assert {met.kind for met in faulty.met} == set(Kind)
    assert len(quiet.parts["switch_events"]) > 30
    assert quiet.parts["incidents"]
    assert quiet.parts["messages"]
    assert faulty.parts["messages sent twice"] == []
    assert differences(quiet, faulty) == []
    told = notified(quiet, faulty)
    assert told.asked == told.once > 3
    assert (told.late, told.more, faulty.too_soon) == ([], [], [])
