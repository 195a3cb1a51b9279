"""A week beside the weeks before and the baseline: a step, a rise that came before, or none."""

from __future__ import annotations

import pytest

from monitor.core.records import Interval, Subject
from monitor.evaluation.step_or_slope import RiseKind, StepOrSlope, _kind, step_or_slope
from monitor.report.shift_words import step_sentence
from tests.unit.evaluation.test_rolling_reference import CONFIG, source, window


def seen(*over: float) -> StepOrSlope | None:
    data = source(*over)
    now, *before = (part.labels["billing"] for part in (data.current, *data.earlier))
    pinned = data.baselines["billing"]
    return step_or_slope(Subject("tickets", "billing"), window(0), now, before, pinned, CONFIG.evaluation)


@pytest.mark.parametrize(
    ("over", "kind", "ending"),
    [
        ((0.1, 0.0, 0.0, 0.0, 0.0), "step", "in the baseline: a step in this week."),
        ((0.1, 0.1, 0.1, 0.1, 0.1), "earlier", "no significant step in this week, it rose before, at once or slowly."),
        ((0.0, 0.0, 0.0), "none", "in the baseline: no rise is significant."),
    ],
)
def test_a_step_is_above_the_weeks_before_and_a_slope_above_the_baseline_only(
    over: tuple[float, ...], kind: RiseKind, ending: str
) -> None:
    found = seen(*over)
    assert found is not None
    assert (found.kind, found.weeks) == (kind, len(over) - 1)
    assert step_sentence(found).endswith(ending)
    which = "the 4" if len(over) == 5 else f"{len(over) - 1} of the 4"
    assert f" in {which} weeks before, " in step_sentence(found)


def test_a_rise_is_not_said_to_be_of_the_weeks_before_if_these_are_not_above_the_baseline_either() -> None:
    baseline, before, now = (
        Interval(0.01, 0.008, 0.012, None),
        Interval(0.02, 0.0, 0.06, None),
        Interval(0.04, 0.02, 0.06, None),
    )
    assert _kind(now, before, baseline) == "unclear"
    found = StepOrSlope(now, before, 4, baseline, "unclear")
    assert step_sentence(found).endswith(
        "above the baseline, but whether it rose in this week or before is not significant."
    )


def test_without_weeks_before_there_is_nothing_to_say() -> None:
    assert seen(0.1) is None


def test_without_a_baseline_a_step_is_seen_all_the_same() -> None:
    data = source(0.1, 0.0)
    now, before = data.current.labels["billing"], data.earlier[0].labels["billing"]
    found = step_or_slope(Subject("tickets", "billing"), window(0), now, [before], None, CONFIG.evaluation)
    assert found is not None
    assert (found.kind, found.baseline) == ("step", None)
    assert step_sentence(found).startswith("ECE in the bins of the weeks before 0.")  # not those of its estimate
    assert " in 1 of the 4 weeks before: a step in this week." in step_sentence(found)
