"""What counts promise in each population, the order of pairs included: what the history keeps of a window for a year.

The area under the ROC curve is a share too, of pairs in order, worth as many independent pairs as its variance says.
"""

from __future__ import annotations

from monitor.core.counts import Counts
from monitor.core.promises import DECIDED, Population, Promise, Promises, decided_promise, promises_of
from monitor.inference.levels import law_of
from monitor.inference.memory import kept_with
from monitor.inference.sampling import Ranking


def all_promises_of(counts: Counts) -> Promises:
    """The promise of each population, of each share of right decisions, and of pairs; of whole labels, not of parts."""
    shares: dict[Population, Promise | None] = {name: decided_promise(counts, name) for name in DECIDED}
    found = {**promises_of(counts), **shares, "ranked": ranked_promise(counts)}
    return {name: promise for name, promise in found.items() if promise is not None}


def ranked_promise(counts: Counts) -> Promise | None:
    """The share of pairs of a true and another item that scores put in order, as a promise of 1; None without pairs.

    >>> from monitor.core.counts import counts_from_rows
    >>> ranked_promise(counts_from_rows([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0])).kept
    0.875
    """
    law = kept_with(counts, ("ranked",), lambda: law_of("roc_auc", counts))
    return Promise(counts.rows, law.rows, 1.0, law.value) if isinstance(law, Ranking) else None
