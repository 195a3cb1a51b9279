"""Results of pure functions, kept for the next call with the same arguments.

Every rule and every week uses the same frozen baseline, and several rules use the bins of one window:
what was computed from them once is not computed again. Results stay the same, since the functions are
pure; the number of kept results is bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from operator import attrgetter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from monitor.core.counts import BinCounts, Counts

R = TypeVar("R")

MOST = 4096  # results a function: a few kilobytes each

_DERIVED = {"kish": "independent", "together": "inside"}
_arrays = attrgetter(*(_DERIVED.get(field.name, field.name) for field in fields(BinCounts)))

_forget: list[Callable[[], None]] = []
_kept: WeakKeyDictionary[Counts, dict[Hashable, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that equals every table with the same content."""

    content: bytes
    table: BinCounts = field(compare=False)


def _hashable(argument: Any) -> Hashable:
    if isinstance(argument, BinCounts):
        return _Table(b"|".join([array.tobytes() for array in _arrays(argument)]), argument)
    hashable: Hashable = argument
    return hashable


def each_by_content(function: Callable[..., Sequence[R]]) -> Callable[..., list[R]]:
    """``function(requests, *others)``, which computes many results together, with its latest results kept.

    ``requests`` is a list of tuples of tables, compared by content, and hashable values; ``others`` are hashable. There
    must be one result for each tuple, which must not depend on the other tuples and which callers must not change. Only
    unknown results are computed, all of them together. With more than :data:`MOST` requests nothing is kept.

    >>> import numpy as np
    >>> given = []
    >>> rows = each_by_content(lambda some: given.append(len(some)) or [int(table.n.sum()) for (table,) in some])
    >>> some = lambda n: BinCounts(np.array([10000]), np.array([n]), *np.full((4, 1), float(n)))
    >>> rows([(some(5),), (some(6),)]), rows([(some(6),), (some(7),)]), given
    ([5, 6], [6, 7], [2, 1])
    """
    results: OrderedDict[Hashable, R] = OrderedDict()

    @wraps(function)
    def answered(requests: Sequence[tuple[Any, ...]], *others: Hashable) -> list[R]:
        if len(requests) > MOST:
            return list(function(requests, *others))
        keys = [(others, *map(_hashable, tables)) for tables in requests]
        new = {key: tables for key, tables in zip(keys, requests, strict=True) if key not in results}
        found = dict(zip(new, function(list(new.values()), *others), strict=True)) if new else {}
        answers = [found[key] if key in found else results[key] for key in keys]
        for key, answer in zip(keys, answers, strict=True):
            results[key] = answer
            results.move_to_end(key)
        while len(results) > MOST:
            results.popitem(last=False)
        return answers

    _forget.append(results.clear)
    return answered


def kept_with(counts: Counts, name: Hashable, make: Callable[[], R]) -> R:
    """The result of ``make``, computed once for these counts and kept as long as they are.

    ``name`` must identify everything that the result depends on besides the counts.
    """
    results = _kept.setdefault(counts, {})
    if name not in results:
        results[name] = make()
    result: R = results[name]
    return result


def forget() -> None:
    """Drops everything that is kept, to measure how long a first call takes."""
    _kept.clear()
    for clear in _forget:
        clear()
