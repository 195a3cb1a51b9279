"""The comparison of one scan with several, at a small size: it ends, and both ways find the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import one_scan
from benchmarks.one_scan import Took, measured, peaks, table_of, write_table


def test_both_ways_are_measured_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_table(tmp_path / "warehouse.duckdb", 2_000)
    found = measured(tmp_path / "warehouse.duckdb", 1)
    assert [each.source for each in found] == list(one_scan.SOURCES)
    assert [each.scans for each in found] == [(3, 2), (4, 2), (5, 2), (7, 1), (8, 1), (11, 2)]
    assert all(seconds > 0 for each in found for seconds in (*each.plain, *each.at_once))
    facts = iter(range(12))
    monkeypatch.setattr(one_scan, "_facts", lambda _: next(facts))
    with pytest.raises(AssertionError, match="the two ways differ"):
        measured(tmp_path / "warehouse.duckdb", 1)


def test_the_ratio_is_of_the_medians() -> None:
    table = table_of(
        1_000,
        [Took("clusters", (1.0, 2.0, 9.0), (3.0, 3.0, 4.0), (4, 2)), Took("rejected rows", (1.0,), (2.0,), (3, 2))],
    )
    assert table.rows[0] == ("clusters", "4", "2", "2", "3", "1.50x")
    assert table.rows[1][:2] == ("rejected rows", "3")


def test_the_memory_of_both_ways_is_measured_in_processes_of_their_own(tmp_path: Path) -> None:
    write_table(tmp_path / "warehouse.duckdb", 2_000)
    found = peaks(tmp_path / "warehouse.duckdb")
    assert len(found) == len(one_scan.SOURCES)
    assert all(50 < mib < 2_000 for each in found for mib in each)
    table = table_of(1_000, [Took("clusters", (1.0,), (3.0,), (4, 2))], memory=[(1_200.4, 1_500.0)])
    assert table.notes[1] == "With clusters a process holds 1,200 MiB at most by 4 scans, 1,500 MiB by 2."
