"""Which faults a year has, and what the documentation promises of each."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from benchmarks.fault_left import MAY_NOTIFY
from benchmarks.fault_plan import GATES_CLOSED, LASTING, PROMISED, STUCK_FOR, Kind, planned
from benchmarks.fault_world import commands, schedule

PAGE = Path(__file__).parents[3] / "docs" / "operations.md"
AT_ONCE = timedelta()


def test_the_page_names_every_kind_of_fault_once_with_the_time_that_the_benchmark_asks_for() -> None:
    lines = PAGE.read_text("utf-8").split("## Who is notified of what, and when")[1].split("\n## ")[0].splitlines()
    for kind in Kind:
        (row,) = [line for line in lines if line.startswith("|") and kind.value in line]
        acts, when = row.split("|")[2].strip(), row.split("|")[3].strip()
        promised = PROMISED.get(kind, {Kind.CHANNEL: STUCK_FOR, Kind.DAYS_AHEAD: GATES_CLOSED}.get(kind))
        assert acts.startswith("yes") is (promised is not None), kind
        hours, minutes = divmod(int((promised or AT_ONCE).total_seconds()) // 60, 60)
        within = f"within {hours} h {minutes} min" if hours else f"within {minutes} min"
        assert (within in when) is (promised not in (None, AT_ONCE)), kind
        assert when.startswith("with the run that") is (promised == AT_ONCE), kind
        assert ("at most one message in each channel" in when) is (kind in MAY_NOTIFY), kind


@pytest.mark.parametrize("seed", range(1, 21))
def test_a_year_has_thirty_faults_each_where_it_can_be_done(seed: int) -> None:
    runs = schedule(52)
    plan = planned(seed, runs, 30, range(0, len(runs), 5), set(commands(52)))
    assert sorted(fault.kind for fault in plan.values()) == sorted(2 * [*Kind])
    for number, fault in plan.items():
        window, at = runs[number]
        if fault.kind is Kind.BEHIND:
            assert window.start >= runs[0][0].start + timedelta(weeks=1)
        if fault.kind in LASTING and number + 1 < len(runs):
            assert runs[number + 1][1] - at > timedelta(hours=6)
