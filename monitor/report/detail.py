"""What a report has of one label besides its story: all numbers, thresholds, gains, scores, tables of classes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from monitor.config.model import EvaluationConfig
from monitor.core.counts import BinCounts, Counts, bin_counts, equal_width_edges
from monitor.core.records import WHERES, Estimate, Interval, Subject, Where, Window
from monitor.evaluation.estimates import generator
from monitor.inference.selective import OperatingPoint, threshold_for
from monitor.metrics.certainty import KEPT_IN, ClassTables, of_detail
from monitor.metrics.registry import METRICS
from monitor.recalibration.gain import Gain, gains_on_unseen
from monitor.recalibration.score_map import Method
from monitor.report.figures.boxes import FiveNumbers, score_boxes
from monitor.report.figures.curves import Curve, risk_coverage_data

TARGET_ACCURACY = 0.95
"""The share of automated items that must be right, unless a caller sets another."""
TENTHS = 10
_ORDER = {name: place for place, name in enumerate(METRICS)}


@dataclass(frozen=True)
class Detail:
    """One label in one window: its estimates and its counts (None where the history keeps none, or no rows).

    ``target`` is the accuracy that the threshold must be shown to reach, 0 < target < 1 (else ValueError). What needs
    the counts is computed when it is shown, and is None or empty without them.
    """

    subject: Subject
    window: Window
    given: Iterable[Estimate]
    counts: Counts | None
    evaluation: EvaluationConfig
    automate_at: float
    target: float

    @cached_property
    def estimates(self) -> tuple[Estimate, ...]:
        """All metrics in the order of the registry."""

        def place(e: Estimate) -> tuple[int, str, int]:
            return _ORDER.get(e.metric, len(_ORDER)), e.metric, WHERES.index(e.where)

        return tuple(sorted(self.given, key=place))

    def interval(self, metric: str, where: Where = "all") -> Interval | None:
        """One metric over one population with its limits, or None."""
        return next((e.interval for e in self.estimates if (e.metric, e.where) == (metric, where)), None)

    @cached_property
    def gains(self) -> dict[Method, Gain]:
        """What each way of recalibrating would bring to a label in a week: a day has too few rows."""
        if self.counts is None or self.subject.label is None or self.window.schedule != "weekly":
            return {}
        rng = generator(self.evaluation.seed, self.subject, "recalibration", self.window.name)
        found = gains_on_unseen([self.counts], rng, self.evaluation)
        return {method: gain for method, gain in found.items() if gain.after is not None}

    @cached_property
    def operating(self) -> OperatingPoint | None:
        """The threshold for the target accuracy."""
        if self.counts is None:
            return None
        return threshold_for(self.counts, self.target, confidence=self.evaluation.confidence)

    @property
    def risk_coverage(self) -> Curve | None:
        """The curve, with the point of that threshold."""
        threshold = None if self.operating is None else self.operating.threshold
        return None if self.counts is None else risk_coverage_data(self.counts, threshold)

    @property
    def boxes(self) -> Mapping[str, FiveNumbers]:
        """The scores of right and of wrong decisions."""
        return {} if self.counts is None else score_boxes(self.counts)

    @property
    def tenths(self) -> BinCounts | None:
        """The rows by tenths of the scores."""
        return None if self.counts is None else bin_counts(self.counts, equal_width_edges(TENTHS))

    @property
    def classes(self) -> ClassTables | None:
        """The K x K tables of a multiclass source."""
        return next((of_detail(e.detail) for e in self.estimates if e.metric == KEPT_IN), None)
