"""What a report has of one label besides its story: all numbers, thresholds, gains, scores, tables of classes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from monitor.core.counts import OF_DIAGRAM, BinCounts, Counts, bin_counts, equal_width_edges
from monitor.core.records import WHERES, Estimate, Interval, Where
from monitor.inference.selective import OperatingPoint, threshold_for
from monitor.metrics.class_tables import KEPT_IN, ClassTables, of_detail
from monitor.metrics.registry import METRICS
from monitor.metrics.top_k import RANKS
from monitor.recalibration.gain import METRIC_OF, Gain, gains_of
from monitor.recalibration.score_map import Method
from monitor.report.figures.boxes import FiveNumbers, score_boxes
from monitor.report.figures.curves import Curve, risk_coverage_data
from monitor.report.figures.reliability import Reliability, reliability_data

TARGET_ACCURACY = 0.95
"""The share of automated items that must be right, unless a caller sets another."""
TENTHS = 10
_ORDER = {name: place for place, name in enumerate(METRICS)}


@dataclass(frozen=True, slots=True)
class Detail:
    """``estimates`` are all metrics in the order of the registry, ``gains`` what each way of recalibrating would bring.

    ``operating`` is the threshold for the target accuracy, ``classes`` the K x K tables of a multiclass source,
    ``ranks`` the reliability of the k highest-scored labels by k, ``tenths`` the rows by tenths of the scores. These,
    curve, scores and threshold are None or empty where the history keeps no counts, or where they are undefined.
    """

    estimates: tuple[Estimate, ...] = ()
    automate_at: float = 1.0
    gains: Mapping[Method, Gain] = field(default_factory=dict)
    operating: OperatingPoint | None = None
    risk_coverage: Curve | None = None
    boxes: Mapping[str, FiveNumbers] = field(default_factory=dict)
    classes: ClassTables | None = None
    ranks: Mapping[int, Reliability] = field(default_factory=dict)
    tenths: BinCounts | None = None

    def interval(self, metric: str, where: Where = "all") -> Interval | None:
        """One metric over one population with its limits, or None."""
        return next((e.interval for e in self.estimates if (e.metric, e.where) == (metric, where)), None)


def detail_of(
    counts: Counts | None, estimates: Sequence[Estimate], *, automate_at: float, target: float, confidence: float
) -> Detail:
    """The detail of one label from its counts and its estimates in the window.

    ``target`` is the accuracy that the threshold must be shown to reach, 0 < target < 1 (else ValueError).
    """

    def place(e: Estimate) -> tuple[int, str, int]:
        return _ORDER.get(e.metric, len(_ORDER)), e.metric, WHERES.index(e.where)

    metrics = tuple(sorted((e for e in estimates if e.metric not in METRIC_OF.values()), key=place))
    tables = next((of_detail(e.detail) for e in metrics if e.metric == KEPT_IN), None)
    plain = Detail(metrics, automate_at, gains_of(estimates), classes=tables)
    plain = replace(plain, ranks=ranked_reliability(metrics, confidence))
    if counts is None or not counts.rows:
        return plain
    operating = threshold_for(counts, target, confidence=confidence)
    curve = risk_coverage_data(counts, None if operating is None else operating.threshold)
    tenths = bin_counts(counts, equal_width_edges(TENTHS))
    return replace(plain, operating=operating, risk_coverage=curve, boxes=score_boxes(counts), tenths=tenths)


BINS_KEPT_IN: Mapping[str, int] = {f"ece_at_{k}": k for k in RANKS}
"""The metrics whose estimates keep bins, each with its k."""


def ranked_reliability(estimates: Iterable[Estimate], confidence: float = 0.95) -> dict[int, Reliability]:
    """The diagram of each k, with its bin sizes (the histogram of the scores); {} where no estimate keeps bins."""
    kept = ((BINS_KEPT_IN.get(e.metric), e.detail.get("bins")) for e in estimates)
    return {k: reliability_data(_bins(bins), confidence=confidence) for k, bins in kept if k is not None and bins}


def _bins(kept: Mapping[str, Any]) -> BinCounts:
    whole = ("upper", "n")
    return BinCounts(*(np.asarray(kept[name], dtype=np.int64 if name in whole else float) for name in OF_DIAGRAM))
