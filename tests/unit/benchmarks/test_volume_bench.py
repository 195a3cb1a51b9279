"""The arithmetic beside what a backfill by workers and a window of many rows were measured to take."""

from __future__ import annotations

import pytest

from benchmarks.backfill import Took, at_best
from benchmarks.backfill import table_of as backfill_table
from benchmarks.volume import Volume
from benchmarks.volume import table_of as volume_table


def took(name: str, count: int, seconds: float, here: float, workers: float, history: str = "same") -> Took:
    return Took(name, count, seconds, here, workers, history)


def test_idle_cores_are_shared_and_no_process_is_on_two() -> None:
    assert at_best(took("one", 1, 0, 10, 80), cores=2) == 80
    assert at_best(took("two", 2, 0, 10, 80), cores=2) == 45
    assert at_best(took("two", 2, 0, 10, 80), cores=4) == 40
    assert at_best(took("many", 16, 0, 10, 80), cores=64) == 10
    assert at_best(took("none", 0, 0, 90, 0), cores=2) == 90


@pytest.mark.parametrize(("history", "said"), [("same", "equal, value"), ("other", "NOT EQUAL")])
def test_the_ratio_is_to_one_worker_and_other_histories_are_said(history: str, said: str) -> None:
    rounds = [[took("processes 1", 1, 90, 10, 80), took("processes 2", 2, 50, 10, 80, history)]]
    table = backfill_table(52, 2_000, rounds)
    assert [row[-1] for row in table.rows] == ["1.00x", "1.80x"]
    assert said in table.notes[1]


def volume(rows: int, reading: float) -> Volume:
    return Volume(
        rows, plain=0.0, reading=reading, statements=6, scans=3, left=17_500_000, judging=2.0, acting=0.1,
        kept=3_000_000, file=11 * rows,
    )  # fmt: skip


def test_what_a_row_more_took_is_what_a_billion_rows_are_reckoned_by() -> None:
    table = volume_table([volume(10_000_000, 3.0), volume(100_000_000, 12.0)])
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["reading, processor s"] == ("3", "12", "102", "702")
    assert rows["MB that leave the warehouse"][-1] == "17.5 or little more"
