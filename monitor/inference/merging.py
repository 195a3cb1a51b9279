"""Merging of bins: adjacent thin ones, and the same ones of several windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from monitor.core.counts import BinCounts, Floats


def merge_thin(tables: Sequence[BinCounts], min_rows: int = 100) -> list[BinCounts]:
    """Adjacent bins merged until each holds ``min_rows`` rows in *every* table; the rest joins the last.

    All tables must have the same edges and get the same merging, so that their bins stay
    comparable. Where even all bins together are too few, one bin remains.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> thin = bin_counts(counts_from_rows([0.1, 0.2, 0.9], [0, 0, 1]), (1500, 5000, 10000))
    >>> merge_thin([thin], min_rows=2)[0].n.tolist()
    [3]
    """
    if not tables:
        return []
    first = _starts(list(zip(*(table.n.tolist() for table in tables), strict=True)), min_rows)
    return [_merged(table, first) for table in tables]


def _starts(rows: Sequence[tuple[int, ...]], min_rows: int) -> list[int]:
    """The indices at which a merged bin begins; ``rows`` has the rows of each bin in every table."""
    # plain numbers: this runs for every label and rule, and arrays would have one or two entries each
    starts, held = [0], [0] * len(rows[0]) if rows else []
    for index, in_bin in enumerate(rows):
        if index and min(held) >= min_rows:
            starts.append(index)
            held = list(in_bin)
        else:
            held = [before + now for before, now in zip(held, in_bin, strict=True)]
    if len(starts) > 1 and min(held) < min_rows:
        starts.pop()
    return starts


def _merged(table: BinCounts, starts: Sequence[int]) -> BinCounts:
    if len(starts) >= len(table.n):  # nothing to merge, or no bin at all
        return table
    sums = np.array([table.w, table.ws, table.wy, *_squares(table)])
    w, ws, wy, *squares = np.add.reduceat(sums, starts, axis=1)
    upper = table.upper[[*(start - 1 for start in starts[1:]), -1]]
    return BinCounts(upper, np.add.reduceat(table.n, starts), w, ws, wy, *(_effective(w, each) for each in squares))


def pool_bins(tables: Sequence[BinCounts]) -> BinCounts:
    """Several windows (at least one) with the same edges as one table."""
    columns = zip(*((table.n, table.w, table.ws, table.wy, *_squares(table)) for table in tables), strict=True)
    n, w, ws, wy, *squares = (reduce(add, column) for column in columns)
    return BinCounts(tables[0].upper, n, w, ws, wy, *(_effective(w, each) for each in squares))


def _squares(table: BinCounts) -> tuple[Floats, Floats]:
    """Sums of squared weights, with and without the design effect, recovered from the effective sizes."""
    with_effect, alone = (
        np.divide(table.w**2, rows, out=np.zeros_like(table.w), where=rows > 0)
        for rows in (table.n_eff, table.independent)
    )
    return with_effect, alone


def _effective(w: Floats, squares: Floats) -> Floats:
    return np.divide(w * w, squares, out=np.zeros_like(w), where=squares > 0)
