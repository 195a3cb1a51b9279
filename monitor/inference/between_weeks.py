"""Weeks are not draws from one urn: how much they differ by more than their rows would make them.

A model, its traffic and its labellers change a little from week to week, which no number of rows averages out. Two rows
of one week then have a correlation rho, and the estimate of a week of n rows has 1 + rho n times the variance that its
rows alone give it: a design effect, in which a week is a cluster (Kish 1965; for control charts of shares, Laney's
p'-chart 2002). From the estimates x_t of k weeks with variances u / n_t, Cochran's Q = sum n_t (x_t - mean)^2 / u has a
mean of k - 1 + rho (sum n - sum n^2 / sum n), which gives rho by the method of moments (DerSimonian & Laird 1986).

k is small, so that the labels of a source borrow from each other: rho of all together, and of its own part of what a
label differs from that as much as such parts are more than noise (credibility; Buhlmann & Straub 1970). It is never
below 0: what is noise in Q then costs hardly any power, since twenty labels of eight weeks have 140 degrees of freedom.
What is estimated from few weeks is uncertain: a change is compared with Student's t, whose degrees of freedom are a
label's own over its own part (moderated t; Smyth 2004). Calibration has a correlation of all bins together, from as
many degrees of freedom as bins times weeks.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtr, stdtrit

from monitor.core.counts import BinCounts
from monitor.core.records import WeekSpread

K = TypeVar("K", bound=Hashable)
FEWEST = 3
"""Fewer weeks than these say nothing of how weeks differ."""
SURE = 0.9
"""How sure it is that a correlation is at most so large, where evidence of many weeks adds up."""
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
    between = float(n.sum() - (n * n).sum() / n.sum())
    return WeekSpread(round(statistic, 9), len(values) - 1.0, between, len(values))


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


@dataclass(frozen=True, slots=True)
class WeekCorrelation:
    """The ``correlation`` of two rows of one week, and the degrees of ``freedom`` behind it."""

    correlation: float = 0.0
    freedom: float = math.inf

    @property
    def most(self) -> float:
        """Its upper limit of :data:`SURE`, for evidence that adds up: there an error does so too."""
        if not self.correlation > 0:
            return 0.0
        least = float(chdtri(self.freedom, SURE)) / self.freedom
        return self.correlation / least

    def p_value(self, p: float) -> float:
        """The p-value by Student's t, of one by a normal law with a variance that this correlation is a part of.

        >>> round(WeekCorrelation(0.001, 14.0).p_value(0.001), 4)
        0.004
        """
        return float(stdtr(self.freedom, float(ndtri(p)))) if self.correlation > 0 else p

    def rate(self, rate: float) -> float:
        """The p-value of a normal law that :meth:`p_value` makes ``rate``."""
        return float(ndtr(stdtrit(self.freedom, rate))) if self.correlation > 0 else rate


ALIKE = WeekCorrelation()
"""Of weeks that differ by no more than their rows."""


def correlations(spreads: Mapping[K, WeekSpread]) -> dict[K, WeekCorrelation]:
    """The correlation of two rows of one week for each label of a source, at least 0.

    >>> found = correlations({label: WeekSpread(12.0, 7.0, 7000.0, 8) for label in ("billing", "sales")})
    >>> {label: (round(7_000 * each.correlation, 6), each.freedom) for label, each in found.items()}
    {'billing': (5.0, 14.0), 'sales': (5.0, 14.0)}
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
    found = np.maximum((expected * (1 + trust * (relative - 1)) - 1) / a_week, 0.0)
    behind = 1 / np.maximum(trust / freedom, 1 / freedom.sum())
    return {label: WeekCorrelation(*each) for label, *each in zip(used, found.tolist(), behind.tolist(), strict=True)}


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
