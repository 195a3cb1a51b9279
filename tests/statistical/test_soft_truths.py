"""Truths that are the mean of five annotators: the point of the ECE is not pulled to 0, and its interval covers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.populations import POPULATIONS, Curve, Population, endless, true_ece
from monitor.core.counts import CELLS, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.inference.intervals import ece_intervals

OVERCONFIDENT = replace(POPULATIONS[0], name="temperature 1.3", curve=Curve(1.3))
"""Its ECE is .04."""
TABLES = 300


@pytest.mark.parametrize(("population", "rows"), [(OVERCONFIDENT, 500), (OVERCONFIDENT, 1000), (POPULATIONS[6], 500)])
def test_the_point_is_near_the_truth_of_five_annotators(population: Population, rows: int) -> None:
    points, tables, truths = endless(population), [], []
    for repetition in range(TABLES):
        rng = np.random.default_rng((20261130, rows, repetition))
        picked = rng.integers(len(points.cell), size=rows)
        counts = counts_from_rows(points.cell[picked] / CELLS, rng.binomial(5, points.worth[picked]) / 5)
        tables.append(bin_counts(counts, equal_frequency_edges(counts, 15)))
        truths.append(true_ece(population, tables[-1].upper))
    found = ece_intervals(tables, [], form="analytic")
    low, value, high = (np.array([getattr(one, name) for one in found]) for name in ("low", "value", "high"))
    assert abs(float((value - truths).mean())) <= float((high - low).mean()) / 8  # a quarter of half the width
    assert ((low <= truths) & (truths <= high)).mean() >= 0.93
