"""Has the calibration error grown since the baseline, or passed a level? One-sided p-values.

The raw rule "E1 - E0 > threshold" fires in half of all unchanged weeks at 1,000 rows, because the
plug-in error is biased by the number of rows. Here the change is held against what two windows
with the *same* true error would show.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from monitor.counts import BinCounts, Floats
from monitor.inference.alignment import Aligned, align
from monitor.inference.gaps import (
    GapTables,
    Moments,
    analytic_limits,
    away_from_walls,
    floor_of_upper,
    hypothetical,
    moments,
    position_of,
    stack,
    tail,
)
from monitor.inference.intervals import MceInterval, mce_interval
from monitor.inference.maximum import all_within, largest_gap, only_filled, stays_within
from monitor.inference.maximum_change import unchanged
from monitor.inference.merging import merge_thin, pool_bins
from monitor.inference.records import IncreaseTest
from monitor.records import Interval

__all__ = ["Aligned", "Side", "align", "ece_increase", "ece_level_p", "mce_increase", "mce_level_p", "mover"]

Side = Literal["above", "below"]

_UNDEFINED = IncreaseTest(None, None, None, None, None, None)


def mover(e0: Interval, e1: Interval) -> tuple[float, float]:
    """The interval of e1 - e0 from the intervals of two independent estimates (Zou & Donner 2008).

    low = d - sqrt((e1 - l1)^2 + (u0 - e0)^2), high = d + sqrt((u1 - e1)^2 + (e0 - l0)^2). Raises
    ValueError where an estimate is not defined.

    >>> low, high = mover(Interval(0.02, 0.0, 0.05, 0.03), Interval(0.06, 0.02, 0.10, 0.07))
    >>> round(low, 3), round(high, 3)
    (-0.01, 0.085)
    """
    numbers = (e0.value, e0.low, e0.high, e1.value, e1.low, e1.high)
    if any(number is None for number in numbers):
        raise ValueError("the interval of a change needs two estimates that are defined")
    value0, low0, high0, value1, low1, high1 = (float(number) for number in numbers if number is not None)
    change = value1 - value0
    down = np.hypot(value1 - low1, high0 - value0)
    up = np.hypot(high1 - value1, value0 - low0)
    return float(change - down), float(change + up)


def _filled(*tables: BinCounts) -> bool:
    return all((table.w > 0).any() for table in tables)


def ece_increase(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> IncreaseTest:
    """Is the ECE of ``window`` larger than that of ``baseline`` (same edges)? Undefined without rows.

    ``p_value`` is the largest of three: if both windows had the true ECE e, each with its own gaps
    moved until sum w g = e, how likely were a change in plug-in ECE as large as the one seen? e is
    the baseline's lower limit, point and upper limit. It sees a rise that comes from traffic moving
    to where the model was always wrong; ``p_rate``, with the gaps of both windows pooled, does not.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 2000, [1] * 1600 + [0] * 400), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 700 + [0] * 300), (10000,))
    >>> found = ece_increase(now, then)
    >>> round(found.change, 2), found.p_value < 0.0001
    (0.1, True)
    """
    if not _filled(window, baseline):
        return _UNDEFINED
    tables = stack([baseline, window, pool_bins([baseline, window])])
    limits = np.array(analytic_limits(tables, confidence))
    then, now = (Interval(point, low, high, None) for low, point, high in limits.T[:2].tolist())
    observed = float(tables.plug_in[1] - tables.plug_in[0])
    low, high = mover(then, now)
    return IncreaseTest(
        value0=float(limits[1, 0]),
        value1=float(limits[1, 1]),
        change=float(limits[1, 1] - limits[1, 0]),
        low=low,
        high=high,
        p_value=float(tail(observed, _same_error(tables, limits[:, 0])).max()),
        p_rate=float(tail(observed, _same_gaps(tables, limits[:, 2])).max()),
    )


def at_error(table: GapTables, error: Floats) -> Moments:
    """Moments of one table's plug-in ECE if its true ECE were each of ``error`` (E,): shape (E,)."""
    repeated = table.take(np.zeros(len(error), dtype=np.intp))
    return moments(repeated, hypothetical(repeated, position_of(repeated, error)))


def _same_error(tables: GapTables, error: Floats) -> Moments:
    """The change if baseline (table 0) and window (table 1) both had the ECE ``error``, own gaps each."""
    return at_error(tables.take([1]), error) - at_error(tables.take([0]), error)


def _same_gaps(tables: GapTables, error: Floats) -> Moments:
    """The change if both had the gaps of the pooled rows (table 2), moved until those have ``error``."""
    pooled, now, then = (tables.take(np.full(len(error), row)) for row in (2, 1, 0))
    gap = hypothetical(pooled, position_of(pooled, error)) - pooled.score
    return moments(now, np.clip(now.score + gap, 0, 1)) - moments(then, np.clip(then.score + gap, 0, 1))


def mce_increase(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> IncreaseTest:
    """Is the MCE of ``window`` larger than that of ``baseline`` (same edges)? Undefined without rows.

    Thin bins are merged once, on both together. If both windows had the debiased gaps of their
    pooled rows, each with its own scores and numbers of rows, how likely were a change in plug-in
    MCE as large as the one seen? ``detail`` names the worst bin of the window.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 2000, [1] * 1600 + [0] * 400), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 700 + [0] * 300), (10000,))
    >>> found = mce_increase(now, then)
    >>> round(found.change, 2), found.p_value < 0.0001, found.detail["worst_n"]
    (0.1, True, 1000)
    """
    now, then = merge_thin([window, baseline])
    found1, found0 = mce_interval(now, confidence=confidence), mce_interval(then, confidence=confidence)
    value1, value0 = found1.interval.value, found0.interval.value
    if value1 is None or value0 is None:  # only without rows
        return _UNDEFINED
    low, high = mover(found0.interval, found1.interval)
    tables = stack([then, now])
    observed = largest_gap(tables.take([1])) - largest_gap(tables.take([0]))
    p_value = unchanged(now, then).p_value(observed)
    return IncreaseTest(value0, value1, value1 - value0, low, high, p_value, detail=_worst_bin(found1))


def _worst_bin(found: MceInterval) -> dict[str, object]:
    return {"worst_range": found.worst_range, "worst_n": found.worst_n, "worst_gap": found.worst_gap}


def ece_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    """The p-value for "the true ECE is above (below) ``threshold``"; 1 without rows.

    How likely is what was seen, or something even further beyond, at a true ECE of just the
    threshold: T(threshold) on the path of the lower limit, or 1 - T on those of the upper.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> ece_level_p(off, 0.1) < 0.001, ece_level_p(off, 0.3) > 0.999, ece_level_p(off, 0.3, side="below") < 0.001
    (True, True, True)
    """
    if not _filled(bins):
        return 1.0
    table = stack([bins])
    if side == "above":
        return float(tail(table.plug_in, at_error(table, np.array([threshold])))[0])
    observed = floor_of_upper(table)
    both = away_from_walls(table, observed).take([0, 0])
    uniform = np.array([False, True])
    position = position_of(both, np.full(2, threshold), uniform)
    seen = tail(observed, moments(both, hypothetical(both, position, uniform)), strict=True)
    return float(1 - seen.min())


def mce_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    """The p-value for "the true MCE is above (below) ``threshold``" on bins of 100 rows; 1 without rows.

    Above: the probability of the largest gap seen if *every* bin had a gap of the threshold. Below:
    the largest probability, over the bins, of a gap no larger than the largest one seen.

    >>> from monitor.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> mce_level_p(off, 0.1) < 0.001, mce_level_p(off, 0.25, side="below") < 0.001
    (True, True)
    """
    if not _filled(bins):
        return 1.0
    table = only_filled(stack(merge_thin([bins])))
    largest = largest_gap(table)
    return surely_above(table, largest, threshold) if side == "above" else surely_below(table, largest, threshold)


def surely_above(table: GapTables, largest: float, threshold: float) -> float:
    """P(MCE >= largest) if every bin of one table had a gap of ``threshold``, in the direction seen."""
    rate = np.clip(table.score[0] + table.sign[0] * threshold, 0.0, 1.0)
    return float(1 - all_within(largest, table.n[0], table.score[0], rate))


def surely_below(table: GapTables, largest: float, threshold: float) -> float:
    """The largest P(gap <= largest) of any bin of one table with a gap of ``threshold``, either way.

    It holds whichever bin is the one with that gap. 1 where no bin could have it.
    """
    n, score = table.n[0], table.score[0]
    chances = [
        stays_within(largest + 2e-9, n[fits], score[fits], (score + way * threshold)[fits]).max(initial=0.0)
        for way in (-1.0, 1.0)
        for fits in [(score + way * threshold >= 0) & (score + way * threshold <= 1)]
        if fits.any()
    ]
    return float(max(chances, default=1.0))
