"""ROC, precision-recall and risk-coverage curves, thinned to the points that a picture needs, and their drawings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from monitor.core.counts import Counts, Floats, Ints
from monitor.metrics.discrimination import pr_auc, precision_recall_curve, roc_auc, roc_curve
from monitor.metrics.selective import risk_coverage
from monitor.report.figures.svg import Plot, figure, text, ticks

POINTS = 200
SIDE = 330.0
"""The width and height of a drawing, in pixels."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """One decision "score >= ``threshold``" (None: nothing is predicted) with its place on the curve."""

    threshold: float | None
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve and the line to compare it with: ``reference`` are its points. ``area`` is the area under the curve.

    ``chosen`` is the point of the present (or proposed) threshold, None without one.
    """

    name: str
    x_title: str
    y_title: str
    points: tuple[CurvePoint, ...]
    reference_name: str
    reference: tuple[tuple[float, float], ...]
    area: float | None
    chosen: CurvePoint | None = None


def roc_data(counts: Counts, *, points: int = POINTS, threshold: float | None = None) -> Curve | None:
    """The ROC curve beside the diagonal of a blind classifier; None unless both classes occur.

    At most ``points`` points are kept, both ends among them. ``threshold`` marks the decision "score >= threshold".

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = roc_data(counts_from_rows([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0]), threshold=0.85)
    >>> [(p.threshold, p.x, p.y) for p in curve.points], curve.area, curve.chosen.threshold
    ([(None, 0.0, 0.0), (0.9, 0.0, 0.5), (0.8, 0.5, 1.0), (0.2, 1.0, 1.0)], 0.875, 0.9)
    """
    found = roc_curve(counts)
    if found is None:
        return None
    places, diagonal = _points(found.threshold, found.fpr, found.tpr), ((0.0, 0.0), (1.0, 1.0))
    names = "ROC", "false-positive rate", "true-positive rate"
    return Curve(*names, _thinned(places, points), "blind", diagonal, roc_auc(counts), _at(places, threshold))


def precision_recall_data(counts: Counts, *, points: int = POINTS, threshold: float | None = None) -> Curve | None:
    """Precision over recall beside the prevalence, the precision of a blind classifier; None without hits."""
    found = precision_recall_curve(counts)
    if found is None:
        return None
    places = _points(found.threshold, found.recall, found.precision)
    level, names = ((0.0, found.prevalence), (1.0, found.prevalence)), ("precision-recall", "recall", "precision")
    return Curve(*names, _thinned(places, points), "blind", level, pr_auc(counts), _at(places, threshold))


def risk_coverage_data(counts: Counts, *, points: int = POINTS, threshold: float | None = None) -> Curve | None:
    """Risk over coverage beside the oracle, which ranks every wrong row last; None without rows."""
    found = risk_coverage(counts)
    if found is None:
        return None
    places = _points(found.threshold, found.coverage, found.risk)
    overall = float(found.risk[-1])
    # the oracle needs points of its own, not only at thresholds of rows: it bends at coverage 1 - risk
    coverage = 1 - overall * (1 - np.linspace(0, 1, 33))
    risk = 1 - np.divide(1 - overall, coverage, out=np.zeros_like(coverage), where=coverage > 0)
    oracle = ((0.0, 0.0), *zip(coverage.tolist(), np.maximum(risk, 0.0).tolist(), strict=True))
    names = "risk-coverage", "share that acts alone", "share of it that is wrong"
    return Curve(*names, _thinned(places, points), "oracle", oracle, found.aurc, _at(places, threshold))


def curve_svg(curve: Curve, label: str) -> Markup:
    """The curve, its reference (dashed) and, as a diamond, the chosen threshold."""
    highest = max([p.y for p in curve.points] + [y for _, y in curve.reference])
    top = 1.0 if curve.name != "risk-coverage" else max(1.08 * highest, 0.02)
    plot = Plot(44.0, 20.0, SIDE - 58.0, SIDE - 62.0, 0.0, 1.0, 0.0, top)
    fifths, marks = [k / 5 for k in range(6)], ticks(0.0, top)
    parts = [plot.y_axis(marks, [f"{v:g}" for v in marks]), plot.x_axis(fifths, [f"{v:g}" for v in fifths])]
    parts += [plot.line(curve.reference, "base"), plot.line([(p.x, p.y) for p in curve.points], "value")]
    if (chosen := curve.chosen) is not None:
        name = "no score" if chosen.threshold is None else f"score ≥ {chosen.threshold:.4f}"
        title = f"{name}: {curve.x_title} {chosen.x:.4f}, {curve.y_title} {chosen.y:.4f}"
        parts.append(plot.diamond(chosen.x, chosen.y, title))
    parts.append(text(plot.left + plot.width / 2, SIDE - 8, curve.x_title, "middle"))
    parts.append(text(4.0, 11.0, curve.y_title))
    parts.append(text(SIDE - 8, 11.0, f"dashed: {curve.reference_name}", "end"))
    return figure(SIDE, SIDE, parts, label)


def _points(threshold: Floats, x: Floats, y: Floats) -> tuple[CurvePoint, ...]:
    rows = zip(threshold.tolist(), x.tolist(), y.tolist(), strict=True)
    return tuple(CurvePoint(t if np.isfinite(t) else None, a, b) for t, a, b in rows)


def _thinned(points: tuple[CurvePoint, ...], most: int) -> tuple[CurvePoint, ...]:
    """At most ``most`` of the points, evenly spaced along the curve; the first and the last stay."""
    if len(points) <= most:
        return points
    x, y = np.array([p.x for p in points]), np.array([p.y for p in points])
    distance = np.concatenate(([0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))))
    chosen: Ints = np.searchsorted(distance, np.linspace(0, distance[-1], most))
    chosen[-1] = len(points) - 1
    return tuple(points[k] for k in np.unique(np.minimum(chosen, len(points) - 1)))


def _at(points: tuple[CurvePoint, ...], threshold: float | None) -> CurvePoint | None:
    """The point of the decision "score >= threshold": the lowest threshold of the curve that is not below it."""
    if threshold is None:
        return None
    above = [point for point in points if point.threshold is None or point.threshold >= threshold]
    return above[-1] if above else None
