"""Some weeks of runs with faults against the same weeks without; a year of it is ``python -m benchmarks.faults``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.fault_left import differences, notified
from benchmarks.fault_plan import Kind
from benchmarks.faults import Bench

WEEKS, SEED = 4, 4


def test_weeks_with_faults_end_as_the_same_weeks_without(tmp_path: Path) -> None:
    bench = Bench(tmp_path, WEEKS)
    quiet = bench.year("quiet", {}, None)
    faulty = bench.year("faulty", bench.plan(SEED, len(Kind)), None)
    assert {met.kind for met in faulty.met} == set(Kind)
    assert len(quiet.parts["switch_events"]) > 50
    assert quiet.parts["incidents"]
    assert quiet.parts["messages"]
    assert faulty.parts["messages sent twice"] == []
    assert differences(quiet, faulty) == []
    told = notified(quiet, faulty)
    assert told.asked == told.once > 3
    assert (told.late, told.more, faulty.too_soon) == ([], [], [])
