"""The data of a trend figure: one metric of one subject over the windows, against its references."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from monitor.config.model import Rule
from monitor.core.records import Subject, Verdict, Where, Window
from monitor.history.evaluations import GridNumber
from monitor.history.store import Store


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """One window of a trend. Numbers are None, and ``n`` is 0, where the window has no such estimate.

    ``start`` is the window's start (time zone aware), ``breach`` whether a rule on the metric was in breach.
    """

    window: str
    start: datetime
    value: float | None
    low: float | None
    high: float | None
    n: int
    breach: bool


@dataclass(frozen=True, slots=True)
class Trend:
    """One metric of one subject over one population, oldest window first.

    ``limits`` are the levels of rules by name, on the metric's own axis: baseline + threshold for ``increase``,
    baseline - threshold for ``decrease``; a rule that compares has none without a baseline. ``expected`` are estimates
    before the truth of the same metric, window by window, where there are any.
    """

    metric: str
    where: Where
    points: tuple[TrendPoint, ...]
    baseline: float | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    expected: tuple[TrendPoint, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether there is nothing to draw."""
        return all(point.value is None for point in self.points)

    @property
    def begun(self) -> Trend:
        """The same from its first window with an estimate on; the newest window is shown in any case."""
        first = next((place for place, point in enumerate(self.points) if point.n), -1)
        return replace(self, points=self.points[first:])


def stored_trends(
    store: Store,
    subject: Subject,
    series: Collection[tuple[str, Where]],
    verdicts: Sequence[Verdict],
    *,
    windows: Sequence[Window],
    baseline: Callable[[str, Where], float | None],
    rules: Sequence[Rule],
) -> list[Trend]:
    """The trend of each of ``series`` of one subject, from its stored estimates.

    ``windows`` are of one schedule, oldest first; ``baseline`` is the value of a series in the baseline.
    """
    starts, schedule = [window.start for window in windows], windows[-1].schedule
    numbers = store.grid_numbers(starts, subject.source, [subject.label], series, schedule=schedule)
    return [
        trend_data(*each, numbers, verdicts, windows=windows, baseline=baseline(*each), rules=rules) for each in series
    ]


def trend_data(
    metric: str,
    where: Where,
    numbers: Iterable[GridNumber],
    verdicts: Iterable[Verdict],
    *,
    windows: Sequence[Window],
    baseline: float | None = None,
    rules: Sequence[Rule] = (),
) -> Trend:
    """The trend of one subject; ``numbers`` and ``verdicts`` are that subject's, in any order.

    There is a point for each of ``windows``, also where nothing was estimated, so that a gap in the
    history is a gap in the figure. ``rules`` are those that apply to the subject; the ones on
    another metric or population are left out.
    """
    known = {row.window_start: row for row in numbers if (row.metric, row.population) == (metric, where)}
    judged = (metric, where, "breach")
    breaches = {v.window.start for v in verdicts if (v.metric, v.where, v.outcome) == judged}
    points = []
    for window in windows:
        row = known.get(window.start)
        measured = (None, None, None, 0) if row is None else (row.value, row.low, row.high, row.n)
        points.append(TrendPoint(window.name, window.start, *measured, window.start in breaches))
    limits = {}
    for rule in (rule for rule in rules if (rule.metric, rule.where) == (metric, where)):
        if not rule.compares:
            limits[rule.id] = rule.threshold
        elif baseline is not None:
            limits[rule.id] = baseline + (rule.threshold if rule.condition == "increase" else -rule.threshold)
    return Trend(metric, where, tuple(points), baseline, limits)
