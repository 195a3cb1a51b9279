"""How small a change these rows could have shown: what stands behind "not enough evidence".

A *detectable* change is the smallest one that this many rows, with these gaps, reveal with the
given power at the unadjusted ``rate``. None: not even the largest possible one would be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import ndtri

from monitor.counts import BinCounts, Floats
from monitor.inference.change import Side, at_error, same_error, surely_above, surely_below
from monitor.inference.gaps import (
    ROUNDING,
    GapTables,
    Moments,
    exact_moments,
    farther,
    hypothetical,
    position_of,
    realised,
    stack,
    start_of,
    tail,
)
from monitor.inference.maximum import all_within, only_filled, point, stays_within
from monitor.inference.maximum_change import Unchanged, for_planning, unchanged
from monitor.inference.merging import merge_thin
from monitor.inference.search import scaled, smallest

_FAR = 10.0  # standard deviations: beyond this nothing is looked for
_HALVINGS = 40  # of 20 standard deviations
_PRECISION = 1e-6  # of an ECE on a path, with room to spare
_ONE = np.ones(1)
_ROUNDS, _AT_ONCE = 2, 24  # looks at a path, and parts of it looked at together
_LEAST = 1e-15  # nearer to 0 or 1 than this no probability is told apart
_ROOT_TWO, _ROOT_TWO_PI = math.sqrt(2), math.sqrt(2 * math.pi)


def _value_at(at: Moments, probability: float) -> float:
    """The plug-in value x (or change) with T(x) = ``probability``, of one table's moments."""
    mean, sd = float(at.mean[0]), math.sqrt(float(at.variance[0]))
    if sd < ROUNDING:  # the only value there is has T = 1: a rarer one lies beyond it
        return mean + math.copysign(4 * ROUNDING, 0.5 - probability)
    skew = float(at.third[0]) / sd**3
    low, high = -_FAR, _FAR  # T falls from low to high
    for _ in range(_HALVINGS):
        z = (low + high) / 2
        bell = math.exp(-z * z / 2) / _ROOT_TWO_PI
        short = math.erfc(z / _ROOT_TWO) / 2 + bell * skew * (z * z - 1) / 6 < probability
        low, high = (low, z) if short else (z, high)
    return mean + sd * (low + high) / 2


def _first(chance: Callable[[Floats], Floats], target: float) -> float | None:
    """The first part of a path, in (0, 1], at which ``chance``, (K,) -> (K,), reaches ``target``; None: nowhere.

    Many parts are looked at together, and the last step is by interpolation on the scale of the normal quantile.
    """
    low, high, lead = 0.0, 1.0, np.zeros(2)
    for _ in range(_ROUNDS):
        parts = np.linspace(low, high, _AT_ONCE + 1)
        ahead = ndtri(np.minimum(np.maximum(chance(parts), _LEAST), 1 - _LEAST)) - ndtri(target)
        if ahead[-1] < 0:
            return None
        first = max(int(np.argmax(ahead >= 0)), 1)
        low, high, lead = float(parts[first - 1]), float(parts[first]), ahead[first - 1 : first + 1]
    return high if lead[0] >= 0 else high - (high - low) * float(lead[1] / (lead[1] - lead[0]))


def _ece_path(
    table: GapTables,
    start: float,
    chance: Callable[[Moments], Floats],
    power: float,
    *,
    up: bool,
    within: float | None = None,
) -> float | None:
    """The smallest distance from the ECE ``start`` along the shrunk path whose moments are seen with ``power``.

    None also where these scores cannot have an ECE of ``start`` at all, or it is surely more than ``within``.
    """
    if within is not None:
        end = np.array([start + within if up else max(start - within, 0.0)])
        if float(chance(at_error(table, end))[0]) < power:
            return None
    origin = position_of(table, np.array([start]))
    if float(realised(table, hypothetical(table, origin))[0]) < start - _PRECISION:
        return None
    end = _ONE if up else start_of(table)

    def rate_at(part: Floats) -> Floats:
        return hypothetical(table, origin + part * (end - origin))

    def at(parts: Floats) -> Moments:
        return exact_moments(table.take(np.zeros(len(parts), dtype=np.intp)), rate_at(parts))[0]

    part = _first(lambda parts: chance(at(parts)), power)
    return None if part is None else abs(float(realised(table, rate_at(np.array([part])))[0]) - start)


def ece_increase_detectable(
    window: BinCounts,
    baseline: BinCounts,
    *,
    rate: float,
    power: float = 0.8,
    confidence: float = 0.95,
    within: float | None = None,
) -> float | None:
    """The smallest rise of the ECE over the baseline's point that ``ece_increase`` would see.

    x is the change in plug-in ECE that is exceeded with probability ``rate`` when both windows have
    the baseline's ECE e0; the answer is the smallest d for which a window with e0 + d exceeds it
    with probability ``power``. With ``within``: None where it is more than that, found sooner.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> round(ece_increase_detectable(now, then, rate=0.01), 2)
    0.04
    """
    if not ((window.w > 0).any() and (baseline.w > 0).any()):
        return None
    same = same_error(window, baseline, confidence)
    then, now = _of_point(same.then), _of_point(same.now)
    critical = _value_at(now - then, rate)
    start = float(same.error[1])
    return _ece_path(same.table, start, lambda at: tail(critical, at - then), power, up=True, within=within)


def _of_point(at: Moments) -> Moments:
    """The moments at the baseline's point, from those at (lower limit, point, upper limit)."""
    return Moments(at.mean[1:2], at.variance[1:2], at.third[1:2])


def ece_level_detectable(
    bins: BinCounts,
    threshold: float,
    *,
    rate: float,
    power: float = 0.8,
    side: Side = "above",
    within: float | None = None,
) -> float | None:
    """The distance of the true ECE from ``threshold`` at which ``ece_level_p`` is <= ``rate`` with ``power``.

    With ``within``: None where it is more than that, found sooner.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> rows = bin_counts(counts_from_rows([0.8] * 1000, [1] * 750 + [0] * 250), (10000,))
    >>> round(ece_level_detectable(rows, 0.08, rate=0.01), 2)
    0.05
    """
    table = stack([bins])
    if not (table.share > 0).any():
        return None
    at = at_error(table, np.array([threshold]))
    if side == "above":
        critical = _value_at(at, rate)
        return _ece_path(table, threshold, lambda moved: tail(critical, moved), power, up=True, within=within)
    lowest = _value_at(at, 1 - rate)
    return _ece_path(table, threshold, lambda moved: 1 - tail(lowest, moved), power, up=False, within=within)


def _middle_bin(n: Floats, rate: Floats) -> int:
    """The bin whose hit rate has the median variance, shapes (M,)."""
    return int(np.argsort(rate * (1 - rate) / n, kind="stable")[len(n) // 2])


def mce_increase_detectable(
    window: BinCounts, baseline: BinCounts, *, rate: float, power: float = 0.8, within: float | None = None
) -> float | None:
    """The smallest rise of the MCE that ``mce_increase`` would see, if the bin of median variance rose.

    With ``within``: None also where it is surely more than that, found sooner. Never too small, and too large by
    less than 1e-4 in nearly all cases; by up to 1e-3 where a step of the p-value lies within the search's precision.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> round(mce_increase_detectable(now, then, rate=0.01), 2)
    0.04
    """
    now, then = merge_thin([window, baseline])
    if not ((now.w > 0) & (then.w > 0)).any():
        return None
    null = for_planning(unchanged(now, then), rate)
    n, score, own = null.n[1], null.score[1], null.rate[1]
    moved = _middle_bin(n, own)
    way, room = float(farther(score[moved])), float(max(score[moved], 1 - score[moved]))

    def risen(rise: float) -> float:
        return float(score[moved]) + way * (null.error + rise)

    if within is not None and _surely_unseen(null, moved, risen(within), rate, power):
        return None
    critical = null.critical(rate, 2.2 * null.noise)
    if critical is None:
        return None
    seen = null.at(critical).power_of(moved)
    sd = float(np.sqrt(own * (1 - own) / n)[moved])
    guess = critical + float(null.mass @ null.middle) + 0.6 * sd - null.error
    return smallest(lambda rise: seen(risen(rise)), power, room - null.error, guess, sd)


def _surely_unseen(null: Unchanged, moved: int, own: float, rate: float, power: float) -> bool:
    """Whether a hit rate ``own`` of the bin ``moved`` is seen with less than ``power``; False: not known.

    The larger the change that is asked for, the less is seen: if too little is seen already with a change that is
    not enough for a p-value of ``rate``, the one that is enough need not be searched.
    """
    change = 1.9 * null.noise
    for _ in range(2):
        reached = null.at(change)
        short = scaled(1 - rate) - scaled(1 - reached.p_value)
        if short <= 0:
            return False
        if reached.power_of(moved)(own) < power:
            return True
        change += 0.7 * short * null.noise  # less than what is short, so that it is not enough again
    return False


def mce_level_detectable(
    bins: BinCounts, threshold: float, *, rate: float, power: float = 0.8, side: Side = "above"
) -> float | None:
    """The distance of the true MCE from ``threshold`` at which ``mce_level_p`` is <= ``rate`` with ``power``.

    Above: the bin of median variance lies beyond the threshold and the others where they are
    (debiased, at most at the threshold). Below: all bins lie below it by that much. A largest gap goes in steps of one
    hit, 1/n of a bin: where two of them lie nearer than the search tells apart, the answer is for the larger one.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> rows = bin_counts(counts_from_rows([0.8] * 1000, [1] * 750 + [0] * 250), (10000,))
    >>> round(mce_level_detectable(rows, 0.2, rate=0.01), 2)
    0.05
    """
    if not (bins.w > 0).any():
        return None
    table = only_filled(stack(merge_thin([bins])))
    return _above(table, threshold, rate, power) if side == "above" else _below(table, threshold, rate, power)


def _above(table: GapTables, threshold: float, rate: float, power: float) -> float | None:
    n, score, size = table.n[0], table.score[0], np.abs(table.gap[0])
    noise = 1 / math.sqrt(float(np.median(n)))
    critical = smallest(
        lambda largest: 1 - surely_above(table, largest, threshold), 1 - rate, 1.0, threshold + 1.2 * noise, noise / 3
    )
    if critical is None:
        return None
    gap = np.minimum(np.maximum(0.0, size - (size.max() - point(table))), threshold)
    own = np.clip(score + table.sign[0] * gap, 0.0, 1.0)
    moved = _middle_bin(n, own)
    way, room = float(farther(score[moved])), float(max(score[moved], 1 - score[moved]))
    others = np.delete(np.arange(len(n)), moved)
    rest = float(all_within(critical, n[others], score[others], own[others]))

    def seen(distance: float) -> float:
        risen = min(max(float(score[moved]) + way * (threshold + distance), 0.0), 1.0)
        return 1 - rest * float(stays_within(critical, n[moved], score[moved], np.asarray(risen)))

    sd = 0.4 / math.sqrt(float(n[moved]))
    return smallest(seen, power, room - threshold, critical - threshold + sd, sd)


def _below(table: GapTables, threshold: float, rate: float, power: float) -> float | None:
    n, score = table.n[0], table.score[0]
    noise = 1 / math.sqrt(float(np.median(n)))
    # the largest "largest gap" that is still surely below: searched downwards from the threshold
    down = smallest(
        lambda step: 1 - surely_below(table, threshold - step, threshold), 1 - rate, threshold, noise, noise / 2
    )
    if down is None:
        return None

    def seen(distance: float) -> float:
        own = np.clip(score + table.sign[0] * (threshold - distance), 0.0, 1.0)
        return float(all_within(threshold - down + 2e-9, n, score, own))

    return smallest(seen, power, threshold, down + noise, noise / 2)
