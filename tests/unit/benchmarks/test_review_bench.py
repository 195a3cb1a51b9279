"""The benchmark of review sampling: its truth is that of the population, and it runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import review
from benchmarks.populations import PHISHING, SIX_PERCENT, endless
from benchmarks.review import covered, reviewed, truth_of


def test_the_truth_is_that_of_many_rows() -> None:
    made = endless(SIX_PERCENT)
    many = SIX_PERCENT.draw(np.random.default_rng(1), 400_000)
    missed = float(many.wy[~many.predicted].sum() / many.wy.sum())
    assert truth_of(made, "false_negative_rate") == pytest.approx(missed, abs=0.01)


def test_one_in_so_many_of_the_unflagged_rows_is_reviewed_and_weighs_as_many() -> None:
    counts = reviewed(endless(SIX_PERCENT), 20, np.random.default_rng(2))
    plain = counts.w / counts.n
    assert set(plain[counts.predicted]) == {1.0}
    assert set(plain[~counts.predicted]) == {20.0}


def test_what_failed_before_covers_now() -> None:
    assert covered(PHISHING, "recall", 20, 60, before=True)[0] < 0.5
    assert covered(PHISHING, "recall", 20, 60, before=False)[0] > 0.85


def test_a_quick_look_prints_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    review.main(["--quick"])
    assert "One in K of the unflagged rows reviewed" in capsys.readouterr().out
