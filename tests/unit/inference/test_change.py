"""Tests of a change and of a level, against simulation and enumeration."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from monitor.core.counts import BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.bins import align
from monitor.inference.change import ece_level_ps, ece_rate_p, mover
from monitor.inference.intervals import ece_intervals, mce_intervals
from tests.fakes.one_table import ece_increase_p, ece_level_p, mce_increase_p, mce_level_p, merged, table, unchanged
from tests.fakes.points import mce

Rows = npt.NDArray[np.float64]
SIDES = ("above", "below")


def rows_of(rng: np.random.Generator, n: int, *, stretch: float = 1.5, lift: float = 0.0) -> Counts:
    """Rows of an over-confident classifier; ``lift`` is added to every true rate."""
    score = np.clip(rng.beta(2, 2, n), 0.01, 0.99)
    true = np.clip(1 / (1 + np.exp(-np.log(score / (1 - score)) / stretch)) + lift, 0, 1)
    return counts_from_rows(score, rng.random(n) < true)


def pair(seed: int, n: int = 3000, **window: float) -> tuple[BinCounts, BinCounts]:
    """(window, baseline) on the baseline's edges."""
    rng = np.random.default_rng(seed)
    baseline = rows_of(rng, 20_000)
    edges = equal_frequency_edges(baseline, 15)
    return bin_counts(rows_of(rng, n, **window), edges), bin_counts(baseline, edges)


def test_mover_adds_the_distances_of_the_limits_in_square():
    low, high = mover(Interval(0.10, 0.07, 0.14, 0.1), Interval(0.30, 0.27, 0.42, 0.3))
    assert low == pytest.approx(0.20 - 0.05)  # 3-4-5: 0.03 below the window, 0.04 above the baseline
    assert high == pytest.approx(0.20 + np.hypot(0.12, 0.03))


def test_mover_refuses_an_estimate_that_is_not_defined():
    with pytest.raises(ValueError, match="two estimates"):
        mover(Interval(None, None, None, None), Interval(0.1, 0.0, 0.2, 0.1))


def test_a_rise_is_seen_and_a_fall_is_not_called_one():
    window, baseline = pair(2, lift=0.12)
    assert ece_increase_p(window, baseline) < 1e-6
    assert ece_increase_p(baseline, window) > 0.99


def test_traffic_that_moves_to_where_the_model_was_always_wrong_is_seen_but_not_called_new_behaviour():
    score, rate = [0.2, 0.5, 0.8], [0.2, 0.5, 0.6]
    baseline, window = table([6000, 6000, 3000], score, rate), table([500, 500, 2000], score, rate)
    assert ece_increase_p(window, baseline) < 1e-4
    assert ece_rate_p(window, baseline) > 0.2


def test_new_behaviour_at_the_same_traffic_is_seen_by_both():
    baseline = table([6000, 6000, 3000], [0.2, 0.5, 0.8], [0.2, 0.5, 0.8])
    window = table([1200, 1200, 600], [0.2, 0.5, 0.8], [0.2, 0.4, 0.6])
    assert max(ece_increase_p(window, baseline), ece_rate_p(window, baseline)) < 1e-4


def test_the_p_value_of_a_rise_agrees_with_a_simulated_null():
    """Two windows with the same gaps everywhere: the chance of the change seen, by drawing binomials."""
    n0, n1, c = np.array([4000, 4000]), np.array([700, 700]), np.array([0.4, 0.7])
    baseline, window = table(n0.tolist(), c.tolist(), [0.44, 0.66]), table(n1.tolist(), c.tolist(), [0.47, 0.64])
    rng = np.random.default_rng(4)

    def drawn(n: npt.NDArray[np.int64]) -> Rows:
        rate = rng.binomial(n, c + np.array([0.04, -0.04]), size=(200_000, 2)) / n
        return np.asarray(np.abs(rate - c).mean(axis=1))

    change = (0.07 + 0.06) / 2 - 0.04
    simulated = (drawn(n1) - drawn(n0) >= change - 1e-9).mean()
    assert ece_increase_p(window, baseline) == pytest.approx(simulated, abs=0.02)
    assert ece_rate_p(window, baseline) == pytest.approx(simulated, abs=0.02)


def test_an_increase_of_mce_is_seen_and_its_interval_names_the_worst_bin():
    baseline = table([2000] * 5, [0.1, 0.3, 0.5, 0.7, 0.9], [0.1, 0.3, 0.5, 0.7, 0.9])
    window = table([400] * 5, [0.1, 0.3, 0.5, 0.7, 0.9], [0.1, 0.3, 0.5, 0.5, 0.9])
    assert mce_increase_p(window, baseline) < 1e-4
    found, _ = mce_intervals(merged(window, baseline))
    assert (found.worst_range, found.worst_n) == ((0.6, 0.8), 400)
    assert found.worst_gap == pytest.approx(-0.2)


def test_the_chance_of_a_change_in_mce_agrees_with_a_simulated_null():
    window, baseline = pair(6, n=2500)
    null = unchanged(window, baseline)
    rng = np.random.default_rng(7)
    gap = null.rate[0] - null.score[0]  # the same in both windows

    def largest(bins: BinCounts) -> np.ndarray:
        n = np.rint(bins.n_eff).astype(int)
        drawn = rng.binomial(n, np.clip(bins.score + gap, 0, 1), size=(100_000, n.size)) / n
        return np.abs(drawn - bins.score).max(axis=1)

    risen = largest(window) - largest(baseline)
    for change in (-0.02, 0.0, 0.03, 0.06):
        (p_value,) = null.chance(np.array([change]))
        assert p_value == pytest.approx((risen >= change).mean(), abs=0.015)
    assert mce_increase_p(window, baseline) == null.chance(np.array([mce(window) - mce(baseline)]))[0]


@pytest.mark.parametrize("threshold", [0.02, 0.05, 0.1])
def test_the_level_test_of_ece_below_and_the_interval_say_the_same_and_that_above_is_no_laxer(threshold: float):
    for seed in range(6):
        window, _ = pair(seed, n=1500, stretch=1.0 + 0.3 * seed)
        limits = ece_intervals([window], [], form="analytic")[0]
        assert limits.low > threshold or ece_level_p(window, threshold) >= 0.025
        assert limits.low - 0.015 < threshold or ece_level_p(window, threshold) < 0.025
        assert (ece_level_p(window, threshold, side="below") < 0.025) == (limits.high < threshold)


@pytest.mark.parametrize("wrong", [slice(13, 14), slice(11, 13), slice(0, 15)])  # bins: one, two, all
def test_a_truth_at_the_threshold_is_seldom_above_it_where_gaps_are_concentrated_and_shares_are_drawn(
    wrong: slice,
):
    rng, score, alpha = np.random.default_rng(5), (np.arange(15) + 0.5) / 15, 0.05
    size = np.zeros(15)
    size[wrong] = 0.05 * 15 / (wrong.stop - wrong.start)
    gap = np.where(score > 0.5, -size, size)
    n = rng.multinomial(1000, np.full(15, 1 / 15), size=2000)
    hits = rng.binomial(n, np.clip(score + gap, 0, 1)) / n
    found = ece_level_ps([table(*each) for each in zip(n, np.tile(score, (2000, 1)), hits, strict=True)], 0.05)
    assert np.mean(np.array(found) < alpha) < alpha + 2.33 * np.sqrt(alpha * (1 - alpha) / 2000)


def test_the_level_test_of_one_bin_is_near_the_binomial_one():
    bins = table([2000], [0.5], [0.58])
    p = stats.binom.sf(1159, 2000, 0.55) + stats.binom.cdf(840, 2000, 0.55)
    assert ece_level_p(bins, 0.05) == pytest.approx(p, abs=0.001)
    below = stats.binom.cdf(1160, 2000, 0.6)
    assert ece_level_p(bins, 0.1, side="below") == pytest.approx(below, abs=0.005)


def test_the_level_test_of_mce_is_the_product_over_bins():
    bins = table([200, 300], [0.3, 0.6], [0.3, 0.75])
    k = [np.arange(n + 1) for n in (200, 300)]
    within = [
        stats.binom.pmf(k[m], n, c + sign * 0.1)[np.abs(k[m] / n - c) < 0.15 - 1e-9].sum()
        for m, (n, c, sign) in enumerate([(200, 0.3, 1), (300, 0.6, 1)])
    ]
    assert mce_level_p(bins, 0.1) == pytest.approx(1 - within[0] * within[1], abs=1e-9)


def test_below_a_level_of_mce_holds_whichever_bin_is_the_bad_one():
    bins = table([200, 3000], [0.3, 0.6], [0.3, 0.6])
    k = np.arange(201)
    chance = max(stats.binom.pmf(k, 200, 0.3 + s * 0.05)[np.abs(k / 200 - 0.3) <= 1e-9].sum() for s in (-1, 1))
    assert mce_level_p(bins, 0.05, side="below") == pytest.approx(chance, abs=1e-6)


def test_without_rows_there_is_no_evidence_about_a_level():
    none = table([0], [0], [0])
    for side in SIDES:
        assert ece_level_p(none, 0.1, side=side) == 1.0
        assert mce_level_p(none, 0.1, side=side) == 1.0


def test_a_level_that_the_scores_cannot_reach_is_never_exceeded():
    surely_right = table([500], [0.95], [1.0])
    assert ece_level_p(surely_right, 0.2) == 1.0
    assert mce_level_p(surely_right, 0.2) == 1.0


def test_where_scores_stay_the_baselines_edges_serve_both_windows():
    rng = np.random.default_rng(1)
    baseline, window = rows_of(rng, 10_000), rows_of(rng, 2000)
    edges = equal_frequency_edges(baseline, 15)
    found = align(window, baseline, edges, 15)
    assert (found.rebinned, found.comparable, found.usable) == (False, 1.0, True)
    assert found.moved_share <= 0.2
    assert found.window.upper.tolist() == found.baseline.upper.tolist() == list(edges)
    assert found.window.n.sum() == 2000


def test_where_scores_move_within_the_range_both_windows_get_new_bins():
    baseline = counts_from_rows(np.repeat([0.10, 0.50, 0.90], 2000), np.tile([0, 1], 3000))
    spread = np.linspace(0.05, 0.95, 3000)
    wide = counts_from_rows(np.concatenate([spread] * 2), np.tile([0, 1], 3000))
    edges = equal_frequency_edges(wide, 4)
    moved = counts_from_rows(np.linspace(0.05, 0.95, 1500) ** 1.3, np.tile([0, 1], 750))
    found = align(moved, wide, edges, 15)
    assert found.rebinned
    assert found.moved_share > 0.2
    assert found.usable
    assert found.comparable == pytest.approx(1.0, abs=0.1)
    assert align(moved, baseline, equal_frequency_edges(baseline, 3), 15).usable is False


def test_bins_the_baseline_does_not_know_are_emptied_in_both_windows():
    rng = np.random.default_rng(3)
    baseline = counts_from_rows(rng.uniform(0, 0.85, 20_000), rng.random(20_000) < 0.5)
    window = counts_from_rows(rng.uniform(0.0, 1.0, 3000) ** 0.85, rng.random(3000) < 0.5)
    found = align(window, baseline, equal_frequency_edges(baseline, 3), 15)
    assert found.rebinned
    emptied = found.window.n == 0
    assert emptied.any()
    assert (found.baseline.n[emptied] == 0).all()
    assert found.window.n.sum() / 3000 == pytest.approx(found.comparable)
    assert found.usable == (found.comparable >= 0.8)
    assert found.window.range_of(len(found.window.n) - 1)[1] == 1.0


def test_scores_that_left_the_baselines_range_are_not_comparable():
    rng = np.random.default_rng(3)
    baseline = counts_from_rows(rng.uniform(0, 0.5, 20_000), rng.random(20_000) < 0.5)
    window = counts_from_rows(rng.uniform(0.5, 1.0, 3000), rng.random(3000) < 0.5)
    found = align(window, baseline, equal_frequency_edges(baseline, 15), 15)
    assert not found.usable
    assert found.moved_share == 1.0
    assert found.comparable < 0.2


def test_bins_with_nearly_the_largest_gap_are_taken_to_have_it():
    """Common gaps: the pooled ones, one standard error larger, up to the debiased largest one."""
    n0, n1, score = 18_000, 2_000, [0.3, 0.5, 0.7]
    baseline, window = (table([n] * 3, score, [0.30, 0.598, 0.8]) for n in (n0, n1))
    null = unchanged(window, baseline)
    sd = np.sqrt(0.3 * 0.7 / (n0 + n1))
    assert null.error[0] == pytest.approx(0.1, abs=0.004)
    gap = null.rate[0] - null.score[0]
    assert gap[1:] == pytest.approx([null.error[0]] * 2, abs=1e-9)  # .098 and .1, with a standard error of .0035
    assert gap[0] == pytest.approx(sd, abs=1e-9)


def test_a_window_without_rows_is_no_evidence():
    some, none = table([100], [0.5], [0.5]), table([0], [0], [0])
    for p_of in (ece_increase_p, ece_rate_p, mce_increase_p):
        assert p_of(none, some) == p_of(some, none) == 1.0
