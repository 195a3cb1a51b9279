"""The worlds of the scores that go on acting, in a small form."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.limits import BAD, WORLDS, kept_promise, limited, line, oracle


def test_the_oracle_finds_what_the_fault_leaves() -> None:
    everywhere, low = WORLDS[0].population(BAD - 1), WORLDS[1].population(BAD - 1)
    assert oracle(everywhere) is None
    assert oracle(low) == pytest.approx(0.83)
    assert kept_promise(low, 0.9)[0] == pytest.approx(0.05, abs=0.003)  # scores from .9 on are as they were
    assert oracle(WORLDS[1].population(-1)) == pytest.approx(0.8)


def test_what_goes_on_is_safe_and_off_where_nothing_is() -> None:
    assert [limited(WORLDS[0], seed) for seed in range(5)] == [None] * 5
    scores = [limited(WORLDS[1], seed) for seed in range(5)]
    population = WORLDS[1].population(BAD - 1)
    assert all(score is not None and kept_promise(population, score)[0] >= 0 for score in scores)
    assert np.mean([score or 1.0 for score in scores]) < 0.9
    assert line(WORLDS[0], 3)[1:3] == ("none", "1.00")
