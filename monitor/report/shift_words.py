"""A sentence about the shift tests of a window, and one about whether its calibration error is a step."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.core.records import ShiftResult
from monitor.core.wording import clean, title, weeks_before
from monitor.evaluation.shift.findings import ShiftFinding
from monitor.evaluation.step_or_slope import WEEKS, StepOrSlope
from monitor.report.words import measured

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


_RISE = {
    "step": "a step in this week",
    "earlier": "no significant step in this week, it rose before, at once or slowly",
    "unclear": "above the baseline, but whether it rose in this week or before is not significant",
    "none": "no rise is significant",
}


def step_sentence(found: StepOrSlope) -> str:
    """The ECE of a week beside the weeks before and the baseline, and whether that is a step.

    Without a baseline the week's own estimate has other bins, so that it may have another value.
    """
    then = weeks_before(WEEKS) if found.weeks == WEEKS else f"{found.weeks} of {weeks_before(WEEKS)}"
    bins = "" if found.baseline is not None else "in the bins of the weeks before "
    sides = [f"ECE {bins}{measured(found.now)}", f"{measured(found.before)} in {then}"]
    sides += [] if found.baseline is None else [f"{measured(found.baseline)} in the baseline"]
    return f"{', '.join(sides)}: {_RISE[found.kind]}."
