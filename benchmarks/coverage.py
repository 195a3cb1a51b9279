"""Coverage and width of the intervals, and the bias of the point estimate."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias
from zlib import crc32

import numpy as np

from benchmarks.populations import Population, given_gaps, true_ece, true_mce
from benchmarks.sampling import PLAIN, Sampling
from benchmarks.tally import Line, Tally
from monitor.core.counts import BinCounts, bin_counts, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.binomial import whole
from monitor.inference.gaps import stack
from monitor.inference.intervals import ece_intervals, mce_intervals

WALLS = "walls"
"""The part whose truth is that of the scores that were drawn: without noise of outcomes, their own is all there is."""
TARGET = 0.93  # the coverage of a 95% interval from which docs/statistics.md says that it covers
AT_ONCE = 50  # repetitions in one task

Kind = Literal["bootstrap", "analytic", "textbook", "mce"]
KINDS: tuple[Kind, ...] = ("bootstrap", "analytic", "textbook", "mce")
Found: TypeAlias = Mapping[Kind, list[tuple[Interval, float]]]


@dataclass(frozen=True, slots=True)
class Cell:
    """Repetitions ``first`` .. ``last`` - 1 of one population, number of rows, of bins, and way of sampling.

    The drawn rows depend only on the population's name, ``n``, ``seed`` and the repetition.
    """

    part: str
    line: Line
    population: Population
    n: int
    first: int
    last: int
    seed: int
    kinds: tuple[Kind, ...] = KINDS
    bins: int = 15
    sampling: Sampling = PLAIN

    @property
    def cost(self) -> float:
        """The approximate seconds."""
        each = 0.0015 + 0.006 * ("bootstrap" in self.kinds) + 0.0015 * ("textbook" in self.kinds) + 1e-7 * self.n
        return (self.last - self.first) * each

    def run(self) -> list[Tally]:
        """Draw rows, bin them, and compute each kind of interval; the truth is the population's in the same bins."""
        name, rngs = crc32(self.population.name.encode()), []
        tables: list[BinCounts] = []
        for repetition in range(self.first, self.last):
            key = (self.seed, name, self.n, repetition)
            data, *others = (np.random.default_rng(part) for part in np.random.SeedSequence(key).spawn(3))
            counts = self.sampling.draw(self.population, data, self.n)
            tables.append(bin_counts(counts, equal_frequency_edges(counts, self.bins)))
            rngs.append(others)
        return [Tally(self.part, self.line, len(tables), _counted(self._found(tables, rngs), tables))]

    def _found(self, tables: list[BinCounts], rngs: list[list[np.random.Generator]]) -> Found:
        """The intervals of each kind, with their true values."""
        truths = [self._true_ece(table) for table in tables]
        of_ece = {
            "bootstrap": lambda: ece_intervals(tables, [rng[0] for rng in rngs]),
            "analytic": lambda: ece_intervals(tables, [], form="analytic"),
            "textbook": lambda: [_textbook(table, rng[1]) for table, rng in zip(tables, rngs, strict=True)],
        }
        found: dict[Kind, list[tuple[Interval, float]]] = {
            kind: list(zip(of_ece[kind](), truths, strict=True)) for kind in self.kinds if kind != "mce"
        }
        if "mce" in self.kinds:
            worst = mce_intervals(tables)
            found["mce"] = [(each.interval, self._true_mce(each.bins)) for each in worst]
        return found

    def _true_ece(self, table: BinCounts) -> float:
        if self.part != WALLS:
            return true_ece(self.population, table.upper)
        share, gap = given_gaps(self.population, table)
        return float((share * np.abs(gap)).sum())

    def _true_mce(self, bins: BinCounts) -> float:
        if self.part != WALLS:
            return true_mce(self.population, bins.upper)
        return float(np.abs(given_gaps(self.population, bins)[1]).max())


def _counted(found: Found, tables: list[BinCounts]) -> dict[str, float]:
    sums: defaultdict[str, float] = defaultdict(float)
    for kind, pairs in found.items():
        for interval, truth in pairs:
            low, value, high = _numbers(interval)
            sums[f"{kind} held"] += low - 1e-9 <= truth <= high + 1e-9
            sums[f"{kind} width"] += high - low
            sums[f"{kind} point"] += value
            sums[f"{kind} truth"] += truth
            sums[f"{kind} plug-in"] += interval.plug_in or 0.0
    sums["bins"] += sum(len(table.upper) for table in tables)
    return {name: float(total) for name, total in sums.items()}  # numbers that JSON can hold


def _numbers(interval: Interval) -> tuple[float, float, float]:
    assert interval.low is not None
    assert interval.value is not None
    assert interval.high is not None
    return interval.low, interval.value, interval.high


def in_parts(cell: Cell, repetitions: int) -> list[Cell]:
    """The repetitions of a cell in parts. The drawn rows do not depend on the parts."""
    return [
        Cell(
            cell.part, cell.line, cell.population, cell.n, first, min(first + AT_ONCE, repetitions),
            cell.seed, cell.kinds, cell.bins, cell.sampling,
        )
        for first in range(0, repetitions, AT_ONCE)
    ]  # fmt: skip


def coverage_cells(
    populations: Iterable[Population], sizes: Iterable[int], repetitions: int, seed: int, part: str = "coverage"
) -> list[Cell]:
    """The cells of every population at every number of rows."""
    sizes = tuple(sizes)
    return [
        some
        for population in populations
        for n in sizes
        for some in in_parts(Cell(part, (population.name, n), population, n, 0, 0, seed), repetitions)
    ]


def _textbook(table: BinCounts, rng: np.random.Generator, resamples: int = 1000) -> Interval:
    """Quantiles of resampled plug-in ECEs, widened to include the plug-in, which is often outside."""
    bins = stack([table]).filled()
    n, score = whole(bins.n[0])[0], bins.score[0]
    drawn = rng.binomial(n.astype(np.int64), np.clip(score + bins.gap[0], 0, 1), size=(resamples, len(n)))
    low, high = np.quantile((bins.share[0] * np.abs(drawn / n - score)).sum(axis=1), [0.025, 0.975])
    value = min(float(bins.plug_in[0]), 1.0)
    return Interval(value, min(float(low), value), min(max(float(high), value), 1.0), value)
