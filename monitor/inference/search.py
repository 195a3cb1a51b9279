"""The smallest distance at which a rising probability reaches a target, found in few evaluations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from monitor.core.counts import Bools, Floats, Ints

PRECISION = 4e-5
_LEAST = 1e-15  # nearer to 0 or 1 than this probabilities count as equal

Chance = Callable[[Floats, Ints], Floats]
"""``chance(distance, which)``: the probability at one distance for each of the questions ``which``; all (K,)."""


def smallest_of_each(
    chance: Chance, target: float, most: Floats, guess: Floats, sd: Floats, *, near: float = PRECISION
) -> Floats:
    """The smallest distance in [0, most] with ``chance`` >= ``target``, of Q questions; NaN where there is none.

    Shape (Q,).

    The answer has ``chance`` >= ``target``; a distance ``near`` (4e-5) smaller has not. ``chance`` must not fall; it
    may rise in steps, and the answer then lies behind the step. ``guess`` and ``sd`` (about one standard error) need
    not be exact: they save evaluations. The search is on the scale of the normal quantile, where tails are nearly
    straight, and needs at most one step more than bisection (ITP, Oliveira & Takahashi 2021).

    >>> most, guess, sd = np.array([[1.0, 1.0], [0.1, 0.1], [0.3, 0.3]])
    >>> smallest_of_each(lambda x, which: x**2 / (1 + 9 * which), 0.25, most, guess, sd).round(2).tolist()
    [0.5, nan]
    """
    found = np.full(len(most), np.nan)
    left = np.flatnonzero(most >= 0)
    if not left.size:
        return found
    goal = float(scaled(np.array(target)))

    def lead(distance: Floats, which: Ints) -> Floats:
        return scaled(chance(distance, which)) - goal

    low, high, before, after = np.zeros((4, len(most)))
    at = np.minimum(np.maximum(guess[left], 0.0), most[left])
    start = lead(at, left)
    low[left], before[left], high[left], after[left] = at, start, at, start
    left = left[_bracketed(lead, left, start < 0, (low, high, before, after), most, sd, found)]
    _narrowed(lead, left, (low, high, before, after), near)
    found[left] = high[left]
    return found


def scaled(probability: Floats) -> Floats:
    """The normal quantile of probabilities, finite also at 0 and 1; shape as ``probability``."""
    return np.asarray(ndtri(np.minimum(np.maximum(probability, _LEAST), 1 - _LEAST)))


_Bracket = tuple[Floats, Floats, Floats, Floats]  # low and high end, and the lead there (before: < 0, after: >= 0)
_Lead = Callable[[Floats, Ints], Floats]


def _stride(found: Floats, sd: Floats) -> Floats:
    """The next step: a little farther than where a straight tail would cross the target."""
    return np.maximum(1.2 * np.minimum(np.abs(found), 4.0) * sd, PRECISION)


def _bracketed(
    lead: _Lead, rows: Ints, upwards: Bools, bracket: _Bracket, most: Floats, sd: Floats, found: Floats
) -> Bools:
    """Takes larger and larger steps from the first evaluation until the target is passed; True where it is.

    Upwards they end at ``most``: there is then no answer. Downwards they end at 0, which is then the answer.
    """
    low, high, before, after = bracket
    passed = np.zeros(len(rows), dtype=bool)
    step = _stride(before[rows], sd[rows])
    open_ = np.arange(len(rows))
    while open_.size:
        which, up = rows[open_], upwards[open_]
        ended = np.where(up, high[which] >= most[which], low[which] <= 0)
        found[which[ended & ~up]] = 0.0
        open_, which, up = open_[~ended], which[~ended], up[~ended]
        if not open_.size:
            break
        at = np.where(up, np.minimum(high[which] + step[open_], most[which]), np.maximum(low[which] - step[open_], 0))
        value = lead(at, which)
        crossed = (value >= 0) == up
        # the end that was evaluated last, and the end on the other side of the target
        ahead, behind = which[up], which[~up]
        low[ahead], before[ahead] = high[ahead], after[ahead]
        high[ahead], after[ahead] = at[up], value[up]
        high[behind], after[behind] = low[behind], before[behind]
        low[behind], before[behind] = at[~up], value[~up]
        passed[open_[crossed]] = True
        step[open_] = np.maximum(2 * step[open_], _stride(value, sd[which]))
        open_ = open_[~crossed]
    return passed


def _narrowed(lead: _Lead, left: Ints, bracket: _Bracket, near: float) -> None:
    """Narrows the brackets until their upper end is an answer."""
    low, high, before, after = bracket
    width = np.maximum(high - low, near)  # narrower brackets are done
    shrink = 0.2 / width
    halvings = np.maximum(0.0, np.ceil(np.log2(width / near))) + 1
    while True:
        left = left[(high[left] - low[left] > near) & (halvings[left] >= 0)]
        if not left.size:
            return
        reach = near / 2 * 2.0 ** halvings[left]
        at = _between(low[left], high[left], before[left], after[left], shrink[left], reach, near)
        value = lead(at, left)
        short = value < 0
        under, over = left[short], left[~short]
        low[under], before[under] = at[short], value[short]
        high[over], after[over] = at[~short], value[~short]
        halvings[left] -= 1


def _between(
    low: Floats, high: Floats, before: Floats, after: Floats, shrink: Floats, reach: Floats, near: float
) -> Floats:
    """The next distance to evaluate: interpolated, moved towards the middle, never beyond ``reach`` of bisection."""
    middle, width = (low + high) / 2, high - low
    straight = (after * low - before * high) / (after - before)
    inwards = np.copysign(1.0, middle - straight)
    moved = np.maximum(shrink * width**2, 0.45 * near)  # far enough that two evaluations around the place end it
    nearer = np.where(moved <= np.abs(middle - straight), straight + inwards * moved, middle)
    radius = np.maximum(reach - width / 2, 0.0)
    return np.where(np.abs(nearer - middle) <= radius, nearer, middle - inwards * radius)
