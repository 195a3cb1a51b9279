"""Metrics of predicted numbers against scikit-learn and scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from monitor.core.counts import RegressionRows
from monitor.metrics.regression import LEVELS
from tests.fakes.points import point

NUMBERS = st.floats(-1e4, 1e4, allow_nan=False).map(lambda value: round(value, 3))
ITEMS = st.tuples(NUMBERS, NUMBERS, st.sampled_from([0.1, 1.0, 250.0]), st.sampled_from([0.2, 1.0, 5.0]))


def numbers(predicted: object, actual: object, deviation: object, weight: object = None) -> RegressionRows:
    said, spread, true = (np.asarray(column, dtype=np.float64) for column in (predicted, deviation, actual))
    w = np.ones_like(said) if weight is None else np.asarray(weight, dtype=np.float64)
    return RegressionRows(said, spread, true, w, len(w))


@settings(max_examples=60)
@given(items=st.lists(ITEMS, min_size=2, max_size=30))
def test_every_metric_is_that_of_scikit_learn_and_scipy(items: list[tuple[float, float, float, float]]):
    predicted, actual, deviation, weight = (np.array(column) for column in zip(*items, strict=True))
    rows = numbers(predicted, actual, deviation, weight)
    options = {"sample_weight": weight}
    assert point("mse", rows) == pytest.approx(sk.mean_squared_error(actual, predicted, **options), rel=1e-9)
    assert point("rmse", rows) == pytest.approx(sk.root_mean_squared_error(actual, predicted, **options), rel=1e-9)
    assert point("mae", rows) == pytest.approx(sk.mean_absolute_error(actual, predicted, **options), rel=1e-9)
    loss = -stats.norm.logpdf(actual, predicted, deviation)
    assert point("normal_nll", rows) == pytest.approx(np.average(loss, weights=weight), rel=1e-9)
    low, high = stats.norm.interval(0.95, predicted, deviation)
    assert point("interval_coverage", rows) == pytest.approx(
        np.average((low <= actual) & (actual <= high), weights=weight)
    )
    if np.ptp(actual) > 1:
        assert point("r_squared", rows) == pytest.approx(sk.r2_score(actual, predicted, **options), rel=1e-6)


def test_r_squared_of_large_numbers_close_together_keeps_its_digits():
    rng = np.random.default_rng(1)
    actual = 1e9 + rng.normal(size=500)
    predicted = actual + rng.normal(size=500) / 2
    assert point("r_squared", numbers(predicted, actual, np.ones(500))) == pytest.approx(
        sk.r2_score(actual, predicted), rel=1e-6
    )


def test_r_squared_is_not_defined_where_all_actual_numbers_are_the_same():
    rows = numbers([1.0, 2.0], [3.1, 3.1], [1.0, 1.0])
    assert point("r_squared", rows) is None
    assert point("mae", rows) == pytest.approx(1.6)


def test_honest_deviations_cover_95_percent_and_beat_dishonest_ones_in_the_loss():
    rng = np.random.default_rng(2)
    predicted, deviation = rng.normal(10, 5, 20_000), rng.uniform(0.5, 3, 20_000)
    actual = rng.normal(predicted, deviation)
    honest = numbers(predicted, actual, deviation)
    assert point("interval_coverage", honest) == pytest.approx(0.95, abs=4 * math.sqrt(0.95 * 0.05 / 20_000))
    for factor, covers in ((0.5, stats.chi(1).cdf(0.98)), (2.0, stats.chi(1).cdf(3.92))):
        other = numbers(predicted, actual, factor * deviation)
        assert point("interval_coverage", other) == pytest.approx(covers, abs=0.015)
        assert point("normal_nll", other) > point("normal_nll", honest)


def test_the_quantile_of_the_central_interval_is_the_one_of_scipy():
    from scipy.special import ndtri

    from monitor.metrics.regression import _Z, CENTRAL

    assert ndtri((1 + CENTRAL) / 2) == _Z


@settings(max_examples=60)
@given(items=st.lists(ITEMS, min_size=1, max_size=30))
def test_coverage_of_other_levels_is_the_share_within_scipy_s_interval(
    items: list[tuple[float, float, float, float]],
):
    predicted, actual, deviation, weight = (np.array(column) for column in zip(*items, strict=True))
    for level in LEVELS:
        low, high = stats.norm.interval(level / 100, predicted, deviation)
        expected = np.average((low <= actual) & (actual <= high), weights=weight)
        found = point(f"interval_coverage_{level}", numbers(predicted, actual, deviation, weight))
        assert found == pytest.approx(expected)


def test_quantiles_of_the_levels_are_those_of_the_normal_law():
    assert {level: stats.norm.ppf((1 + level / 100) / 2) for level in LEVELS} == pytest.approx(LEVELS, abs=1e-15)
