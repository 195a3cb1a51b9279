"""The study of adjustments: every method on p-values whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.families import METHODS, WeekTests, main, present, weighted_joint
from monitor.inference.multiplicity import adjust

RATE = 0.01


def made(p: np.ndarray) -> WeekTests:
    return WeekTests(p, np.ones(p.shape, dtype=bool), len(p))


def test_the_present_method_is_that_of_runs() -> None:
    p = np.random.default_rng(1).random((3, 20)) ** 6
    p[2, 1:] = np.nan
    found = present(made(p), RATE)
    for row in range(2):
        assert found[row].tolist() == [each < RATE for each in adjust(p[row].tolist(), 3)]
    assert found[2].tolist() == [p[2, 0] * 3 < RATE, *[False] * 19]


@pytest.mark.parametrize("seed", range(20))
def test_one_weighted_family_finds_all_that_the_present_method_finds(seed: int) -> None:
    p = np.random.default_rng(seed).random((5, 20)) ** 9
    p[4, 1:] = np.nan
    assert (present(made(p), RATE) <= weighted_joint(made(p), RATE)).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_finds_what_is_plain_and_nothing_where_p_values_are_large(name: str) -> None:
    p = np.full((5, 20), 0.5)
    assert not METHODS[name](made(p), RATE).any()
    p[1, 3] = 1e-9
    assert METHODS[name](made(p), RATE).tolist() == (p < 0.1).tolist()


@pytest.mark.parametrize(
    "name", ["BH by rule (present)", "Bonferroni", "weighted BH over all", "labels first (Simes)", "mean e-value, e-BH"]
)
def test_independent_p_values_are_found_no_more_often_than_the_rate(name: str) -> None:
    rng = np.random.default_rng(3)
    found = sum(bool(METHODS[name](made(rng.random((5, 20))), 0.1).any()) for _ in range(600))
    assert found <= 60 + 3 * np.sqrt(54)


def test_a_quick_look_prints_both_tables(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--quick"])
    told = capsys.readouterr().out
    assert "Found in the first week" in told
    assert "nothing changes and anything is significant" in told
