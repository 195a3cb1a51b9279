"""Tests of feature columns that rules can name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from monitor.evaluation.shift.distances import wasserstein
from monitor.evaluation.shift.feature_tests import column_tests

RNG = np.random.default_rng(5)


def test_numbers_get_the_two_sample_ks_test_and_a_psi():
    now, then = RNG.normal(0.5, 1, 800), RNG.normal(0, 1, 1200)
    found = dict(column_tests(pd.Series([*now, np.nan]), pd.Series(then), "numerical"))
    oracle = stats.ks_2samp(now, then, method="asymp")
    assert (found["ks"].statistic, found["ks"].p_value) == (oracle.statistic, oracle.pvalue)
    assert 0.1 < found["psi"].statistic < 0.5


def test_categories_get_a_chi_square_with_cramers_v():
    now = pd.Series(["web"] * 300 + ["email"] * 100)
    then = pd.Series(["web"] * 500 + ["email"] * 480 + ["chat"] * 20)
    found = dict(column_tests(now, then, "categorical"))
    oracle = stats.contingency.association([[100, 300, 0], [480, 500, 20]], method="cramer")
    assert found["chi_square"].statistic == pytest.approx(oracle)
    assert found["chi_square"].p_value < 1e-6


@pytest.mark.parametrize("kind", ["numerical", "categorical"])
def test_what_did_not_move_has_no_effect(kind: str):
    same = pd.Series([1.0, 2.0, 3.0] * 200) if kind == "numerical" else pd.Series(["a", "b"] * 200)
    for _, effect in column_tests(same, same, kind):  # type: ignore[arg-type]
        assert effect.statistic == pytest.approx(0)
    alone = pd.Series([7.0] * 200) if kind == "numerical" else pd.Series(["only"] * 200)
    assert all(effect.statistic == pytest.approx(0) for _, effect in column_tests(alone, alone, kind))  # type: ignore[arg-type]


@pytest.mark.parametrize("values", [[0.0, 1.0], [0.0, 1.0, 2.0, 5.0, 6.0]], ids=["two values", "five"])
def test_the_p_value_of_an_area_between_distributions_is_that_of_permutations(values: list[float]):
    rng, at = np.random.default_rng(3), np.array(values)
    pooled = rng.integers(0, len(values), 1_000)

    def shares(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = (np.bincount(part, minlength=len(values)) / 500 for part in (rows[:500], rows[500:]))
        return first, second

    found = [wasserstein(at, shares(rng.permutation(pooled)), (500.0, 500.0)) for _ in range(2_000)]
    p_values = np.array([p for _, p in found])
    for rate in (0.05, 0.1, 0.3):
        assert (p_values <= rate).mean() == pytest.approx(rate, abs=0.03)
