"""Calibration gaps of many tables at once: the arithmetic behind every statement about the ECE.

A *table* is the bins of one subject. Bin m has n_m independent rows, mean score c_m, hit rate y_m,
gap d = y - c and a share w of the rows; the plug-in ECE is E = sum w|d|. A statement about the true
ECE e asks "if it were e, would we see what we saw?" for hypothetical gaps with sum w g = e, on two
paths with a position x:

* the *shrunk* path (A): g = max(0, |d| + k x), the observed gaps shrunk, each at its own pace k (where
  x is positive, all are increased by x);
* the *uniform* path (B): g = x, the same gap in every bin.

A bin whose gap is only noise has no true gap, and there the bias of |d| is largest. If it were kept as a
gap in the hypothesis, the plug-in ECE would look less biased than it is. So noise is removed first:
k is in proportion to min(1, 2s / |d|), with s the standard error of a hit rate midway between y and c.
Gaps below two standard errors are moved alike (soft thresholding); a gap far beyond loses only about
4s^2 / |d| while the largest noise vanishes (the non-negative garrote, Breiman 1995).

The hypothetical hit rate is p = clip(c + sign(d) g, 0, 1); e is sum w g after this clipping.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.special import erf, ndtr

from monitor.core.counts import BinCounts, Bools, Floats, Ints
from monitor.inference.binomial import absolute_moments
from monitor.inference.search import crossing, scaled

ROUNDING = 1e-9  # a gap below this is rounding of sums, not a gap
EXACT_BELOW = 50.0  # the variance n p (1 - p) of a bin's hits below which no expansion is used

_CLEAR = 2.0  # standard errors: a larger gap is hardly noise

_ROOT_TWO_OVER_PI = np.sqrt(2 / np.pi)
_ROOT_TWO_PI = np.sqrt(2 * np.pi)


R = TypeVar("R")


def each_at(record: R, rows: npt.ArrayLike) -> R:
    """The record with these indices of the first axis of all of its arrays, in this order; an index may repeat."""
    whole: Any = record
    index, parts = np.asarray(rows), (getattr(whole, each.name) for each in fields(whole))
    taken: R = type(whole)(*(part[index] if isinstance(part, np.ndarray) else each_at(part, index) for part in parts))
    return taken


@dataclass(frozen=True, slots=True, eq=False)
class GapTables:
    """T tables of M bins; every array has shape (T, M), empty and padded bins have ``share`` 0.

    ``n`` is the number of independent rows (may be fractional, 1 where empty), ``gap`` the signed
    d = y - c, ``sign`` its direction; where d = 0, the direction to the farther end of [0, 1].
    """

    n: Floats
    score: Floats
    gap: Floats
    share: Floats
    sign: Floats

    @property
    def plug_in(self) -> Floats:
        """The textbook ECE of each table, shape (T,)."""
        return np.asarray((self.share * np.abs(self.gap)).sum(axis=1))

    @property
    def noise(self) -> Floats:
        """The largest standard deviation that sum w y can have, sqrt(sum w^2 / 4n), shape (T,)."""
        return np.asarray(np.sqrt((self.share**2 / (4 * self.n)).sum(axis=1)))

    @property
    def pace(self) -> Floats:
        """How fast each gap shrinks along the shrunk path, shape (T, M): at first, a step of x lowers the ECE by x.

        In proportion to min(1, 2s / |d|), with s^2 = r (1 - r) / n and r = (c + y) / 2, which is not 0
        or 1 where there is a gap.
        """
        size, rate = np.abs(self.gap), self.score + self.gap / 2
        noise = _CLEAR * np.sqrt(np.maximum(rate * (1 - rate), 0.0) / self.n)
        pace = np.divide(noise, size, out=np.ones_like(size), where=size > np.maximum(noise, ROUNDING))
        total = (self.share * pace).sum(axis=1, keepdims=True)
        return np.asarray(pace / np.where(total > 0, total, 1.0))

    @classmethod
    def joined(cls, parts: Sequence[GapTables]) -> GapTables:
        """The tables of all parts, one part after the other."""
        return cls(*(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls)))

    def filled(self) -> GapTables:
        """The first table without its empty bins."""
        held = self.share[0] > 0
        return GapTables(*(getattr(self, field.name)[:, held] for field in fields(self)))


class ConcentratedGaps(GapTables):
    """Tables whose noise shrinks first: the least favourable of the likely gaps with a given ECE.

    The fewer bins have a gap, the more noise the others add to the plug-in ECE, since |d| is never below 0.
    """

    __slots__ = ()

    @property
    def pace(self) -> Floats:
        """The usual pace to the third power, (T, M): a gap of four standard errors is an eighth as fast as noise."""
        cube = super().pace ** 3
        return np.asarray(cube / (self.share * cube).sum(axis=1, keepdims=True))


@dataclass(frozen=True, slots=True, eq=False)
class EceMoments:
    """Mean, variance and third central moment of the plug-in ECE, each of shape (T,)."""

    mean: Floats
    variance: Floats
    third: Floats

    def __sub__(self, other: EceMoments) -> EceMoments:
        """The moments of the difference of two independent plug-in ECEs."""
        return EceMoments(self.mean - other.mean, self.variance + other.variance, self.third - other.third)

    def of(self, change: Callable[[Floats], Floats]) -> EceMoments:
        """The moments with ``change`` applied to each array, which reshapes it or takes a part."""
        return EceMoments(change(self.mean), change(self.variance), change(self.third))


def farther(score: Floats) -> Floats:
    """The direction in which a gap has the most room. Shape as ``score``."""
    return np.where(score < 0.5, 1.0, -1.0)


def stack(tables: Sequence[BinCounts], *, inside: bool = False) -> GapTables:
    """Bin m of every table in column m; shorter tables are padded with empty bins.

    With ``inside`` bins have the effective rows of each by itself: right for a mean of gaps, but not for its noise.
    """
    width = max((len(table.n) for table in tables), default=0)
    w, ws, wy, n_eff = np.zeros((4, len(tables), width))
    for row, table in enumerate(tables):
        bins = len(table.n)
        w[row, :bins], ws[row, :bins], wy[row, :bins] = table.w, table.ws, table.wy
        n_eff[row, :bins] = table.inside if inside else table.n_eff
    filled = (w > 0) & (n_eff > 0)
    weight = np.where(filled, w, 1.0)
    score = np.where(filled, np.clip(ws / weight, 0, 1), 0.0)
    gap = np.where(filled, np.clip(wy / weight, 0, 1) - score, 0.0)
    total = np.where(filled, w, 0.0).sum(axis=1, keepdims=True)
    share = np.divide(w, total, out=np.zeros_like(w), where=filled)
    sign = np.where(np.abs(gap) < ROUNDING, farther(score), np.sign(gap))
    return GapTables(np.where(filled, n_eff, 1.0), score, gap, share, sign)


def hypothetical(tables: GapTables, position: Floats, uniform: Bools | bool = False) -> Floats:
    """The hit rates p at these positions (T,) of the shrunk path, or of the uniform one; (T, M)."""
    moved = position[:, None]
    gap = np.maximum(np.abs(tables.gap) + moved * np.where(moved < 0, tables.pace, 1.0), 0.0)
    if np.any(uniform):
        gap = np.where(np.asarray(uniform).reshape(-1, 1), moved, gap)
    return with_gaps(tables, gap)


def with_gaps(tables: GapTables, gap: Floats) -> Floats:
    """The hit rates with gaps of these sizes (T, M), clipped to [0, 1]; (T, M)."""
    return np.asarray(np.minimum(np.maximum(tables.score + tables.sign * gap, 0.0), 1.0))


def realised(tables: GapTables, rate: Floats) -> Floats:
    """The ECE if these were the hit rates (T, M): sum w |p - c|, shape (T,)."""
    return np.asarray((tables.share * np.abs(rate - tables.score)).sum(axis=1))


def start_of(tables: GapTables, uniform: Bools | bool = False) -> Floats:
    """The position at which a path has e = 0, shape (T,)."""
    longest = (np.abs(tables.gap) / tables.pace).max(axis=1, initial=0.0)
    return np.where(np.broadcast_to(uniform, longest.shape), 0.0, -longest)


def position_of(tables: GapTables, error: Floats, uniform: Bools | bool = False) -> Floats:
    """The position on a path at which the ECE is ``error`` (T,); the end of the path, 1, where none has it.

    The ECE is piecewise linear along a path: each bin's gap starts to grow at one position and stops at
    its wall, a hit rate of 0 or 1, at another. No wall is reached before 0. At 0 the paces of the shrunk
    path change without a corner: all gaps grow there, and their shares times paces add up to 1 as the
    shares do.
    """
    alike = np.broadcast_to(uniform, error.shape)[:, None]
    size, pace = np.where(alike, 0.0, np.abs(tables.gap)), np.where(alike, 1.0, tables.pace)
    room = np.where(tables.sign > 0, 1 - tables.score, tables.score) - size
    corner = np.concatenate([-size / pace, np.maximum(room, 0.0)], axis=1)
    slope = np.concatenate([tables.share * pace, -tables.share], axis=1)
    order = np.argsort(corner, axis=1, kind="stable")
    corner = np.take_along_axis(corner, order, axis=1)
    slope = np.cumsum(np.take_along_axis(slope, order, axis=1), axis=1)
    height = np.zeros_like(corner)
    np.cumsum(slope[:, :-1] * np.diff(corner, axis=1), axis=1, out=height[:, 1:])
    reached = height >= error[:, None]
    after = np.maximum(reached.argmax(axis=1), 1)
    row = np.arange(len(error))
    before = after - 1
    steep = np.maximum(slope[row, before], 1e-300)
    found = corner[row, before] + (error - height[row, before]) / steep
    start = start_of(tables, uniform)
    return np.where(reached.any(axis=1), np.where(error <= 0, start, np.clip(found, start, 1.0)), 1.0)


def moments(tables: GapTables, rate: Floats) -> EceMoments:
    """Moments of the plug-in ECE if the hit rates were ``rate`` (T, M), each bin's rate normal: for large bins.

    |N(g, s^2)| has m1 = s sqrt(2/pi) exp(-t^2) + g erf(t) with t = g / (s sqrt 2), m2 = g^2 + s^2
    and m3 = (g^2 + 2 s^2) s sqrt(2/pi) exp(-t^2) + (g^3 + 3 g s^2) erf(t) (folded normal).
    """
    return _summed(tables.share, _folded(tables, rate))


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    """Moments of each bin's |hit rate - mean score|, and the chance that its sign is that of p - c; (T, M)."""

    mean: Floats
    variance: Floats
    third: Floats
    kept: Floats


def _folded(tables: GapTables, rate: Floats) -> _Noise:
    gap = np.abs(rate - tables.score)
    square = rate * (1 - rate) / tables.n
    sd = np.sqrt(square)
    ratio = gap / np.maximum(sd * np.sqrt(2), 1e-150)
    bell = sd * _ROOT_TWO_OVER_PI * np.exp(-(np.minimum(ratio, 40.0) ** 2))
    body = erf(ratio)
    first = bell + gap * body
    second = gap * gap + square
    third = (second + square) * bell + gap * (second + 2 * square) * body
    return _Noise(first, second - first**2, third - 3 * first * second + 2 * first**3, (1 + body) / 2)


def _summed(share: Floats, noise: _Noise) -> EceMoments:
    weight = share * share
    return EceMoments(
        mean=(share * noise.mean).sum(axis=1),
        variance=np.maximum((weight * noise.variance).sum(axis=1), 0.0),
        third=(weight * share * noise.third).sum(axis=1),
    )


def exact_moments(tables: GapTables, rate: Floats) -> tuple[EceMoments, Floats]:
    """:func:`moments` with binomial noise where a bin's hits vary little, and the size of a tie, (T,).

    The plug-in ECE moves in steps of 1/N as long as every bin keeps its sign, and can then equal the
    observed value. The *tie* is half such a step times the chance that all signs are kept
    (for unequal weights the mean step, sum w^2 / n): ">=" begins that much lower, ">" that much higher.
    """
    noise = _folded(tables, rate)
    few = (tables.n * rate * (1 - rate) < EXACT_BELOW) & (tables.share > 0)
    found = absolute_moments(tables.n[few], tables.score[few], rate[few])
    noise.mean[few], noise.variance[few], noise.third[few] = found
    kept = np.where(tables.share > 0, noise.kept, 1.0).prod(axis=1)
    step = (tables.share**2 / tables.n).sum(axis=1)
    return _summed(tables.share, noise), kept * step / 2


def tail(observed: npt.ArrayLike, at: EceMoments, strict: Bools | bool = False) -> Floats:
    """T: the probability of seeing ``observed`` or more (``strict``: more), shape (T,).

    One Edgeworth term: T = 1 - Phi(z) + phi(z) (k3 / var^1.5) (z^2 - 1) / 6.
    """
    excess = np.asarray(observed, dtype=np.float64) - at.mean
    sd = np.sqrt(at.variance)
    certain = sd < ROUNDING
    safe = np.where(certain, 1.0, sd)
    z = excess / safe
    density = np.exp(-0.5 * np.minimum(z * z, 1400.0)) / _ROOT_TWO_PI
    value = ndtr(-z) + density * (at.third / safe**3) * (z * z - 1) / 6
    known = np.where(strict, excess < -ROUNDING, excess <= ROUNDING)
    return np.where(certain, known, np.clip(value, 0.0, 1.0))


def floor_of_upper(tables: GapTables) -> Floats:
    """The ECE from which the upper limit is computed: max(E, mean(0) - sd(0)), shape (T,).

    Mean and standard deviation are of the plug-in ECE of calibrated labels. A table that looks *better* than these do
    would otherwise have an upper limit of 0.
    """
    calm, _ = exact_moments(tables, tables.score)
    return np.maximum(tables.plug_in, calm.mean - np.sqrt(calm.variance))


def away_from_walls(tables: GapTables, observed: Floats) -> GapTables:
    """The tables with signs that leave room for errors larger than ``observed`` (T,), as the upper limit needs.

    Where every bin has hits only (or misses only) the observed direction ends at once at a hit rate of
    1 (or 0), and no larger error would be possible: there the signs point to the farther end.
    """
    stuck = at_walls(tables) <= observed + ROUNDING
    return replace(tables, sign=np.where(stuck[:, None], farther(tables.score), tables.sign))


def at_walls(tables: GapTables) -> Floats:
    """The ECE if every bin had hits only, or misses only, in its own direction: the largest on its path; (T,)."""
    room = np.where(tables.sign > 0, 1 - tables.score, tables.score)
    return np.asarray((tables.share * room).sum(axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The four questions of an interval, one after the other for all T tables: shapes (4T, ...).

    Lower limit and point on the shrunk path, then the upper limit on the shrunk and on the uniform
    path; each asks where T reaches ``target`` for the ECE ``observed``, or for more (``strict``).
    ``tie``: ``observed`` is the observed ECE, which may be met exactly, and not the floor of the
    upper limit. ``least``: the upper limit is at least that, the ECE at the walls in the observed
    direction where it is not above ``observed``: no other would be seen there.
    """

    tables: GapTables
    uniform: Bools
    target: Floats
    observed: Floats
    strict: Bools
    tie: Bools
    least: Floats

    def reached(self, position: Floats) -> Floats:
        """T of each question if the truth were at these positions, shape (4T,)."""
        at, tie = exact_moments(self.tables, hypothetical(self.tables, position, self.uniform))
        leeway = np.where(self.strict, tie, -tie) * self.tie
        return tail(self.observed + leeway, at, self.strict)

    def analytic(self) -> Floats:
        """The position at which T of each question reaches its target, by the closed form of T; shape (4T,)."""
        goal = scaled(self.target)

        def lead(position: Floats, which: Ints) -> Floats:
            part = self if len(which) == len(goal) else each_at(self, which)
            return scaled(part.reached(position)) - goal[which]

        return crossing(lead, start_of(self.tables, self.uniform), 2 * self.tables.noise)

    def limits(self, position: Floats) -> tuple[Floats, Floats, Floats]:
        """(low, point, high), each of shape (T,), in rising order and with a high above 0."""
        error = realised(self.tables, hypothetical(self.tables, position, self.uniform)).reshape(4, -1)
        low, point = error[0], np.maximum(error[0], error[1])
        least = np.maximum(self.tables.noise / 64, self.least)[: len(low)]
        high = np.maximum.reduce([error[2], error[3], point, least])
        return np.minimum(low, 1.0), np.minimum(point, 1.0), np.minimum(high, 1.0)


def curves(tables: GapTables, confidence: float, inside: GapTables | None = None) -> Curves:
    """The questions whose answers are the limits and the point of each table; the point is that of ``inside``."""
    size = len(tables.n)
    alpha = 1 - confidence
    floor = floor_of_upper(tables)
    seen = floor <= tables.plug_in
    upper, walls = away_from_walls(tables, floor), at_walls(tables)
    return Curves(
        tables=GapTables.joined([tables, inside or tables, upper, upper]),
        uniform=np.repeat([False, False, False, True], size),
        target=np.repeat([alpha / 2, 0.5, 1 - alpha / 2, 1 - alpha / 2], size),
        observed=np.concatenate([tables.plug_in, tables.plug_in, floor, floor]),
        strict=np.repeat([False, False, True, True], size),
        tie=np.concatenate([np.full(2 * size, True), seen, seen]),
        least=np.tile(np.where(walls <= floor + ROUNDING, walls, 0.0), 4),
    )


def analytic_points(tables: GapTables) -> Floats:
    """The point of the ECE of each table in closed form, shape (T,), at a quarter of the cost of all limits."""
    size = len(tables.n)
    no, yes = np.zeros(size, dtype=bool), np.ones(size, dtype=bool)
    questions = Curves(tables, no, np.full(size, 0.5), tables.plug_in, no, yes, np.zeros(size))
    rate = hypothetical(tables, questions.analytic())
    return np.asarray(np.minimum(realised(tables, rate), 1.0))


def analytic_limits(tables: GapTables, confidence: float) -> tuple[Floats, Floats, Floats]:
    """(low, point, high) of the ECE of each table in closed form, each of shape (T,)."""
    questions = curves(tables, confidence)
    return questions.limits(questions.analytic())
