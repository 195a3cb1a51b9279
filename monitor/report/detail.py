"""What a report shows of one label besides its trends: numbers, curves, boxes, thresholds, gains, advice. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from monitor.automation.harm import Harm, TimeOn
from monitor.core.counts import Counts
from monitor.core.records import WHERES, Estimate, Interval, Schedule, Verdict, Where
from monitor.inference.selective import ExcessErrors, OperatingPoint, threshold_for
from monitor.metrics.class_tables import KEPT_IN, ClassTables, of_detail
from monitor.metrics.registry import METRICS
from monitor.recalibration.gain import METRIC_OF, Gain, gains_of
from monitor.recalibration.score_map import Method
from monitor.report.acting_harm import ActingLabel, counted_harm, counted_together
from monitor.report.conclusions import Conclusion, conclude, facts_of
from monitor.report.figures.boxes import ScoreBoxes, score_boxes
from monitor.report.figures.curves import Curve, precision_recall_data, risk_coverage_data, roc_data
from monitor.report.figures.ranked import ranked_reliability
from monitor.report.figures.reliability import Reliability

TARGET_ACCURACY = 0.95
"""The share of automated items that must be right, unless a caller sets another."""
_ORDER = {name: place for place, name in enumerate(METRICS)}


@dataclass(frozen=True, slots=True)
class LabelContext:
    """What is known about a label besides its rows: its verdicts, changes since the baseline, the ECE of two days.

    ``days`` are the debiased ECE of the day before the window's last day, and of that last day; None: not evaluated.
    ``on`` is the share of the window in which automation was on, ``pairs`` the pairs of all labels of its source,
    ``new_version`` how the main model version changed since the baseline ("" where it did not). ``labels`` are those of
    a source as a whole.
    """

    automate_at: float
    evaluated: bool
    confidence: float = 0.95
    ece_rise: float | None = None
    mce_rise: float | None = None
    days: tuple[float | None, float | None] = (None, None)
    verdicts: tuple[Verdict, ...] = ()
    on: TimeOn = field(default_factory=lambda: TimeOn(1.0))
    schedule: Schedule = "weekly"
    pairs: int | None = None
    new_version: str = ""
    labels: tuple[ActingLabel, ...] = ()


@dataclass(frozen=True, slots=True)
class Detail:
    """Everything about one label in one window except its trends.

    ``estimates`` are all metrics in the order of the registry, ``operating`` the threshold for the target accuracy,
    ``excess`` the errors beyond those that the scores claimed, among automated items (None without such items),
    ``harm`` how many of them automation made, ``classes`` the K x K tables of a multiclass source. Curves and boxes are
    None or empty where the history keeps no counts, or where they are undefined.
    """

    conclusion: Conclusion
    automate_at: float
    estimates: tuple[Estimate, ...] = ()
    gains: Mapping[Method, Gain] = field(default_factory=dict)
    operating: OperatingPoint | None = None
    excess: ExcessErrors | None = None
    risk_coverage: Curve | None = None
    roc: Curve | None = None
    precision_recall: Curve | None = None
    boxes: ScoreBoxes = field(default_factory=ScoreBoxes)
    harm: Harm | None = None
    classes: ClassTables | None = None
    ranks: Mapping[int, Reliability] = field(default_factory=dict)

    def interval(self, metric: str, where: Where = "all") -> Interval | None:
        """One metric over one population with its limits, or None."""
        return next((e.interval for e in self.estimates if (e.metric, e.where) == (metric, where)), None)


def detail_of(counts: Counts | None, estimates: Sequence[Estimate], context: LabelContext, target: float) -> Detail:
    """The detail of one label from its counts and its estimates in the window.

    ``target`` is the accuracy that the threshold must be shown to reach, 0 < target < 1 (else ValueError).
    """
    gains = gains_of(estimates)
    usable = counts if counts is not None and counts.rows else None
    operating = None if usable is None else threshold_for(usable, target, confidence=context.confidence)
    chosen = None if operating is None else operating.threshold
    facts = facts_of(
        estimates, gains, ece_rise=context.ece_rise, mce_rise=context.mce_rise, days=context.days, threshold=chosen,
        pairs=context.pairs, new_version=context.new_version, evaluated=context.evaluated,
    )  # fmt: skip

    def place(e: Estimate) -> tuple[int, str, int]:
        return _ORDER.get(e.metric, len(_ORDER)), e.metric, WHERES.index(e.where)

    metrics = sorted((e for e in estimates if e.metric not in METRIC_OF.values()), key=place)
    tables = next((of_detail(e.detail) for e in metrics if e.metric == KEPT_IN), None)
    plain = Detail(conclude(facts, context.verdicts), context.automate_at, tuple(metrics), gains, classes=tables)
    plain = replace(plain, ranks=ranked_reliability(metrics, context.confidence))
    return plain if usable is None else _with_rows(plain, usable, operating, context)


def _with_rows(plain: Detail, counts: Counts, operating: OperatingPoint | None, context: LabelContext) -> Detail:
    chosen = None if operating is None else operating.threshold
    if context.labels:
        done = counted_together(counts, context.labels, context.schedule, context.confidence)
    else:
        done = counted_harm(counts, context.on, context.automate_at, context.schedule, context.confidence)
    risk, roc = risk_coverage_data(counts, threshold=chosen), roc_data(counts, threshold=context.automate_at)
    precise, boxes = precision_recall_data(counts, threshold=context.automate_at), score_boxes(counts)
    return replace(
        plain,
        operating=operating,
        excess=None if done is None else done.excess,
        harm=None if done is None else done.harm,
        risk_coverage=risk,
        roc=roc,
        precision_recall=precise,
        boxes=boxes,
    )
