"""The records of the registry of metrics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from monitor.metrics.names import NEEDS, Needs

Direction = Literal["lower", "higher", "none"]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """A registered metric, by name, with parameters other than its usual ones.

    ``parameters`` are in the order of the metric's record (:class:`~monitor.metrics.cost.Costs`); () means the usual
    ones. They are not part of the stored and shown ``name``.
    """

    name: str
    parameters: tuple[float, ...] = ()

    @classmethod
    def of(cls, metric: str | MetricSpec) -> MetricSpec:
        """The metric itself, or a name as the metric with its usual parameters."""
        return cls(metric) if isinstance(metric, str) else metric


@dataclass(frozen=True, slots=True)
class Band:
    """The meaning of values from ``low`` to ``high``, both included."""

    low: float
    high: float
    reading: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; ``name`` is also the heading of its section in docs/metrics.md, with formula, limits and reference.

    ``direction`` says which values are better ("none": neither, as of lambda_v or a prevalence). ``needs`` says what it
    is computed from:
    ``counts``: :class:`~monitor.core.counts.Counts`; ``bins``: :class:`~monitor.core.counts.BinCounts`; ``items``: the
    :class:`~monitor.core.counts.Counts` of items with one value each as the outcome (such as 1 where no label acts;
    ``ranked_items``: a value of its ranks, such as its nDCG); ``ranked``: those of the
    ``rank`` highest-scored labels of each item; ``rows``:
    :class:`~monitor.core.counts.ProbabilityRows`; ``regression``: :class:`~monitor.core.counts.RegressionRows`;
    ``unresolved``: :class:`~monitor.inference.before_truth.Expectation` of rows without a truth.
    ``bands`` come best first; on a border the better one holds. A metric with a ``core`` is a function of groups of
    rows (:mod:`~monitor.metrics.groups`), which computes many draws of one sample at once; one with a ``share`` is a
    share of rows (:class:`~monitor.metrics.classification.Share`), which has exact binomial limits.
    """

    name: str
    title: str
    direction: Direction
    bands: tuple[Band, ...] = ()
    core: Callable[[Any], Any] | None = None
    share: Callable[[Any], Any] | None = None

    @property
    def needs(self) -> Needs:
        """What the metric is computed from."""
        return NEEDS[self.name]

    @property
    def rank(self) -> int | None:
        """The number of ranks that a metric of ranks reads; None for any other."""
        _, at, rank = self.name.partition("_at_")
        return int(rank) if at else None

    def reading(self, value: float | None) -> str | None:
        """The meaning of a value by the bands; None without a value or without a band for it.

        >>> bands = (Band(0.0, 0.05, "well calibrated"), Band(0.05, 0.10, "somewhat off"))
        >>> metric = Metric("ece", "Expected calibration error", "lower", bands)
        >>> metric.reading(0.05), metric.reading(0.07), metric.reading(0.2)
        ('well calibrated', 'somewhat off', None)
        """
        if value is None:
            return None
        return next((band.reading for band in self.bands if band.low <= value <= band.high), None)
