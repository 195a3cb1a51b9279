"""What is compared with Evidently finds what was planted, and the ratios are right; not the times."""

from __future__ import annotations

from pathlib import Path

from benchmarks.evidently_scale import MOVED, Found, ours, table_of, write_table


def test_the_samples_find_the_columns_that_have_moved_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "warehouse.duckdb"
    write_table(path, 6_000)
    found, significant = ours(path, 6_000, None)
    assert found.drifted == significant == tuple(sorted(MOVED))


def test_the_table_says_how_many_times_as_fast_and_whether_the_findings_are_the_same() -> None:
    theirs, mine = Found("theirs", 33.0, 30.0, 900.0, ("a",)), Found("mine", 6.0, 3.0, 300.0, ("a",))
    table = table_of(1_000, [theirs, mine], ["a"])
    assert table.rows[1][4:6] == ("5.50x", "10x")
    assert "the same" in table.notes[-1]
    assert "NOT the same" in table_of(1_000, [theirs, Found("mine", 6.0, 3.0, 300.0, ())], []).notes[-1]
