"""Pearson's chi-square of tables with empty columns, which scipy.stats refuses."""

from __future__ import annotations

import numpy as np
from scipy.special import chdtrc

from monitor.core.counts import Floats


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
