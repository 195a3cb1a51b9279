"""Some weeks of runs with faults end as the same weeks without; a year of it is ``python -m benchmarks.faults``."""

from __future__ import annotations

from pathlib import Path

from benchmarks.faults import Kind, differences, years

WEEKS, FAULTS = 4, 20


def test_weeks_with_faults_end_as_the_same_weeks_without(tmp_path: Path) -> None:
    quiet, faulty = years("sqlite", tmp_path, WEEKS, FAULTS, "")
    assert set(faulty.faults) == set(Kind)
    assert len(quiet.parts["switch events"]) > 50
    assert quiet.parts["incidents"]
    assert quiet.parts["messages"]
    assert faulty.parts["messages sent twice"] == []
    assert differences(quiet, faulty) == []
