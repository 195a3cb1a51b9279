"""A trend in one line of text."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from monitor.report.figures.scale import Scale

BARS = "▁▂▃▄▅▆▇█"
MISSING = "·"


def sparkline(values: Sequence[float | None], scale: Scale) -> str:
    """One bar for each value on ``scale``; a value outside has the lowest or the highest bar.

    A missing value is a dot, so that the columns of two labels stay comparable.

    >>> sparkline([0.004, None, 0.08, 0.103, 0.2], Scale(0.0, 0.16))
    '▁·▅▆█'
    """

    def bar(value: float | None) -> str:
        if value is None or not isfinite(value):
            return MISSING
        share = (value - scale.low) / (scale.high - scale.low) if scale.high > scale.low else 0.0
        return BARS[min(max(int(share * len(BARS)), 0), len(BARS) - 1)]

    return "".join(map(bar, values))
