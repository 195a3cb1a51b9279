"""Some weeks of runs with faults end as the same weeks without; a year of it is ``python -m benchmarks.faults``."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults import Kind, differences, years

WEEKS, FAULTS = 4, 20


@pytest.mark.parametrize("engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgres)])
def test_weeks_with_faults_end_as_the_same_weeks_without(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_url") if engine == "postgresql" else ""
    quiet, faulty = years(engine, tmp_path, WEEKS, FAULTS, server)
    assert set(faulty.faults) == set(Kind)
    assert len(quiet.parts["switch events"]) > 50
    assert quiet.parts["incidents"]
    assert quiet.parts["messages"]
    assert faulty.parts["messages sent twice"] == []
    assert differences(quiet, faulty) == []
