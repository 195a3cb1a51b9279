"""Has the calibration error grown since the baseline, or passed a level? One-sided p-values.

The raw rule "E1 - E0 > threshold" fires in more than half of all unchanged weeks at 500 rows, because the
plug-in error is biased by the number of rows. Here the change is held against what two windows
with the *same* true error would show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from monitor.core.counts import BinCounts, Floats
from monitor.core.records import Interval
from monitor.inference.alignment import Aligned, align
from monitor.inference.gaps import (
    EceMoments,
    GapTables,
    analytic_limits,
    away_from_walls,
    exact_moments,
    floor_of_upper,
    hypothetical,
    position_of,
    stack,
    tail,
)
from monitor.inference.intervals import MceInterval, mce_intervals
from monitor.inference.maximum import largest_gap, only_filled, stays_within
from monitor.inference.maximum_change import Pair, each_unchanged, together
from monitor.inference.memory import each_by_content
from monitor.inference.merging import merge_thin, pool_bins
from monitor.inference.records import IncreaseTest

__all__ = [
    "Aligned", "Side", "align", "ece_increase", "ece_increase_p", "ece_increase_ps", "ece_level_p", "ece_level_ps",
    "ece_rate_p", "mce_increase", "mce_increase_p", "mce_increase_ps", "mce_level_p", "mce_level_ps", "mover",
]  # fmt: skip

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

    The points and limits are those of the analytic form; the p-values are :func:`ece_increase_p` and
    :func:`ece_rate_p`.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 2000, [1] * 1600 + [0] * 400), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 700 + [0] * 300), (10000,))
    >>> found = ece_increase(now, then)
    >>> round(found.change, 2), found.p_value < 0.0001
    (0.1, True)
    """
    if not _filled(window, baseline):
        return _UNDEFINED
    (low0, value0, high0), (low1, value1, high1) = (_limits(table, confidence).tolist() for table in (baseline, window))
    low, high = mover(Interval(value0, low0, high0, None), Interval(value1, low1, high1, None))
    p_value = ece_increase_p(window, baseline, confidence=confidence)
    p_rate = ece_rate_p(window, baseline, confidence=confidence)
    return IncreaseTest(value0, value1, value1 - value0, low, high, p_value, p_rate)


def ece_increase_p(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> float:
    """The p-value for "the true ECE is larger in ``window``" (same edges); 1 without rows.

    The largest of three: if both windows had the true ECE e, each with its own gaps moved until sum w g = e,
    how likely were a change in plug-in ECE as large as the one seen? e is the baseline's lower limit, point and
    upper limit. It sees a rise that comes from traffic moving to where the model was always wrong.
    """
    return ece_increase_ps([(window, baseline)], confidence=confidence)[0]


def ece_increase_ps(pairs: Sequence[Pair], *, confidence: float = 0.95) -> list[float]:
    """:func:`ece_increase_p` of several windows, each with its baseline, worked out together."""
    found = [1.0] * len(pairs)
    filled = [row for row, pair in enumerate(pairs) if _filled(*pair)]
    for row, same in zip(filled, same_errors([pairs[row] for row in filled], confidence), strict=True):
        found[row] = float(tail(same.change, same.now - same.then).max())
    return found


def ece_rate_p(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> float:
    """The same if both windows had the gaps of their pooled rows: it sees changed behaviour only."""
    if not _filled(window, baseline):
        return 1.0
    pooled = pool_bins([baseline, window])
    tables = stack([baseline, window, pooled])
    observed = float(tables.plug_in[1] - tables.plug_in[0])
    return float(tail(observed, _same_gaps(tables, _limits(pooled, confidence))).max())


def _limits(table: BinCounts, confidence: float) -> Floats:
    """(low, point, high) of the ECE of one table by the analytic form."""
    return _each_limits([(table,)], confidence)[0]


@each_by_content
def _each_limits(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[Floats]:
    """The same of several tables, worked out together."""
    return list(np.stack(analytic_limits(stack([table for (table,) in tables]), confidence), axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class SameError:
    """Two windows if their true ECE were the same: each of ``error`` (3,), the baseline's limits and point.

    ``change`` is the change in plug-in ECE that was seen; ``then`` and ``now`` are the moments of the plug-in
    ECE of baseline and window.
    """

    error: Floats
    change: float
    then: EceMoments
    now: EceMoments


@each_by_content
def same_errors(pairs: Sequence[Pair], confidence: float) -> list[SameError]:
    """Pairs of tables, which must hold rows, moved to the baseline's ECE, each with its own gaps."""
    baselines = [(baseline,) for _, baseline in pairs]
    limits, then = _each_limits(baselines, confidence), _each_at_limits(baselines, confidence)
    windows = stack([window for window, _ in pairs])
    now = at_errors(windows, np.stack(limits))
    change = windows.plug_in - stack([baseline for _, baseline in pairs]).plug_in
    return [
        SameError(limits[row], float(change[row]), then[row], _row(now, row)) for row in range(len(pairs))
    ]  # fmt: skip


@each_by_content
def _each_at_limits(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[EceMoments]:
    """Moments of each table's plug-in ECE if its true one were its own lower limit, point or upper limit."""
    found = at_errors(stack([table for (table,) in tables]), np.stack(_each_limits(tables, confidence)))
    return [_row(found, row) for row in range(len(tables))]


def _row(at: EceMoments, row: int) -> EceMoments:
    return EceMoments(at.mean[row], at.variance[row], at.third[row])


def at_errors(tables: GapTables, error: Floats) -> EceMoments:
    """Moments of each table's plug-in ECE if its true ECE were each of ``error`` (T, E): shape (T, E)."""
    repeated = tables.take(np.repeat(np.arange(len(error)), error.shape[1]))
    found = exact_moments(repeated, hypothetical(repeated, position_of(repeated, error.ravel())))[0]
    return EceMoments(*(part.reshape(error.shape) for part in (found.mean, found.variance, found.third)))


def _same_gaps(tables: GapTables, error: Floats) -> EceMoments:
    """The change if both had the gaps of the pooled rows (table 2), moved until those have ``error``."""
    pooled, now, then = (tables.take(np.full(len(error), row)) for row in (2, 1, 0))
    gap = hypothetical(pooled, position_of(pooled, error)) - pooled.score
    moved = [exact_moments(own, np.clip(own.score + gap, 0, 1))[0] for own in (now, then)]
    return moved[0] - moved[1]


def mce_increase(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> IncreaseTest:
    """Is the MCE of ``window`` larger than that of ``baseline`` (same edges)? Undefined without rows.

    Thin bins are merged once, on both together. If both windows had the debiased gaps of their
    pooled rows (see ``maximum_change.py``), each with its own scores and numbers of rows, how likely were a change in
    plug-in MCE as large as the one seen? ``detail`` names the worst bin of the window.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 2000, [1] * 1600 + [0] * 400), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 700 + [0] * 300), (10000,))
    >>> found = mce_increase(now, then)
    >>> round(found.change, 2), found.p_value < 0.0001, found.detail["worst_n"]
    (0.1, True, 1000)
    """
    now, then = merge_thin([window, baseline])
    found1, found0 = interval_of_mce(now, confidence), interval_of_mce(then, confidence)
    value1, value0 = found1.interval.value, found0.interval.value
    if value1 is None or value0 is None:  # only without rows
        return _UNDEFINED
    low, high = mover(found0.interval, found1.interval)
    p_value = mce_increase_p(now, then)
    return IncreaseTest(value0, value1, value1 - value0, low, high, p_value, detail=_worst_bin(found1))


def mce_increase_p(window: BinCounts, baseline: BinCounts) -> float:
    """The p-value of :func:`mce_increase`, of two tables whose thin bins are merged already; 1 without rows.

    It is never below 1e-10, which covers what was left out of the baseline's distribution, and rounding.
    """
    return mce_increase_ps([(window, baseline)])[0]


def mce_increase_ps(pairs: Sequence[Pair]) -> list[float]:
    """:func:`mce_increase_p` of several windows, each with its baseline, worked out together."""
    found = [1.0] * len(pairs)
    filled = [row for row, pair in enumerate(pairs) if _filled(*pair)]
    if not filled:
        return found
    asked = [pairs[row] for row in filled]
    now, then = (np.abs(stack(tables).gap).max(axis=1, initial=0.0) for tables in zip(*asked, strict=True))
    for row, p_value in zip(filled, together(each_unchanged(asked)).p_values(now - then).tolist(), strict=True):
        found[row] = p_value
    return found


def interval_of_mce(bins: BinCounts, confidence: float) -> MceInterval:
    """``mce_interval``, kept for the other rules on the same bins and, of a baseline, for other weeks."""
    return intervals_of_mce([(bins,)], confidence)[0]


@each_by_content
def intervals_of_mce(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[MceInterval]:
    """The same of several tables, worked out together."""
    return mce_intervals([table for (table,) in tables], confidence=confidence)


def _worst_bin(found: MceInterval) -> dict[str, object]:
    return {"worst_range": found.worst_range, "worst_n": found.worst_n, "worst_gap": found.worst_gap}


def ece_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    """The p-value for "the true ECE is above (below) ``threshold``"; 1 without rows.

    How likely is what was seen, or something even further beyond, at a true ECE of just the
    threshold: T(threshold) on the path of the lower limit, or 1 - T on those of the upper.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> ece_level_p(off, 0.1) < 0.001, ece_level_p(off, 0.3) > 0.999, ece_level_p(off, 0.3, side="below") < 0.001
    (True, True, True)
    """
    return ece_level_ps([bins], threshold, side=side)[0]


def ece_level_ps(tables: Sequence[BinCounts], threshold: float, *, side: Side = "above") -> list[float]:
    """:func:`ece_level_p` of several tables, worked out together."""
    found = [1.0] * len(tables)
    filled = [row for row, bins in enumerate(tables) if _filled(bins)]
    if not filled:
        return found
    stacked = stack([tables[row] for row in filled])
    chances = _ece_above(stacked, threshold) if side == "above" else _ece_below(stacked, threshold)
    for row, chance in zip(filled, chances.tolist(), strict=True):
        found[row] = chance
    return found


def _ece_above(tables: GapTables, threshold: float) -> Floats:
    position = position_of(tables, np.full(len(tables.n), threshold))
    at, tie = exact_moments(tables, hypothetical(tables, position))
    return tail(tables.plug_in - tie, at)


def _ece_below(tables: GapTables, threshold: float) -> Floats:
    """The larger one of what the two paths of the upper limit say, shape (T,)."""
    size, observed = len(tables.n), floor_of_upper(tables)
    both = away_from_walls(tables, observed).take(np.tile(np.arange(size), 2))
    uniform = np.repeat([False, True], size)
    position = position_of(both, np.full(2 * size, threshold), uniform)
    at, tie = exact_moments(both, hypothetical(both, position, uniform))
    met = np.tile(observed <= tables.plug_in, 2)  # the floor of the upper limit is no outcome that could be met exactly
    chance = 1 - tail(np.tile(observed, 2) + tie * met, at, strict=True)
    return np.asarray(chance.reshape(2, size).max(axis=0))


def mce_level_p(bins: BinCounts, threshold: float, *, side: Side = "above") -> float:
    """The p-value for "the true MCE is above (below) ``threshold``" on bins of 100 rows; 1 without rows.

    Above: the probability of the largest gap seen if *every* bin had a gap of the threshold. Below:
    the largest probability, over the bins, of a gap no larger than the largest one seen.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> mce_level_p(off, 0.1) < 0.001, mce_level_p(off, 0.25, side="below") < 0.001
    (True, True)
    """
    return mce_level_ps([merge_thin([bins])[0]], threshold, side=side)[0]


def mce_level_ps(merged: Sequence[BinCounts], threshold: float, *, side: Side = "above") -> list[float]:
    """:func:`mce_level_p` of several tables whose thin bins are merged already, worked out together."""
    found = [1.0] * len(merged)
    filled = [row for row, bins in enumerate(merged) if _filled(bins)]
    if not filled:
        return found
    tables = stack([merged[row] for row in filled])
    largest = np.abs(tables.gap).max(axis=1, initial=0.0)
    if side == "above":
        chances = surely_above(tables, largest, threshold).tolist()
    else:
        single = (only_filled(tables.take([row])) for row in range(len(filled)))
        chances = [surely_below(table, largest_gap(table), threshold) for table in single]
    for row, chance in zip(filled, chances, strict=True):
        found[row] = chance
    return found


def surely_above(tables: GapTables, largest: Floats, threshold: float) -> Floats:
    """P(MCE >= largest) if every bin of a table had a gap of ``threshold``, in the direction seen; shape (T,)."""
    rate = np.clip(tables.score + tables.sign * threshold, 0.0, 1.0)
    within = stays_within(largest[:, None], tables.n, tables.score, rate)
    return np.asarray(1 - np.where(tables.share > 0, within, 1.0).prod(axis=1))


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
