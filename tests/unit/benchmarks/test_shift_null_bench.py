"""A week of the study has all tests of a run, quiet where nothing moved; what moved far is found."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import shift_null


def test_a_week_has_every_test_of_a_run_and_what_moved_far_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shift_null, "LABELS", 2)
    monkeypatch.setattr(shift_null, "SAMPLE", 400)
    rng = np.random.default_rng(1)
    tests = {shift.test for shift in shift_null.shifts_of(shift_null.Week(), rng) if shift.p_value is not None}
    assert tests == {
        "ks", "wasserstein", "jensen_shannon", "chi_square", "missing", "empty", "new_categories", "constant"
    }  # fmt: skip
    (found,) = shift_null.found_in(shift_null.Week(label=0.5, column=1.0), 1)
    assert {(each.result.subject.label, each.result.column) for each in found} >= {
        ("label 0", "score"), (None, "number_0")
    }  # fmt: skip
