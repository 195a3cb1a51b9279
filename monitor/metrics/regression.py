"""Regression: predicted numbers with a standard deviation, such as hours to resolution."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from monitor.core.rows import Floats, RegressionRows
from monitor.metrics.definition import Metric
from monitor.metrics.groups import over
from monitor.metrics.row_sums import RowStatistic

CENTRAL = 0.95
_Z = 1.959963984540054  # the standard normal quantile of (1 + CENTRAL) / 2; a test computes it with SciPy


def error_sums(rows: RegressionRows, blocks: int) -> Floats:
    """Sums of w times 1, e^2, abs(e), a, a^2, the loss and "inside"; shape (blocks, 7).

    e is the error, a the actual value less the mean one, "inside" whether it lies in the central 95% interval.
    """
    error = rows.actual - rows.predicted
    total = float(rows.weight.sum())
    centred = rows.actual - (float(rows.weight @ rows.actual) / total if total > 0 else 0.0)
    loss = np.log(rows.deviation) + (math.log(2 * math.pi) + (error / rows.deviation) ** 2) / 2
    inside = np.abs(error) <= _Z * rows.deviation
    terms = np.column_stack((np.ones_like(error), error**2, np.abs(error), centred, centred**2, loss, inside))
    return np.asarray((terms * rows.weight[:, None]).reshape(blocks, -1, 7).sum(axis=1))


def worst_sums(rows: RegressionRows, weight: float) -> Floats:
    """The sums of one item of this weight with the largest error and loss seen, outside its interval; shape (1, 7)."""
    each = error_sums(replace(rows, weight=np.ones_like(rows.weight)), len(rows.weight))
    return weight * np.array([[1.0, each[:, 1].max(), each[:, 2].max(), 0.0, each[:, 4].mean(), each[:, 5].max(), 0.0]])


def _mean_square(sums: Floats) -> Floats:
    return over(sums[..., 1], sums[..., 0])


def _root_mean_square(sums: Floats) -> Floats:
    return np.sqrt(_mean_square(sums))


def _mean_absolute(sums: Floats) -> Floats:
    return over(sums[..., 2], sums[..., 0])


def _determination(sums: Floats) -> Floats:
    spread = sums[..., 4] - over(sums[..., 3] ** 2, sums[..., 0])
    # a spread that is a rounding error of the squares is none
    return 1 - over(sums[..., 1], np.where(spread > 1e-12 * sums[..., 4], spread, 0.0))


def _mean_loss(sums: Floats) -> Floats:
    return over(sums[..., 5], sums[..., 0])


def _inside(sums: Floats) -> Floats:
    return over(sums[..., 6], sums[..., 0])


STATISTICS: tuple[RowStatistic, ...] = (
    RowStatistic("mse", (error_sums,), _mean_square, 0.0, math.inf),
    RowStatistic("rmse", (error_sums,), _root_mean_square, 0.0, math.inf),
    RowStatistic("mae", (error_sums,), _mean_absolute, 0.0, math.inf),
    RowStatistic("r_squared", (error_sums,), _determination, -math.inf, 1.0),
    RowStatistic("normal_nll", (error_sums,), _mean_loss, -math.inf, math.inf),
    RowStatistic("interval_coverage", (error_sums,), _inside, 0.0, 1.0),
)
_BY_NAME = {statistic.name: statistic for statistic in STATISTICS}


def mse(rows: RegressionRows) -> float | None:
    """Mean squared error, in squared units of the number; None without rows."""
    return _BY_NAME["mse"].point(rows)


def rmse(rows: RegressionRows) -> float | None:
    """Root of the mean squared error, in units of the number; None without rows."""
    return _BY_NAME["rmse"].point(rows)


def mae(rows: RegressionRows) -> float | None:
    """Mean absolute error, in units of the number; None without rows."""
    return _BY_NAME["mae"].point(rows)


def r_squared(rows: RegressionRows) -> float | None:
    """1 - sum w e^2 / sum w (a - mean)^2, at most 1; None where all actual values are the same."""
    return _BY_NAME["r_squared"].point(rows)


def normal_nll(rows: RegressionRows) -> float | None:
    """Mean of ln(sigma) + ln(2 pi) / 2 + (e / sigma)^2 / 2, the log loss of a normal law, in nats; None without rows.

    >>> rows = RegressionRows(*(np.array([value]) for value in (2.0, 1.0, 3.0, 1.0)), 1)
    >>> round(normal_nll(rows), 6)  # ln(2 pi) / 2 + 1 / 2
    1.418939
    """
    return _BY_NAME["normal_nll"].point(rows)


def interval_coverage(rows: RegressionRows) -> float | None:
    """Share of actual values within 1.96 standard deviations of the predicted, in [0, 1]; None without rows.

    It should be .95.
    """
    return _BY_NAME["interval_coverage"].point(rows)


REGISTERED: tuple[Metric, ...] = (
    Metric(
        name="mse",
        summary="Mean squared error: the mean of the squared distance of predicted and actual number",
        direction="lower",
        bands=(),
        reference="Gauss 1823",
        docs_anchor="mse",
        needs="regression",
        point=mse,
    ),
    Metric(
        name="rmse",
        summary="Root mean squared error: the usual size of an error, large ones weighing more",
        direction="lower",
        bands=(),
        reference="Gauss 1823",
        docs_anchor="rmse",
        needs="regression",
        point=rmse,
    ),
    Metric(
        name="mae",
        summary="Mean absolute error: the mean distance of predicted and actual number",
        direction="lower",
        bands=(),
        reference="Willmott & Matsuura 2005",
        docs_anchor="mae",
        needs="regression",
        point=mae,
    ),
    Metric(
        name="r_squared",
        summary="R squared: what the prediction explains of the spread of the actual numbers",
        direction="higher",
        bands=(),
        reference="Wright 1921",
        docs_anchor="r_squared",
        needs="regression",
        point=r_squared,
    ),
    Metric(
        name="normal_nll",
        summary="Normal log loss: mean negative log-likelihood under a normal law with the predicted deviation",
        direction="lower",
        bands=(),
        reference="Gneiting & Raftery 2007",
        docs_anchor="normal_nll",
        needs="regression",
        point=normal_nll,
    ),
    Metric(
        name="interval_coverage",
        summary="Coverage: the share of actual numbers within the central 95% interval of their prediction",
        direction="none",
        bands=(),
        reference="Gneiting, Balabdaoui & Raftery 2007",
        docs_anchor="interval_coverage",
        needs="regression",
        point=interval_coverage,
    ),
)
