"""Three weeks of runs with faults against the same weeks without; a year of it is ``python -m benchmarks.faults``."""

from __future__ import annotations

from datetime import timedelta

import pytest

from benchmarks.fault_left import Left, differences, notified
from benchmarks.fault_plan import Fault, Kind
from benchmarks.faults import Bench

WEEKS, PLACE, LASTS = 3, 0.3, timedelta(hours=1)
PLAN = {
    0: Kind.WORKERS, 1: Kind.LINE, 2: Kind.DAYS_AHEAD, 3: Kind.HISTORY, 4: Kind.STEP, 5: Kind.REPEATED, 6: Kind.READ,
    7: Kind.AHEAD, 8: Kind.WAREHOUSE, 9: Kind.BEHIND, 10: Kind.CHANNEL, 11: Kind.SLACK,
    13: Kind.LOST, 15: Kind.DISK, 17: Kind.AWAY,
}  # fmt: skip
"""Number of a run -> what goes wrong; 7, 15 and 23 are the weekly ones; from 10 on there are messages about a label."""
DAYS_AWAY = {Kind.AWAY: timedelta(hours=71)}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("years"), WEEKS)


@pytest.fixture(scope="module")
def quiet(bench: Bench) -> Left:
    return bench.year("quiet", {}, None)


def test_weeks_with_every_fault_end_as_the_same_weeks_without(bench: Bench, quiet: Left) -> None:
    plan = {run: Fault(kind, PLACE, DAYS_AWAY.get(kind, LASTS)) for run, kind in PLAN.items()}
    faulty = bench.year("faulty", plan, None)
    assert {met.kind for met in faulty.met} == set(Kind)
    assert len(quiet.parts["switch_events"]) > 30
    assert quiet.parts["incidents"]
    assert quiet.parts["messages"]
    assert faulty.parts["messages sent twice"] == []
    assert differences(quiet, faulty) == []
    told = notified(quiet, faulty)
    assert told.asked == told.once > 3
    assert (told.late, told.more, faulty.too_soon) == ([], [], [])
    assert (quiet.notices, quiet.parts["windows missed"], quiet.parts["health at the end"]) == ([], [], [])


def test_slack_that_is_back_and_a_warehouse_that_is_away_on_a_monday_call_nobody_twice(
    bench: Bench, quiet: Left
) -> None:
    plan = {11: Fault(Kind.SLACK, 0.8, timedelta(hours=4)), 15: Fault(Kind.WAREHOUSE, PLACE, timedelta(hours=28))}
    faulty = bench.year("told once", plan, None)
    told = notified(quiet, faulty)
    assert (told.asked, told.once, told.late, told.more) == (1, 1, [], [])
    last_day = [text for _, _, text in faulty.notices if "less than 24 hours" in text]
    assert len(last_day) == 1, "a lease that ends within a day is said all the same"


def test_after_nine_days_in_which_nothing_ran_each_window_is_judged_once_and_what_is_over_calls_nobody(
    bench: Bench, quiet: Left
) -> None:
    """The week is judged before the days that were missed with it: they change what it was noted of, not the end."""
    faulty = bench.year("away", {13: Fault(Kind.AWAY, PLACE, timedelta(days=8, hours=10))}, None)
    noted = {"switches", "switch_events", "incidents", "messages"}
    assert {name for name, rows in quiet.parts.items() if rows != faulty.parts[name]} <= noted
    for part, columns in (("switches", ("label", "state", "lease_until")), ("incidents", ("label", "state", "window"))):
        ends = [[tuple(row[name] for name in columns) for row in year.parts[part]] for year in (quiet, faulty)]
        assert ends[0] == ends[1]
    assert (faulty.notices, notified(quiet, faulty).more, faulty.too_soon) == ([], [], [])
