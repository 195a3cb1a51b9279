"""The sums behind a design effect, computed from plain rows. The warehouse computes the same in SQL."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from monitor.inference.dependence import ClusterSums


def sums_of_rows(
    score: npt.ArrayLike,
    outcome: npt.ArrayLike,
    cluster: npt.ArrayLike,
    weight: npt.ArrayLike | None = None,
) -> ClusterSums:
    """The sums for a design effect from plain rows.

    ``score``, ``outcome`` and ``weight`` (1 by default) have shape (n,); ``cluster`` has n keys (or n rows
    of keys, which must then be equal in all columns). A row without a cluster needs a key of its own.
    """
    s, y = np.asarray(score, dtype=np.float64), np.asarray(outcome, dtype=np.float64)
    w = np.ones_like(s) if weight is None else np.asarray(weight, dtype=np.float64)
    r = w * (y - s)
    key = _codes(np.asarray(cluster))
    a, c = (np.bincount(key, weights=values).astype(np.float64) for values in (r, w))
    products = {"aa": (a, a), "aw": (a, c), "cc": (c, c), "rr": (r, r), "rw": (r, w), "ww": (w, w)}
    squares = {name: float(np.dot(left, right)) for name, (left, right) in products.items()}
    return ClusterSums(r=float(r.sum()), w=float(w.sum()), **squares)


def _codes(keys: npt.NDArray[np.generic]) -> npt.NDArray[np.intp]:
    if len(keys) == 0:
        return np.zeros(0, dtype=np.intp)
    _, codes = np.unique(keys, axis=0, return_inverse=True)
    return np.asarray(codes, dtype=np.intp).reshape(-1)
