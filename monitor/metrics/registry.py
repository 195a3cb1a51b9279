"""The registry: every metric by its name, with all that other rooms need to know about it.

A new metric is one function, one row here, its name in names.py, one section in docs/metrics.md and one test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.metrics import (
    calibration,
    certainty,
    classification,
    cost,
    discrimination,
    information,
    multiclass,
    regression,
    selective,
    top_k,
)
from monitor.metrics.definition import Band, Metric
from monitor.metrics.names import ALIASES, CONTRACT, EXPECTED, GIVES, TOTALS, WHOLE, range_of

__all__ = [
    "ALIASES",
    "CONTRACT",
    "EXPECTED",
    "GIVES",
    "METRICS",
    "TOTALS",
    "WHOLE",
    "Band",
    "Metric",
    "range_of",
]

_MCE_BANDS = (Band(0.0, 0.15, "acceptable"), Band(0.15, 0.20, "risky"), Band(0.20, 1.0, "critical"))

_CONTRACT = (
    Metric("ece", "Expected calibration error", "lower", calibration.CALIBRATION_BANDS),
    Metric("mce", "Maximum calibration error", "lower", _MCE_BANDS),
    Metric("brier", "Brier score", "lower", calibration.BRIER_BANDS),
    Metric("nll", "Log loss", "lower"),
    Metric("roc_auc", "Area under the ROC curve", "higher", discrimination.AUC_BANDS),
    Metric("pr_auc", "Average precision", "higher"),
    classification.ACCURACY,
    Metric("overconfidence", "Overconfidence", "lower"),
    classification.FALSE_NEGATIVE_RATE,
)


# Modules whose ``REGISTERED`` is joined, in this order.
_MODULES: tuple[Any, ...] = (
    calibration, discrimination, classification, cost, selective, information, top_k, multiclass, certainty, regression,
)  # fmt: skip


_BEFORE_TRUTH = (
    Metric("expected_accuracy", "Expected accuracy", "higher"),
    Metric("expected_overconfidence", "Expected overconfidence", "lower"),
    Metric("expected_ece", "Expected calibration error before the truth", "lower"),
)
METRICS: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (*_CONTRACT, *(each for module in _MODULES for each in module.REGISTERED), *_BEFORE_TRUTH)
}
"""Every metric by its name: those of the contract first."""
