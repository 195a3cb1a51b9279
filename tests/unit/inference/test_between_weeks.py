"""Weeks that differ: the correlation is found where planted, is hardly any where it is not, and keeps the level."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows, equal_width_edges
from monitor.core.records import WeekSpread
from monitor.inference.between_weeks import (
    ALIKE,
    correlations,
    spread_of,
    spread_of_gaps,
    week_effect,
    worth_less,
)
from monitor.inference.bins import pool_bins
from monitor.inference.change import ece_increase_ps, mce_increase_ps
from monitor.inference.detectability import ece_increase_detectables, mce_increase_detectables
from monitor.inference.levels import detectable_change
from tests.fakes.changes import decrease_test

WEEKS, ROWS = 8, 2_000


def shares(rng: np.random.Generator, labels: int, correlation: float, share: float = 0.9) -> np.ndarray:
    """The hits of each label and week, (labels, WEEKS), beta-binomial: its correlation is what it says."""
    if not correlation:
        return rng.binomial(ROWS, share, (labels, WEEKS))
    size = 1 / correlation - 1
    return rng.binomial(ROWS, rng.beta(share * size, (1 - share) * size, (labels, WEEKS)))


def spreads(hits: np.ndarray) -> dict[int, WeekSpread]:
    rates = hits / ROWS
    found = {at: spread_of(each, each * (1 - each) / ROWS, np.full(WEEKS, ROWS)) for at, each in enumerate(rates)}
    return {at: each for at, each in found.items() if each is not None}


@pytest.mark.parametrize("planted", [0.0005, 0.002])
def test_the_correlation_of_a_source_is_that_of_its_beta_binomial_weeks(planted: float):
    rng = np.random.default_rng(1)
    found = [each.correlation for _ in range(40) for each in correlations(spreads(shares(rng, 20, planted))).values()]
    assert np.mean(found) == pytest.approx(planted, rel=0.1)


def test_where_weeks_are_draws_from_one_urn_rows_lose_hardly_anything():
    rng = np.random.default_rng(2)
    each_year = [correlations(spreads(shares(rng, 20, 0))).values() for _ in range(40)]
    found = [week_effect(each.correlation, ROWS, 1) for year in each_year for each in year]
    assert 1 <= np.mean(found) < 1.1
    assert np.quantile(found, 0.95) < 1.35


def test_a_label_that_stands_out_keeps_its_own_part():
    rng = np.random.default_rng(3)
    hits = shares(rng, 20, 0)
    hits[0] = shares(rng, 1, 0.02)[0]
    found = {label: each.correlation for label, each in correlations(spreads(hits)).items()}
    assert found[0] > 0.004
    assert np.mean([found[at] for at in range(1, 20)]) < 0.15 * found[0]


def test_two_weeks_or_no_variance_say_nothing():
    assert spread_of([0.9, 0.8], [0.001, 0.001], [100.0, 100.0]) is None
    assert spread_of([0.9, 0.9, 0.9], [0.0, 0.0, 0.0], [100.0] * 3) is None
    assert correlations({}) == {}


def week(rng: np.random.Generator, shift: float, n: int = ROWS) -> BinCounts:
    score = rng.choice(np.arange(0.05, 1, 0.1).round(2), n)
    rate = 1 / (1 + np.exp(-(np.log(score / (1 - score)) + shift)))
    return bin_counts(counts_from_rows(score, rng.random(n) < rate), equal_width_edges(10))


def test_bins_show_weeks_that_differ_and_no_others():
    rng = np.random.default_rng(5)

    def ratio(wobble: float) -> float:
        made = [spread_of_gaps([week(rng, rng.normal(0, wobble)) for _ in range(WEEKS)]) for _ in range(60)]
        return float(sum(each.statistic for each in made if each) / sum(each.freedom for each in made if each))

    assert ratio(0.0) == pytest.approx(1.0, abs=0.15)
    assert ratio(0.3) > 1.5


def test_what_weeks_add_makes_p_values_and_detectable_changes_larger_and_no_interval_wider():
    rng = np.random.default_rng(6)
    then, now = week(rng, 0.0, 16_000), week(rng, -0.25)
    plain, wide = (ece_increase_ps([(now, then)], between=[each])[0] for each in (0.0, 0.005))
    assert plain == ece_increase_ps([(now, then)])[0] < wide
    plain, wide = (ece_increase_detectables([(now, then)], rate=0.01, between=[each])[0] for each in (0.0, 0.005))
    assert plain < wide
    less = worth_less(now, 0.005, 1), worth_less(then, 0.005, 8)
    assert less[0].n_eff == pytest.approx(now.n_eff / (1 + 0.005 * now.n_eff))
    assert worth_less(now, 0.0, 1) is now
    assert mce_increase_ps([less])[0] > mce_increase_ps([(now, then)])[0]
    assert mce_increase_detectables([less], rate=0.01)[0] > (mce_increase_detectables([(now, then)], rate=0.01)[0])
    window, base = (counts_from_rows([0.9] * n, np.arange(n) < 0.9 * n) for n in (ROWS, 8 * ROWS))
    lower = replace(window, wy=window.wy * 0.95)
    tests = [decrease_test("accuracy", lower, base, 0.95, effects=each) for each in ((1.0, 1.0), (2.0, 2.0))]
    assert (tests[0].low, tests[0].high) == (tests[1].low, tests[1].high)
    assert tests[0].p_value < tests[1].p_value
    assert detectable_change("accuracy", window, base, 0.01, falls=True) is not None


@pytest.mark.parametrize(("wobble", "most"), [(0.1, 1.3), (0.3, 1.3)])
def test_a_rise_of_the_ece_keeps_its_level_where_all_scores_of_a_week_move_together(wobble: float, most: float):
    rng = np.random.default_rng(7)
    weeks = [[week(rng, rng.normal(0, wobble)) for _ in range(WEEKS)] for _ in range(10)]
    found = correlations({at: spread for at, each in enumerate(weeks) for spread in [spread_of_gaps(each)] if spread})
    pairs = [(week(rng, rng.normal(0, wobble)), pool_bins(each)) for each in weeks for _ in range(200)]
    between = [found[at].correlation * (1 + 1 / WEEKS) for at in found for _ in range(200)]
    p, plain = (np.array(ece_increase_ps(pairs, between=each)) for each in (between, None))
    for rate in (0.05, 0.005):
        assert (p < rate).mean() < most * rate + 3 * (rate / len(p)) ** 0.5
        assert (plain < rate).mean() > (p < rate).mean()


def test_few_weeks_are_compared_with_students_t():
    rng = np.random.default_rng(8)
    hits = np.array([shares(rng, 1, each)[0] for each in np.geomspace(0.0002, 0.02, 20)])
    unlike, alike = correlations(spreads(hits)), correlations(spreads(shares(rng, 20, 0.002)))
    assert np.mean([each.freedom for each in unlike.values()]) < 20 < np.mean([each.freedom for each in alike.values()])
    each = unlike[19]
    assert each.p_value(1e-4) == pytest.approx(stats.t.cdf(stats.norm.ppf(1e-4), each.freedom))
    assert each.rate(each.p_value(1e-4)) == pytest.approx(1e-4)
    assert each.most == pytest.approx(each.correlation / (stats.chi2.ppf(0.1, each.freedom) / each.freedom))
    assert (ALIKE.p_value(1e-4), ALIKE.rate(1e-4), ALIKE.most) == (1e-4, 1e-4, 0.0)
