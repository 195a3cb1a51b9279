"""A joint map of the k highest scores, against rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from monitor.core.counts import Counts, counts_from_rows
from monitor.recalibration.fitting import CannotFit
from monitor.recalibration.ranked_gain import ranked_gain


def ranked(seed: int, items: int, sharp: float) -> tuple[dict[int, Counts], np.ndarray, np.ndarray]:
    """Scores that are too confident, sorted from the highest within each item, with their outcomes."""
    rng = np.random.default_rng(seed)
    logit = np.sort(rng.normal(-1.0, 1.5, (items, 8)), axis=1)[:, ::-1]
    truth = rng.random((items, 8)) < 1 / (1 + np.exp(-logit))
    score = np.round(1 / (1 + np.exp(-sharp * logit)), 4)
    counts = {k: counts_from_rows(score[:, :k].ravel(), truth[:, :k].ravel()) for k in (1, 3, 5)}
    return counts, score, truth


@pytest.mark.parametrize("method", ["temperature", "platt", "isotonic"])
def test_before_is_of_the_rows_and_after_is_calibrated_on_rows_not_seen(method: str) -> None:
    counts, score, truth = ranked(1, 4_000, 2.0)
    found = ranked_gain(method, counts, np.random.default_rng(2))  # type: ignore[arg-type]
    for before, after in zip(found.before, found.after, strict=True):
        k = before.k
        s, y = score[:, :k].ravel(), truth[:, :k].ravel()
        assert before.precision == pytest.approx(y.mean())
        assert before.brier == pytest.approx(sk.brier_score_loss(y, s), abs=1e-6)
        assert before.nll == pytest.approx(sk.log_loss(y, s), abs=1e-4)
        bins = np.minimum(np.ceil(np.floor(s * 10_000 + 0.5) / 1_000) - 1, 9).clip(0)
        ece = sum(abs((y[bins == m] - s[bins == m]).sum()) for m in range(10)) / len(s)
        assert before.ece == pytest.approx(ece, abs=1e-6)
        assert after.precision == pytest.approx(before.precision, abs=1e-9), "the map keeps the order"
        assert (after.ece or 1) < 0.5 * (before.ece or 0)
        assert (after.brier or 1) < (before.brier or 0)
        assert (after.nll or 1) < (before.nll or 0)


def test_of_one_outcome_no_map_is_fitted() -> None:
    with pytest.raises(CannotFit, match="same outcome"):
        ranked_gain("platt", {1: counts_from_rows([0.9] * 50, [1] * 50)}, np.random.default_rng(1))
