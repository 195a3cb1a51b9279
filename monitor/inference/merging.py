"""Bins put together: adjacent thin ones, and the same ones of several windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from monitor.counts import BinCounts, Floats, Ints


def merge_thin(tables: Sequence[BinCounts], min_rows: int = 100) -> list[BinCounts]:
    """Adjacent bins merged until each holds ``min_rows`` rows in *every* table; the rest joins the last.

    All tables must have the same edges and get the same merging, so that their bins stay
    comparable. Where even all bins together are too few, one bin remains.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> thin = bin_counts(counts_from_rows([0.1, 0.2, 0.9], [0, 0, 1]), (1500, 5000, 10000))
    >>> merge_thin([thin], min_rows=2)[0].n.tolist()
    [3]
    """
    if not tables:
        return []
    first = _starts(np.stack([table.n for table in tables]), min_rows)
    return [_merged(table, first) for table in tables]


def _starts(rows: Ints, min_rows: int) -> Ints:
    """The indices at which a merged bin begins; ``rows`` has shape (tables, bins)."""
    starts, held = [0], np.zeros(len(rows), dtype=np.int64)
    for index in range(rows.shape[1]):
        if (held >= min_rows).all() and index > 0:
            starts.append(index)
            held = np.zeros_like(held)
        held = held + rows[:, index]
    if len(starts) > 1 and not (held >= min_rows).all():
        starts.pop()
    return np.array(starts)


def _merged(table: BinCounts, starts: Ints) -> BinCounts:
    if len(table.n) == 0:
        return table
    w = np.add.reduceat(table.w, starts)
    squares = np.add.reduceat(_squares(table), starts)
    return BinCounts(
        upper=table.upper[np.append(starts[1:] - 1, len(table.n) - 1)],
        n=np.add.reduceat(table.n, starts),
        w=w,
        ws=np.add.reduceat(table.ws, starts),
        wy=np.add.reduceat(table.wy, starts),
        n_eff=_effective(w, squares),
    )


def pool_bins(tables: Sequence[BinCounts]) -> BinCounts:
    """Several windows with the same edges as one table."""
    w = np.sum([table.w for table in tables], axis=0)
    squares = np.sum([_squares(table) for table in tables], axis=0)
    return BinCounts(
        upper=tables[0].upper,
        n=np.sum([table.n for table in tables], axis=0),
        w=w,
        ws=np.sum([table.ws for table in tables], axis=0),
        wy=np.sum([table.wy for table in tables], axis=0),
        n_eff=_effective(w, squares),
    )


def _squares(table: BinCounts) -> Floats:
    """Sum of squared weights times the design effect, got back from the effective size."""
    return np.divide(table.w**2, table.n_eff, out=np.zeros_like(table.w), where=table.n_eff > 0)


def _effective(w: Floats, squares: Floats) -> Floats:
    return np.divide(w * w, squares, out=np.zeros_like(w), where=squares > 0)
