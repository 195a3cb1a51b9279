"""Regression: predicted numbers with a standard deviation, such as hours to resolution."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from monitor.core.counts import Floats, RegressionRows
from monitor.metrics.definition import Metric
from monitor.metrics.groups import over
from monitor.metrics.row_sums import RowStatistic, ratio

CENTRAL = 0.95
_Z = 1.959963984540054  # the standard normal quantile of (1 + CENTRAL) / 2; a test computes it with SciPy
LEVELS: Mapping[int, float] = {
    50: 0.6744897501960817,
    80: 1.2815515655446004,
    90: 1.6448536269514722,
    99: 2.5758293035489004,
}
"""Percent of other central intervals, and the standard normal quantile of each; a test computes them with SciPy."""


def error_sums(rows: RegressionRows, blocks: int) -> Floats:
    """Sums of w times 1, e^2, abs(e), a, a^2, the loss and "inside"; shape (blocks, 7).

    e is the error, a the actual value less the mean one, "inside" whether it lies in the central 95% interval. The loss
    is the log loss of a normal law, ln(sigma) + ln(2 pi) / 2 + (e / sigma)^2 / 2, in nats.
    """
    error = rows.actual - rows.predicted
    total = float(rows.weight.sum())
    centred = rows.actual - (float(rows.weight @ rows.actual) / total if total > 0 else 0.0)
    loss = np.log(rows.deviation) + (math.log(2 * math.pi) + (error / rows.deviation) ** 2) / 2
    inside = np.abs(error) <= _Z * rows.deviation
    terms = np.column_stack((np.ones_like(error), error**2, np.abs(error), centred, centred**2, loss, inside))
    return np.asarray((terms * rows.weight[:, None]).reshape(blocks, -1, 7).sum(axis=1))


def coverage_sums(rows: RegressionRows, blocks: int) -> Floats:
    """Sums of w, and of w of what lies in the central interval of each of :data:`LEVELS`; shape (blocks, 1 + L)."""
    error = np.abs(rows.actual - rows.predicted)
    inside = error[:, None] <= rows.deviation[:, None] * np.array(list(LEVELS.values()))
    terms = np.column_stack((np.ones_like(error), inside)) * rows.weight[:, None]
    return np.asarray(terms.reshape(blocks, -1, terms.shape[1]).sum(axis=1))


def worst_coverage_sums(weight: float) -> Floats:
    """The :func:`coverage_sums` of one item of this weight outside all of its intervals; shape (1, 1 + L)."""
    return weight * np.array([[1.0, *(0.0 for _ in LEVELS)]])


def worst_sums(rows: RegressionRows, weight: float) -> Floats:
    """The sums of one item of this weight with the largest error and loss seen, outside its interval; shape (1, 7)."""
    each = error_sums(replace(rows, weight=np.ones_like(rows.weight)), len(rows.weight))
    return weight * np.array([[1.0, each[:, 1].max(), each[:, 2].max(), 0.0, each[:, 4].mean(), each[:, 5].max(), 0.0]])


def determination(sums: Floats) -> Floats:
    """R squared, 1 - sum w e^2 / sum w (a - mean)^2, at most 1; NaN where all actual values are the same.

    (..., 7) -> (...).
    """
    spread = sums[..., 4] - over(sums[..., 3] ** 2, sums[..., 0])
    # a variance as small as the rounding error of the squares counts as 0
    return 1 - over(sums[..., 1], np.where(spread > 1e-12 * sums[..., 4], spread, 0.0))


_MSE = ratio(1, 0)
STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("mse", "Mean squared error", "lower", sums=(error_sums,), of=_MSE),
    RowStatistic("rmse", "Root mean squared error", "lower", sums=(error_sums,), of=lambda sums: np.sqrt(_MSE(sums))),
    RowStatistic("mae", "Mean absolute error", "lower", sums=(error_sums,), of=ratio(2, 0)),
    RowStatistic("r_squared", "R squared", "higher", sums=(error_sums,), of=determination),
    RowStatistic("normal_nll", "Normal log loss", "lower", sums=(error_sums,), of=ratio(5, 0)),
    RowStatistic("interval_coverage", "Coverage", "none", sums=(error_sums,), of=ratio(6, 0)),
    *(
        RowStatistic(
            f"interval_coverage_{level}",
            f"Coverage of the {level}% interval",
            "none",
            sums=(coverage_sums,),
            of=ratio(place, 0),
        )
        for place, level in enumerate(LEVELS, start=1)
    ),
)
"""``rmse`` and ``mae`` are in units of the number; ``interval_coverage`` should be .95, the others their percent."""

REGISTERED: tuple[Metric, ...] = STATISTICS
