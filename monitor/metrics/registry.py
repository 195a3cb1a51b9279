"""The registry: every metric by its name, with all that other rooms need to know about it.

A new metric is one function, one row here, its name in names.py, one section in docs/metrics.md and one test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from monitor.metrics import (
    before_truth,
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
    Metric("ece", "Expected calibration error", calibration.ece, "lower", calibration.CALIBRATION_BANDS),
    Metric("mce", "Maximum calibration error", calibration.mce, "lower", _MCE_BANDS),
    Metric("brier", "Brier score", calibration.brier, "lower", calibration.BRIER_BANDS),
    Metric("nll", "Log loss", calibration.nll, "lower"),
    Metric("roc_auc", "Area under the ROC curve", discrimination.roc_auc, "higher", discrimination.AUC_BANDS),
    Metric("pr_auc", "Average precision", discrimination.pr_auc, "higher"),
    classification.ACCURACY,
    Metric("overconfidence", "Overconfidence", calibration.overconfidence, "lower"),
    classification.FALSE_NEGATIVE_RATE,
)


# Modules whose ``REGISTERED`` is joined, in this order.
_MODULES: tuple[Any, ...] = (
    calibration, discrimination, classification, cost, selective, information, top_k, multiclass, certainty, regression,
    before_truth,
)  # fmt: skip


METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_CONTRACT, *(metric for module in _MODULES for metric in module.REGISTERED))
}
"""Every metric by its name: those of the contract first."""
