"""The benchmark of evidence that lasts: its methods agree on what is plain, and it runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import accumulated
from benchmarks.accumulated import CLAIMED, METHODS, Cell, played


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_finds_a_disaster_in_the_first_week(method: str) -> None:
    assert METHODS[method](np.full(5, 0.3), 200) == 1


@pytest.mark.parametrize("method", sorted(METHODS))
def test_no_method_finds_anything_where_every_promise_is_kept(method: str) -> None:
    assert METHODS[method](np.full(20, CLAIMED), 200) is None


def test_weeks_that_were_never_found_come_last() -> None:
    cell = Cell("evidence", 20, 0.1, (3, None, 1, 2))
    assert [cell.quantile(share) for share in (0.5, 0.75, 1.0)] == ["2", "3", "-"]


def test_a_world_is_the_same_for_every_method_and_every_time() -> None:
    assert played("evidence", 50, 0.2, 4, 10) == played("evidence", 50, 0.2, 4, 10)


def test_a_quick_look_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    accumulated.main(["--quick"])
    printed = capsys.readouterr().out
    assert "A lasting fall of precision" in printed
    assert "False alarms a year" in printed
    assert "The plain e-process" in printed
