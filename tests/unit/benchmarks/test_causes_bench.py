"""The benchmark of planted causes: its worlds are what it says, and a few of them come out right."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.causes import CHANGE, KINDS, causes_of, drawn, is_right, slopes_table, table, versions_table, world


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_rises_by_what_is_planted_and_its_cause_is_found(kind: str) -> None:
    rng = np.random.default_rng(KINDS.index(kind))
    planted = world(kind, rng)
    gaps = [float((rows.score - rows.outcome).mean()) for rows in (
        drawn(planted, 60_000, rng, changed=True), drawn(planted, 60_000, rng, changed=False))]  # fmt: skip
    expected = planted.everywhere if kind == "none" else CHANGE
    assert gaps[0] - gaps[1] == pytest.approx(expected, abs=0.03)
    assert is_right(planted, causes_of(planted, 10_000, "overconfidence", rng))


def test_the_table_has_a_column_for_each_kind() -> None:
    found = table(1, "overconfidence", [500])
    assert found.columns[1:7] == KINDS
    assert len(found.rows[0]) == len(found.columns)


def test_a_version_is_named_that_came_with_the_change_and_not_one_that_came_after_it() -> None:
    (row,) = versions_table(25, [2_000]).rows
    with_it, with_few_at_first, a_week_after, two_weeks_after = map(float, row[1:])
    assert min(with_it, with_few_at_first) >= 0.9
    assert max(a_week_after, two_weeks_after) <= 0.1


def test_the_stated_span_of_a_slow_change_holds_its_first_week_where_that_of_a_sudden_one_often_does_not() -> None:
    (row,) = slopes_table(40, [500]).rows
    held, at_once = zip(*(map(float, cell.rstrip(")").split(" (")) for cell in row[1:]), strict=True)
    assert min(held) >= 0.9
    assert min(at_once) < 0.75
