"""The benchmark of falls: a label that gets worse has a smaller area, and is found."""

from __future__ import annotations

import pytest

from benchmarks import decrease
from benchmarks.decrease import TROUBLED, area_of, blurred, first_week
from benchmarks.populations import LABELS


def test_a_label_that_gets_worse_has_a_smaller_area_above_the_floor_of_the_shipped_rule() -> None:
    before, after = area_of(LABELS[TROUBLED]), area_of(blurred(LABELS[TROUBLED]))
    assert 0.8 < after < before - 0.03


def test_with_many_rows_it_is_found_in_the_first_week() -> None:
    assert first_week(10_000, 0, 2) == 1


def test_a_quick_look_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    decrease.main(["--quick"])
    assert "false incidents a year" in capsys.readouterr().out
