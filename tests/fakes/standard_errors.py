"""The sampling moments of the metrics that are not plain shares of rows, in closed form."""

from __future__ import annotations

import math
from dataclasses import dataclass

from monitor.core.counts import Counts, Floats
from monitor.metrics.calibration import Losses, brier, log_losses, nll, squared_losses
from monitor.metrics.discrimination import area_of_precision_recall, area_of_roc, classes


@dataclass(frozen=True, slots=True)
class Moments:
    """An estimate with its standard error and the skewness of its sampling distribution."""

    value: float
    se: float
    skew: float


def moments(name: str, counts: Counts) -> Moments | None:
    """The moments of ``brier``, ``nll``, ``roc_auc`` (DeLong) or ``pr_auc`` (influence function).

    Rows are drawn afresh with their scores; weights and clusters count by the effective number of
    rows. None where the metric is undefined; the skewness of the areas is not estimated (0).
    Raises KeyError for another name.

    >>> from monitor.core.counts import counts_from_rows
    >>> found = moments("brier", counts_from_rows([0.9, 0.8, 0.4, 0.1], [1, 1, 1, 0]))
    >>> round(found.value, 4), round(found.se, 4), found.skew > 0
    (0.105, 0.0853, True)
    """
    if name in ("brier", "nll"):
        losses, value = (
            (squared_losses(counts), brier(counts)) if name == "brier" else (log_losses(counts), nll(counts))
        )
        return None if losses is None or value is None else loss_moments(losses, value)
    two = classes(counts)
    area = {"roc_auc": area_of_roc, "pr_auc": area_of_precision_recall}[name]
    if not two.hit.any() or (name == "roc_auc" and not two.miss.any()):
        return None
    found = area(two)
    return Moments(found.value, math.sqrt(found.variance), 0.0)


def delong_by_pairs(hits: Floats, misses: Floats) -> tuple[float, float]:
    """The area under the ROC curve and its variance (DeLong 1988), over all pairs of the scores of hits and misses."""
    wins = (hits[:, None] > misses[None, :]) + 0.5 * (hits[:, None] == misses[None, :])
    return wins.mean(), wins.mean(axis=1).var(ddof=1) / len(hits) + wins.mean(axis=0).var(ddof=1) / len(misses)


def loss_moments(losses: Losses, value: float) -> Moments:
    """The moments of a mean loss whose exact value is ``value``."""
    variance, third = losses.cumulants()
    return Moments(value, math.sqrt(variance), third / variance**1.5 if variance > 0 else 0.0)
