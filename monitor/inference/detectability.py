"""The smallest change that these rows could have shown: the numbers behind "not enough evidence".

A *detectable* change is the smallest one that this many rows, with these gaps, show with the given
power at the unadjusted ``rate``. None means that not even the largest possible change would be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr, ndtri

from monitor.core.counts import BinCounts, Bools, Floats, Ints
from monitor.inference.change import Side, at_errors, has_rows, p_above, p_below, same_errors
from monitor.inference.gaps import (
    ROUNDING,
    EceMoments,
    GapTables,
    at_walls,
    crossing,
    exact_moments,
    farther,
    hypothetical,
    position_of,
    realised,
    stack,
    start_of,
    tail,
    with_gaps,
)
from monitor.inference.maximum import bounds, points, stays_within
from monitor.inference.maximum_change import STEP, Nulls, Pair, each_unchanged, for_planning, together
from monitor.inference.search import scaled, smallest_of_each

_FAR = 10.0  # standard deviations: the search goes no further
_HALVINGS = 40  # of 20 standard deviations
_PRECISION = 1e-6  # of an ECE on a path, with room to spare
_NEAR = 1e-7  # standard errors: a change this close to the required power is close enough
_ROOT_TWO_PI = float(np.sqrt(2 * np.pi))

Limits = Sequence[float | None]
"""For each table the change (or distance) above which the answer may be None; None: no limit."""


def _numbers(found: Floats) -> list[float | None]:
    return [None if np.isnan(number) else number for number in found.tolist()]


def _values_at(at: EceMoments, probability: float) -> Floats:
    """The plug-in values x (or changes) with T(x) = ``probability``, of the moments of T tables."""
    sd = np.sqrt(at.variance)
    certain = sd < ROUNDING  # the only possible value has T = 1: a rarer one lies beyond it
    skew = at.third / np.where(certain, 1.0, sd) ** 3
    low, high = np.full(len(sd), -_FAR), np.full(len(sd), _FAR)  # T falls from low to high
    for _ in range(_HALVINGS):
        z = (low + high) / 2
        bell = np.exp(-z * z / 2) / _ROOT_TWO_PI
        short = ndtr(-z) + bell * skew * (z * z - 1) / 6 < probability
        low, high = np.where(short, low, z), np.where(short, z, high)
    beyond = np.copysign(4 * ROUNDING, 0.5 - probability)
    return np.asarray(at.mean + np.where(certain, beyond, sd * (low + high) / 2))


def _ece_paths(
    tables: GapTables,
    start: Floats,
    chance: Callable[[EceMoments, Ints], Floats],
    power: float,
    *,
    up: bool,
    within: Floats,
) -> Floats:
    """The smallest distances from the ECEs ``start`` along the shrunk paths that are seen with ``power``.

    ``chance(moments, which)`` is the power for the tables ``which``. NaN where even the end of a path is not seen,
    where these scores cannot have an ECE of ``start`` at all, or where the distance is known to exceed ``within``.
    """
    origin = position_of(tables, start)
    held = realised(tables, hypothetical(tables, origin)) >= start - _PRECISION
    end = np.ones(len(start)) if up else start_of(tables)

    def lead(part: Floats, which: Ints) -> Floats:
        some = tables.take(which)
        position = origin[which] + part * (end[which] - origin[which])
        return scaled(chance(exact_moments(some, hypothetical(some, position))[0], which)) - float(ndtri(power))

    left = np.flatnonzero(held)
    left = left[~_too_far(tables.take(left), left, start[left], chance, power, up, within[left])]
    left = left[lead(np.ones(len(left)), left) >= 0]
    stride = 2 * tables.noise[left] / np.maximum(np.abs(end[left] - origin[left]), ROUNDING)
    part = crossing(lambda at, which: lead(at, left[which]), np.zeros(len(left)), stride, near=_NEAR)
    some = tables.take(left)
    position = origin[left] + part * (end[left] - origin[left])
    found = np.full(len(start), np.nan)
    found[left] = np.abs(realised(some, hypothetical(some, position)) - start[left])
    return found


def _too_far(
    tables: GapTables,
    which: Ints,
    start: Floats,
    chance: Callable[[EceMoments, Ints], Floats],
    power: float,
    up: bool,
    within: Floats,
) -> Bools:
    """Whether a distance of ``within`` (NaN: no limit) is seen too rarely: the answer then exceeds it."""
    more = np.zeros(len(within), dtype=bool)
    limited = np.flatnonzero(~np.isnan(within))
    if limited.size:
        reach = within[limited] if up else -within[limited]
        end = np.maximum(start[limited] + reach, 0.0)
        at = at_errors(tables.take(limited), end[:, None])
        more[limited] = chance(at.of(lambda part: part[:, 0]), which[limited]) < power
    return more


def ece_increase_detectables(
    pairs: Sequence[Pair], *, rate: float, power: float = 0.8, confidence: float = 0.95, within: Limits
) -> list[float | None]:
    """The smallest rises of the ECE over the baseline's point that ``ece_increase_ps`` would see.

    x is the change in plug-in ECE that is exceeded with probability ``rate`` when both windows have
    the baseline's ECE e0; the answer is the smallest d for which a window with e0 + d exceeds x
    with probability ``power``. None also where d exceeds ``within``.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> [round(found, 2) for found in ece_increase_detectables([(now, then)], rate=0.01, within=[None])]
    [0.04]
    """
    found = np.full(len(pairs), np.nan)
    filled = [row for row, pair in enumerate(pairs) if has_rows(*pair)]
    if filled:
        then = [pairs[row][1] for row in filled]

        def asked(windows: Sequence[BinCounts], which: Ints) -> tuple[Floats, Floats]:
            with_rows = [(window, then[at]) for window, at in zip(windows, which.tolist(), strict=True)]
            return _rises(with_rows, rate, power, confidence, limits[which])

        limits = np.array(within, dtype=np.float64)[filled]  # None is NaN
        found[filled] = _either_way([pairs[row][0] for row in filled], limits, asked)
    return _numbers(found)


def _rises(
    pairs: Sequence[Pair], rate: float, power: float, confidence: float, within: Floats
) -> tuple[Floats, Floats]:
    """:func:`ece_increase_detectables` in the observed directions, and the ECEs from which they rise."""
    same = same_errors(pairs, confidence)
    then, now = (_of_points([each.then for each in same]), _of_points([each.now for each in same]))
    critical, start = _values_at(now - then, rate), np.array([float(each.error[1]) for each in same])

    def chance(at: EceMoments, which: Ints) -> Floats:
        return tail(critical[which], at - then.of(lambda part: part[which]))

    return _ece_paths(stack([now for now, _ in pairs]), start, chance, power, up=True, within=within), start


def _either_way(
    windows: Sequence[BinCounts],
    within: Floats,
    asked: Callable[[Sequence[BinCounts], Ints], tuple[Floats, Floats]],
) -> Floats:
    """What ``asked`` finds for some windows, (T,): in the observed directions, or where these have no room, in others.

    ``asked(windows, which)`` gives distances and the ECEs where these begin. A window of nearly all hits (or misses)
    has little room in the direction of its gaps: a hit rate of 1 ends it. No change would be seen there, although one
    in the other direction would.
    """
    every = np.arange(len(windows))
    found, start = asked(windows, every)
    most, tables = np.where(np.isnan(within), 1.0, start + within), stack(windows)
    walls = at_walls(tables)
    unseen = np.isnan(found) & (walls < most)
    at_the_end = start + found >= walls - _PRECISION
    again = np.flatnonzero(unseen | at_the_end)
    if again.size:
        mirrored = [with_room(windows[row], float(most[row])) for row in again.tolist()]
        found[again] = asked(mirrored, again)[0]
    return found


def with_room(bins: BinCounts, needed: float) -> BinCounts:
    """The bins with the gaps of those turned round that have no room for a gap of ``needed`` in their direction.

    A gap is mirrored at the mean score, so that it keeps its size and points to the farther one of 0 and 1.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> with_room(bin_counts(counts_from_rows([0.9] * 10, [1] * 10), (10000,)), 0.2).rate.round(6).tolist()
    [0.8]
    """
    room = np.where(bins.wy > bins.ws, bins.w - bins.ws, bins.ws)
    stuck = (room < needed * bins.w) & (room < bins.w - room)
    return replace(bins, wy=np.where(stuck, 2 * bins.ws - bins.wy, bins.wy))


def _of_points(parts: Sequence[EceMoments]) -> EceMoments:
    """The moments at each baseline's point (index 1 of lower limit, point and upper limit)."""
    return EceMoments(*(np.array([getattr(at, name)[1] for at in parts]) for name in ("mean", "variance", "third")))


def ece_level_detectables(
    tables: Sequence[BinCounts],
    threshold: float,
    *,
    rate: float,
    power: float = 0.8,
    side: Side = "above",
    within: Limits,
) -> list[float | None]:
    """The distances of the true ECE from ``threshold`` at which ``ece_level_ps`` is <= ``rate`` with ``power``.

    None also where the distance exceeds ``within``.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> rows = bin_counts(counts_from_rows([0.8] * 1000, [1] * 750 + [0] * 250), (10000,))
    >>> [round(found, 2) for found in ece_level_detectables([rows], 0.08, rate=0.01, within=[None])]
    [0.05]
    """
    found = np.full(len(tables), np.nan)
    filled = [row for row, bins in enumerate(tables) if has_rows(bins)]
    if filled:
        limits = np.array(within, dtype=np.float64)[filled]  # None is NaN
        with_rows = [tables[row] for row in filled]

        def asked(windows: Sequence[BinCounts], which: Ints) -> tuple[Floats, Floats]:
            return _beyond(stack(windows), threshold, rate, power, side, limits[which])

        down = side == "below"
        found[filled] = asked(with_rows, np.arange(len(filled)))[0] if down else _either_way(with_rows, limits, asked)
    return _numbers(found)


def _beyond(
    tables: GapTables, threshold: float, rate: float, power: float, side: Side, within: Floats
) -> tuple[Floats, Floats]:
    """:func:`ece_level_detectables` in the observed directions, and the thresholds."""
    start, above = np.full(len(tables.n), threshold), side == "above"
    at = at_errors(tables, start[:, None])
    critical = _values_at(at.of(lambda part: part[:, 0]), rate if above else 1 - rate)

    def chance(moved: EceMoments, which: Ints) -> Floats:
        reached = tail(critical[which], moved)
        return reached if above else 1 - reached

    return _ece_paths(tables, start, chance, power, up=above, within=within), start


def _middle_bins(n: Floats, rate: Floats, filled: Bools) -> Ints:
    """The ``filled`` bin of each table whose hit rate has the median variance, shapes (T, M)."""
    variance = np.where(filled, rate * (1 - rate) / n, -1.0)  # empty bins come first
    held = filled.sum(axis=1)
    order = np.argsort(variance, axis=1, kind="stable")
    return np.asarray(order[np.arange(len(n)), n.shape[1] - held + held // 2])


def mce_increase_detectables(
    merged: Sequence[Pair], *, rate: float, power: float = 0.8, within: Limits
) -> list[float | None]:
    """The smallest rises of the MCE that ``mce_increase_ps`` would see, if the bin of median variance rose.

    Thin bins are already merged. None also where the rise is known to exceed ``within``. An answer is never too small,
    and too large by less than 1e-4, except where two steps of the p-value are closer than 1e-7.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 10000, [1] * 8000 + [0] * 2000), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 800 + [0] * 200), (10000,))
    >>> [round(found, 2) for found in mce_increase_detectables([(now, then)], rate=0.01, within=[None])]
    [0.04]
    """
    found = np.full(len(merged), np.nan)
    filled = [row for row, (now, then) in enumerate(merged) if ((now.w > 0) & (then.w > 0)).any()]
    if filled:
        nulls = [for_planning(null, rate) for null in each_unchanged([merged[row] for row in filled])]
        limits = np.array(within, dtype=np.float64)[filled]  # None is NaN
        found[filled] = _Rising.of(together(nulls)).detectable(rate, power, limits)
    return _numbers(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Rising:
    """Pairs of windows in which one bin, ``moved`` (T,), may get worse in the direction ``way``, up to ``room``."""

    null: Nulls
    moved: Ints
    way: Floats
    room: Floats

    @classmethod
    def of(cls, null: Nulls) -> _Rising:
        moved = _middle_bins(null.n, null.rate, null.filled)
        score = null.score[np.arange(len(moved)), moved]
        return cls(null, moved, farther(score), np.maximum(score, 1 - score))

    def detectable(self, rate: float, power: float, within: Floats) -> Floats:
        """The smallest rises that are seen, (T,); NaN where there is none, or where it exceeds ``within``."""
        null, noise = self.null, self.null.noise
        left = np.flatnonzero(~self._known_unseen(rate, power, within))
        found = np.full(len(noise), np.nan)
        if not left.size:
            return found
        critical = null.critical(rate, 2.2 * noise[left], left)
        left, critical = left[~np.isnan(critical)], critical[~np.isnan(critical)]
        seen = self._power(critical, left)
        rows, moved = null.n[left, self.moved[left]], null.rate[left, self.moved[left]]
        sd = np.sqrt(moved * (1 - moved) / rows)
        guess = critical + (null.mass[left] * null.middle[left]).sum(axis=1) + 0.6 * sd - null.error[left]
        found[left] = smallest_of_each(seen, power, (self.room - null.error)[left], guess, sd)
        return found

    def _power(self, change: Floats, pairs: Ints) -> Callable[[Floats, Ints], Floats]:
        """The probability of a ``change`` or more in ``pairs``, as a function of (rise, which of these pairs)."""
        null, row = self.null, np.arange(len(pairs))
        within = 1 - null.beyond(change, pairs)
        within[row, :, self.moved[pairs]] = 1.0
        rest = within.prod(axis=2)
        bins = pairs, self.moved[pairs]
        ready = bounds(change[:, None] + null.middle[pairs], null.n[bins][:, None], null.score[bins][:, None])

        def power(rise: Floats, which: Ints) -> Floats:
            chosen = pairs[which]
            # the hit rate of the bin that moves: its gap is the common one plus ``rise``
            rate = null.score[chosen, self.moved[chosen]] + self.way[chosen] * (null.error[chosen] + rise)
            in_moved = ready.take(which).chance(np.minimum(np.maximum(rate, 0.0), 1.0)[:, None])
            return null.chance(rest[which] * in_moved, chosen)

        return power

    def _known_unseen(self, rate: float, power: float, within: Floats) -> Bools:
        """Whether a rise of ``within`` (NaN: no limit) is known to be seen with less than ``power``; False: not known.

        The larger the critical change, the lower the power. If the power is too low for a change whose p-value is still
        above ``rate``, the critical change need not be searched.
        """
        null = self.null
        unseen = np.zeros(len(within), dtype=bool)
        left = np.flatnonzero(~np.isnan(within))
        noise = null.noise
        change = 1.9 * noise
        for _ in range(2):
            short = float(scaled(np.array(1 - rate))) - scaled(1 - null.reached(change[left], left))
            left, short = left[short > 0], short[short > 0]
            if not left.size:
                break
            few = self._power(change[left], left)(within[left], np.arange(len(left))) < power
            unseen[left[few]] = True
            left, short = left[~few], short[~few]
            change[left] += 0.7 * short * noise[left]  # less than is missing: it stays too small
        return unseen


def mce_level_detectables(
    merged: Sequence[BinCounts], threshold: float, *, rate: float, power: float = 0.8, side: Side = "above"
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
    found = np.full(len(merged), np.nan)
    filled = [row for row, bins in enumerate(merged) if has_rows(bins)]
    if filled:
        with_rows = [merged[row] for row in filled]
        if side == "above":
            found[filled] = _above(stack([with_room(bins, threshold) for bins in with_rows]), threshold, rate, power)
        else:
            found[filled] = _below(stack(with_rows), threshold, rate, power)
    return _numbers(found)


def _above(tables: GapTables, threshold: float, rate: float, power: float) -> Floats:
    filled = tables.share > 0
    noise = 1 / np.sqrt(np.nanmedian(np.where(filled, tables.n, np.nan), axis=1))
    critical = smallest_of_each(
        lambda largest, which: 1 - p_above(tables.take(which), largest, threshold),
        1 - rate,
        np.ones(len(noise)),
        threshold + 1.2 * noise,
        noise / 3,
        near=STEP,
    )
    found = np.full(len(noise), np.nan)
    left = np.flatnonzero(~np.isnan(critical))
    if left.size:
        found[left] = _seen_above(tables.take(left), critical[left], threshold, power)
    return found


def _seen_above(tables: GapTables, critical: Floats, threshold: float, power: float) -> Floats:
    """How far beyond the threshold one bin of each table must lie for a largest gap of ``critical``, (T,)."""
    filled, size, row = tables.share > 0, np.abs(tables.gap), np.arange(len(critical))
    shrunk = size - (size.max(axis=1) - points(tables))[:, None]
    hit_rate = with_gaps(tables, np.minimum(np.maximum(0.0, shrunk), threshold))
    moved = _middle_bins(tables.n, hit_rate, filled)
    n, score = tables.n[row, moved], tables.score[row, moved]
    way, room = farther(score), np.maximum(score, 1 - score)
    others = np.where(filled, stays_within(critical[:, None], tables.n, tables.score, hit_rate), 1.0)
    others[row, moved] = 1.0
    rest, ready = others.prod(axis=1), bounds(critical, n, score)

    def seen(distance: Floats, which: Ints) -> Floats:
        risen = np.minimum(np.maximum(score[which] + way[which] * (threshold + distance), 0.0), 1.0)
        return np.asarray(1 - rest[which] * ready.take(which).chance(risen))

    sd = 0.4 / np.sqrt(n)
    return smallest_of_each(seen, power, room - threshold, critical - threshold + sd, sd)


def _below(tables: GapTables, threshold: float, rate: float, power: float) -> Floats:
    filled, size = tables.share > 0, len(tables.n)
    noise = 1 / np.sqrt(np.nanmedian(np.where(filled, tables.n, np.nan), axis=1))
    most = np.full(size, threshold)
    # the largest "largest gap" whose p-value is still small: searched downwards from the threshold
    down = smallest_of_each(
        lambda step, which: 1 - p_below(tables.take(which), threshold - step, threshold),
        1 - rate,
        most,
        noise,
        noise / 2,
    )

    def seen(distance: Floats, which: Ints) -> Floats:
        part = tables.take(which)
        hit_rate = with_gaps(part, threshold - distance[:, None])
        limit = (threshold - down[which] + 2e-9)[:, None]
        return np.asarray(np.where(filled[which], stays_within(limit, part.n, part.score, hit_rate), 1.0).prod(axis=1))

    left = np.flatnonzero(~np.isnan(down))
    found = np.full(size, np.nan)
    found[left] = smallest_of_each(
        lambda distance, which: seen(distance, left[which]), power, most[left], (down + noise)[left], noise[left] / 2
    )
    return found
