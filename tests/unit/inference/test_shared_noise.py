"""Noise that the rows of one cluster share among bins: an upper limit that does not lean on where it lies."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.counts import BinCounts
from monitor.inference.gaps import analytic_limits, hypothetical, stack
from monitor.inference.intervals import Form, ece_intervals
from monitor.inference.shared import at_least_shared, design_effects, shared_noise

Numbers = npt.NDArray[np.float64]


def table(
    rate: Numbers, score: Numbers, *, n: int = 400, effect: float = 1.0, weight: Numbers | float = 1.0
) -> BinCounts:
    bins = len(score)
    w = n * np.ones(bins) * weight
    upper = np.linspace(10_000 / bins, 10_000, bins).astype(np.int64)
    return BinCounts(upper, np.full(bins, n), w, w * score, w * rate, np.full(bins, n / effect))


def random_tables(count: int, effect: float) -> list[BinCounts]:
    rng = np.random.default_rng(5)
    return [table(rng.random(15), np.sort(rng.random(15)), effect=effect) for _ in range(count)]


SCORE = np.linspace(0.05, 0.95, 15)
FLAT = np.full(15, 0.45)


def test_without_clusters_no_limit_moves() -> None:
    tables = random_tables(20, 1.0)
    high = analytic_limits(stack(tables), 0.95)[2]
    assert at_least_shared(tables, high, 0.95).tolist() == high.tolist()


def test_weights_that_differ_are_not_taken_for_clusters() -> None:
    weighted = table(FLAT, SCORE, effect=50.0, weight=np.linspace(1, 2, 15))
    assert design_effects([weighted]).tolist() == [1.0]
    assert design_effects([table(FLAT, SCORE, effect=50.0, weight=3.0)]) == pytest.approx([50.0])


def test_an_empty_table_has_no_clusters() -> None:
    none = np.zeros(1)
    assert design_effects([BinCounts(np.array([10_000]), none.astype(int), none, none, none, none)]).tolist() == [1.0]


@pytest.mark.parametrize("effect", [1.05, 2.0, 30.0, 400.0])
def test_a_limit_is_never_lowered_and_stays_a_share(effect: float) -> None:
    tables = random_tables(60, effect)
    low, point, high = analytic_limits(stack(tables), 0.95)
    raised = at_least_shared(tables, high, 0.95)
    assert (raised >= high).all()
    assert ((low <= point) & (point <= raised) & (raised <= 1)).all()


def test_hardly_any_cluster_moves_the_limit_hardly() -> None:
    tables = random_tables(30, 1.001)
    high = analytic_limits(stack(tables), 0.95)[2]
    assert at_least_shared(tables, high, 0.95) == pytest.approx(high, abs=0.003)


@pytest.mark.parametrize("form", ["bootstrap", "analytic"])
def test_where_clusters_reach_across_all_bins_the_limit_lies_above_what_was_seen(form: Form) -> None:
    clustered = table(FLAT, SCORE, effect=400.0)
    alone = analytic_limits(stack([clustered]), 0.95)[2][0]
    found = ece_intervals([clustered], [np.random.default_rng(1)], form=form)[0]
    assert found.plug_in is not None
    assert found.high is not None
    assert alone < found.plug_in < found.high


@pytest.mark.parametrize("position", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("effect", [3.0, 40.0])
def test_t_is_what_drawing_the_shared_number_and_the_rows_gives(position: float, effect: float) -> None:
    rate = np.clip(SCORE + np.where(SCORE < 0.5, 0.06, -0.03), 0, 1)
    bins = table(rate, SCORE, effect=effect)
    noise = shared_noise([bins], np.array([effect]))
    supposed = hypothetical(noise.tables, np.array([position]))
    rng = np.random.default_rng(20260105)
    tau = np.sqrt((effect - 1) / (15 * 400))
    lean = np.where(np.arange(15) < 7.5, 1.0, -1.0)  # the net gaps of both halves: bin 7 straddles, its middle is .5
    p = supposed + lean * np.sqrt(supposed * (1 - supposed)) * tau * rng.standard_normal((40_000, 1))
    drawn = np.abs(rng.binomial(400, np.clip(p, 0, 1)) / 400 - SCORE).mean(axis=1)
    for quantile in (0.025, 0.2, 0.5, 0.9):
        seen = float(np.quantile(drawn, quantile))
        assert noise.above(np.array([seen]), supposed)[0] == pytest.approx(1 - quantile, abs=0.025)


def test_a_table_has_the_limit_that_it_has_among_others() -> None:
    tables = random_tables(9, 25.0)
    together = [found.high for found in ece_intervals(tables, [], form="analytic")]
    assert together == pytest.approx([ece_intervals([one], [], form="analytic")[0].high for one in tables], abs=1e-12)
