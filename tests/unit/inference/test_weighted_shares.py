"""Shares whose parts have unequal weights: exact where each part has one weight, on the safe side elsewhere."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from monitor.core.counts import Counts, counts_from_rows
from monitor.inference.levels import interval, law_of
from monitor.inference.sampling import FScore, Proportion
from monitor.inference.weighted_shares import WeightedPart, WeightedShare, unequal_share
from tests.fakes.changes import increase_test

NAMES = ("false_negative_rate", "recall", "false_positive_rate", "specificity", "f1")


def part(rows: float, weight: float) -> WeightedPart:
    return WeightedPart(rows * weight, rows * weight**2, weight)


def share(one: int, other: int, weight: float) -> WeightedShare:
    return WeightedShare(part(one, weight), part(other, 1.0))


def of_rows(pi: float, weight: float) -> float:
    """The share of the weights, from the share of the rows; written anew."""
    return weight * pi / (weight * pi + 1 - pi)


@given(st.integers(0, 60), st.integers(0, 400), st.sampled_from([0.2, 3.0, 20.0, 100.0]))
def test_with_one_weight_in_each_part_limits_are_those_of_clopper_and_pearson_transformed(one, other, weight):
    if one + other == 0:
        return
    low, high = Proportion(one / (one + other), one + other).interval(0.95)
    found = share(one, other, weight).interval(0.95)
    assert found == pytest.approx((of_rows(low, weight), of_rows(high, weight)), abs=1e-9)


@given(st.integers(0, 40), st.integers(1, 200), st.floats(0.01, 0.99), st.sampled_from([3.0, 50.0]))
def test_p_values_are_binomial_tails(one, other, truth, weight):
    pi = truth / (truth + weight * (1 - truth))
    rows = stats.binom(one + other, pi)
    law = share(one, other, weight)
    assert law.p_value(truth, "above") == pytest.approx(rows.sf(one - 1), abs=1e-9)
    assert law.p_value(truth, "below") == pytest.approx(rows.cdf(one), abs=1e-9)


weights = st.floats(0.1, 100)
rows = st.lists(st.tuples(st.floats(0, 1), st.booleans(), weights), min_size=1, max_size=40)


def counts_of(drawn: list[tuple[float, bool, float]], effect: float = 1.0) -> Counts:
    score, outcome, weight = zip(*drawn, strict=True)
    return counts_from_rows(score, [float(y) for y in outcome], weight=weight, design_effect=effect)


@given(
    st.lists(st.tuples(st.floats(0, 1), st.booleans(), st.just(2.5)), min_size=1, max_size=40), st.sampled_from(NAMES)
)
def test_rows_of_equal_weight_keep_the_law_that_they_had(drawn, name):
    assert unequal_share(name, counts_of(drawn)) is None


def test_interval_and_p_value_agree_on_what_is_within_the_limits():
    law = share(3, 60, 20.0)
    low, high = law.interval(0.95)
    assert law.p_value(low, "above") == pytest.approx(0.025)
    assert law.p_value(high, "below") == pytest.approx(0.025)


def test_nothing_missed_leaves_room_for_as_much_as_one_heavy_row():
    counts = counts_from_rows([0.9] * 100 + [0.1] * 50, [1] * 100 + [0] * 50, weight=[1.0] * 100 + [20.0] * 50)
    found = interval("false_negative_rate", counts, 0.95)
    assert (found.value, found.low) == (0.0, 0.0)
    pi = 1 - 0.025 ** (1 / 100)
    assert found.high == pytest.approx(of_rows(pi, 20.0))
    assert found.high > 0.4  # three missed ones of weight 20 would not be a surprise


def test_copies_count_as_the_rows_behind_them():
    drawn = [(0.9, True, 1.0)] * 60 + [(0.1, True, 20.0)] * 4 + [(0.1, False, 20.0)] * 40
    thrice = counts_of(drawn * 3, effect=3.0)
    assert interval("recall", thrice, 0.95).low == pytest.approx(interval("recall", counts_of(drawn), 0.95).low)
    assert interval("recall", thrice, 0.95).high == pytest.approx(interval("recall", counts_of(drawn), 0.95).high)


@pytest.mark.parametrize("keep", [5, 20, 100])
def test_intervals_of_a_reviewed_sample_cover_and_p_values_hold(keep):
    rng, runs, misses = np.random.default_rng(keep), 400, 0.2
    covered = rung = before = 0
    for _ in range(runs):
        found, missed = rng.poisson(300), rng.poisson(75 / keep)
        clean = rng.poisson(2000 / keep)
        weight = [1.0] * found + [float(keep)] * (missed + clean)
        score, outcome = [0.9] * found + [0.1] * (missed + clean), [1] * (found + missed) + [0] * clean
        counts = counts_from_rows(score, outcome, weight=weight)
        law = law_of("false_negative_rate", counts)
        low, high = law.interval(0.95)
        covered += low <= misses <= high
        rung += law.p_value(misses, "above") <= 0.01
        total = found + keep * missed
        plain = Proportion(keep * missed / total, total**2 / (found + keep**2 * missed)).interval(0.95)
        before += plain[0] <= misses <= plain[1]
    assert covered >= stats.binom.ppf(0.001, runs, 0.95)
    assert rung <= stats.binom.ppf(0.999, runs, 0.01)
    assert before < covered


def test_what_is_detectable_is_seen_about_four_times_in_five():
    rng, keep = np.random.default_rng(3), 10.0
    law = share(12, 300, keep)
    distance = law.detectable(0.2, "above", 0.05)
    truth = 0.2 + distance
    pi = truth / (truth + keep * (1 - truth))
    drawn = rng.binomial(312, pi, size=400)
    seen = sum(share(int(one), 312 - int(one), keep).p_value(0.2, "above") <= 0.05 for one in drawn)
    assert 0.72 <= seen / 400 <= 0.88


def test_a_rise_of_the_missed_is_found_and_no_rise_is_seldom_found():
    rng = np.random.default_rng(8)

    def window(rate: float, size: int) -> Counts:
        found, missed, clean = rng.poisson(size * (1 - rate)), rng.poisson(size * rate / 10), rng.poisson(size)
        weight = [1.0] * found + [10.0] * (missed + clean)
        return counts_from_rows(
            [0.9] * found + [0.1] * (missed + clean), [1] * (found + missed) + [0] * clean, weight=weight
        )

    same = [increase_test("false_negative_rate", window(0.2, 400), window(0.2, 2000), 0.95) for _ in range(200)]
    assert sum(test.p_value <= 0.02 for test in same) <= stats.binom.ppf(0.999, 200, 0.02)
    worse = increase_test("false_negative_rate", window(0.6, 400), window(0.2, 2000), 0.95)
    assert worse.p_value < 1e-4


def test_an_f1_of_unequal_weights_is_that_of_its_jaccard_index():
    counts = counts_of([(0.9, True, 1.0)] * 60 + [(0.9, False, 1.0)] * 9 + [(0.1, True, 20.0)] * 2)
    law = law_of("f1", counts)
    assert isinstance(law, FScore)
    assert isinstance(law.jaccard, WeightedShare)
    assert law.value == pytest.approx(2 * 60 / (2 * 60 + 9 + 40))
