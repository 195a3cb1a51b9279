"""Has the calibration error grown since the baseline, or passed a level? One-sided p-values.

The raw rule "E1 - E0 > threshold" fires in more than half of all unchanged weeks at 500 rows, because the
plug-in error is biased by the number of rows. Here the change is compared with what two windows
with the *same* true error would show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, TypeVar

import numpy as np
import numpy.typing as npt

from monitor.core.counts import BinCounts, Floats
from monitor.core.records import Interval
from monitor.inference.bins import pool_bins
from monitor.inference.gaps import (
    ROUNDING,
    ConcentratedGaps,
    EceMoments,
    GapTables,
    analytic_limits,
    at_walls,
    away_from_walls,
    each_at,
    exact_moments,
    farther,
    floor_of_upper,
    hypothetical,
    position_of,
    stack,
    tail,
)
from monitor.inference.intervals import MceInterval, mce_intervals
from monitor.inference.maximum import Pair, stays_within, unchanged
from monitor.inference.memory import each_by_content

Side = Literal["above", "below"]
LEAST_P = 1e-10  # of a rise of the MCE; a bound on rounding


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


SHIFTS = np.linspace(-5.0, 5.0, 21)
LIKELY = np.exp(-(SHIFTS**2) / 2) / np.exp(-(SHIFTS**2) / 2).sum()
"""Normal shifts of a week in standard deviations, (K,), and their weights: the trapezoidal rule over a normal one."""
T = TypeVar("T", BinCounts, Pair)


def of_filled(tables: Sequence[T], found: Callable[[list[T], list[int]], Floats], otherwise: float) -> list[float]:
    """What is ``found`` of those tables (or pairs) that have rows, by their places; ``otherwise`` for the others."""
    answers = np.full(len(tables), otherwise)
    places = [place for place, one in enumerate(tables) if _has_rows(*(one if isinstance(one, tuple) else (one,)))]
    if places:
        answers[places] = found([tables[place] for place in places], places)
    return answers.tolist()


def _has_rows(*tables: BinCounts) -> bool:
    return all((table.w > 0).any() for table in tables)


def ece_increase_ps(
    pairs: Sequence[Pair], *, confidence: float = 0.95, between: Sequence[float] | None = None
) -> list[float]:
    """The p-values for "the true ECE is larger in the window than in its baseline" (same edges); 1 without rows.

    Each is the largest of three: the probability of a change in plug-in ECE at least as large as the observed one if
    both windows had the true ECE e, each with its own gaps moved until sum w g = e, where e is the baseline's lower
    limit, point or upper limit. It detects a rise that comes from traffic moving to where the model was always wrong.

    ``between`` says for each pair how much weeks differ: in the window the hit rate p of every bin has moved by the
    same normal error times sqrt(between p (1 - p)), which is integrated out. An ECE is never below 0, so that such a
    week has a larger one on average, and much larger ones sometimes, whatever the direction of the move.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> then = bin_counts(counts_from_rows([0.8] * 2000, [1] * 1600 + [0] * 400), (10000,))
    >>> now = bin_counts(counts_from_rows([0.8] * 1000, [1] * 700 + [0] * 300), (10000,))
    >>> [p < 0.0001 for p in ece_increase_ps([(now, then), (then, now)])]
    [True, False]
    >>> [p < 0.0001 for p in ece_increase_ps([(now, then)], between=[0.05])]
    [False]
    """
    known = [0.0] * len(pairs) if between is None else between

    def p_values(with_rows: Sequence[Pair], places: Sequence[int]) -> Floats:
        same = same_errors([(*pair, known[place]) for pair, place in zip(with_rows, places, strict=True)], confidence)
        return np.array([chance(one.change, one.now - one.then).max() for one in same])

    return of_filled(pairs, p_values, 1.0)


def chance(change: npt.ArrayLike, at: EceMoments) -> Floats:
    """The probability of at least this change, (...,), by its moments at each of the shifts of a week, (..., K)."""
    return np.asarray(tail(np.asarray(change)[..., None], at) @ LIKELY)


def ece_rate_p(window: BinCounts, baseline: BinCounts, *, confidence: float = 0.95) -> float:
    """The p-value for a larger ECE in the window than in its baseline, of changed behaviour only; 1 without rows.

    As :func:`ece_increase_ps`, but if both windows had the gaps of their pooled rows, so that a change of traffic is
    not detected.
    """
    if not _has_rows(window, baseline):
        return 1.0
    pooled = pool_bins([baseline, window])
    (error,) = _each_limits([(pooled,)], confidence)
    tables = stack([baseline, window, pooled])
    then, now, both = (each_at(tables, np.full(len(error), row)) for row in range(3))
    # each with the gaps of the pooled rows, moved until those have the lower limit, point and upper limit of their ECE
    gap = hypothetical(both, position_of(both, error)) - both.score
    at_now, at_then = (exact_moments(table, np.clip(table.score + gap, 0, 1))[0] for table in (now, then))
    return float(tail(float(tables.plug_in[1] - tables.plug_in[0]), at_now - at_then).max())


@each_by_content
def _each_limits(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[Floats]:
    """(low, point, high) of the ECE of each table by the analytic form, shape (3,)."""
    return list(np.stack(analytic_limits(stack([table for (table,) in tables]), confidence), axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class SameError:
    """Two windows under the same true ECE: each of ``error`` (3,), the baseline's lower limit, point and upper limit.

    ``change`` is the observed change in plug-in ECE; ``then`` (3, 1) and ``now`` (3, K) are the moments of the plug-in
    ECE of baseline and window, of the window at each shift of its week.
    """

    error: Floats
    change: float
    then: EceMoments
    now: EceMoments


@each_by_content
def same_errors(pairs: Sequence[tuple[BinCounts, BinCounts, float]], confidence: float) -> list[SameError]:
    """Each pair of tables if both had the baseline's ECE, each with its own gaps; all tables must have rows.

    The third of a pair is how much weeks differ (``between`` of :func:`ece_increase_ps`).
    """
    baselines = [(baseline,) for _, baseline, _ in pairs]
    limits, then = _each_limits(baselines, confidence), _each_at_limits(baselines, confidence)
    windows, between = stack([window for window, _, _ in pairs]), np.array([each for _, _, each in pairs])
    now = at_errors(windows, np.stack(limits), between)
    change = windows.plug_in - stack([baseline for _, baseline, _ in pairs]).plug_in
    each = zip(limits, change.tolist(), then, _rows(now), strict=True)
    return [SameError(*one) for one in each]


@each_by_content
def _each_at_limits(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[EceMoments]:
    """Moments of each table's plug-in ECE if its true one were its own lower limit, point or upper limit; (3, 1)."""
    limits = np.stack(_each_limits(tables, confidence))
    at = at_errors(stack([table for (table,) in tables]), limits, np.zeros(len(tables)))
    return _rows(at.of(lambda part: part[..., :1]))


def _rows(at: EceMoments) -> list[EceMoments]:
    return [EceMoments(*each) for each in zip(at.mean, at.variance, at.third, strict=True)]


def at_errors(tables: GapTables, error: Floats, between: Floats) -> EceMoments:
    """Moments of each table's plug-in ECE if its true ECE were each of ``error`` (T, E): shape (T, E, K).

    They are at each shift of a week, where weeks differ by ``between`` (T,). Where the gaps have no room for that ECE
    in their own directions, it is one in the others.
    """
    repeated = each_at(tables, np.repeat(np.arange(len(error)), error.shape[1]))
    turned = (at_walls(repeated) < error.ravel() - ROUNDING)[:, None]
    repeated = replace(repeated, sign=np.where(turned, farther(repeated.score), repeated.sign))
    rate = hypothetical(repeated, position_of(repeated, error.ravel()))
    by = np.repeat(between, error.shape[1])[:, None]
    place = np.arange(by.size * len(SHIFTS)).reshape(-1, len(SHIFTS))
    # weeks that do not differ are computed once
    needed, back = np.unique(np.where(by > 0, place, place[:, :1]), return_inverse=True)
    row, shift = np.divmod(needed, len(SHIFTS))
    moved = rate[row] + SHIFTS[shift, None] * np.sqrt(by[row] * rate[row] * (1 - rate[row]))
    found = exact_moments(each_at(repeated, row), np.clip(moved, 0.0, 1.0))[0]
    return found.of(lambda part: part[back].reshape(*error.shape, len(SHIFTS)))


def mce_increase_ps(pairs: Sequence[Pair]) -> list[float]:
    """The p-values for "the true MCE is larger in the window than in its baseline"; 1 without rows.

    Thin bins are already merged, on both together. A p-value is the probability of a change in plug-in MCE at least as
    large as the observed one if both windows had the debiased gaps of their pooled rows (:func:`unchanged`),
    each with its own scores and numbers of rows. It is never below 1e-10, which covers rounding.
    """

    def p_values(with_rows: Sequence[Pair], _: Sequence[int]) -> Floats:
        now, then = (np.abs(stack(tables).gap).max(axis=1, initial=0.0) for tables in zip(*with_rows, strict=True))
        return np.maximum(unchanged(with_rows).chance(now - then), LEAST_P)

    return of_filled(pairs, p_values, 1.0)


@each_by_content
def intervals_of_mce(tables: Sequence[tuple[BinCounts]], confidence: float) -> list[MceInterval]:
    """The MCE of each table, kept for other rules on the same bins and, for a baseline, for other weeks."""
    return mce_intervals([table for (table,) in tables], confidence=confidence)


def ece_level_ps(tables: Sequence[BinCounts], threshold: float, *, side: Side = "above") -> list[float]:
    """The p-values for "the true ECE is above (below) ``threshold``"; 1 without rows.

    A p-value is the probability of the observed ECE, or one further beyond, if the true ECE is the
    threshold: T(threshold) with least favourable gaps, or 1 - T on the paths of the upper limit.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> ece_level_ps([off], 0.1)[0] < 0.001, ece_level_ps([off], 0.3)[0] > 0.999
    (True, True)
    """

    def p_values(with_rows: Sequence[BinCounts], _: Sequence[int]) -> Floats:
        stacked = stack(with_rows)
        if side == "below":
            return _ece_below(stacked, threshold)
        at, tie = at_level(stacked, threshold)
        return tail(stacked.plug_in - tie, at)

    return of_filled(tables, p_values, 1.0)


def at_level(tables: GapTables, threshold: float) -> tuple[EceMoments, Floats]:
    """Moments of the plug-in ECE, and the size of a tie, (T,), if the true one were hardly above ``threshold``."""
    gaps = ConcentratedGaps(*(getattr(tables, each.name) for each in fields(tables)))
    rate = hypothetical(gaps, position_of(gaps, np.full(len(tables.n), threshold)))
    at, tie = exact_moments(tables, rate)
    # where bins have the shares of a sample, which matter with few gaps
    off = np.abs(rate - tables.score)
    apart = off - (tables.share * off).sum(axis=1, keepdims=True)
    rows = np.where(tables.share > 0, tables.n, 0.0).sum(axis=1)
    second, third = ((tables.share * apart**k).sum(axis=1) / rows ** (k - 1) for k in (2, 3))
    return EceMoments(at.mean, at.variance + second, at.third + third), tie


def _ece_below(tables: GapTables, threshold: float) -> Floats:
    """The larger one of the p-values along the two paths of the upper limit, shape (T,)."""
    size, observed = len(tables.n), floor_of_upper(tables)
    both = each_at(away_from_walls(tables, observed), np.tile(np.arange(size), 2))
    uniform = np.repeat([False, True], size)
    position = position_of(both, np.full(2 * size, threshold), uniform)
    at, tie = exact_moments(both, hypothetical(both, position, uniform))
    met = np.tile(observed <= tables.plug_in, 2)  # the floor of the upper limit is not a possible value
    chance = 1 - tail(np.tile(observed, 2) + tie * met, at, strict=True)
    return np.asarray(chance.reshape(2, size).max(axis=0))


def mce_level_ps(merged: Sequence[BinCounts], threshold: float, *, side: Side = "above") -> list[float]:
    """The p-values for "the true MCE is above (below) ``threshold``", on merged bins; 1 without rows.

    Above: the probability of the observed largest gap if *every* bin had a gap of the threshold. Below:
    the largest probability, over the bins, of a gap no larger than the observed largest one.

    >>> from monitor.core.counts import bin_counts, counts_from_rows
    >>> off = bin_counts(counts_from_rows([0.8] * 1000, [1] * 600 + [0] * 400), (10000,))
    >>> mce_level_ps([off], 0.1)[0] < 0.001, mce_level_ps([off], 0.25, side="below")[0] < 0.001
    (True, True)
    """

    def p_values(with_rows: Sequence[BinCounts], _: Sequence[int]) -> Floats:
        tables = stack(with_rows)
        return (p_above if side == "above" else p_below)(tables, np.abs(tables.gap).max(axis=1, initial=0.0), threshold)

    return of_filled(merged, p_values, 1.0)


def p_above(tables: GapTables, largest: Floats, threshold: float) -> Floats:
    """P(plug-in MCE >= ``largest``) if every bin had a gap of ``threshold`` in the observed direction; shape (T,)."""
    rate = np.clip(tables.score + tables.sign * threshold, 0.0, 1.0)
    within = stays_within(largest[:, None], tables.n, tables.score, rate)
    return np.asarray(1 - np.where(tables.share > 0, within, 1.0).prod(axis=1))


def p_below(tables: GapTables, largest: Floats, threshold: float) -> Floats:
    """The largest P(gap <= largest) of any bin of a table with a gap of ``threshold``, either way; shape (T,).

    It holds for any bin with that gap. 1 where no bin could have it.
    """
    found = np.full(len(largest), -1.0)
    for way in (-threshold, threshold):
        rate = tables.score + way
        fits = (tables.share > 0) & (rate >= 0) & (rate <= 1)
        chance = stays_within(largest[:, None] + 2e-9, tables.n, tables.score, np.clip(rate, 0.0, 1.0))
        found = np.maximum(found, np.where(fits, chance, -1.0).max(axis=1, initial=-1.0))
    return np.where(found < 0, 1.0, found)
