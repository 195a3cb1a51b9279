"""The history that is replayed in `make bench` is a whole one, and its rounds give the same; not how fast it is."""

from __future__ import annotations

from pathlib import Path

from benchmarks import replay as bench
from benchmarks.timing import Size, Timing
from monitor.history.store import Store
from monitor.operations.replay.plan import plan_of
from monitor.operations.replay.replay import replay
from tests.replayed_again import said_and_said_again

TINY = Size(labels=2, rounds=2, replayed=2)


def test_the_history_that_is_replayed_lacks_no_window_and_says_what_it_said_before(tmp_path: Path) -> None:
    bench.write(tmp_path, TINY)
    with Store.from_url(bench.address(tmp_path), create=False) as store:
        plan = plan_of(bench.config(), bench.config(), bench.newest_week(store), TINY.replayed)
        found, (said, again) = replay(store, plan), said_and_said_again(store, plan)
        verdicts = store.verdicts()
    assert found.missing == ()
    assert len(said) == len(verdicts)
    assert again == said
    timed = bench.replayed(tmp_path, TINY)
    assert [(each.name, each.schedules) for each in timed] == [
        (name, schedules)
        for schedules in ("weekly", "weekly and daily")
        for name in (bench.THE_SAME, bench.STRICTER, bench.ONE_MORE)
    ]
    assert all(each.same_twice and len(each.timing.seconds) == 2 and min(each.timing.seconds) > 0 for each in timed)


def test_rounds_that_differ_are_reported() -> None:
    line = bench.Replayed("a file", "weekly", Timing("", (1.0, 2.0, 4.0)), (3, 5), same_twice=True)
    other = bench.Replayed("a file", "weekly", Timing("", (1.0,)), (3, 5), same_twice=False)
    table = bench.table_of(TINY, [line])
    assert table.rows == (("a file", "weekly", "1", "2", "4", "3 / 5"),)
    assert "Rounds gave the same result" in table.notes[1]
    assert "did NOT give the same" in bench.table_of(TINY, [line, other]).notes[1]
