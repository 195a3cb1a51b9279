"""Distinct keys of groups: what ``numpy.unique`` finds by sorting, found in a table of all possible keys."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

_SPARSE = 16
"""Sorting is quicker for keys that are fewer than one in 16 of the possible ones (tried from 20 to 1,000,000 keys)."""


def distinct(keys: Ints) -> tuple[Ints, npt.NDArray[np.intp]]:
    """The distinct keys, rising, shape (D,), and the place of each key among them, shape (K,).

    ``keys`` has shape (K,). The same as ``numpy.unique(keys, return_inverse=True)``, and quicker for the many
    unsorted keys of a window's cells, because these lie between 0 and about 40,000.

    >>> found, place = distinct(np.array([7, 3, 7]))
    >>> found.tolist(), place.tolist()
    ([3, 7], [1, 0, 1])
    """
    most = int(keys.max(initial=-1))
    if len(keys) == 0 or most >= _SPARSE * len(keys) or int(keys.min()) < 0:
        found, place = np.unique(keys, return_inverse=True)
        return found, place
    held = np.zeros(most + 1, dtype=np.bool_)
    held[keys] = True
    return np.flatnonzero(held), (np.cumsum(held) - 1)[keys]
