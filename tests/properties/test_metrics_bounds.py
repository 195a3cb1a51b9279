"""What must hold for any rows: ties, weights, soft outcomes, one class, one row."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.levels import detectable_change, interval
from monitor.metrics.registry import CONTRACT, METRICS, range_of
from tests.fakes.changes import increase_test
from tests.fakes.one_table import level_detectable, level_p
from tests.fakes.points import point

# those with a law in closed form; the others are drawn
NAMES = [*(name for name in CONTRACT if METRICS[name].needs != "bins"), "precision", "recall", "f1"]
LIMITS = dict.fromkeys(METRICS, (0.0, 1.0)) | {"nll": (0.0, 35.0), "overconfidence": (-1.0, 1.0)}

SCORES = st.sampled_from([0.0, 0.1, 0.10001, 0.5, 0.50004, 0.9, 1.0]) | st.integers(1, 99_999).map(
    lambda k: k / 100_000
)
OUTCOMES = st.sampled_from([0.0, 1.0]) | st.sampled_from([0.25, 0.5, 1 / 3])
ROWS = st.tuples(SCORES, OUTCOMES, st.sampled_from([1.0, 1.0, 0.1, 7.3]), st.booleans())


@st.composite
def counts_of_any_rows(draw: st.DrawFn) -> Counts:
    rows = draw(st.lists(ROWS, min_size=1, max_size=40))
    score, outcome, weight, predicted = zip(*rows, strict=True)
    return counts_from_rows(
        score,
        outcome,
        weight=weight,
        predicted=predicted,
        design_effect=draw(st.sampled_from([1.0, 1.0, 3.7])),
        score_is=draw(st.sampled_from(["probability_of_label", "confidence_in_prediction"])),
    )


@given(counts=counts_of_any_rows())
def test_every_value_is_none_or_within_the_range_of_its_metric(counts: Counts):
    bins = bin_counts(counts, equal_frequency_edges(counts, 5))
    for name, metric in METRICS.items():
        if metric.needs in ("counts", "bins"):
            value = point(metric.name, bins if metric.needs == "bins" else counts)
            low, high = range_of(name)
            rounding = 0.0 if name in CONTRACT else 1e-12  # sums of many terms may end a last digit outside
            assert value is None or low - rounding <= value <= high + rounding


@given(counts=counts_of_any_rows(), confidence=st.sampled_from([0.6, 0.95, 0.999]))
def test_every_interval_holds_its_value_and_stays_in_range(counts: Counts, confidence: float):
    for name in NAMES:
        found = interval(name, counts, confidence)
        assert found.value == found.plug_in
        if found.value is None:
            assert point(name, counts) is None
            continue
        assert found.value == pytest.approx(point(name, counts), abs=1e-9)
        assert LIMITS[name][0] - 1e-12 <= found.low <= found.value <= found.high
        assert found.high <= LIMITS[name][1] + 1e-12 or name == "nll"
        assert math.isfinite(found.high)


@given(counts=counts_of_any_rows(), threshold=st.floats(-0.2, 1.2), rate=st.sampled_from([0.05, 0.0005]))
def test_p_values_are_probabilities_and_distances_are_not_negative(counts: Counts, threshold: float, rate: float):
    for name in NAMES:
        for side in ("above", "below"):
            p = level_p(name, counts, threshold, side)
            assert (p is None) == (point(name, counts) is None)
            assert p is None or 0 <= p <= 1
            distance = level_detectable(name, counts, threshold, side, rate)
            assert distance is None or 0 <= distance < math.inf


@given(window=counts_of_any_rows(), baseline=counts_of_any_rows())
def test_an_increase_has_numbers_where_both_windows_define_the_metric(window: Counts, baseline: Counts):
    baseline = replace(baseline, score_is=window.score_is)
    for name in NAMES:
        found = increase_test(name, window, baseline, 0.95)
        both = point(name, window) is not None and point(name, baseline) is not None
        assert (found.p_value is not None) == both
        if both:
            assert 0 <= found.p_value <= 1
            assert found.low - 1e-12 <= found.change <= found.high + 1e-12
        distance = detectable_change(name, window, baseline, 0.01)
        assert distance is None or 0 <= distance < math.inf


@given(counts=counts_of_any_rows(), factor=st.sampled_from([0.01, 3.0, 1e4]))
def test_the_unit_of_the_weights_does_not_matter(counts: Counts, factor: float):
    scaled = {name: getattr(counts, name) * factor for name in ("w", "ws", "wy", "wsy", "ws2", "wy2")}
    other = replace(counts, **scaled, w2=counts.w2 * factor**2)
    for name in NAMES:
        one, two = interval(name, counts, 0.95), interval(name, other, 0.95)
        assert (one.value is None) == (two.value is None)
        if one.value is not None:
            assert (two.value, two.low, two.high) == pytest.approx((one.value, one.low, one.high), rel=1e-6, abs=1e-6)


@settings(max_examples=50)
@given(counts=counts_of_any_rows())
def test_the_evidence_against_a_higher_threshold_is_never_weaker(counts: Counts):
    thresholds = np.linspace(0.05, 0.95, 10)
    for name in ("accuracy", "overconfidence", "false_negative_rate", "roc_auc", "pr_auc", "brier"):
        p_values = [level_p(name, counts, float(threshold), "below") for threshold in thresholds]
        if None not in p_values:
            assert all(np.diff(np.array(p_values, dtype=float)) <= 1e-12)
