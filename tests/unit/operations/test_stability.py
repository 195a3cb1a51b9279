"""k-fold stability from counts: folds that add up, and a spread as sampling theory has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.counts import counts_from_rows
from monitor.core.records import Subject, Window
from monitor.operations.stability import Stability, stability

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(MONDAY, MONDAY + timedelta(weeks=1), "2026-W46", "weekly")
BILLING = Subject("tickets", "billing")


def stable(n: int, folds: int, *names: str, weight: object = None) -> dict[str, Stability]:
    rng = np.random.default_rng(n)
    score = rng.random(n).round(3)
    counts = counts_from_rows(score, rng.random(n) < score, weight=weight, automate_at=0.8)
    return {one.metric: one for one in stability(BILLING, counts, WEEK, folds, names, EvaluationConfig())}


def test_equal_parts_have_the_mean_of_all_rows_and_the_spread_of_samples() -> None:
    found = stable(10_000, 20, "accuracy", "brier", "recall", "ece")
    accuracy = found["accuracy"]
    assert accuracy.mean == pytest.approx(accuracy.whole.value, abs=1e-12), "decisions stay with their rows"
    assert found["brier"].mean == pytest.approx(found["brier"].whole.value, abs=1e-9)
    p = accuracy.whole.value or 0.0
    expected = np.sqrt(p * (1 - p) / 500 * (1 - 1 / 20))  # parts of one sample, without putting back
    assert accuracy.deviation == pytest.approx(expected, rel=0.5)
    assert found["recall"].whole.value is not None
    assert len(found["ece"].folds) == 20
    assert stable(10_000, 20, "accuracy")["accuracy"] == accuracy, "the same parts whatever else is asked"


def test_of_one_outcome_or_few_rows_what_is_not_defined_stays_unknown() -> None:
    counts = counts_from_rows([0.9, 0.9, 0.8], [1, 1, 1])
    found = {
        one.metric: one for one in stability(BILLING, counts, WEEK, 5, ["roc_auc", "accuracy"], EvaluationConfig())
    }
    assert (found["roc_auc"].mean, found["roc_auc"].deviation) == (None, None)
    assert sum(value is not None for value in found["accuracy"].folds) <= 3
    assert found["accuracy"].mean == 1.0


def test_weights_stay_with_their_rows() -> None:
    weight = np.where(np.arange(3_000) % 3 == 0, 5.0, 1.0)
    found = stable(3_000, 5, "accuracy", weight=weight)["accuracy"]
    assert found.mean == pytest.approx(found.whole.value, abs=0.01)
