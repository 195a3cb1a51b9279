"""What holds for every table whatsoever."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.core.counts import BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.bins import align, merge_thin
from monitor.inference.change import ece_rate_p
from monitor.inference.intervals import Form, breaching_bins, ece_intervals
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

FORMS = ("bootstrap", "analytic")

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
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.high > 0
    assert 0 <= interval.plug_in <= 1


@settings(max_examples=60, deadline=None)
@given(bins=tables(), form=st.sampled_from(FORMS))
def test_an_ece_interval_is_ordered_and_its_upper_limit_is_never_zero(bins: BinCounts, form: Form):
    assert_sound(ece_intervals([bins], [np.random.default_rng(0)], form=form, resamples=200)[0])


@settings(max_examples=60, deadline=None)
@given(bins=tables())
def test_an_mce_interval_is_ordered_and_holds_the_largest_gap_of_the_merged_bins(bins: BinCounts):
    found = mce_interval(bins)
    assert_sound(found.interval)
    assert found.interval.low - 1e-9 <= abs(found.worst_gap) <= found.interval.high + 1e-9
    worst = [found.bins.range_of(index) for index in range(len(found.bins.n))].index(found.worst_range)
    assert found.worst_n == found.bins.n[worst]


@settings(max_examples=60, deadline=None)
@given(one=tables(), other=samples())
def test_merging_loses_no_row_and_leaves_no_thin_bin(one: BinCounts, other: Counts):
    two = bin_counts(other, one.upper.tolist())
    merged = merge_thin([one, two])
    for before, after in zip((one, two), merged, strict=True):
        assert after.n.sum() == before.n.sum()
        assert (after.n >= 100).all() or len(after.n) == 1
        assert after.upper[-1] == before.upper[-1]


@settings(max_examples=60, deadline=None)
@given(bins=tables(), threshold=st.floats(0, 1))
def test_blocked_ranges_are_disjoint_and_only_where_the_whole_is_significantly_above(bins: BinCounts, threshold: float):
    ranges = breaching_bins(bins, threshold, 0.95)
    low = mce_interval(bins).interval.low
    assert bool(ranges) == (low > threshold)
    assert all(first[1] < second[0] for first, second in pairwise(ranges))


@settings(max_examples=40, deadline=None)
@given(window=samples(), baseline=samples(), threshold=st.floats(0, 1))
def test_every_test_gives_a_probability_and_every_detectable_a_distance(
    window: Counts, baseline: Counts, threshold: float
):
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
