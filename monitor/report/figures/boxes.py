"""Boxplots of the scores of right and of wrong decisions: five numbers each, and as text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats, Ints
from monitor.metrics.selective import looked_at

WIDTH = 18
_PLACES = (0.0, 0.25, 0.5, 0.75, 1.0)
_LEAST = 1e-9  # a smaller weight is the rounding error of a subtraction


@dataclass(frozen=True, slots=True)
class FiveNumbers:
    """The least score, the quartiles and the largest score; ``weight`` is the total weight of the rows."""

    least: float
    lower: float
    median: float
    upper: float
    largest: float
    weight: float

    @property
    def scores(self) -> tuple[float, float, float, float, float]:
        """The five scores, ascending."""
        return self.least, self.lower, self.median, self.upper, self.largest


def score_boxes(counts: Counts) -> dict[str, FiveNumbers]:
    """The scores of "right" and of "wrong" decisions; one without any is left out.

    Looked at are the rows of the risk-coverage curve (:func:`~monitor.metrics.selective.looked_at`).

    A quartile is the lowest score with at least that share of rows at or below it (the inverse of the distribution
    function, definition 1 of Hyndman & Fan 1996). Scores are those of cells, with four digits. A soft outcome is
    partly right.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = score_boxes(counts_from_rows([0.6, 0.7, 0.8, 0.9, 0.55], [1, 1, 1, 1, 0]))
    >>> found["right"].scores, found["wrong"].scores, found["right"].weight
    ((0.6, 0.6, 0.7, 0.8, 0.9), (0.55, 0.55, 0.55, 0.55, 0.55), 4.0)
    """
    cells = looked_at(counts).by_cell()
    right = np.clip(cells.wy, 0.0, cells.w)
    boxes = {"right": _five(cells.cell, right), "wrong": _five(cells.cell, cells.w - right)}
    return {name: box for name, box in boxes.items() if box is not None}


def _five(cell: Ints, weight: Floats) -> FiveNumbers | None:
    present = weight > _LEAST
    if not present.any():
        return None
    found = np.quantile(cell[present] / CELLS, _PLACES, weights=weight[present], method="inverted_cdf")
    least, lower, median, upper, largest = (float(score) for score in found)
    return FiveNumbers(least, lower, median, upper, largest, float(weight[present].sum()))


def box_text(box: FiveNumbers) -> str:
    """A box between the scores 0 (left) and 1 (right).

    >>> box_text(FiveNumbers(0.0, 0.25, 0.5, 0.75, 1.0, 8))
    '├───▒▒▒▒┃▒▒▒▒▒───┤'
    """
    least, lower, median, upper, largest = (round(min(max(score, 0.0), 1.0) * (WIDTH - 1)) for score in box.scores)
    line = [" "] * WIDTH
    line[least : largest + 1] = "─" * (largest - least + 1)
    line[least], line[largest] = "├", "┤"
    line[lower : upper + 1] = "▒" * (upper - lower + 1)
    line[median] = "┃"
    return "".join(line)
