"""The table of the benchmark of late truths; tests/integration/test_maturity.py plays such a world."""

from __future__ import annotations

import math

from benchmarks.maturity import WAYS, Tally, tables_of


def test_the_table_counts_incidents_by_way() -> None:
    after = {way: [7.25, math.inf, 0.25] for way in WAYS}
    tally = Tally(
        dict(zip(WAYS, (0, 4, 0), strict=True)), label_weeks=48, found_after_d=after, differing=dict.fromkeys(WAYS, 0),
        compared=1_000, covered=19, expected=20, errors=0.1, young=13.0,
    )  # fmt: skip
    (table,) = tables_of(tally, 3)
    assert [row[1:] for row in table.rows] == [
        ("0", "2 of 3", "7.2", "–"), ("4", "2 of 3", "7.2", "0 of 1,000"), ("0", "2 of 3", "7.2", "0 of 1,000"),
    ]  # fmt: skip
    assert "65% of the items" in table.notes[0]
    assert "in 19 of 20, mean error +0.0050" in table.notes[0]
