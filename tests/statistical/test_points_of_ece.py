"""The point of an ECE is near the truth with soft truths, and with rows in threads; its interval covers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.populations import POPULATIONS, Curve, Population, endless, true_ece
from benchmarks.sampling import sums_of_rows
from monitor.core.counts import CELLS, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.dependence import design_effect, share_in_bands
from monitor.inference.intervals import ece_intervals

OVERCONFIDENT = replace(POPULATIONS[0], name="temperature 1.3", curve=Curve(1.3))
"""Its ECE is .04."""
TABLES = 300
Draw = Callable[[Population, np.random.Generator, int], Counts]


def of_five_annotators(population: Population, rng: np.random.Generator, rows: int) -> Counts:
    points = endless(population)
    picked = rng.integers(len(points.cell), size=rows)
    return counts_from_rows(points.cell[picked] / CELLS, rng.binomial(5, points.worth[picked]) / 5)


def in_threads(population: Population, rng: np.random.Generator, rows: int) -> Counts:
    """Threads of ten rows with scores of their own; three in ten pairs have the same luck."""
    points, thread = endless(population), np.arange(rows) // 10
    picked = rng.integers(len(points.cell), size=rows)
    luck = np.where(rng.random(rows) < 0.3**0.5, rng.random(rows)[thread], rng.random(rows))
    score, outcome = points.cell[picked] / CELLS, luck < points.worth[picked]
    sums = sums_of_rows(score, outcome, thread)
    bands = sums_of_rows(score, outcome, np.column_stack([thread, points.cell[picked] // 500]))
    counts = counts_from_rows(score, outcome, design_effect=design_effect(sums))
    return replace(counts, together=share_in_bands(sums, bands))


def bias_and_coverage(population: Population, samples: Sequence[Counts]) -> tuple[float, float]:
    """The mean error of the point in half widths of the interval, and how often that covers."""
    tables = [bin_counts(counts, equal_frequency_edges(counts, 15)) for counts in samples]
    truths = np.array([true_ece(population, table.upper) for table in tables])
    found = ece_intervals(tables, [], form="analytic")
    low, value, high = (np.array([getattr(one, name) for one in found]) for name in ("low", "value", "high"))
    return float((value - truths).mean() / (high - low).mean() * 2), float(((low <= truths) & (truths <= high)).mean())


@pytest.mark.parametrize(
    ("draw", "population", "rows"),
    [
        (of_five_annotators, OVERCONFIDENT, 500),
        (of_five_annotators, OVERCONFIDENT, 1000),
        (of_five_annotators, POPULATIONS[6], 500),
        (in_threads, POPULATIONS[4], 300),
        (in_threads, POPULATIONS[4], 1000),
        (in_threads, POPULATIONS[5], 1000),
    ],
)
def test_the_point_is_off_by_a_quarter_of_half_the_width_at_most(draw: Draw, population: Population, rows: int) -> None:
    rngs = (np.random.default_rng((20261130, rows, repetition)) for repetition in range(TABLES))
    bias, coverage = bias_and_coverage(population, [draw(population, rng, rows) for rng in rngs])
    assert abs(bias) <= 0.25
    assert coverage >= 0.93
