"""One absolute scale for each metric, from its limits and the drawn values, so that labels can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from monitor.metrics.registry import METRICS, range_of


@dataclass(frozen=True, slots=True)
class Scale:
    """From ``low`` to ``high`` in the metric's own unit."""

    low: float
    high: float


def scale_of(metric: str, values: Iterable[float | None], limits: Iterable[float | None] = ()) -> Scale:
    """The scale of one metric for everything in one table or on one page.

    It begins at the metric's best value (0 for an error, 1 for a ROC AUC) and reaches twice as far as the farthest
    limit, so that a value at that limit is half-way. It reaches farther if a drawn value does.

    >>> scale_of("ece", [0.004, 0.103], [0.08])
    Scale(low=0.0, high=0.16)
    >>> scale_of("ece", [0.004, 0.3], [0.08]).high, scale_of("roc_auc", [0.97], [0.75])
    (0.3, Scale(low=0.5, high=1.0))
    """
    known = [value for value in values if value is not None and isfinite(value)]
    levels = [round(level, 12) for level in limits if level is not None and isfinite(level)]
    least, most = range_of(metric) if metric in METRICS else (-inf, inf)
    direction = METRICS[metric].direction if metric in METRICS else "none"
    # 0 where both signs are possible; no best value where neither direction is better
    best = {"higher": most, "lower": max(least, 0.0)}.get(direction, inf)
    if not isfinite(best):
        return Scale(min([*known, *levels], default=0.0), max([*known, *levels], default=1.0))
    twice = [2 * level - best for level in levels]
    reach = [best, *known, *twice]
    low, high = min(reach), max(reach)
    return Scale(low, high if high > low else low + 1.0)


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
