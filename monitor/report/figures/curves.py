"""The risk-coverage curve, at each tenth of the rows. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts
from monitor.metrics.selective import risk_coverage

COVERAGES = tuple(k / 10 for k in range(1, 11))


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
