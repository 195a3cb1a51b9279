"""The adjustment of p-values for testing many labels, and parts of them, with many rules."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.inference.tails import benjamini_hochberg


def adjust(p_values: Sequence[float], rules: int) -> list[float]:
    """min(1, Benjamini-Hochberg p times ``rules``), to be compared with the false discovery rate.

    ``p_values`` are those of the labels of one (source, window, rule): the family; ``rules`` is the
    number of decision rules of that schedule. Raises ValueError for p outside [0, 1] or rules < 1.

    >>> [round(p, 6) for p in adjust([0.01, 0.04, 0.03, 0.005], 2)]
    [0.04, 0.08, 0.08, 0.04]
    """
    if rules < 1:
        raise ValueError(f"rules counts the decision rules of a schedule, at least 1, not {rules}")
    if not p_values:
        return []
    return [min(1.0, p * rules) for p in benjamini_hochberg(p_values).tolist()]


def simes(p_values: Sequence[float]) -> float:
    """The p-value of "none of these is so" (Simes 1986), for p-values that are independent or rise together.

    It is the smallest of their Benjamini-Hochberg p-values. Raises ValueError without any.

    >>> simes([0.01, 0.5, 0.04, 0.9])
    0.04
    """
    if not p_values:
        raise ValueError("Simes' p-value is of at least one p-value")
    return min(adjust(p_values, 1))


def named_within(families: Sequence[Sequence[float]], rate: float, rules: int) -> list[list[int]]:
    """The places of what is named in each family, the smallest p first, after families were found by their Simes p.

    Families are found by :func:`adjust`; of one found, Benjamini and Hochberg name at ``rate`` times the share of
    families found, over ``rules`` (Benjamini & Bogomolov 2014). Whatever is found has one that is named. Raises as
    :func:`adjust`.

    >>> named_within([[0.0001, 0.9, 0.002], [0.5, 0.6], []], 0.01, 1)
    [[0, 2], [], []]
    """
    tested = [place for place, family in enumerate(families) if family]
    adjusted = dict(zip(tested, adjust([simes(families[place]) for place in tested], rules), strict=True))
    found = {place for place, p_value in adjusted.items() if p_value < rate}
    level = rate * len(found) / max(len(tested), 1) / rules
    return [_named(family, level) if place in found else [] for place, family in enumerate(families)]


def _named(family: Sequence[float], level: float) -> list[int]:
    """Those with an adjusted p below the level, and the smallest: at the level itself rounding might lose it."""
    order = sorted(range(len(family)), key=lambda place: family[place])
    paid = adjust(family, 1)
    return [place for place in order if paid[place] < level] or order[:1]
