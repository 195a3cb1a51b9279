"""Intervals and tests of the metrics that are not binned, against scipy and small simulations."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import f1_score, roc_auc_score

from monitor.core.counts import Counts, counts_from_rows
from monitor.core.records import Interval
from monitor.inference.change import mover
from monitor.inference.levels import detectable_change, interval, law_of
from monitor.inference.sampling import LogitArea, Ranking, Skewed
from monitor.metrics.classification import Share, agreed, came_true, f1_of, missed, others
from tests.fakes.changes import increase_test
from tests.fakes.one_table import level_detectable, level_p
from tests.fakes.points import point
from tests.fakes.standard_errors import moments

IN_CLOSED_FORM = ("brier", "nll", "roc_auc", "pr_auc", "accuracy", "overconfidence", "false_negative_rate")
POINTS = {name: partial(point, name) for name in IN_CLOSED_FORM}
POINTS |= {
    "precision": lambda counts: share(came_true("predicted")(counts)),
    "recall": lambda counts: share(others(missed(counts))),
    "f1": lambda counts: None if (found := agreed(counts)) is None else f1_of(found.value),
}
NAMES = list(POINTS)
DOUBT = 1e-3 / len(NAMES)  # how seldom chance alone may fail one of a test's comparisons, one a metric


def share(found: Share | None) -> float | None:
    return None if found is None else found.value


def at_most(tries: int, chance: float) -> float:
    """How often something of this chance happens at most in so many tries, but for the doubt."""
    return stats.binom.ppf(1 - DOUBT, tries, chance)


def at_least(tries: int, chance: float) -> float:
    """How often something of this chance happens at least in so many tries, but for the doubt."""
    return stats.binom.ppf(DOUBT, tries, chance)


def sample(rng: np.random.Generator, n: int, tilt: float = 1.0, flipped: float = 0.0) -> Counts:
    """Rows of a classifier whose hit rate is score ** tilt, with a share of outcomes flipped."""
    score = rng.choice([0.05, 0.2, 0.6, 0.8, 0.9, 0.95], n)
    outcome = rng.random(n) < score**tilt
    return counts_from_rows(score, (outcome ^ (rng.random(n) < flipped)).astype(float))


def known(found: Interval) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def test_shares_have_the_exact_binomial_interval():
    counts = counts_from_rows([0.9] * 40 + [0.1] * 60, [1] * 33 + [0] * 7 + [1] * 5 + [0] * 55)
    exact = stats.binomtest(88, 100).proportion_ci(0.9, "exact")
    assert known(interval("accuracy", counts, 0.9)) == pytest.approx((0.88, exact.low, exact.high), abs=1e-12)
    exact = stats.binomtest(5, 38).proportion_ci(0.9, "exact")
    found = known(interval("false_negative_rate", counts, 0.9))
    assert found == pytest.approx((5 / 38, exact.low, exact.high), abs=1e-12)
    exact = stats.binomtest(33, 38).proportion_ci(0.9, "exact")
    assert known(interval("recall", counts, 0.9)) == pytest.approx((33 / 38, exact.low, exact.high), abs=1e-12)
    exact = stats.binomtest(33, 40).proportion_ci(0.9, "exact")
    assert known(interval("precision", counts, 0.9)) == pytest.approx((33 / 40, exact.low, exact.high), abs=1e-12)
    exact = stats.binomtest(38, 100).proportion_ci(0.9, "exact")
    found = known(interval("overconfidence", counts, 0.9))
    assert found == pytest.approx((0.42 - 0.38, 0.42 - exact.high, 0.42 - exact.low), abs=1e-12)


def test_f1_has_the_exact_limits_of_the_share_of_true_positives_it_rises_with():
    truth = np.array([1] * 33 + [0] * 7 + [1] * 5 + [0] * 55)
    counts = counts_from_rows([0.9] * 40 + [0.1] * 60, truth)
    exact = stats.binomtest(33, 45).proportion_ci(0.9, "exact")  # of 45 rows that are positive or predicted
    value, low, high = known(interval("f1", counts, 0.9))
    assert value == pytest.approx(f1_score(truth, np.arange(100) < 40))
    assert (low, high) == pytest.approx((2 * exact.low / (1 + exact.low), 2 * exact.high / (1 + exact.high)))
    less = stats.binomtest(33, 45, 0.9 / 1.1, alternative="less").pvalue  # an F1 of .9 is a share of .9 / 1.1
    assert level_p("f1", counts, 0.9, "below") == pytest.approx(less, rel=1e-9)
    distance = level_detectable("f1", counts, 0.9, "below", 0.01)
    share = level_detectable("accuracy", counts_from_rows([0.9] * 45, [1] * 45), 0.9 / 1.1, "below", 0.01)
    assert 2 * (0.9 / 1.1 - share) / (1 + 0.9 / 1.1 - share) == pytest.approx(0.9 - distance)


def test_shares_have_the_exact_binomial_p_value_on_either_side():
    counts = counts_from_rows([0.9] * 100, [1] * 88 + [0] * 12)
    greater, less = (stats.binomtest(88, 100, 0.8, alternative=side).pvalue for side in ("greater", "less"))
    assert level_p("accuracy", counts, 0.8, "above") == pytest.approx(greater, rel=1e-9)
    assert level_p("accuracy", counts, 0.8, "below") == pytest.approx(less, rel=1e-9)
    assert level_p("overconfidence", counts, 0.1, "above") == pytest.approx(less, rel=1e-9)
    assert level_p("overconfidence", counts, 0.1, "below") == pytest.approx(greater, rel=1e-9)


def test_the_area_s_p_value_is_that_of_its_standard_error_where_rows_are_many():
    counts = sample(np.random.default_rng(0), 4000)
    found = moments("roc_auc", counts)
    # the law of a high area leans to the left: less likely two errors above it than normal, more likely two below
    above = level_p("roc_auc", counts, found.value + 2.0 * found.se, "below")
    below = level_p("roc_auc", counts, found.value - 2.0 * found.se, "above")
    assert 0.7 < above / stats.norm.sf(2.0) < 1 < below / stats.norm.sf(2.0) < 1.3
    assert (above + below) / 2 == pytest.approx(stats.norm.sf(2.0), rel=0.05)


def test_the_interval_of_a_mean_loss_is_the_t_interval_shifted_towards_the_long_tail():
    counts = sample(np.random.default_rng(1), 20_000)  # among which one row more, not seen, counts for little
    for name in ("brier", "nll"):
        found = moments(name, counts)
        value, low, high = known(interval(name, counts, 0.95))
        assert (high - low) / 2 == pytest.approx(1.96 * found.se, rel=0.01)
        assert 0 < (high - value) - (value - low) < 0.2 * found.se


@pytest.mark.parametrize("third", [2e-3, -2e-3, 1e-9])
def test_the_skewed_law_is_pearson_s_third_type(third: float):
    law = Skewed(0.3, 0.02, third)
    reference = stats.pearson3(third / 0.02**1.5, loc=0.3, scale=math.sqrt(0.02))
    for probability in (0.001, 0.025, 0.5, 0.8, 0.999):
        assert law.quantile(probability) == pytest.approx(reference.ppf(probability), rel=1e-6)
        assert law.below(law.quantile(probability)) == pytest.approx(probability, rel=1e-6)


def test_equal_losses_of_rare_misses_have_garwood_s_limits_of_a_poisson_count():
    # 3 misses of 100,000 rows at a score of 1: a loss of 1 each, and nothing else
    counts = counts_from_rows([1.0] * 100_000, [0] * 3 + [1] * 99_997)
    value, low, high = known(interval("brier", counts, 0.95))
    assert value == pytest.approx(3e-5)
    assert low * 1e5 == pytest.approx(stats.chi2.ppf(0.025, 6) / 2, rel=1e-3)
    assert high * 1e5 == pytest.approx(stats.chi2.ppf(0.975, 8) / 2, rel=1e-3)


@pytest.mark.parametrize("tilt", [1.0, 1.6])
def test_intervals_cover_the_truth_as_often_as_they_say(tilt: float):
    rng = np.random.default_rng(3)
    truth = sample(rng, 1_000_000, tilt)
    true = {name: POINTS[name](truth) for name in NAMES}
    covered = dict.fromkeys(NAMES, 0)
    for _ in range(250):
        counts = sample(rng, 150, tilt)
        for name in NAMES:
            _, low, high = known(interval(name, counts, 0.95))
            covered[name] += low <= true[name] <= high
    assert {name: hits for name, hits in covered.items() if hits < at_least(250, 0.95)} == {}


@pytest.mark.parametrize("rows", [50, 200])
def test_losses_whose_rare_large_terms_are_often_not_seen_are_covered_too(rows: int):
    rng = np.random.default_rng(40)

    def drawn(n: int) -> Counts:
        score = rng.choice([0.01, 0.03, 0.3, 0.97], n, p=[0.7, 0.15, 0.05, 0.1])
        return counts_from_rows(score, rng.random(n) < score)

    truth = drawn(2_000_000)
    names = ("brier", "nll", "roc_auc", "pr_auc")
    covered = dict.fromkeys(names, 0)
    for _ in range(300):
        counts = drawn(rows)
        for name in names:
            found = interval(name, counts, 0.95)
            # where a class is missing the areas say nothing, and nothing wrong
            covered[name] += found.value is None or found.low <= POINTS[name](truth) <= found.high
    assert {name: hits for name, hits in covered.items() if hits < at_least(300, 0.95)} == {}


def weighted_delong(hits: np.ndarray, misses: np.ndarray, extra: float) -> tuple[float, float, float]:
    """(area, area with ``extra`` of a row of each class out of order, its variance), by loops over (score, weight)."""

    def area_and_variance(hits: np.ndarray, misses: np.ndarray) -> tuple[float, float]:
        wins = (hits[:, None, 0] > misses[None, :, 0]) + 0.5 * (hits[:, None, 0] == misses[None, :, 0])
        w1, w0 = hits[:, 1], misses[:, 1]
        value = w1 @ wins @ w0 / w1.sum() / w0.sum()
        variance = 0.0
        for own, placement in ((hits, wins @ w0 / w0.sum()), (misses, w1 @ wins / w1.sum())):
            w, square = own[:, 1], own[:, 2]
            n = w.sum() ** 2 / square.sum()
            variance += (square * (placement - value) ** 2).sum() / w.sum() ** 2 * (1 + 1 / max(n - 1, 0.5))
        return value, variance

    def with_one_more(own: np.ndarray, score: float) -> np.ndarray:
        n = own[:, 1].sum() ** 2 / own[:, 2].sum()
        return np.vstack([own, [score, own[:, 1].sum() / n * extra, own[:, 2].sum() / n * extra]])

    value, _ = area_and_variance(hits, misses)
    lowest, highest = with_one_more(hits, -1.0), with_one_more(misses, 2.0)
    return value, *area_and_variance(lowest, highest)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_area_has_jeffreys_limits_for_as_many_pairs_as_delong_over_all_rows_says(weighted: bool):
    rng = np.random.default_rng(41)
    score = np.round(rng.random(120), 1)  # many ties
    truth = rng.random(120) < score
    weight = rng.choice([1.0, 4.0], 120) if weighted else np.ones(120)
    rows = np.column_stack([score, weight, weight**2])
    value, centre, variance = weighted_delong(rows[truth], rows[~truth], 0.5)
    pairs = centre * (1 - centre) / variance
    law = stats.beta(value * pairs + 0.5, (1 - value) * pairs + 0.5)
    counts = counts_from_rows(score, truth, weight=weight)
    # a cell's squared weights are shared out by its rate, which the rows need not do: equal without weights
    close = {"rel": 0.02} if weighted else {"rel": 1e-9}
    assert value == pytest.approx(roc_auc_score(truth, score, sample_weight=weight))
    assert known(interval("roc_auc", counts, 0.95)) == pytest.approx((value, *law.ppf([0.025, 0.975])), **close)
    if not weighted:
        assert level_p("roc_auc", counts, 0.9, "below") == pytest.approx(law.sf(0.9), rel=1e-9)


@pytest.mark.parametrize("side", ["above", "below"])
def test_at_the_threshold_itself_a_level_rule_seldom_fires(side: str):
    rng = np.random.default_rng(5)
    truth = sample(rng, 1_000_000)
    fired = dict.fromkeys(NAMES, 0)
    for _ in range(300):
        counts = sample(rng, 300)
        for name in NAMES:
            p = level_p(name, counts, POINTS[name](truth), side)  # type: ignore[arg-type]
            fired[name] += p <= 0.02
    assert {name: count for name, count in fired.items() if count > at_most(300, 0.02)} == {}


@pytest.mark.parametrize("name", NAMES)
def test_without_a_change_an_increase_is_seldom_found(name: str):
    rng = np.random.default_rng(6)
    tests = [increase_test(name, sample(rng, 300), sample(rng, 900), 0.95) for _ in range(250)]
    assert sum(test.p_value <= 0.02 for test in tests) <= at_most(250, 0.02)
    assert sum(test.low <= 0 <= test.high for test in tests) >= at_least(250, 0.95)


def test_a_real_increase_is_found_and_its_record_is_complete():
    rng = np.random.default_rng(7)
    window, baseline = sample(rng, 3000, flipped=0.15), sample(rng, 8000)
    for name in ("brier", "nll"):
        found = increase_test(name, window, baseline, 0.95)
        e0, e1 = interval(name, baseline, 0.95), interval(name, window, 0.95)
        assert found.p_value < 1e-4
        assert found.change == pytest.approx(e1.value - e0.value)
        assert (found.low, found.high) == mover(e0, e1)


def test_a_share_that_falls_to_nothing_in_few_rows_is_not_called_certain():
    baseline = counts_from_rows([0.3] * 10_000, [1] * 500 + [0] * 9500)
    window = counts_from_rows([0.3] * 100, [0] * 100)
    chance = 0.95**100  # of no hit at all, if nothing changed
    assert chance < increase_test("overconfidence", window, baseline, 0.95).p_value < 4 * chance


def test_the_detectable_distance_of_a_share_is_the_exact_one():
    counts = counts_from_rows([0.9] * 200, [1] * 180 + [0] * 20)
    distance = level_detectable("accuracy", counts, 0.8, "below", 0.01)
    most = int(stats.binom.ppf(0.01, 200, 0.8))
    most -= stats.binom.cdf(most, 200, 0.8) > 0.01
    assert stats.binom.cdf(most, 200, 0.8 - distance) == pytest.approx(0.8, abs=1e-9)
    assert level_detectable("overconfidence", counts, 0.1, "above", 0.01) == pytest.approx(distance, abs=1e-9)


def about_four_in_five(seen: int, tries: int) -> bool:
    """Whether the power may be .8: the distance is a guide, computed with the spread of one sample (.75 to .85)."""
    return at_least(tries, 0.75) <= seen <= at_most(tries, 0.85)


def test_a_mean_loss_at_the_detectable_distance_is_seen_four_times_in_five():
    rng = np.random.default_rng(8)
    reference = sample(rng, 600, 1.6)
    for name in ("brier", "nll", "roc_auc", "pr_auc"):
        true = POINTS[name](sample(np.random.default_rng(80), 400_000, 1.6))
        distance = level_detectable(name, reference, true, "above", 0.05)
        seen = [level_p(name, sample(rng, 600, 1.6), true - distance, "above") <= 0.05 for _ in range(200)]
        assert about_four_in_five(sum(seen), 200), name


@pytest.mark.parametrize("name", ["overconfidence", "brier", "nll"])
def test_an_increase_of_the_detectable_size_is_seen_four_times_in_five(name: str):
    rng = np.random.default_rng(9)
    large = np.random.default_rng(90)
    shares = np.linspace(0.0, 0.4, 9)
    values = [POINTS[name](sample(large, 300_000, flipped=share)) for share in shares]
    needed = detectable_change(name, sample(rng, 600), sample(rng, 3000), 0.05)
    flipped = np.interp(values[0] + needed, values, shares)
    assert flipped < 0.4
    tests = [increase_test(name, sample(rng, 600, flipped=flipped), sample(rng, 3000), 0.95) for _ in range(150)]
    assert about_four_in_five(sum(test.p_value <= 0.05 for test in tests), 150)


def test_the_detectable_distance_of_an_area_is_that_of_its_law():
    counts = sample(np.random.default_rng(11), 300)
    law = law_of("roc_auc", counts)
    assert isinstance(law, Ranking)
    distance = level_detectable("roc_auc", counts, 0.8, "below", 0.01)
    critical = np.linspace(0.5, 0.8, 30_001)  # the highest area found that is surely below .8
    p_values = stats.beta(critical * law.rows + 0.5, (1 - critical) * law.rows + 0.5).sf(0.8)
    k = critical[p_values <= 0.01].max() * law.rows
    assert stats.beta(k + 0.5, law.rows - k + 0.5).ppf(0.2) == pytest.approx(0.8 - distance, abs=2e-5)


def test_all_of_a_fraction_of_rows_may_be_what_is_seen():
    counts = counts_from_rows([0.9] * 12, [1] * 12, design_effect=5.0)  # worth 2.4 rows
    distance = level_detectable("accuracy", counts, 0.2, "above", 0.03)
    assert 0.2**2.4 < 0.03 < 1 - stats.beta(2, 1.4).sf(0.2)  # not two of 2.4 rows, but all of them
    assert (0.2 + distance) ** 2.4 == pytest.approx(0.8)


def test_where_nothing_can_lie_beyond_the_threshold_there_is_nothing_to_miss():
    counts = counts_from_rows([0.03] * 500, [0] * 495 + [1] * 5)
    assert level_p("overconfidence", counts, 0.05, "above") == 1.0
    assert level_detectable("overconfidence", counts, 0.05, "above", 0.01) == 0.0
    assert level_detectable("pr_auc", sample(np.random.default_rng(11), 300), 1.0, "above", 0.01) == 0.0


def test_weights_and_clusters_count_by_effective_rows():
    score, outcome = np.full(400, 0.9), np.repeat([1.0, 0.0], [320, 80])
    clustered = counts_from_rows(score, outcome, design_effect=4.0)
    exact = stats.binomtest(80, 100).proportion_ci(0.95, "exact")
    assert known(interval("accuracy", clustered, 0.95)) == pytest.approx((0.8, exact.low, exact.high))
    weighted = counts_from_rows(score, outcome, weight=np.tile([1.0, 3.0], 200))  # worth 400 * 4 / 5 rows
    exact = stats.binomtest(256, 320).proportion_ci(0.95, "exact")
    assert known(interval("accuracy", weighted, 0.95)) == pytest.approx((0.8, exact.low, exact.high))
    misses = known(interval("false_negative_rate", counts_from_rows(score, outcome, design_effect=4.0), 0.95))
    assert misses[2] == pytest.approx(1 - 0.025 ** (1 / 80))


def test_a_perfect_order_is_not_taken_for_certain():
    counts = counts_from_rows([0.9] * 5 + [0.1] * 50, [1] * 5 + [0] * 50)
    for name in ("roc_auc", "pr_auc"):
        value, low, high = known(interval(name, counts, 0.95))
        assert (value, high) == (1.0, 1.0)
        assert 0.1 < low < 0.95
        assert 0.001 < level_p(name, counts, 0.9, "above") < 1


def test_losses_of_one_class_allow_for_the_outcome_that_was_not_seen():
    counts = counts_from_rows([0.9] * 50, [1] * 50)
    unseen = 1 - 0.025 ** (1 / 50)  # Clopper & Pearson's limit of the share of misses
    for name, hit, miss in (("brier", 0.01, 0.81), ("nll", -math.log(0.9), -math.log(0.1))):
        value, low, high = known(interval(name, counts, 0.95))
        assert value == pytest.approx(hit)
        assert 0 <= low < hit
        assert hit + unseen * (miss - hit) < high < hit + 1.6 * unseen * (miss - hit)


def test_without_misses_the_precision_is_one_and_says_nothing():
    counts = counts_from_rows([0.2, 0.7], [1, 1])
    assert interval("pr_auc", counts, 0.95) == Interval(1.0, 0.0, 1.0, 1.0)
    assert level_p("pr_auc", counts, 0.5, "above") == 1.0
    assert level_detectable("pr_auc", counts, 0.5, "below", 0.01) is None


def test_a_loss_that_did_not_vary_is_not_certain():
    counts = counts_from_rows([0.5] * 30, [1] * 10 + [0] * 20)
    value, low, high = known(interval("brier", counts, 0.95))
    assert value == 0.25
    assert 0.2 < low < 0.25 < high < 0.3
    assert 0 < level_p("brier", counts, 0.2, "above") < 0.01


def test_a_miss_that_was_not_seen_on_top_lowers_the_lower_limit_of_the_average_precision_alone():
    rng = np.random.default_rng(43)
    score = rng.beta(0.8, 0.6, 200)
    law = law_of("pr_auc", counts_from_rows(score, rng.random(200) < score))
    assert isinstance(law, LogitArea)
    seen = replace(law, low_centre=law.centre, low_se=law.se)
    assert law.interval(0.95)[1] == seen.interval(0.95)[1]
    assert law.interval(0.95)[0] < seen.interval(0.95)[0] - 0.005
    assert law.p_value(0.8, "above") > seen.p_value(0.8, "above")
    assert law.p_value(0.95, "below") == seen.p_value(0.95, "below")
