"""Noise that the rows of one cluster share among bins: an upper limit that does not lean on where it lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.counts import BinCounts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.bins import merge_thin, pool_bins
from monitor.inference.gaps import analytic_limits, hypothetical, stack
from monitor.inference.intervals import Form, ece_intervals
from monitor.inference.shared import at_least_shared, shared_noise
from tests.fakes.one_table import table

Numbers = npt.NDArray[np.float64]


def random_tables(count: int, effect: float) -> list[BinCounts]:
    rng = np.random.default_rng(5)
    return [table(ROWS, np.sort(rng.random(15)), rng.random(15), effect) for _ in range(count)]


ROWS, SCORE = np.full(15, 400), np.linspace(0.05, 0.95, 15)
FLAT = np.full(15, 0.45)


def test_without_clusters_no_limit_moves():
    tables = random_tables(20, 1.0)
    high = analytic_limits(stack(tables), 0.95)[2]
    assert at_least_shared(tables, high, 0.95).tolist() == high.tolist()


def rows_of(weight: Numbers, effect: float, rows: int = 6_000) -> BinCounts:
    """Rows of a label that is always 45% likely, at every score alike, with these weights in turn."""
    score = (np.arange(rows) + 0.5) / rows
    outcome = (np.arange(rows) * 0.618 % 1 < 0.45).astype(float)
    counts = counts_from_rows(score, outcome, weight=np.resize(weight, rows), design_effect=effect)
    return bin_counts(counts, equal_frequency_edges(counts, 15))


@pytest.mark.parametrize("weight", [[1.0], [3.0], [1.0, 4.0], [1.0, 1.0, 1.0, 250.0]])
def test_the_design_effect_is_that_of_clusters_whatever_the_weights(weight: list[float]):
    for effect in (1.0, 50.0):
        one = rows_of(np.array(weight), effect)
        for each in (one, *merge_thin([one], 2_000), pool_bins([one, one])):
            assert each.design_effect == pytest.approx(effect, rel=1e-12)


def test_unequal_weights_leave_the_limit_that_clusters_raise_where_it_is():
    equal, almost, unequal = (
        rows_of(weight, 400.0)
        for weight in (np.ones(1), np.where(np.arange(6_000) % 100 == 0, 1.5, 1.0), np.array([1.0, 1.0, 1.2]))
    )
    high = [analytic_limits(stack([each]), 0.95)[2][0] for each in (equal, almost, unequal)]
    raised = [found.high for found in ece_intervals([equal, almost, unequal], [], form="analytic")]
    assert raised[0] > 1.3 * high[0]
    assert raised == pytest.approx([raised[0]] * 3, abs=0.01)


def test_less_evidence_never_lowers_the_upper_limit_of_the_bootstrap_form():
    tables = [rows_of(np.ones(1), 6_000 / effective) for effective in (20.0, 10.0, 6.0, 3.0, 1.5)]
    found = [each.high for each in ece_intervals(tables, [np.random.default_rng(1) for _ in tables])]
    assert found[0] > 0.2
    assert min(np.diff(found)) >= 0


def test_an_empty_table_has_no_clusters():
    none = np.zeros(1)
    assert BinCounts(np.array([10_000]), none.astype(int), none, none, none, none).design_effect == 1.0


@pytest.mark.parametrize("effect", [1.05, 2.0, 30.0, 400.0])
def test_a_limit_is_never_lowered_and_stays_a_share(effect: float):
    tables = random_tables(60, effect)
    low, point, high = analytic_limits(stack(tables), 0.95)
    raised = at_least_shared(tables, high, 0.95)
    assert (raised >= high).all()
    assert ((low <= point) & (point <= raised) & (raised <= 1)).all()


@pytest.mark.parametrize("form", ["bootstrap", "analytic"])
def test_where_clusters_reach_across_all_bins_the_limit_lies_above_what_was_seen(form: Form):
    clustered = table(ROWS, SCORE, FLAT, 400.0)
    alone = analytic_limits(stack([clustered]), 0.95)[2][0]
    found = ece_intervals([clustered], [np.random.default_rng(1)], form=form)[0]
    assert alone < found.plug_in < found.high


@pytest.mark.parametrize("position", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("effect", [3.0, 40.0])
def test_t_is_what_drawing_the_shared_number_and_the_rows_gives(position: float, effect: float):
    rate = np.clip(SCORE + np.where(SCORE < 0.5, 0.06, -0.03), 0, 1)
    bins = table(ROWS, SCORE, rate, effect)
    noise = shared_noise([bins], np.array([effect]))
    supposed = hypothetical(noise.tables, np.array([position]))
    rng = np.random.default_rng(20260105)
    tau = np.sqrt((effect - 1) / (15 * 400))
    lean = np.where(np.arange(15) < 7.5, 1.0, -1.0)  # the net gaps of both halves: bin 7 straddles, its middle is .5
    p = supposed + lean * np.sqrt(supposed * (1 - supposed)) * tau * rng.standard_normal((40_000, 1))
    drawn = np.abs(rng.binomial(400, np.clip(p, 0, 1)) / 400 - SCORE).mean(axis=1)
    for quantile in (0.025, 0.2, 0.5, 0.9):
        seen = np.quantile(drawn, quantile)
        assert noise.above(np.array([seen]), supposed)[0] == pytest.approx(1 - quantile, abs=0.025)
