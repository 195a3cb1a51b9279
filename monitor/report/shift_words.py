"""A sentence about the shift tests of a window."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.core.records import ShiftResult
from monitor.core.wording import clean, title
from monitor.evaluation.shift.findings import ShiftFinding

NAMED = 5


def shift_sentence(shifts: Sequence[ShiftResult], found: Sequence[ShiftFinding]) -> str:
    """Which of the tests with a p-value found a shift; "" if no test has a p-value.

    >>> shift_sentence([], [])
    ''
    """
    tests = [shift for shift in shifts if shift.p_value is not None]
    if not tests:
        return ""
    if not found:
        return f"No shift found in {_tests(len(tests))}."
    named = ", ".join(_named(each.result) for each in found[:NAMED])
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return f"Shift found in {len(found)} of {_tests(len(tests))}: {named}{more}."


def _tests(number: int) -> str:
    return "1 test" if number == 1 else f"{number:,} tests"


def _named(shift: ShiftResult) -> str:
    column = {"label": "predicted labels", "actual": "true labels", "score": "scores"}.get(shift.column, shift.column)
    of = f" of {clean(shift.subject.label)}" if shift.subject.label is not None else ""
    return f"{clean(column)}{of} ({title(shift.test)} {shift.statistic:.3g})"
