"""Where a rising probability reaches what is asked for, in few evaluations."""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.special import ndtri

PRECISION = 4e-5
_LEAST = 1e-15  # nearer to 0 or 1 than this no probability is told apart


def smallest(chance: Callable[[float], float], target: float, most: float, guess: float, sd: float) -> float | None:
    """The smallest distance in [0, most] with ``chance`` >= ``target``; None where not even ``most`` has it.

    The answer has ``chance`` >= ``target``, and 4e-5 less has not. ``chance`` must not fall; it may rise in steps, and
    the answer then lies behind the step. ``guess``, and ``sd``, the distance of about one standard error, need not
    be right: they save evaluations. The search is on the scale of the normal quantile, where tails are nearly
    straight, and never needs more than one step above halving (ITP, Oliveira & Takahashi 2021).

    >>> found = smallest(lambda x: min(1.0, x * x), 0.25, 1.0, 0.1, 0.3)
    >>> round(found, 2), smallest(lambda x: x / 2, 0.8, 1.0, 0.1, 0.3)
    (0.5, None)
    """
    if most < 0:
        return None
    goal = scaled(target)

    def lead(distance: float) -> float:
        return scaled(chance(distance)) - goal

    at = min(max(guess, 0.0), most)
    found = lead(at)
    return _downwards(lead, at, found, sd) if found >= 0 else _upwards(lead, at, found, most, sd)


def scaled(probability: float) -> float:
    """The normal quantile of a probability, finite also at 0 and 1."""
    return float(ndtri(min(max(probability, _LEAST), 1 - _LEAST)))


def _stride(found: float, sd: float) -> float:
    """A little farther than where a straight tail would be crossed."""
    return max(1.2 * min(abs(found), 4.0) * sd, PRECISION)


def _upwards(lead: Callable[[float], float], low: float, before: float, most: float, sd: float) -> float | None:
    step = _stride(before, sd)
    while low < most:
        high = min(low + step, most)
        after = lead(high)
        if after >= 0:
            return _narrowed(lead, low, high, before, after)
        low, before, step = high, after, max(2 * step, _stride(after, sd))
    return None


def _downwards(lead: Callable[[float], float], high: float, after: float, sd: float) -> float:
    step = _stride(after, sd)
    while high > 0:
        low = max(high - step, 0.0)
        before = lead(low)
        if before < 0:
            return _narrowed(lead, low, high, before, after)
        high, after, step = low, before, max(2 * step, _stride(before, sd))
    return high


def _narrowed(lead: Callable[[float], float], low: float, high: float, before: float, after: float) -> float:
    """The upper end of a narrow bracket; ``lead`` is ``before`` < 0 at low, ``after`` >= 0 at high."""
    shrink = 0.2 / (high - low)
    halvings = max(0, math.ceil(math.log2((high - low) / PRECISION))) + 1
    for left in range(halvings, -1, -1):
        if high - low <= PRECISION:
            break
        at = _between(low, high, before, after, shrink, PRECISION / 2 * 2.0**left)
        found = lead(at)
        if found < 0:
            low, before = at, found
        else:
            high, after = at, found
    return high


def _between(low: float, high: float, before: float, after: float, shrink: float, reach: float) -> float:
    """The next place to look: by interpolation, moved towards the middle, and never out of ``reach`` of halving."""
    middle, width = (low + high) / 2, high - low
    straight = (after * low - before * high) / (after - before)
    inwards = math.copysign(1.0, middle - straight)
    moved = max(shrink * width**2, 0.45 * PRECISION)  # far enough that two looks around the place end the search
    nearer = straight + inwards * moved if moved <= abs(middle - straight) else middle
    radius = max(reach - width / 2, 0.0)
    return nearer if abs(nearer - middle) <= radius else middle - inwards * radius
