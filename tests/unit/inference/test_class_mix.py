"""Another share of true items: the baseline at the new share is Saerens' formula, and only the share may change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.core.counts import SUMS, BinCounts, bin_counts, counts_from_rows
from monitor.inference.class_mix import FITS, at_share, class_mix
from tests.fakes.points import point

EDGES = tuple(range(1_000, 10_001, 1_000))
SCORES = np.repeat(np.arange(0.05, 1.0, 0.1), 2_000)


def bins(outcome: np.ndarray, score: np.ndarray = SCORES, *, effect: float = 1.0) -> BinCounts:
    return bin_counts(counts_from_rows(score, outcome, design_effect=effect), EDGES)


def drawn(rng: np.random.Generator, odds: float = 1.0, *, moves_scores: bool = True) -> BinCounts:
    """True items ``odds`` times as frequent, or scores worth so much more while the same scores are given."""
    truth = rng.random(len(SCORES)) < SCORES
    if not moves_scores:
        worth = odds * SCORES / (odds * SCORES + 1 - SCORES)
        return bins((rng.random(len(SCORES)) < worth).astype(float))
    kept = rng.random(len(SCORES)) < np.where(truth, min(1.0, odds), min(1.0, 1 / odds))
    return bins(truth[kept].astype(float), SCORES[kept])


def test_prior_shift_is_found_to_be_all_and_brings_what_the_formula_says():
    rng = np.random.default_rng(5)
    found = class_mix(drawn(rng, 2.0), drawn(rng))
    assert found.only_share_changed
    assert (found.then, found.now) == (pytest.approx(0.5, abs=0.01), pytest.approx(2 / 3, abs=0.01))
    assert found.told == found.now  # the scores say so as well


@given(
    st.lists(st.tuples(st.integers(1, 9_999), st.integers(1, 50), st.integers(1, 50)), min_size=1, max_size=9),
    st.floats(0.02, 0.98),
)
def test_the_baseline_at_another_share_is_its_true_items_and_others_each_taken_so_many_times(
    groups: list[tuple[int, int, int]], share: float
):
    score = np.repeat([cell / 10_000 for cell, _, _ in groups], [k + m for _, k, m in groups])
    truth = np.concatenate([np.repeat([1.0, 0.0], [k, m]) for _, k, m in groups])
    then = counts_from_rows(score, truth, automate_at=0.7)
    now = at_share(then, share)
    times = np.where(truth == 1, share / truth.mean(), (1 - share) / (1 - truth.mean()))  # weights of single rows
    by_hand = counts_from_rows(score, truth, automate_at=0.7, weight=times)
    for name in SUMS:
        np.testing.assert_allclose(getattr(now, name), getattr(by_hand, name), rtol=1e-9, atol=1e-12)
    odds = share * (1 - truth.mean()) / ((1 - share) * truth.mean())  # Saerens, Latinne & Decaestecker 2002
    p = then.rate
    np.testing.assert_allclose(now.rate, p * odds / (p * odds + 1 - p), rtol=1e-9)
    assert point("roc_auc", now) == pytest.approx(point("roc_auc", then))


def test_scores_that_are_worth_more_and_nothing_that_changed_are_no_class_mix():
    rng = np.random.default_rng(6)
    worth, same = (class_mix(now, drawn(rng)) for now in (drawn(rng, 2.0, moves_scores=False), drawn(rng)))
    assert not worth.only_share_changed
    assert not same.only_share_changed
    assert worth.fit < 1e-6
    assert same.p_value > 0.01


def test_a_fault_is_no_class_mix_where_scores_separate_nothing():
    rng, score = np.random.default_rng(9), np.linspace(0.97, 0.999, 5_000)
    then, now = (
        bin_counts(counts_from_rows(score, (rng.random(5_000) < rate).astype(float)), (9_750, 9_800, 9_900, 10_000))
        for rate in (0.9995, 0.85)
    )
    found = class_mix(now, then)
    assert (found.p_value < 1e-6, found.fit >= FITS) == (True, True)
    assert not found.is_separable
    assert not found.only_share_changed


@pytest.mark.parametrize("outcome", [np.zeros(100), np.ones(100)])
def test_one_class_alone_says_nothing(outcome: np.ndarray):
    one = bins(outcome, np.full(100, 0.5))
    assert class_mix(one, drawn(np.random.default_rng(9))) is None
    assert class_mix(drawn(np.random.default_rng(9)), one) is None


def test_a_fault_that_few_rows_do_not_show_is_no_class_mix_since_scores_lie_where_they_did():
    rng, then, called, fitting = np.random.default_rng(11), drawn(np.random.default_rng(10)), 0, 0
    for _ in range(200):
        score = rng.choice(np.arange(0.05, 1.0, 0.1), 2_000)
        found = class_mix(bins((rng.random(2_000) < score - 0.05).astype(float), score), then)
        fitting += found.p_value < 0.01 and found.fit >= FITS
        called += found.only_share_changed
    assert fitting > 30  # another share of true items, by which they are scored as before as far as these rows show
    assert called <= 4


def test_another_share_of_true_items_moves_the_scores_towards_them():
    rng, then = np.random.default_rng(12), drawn(np.random.default_rng(10))
    for odds in (0.5, 2.0):
        found = class_mix(drawn(rng, odds), then)
        assert found.scores < 1e-6
        assert found.only_share_changed


def test_true_items_that_a_fault_loses_are_not_told_by_the_scores():
    rng, then, told = np.random.default_rng(13), drawn(np.random.default_rng(10)), []
    for _ in range(100):
        score = rng.choice(np.arange(0.05, 1.0, 0.1), 2_000)
        found = class_mix(bins((rng.random(2_000) < score - 0.1).clip(0).astype(float), score), then)
        assert found.now < found.told <= found.then
        told.append(found.then - found.told)
    # the share that scores tell, (mean rate - E(r | 0)) / (E(r | 1) - E(r | 0)) of 2,000 rows, has this deviation
    rate = np.arange(0.05, 1.0, 0.1)
    apart = (rate**2).sum() / 5 - (rate * (1 - rate)).sum() / 5
    deviation = rate.std() / apart * np.sqrt(1 / 2_000 + 1 / 20_000)
    assert np.mean(told) == pytest.approx(2 * deviation, rel=0.15)  # two of them beyond what is told, 0 in the mean
