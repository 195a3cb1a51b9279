"""A change of one metric between two samples, as a rule measures it: its value, its limits and its p-value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from monitor.core.counts import Counts
from monitor.inference.change import mover
from monitor.inference.levels import change_p, interval


@dataclass(frozen=True)
class ChangeTest:
    """All None where one of both samples does not define the metric."""

    change: float | None
    low: float | None
    high: float | None
    p_value: float | None


def increase_test(metric: str, window: Counts, baseline: Counts, confidence: float) -> ChangeTest:
    return _changed(metric, window, baseline, confidence, change_p(metric, window, baseline))


def decrease_test(metric: str, window: Counts, baseline: Counts, confidence: float, **more: Any) -> ChangeTest:
    return _changed(metric, window, baseline, confidence, change_p(metric, window, baseline, falls=True, **more))


def _changed(metric: str, window: Counts, baseline: Counts, confidence: float, p_value: float | None) -> ChangeTest:
    now, then = (interval(metric, counts, confidence) for counts in (window, baseline))
    if now.value is None or then.value is None:
        return ChangeTest(None, None, None, p_value)
    return ChangeTest(now.value - then.value, *mover(then, now), p_value)
