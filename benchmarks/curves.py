"""The curves of docs/curves.md, by cell: ROC and precision-recall."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import CELLS, Counts, Floats

NOTHING = 1e-12
"""A smaller share of weight is a rounding error of two sums of the same rows."""


@dataclass(frozen=True, slots=True, eq=False)
class RocCurve:
    """A ROC curve from (0, 0) to (1, 1), highest threshold first; every array has shape (T + 1,).

    Point k is the decision "score >= threshold[k]"; the first threshold is infinite (nothing predicted).
    """

    threshold: Floats
    fpr: Floats
    tpr: Floats


@dataclass(frozen=True, slots=True, eq=False)
class PrecisionRecallCurve:
    """A precision-recall curve, highest threshold first; every array has shape (T,).

    Point k is the decision "score >= threshold[k]". ``prevalence`` is the precision of a blind classifier.
    """

    threshold: Floats
    precision: Floats
    recall: Floats
    prevalence: float


def roc_curve(counts: Counts) -> RocCurve | None:
    """The ROC curve by cell: one point a distinct cell, thresholds rounded to cells; None unless both classes occur.

    Its area by trapezia is the metric roc_auc, but for rows of one cell that have different scores. Fawcett 2006.

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = roc_curve(counts_from_rows([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0]))
    >>> curve.threshold.tolist(), curve.fpr.tolist(), curve.tpr.tolist()
    ([inf, 0.9, 0.8, 0.2], [0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 1.0, 1.0])
    """
    threshold, hits, misses = _steps(counts)
    if not (len(threshold) and hits[-1] > 0 and misses[-1] > 0):
        return None
    start = np.zeros(1)
    return RocCurve(
        np.concatenate(([math.inf], threshold)),
        np.concatenate((start, misses / misses[-1])),
        np.concatenate((start, hits / hits[-1])),
    )


def precision_recall_curve(counts: Counts) -> PrecisionRecallCurve | None:
    """The precision-recall curve by cell, highest threshold first; None without hits.

    sum of (R_k - R_k-1) P_k over its points is the metric pr_auc, but for rows of one cell that have different scores.

    >>> from monitor.core.counts import counts_from_rows
    >>> curve = precision_recall_curve(counts_from_rows([0.9, 0.8, 0.8, 0.2], [1, 1, 0, 0]))
    >>> curve.precision.round(4).tolist(), curve.recall.tolist(), curve.prevalence
    ([1.0, 0.6667, 0.5], [0.5, 1.0, 1.0], 0.5)
    """
    threshold, hits, misses = _steps(counts)
    if not (len(threshold) and hits[-1] > 0):
        return None
    reached = hits + misses
    return PrecisionRecallCurve(threshold, hits / reached, hits / hits[-1], float(hits[-1] / reached[-1]))


def _steps(counts: Counts) -> tuple[Floats, Floats, Floats]:
    """Distinct cells as thresholds, highest first, with the hits and the misses that score at least that."""
    cells = counts.by_cell().weighted()
    hit = np.clip(cells.wy, 0.0, cells.w)[::-1]
    miss = cells.w[::-1] - hit
    hit, miss = (np.where(part < NOTHING * (hit + miss), 0.0, part) for part in (hit, miss))
    return cells.cell[::-1] / CELLS, np.cumsum(hit), np.cumsum(miss)
