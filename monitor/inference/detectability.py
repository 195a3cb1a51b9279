"""The smallest change that these rows could have shown: the numbers behind "not enough evidence".

A *detectable* change is the smallest one that this many rows, with these gaps, show with the given
power at the unadjusted ``rate``. None means that not even the largest possible change would be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from monitor.core.counts import BinCounts, Bools, Floats, Ints
from monitor.inference.change import (
    LIKELY,
    Side,
    at_errors,
    at_level,
    chance,
    of_filled,
    p_above,
    p_below,
    same_errors,
)
from monitor.inference.gaps import (
    ROUNDING,
    EceMoments,
    GapTables,
    at_walls,
    each_at,
    farther,
    hypothetical,
    position_of,
    stack,
    tail,
    with_gaps,
)
from monitor.inference.maximum import Pair, points, stays_within, unchanged
from monitor.inference.search import POWER, smallest

PLANNED = 24
"""Values of the baseline's MCE in planning: the power is that of twice as many to .02."""


def _known(found: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(number) else number for number in found]


def _exceeded(at: EceMoments, probability: float, chance_of: Callable[[Floats, EceMoments], Floats] = tail) -> Floats:
    """The plug-in value (or change) that is exceeded with this probability; shape (T,)."""
    up, mean, sd = probability < 0.5, at.mean, np.sqrt(at.variance)
    if mean.ndim > 1:  # over all shifts of a week
        mean = at.mean @ LIKELY
        sd = np.sqrt(at.variance @ LIKELY + (at.mean - mean[:, None]) ** 2 @ LIKELY)

    def short(distance: Floats, which: Ints) -> Floats:
        reached = chance_of(mean[which] + (distance if up else -distance), each_at(at, which))
        return 1 - reached if up else reached

    distance = smallest(short, max(probability, 1 - probability), sd + ROUNDING)
    return mean + (distance if up else -distance)


def ece_increase_detectables(
    pairs: Sequence[Pair],
    *,
    rate: float,
    confidence: float = 0.95,
    between: Sequence[float] | None = None,
) -> list[float | None]:
    """The smallest rises of the ECE over the baseline's point that ``ece_increase_ps`` would see.

    x is the change in plug-in ECE that is exceeded with probability ``rate`` when both windows have
    the baseline's ECE e0; the answer is the smallest d for which a window with e0 + d exceeds x
    with probability ``power``.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> [round(found, 2) for found in ece_increase_detectables([(now, then)], rate=0.01)]
    [0.04]
    """

    known = np.array([0.0] * len(pairs) if between is None else between)

    def rises(with_rows: Sequence[Pair], places: Sequence[int]) -> Floats:
        def asked(windows: Sequence[BinCounts], rows: Sequence[int]) -> tuple[Floats, Floats]:
            chosen = [(window, with_rows[row][1]) for window, row in zip(windows, rows, strict=True)]
            return _ece_rises(chosen, rate, confidence, known[places][list(rows)])

        return _either_way([window for window, _ in with_rows], asked)

    return _known(of_filled(pairs, rises, math.nan))


def _ece_rises(pairs: Sequence[Pair], rate: float, confidence: float, between: Floats) -> tuple[Floats, Floats]:
    """The smallest rises that are seen, and those at which the gaps of a window reach hit rates of 0 and 1; (T,)."""
    same = same_errors([(*pair, each) for pair, each in zip(pairs, between.tolist(), strict=True)], confidence)
    then, now = (_of_points([getattr(each, side) for each in same]) for side in ("then", "now"))
    at, start = now - then, np.array([float(each.error[1]) for each in same])
    critical, windows = _exceeded(at, rate, chance), stack([window for window, _ in pairs])

    def seen(rise: Floats, which: Ints) -> Floats:
        error = (start[which] + rise)[:, None]
        risen = at_errors(each_at(windows, which), error, between[which]).of(lambda part: part[:, 0])
        return chance(critical[which], risen - each_at(then, which))

    return smallest(seen, POWER, 2 * windows.noise), at_walls(windows) - start


def _either_way(
    windows: Sequence[BinCounts], asked: Callable[[Sequence[BinCounts], Sequence[int]], tuple[Floats, Floats]]
) -> Floats:
    """The distances that ``asked`` finds for windows (and their places), or where these have no room, for turned ones.

    ``asked`` also tells at which distances the gaps reach hit rates of 0 and 1. A window of nearly all hits (or misses)
    has little room in the direction of its gaps: no rise would be seen there, although one in the other would.
    """
    found, most = asked(windows, range(len(windows)))
    again = np.flatnonzero(~(found < most)).tolist()
    if again:
        found[again] = asked([with_room(windows[row]) for row in again], again)[0]
    return found


def with_room(bins: BinCounts) -> BinCounts:
    """The bins with each gap mirrored at the mean score that does not point to the farther one of 0 and 1.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> with_room(bin_counts(counts_from_rows([0.9] * 10, [1] * 10), (10000,))).rate.round(6).tolist()
    [0.8]
    """
    room = np.where(bins.wy > bins.ws, bins.w - bins.ws, bins.ws)
    return replace(bins, wy=np.where(room < bins.w - room, 2 * bins.ws - bins.wy, bins.wy))


def _at(tables: GapTables, error: Floats) -> EceMoments:
    """The moments of the plug-in ECE of each table if its true ECE were ``error`` (T,)."""
    return at_errors(tables, error[:, None], np.zeros(len(error))).of(lambda part: part[:, 0, 0])


def _of_points(parts: Sequence[EceMoments]) -> EceMoments:
    """The moments at each baseline's point (index 1 of lower limit, point and upper limit)."""
    return EceMoments(*(np.array([getattr(at, name)[1] for at in parts]) for name in ("mean", "variance", "third")))


def ece_level_detectables(
    tables: Sequence[BinCounts], threshold: float, *, rate: float, side: Side = "above"
) -> list[float | None]:
    """The distances of the true ECE from ``threshold`` at which ``ece_level_ps`` is <= ``rate`` with ``power``.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> rows = bin_counts(counts_from_rows([0.8] * 1000, [1] * 750 + [0] * 250), (10000,))
    >>> [round(found, 2) for found in ece_level_detectables([rows], 0.08, rate=0.01)]
    [0.05]
    """

    def asked(with_rows: Sequence[BinCounts], _: Sequence[int]) -> tuple[Floats, Floats]:
        stacked = stack(with_rows)

        def seen_above(distance: Floats, which: Ints) -> Floats:
            part = each_at(stacked, which)
            at = _at(part, threshold + distance)
            shown = replace(part, gap=hypothetical(part, position_of(part, at.mean)) - part.score)
            return tail(_exceeded(at_level(shown, threshold)[0], rate), at)

        if side == "above":
            return smallest(seen_above, POWER, 2 * stacked.noise), at_walls(stacked) - threshold
        start = np.full(len(with_rows), threshold)
        critical = _exceeded(_at(stacked, start), 1 - rate)

        def seen_below(distance: Floats, which: Ints) -> Floats:
            return 1 - tail(critical[which], _at(each_at(stacked, which), np.maximum(start[which] - distance, 0.0)))

        return smallest(seen_below, POWER, 2 * stacked.noise), np.full_like(start, 2)

    return _known(of_filled(tables, lambda with_rows, _: _either_way(with_rows, asked), math.nan))


def _middle_bins(n: Floats, rate: Floats, filled: Bools) -> Ints:
    """The ``filled`` bin of each table whose hit rate has the median variance; shape (T,)."""
    variance = np.where(filled, rate * (1 - rate) / n, -1.0)  # empty bins come first
    held = filled.sum(axis=1)
    order = np.argsort(variance, axis=1, kind="stable")
    return np.asarray(order[np.arange(len(held)), filled.shape[1] - held + held // 2])


def mce_increase_detectables(merged: Sequence[Pair], *, rate: float) -> list[float | None]:
    """The smallest rises of the MCE that ``mce_increase_ps`` would see, if the bin of median variance rose.

    Thin bins are already merged.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> [round(found, 2) for found in mce_increase_detectables([(now, then)], rate=0.01)]
    [0.04]
    """
    return _known(of_filled(merged, lambda with_rows, _: _mce_rises(with_rows, rate), math.nan))


def _mce_rises(pairs: Sequence[Pair], rate: float) -> Floats:
    null = unchanged(pairs, PLANNED)
    row, moved = np.arange(len(pairs)), _middle_bins(null.n, null.rate, null.filled)
    score = null.score[row, moved]
    way, noise = farther(score), np.sqrt(null.rate * (1 - null.rate) / null.n).max(axis=1)
    critical = smallest(lambda change, which: 1 - each_at(null, which).chance(change), 1 - rate, noise / 2)

    def seen(rise: Floats, which: Ints) -> Floats:
        risen = each_at(null, which)
        hit_rate = score[which] + way[which] * (null.error[which] + rise)
        risen.rate[np.arange(len(which)), moved[which]] = np.minimum(np.maximum(hit_rate, 0.0), 1.0)
        return risen.chance(critical[which])

    return np.where(np.isnan(critical), np.nan, smallest(seen, POWER, noise / 2))


def mce_level_detectables(
    merged: Sequence[BinCounts], threshold: float, *, rate: float, side: Side = "above"
) -> list[float | None]:
    """The distances of the true MCE from ``threshold`` at which ``mce_level_ps`` is <= ``rate`` with ``power``.

    Thin bins are already merged. Above: the bin of median variance lies beyond the threshold and the others where they
    are (debiased, at most at the threshold). Below: all bins lie below it by that much. A largest gap moves in steps of
    one hit, 1/n of a bin: where two steps are closer than the search separates, the answer is for the larger one.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> rows = bin_counts(counts_from_rows([0.8] * 1000, [1] * 750 + [0] * 250), (10000,))
    >>> [round(found, 2) for found in mce_level_detectables([rows], 0.2, rate=0.01)]
    [0.05]
    """
    found = _above if side == "above" else _below
    rises = of_filled(merged, lambda with_rows, _: found(stack(with_rows), threshold, rate), math.nan)
    return _known(rises)


def _above(tables: GapTables, threshold: float, rate: float) -> Floats:
    """How far beyond the threshold one bin must lie, so that the largest gap is seen to be beyond it; (T,)."""
    filled, size, row = tables.share > 0, np.abs(tables.gap), np.arange(len(tables.n))
    # a bin whose gap has no room for the threshold in its own direction turns round
    room = np.where(tables.gap > 0, 1 - tables.score, tables.score)
    turned = (room < threshold) & (room < 0.5)
    tables = replace(tables, sign=np.where(turned, farther(tables.score), tables.sign))
    noise = 1 / np.sqrt(np.nanmedian(np.where(filled, tables.n, np.nan), axis=1))
    critical = smallest(
        lambda largest, which: 1 - p_above(each_at(tables, which), largest, threshold), 1 - rate, noise / 3
    )
    shrunk = size - (size.max(axis=1) - points(tables))[:, None]
    hit_rate = with_gaps(tables, np.minimum(np.maximum(0.0, shrunk), threshold))
    moved = _middle_bins(tables.n, hit_rate, filled)
    n, score = tables.n[row, moved], tables.score[row, moved]
    others = np.where(filled, stays_within(critical[:, None], tables.n, tables.score, hit_rate), 1.0)
    others[row, moved] = 1.0
    rest, way = others.prod(axis=1), farther(score)

    def seen(distance: Floats, which: Ints) -> Floats:
        risen = np.minimum(np.maximum(score[which] + way[which] * (threshold + distance), 0.0), 1.0)
        return np.asarray(1 - rest[which] * stays_within(critical[which], n[which], score[which], risen))

    return np.where(np.isnan(critical), np.nan, smallest(seen, POWER, noise / 3))


def _below(tables: GapTables, threshold: float, rate: float) -> Floats:
    """How far below the threshold all bins must lie, so that the largest gap is seen to be below it; (T,)."""
    filled = tables.share > 0
    noise = 1 / np.sqrt(np.nanmedian(np.where(filled, tables.n, np.nan), axis=1))
    # the largest "largest gap" whose p-value is still small: searched downwards from the threshold
    down = smallest(
        lambda step, which: 1 - p_below(each_at(tables, which), threshold - step, threshold), 1 - rate, noise / 2
    )

    def seen(distance: Floats, which: Ints) -> Floats:
        part = each_at(tables, which)
        hit_rate = with_gaps(part, np.maximum(threshold - distance, 0.0)[:, None])
        limit = (threshold - down[which] + 2e-9)[:, None]
        return np.asarray(np.where(filled[which], stays_within(limit, part.n, part.score, hit_rate), 1.0).prod(axis=1))

    found = smallest(seen, POWER, noise / 2)
    return np.where((down <= threshold) & (found <= threshold), found, np.nan)
