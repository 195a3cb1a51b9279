"""Weeks are not draws from one urn: how much they differ by more than their rows would make them.

A model, its traffic and its labellers change a little from week to week, which no number of rows averages out. Two rows
of one week then have a correlation rho, and the estimate of a week of n rows has 1 + rho n times the variance that its
rows alone give it: a design effect, in which a week is a cluster (Kish 1965; for control charts of shares, Laney's
p'-chart 2002). From the estimates x_t of k weeks with variances u / n_t, Cochran's Q = sum n_t (x_t - mean)^2 / u has a
mean of k - 1 + rho (sum n - sum n^2 / sum n), which gives rho by the method of moments (DerSimonian & Laird 1986).

k is small, so that the labels of a source borrow from each other: rho of all together, and of its own part of what a
label differs from that as much as such parts are more than noise (credibility; Buhlmann & Straub 1970). It is never
below 0: what is noise in Q then costs hardly any power, since twenty labels of eight weeks have 140 degrees of freedom.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from monitor.core.counts import BinCounts, Floats
from monitor.core.records import WeekSpread
from monitor.inference.change import at_errors
from monitor.inference.gaps import analytic_limits, stack
from monitor.inference.merging import pool_bins

K = TypeVar("K", bound=Hashable)
FEWEST = 3
"""Fewer weeks than these say nothing of how weeks differ."""
LEAST_HITS = 1.0
"""The n p (1 - p) of a bin in a mean week below which its differences are too skewed to be used."""


def spread_of(values: Sequence[float], variances: Sequence[float], rows: Sequence[float]) -> WeekSpread | None:
    """The spread of the estimates of several weeks, each from so many independent ``rows``; None of too few weeks.

    The weeks have one variance of a row, the mean: an estimate and its own variance depend on each other.

    >>> spread_of([0.8, 0.9, 0.7], [0.0016, 0.0016, 0.0016], [100.0, 100.0, 100.0])
    WeekSpread(statistic=12.5, freedom=2.0, rows=200.0, weeks=3)
    """
    if len(values) < FEWEST:
        return None
    x, v, n = (np.asarray(each, dtype=np.float64) for each in (values, variances, rows))
    unit = float((v * n * n).sum() / n.sum())
    if not unit > 0:
        return None
    mean = float((n * x).sum() / n.sum())
    statistic = float((n * (x - mean) ** 2).sum() / unit)
    return WeekSpread(round(statistic, 9), len(values) - 1.0, _rows_between(n), len(values))


def _rows_between(n: Floats) -> float:
    return float(n.sum() - (n * n).sum() / n.sum())


def spread_of_eces(weeks: Sequence[BinCounts]) -> WeekSpread | None:
    """The spread of the plug-in ECEs of several weeks around what each would have under the ECE of all together."""
    kept = [week for week in weeks if (week.w > 0).any()]
    if len(kept) < FEWEST:
        return None
    _, point, _ = analytic_limits(stack([pool_bins(kept)]), 0.95)
    tables, n = stack(kept), np.array([float(week.n_eff.sum()) for week in kept])
    same = at_errors(tables, np.full((len(kept), 1), float(point[0])))
    noise = np.sqrt(np.maximum(same.variance[:, 0], 1e-300))
    statistic = float((((tables.plug_in - same.mean[:, 0]) / noise) ** 2).sum())
    # that ECE is not fitted to the weeks as a mean is: nothing is taken off for it
    return WeekSpread(statistic, float(len(kept)), _rows_between(n) * len(kept) / (len(kept) - 1), len(kept))


def spread_of_gaps(weeks: Sequence[BinCounts]) -> WeekSpread | None:
    """The spread of the gaps of all bins together."""
    if len(weeks) < FEWEST:
        return None
    n = np.array([week.n_eff for week in weeks])
    gap = np.array([week.rate - week.score for week in weeks])
    total = n.sum(axis=0)
    of = np.where(total > 0, total, 1.0)
    rate = (sum((week.rate * week.n_eff for week in weeks), np.zeros(len(of))) + 0.5) / (of + 1)
    used = total * rate * (1 - rate) >= LEAST_HITS * len(weeks)
    if not used.any():
        return None
    square = (n * (gap - (n * gap).sum(axis=0) / of) ** 2).sum(axis=0) / (rate * (1 - rate))
    freedom = (n > 0).sum(axis=0) - 1.0
    between = total - (n * n).sum(axis=0) / of
    return WeekSpread(float(square[used].sum()), float(freedom[used].sum()), float(between[used].sum()), len(weeks))


def correlations(spreads: Mapping[K, WeekSpread]) -> dict[K, float]:
    """The correlation of two rows of one week for each label of a source, at least 0.

    >>> found = correlations({label: WeekSpread(12.0, 7.0, 7000.0, 8) for label in ("billing", "sales")})
    >>> {label: round(7_000 * rho, 6) for label, rho in found.items()}
    {'billing': 5.0, 'sales': 5.0}
    """
    used = {label: each for label, each in spreads.items() if each.freedom > 0 and each.rows > 0}
    if not used:
        return {}
    statistic, freedom, rows = (
        np.array([getattr(each, name) for each in used.values()]) for name in ("statistic", "freedom", "rows")
    )
    together = max(0.0, float((statistic - freedom).sum() / rows.sum()))
    a_week = rows / freedom
    expected = 1 + together * a_week
    relative, noise = statistic / freedom / expected, 2 / freedom
    excess = max(0.0, float(((relative - 1) ** 2 - noise).mean()))
    trust = excess / (excess + noise)
    found = (expected * (1 + trust * (relative - 1)) - 1) / a_week
    return dict(zip(used, np.maximum(found, 0.0).tolist(), strict=True))


def week_effect(correlation: float, rows: float, weeks: float) -> float:
    """By how much the variance of ``rows`` rows of so many weeks is larger than their own.

    >>> week_effect(0.001, 2_000.0, 2)
    2.0
    """
    return 1 + correlation * rows / max(weeks, 1)


def worth_less(bins: BinCounts, correlation: float, weeks: float) -> BinCounts:
    """The bins with as many effective rows as they are worth where weeks differ."""
    if not correlation > 0:
        return bins
    return replace(bins, n_eff=bins.n_eff / (1 + correlation * bins.n_eff / max(weeks, 1)))
