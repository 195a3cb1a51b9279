"""The adjustment of p-values for testing many labels, and their segments, with many rules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def adjust(p_values: Sequence[float], rules: int) -> list[float]:
    """min(1, Benjamini-Hochberg p times ``rules``), to be compared with the false discovery rate.

    ``p_values`` are those of the labels of one (source, window, rule): the family; ``rules`` is the
    number of decision rules of that schedule. Raises ValueError for p outside [0, 1] or rules < 1.

    >>> [round(p, 6) for p in adjust([0.01, 0.04, 0.03, 0.005], 2)]
    [0.04, 0.08, 0.08, 0.04]
    """
    if rules < 1:
        raise ValueError(f"rules counts the decision rules of a schedule, at least 1, not {rules}")
    found = np.array(p_values, dtype=np.float64)
    if not ((found >= 0) & (found <= 1)).all():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(found)
    rising = found[order] * (len(found) / np.arange(1, len(found) + 1, dtype=np.float64))
    found[order] = np.minimum.accumulate(rising[::-1])[::-1]
    return [min(1.0, p * rules) for p in found.tolist()]


def simes(p_values: Sequence[float]) -> float:
    """The p-value for "all null hypotheses are true" (Simes 1986), for independent or positively dependent p-values.

    It is the smallest of their Benjamini-Hochberg p-values. Raises ValueError without p-values.

    >>> simes([0.01, 0.5, 0.04, 0.9])
    0.04
    """
    if not p_values:
        raise ValueError("Simes' p-value is of at least one p-value")
    return min(adjust(p_values, 1))


def named_within(families: Sequence[Sequence[float]], rate: float, rules: int) -> list[list[int]]:
    """The indices of the named p-values of each family, the smallest first; none of a family that is not found.

    Families are found by their Simes p-values (:func:`adjust`). In one that is found, p-values are named by Benjamini
    and Hochberg at ``rate`` times the share of families found, over ``rules`` (Benjamini & Bogomolov 2014), and at
    least one is. Raises as :func:`adjust`.

    >>> named_within([[0.0001, 0.9, 0.002], [0.5, 0.6], []], 0.01, 1)
    [[0, 2], [], []]
    """
    tested = [place for place, family in enumerate(families) if family]
    adjusted = dict(zip(tested, adjust([simes(families[place]) for place in tested], rules), strict=True))
    found = {place for place, p_value in adjusted.items() if p_value < rate}
    level = rate * len(found) / max(len(tested), 1) / rules
    return [_named(family, level) if place in found else [] for place, family in enumerate(families)]


def _named(family: Sequence[float], level: float) -> list[int]:
    """The indices with an adjusted p below the level, or of the smallest p: rounding at the level might lose it."""
    order = sorted(range(len(family)), key=lambda place: family[place])
    adjusted = adjust(family, 1)
    return [place for place in order if adjusted[place] < level] or order[:1]
