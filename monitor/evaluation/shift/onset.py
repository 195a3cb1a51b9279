"""In which window a level changed: one step in a series, by least squares, and what may have come with it. Pure."""

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


@dataclass(frozen=True, slots=True)
class Arrival:
    """When a value came: the first window with some rows of it, and the first that it had nearly alone ("": none)."""

    window: str
    complete: str


def may_have_come_with(arrival: Arrival, began: Began) -> bool:
    """Whether a change may have begun with what arrived.

    Most likely it did not begin before the arrival; and it did not begin only after all rows had the value. In the
    window of the arrival few rows may have it, so that the change is seen in the next one.

    >>> began = Began("2026-W45", "2026-W45", "2026-W46")
    >>> [may_have_come_with(Arrival(window, "2026-W46"), began) for window in ("2026-W44", "2026-W45", "2026-W46")]
    [True, True, False]
    >>> may_have_come_with(Arrival("2026-W44", "2026-W44"), began)
    False
    """
    return arrival.window <= began.window and not ("" < arrival.complete < began.low)


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
