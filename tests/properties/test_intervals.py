"""What holds for every table whatsoever."""

from __future__ import annotations

from dataclasses import astuple
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import BinCounts, Counts, Floats, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.alignment import align
from monitor.inference.change import ece_rate_p
from monitor.inference.gaps import EXACT_BELOW, GapTables, curves, hypothetical, realised, stack, start_of
from monitor.inference.intervals import Form, breaching_bins, ece_intervals, mce_intervals
from monitor.inference.merging import merge_thin
from monitor.inference.resampling import bootstrap_positions
from tests.fakes.one_table import (
    ece_increase_detectable,
    ece_increase_p,
    ece_level_detectable,
    ece_level_p,
    mce_increase_detectable,
    mce_increase_p,
    mce_interval,
    mce_level_detectable,
    mce_level_p,
)

FORMS: tuple[Form, ...] = ("bootstrap", "analytic")

scores = st.one_of(st.sampled_from([0.0, 0.5, 0.9999, 1.0]), st.floats(0, 1))
row = st.tuples(scores, st.sampled_from([0.0, 1.0, 0.3]), st.floats(0.1, 50))


@st.composite
def samples(draw: st.DrawFn) -> Counts:
    """Rows of extreme and of ordinary scores, repeated, weighted, clustered."""
    chosen = draw(st.lists(row, min_size=1, max_size=12))
    times = draw(st.integers(1, 400))
    weighted = draw(st.booleans())
    score, outcome, weight = (np.repeat(column, times) for column in np.array(chosen).T)
    return counts_from_rows(
        score, outcome, weight=weight if weighted else None, design_effect=draw(st.sampled_from([1.0, 1.7, 40.0]))
    )


@st.composite
def tables(draw: st.DrawFn) -> BinCounts:
    counts = draw(samples())
    return bin_counts(counts, equal_frequency_edges(counts, draw(st.integers(1, 15))))


def assert_sound(interval: Interval) -> None:
    assert interval.low is not None
    assert interval.value is not None
    assert interval.high is not None
    assert interval.plug_in is not None
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high > 0
    assert 0 <= interval.plug_in <= 1


@settings(max_examples=60, deadline=None)
@given(bins=tables(), form=st.sampled_from(FORMS))
def test_an_ece_interval_is_ordered_and_its_upper_limit_is_never_zero(bins: BinCounts, form: Form) -> None:
    assert_sound(ece_intervals([bins], [np.random.default_rng(0)], form=form, resamples=200)[0])


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
        found[own] = bootstrap_positions(asked.take(own), found[own], np.random.default_rng(row), resamples)
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


@settings(max_examples=60, deadline=None)
@given(bins=tables())
def test_an_mce_interval_is_ordered_and_holds_the_largest_gap_of_the_merged_bins(bins: BinCounts) -> None:
    found = mce_interval(bins)
    assert_sound(found.interval)
    assert found.interval.low is not None
    assert found.interval.high is not None
    assert found.interval.low - 1e-9 <= abs(found.worst_gap) <= found.interval.high + 1e-9
    assert found.worst_n == found.bins.n[found.worst]


@settings(max_examples=60, deadline=None)
@given(one=tables(), other=samples())
def test_merging_loses_no_row_and_leaves_no_thin_bin(one: BinCounts, other: Counts) -> None:
    two = bin_counts(other, one.upper.tolist())
    merged = merge_thin([one, two])
    for before, after in zip((one, two), merged, strict=True):
        assert after.n.sum() == before.n.sum()
        assert (after.n >= 100).all() or len(after.n) == 1
        assert after.upper[-1] == before.upper[-1]


@settings(max_examples=60, deadline=None)
@given(bins=tables(), threshold=st.floats(0, 1))
def test_blocked_ranges_are_disjoint_and_only_where_the_whole_is_significantly_above(
    bins: BinCounts, threshold: float
) -> None:
    ranges = breaching_bins(bins, threshold, 0.95)
    low = mce_interval(bins).interval.low
    assert low is not None
    assert bool(ranges) == (low > threshold)
    assert all(first[1] < second[0] for first, second in pairwise(ranges))


@settings(max_examples=40, deadline=None)
@given(window=samples(), baseline=samples(), threshold=st.floats(0, 1))
def test_every_test_gives_a_probability_and_every_detectable_a_distance(
    window: Counts, baseline: Counts, threshold: float
) -> None:
    aligned = align(window, baseline, equal_frequency_edges(baseline, 15), 15)
    now = bin_counts(window, equal_frequency_edges(baseline, 15))
    then = bin_counts(baseline, equal_frequency_edges(baseline, 15))
    p_values = [ece_increase_p(now, then), ece_rate_p(now, then), mce_increase_p(now, then)]
    distances = [ece_increase_detectable(now, then, rate=0.01), mce_increase_detectable(now, then, rate=0.01)]
    for above in (True, False):
        side = "above" if above else "below"
        p_values += [ece_level_p(now, threshold, side=side), mce_level_p(now, threshold, side=side)]
        distances += [
            ece_level_detectable(now, threshold, rate=0.01, side=side),
            mce_level_detectable(now, threshold, rate=0.01, side=side),
        ]
    assert all(0 <= p <= 1 for p in p_values)
    assert all(distance is None or 0 <= distance <= 1 for distance in distances)
    assert 0 <= aligned.comparable <= 1
