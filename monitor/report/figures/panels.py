"""One metric of one label over time, and the scores of one week. As SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from monitor.core.counts import Counts, bin_counts, equal_width_edges
from monitor.core.wording import count_of
from monitor.metrics.names import EXPECTED
from monitor.report import words
from monitor.report.figures.reliability import Reliability, ReliabilityPoint
from monitor.report.figures.svg import Plot, figure, text, ticks
from monitor.report.figures.trend import Trend, TrendPoint

SIDE = 330.0
"""The width and height of a diagram of scores, in pixels."""
BARS, FIFTHS = 20, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_FIFTHS = [f"{v:g}" for v in FIFTHS]


def trend_lines(trend: Trend, plot: Plot, at: Mapping[str, float]) -> Iterator[str]:
    """The axis, interval, baseline and thresholds, then the values, each ``at`` its x."""
    marks = ticks(plot.y0, plot.y1)
    yield plot.y_axis(marks, [f"{mark:g}" for mark in marks])
    yield plot.area([(at[p.window], p.low, p.high) for p in trend.points])
    if trend.baseline is not None:
        yield plot.level(trend.baseline, "base")
    yield from (plot.level(level, "limit") for level in trend.limits.values())
    look = "estimate" if trend.metric in EXPECTED else "value"
    yield plot.line([(at[p.window], p.value) for p in trend.points], look)
    yield plot.line([(at[p.window], p.value) for p in trend.expected], "estimate")
    for point in trend.points:
        if point.value is not None:
            draw = plot.diamond if point.breach else plot.point
            yield draw(at[point.window], point.value, point_words(point))


def point_words(point: TrendPoint) -> str:
    """A point with its numbers.

    >>> from datetime import UTC, datetime
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


def reliability_svg(found: Reliability, names: tuple[str, str], side: float = SIDE) -> Markup:
    """The hit rate of each bin over its mean score, with its interval; ``names`` are of this week and the other."""
    plot = Plot(42.0, 12.0, side - 54.0, side - 54.0, 0.0, 1.0, 0.0, 1.0)
    parts = [plot.y_axis(FIFTHS, _FIFTHS), plot.line([(0.0, 0.0), (1.0, 1.0)], "base")]
    for points, which, name in ((found.baseline, "2", names[1]), (found.points, "", names[0])):
        parts.append(plot.line([(p.score, p.rate) for p in points], f"value{which}"))
        for p in points:
            parts.append(plot.line([(p.score, p.low), (p.score, p.high)], f"whisker{which}"))
            parts.append(plot.point(p.score, p.rate, f"{name}: {_bin_words(p)}", f"point{which}", 3.0))
    return _of_scores(plot, parts, "mean score", "Hit rate over mean score", names)


def _of_scores(plot: Plot, parts: Sequence[str], axis: str, told: str, names: Iterable[str]) -> Markup:
    """The figure of a plot over scores from 0 to 1, in a square."""
    side, middle = plot.width + 54.0, plot.left + plot.width / 2
    below = plot.x_axis(FIFTHS, _FIFTHS), text(middle, side - 8, axis, "middle")
    return figure(side, side, (*parts, *below), f"{told}, {' and '.join(filter(None, names))}")


def _bin_words(point: ReliabilityPoint) -> str:
    return (
        f"scores {point.lower:.3f} to {point.upper:.3f}, mean {words.number(point.score)}, came true "
        f"{words.number(point.rate)} ({words.interval(point.low, point.high)}), {count_of(point.n, 'row')}"
    )


def histogram_svg(counts: Counts, other: Counts | None, automate_at: float, names: tuple[str, str]) -> Markup:
    """The share of rows by score, by weight, those that came true at the bottom; a line for the other week.

    An upright line is at ``automate_at``.
    """
    edges = equal_width_edges(BARS)
    bins, then = bin_counts(counts, edges), None if other is None else bin_counts(other, edges).w
    total = float(bins.w.sum()) or 1.0
    beside = [] if then is None else (then / (then.sum() or 1.0)).tolist()
    most = 1.05 * (max([float(bins.w.max()) / total, *beside]) or 1.0)
    plot = Plot(42.0, 12.0, SIDE - 54.0, SIDE - 54.0, 0.0, 1.0, 0.0, most)
    marks = ticks(0.0, most, 5)
    parts = [plot.y_axis(marks, [f"{100 * v:g}%" for v in marks])]
    for k, (rows, hits) in enumerate(zip(bins.w.tolist(), bins.wy.tolist(), strict=True)):
        title = f"scores {k / BARS:.2f} to {(k + 1) / BARS:.2f}: {rows:,.0f} rows, {hits:,.0f} came true"
        left, right = (k + 0.08) / BARS, (k + 0.92) / BARS
        parts.append(plot.box(left, right, 0.0, hits / total, "bar1", title))
        parts.append(plot.box(left, right, hits / total, rows / total, "bar2", title))
    steps = [(x / BARS, share) for k, share in enumerate(beside) for x in (k, k + 1)]
    parts += [plot.line(steps, "base")] if steps else []
    parts.append(plot.upright(automate_at, "chosen"))
    return _of_scores(plot, parts, "score", "Rows by score", names)
