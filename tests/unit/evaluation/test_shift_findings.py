"""Which shift tests are findings, and the one family that all of a source are."""

from __future__ import annotations

from dataclasses import replace
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy import stats

from monitor.core import windows
from monitor.core.records import ShiftResult, Subject
from monitor.evaluation.shift.findings import findings, p_values_of
from monitor.report.tables import shift_sentence

WINDOW = windows.week("2026-W46", ZoneInfo("UTC"))


def result(
    p: float | None, *, effect: float = 0.3, test: str = "ks", column: str = "score", of: str = "a"
) -> ShiftResult:
    return ShiftResult(Subject("mail", of), WINDOW, test, column, effect, p, 500, 5_000)


def test_p_values_are_adjusted_over_all_tests_of_the_source():
    p_values = [0.0001, 0.004, 0.03, 0.5, 0.9]
    shifts = [result(p, of=str(place)) for place, p in enumerate(p_values)]
    found = findings(shifts, 0.05)
    expected = stats.false_discovery_control(p_values, method="bh")
    assert [each.p_adjusted for each in found] == pytest.approx([p for p in expected if p < 0.05])
    assert [each.result.subject.label for each in found] == ["0", "1"]


def test_each_source_and_window_is_a_family_of_its_own():
    other = [replace(result(0.9), subject=Subject("chat", str(k))) for k in range(50)]
    assert len(findings([result(0.004), *other], 0.01)) == 1
    assert findings([result(0.004), *[result(0.9, of=str(k)) for k in range(50)]], 0.01) == ()


@pytest.mark.parametrize(
    ("test", "effect", "noticed"),
    [("ks", 0.01, False), ("ks", 0.03, True), ("wasserstein", 0.04, False), ("missing", -0.2, True),
     ("missing", 0.005, False), ("constant", 0.0, False), ("constant", 0.4, True)],
)  # fmt: skip
def test_an_effect_that_nobody_would_notice_is_none_however_certain(test: str, effect: float, noticed: bool):
    assert bool(findings([result(1e-30, effect=effect, test=test)], 0.01)) is noticed


def test_tests_without_a_p_value_are_neither_findings_nor_in_the_family():
    shifts = [result(None, test="psi"), result(0.005)]
    assert p_values_of(shifts) == (0.005,)
    assert [each.result.test for each in findings(shifts, 0.01)] == ["ks"]


def test_the_sentence_names_what_was_found_and_counts_the_tests():
    shifts = [
        result(1e-9), result(0.9, of="b"), result(1e-8, test="missing", column="language"), result(None, test="psi")
    ]  # fmt: skip
    said = shift_sentence(shifts, findings(shifts, 0.01))
    assert said == (
        "Shift found in 2 of 3 tests: scores of a (KS distance 0.3), language of a (rise of the missing share 0.3)."
    )
    assert shift_sentence(shifts[1:2], ()) == "No shift found in 1 test."


def test_unchanged_weeks_give_hardly_ever_a_finding():
    rng = np.random.default_rng(11)
    weeks = [[result(p, of=str(k)) for k, p in enumerate(rng.random(200))] for _ in range(300)]
    assert sum(bool(findings(week, 0.01)) for week in weeks) <= 8
