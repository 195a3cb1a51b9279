"""A quick look at what ``make simulate`` proves at length: the intervals cover, the tests hold their level.

Seeded; the bounds are those of the proof, loosened by what so few repetitions can miss.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from monitor.core.counts import BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.change import ece_rate_p
from monitor.inference.intervals import Form, ece_intervals
from monitor.inference.merging import merge_thin
from tests.fakes.one_table import ece_increase_p, mce_increase_p, mce_interval

Rows = npt.NDArray[np.float64]
VERBAL = [0.05, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95]


def scores(rng: np.random.Generator, population: str, n: int) -> Rows:
    drawn = {
        "ordinary": lambda: rng.beta(2, 2, n),
        "confident": lambda: np.where(rng.random(n) < 0.5, rng.beta(8, 0.7, n), rng.beta(0.7, 8, n)),
        "rare": lambda: rng.beta(0.6, 8, n),
        "verbal": lambda: rng.choice(VERBAL, n),
    }[population]()
    return np.asarray(np.round(np.clip(drawn, 1e-4, 1 - 1e-4), 4))


def truth(score: Rows, stretch: float) -> Rows:
    """The hit rate behind a score whose log-odds are ``stretch`` times too large."""
    return np.asarray(1 / (1 + np.exp(-np.log(score / (1 - score)) / stretch)))


def sample(rng: np.random.Generator, population: str, n: int, stretch: float) -> Counts:
    score = scores(rng, population, n)
    return counts_from_rows(score, rng.random(n) < truth(score, stretch))


def true_gaps(counts: Counts, bins: BinCounts, stretch: float) -> Rows:
    """|true rate - mean score| of each bin, for the scores that were drawn."""
    index = np.minimum(np.searchsorted(bins.upper, counts.cell), len(bins.n) - 1)
    rate = np.bincount(index, weights=counts.n * truth(counts.score, stretch), minlength=len(bins.n))
    return np.asarray(np.abs(rate / np.maximum(bins.n, 1) - bins.score))


def covered(low: float | None, high: float | None, true: float) -> bool:
    assert low is not None
    assert high is not None
    return low - 1e-9 <= true <= high + 1e-9


@pytest.mark.parametrize("population", ["ordinary", "confident", "rare", "verbal"])
@pytest.mark.parametrize(
    ("form", "n", "repeats"), [("bootstrap", 1000, 100), ("analytic", 200, 200), ("analytic", 5000, 200)]
)
def test_the_ece_interval_covers_the_truth(population: str, form: Form, n: int, repeats: int) -> None:
    rng = np.random.default_rng(20260101)
    hits = 0
    for stretch in (1.0, 1.5):
        drawn = [sample(rng, population, n, stretch) for _ in range(repeats)]
        tables = [bin_counts(counts, equal_frequency_edges(counts, 15)) for counts in drawn]
        found = ece_intervals(tables, [np.random.default_rng(k) for k in range(repeats)], form=form)
        for counts, bins, interval in zip(drawn, tables, found, strict=True):
            true = float((bins.n * true_gaps(counts, bins, stretch)).sum()) / n
            hits += covered(interval.low, interval.high, true)
    assert hits / (2 * repeats) >= 0.93 - 0.025


@pytest.mark.parametrize("population", ["ordinary", "confident", "rare", "verbal"])
def test_the_mce_interval_covers_the_truth(population: str) -> None:
    rng = np.random.default_rng(20260102)
    hits = 0
    for _ in range(150):
        counts = sample(rng, population, 1000, 1.5)
        bins = bin_counts(counts, equal_frequency_edges(counts, 15))
        found = mce_interval(bins).interval
        hits += covered(found.low, found.high, float(true_gaps(counts, merge_thin([bins])[0], 1.5).max()))
    assert hits / 150 >= 0.93


def test_the_tests_of_an_increase_hold_their_level_when_nothing_changed() -> None:
    rng = np.random.default_rng(20260103)
    ece, rate, mce = [], [], []
    for population in ("ordinary", "confident", "verbal"):
        for n in (500, 2000):
            for _ in range(100):
                baseline, window = (sample(rng, population, rows, 1.5) for rows in (20_000, n))
                edges = equal_frequency_edges(baseline, 15)
                now, then = bin_counts(window, edges), bin_counts(baseline, edges)
                ece.append(ece_increase_p(now, then))
                rate.append(ece_rate_p(now, then))
                mce.append(mce_increase_p(now, then))
    p = np.array([ece, rate, mce])
    assert ((p < 0.01).mean(axis=1) <= 0.012 + 0.01).all()
    assert ((p < 0.05).mean(axis=1) <= 0.052 + 0.02).all()
    assert (p[2] < 0.05).mean() >= 0.02  # nor is it deaf
