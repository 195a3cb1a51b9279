"""What automation did week by week: what acted, what could have, and errors made and avoided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt

from markupsafe import Markup

from monitor.report.figures.svg import Plot, figure, ticks

WIDTH, LEFT = 900, 60


@dataclass(frozen=True, slots=True)
class LabelWork:
    """One label in one week. ``on`` is the share of the week in which automation was on.

    ``predicted`` and ``eligible`` are rows: those that the classifier predicted, and those of them with a score from
    ``automate_at`` on. Of the eligible, ``accuracy`` is the share that was right, ``promised`` the share that scores
    claimed (None: not known). ``excess`` errors are those beyond what scores claimed, with limits. ``cost`` is that of
    one wrong action; None: not configured.
    """

    predicted: float
    eligible: float
    on: float
    accuracy: float | None = None
    promised: float | None = None
    excess: float = 0.0
    low: float | None = None
    high: float | None = None
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The labels of some weeks together. ``acted`` and ``people`` are estimates, from the share of time "on".

    ``avoided`` and its limits are the excess errors of rows that could have acted while automation was off.
    """

    name: str
    predicted: float
    eligible: float
    acted: float
    promised: float | None
    kept: float | None
    wrong: float
    extra: float
    avoided: float
    avoided_low: float
    avoided_high: float
    cost: float | None
    cost_avoided: float | None

    @property
    def people(self) -> float:
        """Predictions that people saw."""
        return self.predicted - self.acted

    def share(self, rows: float) -> float | None:
        """The share of ``rows`` in all predictions; None without predictions."""
        return rows / self.predicted if self.predicted else None


def together(name: str, labels: Iterable[LabelWork]) -> Work:
    """The sums over labels; their limits are combined as for independent labels.

    >>> week = together("W1", [LabelWork(100, 60, 1.0, 0.9, 0.95, 3.0), LabelWork(50, 40, 0.0, 0.5, 0.9, 16, 10, 22)])
    >>> week.acted, week.people, round(week.wrong), week.extra, (week.avoided, week.avoided_low, week.avoided_high)
    (60.0, 90.0, 6, 3.0, (16.0, 10.0, 22.0))
    """
    found = list(labels)
    known = [each for each in found if each.accuracy is not None and each.promised is not None and each.eligible]
    rows = sum(each.eligible for each in known)
    promised = sum(each.eligible * (each.promised or 0.0) for each in known) / rows if rows else None
    kept = sum(each.eligible * (each.accuracy or 0.0) for each in known) / rows if rows else None
    wrong = [(each, each.eligible * each.on * (1 - (each.accuracy or 0.0))) for each in known]
    avoided = sum(each.excess * (1 - each.on) for each in found)
    half = sqrt(sum(_half(each) ** 2 for each in found))
    priced = [(errors * each.cost, each.excess * (1 - each.on) * each.cost) for each, errors in wrong if each.cost]
    return Work(
        name=name,
        predicted=float(sum(each.predicted for each in found)),
        eligible=float(sum(each.eligible for each in found)),
        acted=float(sum(each.eligible * each.on for each in found)),
        promised=promised,
        kept=kept,
        wrong=sum(errors for _, errors in wrong),
        extra=float(sum(each.excess * each.on for each in found)),
        avoided=float(avoided),
        avoided_low=avoided - half,
        avoided_high=avoided + half,
        cost=sum(cost for cost, _ in priced) if priced else None,
        cost_avoided=sum(cost for _, cost in priced) if priced else None,
    )


def _half(each: LabelWork) -> float:
    """Half the width of the interval of the avoided errors."""
    if each.low is None or each.high is None:
        return 0.0
    return (each.high - each.low) / 2 * (1 - each.on)


def share_drawing(weeks: Sequence[Work]) -> Markup:
    """The shares of predictions that acted alone, could have while automation was off, and had too low a score."""
    plot = _plot(weeks, 0.0, 1.0)
    parts = [plot.y_axis([0, 0.5, 1], ["0%", "50%", "100%"])]
    for k, week in enumerate(weeks):
        acted, eligible = week.share(week.acted), week.share(week.eligible)
        if acted is None or eligible is None:
            continue
        title = f"{week.name}: {acted:.1%} acted, {eligible - acted:.1%} could have, {1 - eligible:.1%} below the score"
        parts.append(plot.box(k - 0.4, k + 0.4, 0, acted, "ison", title))
        parts.append(plot.box(k - 0.4, k + 0.4, acted, eligible, "isblocked", title))
        parts.append(plot.box(k - 0.4, k + 0.4, eligible, 1, "isnever", title))
    return _drawn(plot, parts, weeks, "Share of predictions that acted alone, could have, and went to people")


def accuracy_drawing(weeks: Sequence[Work]) -> Markup:
    """The accuracy of rows that could act: what scores claimed, and what came true."""
    values = [value for week in weeks for value in (week.promised, week.kept) if value is not None]
    low = min([*values, 0.9]) - 0.02
    plot = _plot(weeks, max(0.0, low), 1.0)
    marks = ticks(plot.y0, 1.0, 4)
    parts = [plot.y_axis(marks, [f"{mark:.0%}" for mark in marks])]
    parts.append(plot.line([(k, week.promised) for k, week in enumerate(weeks)], "base"))
    parts.append(plot.line([(k, week.kept) for k, week in enumerate(weeks)], "value"))
    parts += [
        plot.point(k, week.kept, f"{week.name}: {week.kept:.1%} right, scores claimed {week.promised or 0:.1%}")
        for k, week in enumerate(weeks)
        if week.kept is not None
    ]
    return _drawn(plot, parts, weeks, "Accuracy that scores claimed and that came true, of rows that could act")


def errors_drawing(weeks: Sequence[Work]) -> Markup:
    """Errors beyond those claimed: made while automation was on, and avoided while it was off, with their interval."""
    numbers = [0.0, *(value for week in weeks for value in (week.extra, week.avoided_low, week.avoided_high))]
    low, high = min(numbers), max(*numbers, 1.0)
    plot = _plot(weeks, low, high * 1.05)
    marks = ticks(low, high, 4)
    parts = [plot.y_axis(marks, [f"{mark:g}".replace("-", "−") for mark in marks])]
    for k, week in enumerate(weeks):
        limits = f"{week.avoided_low:.1f} to {week.avoided_high:.1f}"
        parts.append(plot.box(k - 0.38, k, 0, week.extra, "bar2", f"{week.name}: {week.extra:.1f} made"))
        title = f"{week.name}: {week.avoided:.1f} avoided ({limits})"
        parts.append(plot.box(k, k + 0.38, 0, week.avoided, "ison", title))
        parts.append(plot.box(k + 0.17, k + 0.21, week.avoided_low, week.avoided_high, "flagged", title))
    return _drawn(plot, parts, weeks, "Errors beyond those that scores claimed: made while on, avoided while off")


def _plot(weeks: Sequence[Work], low: float, high: float) -> Plot:
    return Plot(LEFT, 8, WIDTH - LEFT - 10, 130, -0.5, max(len(weeks), 1) - 0.5, low, high)


def _drawn(plot: Plot, parts: list[str], weeks: Sequence[Work], label: str) -> Markup:
    step = max(1, len(weeks) // 9)
    places = list(range(0, len(weeks), step))
    parts.append(plot.x_axis(places, [weeks[k].name for k in places]))
    first, last = (weeks[0].name, weeks[-1].name) if weeks else ("", "")
    return figure(WIDTH, 165, parts, f"{label}, {first} to {last}")
