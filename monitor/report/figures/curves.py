"""The risk-coverage curve, thinned to the points that a report needs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts, Ints
from monitor.metrics.selective import risk_coverage

POINTS = 200


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


def risk_coverage_data(counts: Counts, *, points: int = POINTS, threshold: float | None = None) -> Curve | None:
    """Risk over coverage; None without rows. At most ``points`` points are kept, both ends among them.

    ``threshold`` marks the decision "score >= threshold": the lowest threshold of the curve that is not below it.

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = risk_coverage_data(counts_from_rows([0.9, 0.8, 0.8, 0.7], [1, 1, 0, 0]), threshold=0.85)
    >>> curve.chosen
    CurvePoint(threshold=0.9, coverage=0.25, risk=0.0)
    """
    found = risk_coverage(counts)
    if found is None:
        return None
    rows = zip(found.threshold.tolist(), found.coverage.tolist(), found.risk.tolist(), strict=True)
    places = tuple(CurvePoint(t if np.isfinite(t) else None, x, y) for t, x, y in rows)
    above = [point for point in places if point.threshold is None or point.threshold >= (threshold or 0.0)]
    return Curve(_thinned(places, points), found.aurc, above[-1] if above and threshold is not None else None)


def _thinned(points: tuple[CurvePoint, ...], most: int) -> tuple[CurvePoint, ...]:
    """At most ``most`` of the points, evenly spaced along the curve; the first and the last stay."""
    if len(points) <= most:
        return points
    x, y = np.array([p.coverage for p in points]), np.array([p.risk for p in points])
    distance = np.concatenate(([0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))))
    chosen: Ints = np.searchsorted(distance, np.linspace(0, distance[-1], most))
    chosen[-1] = len(points) - 1
    return tuple(points[k] for k in np.unique(np.minimum(chosen, len(points) - 1)))
