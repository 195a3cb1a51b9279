"""Another share of true items: the expected rise is Saerens' formula, and only the share may have changed."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows
from monitor.inference.class_mix import class_mix

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


def test_prior_shift_is_found_to_be_all_and_brings_what_the_formula_says() -> None:
    rng = np.random.default_rng(5)
    found = class_mix(drawn(rng, 2.0), drawn(rng))
    assert found is not None
    assert found.only_share_changed
    assert (found.then, found.now) == (pytest.approx(0.5, abs=0.01), pytest.approx(2 / 3, abs=0.01))
    centre = np.arange(0.05, 1.0, 0.1)
    rate = 2 * centre / (2 * centre + 1 - centre)
    assert found.mce == pytest.approx(np.abs(rate - centre).max(), abs=0.02)
    weight = centre * (2 / 3) / 5 + (1 - centre) * (1 / 3) / 5
    assert found.ece == pytest.approx((weight * np.abs(rate - centre)).sum(), abs=0.01)
    assert found.expected_rise("ece") == found.ece - found.ece_then


def test_scores_that_are_worth_more_are_no_class_mix() -> None:
    rng = np.random.default_rng(6)
    found = class_mix(drawn(rng, 2.0, moves_scores=False), drawn(rng))
    assert found is not None
    assert not found.only_share_changed
    assert found.fit < 1e-6


def test_a_fault_is_no_class_mix_where_scores_separate_nothing() -> None:
    rng, score = np.random.default_rng(9), np.linspace(0.97, 0.999, 5_000)
    then, now = (
        bin_counts(counts_from_rows(score, (rng.random(5_000) < rate).astype(float)), (9_750, 9_800, 9_900, 10_000))
        for rate in (0.9995, 0.85)
    )
    found = class_mix(now, then)
    assert found is not None
    assert (found.p_value < 1e-6, found.fit >= 0.05) == (True, True)
    assert not found.is_separable
    assert not found.only_share_changed


def test_nothing_that_changed_is_no_class_mix() -> None:
    rng = np.random.default_rng(7)
    found = class_mix(drawn(rng), drawn(rng))
    assert found is not None
    assert not found.only_share_changed
    assert found.p_value > 0.01


@pytest.mark.parametrize("outcome", [np.zeros(100), np.ones(100)])
def test_one_class_alone_says_nothing(outcome: np.ndarray) -> None:
    one = bins(outcome, np.full(100, 0.5))
    assert class_mix(one, drawn(np.random.default_rng(9))) is None
    assert class_mix(drawn(np.random.default_rng(9)), one) is None


def test_a_fault_that_few_rows_do_not_show_is_no_class_mix_since_scores_lie_where_they_did() -> None:
    rng, then, called, fitting = np.random.default_rng(11), drawn(np.random.default_rng(10)), 0, 0
    for _ in range(200):
        score = rng.choice(np.arange(0.05, 1.0, 0.1), 2_000)
        found = class_mix(bins((rng.random(2_000) < score - 0.05).astype(float), score), then)
        assert found is not None
        fitting += found.p_value < 0.01 and found.fit >= 0.05
        called += found.only_share_changed
    assert fitting > 30  # another share of true items, by which they are scored as before as far as these rows show
    assert called <= 4


def test_another_share_of_true_items_moves_the_scores_towards_them() -> None:
    rng, then = np.random.default_rng(12), drawn(np.random.default_rng(10))
    for odds in (0.5, 2.0):
        found = class_mix(drawn(rng, odds), then)
        assert found is not None
        assert found.scores < 1e-6
        assert found.only_share_changed
