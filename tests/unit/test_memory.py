"""What is kept is what would be worked out again."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from monitor.counts import BinCounts, bin_counts, counts_from_rows
from monitor.inference.memory import by_content, forget, kept_with


def bins(hits: int) -> BinCounts:
    return bin_counts(counts_from_rows([0.8] * 100, [1] * hits + [0] * (100 - hits)), (5000, 10_000))


def test_equal_tables_are_answered_once_and_other_ones_by_themselves() -> None:
    asked: list[float] = []

    @by_content
    def hits(table: BinCounts, times: int = 1) -> float:
        asked.append(float(table.wy.sum()))
        return times * asked[-1]

    assert [hits(bins(70)), hits(bins(70)), hits(bins(71)), hits(bins(70), times=2), hits(bins(70), 2)] == [
        70, 70, 71, 140, 140,
    ]  # fmt: skip
    assert asked == [70, 71, 70, 70]


@pytest.mark.parametrize("name", ["upper", "n", "w", "ws", "wy", "n_eff"])
def test_every_array_of_a_table_tells_it_from_others(name: str) -> None:
    seen = by_content(lambda table: float(getattr(table, name)[-1]))
    one = bins(70)
    other = replace(one, **{name: getattr(one, name) + 1})
    assert seen(other) == seen(one) + 1


def test_what_is_kept_with_counts_goes_with_them() -> None:
    counts = counts_from_rows([0.2], [0])
    made = kept_with(counts, "array", lambda: np.arange(3.0))
    assert kept_with(counts, "array", lambda: np.arange(4.0)) is made
    assert kept_with(counts_from_rows([0.2], [0]), "array", lambda: np.arange(4.0)) is not made
    gone = ref(counts)
    del counts
    gc.collect()
    assert gone() is None


def test_forgotten_is_worked_out_again() -> None:
    asked: list[int] = []
    rows = by_content(lambda table: asked.append(1) or int(table.n.sum()))
    assert [rows(bins(1)), forget(), rows(bins(1))] == [100, None, 100]
    assert len(asked) == 2
