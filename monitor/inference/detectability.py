"""How small a change these rows could have shown: what stands behind "not enough evidence".

A *detectable* change is the smallest one that this many rows, with these gaps, reveal with the
given power at the unadjusted ``rate``. None: not even the largest possible one would be seen.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from monitor.counts import BinCounts, Floats
from monitor.inference.change import Side, at_error, surely_above, surely_below
from monitor.inference.gaps import (
    GapTables,
    Moments,
    analytic_limits,
    farther,
    hypothetical,
    moments,
    position_of,
    realised,
    solve,
    stack,
    start_of,
    tail,
)
from monitor.inference.maximum import all_within, only_filled, point, stays_within
from monitor.inference.maximum_change import unchanged
from monitor.inference.merging import merge_thin

_STEPS = 14  # halvings: a detectable change is a guide, not a measurement
_FAR = 10.0  # standard deviations: beyond this nothing is looked for
_PRECISION = 1e-6  # of an ECE on a path, with room to spare
_ONE = np.ones(1)


def _smallest(seen: Callable[[float], bool], most: float) -> float | None:
    """The smallest distance in [0, most] that is seen; None where not even ``most`` is."""
    if most < 0 or not seen(most):
        return None
    low, high = 0.0, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if seen(middle) else (middle, high)
    return high


def _value_at(at: Moments, probability: float) -> Floats:
    """The plug-in value x (or change) with T(x) = ``probability``, shape (1,)."""
    sd = np.sqrt(at.variance)
    top = at.mean + _FAR * sd

    def from_the_top(down: Floats) -> Floats:
        return tail(top - down, at)

    return top - solve(from_the_top, probability * _ONE, 0 * sd, 2 * _FAR * sd, 40)


def _ece_path(table: GapTables, start: float, seen: Callable[[Moments], bool], *, up: bool) -> float | None:
    """The smallest distance from the ECE ``start`` along the shrunk path whose moments are seen.

    None also where these scores cannot have an ECE of ``start`` at all.
    """
    origin = position_of(table, np.array([start]))
    if float(realised(table, hypothetical(table, origin))[0]) < start - _PRECISION:
        return None
    end = _ONE if up else start_of(table)

    def rate_at(part: float) -> Floats:
        return hypothetical(table, origin + part * (end - origin))

    part = _smallest(lambda part: seen(moments(table, rate_at(part))), 1.0)
    return None if part is None else abs(float(realised(table, rate_at(part))[0]) - start)


def ece_increase_detectable(window: BinCounts, baseline: BinCounts, *, rate: float, power: float = 0.8) -> float | None:
    """The smallest rise of the ECE over the baseline's point that ``ece_increase`` would see.

    x is the change in plug-in ECE that is exceeded with probability ``rate`` when both windows have
    the baseline's ECE e0; the answer is the smallest d for which a window with e0 + d exceeds it
    with probability ``power``.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> round(ece_increase_detectable(now, then, rate=0.01), 2)
    0.04
    """
    tables = stack([baseline, window])
    if not (tables.share > 0).any(axis=1).all():
        return None
    before, now = tables.take([0]), tables.take([1])
    error = analytic_limits(before, 0.95)[1]
    then = at_error(before, error)
    critical = _value_at(at_error(now, error) - then, rate)
    return _ece_path(now, float(error[0]), lambda at: bool(tail(critical, at - then)[0] >= power), up=True)


def ece_level_detectable(
    bins: BinCounts, threshold: float, *, rate: float, power: float = 0.8, side: Side = "above"
) -> float | None:
    """The distance of the true ECE from ``threshold`` at which ``ece_level_p`` is <= ``rate`` with ``power``.

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
        return _ece_path(table, threshold, lambda moved: bool(tail(critical, moved)[0] >= power), up=True)
    critical = _value_at(at, 1 - rate)
    return _ece_path(table, threshold, lambda moved: bool(tail(critical, moved)[0] <= 1 - power), up=False)


def _middle_bin(n: Floats, rate: Floats) -> int:
    """The bin whose hit rate has the median variance, shapes (M,)."""
    return int(np.argsort(rate * (1 - rate) / n, kind="stable")[len(n) // 2])


def mce_increase_detectable(window: BinCounts, baseline: BinCounts, *, rate: float, power: float = 0.8) -> float | None:
    """The smallest rise of the MCE that ``mce_increase`` would see, if the bin of median variance rose.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> round(mce_increase_detectable(now, then, rate=0.01), 2)
    0.04
    """
    now, then = merge_thin([window, baseline])
    if not ((now.w > 0) & (then.w > 0)).any():
        return None
    null = unchanged(now, then)
    critical = _smallest(lambda change: null.p_value(change) <= rate, 1.0)
    if critical is None:
        return None
    n, score, own = null.n[1], null.score[1], null.rate[1]
    moved = _middle_bin(n, own)
    others = np.delete(np.arange(len(n)), moved)
    rest = all_within(critical + null.middle, n[others], score[others], own[others])
    way = farther(score[moved])

    def seen(rise: float) -> bool:
        risen = score[moved] + way * (null.error + rise)
        within = stays_within(critical + null.middle, n[moved], score[moved], np.clip(risen, 0.0, 1.0))
        return null.chance(rest * within) >= power

    return _smallest(seen, float(max(score[moved], 1 - score[moved])) - null.error)


def mce_level_detectable(
    bins: BinCounts, threshold: float, *, rate: float, power: float = 0.8, side: Side = "above"
) -> float | None:
    """The distance of the true MCE from ``threshold`` at which ``mce_level_p`` is <= ``rate`` with ``power``.

    Above: the bin of median variance lies beyond the threshold and the others where they are
    (debiased, at most at the threshold). Below: all bins lie below it by that much.

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
    critical = _smallest(lambda largest: surely_above(table, largest, threshold) <= rate, 1.0)
    if critical is None:
        return None
    n, score, size = table.n[0], table.score[0], np.abs(table.gap[0])
    gap = np.minimum(np.maximum(0.0, size - (size.max() - point(table))), threshold)
    own = np.clip(score + table.sign[0] * gap, 0.0, 1.0)
    moved = _middle_bin(n, own)
    way = farther(score[moved])

    def seen(distance: float) -> bool:
        shifted = own.copy()
        shifted[moved] = np.clip(score[moved] + way * (threshold + distance), 0.0, 1.0)
        return float(1 - all_within(critical, n, score, shifted)) >= power

    return _smallest(seen, float(max(score[moved], 1 - score[moved])) - threshold)


def _below(table: GapTables, threshold: float, rate: float, power: float) -> float | None:
    n, score = table.n[0], table.score[0]
    # the largest "largest gap" that is still surely below: searched downwards from the threshold
    down = _smallest(lambda step: surely_below(table, threshold - step, threshold) <= rate, threshold)
    if down is None:
        return None

    def seen(distance: float) -> bool:
        own = np.clip(score + table.sign[0] * (threshold - distance), 0.0, 1.0)
        return float(all_within(threshold - down + 2e-9, n, score, own)) >= power

    return _smallest(seen, threshold)
