"""What a score map does to a whole population, whose true ECE is known."""

from __future__ import annotations

from benchmarks.populations import Population, endless
from monitor.core.counts import CELLS, Counts, bin_counts, counts_from_rows, equal_frequency_edges
from monitor.metrics.calibration import ece
from monitor.recalibration.fitting import apply, moved
from monitor.recalibration.score_map import ScoreMap


def whole(population: Population) -> Counts:
    """The population itself as counts, with true probabilities as outcomes."""
    points = endless(population)
    return counts_from_rows(points.cell / CELLS, points.worth)


def recalibrated(counts: Counts, score_map: ScoreMap) -> Counts:
    """The same rows with new scores: the rows of a cell get the new score of its mean score."""
    cells = counts.by_cell()
    cells = cells.take(cells.w > 0)
    return moved(cells, apply(score_map, cells.score))


def true_ece(counts: Counts) -> float:
    found = ece(bin_counts(counts, equal_frequency_edges(counts, 15)))
    assert found is not None
    return found
