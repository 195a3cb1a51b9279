"""The delay of truths: the delay curve of past windows, and how many truths a recent window may still expect.

The curve is the product-limit estimate of Kaplan and Meier (1958) in days after a window's end. A past window that is
twenty days old says nothing about day 21: it is censored there. Its items without a truth count as at risk, so that
the curve stays below 1 where some truths are never known. With the exposure known, this is the reverse-time hazard of
reporting delays (Lagakos, Barraj and De Gruttola 1988; Kalbfleisch and Lawless 1989) in forward time.

Limits are those of a beta distribution. Its variance is Greenwood's (1926) for the curve plus a binomial one for the
items to come, both times the dispersion of past windows at the same age (weeks differ by more than chance: holidays,
staff).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from scipy.special import betaincinv

from monitor.core.counts import Floats
from monitor.core.maturity import Maturity, TruthDelays
from monitor.core.records import Subject, Window

DAY_S = 86_400.0
LEAST_WINDOWS = 4
"""The curve ends at the longest delay for which at least this many past windows were watched."""
LEAST_DAYS, FLAT_DAYS, FLAT = 14, 7, 0.01
"""A curve has ended if it has more than ``LEAST_DAYS`` and rose by at most ``FLAT`` over its last quarter, or over its
last ``FLAT_DAYS`` if these are more."""


@dataclass(frozen=True, slots=True, eq=False)
class DelayCurve:
    """The chance of a truth by day after the window's end, of items that had none before that day.

    ``hazard`` and ``at_risk`` have the shape (days,); ``parts`` holds (truths by day, items, full days watched) of each
    window. The curve has no days where there are too few windows.
    """

    hazard: Floats
    at_risk: Floats
    parts: tuple[tuple[Floats, int, int], ...]

    @property
    def days(self) -> int:
        """The longest delay that enough windows show, plus one."""
        return len(self.hazard)

    def known_by(self) -> Floats:
        """The share of items whose truth is known by the end of each day after the window's end. Shape (days,)."""
        return np.asarray(1.0 - np.cumprod(1.0 - self.hazard), dtype=np.float64)

    @property
    def has_ended(self) -> bool:
        """Whether the curve is flat at its end: the end of one that still rises is unknown."""
        if self.days <= LEAST_DAYS:
            return False
        known = self.known_by()
        return bool(known[-1] - known[-1 - max(self.days // 4, FLAT_DAYS)] <= FLAT)


def full_days(window: Window, now: datetime) -> int:
    """The full days from a window's end to ``now``, in which its truths were watched; below 0 before its end."""
    return int((now - window.end).total_seconds() // DAY_S)


def delay_curve(past: Sequence[TruthDelays], now: datetime) -> DelayCurve:
    """The delay curve of past windows as known at ``now``: each was watched for the full days since its end.

    >>> from datetime import UTC, datetime, timedelta
    >>> from monitor.core.records import Window
    >>> start = datetime(2026, 1, 5, tzinfo=UTC)
    >>> week = timedelta(days=7)
    >>> weeks = [Window(start + k * week, start + (k + 1) * week, f"W{k}", "weekly") for k in range(4)]
    >>> curve = delay_curve([TruthDelays(w, 100, {0: 50, 1: 25, 3: 5}) for w in weeks], start + 5 * week)
    >>> curve.known_by().round(2).tolist()
    [0.5, 0.75, 0.75, 0.8, 0.8, 0.8, 0.8, 0.8]
    """
    parts = []
    for each in past:
        watched = full_days(each.window, now)
        if watched < 0 or each.items <= 0:
            continue
        truths = np.zeros(watched + 1)
        for day, count in each.by_day.items():
            truths[day] += count
        parts.append((truths, each.items, watched))
    parts.sort(key=lambda part: -part[2])
    days = parts[LEAST_WINDOWS - 1][2] + 1 if len(parts) >= LEAST_WINDOWS else 0
    hit, at_risk = np.zeros(days), np.zeros(days)
    for truths, items, watched in parts:
        upto = min(days, watched + 1)
        known = np.cumsum(truths[:upto])
        hit[:upto] += truths[:upto]
        at_risk[:upto] += items - known + truths[:upto]
    hazard = np.divide(hit, at_risk, out=np.zeros(days), where=at_risk > 0)
    return DelayCurve(hazard, at_risk, tuple(parts))


def maturity_of(
    subject: Subject, current: TruthDelays, curve: DelayCurve, now: datetime, *, confidence: float = 0.95
) -> Maturity:
    """How many truths of a window are known at ``now``, and the share of its items that will have one in the end.

    The end is the longest delay of the curve. Where the curve has not ended, no share is expected.
    """
    age = full_days(current.window, now)
    found = Maturity(subject, current.window, current.items, min(current.known, current.items))
    if not curve.has_ended or not current.items:
        return found
    waiting, over = current.items - found.known, age >= curve.days - 1
    none_to_come = over or not waiting
    to_come = (0.0, 0.0, 0.0) if none_to_come else _still_to_come(curve, age, waiting, confidence)
    expected, low, high = ((found.known + share * waiting) / found.items for share in to_come)
    return replace(found, expected=expected, low=low, high=high, windows=len(curve.parts), over=over)


def _still_to_come(curve: DelayCurve, age: int, waiting: int, confidence: float) -> tuple[float, float, float]:
    """The share of items without a truth at ``age`` days that will have one, with its limits."""
    first = max(age + 1, 0)
    hazard, at_risk = np.minimum(curve.hazard[first:], 1.0 - 1e-9), curve.at_risk[first:]
    survival = float(np.prod(1.0 - hazard))
    share, dispersion = 1.0 - survival, _dispersion(curve, first)
    some = at_risk > 0
    greenwood = float((hazard[some] / ((1.0 - hazard[some]) * at_risk[some])).sum())
    least = max(float(at_risk[some].min()), 1.0) if some.any() else 1.0
    # half a row added to either outcome, so that what was never seen does not count as impossible
    mean = (share * least + 0.5) / (least + 1.0)
    spread = mean * (1.0 - mean)
    curve_variance = survival**2 * greenwood if share > 0 else spread / (least + 1.0)
    variance = dispersion * (curve_variance + spread / waiting)
    total = max(spread / variance - 1.0, 1e-3)
    tail = (1.0 - confidence) / 2.0
    low, high = (float(betaincinv(mean * total, (1.0 - mean) * total, at)) for at in (tail, 1.0 - tail))
    half = 0.5 / waiting  # items are whole
    return share, max(min(low - half, share), 0.0), min(max(high + half, share), 1.0)


def _dispersion(curve: DelayCurve, first: int) -> float:
    """The variance between past windows of the truths from day ``first`` on, over a binomial variance; at least 1.

    Pearson's chi-squared over its degrees of freedom; windows that were not watched for long enough are left out.
    """
    squares, windows = 0.0, 0
    for truths, items, watched in curve.parts:
        upto = min(watched + 1, curve.days)
        waiting = items - float(truths[:first].sum())
        share = 1.0 - float(np.prod(1.0 - curve.hazard[first:upto]))
        expected = share * waiting
        if upto <= first or waiting <= 0 or not 0.0 < share < 1.0:
            continue
        squares += (float(truths[first:upto].sum()) - expected) ** 2 / (expected * (1.0 - share))
        windows += 1
    return max(squares / (windows - 1), 1.0) if windows > 1 else 1.0
