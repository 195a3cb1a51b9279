"""Bins of windows: aligned where the scores have moved, thin ones merged, the same ones of several windows pooled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add

import numpy as np

from monitor.core.counts import BinCounts, Bools, Counts, Floats, bin_counts, equal_frequency_edges, pool
from monitor.inference.memory import kept_with

MOVED_BY = 0.02  # a bin whose mean score differs by more has moved
MOVED_SHARE = 0.20  # more of the window's rows than this in moved bins: new bins are needed
COMPARABLE = 0.80  # the least share of the window's rows in bins with enough baseline rows
MIN_BINS = 5
MIN_ROWS = 100  # of the baseline, in each bin that is compared
MIN_RATIO = 0.2  # baseline rows for each row of the window


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Two windows in the same bins.

    ``moved_share`` of the window's rows lie in bins whose mean score moved. If it is large, both
    are ``rebinned``, and bins with too few baseline rows are emptied in both, which leaves the
    ``comparable`` share of the window's rows. If they are not ``usable``, the scores differ too much
    from the baseline's, and the advice is to pin a new one.
    """

    window: BinCounts
    baseline: BinCounts
    rebinned: bool
    comparable: float
    moved_share: float
    usable: bool


def align(window: Counts, baseline: Counts, edges: Sequence[int], bins: int) -> Aligned:
    """Both windows on the baseline's ``edges``, or on ``bins`` new ones where the scores have moved.

    New edges have equal frequency in (F0 + F1) / 2, in which both windows count the same.

    >>> from monitor.core.counts import counts_from_rows
    >>> same = counts_from_rows([0.2, 0.8], [0, 1])
    >>> aligned = align(same, same, (5000, 10000), 2)
    >>> aligned.rebinned, aligned.comparable, aligned.usable
    (False, 1.0, True)
    """
    now, then = binned(window, edges), binned(baseline, edges)
    # bins of the window whose mean score moved, or in which the baseline has no rows
    moved = (now.n > 0) & ((then.n == 0) | (np.abs(now.score - then.score) > MOVED_BY))
    moved_share = _share(now, moved)
    if moved_share <= MOVED_SHARE:
        return Aligned(now, then, rebinned=False, comparable=1.0, moved_share=moved_share, usable=True)
    # each window is repeated as often as the other has rows
    pairs = ((window, baseline), (baseline, window))
    shared = equal_frequency_edges(pool([replace(one, n=one.n * max(other.rows, 1)) for one, other in pairs]), bins)
    now, then = binned(window, shared), binned(baseline, shared)
    kept = then.n >= np.maximum(MIN_ROWS, MIN_RATIO * now.n)
    comparable = _share(now, kept)
    usable = comparable >= COMPARABLE and int(kept.sum()) >= MIN_BINS
    return Aligned(_emptied(now, ~kept), _emptied(then, ~kept), True, comparable, moved_share, usable)


def binned(counts: Counts, edges: Sequence[int]) -> BinCounts:
    """The counts in bins with these upper edges, also without rows; made once, since several rules use them."""
    upper = tuple(edges)
    if counts.rows:
        return kept_with(counts, ("bins", upper), lambda: bin_counts(counts, upper))
    cells, none = np.asarray(upper, dtype=np.int64), np.zeros(len(upper))
    return BinCounts(cells, np.zeros_like(cells), none, none, none, none)


def _share(table: BinCounts, chosen: Bools) -> float:
    rows = int(table.n.sum())
    return int(table.n[chosen].sum()) / rows if rows else 0.0


def _emptied(table: BinCounts, chosen: Bools) -> BinCounts:
    """The table with the ``chosen`` bins emptied; edges and score ranges stay."""
    none = np.where(chosen, 0, 1)
    return replace(
        table, n=table.n * none, w=table.w * none, ws=table.ws * none, wy=table.wy * none, n_eff=table.n_eff * none
    )


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
    # plain numbers: this runs for every label and rule, and arrays would have one or two entries each
    rows = list(zip(*(table.n.tolist() for table in tables), strict=True))
    starts, held = [0], [0] * len(tables)
    for index, in_bin in enumerate(rows):
        if index and min(held) >= min_rows:
            starts.append(index)
            held = list(in_bin)
        else:
            held = [before + now for before, now in zip(held, in_bin, strict=True)]
    if len(starts) > 1 and min(held) < min_rows:
        starts.pop()
    return [_merged(table, starts) for table in tables]


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
