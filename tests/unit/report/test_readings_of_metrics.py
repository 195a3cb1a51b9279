"""What a value means in a word is said only where the handbook's bands hold: not of scores of a part of their range."""

from __future__ import annotations

from datetime import UTC
from typing import get_args

import pytest

from monitor.core.records import Estimate, Interval, Subject, Where
from monitor.core.windows import week
from monitor.metrics.registry import METRICS
from monitor.report.tables import metrics


def reading(metric: str, where: Where, value: float) -> str:
    interval = Interval(value, value - 0.02, value + 0.02, value)
    of = Estimate(Subject("tickets", "billing"), week("2026-W20", UTC), metric, where, interval, 400, 200.0)
    (row,) = metrics([of]).rows
    return str(row[-1])


@pytest.mark.parametrize(("metric", "value"), [("roc_auc", 0.6), ("cohens_d", 0.3), ("point_biserial", 0.2)])
def test_a_metric_of_the_whole_range_has_no_band_where_the_range_is_cut(metric: str, value: float):
    said = METRICS[metric].reading(value)
    assert said
    assert {where: reading(metric, where, value) for where in get_args(Where)} == {
        "all": said, "predicted": "", "automated": ""
    }  # fmt: skip


def test_a_metric_of_any_rows_has_its_band_everywhere():
    said = METRICS["ece"].reading(0.2)
    assert said
    assert {reading("ece", where, 0.2) for where in get_args(Where)} == {said}
