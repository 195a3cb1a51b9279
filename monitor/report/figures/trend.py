"""The data of a trend figure: one metric of one subject over the windows, against its references."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from monitor.config.model import Condition, Rule
from monitor.core.records import Estimate, Interval, Subject, Verdict, Where, Window
from monitor.history.store import Store

_NOTHING = Interval(None, None, None, None)


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One window of a trend. Numbers are None where the window has no such estimate.

    ``start`` is the window's start (time zone aware), ``verdicts`` are the ids of the breaches.
    """

    window: str
    start: datetime
    value: float | None
    low: float | None
    high: float | None
    n: int
    breach: bool
    verdicts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThresholdLine:
    """One rule's threshold as a level on the metric's own axis.

    For ``increase`` the level is baseline + threshold, for ``decrease`` baseline - threshold; None without a baseline.
    """

    rule: str
    condition: Condition
    threshold: float
    level: float | None


@dataclass(frozen=True, slots=True)
class Trend:
    """One metric of one subject over one population, oldest window first.

    ``expected`` are estimates before the truth of the same metric, window by window, where there are any.
    """

    metric: str
    where: Where
    points: tuple[TrendPoint, ...]
    baseline: float | None = None
    thresholds: tuple[ThresholdLine, ...] = ()
    expected: tuple[TrendPoint, ...] = ()

    @property
    def values(self) -> tuple[float | None, ...]:
        """The debiased value of each window."""
        return tuple(point.value for point in self.points)

    @property
    def last(self) -> TrendPoint | None:
        """The newest window."""
        return self.points[-1] if self.points else None

    @property
    def levels(self) -> str:
        """The levels of its rules by name, in full."""
        return "; ".join(f"{line.rule} {line.level}" for line in self.thresholds if line.level is not None)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(value is None for value in self.values)


def stored_trend(
    store: Store,
    subject: Subject,
    metric: str,
    where: Where,
    verdicts: Iterable[Verdict],
    *,
    windows: Sequence[Window],
    baseline: float | None,
    rules: Sequence[Rule],
) -> Trend:
    """The trend of one subject from its stored estimates; it begins with the first of ``windows`` that has one.

    ``windows`` are of one schedule, oldest first, and the last is shown in any case.
    """
    known = store.estimates(
        metric=metric, where=where, schedule=windows[-1].schedule, source=subject.source, label=subject.label,
        between=(windows[0].start, windows[-1].start),
    )  # fmt: skip
    mine = [estimate for estimate in known if estimate.subject == subject]
    first = min((estimate.window.start for estimate in mine), default=windows[-1].start)
    shown = [window for window in windows if window.start >= first]
    return trend_data(metric, where, mine, verdicts, windows=shown, baseline=baseline, rules=rules)


def trend_data(
    metric: str,
    where: Where,
    estimates: Iterable[Estimate],
    verdicts: Iterable[Verdict],
    *,
    windows: Sequence[Window],
    baseline: float | None = None,
    rules: Sequence[Rule] = (),
) -> Trend:
    """The trend of one subject; ``estimates`` and ``verdicts`` are that subject's, in any order.

    There is a point for each of ``windows``, also where nothing was estimated, so that a gap in the
    history is a gap in the figure. ``rules`` are those that apply to the subject; the ones on
    another metric or population are left out.
    """
    known = {e.window.start: e for e in estimates if (e.metric, e.where) == (metric, where)}
    breaches: dict[datetime, list[str]] = defaultdict(list)
    for verdict in verdicts:
        if (verdict.metric, verdict.where, verdict.outcome) == (metric, where, "breach"):
            breaches[verdict.window.start].append(verdict.id)
    points = []
    for window in sorted(windows):
        found, ids = known.get(window.start), tuple(sorted(breaches[window.start]))
        limits, n = (_NOTHING, 0) if found is None else (found.interval, found.n)
        points.append(TrendPoint(window.name, window.start, limits.value, limits.low, limits.high, n, bool(ids), ids))
    thresholds = []
    for rule in (rule for rule in rules if (rule.metric, rule.where) == (metric, where)):
        change = rule.threshold if rule.condition == "increase" else -rule.threshold
        moved = None if baseline is None else baseline + change
        level = moved if rule.compares else rule.threshold
        thresholds.append(ThresholdLine(rule.id, rule.condition, rule.threshold, level))
    return Trend(metric, where, tuple(points), baseline, tuple(thresholds))
