"""The bootstrap on counts, against scipy's bootstrap of rows, scikit-learn, closed forms and exact laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score

from monitor.core.counts import Counts, Floats, counts_from_rows
from monitor.inference.bootstrap import Spread, draws, spread_of
from monitor.metrics.groups import Core, Groups, groups_of, number
from tests.fakes.standard_errors import moments


def rows(seed: int, n: int, digits: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    score = np.round(rng.beta(1.1, 1.9, n), digits)
    return score, (rng.random(n) < score).astype(float)


def area(groups: Groups) -> Floats:
    """The area under the ROC curve; groups are in the order of their scores."""
    below = np.cumsum(groups.miss, axis=-1) - groups.miss / 2
    return np.asarray((groups.hit * below).sum(axis=-1) / groups.hit.sum(axis=-1) / groups.miss.sum(axis=-1))


def precision(groups: Groups) -> Floats:
    hit, miss = groups.hit[..., groups.predicted].sum(axis=-1), groups.miss[..., groups.predicted].sum(axis=-1)
    return np.asarray(hit / (hit + miss))


def bootstrap(counts: Counts, core: Core, rng: np.random.Generator, *, resamples: int = 1000) -> Spread | None:
    groups = groups_of(counts)
    drawn = groups.drawn(*draws(counts, rng, resamples=resamples))
    return spread_of(number(core(groups)), core(drawn), least=0.0, most=1.0)


def by_prediction(counts: Counts) -> Counts:
    """The counts summed into two groups, not predicted and predicted."""
    sums = {
        name: np.array([getattr(counts, name)[counts.predicted == value].sum() for value in (False, True)])
        for name in ("n", "w", "w2", "ws", "wy", "wsy", "ws2", "wy2")
    }
    keys = {"cell": np.zeros(2, dtype=np.int64), "predicted": np.array([False, True])}
    return replace(counts, **keys, automated=np.zeros(2, dtype=bool), **sums)


def test_the_spread_of_an_area_is_delong_s():
    score, truth = rows(1, 1500)
    counts = counts_from_rows(score, truth)
    found = bootstrap(counts, area, np.random.default_rng(0), resamples=4000)
    expected = moments("roc_auc", counts)
    assert found.value == pytest.approx(roc_auc_score(truth, score), abs=1e-12)
    assert found.se == pytest.approx(expected.se, rel=4 / np.sqrt(2 * 4000))  # 4 standard errors of a deviation


@pytest.mark.parametrize("weighted", [False, True])
def test_the_spread_is_that_of_scipy_s_bootstrap_of_the_rows(weighted: bool):
    score, truth = rows(2, 900)
    weight = np.random.default_rng(3).choice([1.0, 6.0], 900) if weighted else np.ones(900)

    def of_rows(index: np.ndarray) -> float:
        chosen = index[score[index] >= 0.5]
        return np.average(truth[chosen], weights=weight[chosen])

    by_rows = stats.bootstrap(
        (np.arange(900),), of_rows, n_resamples=600, method="percentile", vectorized=False,
        rng=np.random.default_rng(4),
    )  # fmt: skip
    counts = counts_from_rows(score, truth, weight=weight)
    found = bootstrap(by_prediction(counts), precision, np.random.default_rng(5), resamples=4000)
    assert found.value == pytest.approx(of_rows(np.arange(900)), abs=1e-12)
    assert found.se == pytest.approx(by_rows.standard_error, rel=4 / np.sqrt(2 * 600))
    low, high = found.interval(0.95)
    assert (low, high) == pytest.approx(tuple(by_rows.confidence_interval), abs=0.25 * found.se)


def test_a_share_gets_nearly_its_exact_limits():
    counts = by_prediction(counts_from_rows([0.9] * 60, [1] * 48 + [0] * 12))
    found = bootstrap(counts, precision, np.random.default_rng(6), resamples=20_000)
    mid_p = stats.beta(48.5, 12.5).ppf([0.025, 0.975])  # Jeffreys' limits, between the exact ones and their mid-P form
    assert found.interval(0.95) == pytest.approx(tuple(mid_p), abs=0.015)


def test_p_values_reach_far_below_one_in_the_number_of_draws():
    counts = by_prediction(counts_from_rows([0.9] * 400, [1] * 260 + [0] * 140))
    found = bootstrap(counts, precision, np.random.default_rng(7), resamples=2000)
    exact = stats.binomtest(260, 400, 0.8, alternative="less").pvalue
    assert 1e-16 < exact < 1e-11
    assert np.log10(found.p_value(0.8, "below")) == pytest.approx(np.log10(exact), abs=2.5)
    assert found.p_value(0.8, "above") == pytest.approx(1.0)


def test_a_p_value_is_below_the_tail_just_where_the_interval_leaves_the_threshold_out():
    found = Spread(0.3, 0.05, 0.4)
    low, high = found.interval(0.95)
    assert found.p_value(low, "above") == pytest.approx(0.025)
    assert found.p_value(high, "below") == pytest.approx(0.025)


def test_a_truth_at_the_detectable_distance_is_found_four_times_in_five():
    rng = np.random.default_rng(8)

    def drawn(rate: float) -> Spread:
        counts = by_prediction(counts_from_rows(np.full(500, 0.9), rng.random(500) < rate))
        return bootstrap(counts, precision, rng, resamples=400)

    distance = drawn(0.7).detectable(0.8, "below", 0.05)
    seen = sum(drawn(0.8 - distance).p_value(0.8, "below") <= 0.05 for _ in range(300))
    # the distance is computed from one sample, whose spread is off by a tenth: a power of .7 to .9
    assert stats.binom.ppf(1e-3, 300, 0.7) <= seen <= stats.binom.ppf(1 - 1e-3, 300, 0.9)


def test_where_every_row_was_right_the_truth_is_not_called_certain():
    counts = by_prediction(counts_from_rows([0.9] * 40 + [0.1] * 40, [1] * 40 + [0] * 40))
    found = bootstrap(counts, precision, np.random.default_rng(9))
    low, high = found.interval(0.95)
    assert (found.value, high) == (1.0, 1.0)
    assert 0.9 < low < 0.98  # Clopper & Pearson: 0.912
    assert 0.001 < found.p_value(0.95, "above") < 0.3


def test_clusters_and_weights_widen_the_spread_by_their_effect():
    score, truth = rows(10, 2000)
    plain, clustered, heavy = (
        bootstrap(by_prediction(c), precision, np.random.default_rng(11), resamples=4000)
        for c in (
            counts_from_rows(score, truth),
            counts_from_rows(score, truth, design_effect=4.0),
            counts_from_rows(score, truth, weight=np.full(2000, 5.0)),
        )
    )
    assert clustered.se == pytest.approx(2 * plain.se, rel=0.08)
    assert heavy.se == pytest.approx(plain.se, rel=0.08)


def test_what_is_not_defined_has_no_spread():
    one_class = counts_from_rows([0.2, 0.9], [1, 1])
    with np.errstate(invalid="ignore", divide="ignore"):
        assert bootstrap(one_class, area, np.random.default_rng(12)) is None


def test_the_same_generator_gives_the_same_spread():
    counts = counts_from_rows(*rows(13, 20_000, digits=4))
    one, two = (bootstrap(counts, area, np.random.default_rng(14), resamples=400) for _ in range(2))
    assert one == two


def test_draws_that_are_mostly_undefined_conclude_nothing():
    mostly = np.array([1.0] * 40 + [np.nan] * 60)
    assert spread_of(1.0, mostly) is None
    assert spread_of(None, np.arange(10.0)) is None
    found = spread_of(4.5, np.array([*range(10), np.nan]))
    assert (found.se, found.skew) == pytest.approx((np.std(range(10), ddof=1), 0.0), abs=1e-12)
