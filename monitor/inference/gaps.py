"""Calibration gaps of many tables at once: the arithmetic under every statement about the ECE.

A *table* is the bins of one subject. Bin m has n_m independent rows, mean score c_m, hit rate y_m,
gap d = y - c and a share w of the rows; the plug-in ECE is E = sum w|d|. A statement about the true
ECE e asks "if it were e, would we see what we saw?" for hypothetical gaps with sum w g = e, on two
paths with a position x:

* the *shrunk* path (A): g = max(0, |d| + x), the observed gaps moved by one x (negative: shrunk);
* the *uniform* path (B): g = x, the same gap in every bin.

The hypothetical hit rate is p = clip(c + sign(d) g, 0, 1); e is what the clipping leaves of sum w g.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt
from scipy.special import erf, ndtr

from monitor.counts import BinCounts, Bools, Floats

STEPS = 24  # halvings of [-1, 1]: positions are exact to 1.2e-7
ROUNDING = 1e-9  # a gap below this is rounding of sums, not a gap

_ROOT_TWO_OVER_PI = np.sqrt(2 / np.pi)
_ROOT_TWO_PI = np.sqrt(2 * np.pi)


@dataclass(frozen=True, slots=True, eq=False)
class GapTables:
    """T tables of M bins; every array has shape (T, M), empty and padded bins have ``share`` 0.

    ``n`` is the number of independent rows (may be fractional, 1 where empty), ``gap`` the signed
    d = y - c, ``sign`` its direction: where d = 0 towards the end of [0, 1] that is farther away.
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

    def take(self, rows: npt.ArrayLike) -> GapTables:
        """These tables, in this order, repeated where an index is."""
        index = np.asarray(rows)
        return GapTables(*(getattr(self, field.name)[index] for field in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean, variance and third central moment of the plug-in ECE, each of shape (T,)."""

    mean: Floats
    variance: Floats
    third: Floats

    def __sub__(self, other: Moments) -> Moments:
        """The moments of the difference of two independent plug-in ECEs."""
        return Moments(self.mean - other.mean, self.variance + other.variance, self.third - other.third)


def farther(score: Floats) -> Floats:
    """The direction in which a gap has the most room."""
    return np.where(score < 0.5, 1.0, -1.0)


def stack(tables: Sequence[BinCounts]) -> GapTables:
    """Bin m of every table in column m; shorter tables are padded with empty bins."""
    width = max((len(table.n) for table in tables), default=0)
    w, ws, wy, n_eff = np.zeros((4, len(tables), width))
    for row, table in enumerate(tables):
        bins = len(table.n)
        w[row, :bins], ws[row, :bins], wy[row, :bins], n_eff[row, :bins] = table.w, table.ws, table.wy, table.n_eff
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
    chosen = np.broadcast_to(uniform, position.shape)[:, None]
    gap = np.where(chosen, moved, np.maximum(0.0, np.abs(tables.gap) + moved))
    return np.clip(tables.score + tables.sign * gap, 0.0, 1.0)


def realised(tables: GapTables, rate: Floats) -> Floats:
    """The ECE that hit rates of shape (T, M) mean, sum w |p - c|, shape (T,)."""
    return np.asarray((tables.share * np.abs(rate - tables.score)).sum(axis=1))


def start_of(tables: GapTables, uniform: Bools | bool = False) -> Floats:
    """The position at which a path has e = 0, shape (T,)."""
    largest = np.abs(tables.gap).max(axis=1, initial=0.0)
    return np.where(np.broadcast_to(uniform, largest.shape), 0.0, -largest)


def position_of(tables: GapTables, error: Floats, uniform: Bools | bool = False) -> Floats:
    """The position on a path at which the ECE is ``error`` (T,); (nearly) its end where none has it."""

    def reached(position: Floats) -> Floats:
        return realised(tables, hypothetical(tables, position, uniform))

    return solve(reached, error, start_of(tables, uniform), np.ones(len(tables.n)), STEPS)


def moments(tables: GapTables, rate: Floats) -> Moments:
    """Moments of the plug-in ECE if the hit rates were ``rate`` (T, M), each bin's rate normal.

    |N(g, s^2)| has m1 = s sqrt(2/pi) exp(-t^2) + g erf(t) with t = g / (s sqrt 2), m2 = g^2 + s^2
    and m3 = (g^2 + 2 s^2) s sqrt(2/pi) exp(-t^2) + (g^3 + 3 g s^2) erf(t) (folded normal).
    """
    gap = np.abs(rate - tables.score)
    square = rate * (1 - rate) / tables.n
    sd = np.sqrt(square)
    ratio = gap / np.maximum(sd * np.sqrt(2), 1e-150)
    bell = sd * _ROOT_TWO_OVER_PI * np.exp(-(np.minimum(ratio, 40.0) ** 2))
    body = erf(ratio)
    first = bell + gap * body
    second = gap * gap + square
    third = (second + square) * bell + gap * (second + 2 * square) * body
    share = tables.share
    return Moments(
        mean=(share * first).sum(axis=1),
        variance=np.maximum((share**2 * (second - first**2)).sum(axis=1), 0.0),
        third=(share**3 * (third - 3 * first * second + 2 * first**3)).sum(axis=1),
    )


def tail(observed: npt.ArrayLike, at: Moments, strict: Bools | bool = False) -> Floats:
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


def solve(tail_at: Callable[[Floats], Floats], target: Floats, low: Floats, high: Floats, steps: int) -> Floats:
    """The position in [low, high] at which the rising ``tail_at`` reaches ``target``, by halving.

    ``low`` itself where it is reached there already, (nearly) ``high`` where it never is.
    """
    reached = tail_at(low) >= target
    below, above = low, high
    for _ in range(steps):
        middle = (below + above) / 2
        short = tail_at(middle) < target
        below, above = np.where(short, middle, below), np.where(short, above, middle)
    return np.where(reached, low, (below + above) / 2)


def floor_of_upper(tables: GapTables) -> Floats:
    """What the upper limit takes for E: max(E, mean(0) - sd(0)), shape (T,).

    A table that looks *better* than calibrated ones do would otherwise have an upper limit of 0.
    """
    calm = moments(tables, tables.score)
    return np.maximum(tables.plug_in, calm.mean - np.sqrt(calm.variance))


def away_from_walls(tables: GapTables, observed: Floats) -> GapTables:
    """The tables with the signs that the upper limit needs.

    Where every bin is all right (or all wrong) the observed direction ends at once at a hit rate of
    1 (or 0), and no larger error could be asked about: there the signs point to the farther end.
    """
    room = np.where(tables.sign > 0, 1 - tables.score, tables.score)
    stuck = (tables.share * room).sum(axis=1) <= observed + ROUNDING
    sign = np.where(stuck[:, None], farther(tables.score), tables.sign)
    return GapTables(tables.n, tables.score, tables.gap, tables.share, sign)


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """The four questions of an interval, one after the other for all T tables: shapes (4T, ...).

    Lower limit and point on the shrunk path, then the upper limit on the shrunk and on the uniform
    path; each asks where T reaches ``target`` for the ECE ``observed``.
    """

    tables: GapTables
    uniform: Bools
    target: Floats
    observed: Floats
    strict: Bools

    def analytic(self) -> Floats:
        """The answering positions by the analytic T, shape (4T,)."""

        def tail_at(position: Floats) -> Floats:
            rate = hypothetical(self.tables, position, self.uniform)
            return tail(self.observed, moments(self.tables, rate), self.strict)

        start = start_of(self.tables, self.uniform)
        return solve(tail_at, self.target, start, np.ones_like(start), STEPS)

    def take(self, rows: npt.ArrayLike) -> Curves:
        """Some of the questions."""
        index = np.asarray(rows)
        return Curves(
            self.tables.take(index), self.uniform[index], self.target[index], self.observed[index], self.strict[index]
        )

    def limits(self, position: Floats) -> tuple[Floats, Floats, Floats]:
        """(low, point, high), each of shape (T,), in order and never with a high of 0."""
        error = realised(self.tables, hypothetical(self.tables, position, self.uniform)).reshape(4, -1)
        low, point = error[0], np.maximum(error[0], error[1])
        least = self.tables.noise[: len(low)] / 64
        high = np.maximum.reduce([error[2], error[3], point, least])
        return np.minimum(low, 1.0), np.minimum(point, 1.0), np.minimum(high, 1.0)


def curves(tables: GapTables, confidence: float) -> Curves:
    """The questions whose answers are the interval of each table."""
    size = len(tables.n)
    alpha = 1 - confidence
    floor = floor_of_upper(tables)
    upper = away_from_walls(tables, floor)
    parts = [tables, tables, upper, upper]
    stacked = GapTables(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(GapTables)))
    return Curves(
        tables=stacked,
        uniform=np.repeat([False, False, False, True], size),
        target=np.repeat([alpha / 2, 0.5, 1 - alpha / 2, 1 - alpha / 2], size),
        observed=np.concatenate([tables.plug_in, tables.plug_in, floor, floor]),
        strict=np.repeat([False, False, True, True], size),
    )


def analytic_limits(tables: GapTables, confidence: float) -> tuple[Floats, Floats, Floats]:
    """(low, point, high) of the ECE of each table by the analytic form, each of shape (T,)."""
    asked = curves(tables, confidence)
    return asked.limits(asked.analytic())
