"""Shift findings: the shift tests of a source in one window that are significant in their family and large enough.

All tests are one family: scores of every label, label mix, feature columns. So the rate of findings in an unchanged
week does not grow with the number of labels, columns or tests. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from monitor.core.records import ShiftResult
from monitor.inference.multiplicity import adjust

NOTICEABLE: Mapping[str, float] = {
    "ks": 0.02,
    "wasserstein": 0.05,
    "jensen_shannon": 0.02,
    "chi_square": 0.02,
    "missing": 0.01,
    "new_categories": 0.001,
    "constant": 0.0,
    "empty": 0.0,
}
"""The effect above which a significant test is a finding: for scores, about a twentieth of a standard deviation."""


@dataclass(frozen=True, slots=True)
class ShiftFinding:
    """One test that found something, with its p-value adjusted for all tests of its source and window."""

    result: ShiftResult
    p_adjusted: float


def p_values_of(shifts: Iterable[ShiftResult]) -> tuple[float, ...]:
    """The p-values of the family of ``shifts``; tests without a p-value are not in it."""
    return tuple(shift.p_value for shift in shifts if shift.p_value is not None)


def findings(shifts: Sequence[ShiftResult], rate: float) -> tuple[ShiftFinding, ...]:
    """The tests that found something at the false discovery rate ``rate``, the most certain first.

    Tests of one source and one window are a family.
    """
    families: dict[object, list[ShiftResult]] = {}
    for shift in shifts:
        if shift.p_value is not None:
            families.setdefault((shift.subject.source, shift.window.start), []).append(shift)
    found = [
        ShiftFinding(shift, p)
        for family in families.values()
        for shift, p in zip(family, adjust(p_values_of(family), 1), strict=True)
        if p < rate and shift.statistic is not None and abs(shift.statistic) > NOTICEABLE.get(shift.test, 0.0)
    ]
    return tuple(sorted(found, key=lambda each: each.p_adjusted))
