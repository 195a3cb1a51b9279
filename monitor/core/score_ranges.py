"""Score ranges that automation must not use: merged, and rounded outwards.

Only the standard library: a router imports this.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import datetime
from typing import TypeAlias, TypeVar

Ranges: TypeAlias = tuple[tuple[float, float], ...]
_T = TypeVar("_T", float, datetime)

CELLS = 10_000
"""The number of cells into which scores are counted."""
STEPS = 100
"""Blocked ranges end on whole hundredths, since people read, say and type them."""
_ON_A_STEP = 1e-6  # of a step: 0.29 * 100 is not quite 29


def merged(ranges: Iterable[tuple[_T, _T]]) -> tuple[tuple[_T, _T], ...]:
    """The ranges of scores, or the spans of time, in order, with touching ones merged.

    >>> merged([(0.9, 1.0), (0.5, 0.6), (0.6, 0.7)])
    ((0.5, 0.7), (0.9, 1.0))
    """
    found: list[tuple[_T, _T]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def below(score: float, automate_at: float) -> Ranges:
    """The range that is blocked so that a label acts alone from ``score`` on only, which itself still acts.

    Where that is ``automate_at`` or less, it is scores that never act alone.

    >>> below(0.95, 0.8), below(0.8, 0.8)
    (((0.8, 0.9499),), ((0.0, 0.7999),))
    """
    last = (round(score * CELLS) - 1) / CELLS
    return ((automate_at if automate_at <= last else 0.0, max(last, 0.0)),)


def outwards(ranges: Iterable[tuple[float, float]]) -> Ranges:
    """The ranges with each end moved outwards to the next hundredth, merged; never inwards.

    Bin edges depend on the rows and change with every baseline; scores just outside an edge are no better than those
    inside.

    >>> outwards([(0.8537, 0.9012), (0.29, 0.3)])
    ((0.29, 0.3), (0.85, 0.91))
    """
    return merged(
        (max(0, math.floor(low * STEPS + _ON_A_STEP)) / STEPS, min(STEPS, math.ceil(high * STEPS - _ON_A_STEP)) / STEPS)
        for low, high in ranges
    )


def ranges_text(ranges: Iterable[tuple[float, float]]) -> str:
    """The ranges in words. One that ends just below a hundredth leaves that out.

    >>> ranges_text([(0.5, 0.7), (0.9, 1.0)]), ranges_text([(0.8, 0.9499)])
    ('0.5 to 0.7, 0.9 to 1', 'from 0.8 to below 0.95')
    """
    return ", ".join(_range_text(low, high) for low, high in ranges)


def _range_text(low: float, high: float) -> str:
    end = high + 1 / CELLS
    is_open = abs(end * STEPS - round(end * STEPS)) < _ON_A_STEP
    return f"from {low:g} to below {end:g}" if is_open else f"{low:g} to {high:g}"
