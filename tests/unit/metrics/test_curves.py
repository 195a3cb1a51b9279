"""The risk-coverage curve of a report, and costs."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import Counts, counts_from_rows
from monitor.metrics.cost import Costs
from monitor.metrics.selective import looked_at
from monitor.report.figures.scores import risk_coverage_data
from tests.fakes.points import point


def many(n: int = 5000) -> Counts:
    rng = np.random.default_rng(1)
    score = rng.beta(1.5, 1.5, n)
    return counts_from_rows(score, rng.random(n) < score)


def test_a_curve_is_shown_at_each_tenth_of_the_rows_with_its_whole_area():
    curve = risk_coverage_data(many())
    assert [point.coverage for point in curve.points] == pytest.approx([k / 10 for k in range(1, 11)], abs=0.002)
    for each in curve.points:
        rows = looked_at(many())
        whole = rows.take(rows.cell >= round(10_000 * each.threshold))
        assert each.risk == pytest.approx(1 - whole.positives / whole.rows)
    assert curve.area == point("aurc", many())


def test_without_rows_there_is_no_curve():
    assert risk_coverage_data(counts_from_rows([], [])) is None


def test_the_marked_threshold_is_the_decision_in_force():
    counts = counts_from_rows([0.9, 0.7, 0.7, 0.4], [1, 1, 0, 0])
    curve = risk_coverage_data(counts, threshold=0.5)
    assert (curve.chosen.threshold, curve.chosen.coverage, curve.chosen.risk) == (0.7, 1.0, pytest.approx(1 / 3))
    unmarked = risk_coverage_data(counts)
    assert unmarked.chosen is None


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_cost_that_is_no_number_is_refused(bad: float):
    with pytest.raises(ValueError, match="finite numbers of at least 0"):
        Costs(false_negative=bad)


def test_costs_that_never_favour_a_prediction_have_no_point_of_indifference():
    assert Costs(false_negative=0, false_positive=0).indifference is None
    assert Costs(false_negative=3, false_positive=1).indifference == 0.25
