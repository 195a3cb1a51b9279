"""Truths that come more often for wrong items than for right ones, or are wrong themselves."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt

import numpy as np

SURE = 3.29
"""The standard deviations of a p-value of .001, from which on truths are biased: every audit makes the test anew."""


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


def share_of_right(measured: float, error: float, classes: int) -> float:
    """The accuracy, where ``measured`` is that against truths wrong with probability ``error``, each any of the others.

    Below 0 or above 1 where the measured share cannot be one of so many wrong truths.

    >>> round(share_of_right(0.86, error=0.05, classes=2), 6)
    0.9
    """
    by_chance = error / (classes - 1)
    return (measured - by_chance) / (1 - error - by_chance)
