"""The benchmark of shift tests: a few runs of each table."""

from __future__ import annotations

import pytest

from benchmarks import shift_level


def test_the_tables_have_a_line_for_each_kind_of_score_and_find_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_level, "ROWS", (500, 5_000))
    monkeypatch.setattr(shift_level, "LABELS", 2)
    level = shift_level.level_table(2)
    assert len(level.rows) == 2 * len(shift_level.SCORES)
    unmoved, moved = shift_level.found_table(1).rows
    assert (unmoved[1], moved[1]) == ("0.000", "1.000")
