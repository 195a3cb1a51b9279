"""Where a rising function reaches 0, for many questions at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Floats, Ints

_LEAST = 1e-15  # nearer to 0 or 1 than this probabilities count as equal
_NEAR = 1e-4  # standard errors: a position this close to its limit is close enough
_MOST_LOOKS = 60
_FLAT = 6.5  # standard errors: beyond this the scaled T is a plateau, not a line

POWER = 0.8
"""The probability with which a detectable change is seen."""

Rising = Callable[[Floats, Ints], Floats]
"""``rising(position, which)``: the value at one position for each of the questions ``which``; all (K,)."""


def scaled(probability: Floats) -> Floats:
    """The normal quantile of probabilities, finite also at 0 and 1; shape as ``probability``."""
    return np.asarray(ndtri(np.minimum(np.maximum(probability, _LEAST), 1 - _LEAST)))


def crossing(lead: Rising, start: Floats, stride: Floats, *, near: float = _NEAR) -> Floats:
    """The position in [``start``, 1] at which each rising ``lead`` reaches 0; all of shape (Q,).

    ``lead(position, which)`` is evaluated for the questions ``which`` that are still open: at their
    start, at 0, then one ``stride`` (0 or more) further and twice as far each time until 0 is
    passed, then in between by the Illinois method (Dowell & Jarratt 1971). The result is ``start``
    where 0 is already reached there, 1 where it never is; to ``near`` of ``lead`` or of a stride.

    >>> def lead(position, which):
    ...     return position**3 - np.array([0.001, -0.008, -2.0, 2.0])[which]
    >>> crossing(lead, np.full(4, -1.0), np.full(4, 0.05)).round(3).tolist()
    [0.1, -0.2, -1.0, 1.0]
    """
    low, high, step = start.copy(), np.ones_like(start), stride.copy()
    below = lead(start, np.arange(len(start)))
    above = np.full_like(start, np.nan)  # not known yet
    kept = np.zeros(len(start))  # 1: the last evaluation moved the upper end, -1: the lower one
    found = np.where(below < 0, 1.0, start)
    left = np.flatnonzero(below < 0)
    for _ in range(_MOST_LOOKS):
        if not left.size:
            break
        x0, x1, f0, f1 = low[left], high[left], below[left], above[left]
        at = _next_look(x0, x1, f0, f1, step[left])
        value = lead(at, left)
        short = value < 0
        # the value at an end that stays twice is halved, or the end might never move
        below[left] = np.where(short, value, np.where(kept[left] > 0, f0 / 2, f0))
        above[left] = np.where(short, np.where(kept[left] < 0, f1 / 2, f1), value)
        kept[left] = np.where(short, -1.0, 1.0)
        low[left], high[left] = np.where(short, at, x0), np.where(short, x1, at)
        step[left] *= 2
        found[left] = at
        settled = (np.abs(value) <= near) | (high[left] - low[left] <= near * stride[left])
        left = left[~settled]
    return found


def _next_look(x0: Floats, x1: Floats, f0: Floats, f1: Floats, step: Floats) -> Floats:
    """The next position to evaluate: outwards until f1 is known, then out of plateaus, then by interpolation."""
    outwards = np.where(x0 < 0, 0.0, np.minimum(x0 + step, 1.0))
    unknown = np.isnan(f1)
    line = x0 - f0 * (x1 - x0) / np.where(unknown, 1.0, f1 - f0)
    middle = (x0 + x1) / 2
    inwards = np.where(f0 < -_FLAT, np.maximum(middle, x1 - step), np.minimum(middle, x0 + step))
    plateau = (f0 < -_FLAT) | (f1 > _FLAT)
    return np.where(unknown, outwards, np.where(plateau, inwards, line))


def smallest(chance: Rising, target: float, stride: Floats) -> Floats:
    """The smallest distance in [0, 1] at which a rising ``chance`` reaches ``target``; NaN where none does; (Q,).

    ``stride`` is about a standard error. The search is on the scale of the normal quantile, where tails are straight.

    >>> smallest(lambda x, which: x**2 / (1 + 9 * which), 0.25, np.full(2, 0.1)).round(2).tolist()
    [0.5, nan]
    """
    goal, every = float(ndtri(target)), np.arange(len(stride))

    def lead(distance: Floats, which: Ints) -> Floats:
        return scaled(chance(distance, which)) - goal

    reached = lead(np.ones(len(every)), every) >= 0
    # a little farther than found: behind the step, where a chance rises in steps
    return np.where(reached, crossing(lead, np.zeros(len(every)), stride) + _NEAR * stride, np.nan)
