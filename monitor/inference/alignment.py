"""Window and baseline in the same bins, also where the scores themselves have moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from monitor.core.counts import BinCounts, Bools, Counts, bin_counts, equal_frequency_edges, pool
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
    shared = _mixture_edges(window, baseline, bins)
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


def _mixture_edges(window: Counts, baseline: Counts, bins: int) -> tuple[int, ...]:
    """Equal-frequency edges of (F0 + F1) / 2: each window is repeated as often as the other has rows."""
    repeated = [
        replace(part, n=part.n * max(other.rows, 1)) for part, other in ((window, baseline), (baseline, window))
    ]
    return equal_frequency_edges(pool(repeated), bins)


def _emptied(table: BinCounts, chosen: Bools) -> BinCounts:
    """The table with the ``chosen`` bins emptied; edges and score ranges stay."""
    none = np.where(chosen, 0, 1)
    return replace(
        table, n=table.n * none, w=table.w * none, ws=table.ws * none, wy=table.wy * none, n_eff=table.n_eff * none
    )
