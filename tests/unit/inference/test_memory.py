"""What is kept is what would be worked out again."""

from __future__ import annotations

import gc
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows
from monitor.inference import memory
from monitor.inference.memory import each_by_content, forget, kept_with


def bins(hits: int) -> BinCounts:
    return bin_counts(counts_from_rows([0.8] * 100, [1] * hits + [0] * (100 - hits)), (5000, 10_000))


def test_equal_tables_are_answered_once_and_other_ones_by_themselves() -> None:
    asked: list[float] = []

    @each_by_content
    def hits(tables: list[tuple[BinCounts]], times: int = 1) -> list[float]:
        asked.extend(float(table.wy.sum()) for (table,) in tables)
        return [times * float(table.wy.sum()) for (table,) in tables]

    assert hits([(bins(70),), (bins(70),), (bins(71),)]) == [70, 70, 71]
    assert [hits([(bins(70),)], 2), hits([(bins(71),)])] == [[140], [71]]
    assert asked == [70, 71, 70]


def test_of_more_than_can_be_kept_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MOST", 2)
    asked: list[int] = []

    @each_by_content
    def hits(tables: list[tuple[BinCounts]]) -> list[float]:
        asked.append(len(tables))
        return [float(table.wy.sum()) for (table,) in tables]

    assert hits([(bins(70),), (bins(71),), (bins(70),)]) == [70, 71, 70]
    assert hits([(bins(70),), (bins(71),)]) == hits([(bins(70),), (bins(71),)]) == [70, 71]
    assert asked == [3, 2]


@pytest.mark.parametrize("name", ["upper", "n", "w", "ws", "wy", "n_eff"])
def test_every_array_of_a_table_distinguishes_it_from_others(name: str) -> None:
    seen = each_by_content(lambda tables: [float(getattr(table, name)[-1]) for (table,) in tables])
    one = bins(70)
    other = replace(one, **{name: getattr(one, name) + 1})
    assert seen([(other,)])[0] == seen([(one,)])[0] + 1
    assert seen([(one,), (other,)]) == [seen([(one,)])[0], seen([(other,)])[0]]


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

    @each_by_content
    def rows(tables: list[tuple[BinCounts]]) -> list[int]:
        asked.append(len(tables))
        return [int(table.n.sum()) for (table,) in tables]

    first = rows([(bins(1),)])
    forget()
    assert [first, rows([(bins(1),)])] == [[100], [100]]
    assert asked == [1, 1]
