"""Two sides of the same labels, such as two weeks: what differs, by how much, and whether that is chance. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, sqrt

from scipy.special import ndtr, ndtri

from monitor.core.records import Interval, Where
from monitor.inference.change import mover
from monitor.inference.multiplicity import adjust
from monitor.metrics.registry import METRICS

SideKey = tuple[str | None, str, Where]
"""Label, metric and population."""


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of one side with its interval and its number of rows."""

    interval: Interval
    rows: int


@dataclass(frozen=True, slots=True)
class SideDifference:
    """One metric of one label on both sides. ``change`` is ``b`` minus ``a`` with its limits.

    ``p_adjusted`` is Benjamini-Hochberg's over all labels of the metric, times the number of metrics; None where a side
    has no interval. ``worse`` is None where neither direction of the metric is better.
    """

    label: str | None
    metric: str
    where: Where
    a: Measured
    b: Measured
    change: float
    low: float | None = None
    high: float | None = None
    p_adjusted: float | None = None
    significant: bool = False

    @property
    def worse(self) -> bool | None:
        """Whether the change is for the worse."""
        direction = METRICS[self.metric].direction
        return None if direction == "none" or not self.change else (self.change > 0) == (direction == "lower")


def differences(
    a: Mapping[SideKey, Measured], b: Mapping[SideKey, Measured], *, confidence: float, rate: float
) -> list[SideDifference]:
    """The differences of the numbers that both sides have, significant ones first, then by p-value and name.

    The limits of a difference are MOVER's of both intervals (Zou & Donner 2008), its p-value that of a normal with the
    spread of the limit towards 0. ``rate`` is the false discovery rate.
    """
    found, z = [], float(ndtri(0.5 + confidence / 2))
    for key in (key for key in a if key in b):
        then, now = a[key].interval, b[key].interval
        if then.value is None or now.value is None:
            continue
        plain = SideDifference(*key, a[key], b[key], now.value - then.value)
        if None not in (then.low, then.high, now.low, now.high):
            low, high = mover(then, now)
            room = plain.change - low if plain.change > 0 else high - plain.change
            p = 2 * float(ndtr(-z * abs(plain.change) / room)) if room > 0 else float(not plain.change)
            plain = replace(plain, low=low, high=high, p_adjusted=p)
        found.append(plain)
    series = sorted({(each.metric, each.where) for each in found})
    judged = [each for each in found if each.p_adjusted is None]
    for name in series:
        tested = [each for each in found if each.p_adjusted is not None and (each.metric, each.where) == name]
        adjusted = adjust([each.p_adjusted or 0.0 for each in tested], len(series))
        judged += [replace(each, p_adjusted=p, significant=p <= rate) for each, p in zip(tested, adjusted, strict=True)]
    return sorted(judged, key=_order)


def _order(each: SideDifference) -> tuple[bool, float, str, str]:
    p = 2.0 if each.p_adjusted is None else each.p_adjusted
    return not each.significant, p, each.label or "", each.metric


def mean_of(parts: Sequence[Measured]) -> Measured | None:
    """The mean of several weeks, weighted by rows; the distances to its limits are added in quadrature.

    >>> week = Measured(Interval(0.1, 0.06, 0.14, 0.1), 100)
    >>> both = mean_of([week, week])
    >>> round(both.interval.low, 4), round(both.interval.value, 4), both.rows
    (0.0717, 0.1, 200)
    """
    known = [each for each in parts if each.interval.value is not None and isfinite(each.interval.value) and each.rows]
    rows = sum(each.rows for each in known)
    if not rows:
        return None
    shares = [each.rows / rows for each in known]
    value = sum(share * (each.interval.value or 0.0) for share, each in zip(shares, known, strict=True))
    below = _spread(shares, [(each.interval.value, each.interval.low) for each in known])
    above = _spread(shares, [(each.interval.value, each.interval.high) for each in known])
    low, high = (None, None) if below is None or above is None else (value - below, value + above)
    return Measured(Interval(value, low, high, None), rows)


def _spread(shares: Sequence[float], pairs: Sequence[tuple[float | None, float | None]]) -> float | None:
    if any(value is None or limit is None for value, limit in pairs):
        return None
    return sqrt(sum((s * ((v or 0.0) - (limit or 0.0))) ** 2 for s, (v, limit) in zip(shares, pairs, strict=True)))
