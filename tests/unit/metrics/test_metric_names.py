"""What alerts.yaml may name is what there is: the names are kept apart, so that a stop does not wait for NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from monitor.core.counts import counts_from_rows
from monitor.metrics import calibration, cost, names, registry
from tests.fakes.points import point


def test_the_names_are_those_of_the_registry():
    assert set(names.NEEDS) == set(registry.METRICS)
    assert tuple(registry.METRICS)[: len(names.CONTRACT)] == names.CONTRACT
    assert set(names.ALIASES.values()) <= set(names.NEEDS)
    assert not set(names.ALIASES) & set(names.NEEDS)


def test_metrics_with_one_value_wherever_all_rows_were_predicted_are_known():
    rng = np.random.default_rng(5)
    parts = []
    for rate in (0.3, 0.6, 0.8):
        score = rng.uniform(0.5, 1, 200)
        parts.append(counts_from_rows(score, rng.random(200) < rate, automate_at=0.8).where("predicted"))
    of_counts = [metric for metric in registry.METRICS.values() if metric.needs == "counts"]
    values = {metric.name: {point(metric.name, part) for part in parts} for metric in of_counts}
    constant = {name: found.pop() for name, found in values.items() if len(found) == 1}
    assert constant == pytest.approx(dict(names.WHERE_PREDICTED))
    assert {point("share_to_people", part.where("automated")) for part in parts} == {0.0}


def test_no_two_metrics_have_one_name():
    every = [metric.name for module in registry._MODULES for metric in module.REGISTERED]
    assert sorted([*names.CONTRACT, *every, *names.EXPECTED]) == sorted(registry.METRICS)


def test_ranges_other_than_0_to_1_are_those_of_the_formulas():
    ranges = {
        (0.0, -math.log(calibration.EPSILON)): [
            "nll",
            "class_weighted_nll",
            "class_nll",
            "entropy_weighted_nll",
            *(f"nll_at_{k}" for k in names.RANKS),
        ],
        (-1.0, 1.0): [
            "overconfidence",
            "kappa",
            "multiclass_mcc",
            "matthews_correlation",
            "point_biserial",
            "expected_overconfidence",
        ],
        (0.0, math.inf): ["score_entropy", "class_entropy", "class_mutual_information", "mse", "rmse", "mae"],
        (0.0, 0.25): ["brier_resolution", "brier_uncertainty"],
        (0.0, math.sqrt(2)): ["certainty_divergence"],
        (0.0, math.log(2)): ["mutual_information"],
        (-math.inf, 1.0): ["r_squared"],
        (-math.inf, math.inf): ["normal_nll", "cohens_d", "excess_errors"],
    }
    said = {name: found for found, every in ranges.items() for name in every}
    said |= dict.fromkeys(cost.ON_GROUPS, (0.0, math.inf))  # a source may say what its mistakes cost
    assert dict(names.RANGES) == said
