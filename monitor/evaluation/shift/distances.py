"""Two distances of distributions with their p-values under "nothing has changed". Pure.

Both hold for discrete scores: the null distribution is that of the observed values, not that of continuous ones.
"""

from __future__ import annotations

import numpy as np
import scipy  # submodules are loaded at first use, and most commands never use them
from scipy.special import ndtr

from monitor.core.counts import Floats
from monitor.inference.tables import chi_square

MOST_STEPS = 128
_SKEWNESS = 1.3
"""Skewness of the integral of |B|, B a Brownian bridge: 1.0 to 1.3 over all distributions tried; larger is safer."""
_TAIL_FROM, _TAIL = 3.0, 1.6
"""Beyond ``_TAIL_FROM`` standard deviations of the integral of B, the tail of the integral of |B| is at most ``_TAIL``
times the two tails of a normal value: 1.0 to 1.4 times over the same distributions."""


def wasserstein(values: Floats, shares: tuple[Floats, Floats], rows: tuple[float, float]) -> tuple[float, float]:
    """(distance, p-value): the area between two distribution functions, in units of the values.

    ``values`` are distinct and sorted, shape (K,); ``shares`` are those of each value on either side; ``rows`` the
    effective rows. Times the square root of n1 n2 / (n1 + n2) the area is, if nothing has changed, the integral of
    |B(F)| for a Brownian bridge B. Its mean and variance are exact; its distribution is taken as Pearson's III of
    fixed skewness, its far tail from the integral of B(F), which is normal.
    """
    if len(values) < 2:
        return 0.0, 1.0
    gaps, steps = np.cumsum(shares[0] - shares[1])[:-1], np.diff(values)
    distance = float(np.abs(gaps) @ steps)
    pooled = (shares[0] * rows[0] + shares[1] * rows[1]) / sum(rows)
    mean, variance, whole = _bridge_moments(np.cumsum(pooled)[:-1], steps)
    if not variance > 0:
        return distance, 1.0
    size = distance * (rows[0] * rows[1] / sum(rows)) ** 0.5
    p_value = min(1.0, float(scipy.stats.pearson3.sf((size - mean) / variance**0.5, _SKEWNESS)))
    far = size / whole**0.5
    return distance, p_value if far < _TAIL_FROM else min(p_value, _TAIL * 2 * float(ndtr(-far)))


def _bridge_moments(level: Floats, steps: Floats) -> tuple[float, float, float]:
    """Mean and variance of the integral of |B(level)|, and the variance of that of B(level).

    Neighbouring steps are merged where there are many.
    """
    if len(level) > MOST_STEPS:
        starts = np.arange(MOST_STEPS) * len(level) // MOST_STEPS
        weight = np.add.reduceat(steps, starts)
        level, steps = np.add.reduceat(level * steps, starts) / weight, weight
    level = np.clip(level, 1e-12, 1 - 1e-12)
    covariance = np.minimum.outer(level, level) - np.outer(level, level)
    deviation = np.sqrt(level * (1 - level))
    r = np.clip(covariance / np.outer(deviation, deviation), -1.0, 1.0)
    # covariance of |X| and |Y|, X and Y normal with correlation r
    of_sizes = 2 / np.pi * np.outer(deviation, deviation) * (np.sqrt(1 - r**2) + r * np.arcsin(r) - 1)
    mean = float(np.sqrt(2 / np.pi) * deviation @ steps)
    return mean, float(steps @ of_sizes @ steps), float(steps @ covariance @ steps)


def stability_index(table: Floats) -> float:
    """The population stability index sum (p - q) ln(p / q) of a table of two rows, half a row added to every cell."""
    p, q = (table + 0.5) / (table + 0.5).sum(axis=1, keepdims=True)
    return float(np.sum((p - q) * np.log(p / q)))


def jensen_shannon(counts: Floats) -> tuple[float, float]:
    """(distance, p-value) of two rows of effective counts, shape (2, K): sqrt of the divergence, natural logarithm.

    If nothing has changed, 8 divergence / (1/n1 + 1/n2) is chi-square with K - 1 degrees of freedom.
    """
    held = counts[0] + counts[1] > 0
    if held.sum() < 2:
        return 0.0, 1.0
    distance = float(scipy.spatial.distance.jensenshannon(counts[0][held], counts[1][held]))
    distance = 0.0 if not np.isfinite(distance) else distance  # for equal rows the divergence may be -1e-17
    chi2 = 8 * distance**2 / (1 / counts[0].sum() + 1 / counts[1].sum())
    return distance, chi_square(chi2, int(held.sum()) - 1)
