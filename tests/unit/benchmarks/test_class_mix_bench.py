"""The benchmark of prior shift: it draws what it says, and it runs."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import class_mix
from benchmarks.class_mix import FAULTS, faulty, reason_of, shifted


def test_prior_shift_is_named_and_a_fault_is_not() -> None:
    rng = np.random.default_rng(1)
    baseline = shifted(rng, 40_000, 0.3)
    assert reason_of("ece-increase", baseline, shifted(rng, 5_000, 0.45)) == "class_mix"
    assert reason_of("ece-increase", baseline, shifted(rng, 5_000, 0.3)) == "ok"
    for worth in FAULTS.values():
        assert reason_of("ece-increase", baseline, faulty(rng, 5_000, worth)) == "increased"


def test_a_quick_look_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    class_mix.main(["--quick"])
    printed = capsys.readouterr().out
    assert "What ece-increase calls a change" in printed
    assert "What mce-increase calls a change" in printed
