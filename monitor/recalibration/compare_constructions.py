"""Compares the calibration of score constructions on the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from monitor.core.counts import Counts, bin_counts, equal_frequency_edges
from monitor.core.records import Interval
from monitor.inference.intervals import ece_intervals
from monitor.inference.levels import interval
from monitor.metrics.calibration import brier, nll


@dataclass(frozen=True, slots=True)
class Compared:
    """One construction: ECE (debiased, with its interval), Brier score, log loss and ROC AUC."""

    name: str
    rows: int
    ece: Interval
    brier: float | None
    nll: float | None
    roc_auc: Interval


def compare(constructions: Mapping[str, Counts], *, bins: int = 15, confidence: float = 0.95) -> list[Compared]:
    """Every construction with its calibration and discrimination, the best calibrated first.

    The ECE is on equal-frequency bins of the construction's own scores, with the analytic interval. Among equal ECEs
    (several may be 0 when debiased) the lower Brier score comes first; constructions without rows come last.
    """
    tables = [bin_counts(counts, equal_frequency_edges(counts, bins)) for counts in constructions.values()]
    eces = ece_intervals(tables, [], confidence=confidence, form="analytic")
    found = [
        Compared(name, counts.rows, ece, brier(counts), nll(counts), interval("roc_auc", counts, confidence))
        for (name, counts), ece in zip(constructions.items(), eces, strict=True)
    ]

    def order(one: Compared) -> tuple[float, float]:
        ece, score = one.ece.value, one.brier
        return (np.inf if ece is None else ece, np.inf if score is None else score)

    return sorted(found, key=order)
