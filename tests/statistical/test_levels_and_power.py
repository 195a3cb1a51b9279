"""By repetition: a change of the detectable size is seen as often as promised, and no change as seldom."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import counts_from_rows
from monitor.inference.between_weeks import correlations, week_effect
from tests.fakes.changes import decrease_test
from tests.fakes.one_table import ece_increase_detectable, ece_increase_p, mce_increase_detectable, mce_increase_p
from tests.unit.inference.test_between_weeks import ROWS, WEEKS, shares, spreads
from tests.unit.inference.test_detectability import RATE, SCORE, of_scores


@pytest.mark.parametrize(("then", "now", "gap"), [(20_000, 800, 0.0), (4000, 2000, 0.05), (1000, 1000, 0.02)])
def test_rises_of_the_detectable_size_are_seen_in_four_of_five_windows_of_any_size(
    then: int, now: int, gap: float
) -> None:
    rng = np.random.default_rng(21)
    start = SCORE + gap * np.array([1, -1, 1, -1, 1])
    window, baseline = of_scores(now, start), of_scores(then, start)
    every = ece_increase_detectable(window, baseline, rate=RATE)
    single = mce_increase_detectable(window, baseline, rate=RATE)
    # the ECE's rise is spread as the shrunk path spreads it: equally over all bins; the MCE's is one bin's
    risen = SCORE + (gap + every) * np.array([1, 1, 1, -1, -1] if gap == 0 else [1, -1, 1, -1, 1])
    worse = start.copy()
    worse[1] = SCORE[1] + gap + single
    frozen = [of_scores(then, rng.binomial(then, start) / then) for _ in range(200)]
    drawn = [[of_scores(now, rng.binomial(now, rate) / now) for _ in range(200)] for rate in (risen, worse)]
    ece = np.mean([ece_increase_p(w, b) <= RATE for w, b in zip(drawn[0], frozen, strict=True)])
    mce = np.mean([mce_increase_p(w, b) <= RATE for w, b in zip(drawn[1], frozen, strict=True)])
    assert ece == pytest.approx(0.8, abs=0.1)  # 3.5 standard errors of 200 draws
    assert mce == pytest.approx(0.8, abs=0.1)


def test_the_level_of_a_fall_holds_between_weeks_that_differ_and_does_not_without_their_spread() -> None:
    rng, planted, alpha = np.random.default_rng(4), 0.002, 0.01
    rejected = np.zeros(2)
    for _ in range(60):
        hits = shares(rng, 20, planted)
        known, now = correlations(spreads(hits)), shares(rng, 20, planted)[:, 0]
        for label in range(20):
            then = counts_from_rows([0.9] * WEEKS * ROWS, np.arange(WEEKS * ROWS) < hits[label].sum())
            window = counts_from_rows([0.9] * ROWS, np.arange(ROWS) < now[label])
            rho = known[label].correlation
            effects = week_effect(rho, ROWS, 1), week_effect(rho, WEEKS * ROWS, WEEKS)
            tests = (decrease_test("accuracy", window, then, 0.95, effects=each) for each in ((1.0, 1.0), effects))
            rejected += [(test.p_value or 1.0) < alpha for test in tests]
    plain, allowed = rejected / 1_200
    assert plain > 3 * alpha
    assert allowed < 2 * alpha
