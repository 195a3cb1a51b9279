"""What scores say of a label: boxplots of right and of wrong decisions, and the risk-coverage curve. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats, Ints
from monitor.metrics.selective import looked_at, risk_coverage

WIDTH = 18
COVERAGES = tuple(k / 10 for k in range(1, 11))
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


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The rows with a score of ``threshold`` or more (None: no row): their share, and how many of them are wrong."""

    threshold: float | None
    coverage: float
    risk: float


@dataclass(frozen=True, slots=True)
class Curve:
    """``area`` is the area under the curve (AURC), ``chosen`` the point of the proposed threshold, None without one."""

    points: tuple[CurvePoint, ...]
    area: float | None
    chosen: CurvePoint | None = None


def risk_coverage_data(counts: Counts, threshold: float | None = None) -> Curve | None:
    """Risk at each tenth of coverage, and at the proposed threshold; None without rows.

    ``threshold`` marks the decision "score >= threshold": the lowest threshold of the curve that is not below it.

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = risk_coverage_data(counts_from_rows([0.9, 0.8, 0.8, 0.7], [1, 1, 0, 0]), threshold=0.85)
    >>> curve.chosen, len(curve.points)
    (CurvePoint(threshold=0.9, coverage=0.25, risk=0.0), 3)
    """
    found = risk_coverage(counts)
    if found is None:
        return None
    rows = zip(found.threshold.tolist(), found.coverage.tolist(), found.risk.tolist(), strict=True)
    places = [CurvePoint(t if np.isfinite(t) else None, x, y) for t, x, y in rows]
    above = [point for point in places if point.threshold is None or point.threshold >= (threshold or 0.0)]
    chosen = above[-1] if above and threshold is not None else None
    shown = {next((point for point in places if point.coverage >= share - 1e-9), places[-1]) for share in COVERAGES}
    shown |= set() if chosen is None else {chosen}
    return Curve(tuple(sorted(shown, key=lambda point: point.coverage)), found.aurc, chosen)
