"""Several metrics of one label on one axis of time, with what happened meanwhile; and one week's scores. As SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np
from markupsafe import Markup

from monitor.core.counts import CELLS, Counts
from monitor.core.wording import count_of
from monitor.metrics.names import EXPECTED
from monitor.report import words
from monitor.report.figures.reliability import Reliability, ReliabilityPoint
from monitor.report.figures.scale import Scale, scale_of
from monitor.report.figures.svg import Plot, figure, text, ticks
from monitor.report.figures.trend import Trend, TrendPoint

WIDTH, LEFT, RIGHT = 1100.0, 58.0, 14.0
PANEL, GAP, BAND = 92.0, 30.0, 12.0
SIDE = 330.0
"""The width and height of a diagram of scores, in pixels."""
BARS = 20
_NAMES_SHOWN = 9


@dataclass(frozen=True, slots=True)
class Flag:
    """An event: its time, its number above the axis, and its text."""

    at: datetime
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class SwitchSpan:
    """A span of time with the state of automation: ``look`` is ison, isoff or isblocked."""

    start: datetime
    end: datetime
    look: str
    text: str


@dataclass(frozen=True, slots=True)
class ScoreBar:
    """The rows of a week with scores in (low, high], how many came true, and the share of the other week's rows."""

    low: float
    high: float
    rows: float
    hits: float
    other: float | None = None


def time_panels(
    trends: Sequence[Trend],
    missing: Mapping[str, AbstractSet[str]],
    flags: Sequence[Flag],
    spans: Sequence[SwitchSpan],
    chosen: str,
    end: datetime,
) -> Markup:
    """One panel below the other, one for each trend; ``missing``: metric -> windows with a rule not evaluated.

    ``chosen`` is the name of the window that the rest of the page is about, ``end`` the end of the newest one.
    """
    points = trends[0].points
    x0, x1 = points[0].start.timestamp(), end.timestamp()
    half = (x1 - points[-1].start.timestamp()) / 2
    parts: list[str] = []
    top = 26.0
    for trend in trends:
        parts += _panel(trend, missing.get(trend.metric, frozenset()), _plot(top, PANEL, x0, x1, trend), half, chosen)
        top += PANEL + GAP
    band = Plot(LEFT, top - 8, WIDTH - LEFT - RIGHT, BAND, x0, x1, 0.0, 1.0)
    parts.append(text(LEFT - 6, top + 2, "auto", "end"))
    parts += [band.bar(_inside(s.start, x0, x1), _inside(s.end, x0, x1), s.look, s.text) for s in spans]
    step = -(-len(points) // _NAMES_SHOWN)
    shown = points[::-1][::step]
    parts.append(band.x_axis([p.start.timestamp() + half for p in shown], [p.window for p in shown]))
    whole = Plot(LEFT, 14.0, WIDTH - LEFT - RIGHT, top - 22 + BAND, x0, x1, 0.0, 1.0)
    parts += _flags(whole, flags)
    names = ", ".join(words.metric_name(t.metric, t.where) for t in trends)
    return figure(
        WIDTH, top + BAND + 20, parts, f"{names} over {count_of(len(points), 'week')}; the table below has the numbers"
    )


def _flags(whole: Plot, flags: Sequence[Flag]) -> Iterator[str]:
    """A line at each time with events, with their numbers where there is room."""
    free = 0.0
    for at, here in groupby(flags, key=lambda flag: _inside(flag.at, whole.x0, whole.x1)):
        numbers = [flag.number for flag in here]
        yield whole.upright(at, "flag")
        label = str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}–{numbers[-1]}"
        half = 3.5 * len(label)
        if whole.x(at) - half >= free:
            yield text(whole.x(at), 10.0, label, "middle", "flagged")
            free = whole.x(at) + half + 3


def _inside(at: datetime, x0: float, x1: float) -> float:
    return min(max(at.timestamp(), x0), x1)


def _plot(top: float, height: float, x0: float, x1: float, trend: Trend) -> Plot:
    drawn = [v for p in trend.points for v in (p.value, p.low, p.high)] + [p.value for p in trend.expected]
    scale = scale_of(trend.metric, [*drawn, trend.baseline], [line.level for line in trend.thresholds])
    return Plot(LEFT, top, WIDTH - LEFT - RIGHT, height, x0, x1, scale.low, scale.high)


def _panel(trend: Trend, missing: AbstractSet[str], plot: Plot, half: float, chosen: str) -> Iterator[str]:
    """Marks for windows not evaluated, the interval, the references, the line, and its points with their numbers."""
    at = {p.window: p.start.timestamp() + half for p in trend.points}
    for point in trend.points:
        if point.window in missing:
            x = point.start.timestamp()
            yield plot.bar(x, min(x + 2 * half, plot.x1), "missing", f"{point.window}: a rule was not evaluated")
        if point.window == chosen:
            yield plot.upright(at[point.window], "chosen")
    marks = ticks(plot.y0, plot.y1, 4)
    yield plot.y_axis(marks, [f"{mark:g}" for mark in marks])
    yield plot.area([(at[p.window], p.low, p.high) for p in trend.points])
    if trend.baseline is not None:
        yield plot.level(trend.baseline, "base")
    yield from (plot.level(line.level, "limit") for line in trend.thresholds if line.level is not None)
    estimated = trend.metric in EXPECTED
    yield plot.line([(at[p.window], p.value) for p in trend.points], "estimate" if estimated else "value")
    yield plot.line([(at[p.window], p.value) for p in trend.expected], "estimate")
    for point in trend.expected:
        if point.value is not None:
            title = f"{point_words(point)} without a truth: an estimate"
            yield plot.point(at[point.window], point.value, title, "estimated", 2.0)
    for point in trend.points:
        if point.value is not None:
            draw = plot.diamond if point.breach else plot.point
            yield draw(at[point.window], point.value, point_words(point))
    yield text(plot.left, plot.top - 6, words.metric_name(trend.metric, trend.where), look="ink")


def trend_svg(trend: Trend, scale: Scale, label: str) -> Markup:
    """One metric over its windows: value, interval, thresholds, baseline; the upright line is the newest window."""
    return figure(400, 150, _trend(trend, scale), label)


def _trend(trend: Trend, scale: Scale) -> Iterator[str]:
    points = list(enumerate(trend.points))
    plot = Plot(44, 8, 346, 112, -0.5, len(points) - 0.5, scale.low, scale.high)
    marks = ticks(plot.y0, plot.y1, 4)
    yield plot.y_axis(marks, [f"{mark:g}" for mark in marks])
    yield plot.upright(len(points) - 1, "chosen")
    yield plot.area([(k, p.low, p.high) for k, p in points])
    if trend.baseline is not None:
        yield plot.level(trend.baseline, "base")
    yield from (plot.level(line.level, "limit") for line in trend.thresholds if line.level is not None)
    yield plot.line([(k, p.value) for k, p in points], "value")
    for k, point in points:
        if point.value is not None:
            draw = plot.diamond if point.breach else plot.point
            yield draw(k, point.value, point_words(point))
    places = sorted({0, len(points) - 1})
    yield plot.x_axis(places, [trend.points[k].window for k in places], inside=True)


def point_words(point: TrendPoint) -> str:
    """A point with its numbers.

    >>> from datetime import UTC
    >>> point_words(TrendPoint("2026-W46", datetime(2026, 11, 9, tzinfo=UTC), 0.1, 0.08, 0.12, 1234, True))
    '2026-W46: 0.100 (0.080 to 0.120), 1,234 rows; breach'
    """
    limits = words.interval(point.low, point.high)
    text = (
        f"{point.window}: {words.number(point.value)}"
        + (f" ({limits})" if limits else "")
        + f", {count_of(point.n, 'row')}"
    )
    return f"{text}; breach" if point.breach else text


def reliability_svg(found: Reliability, names: tuple[str, str]) -> Markup:
    """The hit rate of each bin over its mean score, with its interval; ``names`` are of this week and the other."""
    plot = Plot(42.0, 12.0, SIDE - 54.0, SIDE - 54.0, 0.0, 1.0, 0.0, 1.0)
    fifths = [k / 5 for k in range(6)]
    parts = [plot.y_axis(fifths, [f"{v:g}" for v in fifths]), plot.x_axis(fifths, [f"{v:g}" for v in fifths])]
    parts.append(plot.line([(0.0, 0.0), (1.0, 1.0)], "base"))
    for points, which, name in ((found.baseline, "2", names[1]), (found.points, "", names[0])):
        parts.append(plot.line([(p.score, p.rate) for p in points], f"value{which}"))
        for p in points:
            parts.append(plot.line([(p.score, p.low), (p.score, p.high)], f"whisker{which}"))
            parts.append(plot.point(p.score, p.rate, f"{name}: {_bin_words(p)}", f"point{which}", 3.0))
    parts.append(text(plot.left + plot.width / 2, SIDE - 8, "mean score", "middle"))
    return figure(SIDE, SIDE, parts, f"Hit rate over mean score, {' and '.join(filter(None, names))}")


def _bin_words(point: ReliabilityPoint) -> str:
    return (
        f"scores {point.lower:.3f} to {point.upper:.3f}, mean {words.number(point.score)}, came true "
        f"{words.number(point.rate)} ({words.interval(point.low, point.high)}), {count_of(point.n, 'row')}"
    )


def score_bars(counts: Counts, other: Counts | None = None, bars: int = BARS) -> tuple[ScoreBar, ...]:
    """Rows by score in ``bars`` equal parts of [0, 1], by weight; a part includes its upper end, the first also 0.

    >>> from monitor.core.counts import counts_from_rows
    >>> [(bar.high, bar.rows, bar.hits) for bar in score_bars(counts_from_rows([0.0, 0.5, 0.9], [0, 1, 1]), bars=2)]
    [(0.5, 2.0, 1.0), (1.0, 1.0, 1.0)]
    """
    rows, hits = _by_part(counts, counts.w, bars), _by_part(counts, counts.wy, bars)
    other_rows = None if other is None else _by_part(other, other.w, bars)
    total = sum(other_rows or ()) or 1.0
    return tuple(
        ScoreBar(k / bars, (k + 1) / bars, rows[k], hits[k], None if other_rows is None else other_rows[k] / total)
        for k in range(bars)
    )


def _by_part(counts: Counts, weights: np.ndarray, bars: int) -> list[float]:
    part = np.maximum(-(-counts.cell * bars // CELLS) - 1, 0)
    return [float(v) for v in np.bincount(part, weights=weights, minlength=bars)[:bars]]


def histogram_svg(bars: Sequence[ScoreBar], automate_at: float, names: tuple[str, str]) -> Markup:
    """Rows by score, those that came true at the bottom; lines for the other week and, upright, ``automate_at``."""
    total = sum(bar.rows for bar in bars) or 1.0
    most = max([*(bar.rows / total for bar in bars), *(bar.other or 0.0 for bar in bars)]) or 1.0
    plot = Plot(42.0, 12.0, SIDE - 54.0, SIDE - 54.0, 0.0, 1.0, 0.0, most * 1.05)
    marks = ticks(0.0, most * 1.05, 5)
    parts = [plot.y_axis(marks, [f"{100 * v:g}%" for v in marks])]
    for bar in bars:
        title = f"scores {bar.low:.2f} to {bar.high:.2f}: {bar.rows:,.0f} rows, {bar.hits:,.0f} came true"
        inner = (bar.high - bar.low) * 0.08
        left, right = bar.low + inner, bar.high - inner
        parts.append(plot.box(left, right, 0.0, bar.hits / total, "bar1", title))
        parts.append(plot.box(left, right, bar.hits / total, bar.rows / total, "bar2", title))
    steps = [(x, bar.other) for bar in bars if bar.other is not None for x in (bar.low, bar.high)]
    parts += [plot.line(steps, "base")] if steps else []
    parts.append(plot.upright(automate_at, "chosen"))
    fifths = [k / 5 for k in range(6)]
    parts.append(plot.x_axis(fifths, [f"{v:g}" for v in fifths]))
    parts.append(text(plot.left + plot.width / 2, SIDE - 8, "score", "middle"))
    return figure(SIDE, SIDE, parts, f"Rows by score, {' and '.join(filter(None, names))}")


def small_line(values: Sequence[float | None], high: float, label: str) -> Markup:
    """A line for a cell of a table, on a scale from 0 to ``high``."""
    plot = Plot(1.0, 1.0, 158.0, 20.0, 0.0, float(max(len(values) - 1, 1)), 0.0, high or 1.0)
    return figure(160, 22, [plot.line([(float(k), v) for k, v in enumerate(values)], "value")], label)
