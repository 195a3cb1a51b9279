"""Results of pure functions, kept for whoever asks the same thing again.

The same frozen baseline stands behind every rule and every week, and the bins of one window behind
several rules: what was worked out from them once is not worked out again. Nothing else changes, since the
functions are pure; how much is kept is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, fields
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

from monitor.counts import BinCounts, Counts

P = ParamSpec("P")
R = TypeVar("R")

MOST = 4096  # results a function: a few kilobytes each

_forget: list[Callable[[], None]] = []
_kept: WeakKeyDictionary[Counts, dict[Hashable, Any]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class _Table:
    """A table that is equal to another one with the same content."""

    content: bytes
    table: BinCounts = field(compare=False)


def _hashable(argument: Any) -> Hashable:
    if isinstance(argument, BinCounts):
        return _Table(b"|".join(getattr(argument, f.name).tobytes() for f in fields(argument)), argument)
    hashable: Hashable = argument
    return hashable


def _given(argument: Any) -> Any:
    return argument.table if isinstance(argument, _Table) else argument


def by_content(function: Callable[P, R]) -> Callable[P, R]:
    """``function`` with its last results kept, told apart by the content of the tables it is given.

    Its arguments are :class:`~monitor.counts.BinCounts` or hashable; its result must not be changed by
    those who get it.

    >>> import numpy as np
    >>> asked = []
    >>> rows = by_content(lambda table: asked.append(1) or int(table.n.sum()))
    >>> some = lambda n: BinCounts(np.array([10000]), np.array([n]), *np.full((4, 1), float(n)))
    >>> rows(some(5)), rows(some(5)), rows(some(6)), len(asked)
    (5, 5, 6, 2)
    """

    @lru_cache(maxsize=MOST)
    def kept(given: tuple[Hashable, ...], named: tuple[tuple[str, Hashable], ...]) -> R:
        call: Any = function
        result: R = call(*map(_given, given), **{name: _given(value) for name, value in named})
        return result

    @wraps(function)
    def asked(*args: P.args, **kwargs: P.kwargs) -> R:
        return kept(tuple(map(_hashable, args)), tuple((name, _hashable(value)) for name, value in kwargs.items()))

    _forget.append(kept.cache_clear)
    return asked


def kept_with(counts: Counts, name: Hashable, make: Callable[[], R]) -> R:
    """What ``make`` gives, made once for these very counts and kept as long as they are.

    ``name`` must say all that the result depends on besides the counts.
    """
    results = _kept.setdefault(counts, {})
    if name not in results:
        results[name] = make()
    result: R = results[name]
    return result


def forget() -> None:
    """Nothing is kept any more: for measuring how long a first answer takes."""
    _kept.clear()
    for clear in _forget:
        clear()
