"""How often do the intervals hold the truth, and how wide are they?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Literal
from zlib import crc32

import numpy as np
from scipy.stats import binom

from benchmarks.populations import Population, true_ece, true_mce
from monitor.counts import Counts, bin_counts, equal_frequency_edges
from monitor.inference.intervals import ece_intervals, mce_interval
from monitor.records import Interval

BINS = 15
TARGET = 0.93  # of a 95% interval: what "covers" means in docs/statistics.md
DOUBT = 0.01

Kind = Literal["bootstrap", "analytic", "textbook", "mce"]
KINDS: tuple[Kind, ...] = ("bootstrap", "analytic", "textbook", "mce")


@dataclass(frozen=True, slots=True)
class Cell:
    """Some repetitions (``first`` .. ``last`` - 1) of one population at one number of rows."""

    population: Population
    n: int
    first: int
    last: int
    seed: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Of ``repetitions`` intervals of each kind: how many held the truth, and the sum of their widths."""

    population: str
    n: int
    repetitions: int
    held: Counter[Kind]
    width: dict[Kind, float]
    plug_in: float
    truth: float

    def share(self, kind: Kind) -> float:
        """The share of intervals that held the truth."""
        return self.held[kind] / self.repetitions

    def mean_width(self, kind: Kind) -> float:
        """Their mean width."""
        return self.width[kind] / self.repetitions

    def too_low(self, kind: Kind) -> bool:
        """Whether so few could hold by chance (1%) only if the true coverage is below .93."""
        return bool(binom.cdf(self.held[kind], self.repetitions, TARGET) < DOUBT)

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.population,
            self.n,
            self.repetitions + other.repetitions,
            self.held + other.held,
            {kind: self.width[kind] + other.width[kind] for kind in KINDS},
            self.plug_in + other.plug_in,
            self.truth + other.truth,
        )


@cache
def _endless(population: Population) -> Counts:
    return population.endless()


def cover(cell: Cell) -> Coverage:
    """Draw, bin, and ask each kind of interval; the truth is the endless population's in the same bins."""
    held: Counter[Kind] = Counter()
    width: dict[Kind, float] = dict.fromkeys(KINDS, 0.0)
    plug_in = truth = 0.0
    for repetition in range(cell.first, cell.last):
        key = (cell.seed, crc32(cell.population.name.encode()), cell.n, repetition)
        data, *others = (np.random.default_rng(part) for part in np.random.SeedSequence(key).spawn(3))
        counts = cell.population.draw(data, cell.n)
        found, true = _look(cell.population, counts, others)
        for kind, interval in found.items():
            held[kind] += _holds(interval, true[kind])
            width[kind] += _width(interval)
        plug_in += found["bootstrap"].plug_in or 0.0
        truth += true["bootstrap"]
    return Coverage(cell.population.name, cell.n, cell.last - cell.first, held, width, plug_in, truth)


def _look(
    population: Population, counts: Counts, rngs: list[np.random.Generator]
) -> tuple[dict[Kind, Interval], dict[Kind, float]]:
    edges = equal_frequency_edges(counts, BINS)
    bins = bin_counts(counts, edges)
    worst = mce_interval(bins)
    found: dict[Kind, Interval] = {
        "bootstrap": ece_intervals([bins], rngs[:1])[0],
        "analytic": ece_intervals([bins], [], form="analytic")[0],
        "textbook": ece_intervals([bins], rngs[1:], form="percentile")[0],
        "mce": worst.interval,
    }
    ece = true_ece(bin_counts(_endless(population), edges))
    mce = true_mce(bin_counts(_endless(population), worst.bins.upper.tolist()))
    return found, {"bootstrap": ece, "analytic": ece, "textbook": ece, "mce": mce}


def _holds(interval: Interval, truth: float) -> bool:
    assert interval.low is not None
    assert interval.high is not None
    return interval.low - 1e-9 <= truth <= interval.high + 1e-9


def _width(interval: Interval) -> float:
    assert interval.low is not None
    assert interval.high is not None
    return interval.high - interval.low


def cells(populations: Iterable[Population], sizes: Iterable[int], repetitions: int, seed: int) -> list[Cell]:
    """The work of the study in parts of 25 repetitions; what is drawn does not depend on the parts."""
    sizes = tuple(sizes)
    return [
        Cell(population, n, first, min(first + 25, repetitions), seed)
        for population in populations
        for n in sizes
        for first in range(0, repetitions, 25)
    ]


def together(parts: Iterable[Coverage]) -> list[Coverage]:
    """Parts of the same population and number of rows added up, in the order they first came."""
    sums: dict[tuple[str, int], Coverage] = {}
    for part in parts:
        key = (part.population, part.n)
        sums[key] = sums[key] + part if key in sums else part
    return list(sums.values())
