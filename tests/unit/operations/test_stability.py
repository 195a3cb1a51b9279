"""k-fold stability from counts: parts that add up, and a spread as sampling theory has it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from monitor.config.model import EvaluationConfig
from monitor.core.counts import counts_from_rows
from monitor.core.records import Interval, Subject, Window
from monitor.operations.further_tables import FOLDS, stability

MONDAY = datetime(2026, 11, 9, tzinfo=UTC)
WEEK = Window(MONDAY, MONDAY + timedelta(weeks=1), "2026-W46", "weekly")
BILLING = Subject("tickets", "billing")


def stable(n: int, weight: object = None) -> dict[str, list[Interval]]:
    rng = np.random.default_rng(n)
    score = rng.random(n).round(3)
    counts = counts_from_rows(score, rng.random(n) < score, weight=weight, automate_at=0.8)
    return stability(BILLING, counts, WEEK, EvaluationConfig())


def test_equal_parts_have_the_mean_of_all_rows_and_the_spread_of_samples() -> None:
    found = stable(10_000)
    for metric in ("accuracy", "brier"):
        whole, *parts = (interval.value or 0.0 for interval in found[metric])
        assert len(parts) == FOLDS
        assert np.mean(parts) == pytest.approx(whole, abs=1e-9), "decisions stay with their rows"
    whole, *parts = (interval.value or 0.0 for interval in found["accuracy"])
    size = 10_000 / FOLDS  # parts of one sample, without putting back
    assert np.std(parts, ddof=1) == pytest.approx(np.sqrt(whole * (1 - whole) / size * (1 - 1 / FOLDS)), rel=0.7)
    assert stable(10_000) == found, "the same parts"


def test_of_one_outcome_or_few_rows_what_is_not_defined_stays_unknown() -> None:
    found = stability(BILLING, counts_from_rows([0.9, 0.9, 0.8], [1, 1, 1]), WEEK, EvaluationConfig())
    assert {interval.value for interval in found["roc_auc"]} == {None}
    _, *parts = found["accuracy"]
    assert {part.value for part in parts} == {1.0, None}


def test_weights_stay_with_their_rows() -> None:
    whole, *parts = (
        interval.value for interval in stable(3_000, np.where(np.arange(3_000) % 3 == 0, 5.0, 1.0))["accuracy"]
    )
    assert np.mean([part or 0.0 for part in parts]) == pytest.approx(whole, abs=0.01)
