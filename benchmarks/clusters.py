"""Few clusters of many rows: coverage of the ECE's interval with and without the noise that bins share.

A cluster has one outcome. Its rows have different scores, drawn from the scores of that outcome. So each row by itself
comes from the population, but all bins of a label are right or wrong together.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from zlib import crc32

import numpy as np

from benchmarks.cluster_sums import sums_of_rows
from benchmarks.coverage import TARGET
from benchmarks.populations import POPULATIONS, Bools, Curve, Floats, Ints, Population, endless, true_ece
from benchmarks.sampling import Sampling
from benchmarks.tables import Table, console
from monitor.core.counts import CELLS, BinCounts, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.dependence import design_effect
from monitor.inference.gaps import analytic_limits, stack
from monitor.inference.intervals import ece_intervals

CLUSTERS, ROWS = (5, 10, 15, 30, 60, 120), (10, 100, 600)
Weighing = Literal["equal", "by row", "by cluster"]
"""Whether weights are equal, or 1 or 4 by chance for each row or for each cluster (one in ten weighs 4)."""
WEIGHED: tuple[tuple[int, int], ...] = ((15, 100), (30, 100), (30, 600), (60, 100))
SEED = 20260104
BLIND = Population("blind", curve=Curve(1e6))
"""The hit rate is a half at every score."""
FAR = Population("shifted by -1.5", curve=Curve(offset=-1.5))
_SHOWN = ("calibrated", "temperature 1.5", "shifted by -0.5", "rare, temperature 1.5")
ASKED = (*(each for each in POPULATIONS if each.name in _SHOWN), FAR, BLIND)


@dataclass(frozen=True, slots=True)
class OneOutcome(Sampling):
    """Clusters of ``rows`` rows with one outcome each; the relation has a `cluster` column."""

    rows: int
    weighing: Weighing = "equal"

    def drawn(self, population: Population, rng: np.random.Generator, n: int) -> tuple[Floats, Bools, Ints]:
        """(scores, outcomes, cluster) of the rows of n / ``rows`` clusters, each of shape (n,)."""
        key = np.repeat(np.arange(n // self.rows), self.rows)
        points = endless(population)
        outcome = (rng.random(n // self.rows) < points.worth.mean())[key]
        true, false = (np.cumsum(part) / part.sum() for part in (points.worth, 1 - points.worth))
        chance = rng.random(len(key))
        picked = np.where(outcome, np.searchsorted(true, chance), np.searchsorted(false, chance))
        return points.cell[np.minimum(picked, len(points.cell) - 1)] / CELLS, outcome, key

    def draw(self, population: Population, rng: np.random.Generator, n: int) -> Counts:
        """The counts of these rows, with the design effect that the warehouse would compute."""
        score, outcome, key = self.drawn(population, rng, n)
        weight = self._weights(rng, key)
        effect = design_effect(sums_of_rows(score, outcome, key, weight))
        return counts_from_rows(score, outcome, weight=weight, automate_at=population.automate_at, design_effect=effect)

    def _weights(self, rng: np.random.Generator, key: Ints) -> Floats:
        if self.weighing == "equal":
            return np.ones(len(key))
        chance = rng.random(len(key))
        return np.where((chance if self.weighing == "by row" else chance[key]) < 0.1, 4.0, 1.0)


@dataclass(frozen=True, slots=True)
class Held:
    """Coverage and mean width of intervals: with the noise of single bins only (``alone``), and as computed now."""

    alone: float
    found: float
    alone_width: float
    width: float


def samples(
    population: Population,
    clusters: int,
    rows: int,
    repetitions: int,
    seed: int = SEED,
    bins: int = 15,
    weighing: Weighing = "equal",
) -> tuple[list[BinCounts], Floats]:
    """Bin tables of ``repetitions`` samples, and the true ECE of the population in the bins of each."""
    tables = []
    for repetition in range(repetitions):
        rng = np.random.default_rng((seed, crc32(population.name.encode()), clusters, rows, repetition))
        counts = OneOutcome(rows, weighing).draw(population, rng, clusters * rows)
        tables.append(bin_counts(counts, equal_frequency_edges(counts, bins)))
    return tables, np.array([true_ece(population, table.upper) for table in tables])


def held(population: Population, clusters: int, rows: int, repetitions: int, weighing: Weighing = "equal") -> Held:
    """Coverage of the analytic form on ``repetitions`` samples."""
    tables, truth = samples(population, clusters, rows, repetitions, weighing=weighing)
    low, _, high = analytic_limits(stack(tables), 0.95)
    found = np.array([(each.low, each.high) for each in ece_intervals(tables, [], form="analytic")], dtype=np.float64)
    alone, now = (
        float(((bottom <= truth + 1e-9) & (truth <= top + 1e-9)).mean()) for bottom, top in ((low, high), found.T)
    )
    return Held(alone, now, float((high - low).mean()), float((found[:, 1] - found[:, 0]).mean()))


def table(repetitions: int, clusters: Sequence[int] = CLUSTERS, rows: Sequence[int] = ROWS) -> Table:
    """The table by number of clusters and of rows in them, over the populations."""
    lines = [
        (str(count), str(size), *_found_of(count, size, repetitions, "equal")) for count in clusters for size in rows
    ]
    names = ", ".join(population.name for population in ASKED)
    notes = (
        f"Mean over {len(ASKED)} populations and the lowest of them: {names}. {repetitions:,} samples of each, by the "
        "analytic form.",
        f"Wanted: {TARGET} and more. A cluster has one outcome, its rows have scores of their own.",
    )
    columns = ("clusters", "rows in each", *_FOUND)
    return Table("Few clusters: share of 95% intervals of the ECE that held the truth", columns, tuple(lines), notes, 0)


def weighed_table(repetitions: int, asked: Sequence[tuple[int, int]] = WEIGHED) -> Table:
    """The same with unequal weights, by number of clusters and of rows in them."""
    ways: tuple[Weighing, ...] = ("by row", "by cluster")
    lines = tuple(
        (str(count), str(size), way, *_found_of(count, size, repetitions, way)) for count, size in asked for way in ways
    )
    notes = (
        f"Weights are 1, and 4 for one row or cluster in ten. {repetitions:,} samples of each population.",
        "Wanted and populations as above.",
    )
    return Table("Few clusters and unequal weights", ("clusters", "rows in each", "weights", *_FOUND), lines, notes, 0)


_FOUND = ("bins alone", "lowest", "with shared noise", "lowest ", "width", "width now")


def _found_of(clusters: int, rows: int, repetitions: int, weighing: Weighing) -> tuple[str, ...]:
    of = [held(population, clusters, rows, repetitions, weighing) for population in ASKED]
    alone, found = [each.alone for each in of], [each.found for each in of]
    widths = [float(np.mean(part)) for part in ([e.alone_width for e in of], [e.width for e in of])]
    return (*_shares(alone), *_shares(found), *(f"{each:.2f}" for each in widths))


def _shares(found: Sequence[float]) -> tuple[str, str]:
    return f"{np.mean(found):.3f}", f"{min(found):.3f}"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.clusters", description=str(__doc__).split("\n")[0])
    parser.add_argument("--repetitions", type=int, default=400, help="samples a population and line (default: 400)")
    parser.add_argument("--markdown", action="store_true", help="print the table as the docs have it")
    given = parser.parse_args(arguments)
    for shown in (table(given.repetitions), weighed_table(given.repetitions)):
        print(shown.markdown()) if given.markdown else shown.show(console())


if __name__ == "__main__":
    main()
