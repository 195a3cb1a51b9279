"""Tests of tables: Pearson's chi-square with empty columns, which scipy.stats refuses, and Mantel and Haenszel's."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np
from scipy.special import chdtrc

from monitor.core.counts import Floats

SURE = 3.29
"""The standard deviations of a p-value of .001, from which on truths are biased: every audit makes the test anew."""


def chi_square(statistic: float, freedom: int) -> float:
    """P(X >= ``statistic``) of a chi-square distribution, as ``scipy.stats.chi2.sf``; 1 below 0.

    >>> round(chi_square(3.841459, 1), 6)
    0.05
    """
    return float(chdtrc(freedom, max(statistic, 0.0)))


def contingency(table: Floats) -> tuple[float, int]:
    """Pearson's chi-square of a table (R, C), without correction, and its degrees of freedom; empty columns are none.

    Both are as ``chi2_contingency`` has them.

    >>> statistic, freedom = contingency(np.array([[10.0, 20.0, 0.0], [20.0, 10.0, 0.0]]))
    >>> round(statistic, 4), freedom, round(chi_square(statistic, freedom), 4)
    (6.6667, 1, 0.0098)
    """
    columns = table.sum(axis=0)
    expected = table.sum(axis=1, keepdims=True) * columns / table.sum()
    parts = np.divide((table - expected) ** 2, expected, out=np.zeros_like(table), where=expected > 0)
    return float(parts.sum()), (len(table) - 1) * max(0, int((columns > 0).sum()) - 1)


def truth_bias(strata: Iterable[tuple[int, int, int, int]]) -> tuple[int, float, float] | None:
    """(items, the share of right ones whose truth came by itself, that of wrong ones) if truths are biased, else None.

    ``strata`` are (right and known, right, wrong and known, wrong) of items that were checked at random. The test is
    Mantel and Haenszel's (1959): within a stratum, of all known items as many are right as chance makes right. So
    labels of other accuracy, of which more or fewer truths come, are no bias.

    >>> truth_bias([(30, 100, 18, 20)])
    (120, 0.3, 0.9)
    >>> truth_bias([(30, 100, 8, 20)])
    """
    known_right, right, known_wrong, wrong = np.array(list(strata), np.float64).reshape(-1, 4).T
    total, known = right + wrong, known_right + known_wrong
    excess = known_right - right * known / np.maximum(total, 1)
    variance = right * wrong * known * (total - known) / np.maximum(total, 1) ** 2 / np.maximum(total - 1, 1)
    # less half an item, since known items are a whole number
    if abs(float(excess.sum())) - 0.5 < SURE * sqrt(float(variance.sum())):
        return None
    return int(total.sum()), float(known_right.sum() / right.sum()), float(known_wrong.sum() / wrong.sum())
