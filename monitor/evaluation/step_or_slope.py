"""Whether a week's calibration error is a step or began earlier, from the weeks before and the baseline. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from monitor.config.model import EvaluationConfig
from monitor.core.baseline import Baseline, edges_of
from monitor.core.counts import Counts, pool
from monitor.core.records import Interval, Subject, Window
from monitor.evaluation.estimates import Sample, estimate
from monitor.inference.change import mover

WEEKS = 4
RiseKind = Literal["step", "earlier", "unclear", "none"]


@dataclass(frozen=True, slots=True)
class StepOrSlope:
    """The ECE of a week, of the :data:`WEEKS` before it together, and of the baseline where there is one.

    ``weeks`` of those have rows. ``kind``: *step*, above the weeks before; *earlier*, above the baseline, as the weeks
    before are; *unclear*, above the baseline, but neither is significant; *none*, above neither. By the 95% interval
    of each change.
    """

    now: Interval
    before: Interval
    weeks: int
    baseline: Interval | None
    kind: RiseKind


def step_or_slope(
    subject: Subject,
    window: Window,
    now: Counts,
    before: Sequence[Counts],
    baseline: Baseline | None,
    evaluation: EvaluationConfig,
) -> StepOrSlope | None:
    """The ECE of ``now`` beside that of the weeks ``before`` and the baseline, in the same bins, by the analytic form.

    None where a side has no rows, or no value.
    """
    if not before or not now.rows:
        return None
    sides = [now, pool(before), *([] if baseline is None else [baseline.counts])]
    edges = edges_of(sides[1], evaluation) if baseline is None else baseline.edges
    analytic = evaluation.model_copy(update={"interval": "analytic"})
    found = [_ece(Sample(subject, counts, edges), window, analytic) for counts in sides]
    if found[0] is None or found[1] is None:
        return None
    then = found[2] if baseline is not None else None
    return StepOrSlope(found[0], found[1], len(before), then, _kind(found[0], found[1], then))


def _kind(now: Interval, before: Interval, baseline: Interval | None) -> RiseKind:
    if _above(now, before):
        return "step"
    if not _above(now, baseline):
        return "none"
    return "earlier" if _above(before, baseline) else "unclear"


def _ece(sample: Sample, window: Window, evaluation: EvaluationConfig) -> Interval | None:
    eces = (e for e in estimate([sample], window, evaluation) if (e.metric, e.where) == ("ece", "all"))
    found = next(eces, None)
    known = found is not None and None not in (found.interval.value, found.interval.low, found.interval.high)
    return found.interval if found is not None and known else None


def _above(now: Interval, then: Interval | None) -> bool:
    return then is not None and mover(then, now)[0] > 0
