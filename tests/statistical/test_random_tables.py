"""A thousand random tables: closed form and bootstrap agree, and a table alone gives what it gives among others."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np

from monitor.core.counts import BinCounts, Floats
from monitor.inference.gaps import EXACT_BELOW, GapTables, curves, each_at, hypothetical, realised, stack, start_of
from monitor.inference.intervals import ece_intervals, mce_intervals
from monitor.inference.resampling import bootstrap_positions
from tests.fakes.one_table import mce_interval
from tests.properties.test_intervals import assert_sound


def random_table(rng: np.random.Generator) -> BinCounts:
    """1-30 bins of 100-100,000 rows, many score laws and gap shapes, some weighted, some clustered."""
    bins = int(rng.integers(1, 31))
    share = rng.dirichlet(np.full(bins, rng.choice([0.5, 2.0, 50.0])))
    n = np.maximum(1, np.rint(10 ** rng.uniform(2, 5) * share))
    score = np.sort(rng.beta(*rng.choice([(0.5, 0.5), (2.0, 2.0), (0.6, 8.0), (8.0, 0.6)]), bins))
    bump = np.where(np.arange(bins) == bins // 2, 0.25, 0.0)
    shapes = (np.zeros(bins), np.full(bins, -0.1), np.full(bins, 0.05), rng.normal(0, 0.08, bins), bump)
    rate = rng.binomial(n.astype(int), np.clip(score + shapes[rng.integers(5)], 0, 1)) / n
    w = n * (rng.uniform(0.5, 2, bins) if rng.random() < 0.2 else 1.0)
    upper = np.arange(1, bins + 1) * 10_000 // bins
    return BinCounts(upper, n.astype(int), w, w * score, w * rate, n / rng.choice([1.0, 1.0, 1.7, 5.0]))


def against(bins: GapTables, rate: Floats) -> Floats:
    """How many rows go against their score, the variance of all hits; with few, no expansion of T is exact."""
    return np.asarray((bins.n * rate * (1 - rate) * (bins.share > 0)).sum(axis=1))


def test_bootstrap_and_analytic_form_agree_on_a_thousand_random_tables_within_monte_carlo_error() -> None:
    resamples, size = 400, 1000
    rng = np.random.default_rng(20_261_121)
    drawn = [random_table(rng) for _ in range(1500)]
    bins = stack(drawn)
    drawn = [drawn[row] for row in np.flatnonzero(against(bins, bins.score) >= EXACT_BELOW)[:size]]
    assert len(drawn) == size
    asked = curves(stack(drawn), 0.95)
    found = asked.analytic()
    for row in range(size):
        own = np.arange(4) * size + row
        found[own] = bootstrap_positions(each_at(asked, own), found[own], np.random.default_rng(row), resamples)
    # the analytic T of what the bootstrap found is the target: to 4 standard errors of 400 resamples,
    # one step 1/N of the plug-in (the bootstrap's T jumps there) and the search's last bracket
    doubt = 4 * np.sqrt(asked.target * (1 - asked.target) / resamples)
    near = (asked.tables.share**2 / asked.tables.n).sum(axis=1) + asked.tables.noise / 64
    start = start_of(asked.tables, asked.uniform)
    too_far = asked.reached(np.maximum(found - near, start)) > asked.target + doubt
    too_near = asked.reached(np.minimum(found + near, 1.0)) < asked.target - doubt
    wrong = ((too_far & (found > start + 1e-9)) | too_near).reshape(4, size)
    rate = hypothetical(asked.tables, found, asked.uniform)
    judged = (against(asked.tables, rate) >= EXACT_BELOW).reshape(4, size)
    assert (judged.sum(axis=1) >= 900).all()
    wrong &= judged
    error = realised(asked.tables, rate).reshape(4, size)
    shrunk, uniform = error[2] >= error[3] - 1e-9, error[3] >= error[2] - 1e-9  # the larger path is the limit
    assert not wrong[:2].any()
    assert not (
        shrunk & ~uniform & wrong[2] | uniform & ~shrunk & wrong[3] | shrunk & uniform & wrong[2] & wrong[3]
    ).any()
    assert (found > start + 1e-9).reshape(4, size).sum(axis=1)[1:].min() > 500  # it is not about zeros


def test_a_thousand_random_tables_have_ordered_intervals_and_the_same_alone_as_together() -> None:
    rng = np.random.default_rng(5)
    drawn = [random_table(rng) for _ in range(1000)]
    closed = ece_intervals(drawn, [], form="analytic")
    worst = mce_intervals(drawn)
    for interval in (*closed, *(found.interval for found in worst)):
        assert_sound(interval)
    for row in range(0, 1000, 50):
        alone = ece_intervals(drawn[row : row + 1], [], form="analytic")[0]
        np.testing.assert_allclose(astuple(closed[row]), astuple(alone), atol=1e-12)
        one = mce_interval(drawn[row])
        np.testing.assert_allclose(one.interval.value, worst[row].interval.value, atol=1e-8)
        assert (one.interval.low, one.worst_range) == (worst[row].interval.low, worst[row].worst_range)
