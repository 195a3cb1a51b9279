"""The registry: every metric by its name, with what a reader must know about it.

A new metric is one function, one row here, its name in names.py, one section in docs/metrics.md and one test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
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
from monitor.metrics.groups import Core
from monitor.metrics.names import ALIASES, CONTRACT, GIVES, TOTALS, WHOLE, range_of

__all__ = [
    "ALIASES", "CONTRACT", "GIVES", "METRICS", "ON_GROUPS", "TOTALS", "WHOLE", "Band", "Metric", "given_by", "range_of",
]  # fmt: skip

_ECE_BANDS = (
    Band(0.0, 0.05, "well calibrated"),
    Band(0.05, 0.10, "somewhat off"),
    Band(0.10, 0.20, "recalibrate"),
    Band(0.20, 1.0, "severely miscalibrated"),
)
_MCE_BANDS = (Band(0.0, 0.15, "acceptable"), Band(0.15, 0.20, "risky"), Band(0.20, 1.0, "critical"))
_AUC_BANDS = (Band(0.9, 1.0, "strong"), Band(0.8, 0.9, "acceptable"), Band(0.0, 0.8, "weak: retrain"))

_CONTRACT = (
    Metric(
        name="ece",
        summary="Expected calibration error: how far scores are from hit rates, on average over the rows",
        direction="lower",
        bands=_ECE_BANDS,
        reference="Guo, Pleiss, Sun & Weinberger 2017; Nixon et al. 2019",
        docs_anchor="ece",
        needs="bins",
        point=calibration.ece,
    ),
    Metric(
        name="mce",
        summary="Maximum calibration error: how far scores are from the hit rate in the worst bin",
        direction="lower",
        bands=_MCE_BANDS,
        reference="Naeini, Cooper & Hauskrecht 2015",
        docs_anchor="mce",
        needs="bins",
        point=calibration.mce,
    ),
    Metric(
        name="brier",
        summary="Brier score: mean squared distance of score and outcome",
        direction="lower",
        bands=(),
        reference="Brier 1950",
        docs_anchor="brier",
        needs="counts",
        point=calibration.brier,
    ),
    Metric(
        name="nll",
        summary="Log loss: mean negative log-likelihood of the outcomes under the scores, in nats",
        direction="lower",
        bands=(),
        reference="Good 1952",
        docs_anchor="nll",
        needs="counts",
        point=calibration.nll,
    ),
    Metric(
        name="roc_auc",
        summary="Area under the ROC curve: how often a hit scores above a miss",
        direction="higher",
        bands=_AUC_BANDS,
        reference="Hanley & McNeil 1982; DeLong, DeLong & Clarke-Pearson 1988",
        docs_anchor="roc_auc",
        needs="counts",
        point=discrimination.roc_auc,
    ),
    Metric(
        name="pr_auc",
        summary="Average precision: the area under the precision-recall curve",
        direction="higher",
        bands=(),
        reference="Davis & Goadrich 2006; Boyd, Eng & Page 2013",
        docs_anchor="pr_auc",
        needs="counts",
        point=discrimination.pr_auc,
    ),
    Metric(
        name="accuracy",
        summary="Accuracy: the share of decisions that were right",
        direction="higher",
        bands=(),
        reference="Clopper & Pearson 1934 (interval)",
        docs_anchor="accuracy",
        needs="counts",
        point=classification.accuracy,
    ),
    Metric(
        name="shortfall",
        summary="Shortfall: mean score minus hit rate (overconfidence)",
        direction="lower",
        bands=(),
        reference="Clopper & Pearson 1934 (interval)",
        docs_anchor="shortfall",
        needs="counts",
        point=calibration.shortfall,
    ),
    Metric(
        name="false_negative_rate",
        summary="False-negative rate: the share of actual positives that were not predicted",
        direction="lower",
        bands=(),
        reference="Clopper & Pearson 1934 (interval)",
        docs_anchor="false_negative_rate",
        needs="counts",
        point=classification.false_negative_rate,
    ),
)


# Modules whose ``REGISTERED`` is joined, in this order.
_MODULES: tuple[Any, ...] = (
    calibration, discrimination, classification, cost, selective, information, top_k, multiclass, certainty, regression,
)  # fmt: skip


def _joined(modules: Iterable[Any]) -> dict[str, Metric]:
    found: dict[str, Metric] = {}
    for metric in (*_CONTRACT, *(metric for module in modules for metric in module.REGISTERED)):
        if metric.name in found:
            raise AssertionError(f"two metrics are called {metric.name}")
        found[metric.name] = metric
    return found


METRICS: Mapping[str, Metric] = MappingProxyType(_joined(_MODULES))
"""Every metric by its name: those of the contract first."""

ON_GROUPS: Mapping[str, Core] = MappingProxyType(
    {name: core for module in _MODULES for name, core in getattr(module, "ON_GROUPS", {}).items()}
)
"""Metrics that many draws of one sample can be put into at once, as functions of groups."""


def given_by(kind: str) -> tuple[str, ...]:
    """The metrics that a source of this kind can give, in the order of the registry.

    >>> given_by("multilabel")[:3]
    ('ece', 'mce', 'brier')
    """
    return tuple(metric.name for metric in METRICS.values() if metric.needs in GIVES[kind])
