"""A trend in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

BARS = "▁▂▃▄▅▆▇█"
MISSING = "·"


def sparkline(values: Sequence[float | None], *, low: float | None = None, high: float | None = None) -> str:
    """One bar a value, from the lowest to the highest seen (or from ``low`` to ``high``).

    A missing value is a dot, so that the columns of two labels stay comparable; a constant series
    is drawn at half height, since its level says nothing.

    >>> sparkline([0.01, 0.02, None, 0.08])
    '▁▂·█'
    >>> sparkline([0.5, 0.5])
    '▄▄'
    """
    known = [value for value in values if value is not None and isfinite(value)]
    bottom = min(known, default=0.0) if low is None else low
    top = max(known, default=0.0) if high is None else high
    return "".join(_bar(value, bottom, top) for value in values)


def _bar(value: float | None, bottom: float, top: float) -> str:
    if value is None or not isfinite(value):
        return MISSING
    if top <= bottom:
        return BARS[3]
    share = (value - bottom) / (top - bottom)
    return BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]
