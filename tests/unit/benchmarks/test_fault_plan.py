"""Which faults a year has, and what the documentation promises of each."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks.fault_left import MAY_NOTIFY, Left, notified
from benchmarks.fault_plan import GATES_CLOSED, LASTING, PROMISED, STUCK_FOR, Kind, planned
from benchmarks.fault_play import Met
from benchmarks.fault_world import commands, schedule

PAGE = Path(__file__).parents[3] / "benchmarks" / "results" / "faults.md"
AT_ONCE = timedelta()


def test_the_page_names_every_kind_of_fault_once_with_the_time_that_the_benchmark_asks_for() -> None:
    lines = PAGE.read_text("utf-8").splitlines()
    for kind in Kind:
        (row,) = [line for line in lines if line.startswith("|") and kind.value in line]
        acts, when = row.split("|")[2].strip(), row.split("|")[3].strip()
        sometimes = {Kind.CHANNEL: STUCK_FOR, Kind.DAYS_AHEAD: GATES_CLOSED, Kind.BEHIND: GATES_CLOSED}
        promised = PROMISED.get(kind, sometimes.get(kind))
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
    assert sorted(fault.kind for fault in plan.values()) == sorted([*Kind, *Kind])
    for number, fault in plan.items():
        window, at = runs[number]
        if fault.kind is Kind.BEHIND:
            assert window.start >= runs[0][0].start + timedelta(weeks=1)
        if fault.kind is Kind.AWAY:
            assert all(window.schedule == "daily" for window, due in runs if at <= due <= at + fault.lasts)
        if fault.kind in LASTING and number + 1 < len(runs):
            assert runs[number + 1][1] - at > timedelta(hours=6)


HOUR = timedelta(hours=1)
BEGUN = datetime(2025, 2, 25, 6, tzinfo=UTC)
CLOCK, OTHER = (
    "Monitor: the clock is behind: A switch was changed",
    "*It is back: Monitor: nothing of tickets was judged*",
)
CLOCK_AGAIN = "*It is back: Monitor: the clock is behind* :red_circle: A switch was changed"


@pytest.mark.parametrize(
    ("asked", "notices", "found"),
    [
        (True, [(0, OTHER), (15, CLOCK)], (1, 1, 0, 0)),
        (True, [(15, CLOCK)], (1, 1, 0, 0)),
        (True, [(15, CLOCK_AGAIN)], (1, 1, 0, 0)),
        (True, [(0, OTHER)], (1, 0, 1, 0)),
        (True, [(0, OTHER), (45, CLOCK)], (1, 0, 1, 0)),
        (True, [(15, CLOCK), (45, CLOCK)], (1, 0, 0, 1)),
        (True, [(0, OTHER), (15, CLOCK), (30, OTHER)], (1, 1, 0, 1)),
        (False, [(0, OTHER), (15, CLOCK)], (0, 0, 0, 1)),
        (False, [(0, OTHER)], (0, 0, 0, 0)),
    ],
)
def test_under_a_clock_behind_the_notice_about_it_is_asked_for_only_where_gates_are_closed(
    asked: bool, notices: list[tuple[int, str]], found: tuple[int, int, int, int]
) -> None:
    met = Met(Kind.BEHIND, BEGUN, BEGUN + 6 * HOUR, BEGUN + GATES_CLOSED if asked else None)
    sent = [(BEGUN + timedelta(minutes=minutes), "C001", text) for minutes, text in notices]
    got = notified(Left({}, [], [], []), Left({}, sent, [], [met]))
    assert (got.asked, got.once, len(got.late), len(got.more)) == found
