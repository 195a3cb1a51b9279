"""In which window a level changed, by least squares, at once or little by little. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Floats
from monitor.core.diagnoses import Since
from monitor.core.records import Interval

ALLOWED = 6.0
"""By how much a misfit (a chi-square) may exceed the best one's; `python -m benchmarks.planted` shows what follows."""

_WIDTH = 2 * 1.96  # of a 95% interval, in standard deviations


@dataclass(frozen=True, slots=True)
class Level:
    """The value measured in one window, with its variance."""

    window: str
    value: float
    variance: float


def level_of(window: str, interval: Interval) -> Level | None:
    """A value with the variance that its 95% interval implies; None if it has no limits.

    >>> level_of("2026-W46", Interval(0.1, 0.08, 0.12, 0.1)) is not None
    True
    """
    if interval.value is None or interval.low is None or interval.high is None or interval.high <= interval.low:
        return None
    return Level(window, interval.value, ((interval.high - interval.low) / _WIDTH) ** 2)


def onset(baseline: Level | None, levels: Sequence[Level], *, rising: bool = False) -> Since | None:
    """The window of ``levels`` (oldest first) from which on they differ from ``baseline`` and those before.

    The change is a step, or a line that rises for several windows and then stays, where no step fits nearly as well;
    with ``rising`` only upwards. The result has the likeliest window, and the first and last whose misfit is not much
    larger; this span is wider if the series varies more than its variances say. Where a change all at once fits, the
    first is that of a growing one if that fits too. Without a baseline the change lies after the first window. None
    where there is nothing to compare.
    """
    if not levels:
        return None
    before, *after = levels if baseline is None else (baseline, *levels)
    if not after:
        return None
    value = np.array([before.value, *(level.value for level in after)])
    weight = 1.0 / np.maximum([before.variance, *(level.variance for level in after)], 1e-12)
    misfit = _misfits(value, weight, rising=rising)
    steps, grown = np.diagonal(misfit), misfit.min(axis=1)  # by the first changed window
    within_two = min(steps.min(), np.diagonal(misfit, 1).min(initial=np.inf))  # once, in the middle of a window
    gradual = bool(within_two - grown.min() > _allowed(grown, len(after)))
    found = grown if gradual else steps
    possible = np.flatnonzero(found - found.min() <= _allowed(found, len(after)))
    earliest = int(np.flatnonzero(grown - grown.min() <= _allowed(grown, len(after)))[0])
    ends = found.argmin(), min(earliest, possible[0]), possible[-1]
    window, low, high = (after[int(at)].window for at in ends)
    return Since(window, low, high, gradual)


def _allowed(misfit: Floats, windows: int) -> float:
    """By how much a misfit may exceed the best of these."""
    return ALLOWED * max(1.0, float(misfit.min()) / max(1, windows - 1))


def _misfits(value: Floats, weight: Floats, *, rising: bool = False) -> Floats:
    """Chi-square of a change that begins in window a + 1 and is complete in window b + 1, shape (T, T); infinite below.

    The level is one mean before, a line from there to the complete change, and one mean from there on: a step on the
    diagonal. A change that still grows is the line to the newest window.
    """
    last = len(value) - 1
    place = np.arange(last + 1.0)
    first, complete = np.arange(1.0, last + 1)[:, None, None], np.arange(1.0, last + 1)[None, :, None]
    shape = np.clip((place - first + 1) / np.maximum(complete - first + 1, 1), 0.0, 1.0)  # (T, T, T + 1)
    moved = shape - (shape @ weight)[..., None] / weight.sum()
    gap = value - np.average(value, weights=weight)
    rise = moved @ (weight * gap)
    explained = (np.maximum(rise, 0.0) if rising else rise) ** 2 / np.maximum((moved**2) @ weight, 1e-300)
    found: Floats = np.where(first[..., 0] <= complete[..., 0], weight @ gap**2 - explained, np.inf)
    return found
