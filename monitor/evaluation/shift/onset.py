"""In which window a level changed: one step in a series, by least squares. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.causes import Began
from monitor.core.counts import Floats

ALLOWED = 6.0
"""By how much a window's misfit (a chi-square) may exceed the best one's: measured by `python -m benchmarks.causes`."""


@dataclass(frozen=True, slots=True)
class Level:
    """The value measured in one window, with its variance."""

    window: str
    value: float
    variance: float


def onset(baseline: Level | None, levels: Sequence[Level]) -> Began | None:
    """The window of ``levels`` (oldest first) from which on they differ from ``baseline`` and those before.

    The result has the likeliest window, and the first and last whose misfit is not much larger; this span is wider if
    the series varies more than its variances say. Without a baseline the step lies after the first window. None where
    there is nothing to compare.
    """
    if not levels:
        return None
    before, *after = levels if baseline is None else (baseline, *levels)
    if not after:
        return None
    value = np.array([before.value, *(level.value for level in after)])
    weight = 1.0 / np.maximum([before.variance, *(level.variance for level in after)], 1e-12)
    misfit = np.array([_misfit(value, weight, at) for at in range(1, len(value))])
    best = int(misfit.argmin())
    scale = max(1.0, float(misfit[best]) / max(1, len(after) - 1))
    allowed = np.flatnonzero(misfit - misfit[best] <= ALLOWED * scale)
    return Began(after[best].window, after[int(allowed[0])].window, after[int(allowed[-1])].window)


def _misfit(value: Floats, weight: Floats, at: int) -> float:
    """Chi-square of one mean before ``at`` and one from there on."""
    total = 0.0
    for part in (slice(None, at), slice(at, None)):
        mean = np.average(value[part], weights=weight[part])
        total += float(weight[part] @ (value[part] - mean) ** 2)
    return total
