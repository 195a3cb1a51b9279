"""Input at the ends of what is possible: a defined answer, or a named reason why there is none."""

from __future__ import annotations

import numpy as np
import pytest

from monitor.core.counts import BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.intervals import Form, breaching_bins, ece_intervals, mce_intervals
from tests.fakes.one_table import mce_interval, table

FORMS = ("bootstrap", "analytic")
UNKNOWN = Interval(None, None, None, None)


def rows(score: object, outcome: object, bins: int = 15, **options: object) -> BinCounts:
    counts = counts_from_rows(score, outcome, **options)  # type: ignore[arg-type]
    return bin_counts(counts, equal_frequency_edges(counts, bins))


SPREAD = np.linspace(0.02, 0.98, 60)
EXTREMES = {
    "one row, a hit": rows([0.3], [1]),
    "one row, no hit": rows([0.3], [0]),
    "one row, sure and right": rows([1.0], [1]),
    "one row, sure and wrong": rows([1.0], [0]),
    "two rows": rows([0.2, 0.9], [1, 0]),
    "one bin": rows(SPREAD, SPREAD > 0.5, bins=1),
    "all right": rows(SPREAD, np.ones(60)),
    "all wrong": rows(SPREAD, np.zeros(60)),
    "scores all 0, all wrong": rows(np.zeros(50), np.zeros(50)),
    "scores all 0, all right": rows(np.zeros(50), np.ones(50)),
    "scores all 1, all right": rows(np.ones(50), np.ones(50)),
    "scores all 1, all wrong": rows(np.ones(50), np.zeros(50)),
    "scores all 1, half right": rows(np.ones(50), np.arange(50) % 2),
    "one distinct score": rows(np.full(80, 0.7), np.arange(80) < 50),
    "as promised to the last row": table([100, 100], [0.2, 0.9], [0.2, 0.9]),
    "empty bins": table([0, 40, 0, 60, 0], [0, 0.2, 0, 0.9, 0], [0, 0.3, 0, 0.8, 0]),
    "some weights zero": rows(SPREAD, SPREAD > 0.4, weight=np.where(SPREAD > 0.5, 1.0, 0.0)),
    "one heavy row": rows(SPREAD, SPREAD > 0.4, weight=np.where(SPREAD > 0.97, 1e6, 1.0)),
    "tiny weights": rows(SPREAD, SPREAD > 0.4, weight=np.full(60, 1e-9)),
    "one cluster": rows(SPREAD, np.ones(60), design_effect=60.0),
    "fractional effective n": table([10, 20], [0.3, 0.8], [0.4, 0.5], [10 / 4.3, 20 / 0.7]),
    "a hundred million rows": table([5e7, 5e7], [0.3, 0.8], [0.3001, 0.79]),
    "a hundred million rows, rare": table([9.9e7, 1e6], [1e-8, 0.5], [0.0, 0.5]),
}
"""All have at least one row of positive weight."""


def numbers(interval: Interval) -> tuple[float, float, float]:
    return interval.low, interval.value, interval.high


def ece(table: BinCounts, form: Form, resamples: int = 1000) -> tuple[float, float, float]:
    return numbers(ece_intervals([table], [np.random.default_rng(7)], form=form, resamples=resamples)[0])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", EXTREMES)
def test_every_extreme_has_an_ordered_ece_interval_whose_upper_limit_is_not_zero(name: str, form: Form):
    low, value, high = ece(EXTREMES[name], form)
    assert 0 <= low <= value <= high <= 1
    assert high > 0


@pytest.mark.parametrize("name", EXTREMES)
def test_every_extreme_has_an_ordered_mce_interval_and_a_worst_bin(name: str):
    found = mce_interval(EXTREMES[name])
    low, value, high = numbers(found.interval)
    assert 0 <= low <= value <= high <= 1
    assert high > 0
    assert found.worst_n > 0
    assert low - 1e-9 <= abs(found.worst_gap) <= high + 1e-9


@pytest.mark.parametrize(
    "empty",
    [
        table([0, 0], [0, 0], [0, 0]),
        bin_counts(counts_from_rows([], []), (10_000,)),
        rows([0.2, 0.7], [1, 0], weight=[0.0, 0.0]),
    ],
    ids=["empty bins only", "no row", "zero weights only"],
)
def test_without_a_row_that_weighs_something_nothing_is_defined_and_no_bin_is_named(empty: BinCounts):
    some = EXTREMES["one distinct score"]
    for form in FORMS:
        rngs = [np.random.default_rng(0), np.random.default_rng(7)]
        nothing, other = ece_intervals([empty, some], rngs, form=form)
        assert nothing == UNKNOWN
        assert numbers(other) == pytest.approx(ece(some, form), abs=1e-12)
    first, second = mce_intervals([empty, some])
    assert (first.interval, first.worst_n) == (UNKNOWN, 0)
    assert second.worst_n == 80
    assert breaching_bins(empty, 0.1, 0.95) == []
    assert mce_intervals([]) == []


def test_one_row_says_next_to_nothing():
    # score .3 and a hit: at a hit rate .3 + g the gap .7 is seen with probability .3 + g. So no gap is
    # excluded (.3 > .025), the median is g = .2, and no gap is too large to have shown just this
    low, value, high = ece(EXTREMES["one row, a hit"], "bootstrap", resamples=20_000)
    assert (low, high) == (0.0, pytest.approx(0.7))
    assert value == pytest.approx(0.2, abs=0.01)
    low, value, high = ece(EXTREMES["one row, a hit"], "analytic")
    assert (low, high) == (0.0, pytest.approx(0.7))
    assert value < 0.4


@pytest.mark.parametrize("name", ["scores all 0, all wrong", "scores all 1, all right"])
def test_fifty_rows_without_a_miss_allow_the_gap_that_shows_one_in_39_of_40_samples(name: str):
    exact = 1 - 0.025 ** (1 / 50)  # (1 - g)^50 = .025: a sample as good as this one in 1 of 40
    for form, precision in (("bootstrap", 0.002), ("analytic", 0.012)):
        low, value, high = ece(EXTREMES[name], form)  # type: ignore[arg-type]
        assert (low, value) == (0.0, 0.0)
        assert high == pytest.approx(exact, abs=precision)
    assert mce_interval(EXTREMES[name]).interval.high == pytest.approx(exact)  # Clopper-Pearson says the same


@pytest.mark.parametrize("form", ["bootstrap", "analytic"])
def test_one_cluster_is_one_observation_however_many_rows_it_has(form: Form):
    low, _, high = ece(EXTREMES["one cluster"], form)
    alone_low, _, alone_high = ece(rows(SPREAD, np.ones(60)), form)
    assert low == 0.0  # a calibrated label may show it
    assert high - low >= 0.5
    assert alone_high - alone_low < 0.3


@pytest.mark.parametrize("n", [83.4, 83.6, 2.5, 0.4])
def test_a_bin_without_a_miss_keeps_a_lower_limit_below_what_was_seen_at_a_fractional_n(n: float):
    # drawn from 83 rows for 83.4 with less noise, no draw would reach what was seen
    low, value, high = ece(table([400], [0.86], [1.0], 400 / n), "bootstrap")
    whole, _, _ = ece(table([400], [0.86], [1.0], 400 / max(np.floor(n), 1.0)), "bootstrap")
    assert low <= whole + 0.01
    assert low < value or value == 0
    assert high >= 0.14 - 1e-9


@pytest.mark.parametrize("form", ["bootstrap", "analytic"])
def test_a_hundred_million_rows_leave_no_doubt(form: Form):
    low, value, high = ece(EXTREMES["a hundred million rows"], form)
    assert value == pytest.approx(0.00505, abs=1e-4)
    assert high - low < 3e-4
    low, _, high = ece(EXTREMES["a hundred million rows, rare"], form)
    assert low == 0.0
    assert high < 1e-4


def test_a_million_times_the_rows_have_as_many_bins_and_the_error_that_was_seen():
    counts = []
    for repeated in (1, 10**6):
        one = counts_from_rows(SPREAD, SPREAD > 0.4)
        counts.append(
            Counts(one.cell, one.predicted, one.automated, one.n * repeated, *(
                getattr(one, name) * repeated for name in ("w", "w2", "ws", "wy", "wsy", "ws2", "wy2")))
        )  # fmt: skip
    small, large = (bin_counts(part, equal_frequency_edges(part, 15)) for part in counts)
    assert len(small.n) == len(large.n)
    true = np.abs(large.ws - large.wy).sum() / large.w.sum()
    assert ece(large, "analytic")[1] == pytest.approx(true, abs=1e-4)
