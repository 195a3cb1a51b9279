"""k-fold evaluation: folds share out the rows, and their spread is that of the metric."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import Counts, counts_from_rows, empty_counts, pool
from monitor.inference.levels import interval
from monitor.recalibration.gain import folds
from monitor.recalibration.stability import Stability, stability


def rows(n: int = 20_000, seed: int = 1) -> Counts:
    rng = np.random.default_rng(seed)
    score = rng.beta(1.2, 1.5, n).round(3)
    predicted = score + rng.normal(0, 0.05, n) >= 0.5  # what was decided does not follow from the score
    return counts_from_rows(score, rng.random(n) < score**1.3, predicted=predicted, automate_at=0.8)


def test_folds_that_know_the_decisions_put_together_are_the_rows() -> None:
    counts = rows(3_000)
    parts = [fold.held for fold in folds(counts, 5, np.random.default_rng(2), decided=True)]
    assert [part.rows for part in parts] == [600] * 5
    again = pool(parts)
    for name in ("cell", "predicted", "automated", "n", "w", "wy", "ws"):
        np.testing.assert_allclose(getattr(again, name), getattr(counts, name), atol=1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "shortfall", "brier", "false_positive_rate", "automated_accuracy"])
def test_the_mean_of_equal_folds_is_the_value_of_all_rows_and_their_spread_its_standard_error(metric: str) -> None:
    counts = rows()
    whole = interval(metric, counts, 0.95)
    found = [stability(metric, counts, np.random.default_rng(seed), k=10) for seed in range(20)]
    assert whole.value is not None
    assert whole.low is not None
    assert whole.high is not None
    assert [each.mean for each in found] == pytest.approx([whole.value] * 20, abs=2e-3)
    errors = [each.standard_error for each in found if each.standard_error is not None]
    assert len(errors) == 20
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx((whole.high - whole.low) / 2 / 1.96, rel=0.25)


@pytest.mark.parametrize(
    ("metric", "wide"), [("ece", 0.02), ("mce", 0.08), ("roc_auc", 0.01), ("brier_reliability", 0.01)]
)
def test_folds_are_near_the_value_of_all_rows_where_that_is_debiased_too(metric: str, wide: float) -> None:
    found = stability(metric, rows(), np.random.default_rng(3))
    whole = stability(metric, rows(100_000, seed=9), np.random.default_rng(4), k=2)
    assert found.mean == pytest.approx(whole.mean, abs=wide)
    assert found.deviation is not None
    assert 0 < found.deviation < wide


def test_the_same_seed_gives_the_same_folds() -> None:
    one, two, other = (stability("ece", rows(), np.random.default_rng(seed)).values for seed in (5, 5, 6))
    assert one == two != other


def test_what_a_fold_does_not_define_is_none_and_left_out_of_the_mean() -> None:
    assert stability("accuracy", empty_counts(), np.random.default_rng(1)).values == (None,) * 5
    known = Stability("f1", (0.5, None, 0.7))
    assert known.mean == pytest.approx(0.6)
    assert known.deviation == pytest.approx(np.sqrt(0.02))
    assert Stability("f1", (None, 0.7)).standard_error is None


def test_one_fold_and_a_metric_of_whole_rows_are_refused() -> None:
    with pytest.raises(ValueError, match="at least two folds"):
        stability("ece", rows(100), np.random.default_rng(1), k=1)
    with pytest.raises(KeyError):
        stability("kappa", rows(100), np.random.default_rng(1))
