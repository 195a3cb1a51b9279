"""The arithmetic beside what a whole run was measured to take."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from benchmarks.whole_run import DOCS, ENGINES, WEEKS, Cost, Whole, middle_of
from benchmarks.whole_run import table_of as whole_table


def test_a_whole_run_is_held_against_the_bare_scan_and_its_memory_is_limited() -> None:
    scan = Cost(process=2.0, others=0.0, peak=300)
    run = Cost(process=5.0, others=2.9, peak=590)  # 7.9 s where 1.5 x 2 + 5 = 8 are allowed
    found = [
        Whole("duckdb", 100_000_000, scan, each) for each in (run, replace(run, others=3.1), replace(run, peak=601))
    ]
    table = whole_table(found, 3)
    assert [row[-1] for row in table.rows] == ["yes", "NO", "NO"]
    assert table.rows[0][1:8] == ("100,000,000", "10,000,000", "2", "5", "2.9", "7.9", "8")


def test_of_several_rounds_the_median_counts_with_the_highest_peak() -> None:
    rounds = [Cost(process=process, others=1.0, peak=peak) for process, peak in ((9.0, 300), (2.0, 500), (3.0, 400))]
    assert middle_of(rounds) == Cost(process=3.0, others=1.0, peak=500)
    assert middle_of(rounds[:2]).process == 9.0


@pytest.mark.parametrize("engine", sorted(ENGINES))
def test_what_the_table_says_of_whole_runs_follows_from_its_figures(engine: str) -> None:
    (block,) = re.findall(f"<!-- whole-{engine}:begin -->\n(.*?)<!-- whole-{engine}:end -->", DOCS.read_text(), re.S)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines() if "---:" not in line]
    found = [row for row in rows if row[0] == engine]
    assert found
    for _, rows_, of_week, *figures, kept in found:
        assert float(rows_.replace(",", "")) == WEEKS * float(of_week.replace(",", ""))
        scan, process, others, run, wanted, peak = map(float, figures)
        assert run == pytest.approx(process + others, rel=2e-3)
        assert wanted == pytest.approx(1.5 * scan + 5, rel=2e-3)
        assert kept == ("yes" if run <= wanted and peak <= 600 else "NO")
