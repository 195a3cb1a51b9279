"""Upper tails of a few distributions, equal to the last bit to those of scipy.stats.

That package takes half a second to import, and a run needs no more of it. Each function here is one of
``scipy.special`` or a short formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy  # submodules are loaded at first use, and most commands never use them
from scipy.special import chdtrc, gammaincc, rel_entr, smirnov

from monitor.core.counts import Floats

_MANY = 140  # with fewer rows other formulas are exact
_FAR, _FARTHEST = 2.2, 370.0  # n D^2 from which the two one-sided tails add up, and from which the tail is 0
_NO_TAIL = -708.0  # the logarithm of the smallest normal number
_ROOT_TWO_PI = np.sqrt(2 * np.pi)
_ROOT_THREE = np.sqrt(3)
_PI_2, _PI_4, _PI_6 = np.pi**2, np.pi**4, np.pi**6


def chi_square(statistic: float, freedom: int) -> float:
    """P(X >= ``statistic``) of a chi-square distribution, as ``scipy.stats.chi2.sf``; 1 below 0.

    >>> round(chi_square(3.841459, 1), 6)
    0.05
    """
    return float(chdtrc(freedom, max(statistic, 0.0)))


def pearson3(value: float, skewness: float) -> float:
    """P(X >= ``value``) of Pearson's type III with mean 0, deviation 1 and a ``skewness`` above 0.

    As ``scipy.stats.pearson3.sf``.

    >>> round(pearson3(1.6449, 1e-3), 3)  # nearly normal
    0.05
    """
    unit = 2.0 / skewness
    shape = unit**2
    above_least = unit * (value + shape / unit)
    return float(gammaincc(shape, above_least)) if above_least > 0 else 1.0


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


def jensen_shannon(one: Floats, other: Floats) -> float:
    """The Jensen-Shannon distance of two rows of weights (K,), as ``scipy.spatial.distance.jensenshannon``.

    >>> round(jensen_shannon(np.array([1.0, 0.0]), np.array([0.0, 1.0])) ** 2, 6)  # ln 2
    0.693147
    """
    p, q = one / np.sum(one), other / np.sum(other)
    middle = (p + q) / 2.0
    return float(np.sqrt((np.sum(rel_entr(p, middle)) + np.sum(rel_entr(q, middle))) / 2.0))


def benjamini_hochberg(p_values: Sequence[float]) -> Floats:
    """Adjusted p-values, shape (P,), as ``scipy.stats.false_discovery_control``; ValueError for p outside [0, 1].

    >>> benjamini_hochberg([0.01, 0.04, 0.03, 0.005]).round(6).tolist()
    [0.02, 0.04, 0.04, 0.02]
    """
    found = np.array(p_values, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    if len(found) < 2:
        return found
    order = np.argsort(found)
    rising = found[order] * (len(found) / np.arange(1, len(found) + 1, dtype=np.float64))
    found[order] = np.minimum.accumulate(rising[::-1])[::-1]
    return np.clip(found, 0.0, 1.0)


def kolmogorov(distance: float, rows: int) -> float:
    """P(D >= ``distance``) of the two-sided Kolmogorov-Smirnov distance of ``rows`` rows, as ``scipy.stats.kstwo.sf``.

    By the rules of Simard & L'Ecuyer 2011: far out the two one-sided tails are added, nearer the series of Pelz & Good
    1976 is used. scipy.stats does the rest: few rows, or hardly any distance.

    >>> round(kolmogorov(1.3581 / 200, 40_000), 3), kolmogorov(0.5, 10_000)
    (0.05, 0.0)
    """
    if rows * distance <= 0.5:
        return 1.0
    square = rows * distance * distance
    if rows > _MANY and square >= _FAR and distance < 0.5:
        return 0.0 if square >= _FARTHEST else min(float(2 * smirnov(rows, distance)), 1.0)
    if rows > _MANY and rows * distance > 1 and square < _FAR and (rows > 100_000 or rows * distance**1.5 > 1.4):
        return float(np.clip(1.0 - _pelz_good(rows, distance), 0.0, 1.0))
    return float(scipy.stats.kstwo.sf(distance, rows))


def _pelz_good(rows: int, distance: float) -> np.float64:
    """P(D <= ``distance``): four terms in powers of 1 / sqrt(rows), each a series in theta functions.

    In the same steps as scipy, so that the last digits are equal.
    """
    z = np.float64(np.sqrt(rows) * distance)
    logarithm = -_PI_2 / 8 / z**2
    if logarithm < _NO_TAIL:
        return np.float64(0.0)
    terms = math.ceil(16 * z / np.pi)
    found = _odd_terms(z, np.exp(logarithm), terms)
    found[2:] += _other_terms(z, terms)
    found /= np.power(rows * 1.0, np.arange(4) / 2.0)
    return np.float64(sum(found))


def _odd_terms(z: np.float64, q: np.float64, terms: int) -> Floats:
    """The sums over odd numbers of the four terms, by Horner's scheme in q."""
    z2, z4, z6 = z**2, z**4, z**6
    k2 = 6 * z6 + 2 * z4, (2 * z4 - 5 * z2) * _PI_2 / 4, _PI_4 * (1 - 2 * z2) / 16
    k3 = (
        -30 * z6 - 90 * z**8,
        _PI_2 * (135 * z4 - 96 * z6) / 4,
        _PI_4 * (-60 * z2 + 212 * z4) / 16,
        _PI_6 * (5 - 30 * z2) / 64,
    )
    found = np.zeros(4)
    for k in range(terms, 0, -1):
        m2, m4, m6 = (2 * k - 1) ** 2, (2 * k - 1) ** 4, (2 * k - 1) ** 6
        found *= np.power(q, 8 * k)
        found += [
            1.0,
            -z2 + _PI_2 / 4 * m2,
            k2[0] + k2[1] * m2 + k2[2] * m4,
            k3[0] + k3[1] * m2 + k3[2] * m4 + k3[3] * m6,
        ]
    found *= q
    found *= _ROOT_TWO_PI
    found /= np.array([z, 6 * z4, 72 * z**7, 6480 * z**10])
    return found


def _other_terms(z: np.float64, terms: int) -> list[np.float64]:
    """The sums over all numbers of the last two terms."""
    k: npt.NDArray[np.int64] = np.arange(terms, 0, -1)
    powers = np.exp(-_PI_2 / 2 / z**2) ** k**2
    by_root, by_pi = _ROOT_THREE * z, np.pi * k
    second = np.sum(k**2 * powers) * (_PI_2 * _ROOT_TWO_PI / (-36 * z**3))
    third = np.sum((by_root + by_pi) * (by_root - by_pi) * k**2 * powers) * (_PI_2 * _ROOT_TWO_PI / (216 * z**6))
    return [second, third]
