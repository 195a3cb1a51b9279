"""Distinct keys of groups, as from ``numpy.unique``, but by their steps or a table of all possible keys, not sorted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_SPARSE = 16
"""With more possible keys than this for each given key, sorting is faster than filling a table."""


def distinct(keys: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.intp]]:
    """The distinct keys, rising, shape (D,), and the place of each key among them, shape (K,).

    ``keys`` has shape (K,). The same as ``numpy.unique(keys, return_inverse=True)``, but faster for the many unsorted
    keys of a window's cells, which are between 0 and about 40,000.

    >>> found, place = distinct(np.array([7, 3, 7]))
    >>> found.tolist(), place.tolist()
    ([3, 7], [1, 0, 1])
    """
    earlier, later = keys[:-1], keys[1:]
    if len(keys) and (later >= earlier).all():
        first = np.append(True, later > earlier)
        return keys[first], np.cumsum(first) - 1
    most = int(keys.max(initial=-1))
    if len(keys) == 0 or most >= _SPARSE * len(keys) or int(keys.min()) < 0:
        found, place = np.unique(keys, return_inverse=True)
        return found, place
    held = np.zeros(most + 1, dtype=np.bool_)
    held[keys] = True
    return np.flatnonzero(held), (np.cumsum(held) - 1)[keys]
