"""One absolute scale for each metric, from its limits and the drawn values, so that labels can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from monitor.core.records import Verdict
from monitor.metrics.registry import METRICS, range_of


@dataclass(frozen=True, slots=True)
class Scale:
    """From ``low`` to ``high`` in the metric's own unit; ``limits`` are the levels of the rules that watch it."""

    low: float
    high: float
    limits: tuple[float, ...] = ()

    @property
    def words(self) -> str:
        """The scale in the words of a legend.

        >>> Scale(0.0, 0.16, (0.08,)).words, Scale(0.0, 0.16, (0.02, 0.031)).words, Scale(0.6, 1.0).words
        ('0 to 0.16, limit 0.08', '0 to 0.16, limits 0.02 to 0.031', '0.6 to 1, no limit')
        """
        span = f"{self.low:.3g} to {self.high:.3g}"
        if not self.limits:
            return f"{span}, no limit"
        least, most = f"{min(self.limits):.3g}", f"{max(self.limits):.3g}"
        return f"{span}, limit {least}" if least == most else f"{span}, limits {least} to {most}"


def scale_of(metric: str, values: Iterable[float | None], limits: Iterable[float | None] = ()) -> Scale:
    """The scale of one metric for everything in one table or on one page.

    It begins at the metric's best value (0 for an error, 1 for a ROC AUC) and reaches twice as far as the farthest
    limit, so that a value at that limit is half-way. It reaches farther if a drawn value does.

    >>> scale_of("ece", [0.004, 0.103], [0.08])
    Scale(low=0.0, high=0.16, limits=(0.08,))
    >>> scale_of("ece", [0.004, 0.3], [0.08]).high, scale_of("roc_auc", [0.97], [0.75])
    (0.3, Scale(low=0.5, high=1.0, limits=(0.75,)))
    """
    known = [value for value in values if value is not None and isfinite(value)]
    levels = tuple(sorted({round(level, 12) for level in limits if level is not None and isfinite(level)}))
    least, most = range_of(metric) if metric in METRICS else (-inf, inf)
    direction = METRICS[metric].direction if metric in METRICS else "none"
    # 0 where both signs are possible; no best value where neither direction is better
    best = {"higher": most, "lower": max(least, 0.0)}.get(direction, inf)
    if not isfinite(best):
        return Scale(min([*known, *levels], default=0.0), max([*known, *levels], default=1.0), levels)
    twice = [2 * level - best for level in levels]
    reach = [best, *known, *twice]
    low, high = min(reach), max(reach)
    return Scale(low, high if high > low else low + 1.0, levels)


def level_of(verdict: Verdict) -> float | None:
    """The threshold of a verdict as a level of its metric; for a change, the baseline plus or minus it."""
    sign = {"increase": 1.0, "decrease": -1.0}.get(verdict.detail.get("condition", ""))
    if sign is None:
        return verdict.threshold
    return None if verdict.baseline is None else verdict.baseline + sign * verdict.threshold


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
