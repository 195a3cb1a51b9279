"""Intervals of ECE and MCE, against enumeration, scipy and brute-force simulation."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.binomial import absolute_moments, whole
from monitor.inference.bins import merge_thin
from monitor.inference.gaps import (
    GapTables,
    analytic_limits,
    exact_moments,
    moments,
    stack,
    tail,
)
from monitor.inference.intervals import breaching_bins, ece_intervals
from monitor.inference.maximum import clopper_pearson, stays_within
from monitor.inference.resampling import Resampling
from tests.fakes.one_table import mce_interval, table

CELLS = 10_000


def distorted(n: int, seed: int, stretch: float = 1.5) -> BinCounts:
    """Fifteen bins of an over-confident classifier."""
    rng = np.random.default_rng(seed)
    score = rng.beta(2, 2, n)
    true = 1 / (1 + np.exp(-np.log(score / (1 - score)) / stretch))
    counts = counts_from_rows(score, rng.random(n) < true)
    return bin_counts(counts, equal_frequency_edges(counts, 15))


def reach(n: np.ndarray, c: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How fast each gap shrinks, word for word: min(1, 2s / |d|), one on average over the rows."""
    middle = (c + y) / 2
    noise = 2 * np.sqrt(middle * (1 - middle) / n)
    pace = np.array([1.0 if d <= s else s / d for d, s in zip(np.abs(y - c), noise, strict=True)])
    return np.asarray(pace * n.sum() / (n * pace).sum())


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(count)]


def numbers(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.value, interval.high


def test_moments_of_the_plug_in_agree_with_a_brute_force_simulation():
    bins = stack([table([400, 900, 300], [0.2, 0.5, 0.8], [0.25, 0.48, 0.7])])
    rate = np.array([[0.22, 0.47, 0.75]])
    at = moments(bins, rate)
    rng = np.random.default_rng(1)
    drawn = rng.binomial(bins.n[0].astype(int), rate[0], size=(400_000, 3)) / bins.n[0]
    error = (bins.share[0] * np.abs(drawn - bins.score[0])).sum(axis=1)
    assert at.mean[0] == pytest.approx(error.mean(), abs=2e-4)
    assert at.variance[0] == pytest.approx(error.var(), rel=0.02)
    assert at.third[0] == pytest.approx(stats.moment(error, 3), rel=0.15)
    for level in (0.02, 0.04, 0.06):
        assert tail(level, at)[0] == pytest.approx((error >= level).mean(), abs=0.01)


def test_the_moments_of_one_bin_are_those_of_a_folded_normal():
    at = moments(stack([table([400], [0.5], [0.52])]), np.array([[0.53]]))
    sd = np.sqrt(0.53 * 0.47 / 400)
    mean, variance, skew = stats.foldnorm(0.03 / sd, scale=sd).stats("mvs")
    assert (at.mean[0], at.variance[0]) == pytest.approx((mean, variance))
    assert at.third[0] == pytest.approx(skew * variance**1.5)


def test_the_analytic_limits_are_where_a_brute_force_simulation_says():
    bins = stack([distorted(3000, seed=3)])
    low, point, high = analytic_limits(bins, 0.95)
    rng = np.random.default_rng(2)

    def share_beyond(error: float) -> float:
        """T at the shrunk path's hypothesis with this ECE, by drawing binomials."""
        size = np.abs(bins.gap[0])
        pace = reach(bins.n[0], bins.score[0], bins.score[0] + bins.gap[0])

        def gaps(a: float) -> np.ndarray:
            return np.asarray(np.maximum(0, size - a * (pace if a > 0 else 1)))

        shift = brentq(lambda a: (bins.share[0] * gaps(a)).sum() - error, -1, (size / pace).max())
        rate = bins.score[0] + bins.sign[0] * gaps(shift)
        drawn = rng.binomial(np.rint(bins.n[0]).astype(int), np.clip(rate, 0, 1), size=(60_000, rate.size)) / bins.n[0]
        return ((bins.share[0] * np.abs(drawn - bins.score[0])).sum(axis=1) >= bins.plug_in[0]).mean()

    assert share_beyond(low[0]) == pytest.approx(0.025, abs=0.005)
    assert share_beyond(point[0]) == pytest.approx(0.5, abs=0.015)
    assert share_beyond(high[0]) > 0.97  # the larger of two paths


def uniforms(seed: int, resamples: int) -> np.ndarray:
    """The Latin hypercube of one bin: one uniform in each of so many strata, in random order."""
    rng = np.random.default_rng(seed)
    order = rng.permuted(np.arange(resamples)[None], axis=1)[0]
    return ((np.arange(resamples) + rng.random((1, resamples))[0]) / resamples)[order]


@pytest.mark.parametrize(
    ("n", "rate"), [(7, 0.3), (40, 0.02), (40, 0.98), (180, 0.5), (60_000, 0.9995), (5, 1.0), (5, 0.0)]
)
def test_drawn_hits_are_exact_binomial_quantiles_where_the_variance_is_small(n: int, rate: float):
    one = np.ones((1, 1))
    bins = GapTables(n * one, 0 * one, 0 * one, one, one)  # a score of 0: the error is the hit rate
    hits = Resampling(bins, np.random.default_rng(5), 2000).errors(np.array([rate])) * n
    np.testing.assert_allclose(hits, stats.binom.ppf(uniforms(5, 2000), n, rate), atol=1e-6)


@pytest.mark.parametrize(("n", "rate"), [(400, 0.5), (5000, 0.03), (5000, 0.97)])
def test_drawn_hits_miss_a_quantile_by_one_at_most_where_the_variance_is_large(n: int, rate: float):
    one = np.ones((1, 1))
    bins = GapTables(n * one, 0 * one, 0 * one, one, one)
    hits = Resampling(bins, np.random.default_rng(5), 2000).errors(np.array([rate])) * n
    exact = stats.binom.ppf(uniforms(5, 2000), n, rate)
    assert np.abs(hits - exact).max() <= 1 + 1e-6
    assert np.mean(np.abs(hits - exact) < 0.5) > 0.97


def literal_limits(n: list[int], c: np.ndarray, y: np.ndarray) -> tuple[float, float, float]:
    """Test inversion word for word, by enumerating every outcome of a small table with scipy's binomial."""
    rows, w = np.array(n), np.array(n) / sum(n)
    d, pace = y - c, reach(rows, c, y)
    sign = np.where(d == 0, np.where(c < 0.5, 1, -1), np.sign(d))
    seen = (w * np.abs(d)).sum()
    outcomes = np.array(list(product(*(range(size + 1) for size in n))))
    error = (w * np.abs(outcomes / rows - c)).sum(axis=1)

    def rates(x: float, uniform: bool) -> np.ndarray:
        g = np.full(len(c), x) if uniform else np.maximum(0, np.abs(d) + x * (pace if x < 0 else 1))
        return np.asarray(np.clip(c + sign * g, 0, 1))

    def chances(p: np.ndarray) -> np.ndarray:
        return np.asarray(stats.binom.pmf(outcomes, rows, p).prod(axis=1))

    calm = chances(c)
    mean = (calm * error).sum()
    floor = max(seen, mean - np.sqrt((calm * (error - mean) ** 2).sum()))

    def limit(target: float, chosen: np.ndarray, uniform: bool) -> float:
        def short(x: float) -> float:
            return chances(rates(x, uniform))[chosen].sum() - target

        start = 0.0 if uniform else -(np.abs(d) / pace).max()
        x = start if short(start) >= 0 else brentq(short, start, 1.0)
        return (w * np.abs(rates(x, uniform) - c)).sum()

    reached, beyond = error >= seen - 1e-12, error > floor + 1e-12
    low, point = limit(0.025, reached, False), limit(0.5, reached, False)
    return low, point, max(limit(0.975, beyond, uniform) for uniform in (False, True))


SMALL = [
    ([12, 15, 9], [0.2, 0.45, 0.8], [6 / 12, 10 / 15, 5 / 9]),
    ([12, 15, 9], [0.2, 0.45, 0.8], [2 / 12, 7 / 15, 7 / 9]),
    ([20, 30], [0.85, 0.6], [10 / 20, 15 / 30]),
    ([8, 8, 8, 8], [0.1, 0.3, 0.6, 0.9], [1 / 8, 5 / 8, 3 / 8, 4 / 8]),
    ([60], [0.5], [42 / 60]),
    ([40, 25], [0.03, 0.06], [0.0, 4 / 25]),
]


@pytest.mark.parametrize(("n", "score", "rate"), SMALL)
def test_small_tables_have_the_limits_of_the_literal_formulas(n: list[int], score: list[float], rate: list[float]):
    exact = literal_limits(n, np.array(score), np.array(rate))
    drawn = ece_intervals([table(n, score, rate)], generators(1), resamples=20_000)[0]
    closed = ece_intervals([table(n, score, rate)], [], form="analytic")[0]
    # the bootstrap leaves its Monte Carlo error, the closed form less than half a step 1/N
    assert numbers(drawn) == pytest.approx(exact, abs=0.005)
    assert numbers(closed) == pytest.approx(exact, abs=max(0.005, 0.5 / sum(n)))


def test_the_moments_of_a_bin_are_those_of_every_outcome_weighed():
    rng = np.random.default_rng(4)
    for n in [*rng.integers(1, 60, 60).astype(float), *rng.uniform(0.05, 1, 20), *rng.uniform(1, 40, 40)]:
        c, p = rng.choice([0.0, 1.0, 0.5, rng.random()]), rng.choice([0.0, 1.0, rng.random(), 0.01 * rng.random()])
        rows, stretch = (float(part[0]) for part in whole(np.array([n])))
        k = np.arange(rows + 1)
        chance = stats.binom.pmf(k, rows, p)
        size = np.abs(np.clip(p + stretch * (k / rows - p), 0, 1) - c)
        mean = (chance * size).sum()
        crowd = max(1 / n, 1.0)
        central = [crowd ** (power - 1) * (chance * (size - mean) ** power).sum() for power in (2, 3)]
        found = absolute_moments(*(np.array([value]) for value in (n, c, p)))
        assert [float(value[0]) for value in found] == pytest.approx([mean, *central], abs=1e-10)


def test_thin_bins_have_exact_moments_where_a_normal_distribution_misses_by_a_tenth():
    bins = stack([table([14] * 15, [0.02] * 15, [0.0] * 15)])
    k = np.arange(15)
    exact = (stats.binom.pmf(k, 14, 0.003) * np.abs(k / 14 - 0.02)).sum()
    rate = np.full((1, 15), 0.003)
    found, _ = exact_moments(bins, rate)
    assert found.mean[0] == pytest.approx(exact, rel=1e-9)
    assert moments(bins, rate).mean[0] < 0.9 * exact
    large = stack([table([3000] * 5, [0.5] * 5, [0.5] * 5)])
    assert exact_moments(large, large.score)[0].mean[0] == pytest.approx(moments(large, large.score).mean[0])


def test_a_tie_is_half_a_step_of_the_plug_in_where_every_bin_keeps_its_sign():
    bins = stack([table([300, 100], [0.5, 0.5], [0.7, 0.7])])  # 400 rows, each a step of 1/400
    (surely,), (as_often_as_not,) = (exact_moments(bins, np.full((1, 2), rate))[1] for rate in (0.7, 0.5))
    assert surely == pytest.approx(1 / 800, rel=1e-4)
    assert as_often_as_not == pytest.approx(1 / 800 / 4)


def test_very_rare_labels_have_an_analytic_interval_that_covers():
    # 200 rows at a mean score of .02 that are worth .003: six samples in ten hold no hit at all
    rng = np.random.default_rng(11)
    held = 0
    for _ in range(300):
        score = np.clip(rng.beta(0.6, 30, 200), 1e-6, 1 - 1e-6)
        true = 1 / (1 + ((1 - score) / score) ** (1 / 0.6))
        counts = counts_from_rows(score, rng.random(200) < true)
        bins = bin_counts(counts, equal_frequency_edges(counts, 15))
        low, _, high = numbers(ece_intervals([bins], [], form="analytic")[0])
        index = np.searchsorted(bins.upper, np.floor(score * CELLS + 0.5))
        error = np.abs(np.bincount(index, weights=true - score, minlength=len(bins.n))).sum() / 200
        held += low <= error <= high
    assert held >= 0.95 * 300


def test_empty_bins_change_nothing():
    plain = table([50, 70], [0.2, 0.8], [0.3, 0.6])
    padded = table([0, 50, 0, 70, 0], [0, 0.2, 0, 0.8, 0], [0, 0.3, 0, 0.6, 0])
    forms = ["bootstrap", "analytic"]
    for form in forms:
        one, two = (ece_intervals([bins], generators(1), form=form)[0] for bins in (plain, padded))
        assert numbers(one) == pytest.approx(numbers(two), abs=1e-12)


def test_fewer_effective_rows_widen_the_interval():
    independent, clustered = (table([500, 500], [0.3, 0.7], [0.35, 0.62], effect) for effect in (1.0, 3.7))
    for form in ("bootstrap", "analytic"):
        one, two = (ece_intervals([b], generators(1), form=form)[0] for b in (independent, clustered))  # type: ignore[arg-type]
        low1, _, high1 = numbers(one)
        low2, _, high2 = numbers(two)
        assert high2 - low2 > high1 - low1


def test_a_larger_confidence_gives_a_wider_interval():
    bins = distorted(2000, seed=6)
    narrow, wide = (ece_intervals([bins], generators(1), confidence=c)[0] for c in (0.8, 0.99))
    assert numbers(wide)[0] < numbers(narrow)[0]
    assert numbers(wide)[2] > numbers(narrow)[2]


def test_without_rows_nothing_is_defined():
    nothing = table([0, 0], [0, 0], [0, 0])
    unknown = Interval(None, None, None, None)
    assert ece_intervals([nothing], generators(1)) == [unknown]
    assert mce_interval(nothing).interval == unknown
    assert breaching_bins(nothing, 0.1, 0.95) == []
    assert ece_intervals([], []) == []


def test_a_missing_generator_is_refused():
    bins = table([10], [0.5], [0.5])
    with pytest.raises(ValueError, match="1 tables, 0 generators"):
        ece_intervals([bins], [])


@pytest.mark.parametrize("hits", [0, 1, 17, 50])
def test_clopper_pearson_is_the_one_of_the_beta_distribution(hits: int):
    low, high = clopper_pearson(np.array([float(hits)]), np.array([50.0 - hits]), 0.025)
    expected = stats.binomtest(hits, 50).proportion_ci(0.95, method="exact")
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_clopper_pearson_takes_a_fractional_n_as_it_is():
    low, high = clopper_pearson(np.array([4.5]), np.array([16.0]), 0.025)
    assert low[0] == pytest.approx(stats.beta.ppf(0.025, 4.5, 17.0))
    assert high[0] == pytest.approx(stats.beta.ppf(0.975, 5.5, 16.0))


@pytest.mark.parametrize(
    ("n", "c", "p"), [(12, 0.5, 0.6), (7, 0.13, 0.2), (20, 0.95, 0.9), (5, 0.0, 0.0), (5, 1.0, 0.7)]
)
def test_the_chance_of_a_gap_is_the_enumerated_one(n: int, c: float, p: float):
    k = np.arange(n + 1)
    limits = np.array([0.0, 0.04, 0.1, 0.25, 0.5, 0.51, 1.01])
    expected = [stats.binom.pmf(k, n, p)[np.abs(k / n - c) < x - 1e-12].sum() for x in limits]
    found = stays_within(limits, np.array(float(n)), np.array(c), np.array(p))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_mce_limits_share_the_error_among_bins_below_but_not_above():
    bins = table([200, 300, 400], [0.2, 0.5, 0.9], [0.2, 0.62, 0.85])
    low, _, high = numbers(mce_interval(bins).interval)
    k, n = 186.0, 300.0
    assert low == pytest.approx(stats.beta.ppf(0.05 / 6, k, n - k + 1) - 0.5)
    assert high == pytest.approx(stats.beta.ppf(0.975, k + 1, n - k) - 0.5)


def test_the_mce_point_is_where_the_largest_gap_is_reached_half_of_the_time():
    score, rows, rate = np.array([0.2, 0.5, 0.9]), np.array([200, 300, 400]), np.array([0.23, 0.62, 0.85])
    found = mce_interval(table(rows.tolist(), score.tolist(), rate.tolist())).interval
    assert found.plug_in == pytest.approx(0.12)
    gap = rate - score
    shrunk = np.maximum(0, np.abs(gap) - (0.12 - found.value))
    drawn = np.random.default_rng(3).binomial(rows, score + np.sign(gap) * shrunk, size=(200_000, 3)) / rows
    assert (np.abs(drawn - score).max(axis=1) >= 0.12 - 1e-9).mean() == pytest.approx(0.5, abs=0.05)
    assert 0 < found.value < 0.12


def test_the_worst_bin_is_named_with_its_scores_its_rows_and_the_direction():
    found = mce_interval(table([200, 300, 0, 400], [0.2, 0.4, 0, 0.9], [0.2, 0.45, 0, 0.7]))
    assert (found.worst_range, found.worst_n) == ((0.5, 1.0), 400)
    assert found.worst_gap == pytest.approx(-0.2)
    assert found.bins.n.tolist() == [200, 300, 400]


def test_plug_in_mce_is_of_the_bins_as_given_and_the_limits_of_merged_ones():
    thin = table([5, 200], [0.1, 0.8], [0.9, 0.8])
    found = mce_interval(thin)
    assert found.interval.plug_in == pytest.approx(0.8)
    assert found.worst_n == 205
    assert numbers(found.interval)[2] < 0.2


def test_thin_bins_are_merged_until_all_windows_have_enough_and_the_rest_joins_the_last():
    one = table([60, 60, 150, 100, 20], [0.1, 0.3, 0.5, 0.7, 0.9], [0.1] * 5)
    two = table([500, 30, 80, 400, 400], [0.1, 0.3, 0.5, 0.7, 0.9], [0.2] * 5)
    first, second = merge_thin([one, two])
    assert first.n.tolist() == [120, 270]
    assert first.upper.tolist() == second.upper.tolist()
    assert (second.n >= 100).all()
    assert first.n.sum() == one.n.sum()


def test_merged_bins_are_those_that_coarser_edges_give_weights_and_clusters_included():
    rng = np.random.default_rng(0)
    score = rng.random(900)
    counts = counts_from_rows(score, rng.random(900) < score, weight=rng.uniform(0.5, 3, 900), design_effect=1.7)
    merged = merge_thin([bin_counts(counts, equal_frequency_edges(counts, 15))])[0]
    direct = bin_counts(counts, merged.upper.tolist())
    assert len(merged.n) < 15
    for name in ("n", "w", "ws", "wy", "n_eff"):
        np.testing.assert_allclose(getattr(merged, name), getattr(direct, name), rtol=1e-9)


def test_a_window_of_too_few_rows_is_one_bin():
    assert merge_thin([table([3, 4, 5], [0.1, 0.5, 0.9], [0, 1, 1])])[0].n.tolist() == [12]
    assert merge_thin([]) == []


def test_breaching_bins_are_joined_where_adjacent_and_not_where_unsure():
    bins = table([1000, 1000, 1000, 1000, 120], [0.1, 0.3, 0.5, 0.7, 0.9], [0.5, 0.7, 0.5, 0.2, 0.65])
    assert breaching_bins(bins, 0.2, 0.95) == [(0.0, 0.4), (0.6, 0.8)]
    assert breaching_bins(bins, 0.5, 0.95) == []


@pytest.mark.parametrize("tail", [1e-3, 0.025 / 15, 0.025, 0.4])
def test_limits_of_many_rows_are_scipy_s(tail: float):
    rng = np.random.default_rng(5)
    n = np.rint(10 ** rng.uniform(3.4, 8, 300))
    hits = np.rint(n * rng.beta(0.7, 0.7, 300))
    low, high = clopper_pearson(hits, n - hits, tail)
    inside = (hits > 0) & (hits < n)
    k, n = hits[inside], n[inside]
    error = np.sqrt((k + 1) * (n - k + 1)) / n**1.5
    assert np.abs((low[inside] - stats.beta.ppf(tail, k, n - k + 1)) / error).max() < 1e-8
    assert np.abs((high[inside] - stats.beta.isf(tail, k + 1, n - k)) / error).max() < 1e-8


def test_limits_of_many_rows_have_the_probability_that_was_asked_for_far_out_as_well():
    n, hits = np.array([3e3, 1e5, 1e7, 9.2e7]), np.array([1.4e3, 9e3, 9.9e5, 7.8e7])
    low, high = clopper_pearson(hits, n - hits, 1e-6)
    assert stats.binom.sf(hits - 1, n, low) == pytest.approx(np.full(4, 1e-6), rel=1e-6)
    assert stats.binom.cdf(hits, n, high) == pytest.approx(np.full(4, 1e-6), rel=1e-6)
