"""The exact noise of one bin: how far K/n lies from the mean score, for K ~ Binomial(n, p).

A normal approximation of K/n is wrong by about 1 / (n p (1 - p)): in a bin of 13 rows and a rare
label its mean |K/n - c| may be wrong by a sixth to two thirds, and fifteen bins add up.

Weights and clusters give a fractional n. It is drawn as the next larger whole number of rows, and
K/n - p is stretched by r = sqrt(whole / n), so that its variance stays p (1 - p) / n. Values that
leave [0, 1] are clipped, so that a bin with hits only can still be drawn. (With fewer rows and
r < 1 no draw would reach it, and the lower limit would be the observed value itself.) Below one row
nothing can be stretched: there the rows of one cluster lie in several bins, which move together.
"""

from __future__ import annotations

import numpy as np
from scipy.special import betainc, gammaln, xlog1py, xlogy

from monitor.core.counts import Floats, Ints

_WHOLE = 1e-6  # sums of weights are rounded
_TIE = 1e-9  # K at the mean score is no gap, whichever way the product n c was rounded


def whole(n: Floats) -> tuple[Floats, Floats]:
    """The whole number of rows (at least 1) that a fractional n is drawn as, and its stretch r. Shape as ``n``.

    >>> [part.round(3).tolist() for part in whole(np.array([8.0, 2.5, 0.25]))]
    [[8.0, 3.0, 1.0], [1.0, 1.095, 1.0]]
    """
    nearest = np.rint(n)
    rows = np.maximum(np.where(np.abs(n - nearest) < _WHOLE, nearest, np.ceil(n)), 1.0)
    return rows, np.sqrt(rows / np.maximum(n, 1.0))


def together(n: Floats) -> Ints:
    """The block number of each bin: bins that have one independent row between them share a block. Shapes (M,).

    >>> together(np.array([3.0, 0.5, 0.5, 0.5, 0.7, 2.0])).tolist()
    [0, 1, 1, 2, 3, 4]
    """
    blocks: list[int] = []
    held = 1.0
    for rows in n.tolist():
        held += rows
        joins = bool(blocks) and rows < 1 and held <= 1 + _WHOLE
        blocks.append(blocks[-1] if joins else blocks[-1] + 1 if blocks else 0)
        held = held if joins else rows
    return np.array(blocks, dtype=np.int64)


def absolute_moments(n: Floats, centre: Floats, rate: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean, variance and third central moment of |K/n - c|, K ~ Binomial(n, p); all shapes (M,).

    Below one row a bin has those of one row, the variance times 1/n and the third moment times 1/n^2: as of
    1/n such bins that move together.

    >>> mean, variance, third = absolute_moments(np.array([2.0]), np.array([0.5]), np.array([0.5]))
    >>> float(mean[0]), float(variance[0]), abs(round(float(third[0]), 12))  # 0, 1, 2 hits: .5, 0, .5 away
    (0.25, 0.0625, 0.0)
    """
    rows, stretch = whole(n)
    first, third = _first_and_third(rows, stretch, centre, rate)
    second = (rate - centre) ** 2 + rate * (1 - rate) * stretch**2 / rows
    if (stretch > 1).any():
        every = (rate**rows, rate + stretch * (1 - rate) - centre, 1 - centre)
        none = ((1 - rate) ** rows, centre + (stretch - 1) * rate, centre)
        for chance, out, end in (every, none):
            first = first + chance * (end - out)
            second = second + chance * (end**2 - out**2)
            third = third + chance * (end**3 - out**3)
    crowd = np.maximum(1 / n, 1.0)
    square = first * first
    return first, crowd * (second - square), crowd**2 * (third - first * (3 * second - 2 * square))


def _first_and_third(rows: Floats, stretch: Floats, centre: Floats, rate: Floats) -> tuple[Floats, Floats]:
    """E|X| and E|X|^3 of X = p - c + r (K/n - p).

    |X| is X minus twice its negative part, and the moments of K below a bound follow from its
    distribution and probability function there (De Moivre 1730; Diaconis & Zabell 1991).
    """
    miss = 1 - rate
    mean = rows * rate
    variance = mean * miss
    ahead = rows * (rate - centre) / stretch  # E K minus the K at which X is 0
    last = np.ceil(mean - ahead - _TIE * rows) - 1  # the largest K with X < 0
    k = np.minimum(np.maximum(last, 0.0), rows - 1)
    ways = gammaln(rows + 1) - gammaln(k + 1) - gammaln(rows - k + 1)
    chance = np.exp(ways + xlogy(k, rate) + xlog1py(rows - k, -rate))
    within = (last >= 0) & (last < rows)
    share = np.where(within, betainc(rows - k, k + 1, miss), last >= rows)
    edge = np.where(within, (rows - k) * rate * chance, 0.0)
    # sums over K <= last of (K - mean)^j P(K): j = 1 is De Moivre's, the others are by Stein's identity
    above = k - mean
    one = -edge
    two = variance * share - edge * (above + miss)
    three = miss * (2 * two + (2 * mean - 1) * one - mean * share) - edge * above * above
    first = ahead - 2 * (one + ahead * share)
    below = three + ahead * (3 * two + ahead * (3 * one + ahead * share))
    third = variance * (miss - rate) + ahead * (3 * variance + ahead * ahead) - 2 * below
    unit = stretch / rows
    return np.maximum(first * unit, 0.0), np.maximum(third * unit**3, 0.0)
