"""One metric of one label over the weeks, with its states, the state of automation and named events. As SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from markupsafe import Markup

from monitor.core.wording import count_of
from monitor.report import words
from monitor.report.figures.panels import point_words, trend_lines
from monitor.report.figures.scale import scale_of
from monitor.report.figures.svg import Plot, figure, text
from monitor.report.figures.trend import Trend

WIDTH, LEFT, RIGHT, TOP, TALL, LANE = 1100.0, 84.0, 14.0, 46.0, 260.0, 12.0
ROWS_OF_NAMES, LETTER, LONGEST = 3, 6.2, 26
"""Lines for names of events above the plot, the width of a letter, and how many letters a name has at most."""
_WEEKS_NAMED = 9


@dataclass(frozen=True, slots=True)
class Flag:
    """An event: its time, its number, its short name, and its text."""

    at: datetime
    number: int
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class SwitchSpan:
    """A span of time with the state of automation: ``look`` is ison, isoff or isblocked."""

    start: datetime
    end: datetime
    look: str
    text: str


@dataclass(frozen=True, slots=True)
class Lanes:
    """What is drawn below the trend: the state of each week ("": not judged) with its words, and automation."""

    states: Sequence[str]
    words: Mapping[str, str]
    spans: Sequence[SwitchSpan]


def label_trend(trend: Trend, lanes: Lanes, flags: Sequence[Flag], end: datetime) -> Markup:
    """The trend up to ``end``, the end of its newest week. A week says its numbers where a pointer rests on it."""
    points = trend.points
    x0, x1 = points[0].start.timestamp(), end.timestamp()
    starts = [point.start.timestamp() for point in points]
    edges = list(zip(starts, [*starts[1:], x1], strict=True))
    middle = {point.window: (low + high) / 2 for point, (low, high) in zip(points, edges, strict=True)}
    drawn = [v for p in points for v in (p.value, p.low, p.high)] + [p.value for p in trend.expected]
    scale = scale_of(trend.metric, [*drawn, trend.baseline], [line.level for line in trend.thresholds])
    plot = Plot(LEFT, TOP, WIDTH - LEFT - RIGHT, TALL, x0, x1, scale.low, scale.high)
    parts = [plot.bar(low, high, "hit", point_words(point)) for point, (low, high) in zip(points, edges, strict=True)]
    parts += trend_lines(trend, plot, middle)
    parts += _flags(plot, flags)
    state_lane = Plot(LEFT, TOP + TALL + 8, plot.width, LANE, x0, x1, 0.0, 1.0)
    switch_lane = Plot(LEFT, state_lane.top + LANE + 4, plot.width, LANE, x0, x1, 0.0, 1.0)
    parts.append(text(LEFT - 6, state_lane.top + 10, "state", "end"))
    parts += [
        state_lane.bar(low, high, state, f"{point.window}: {lanes.words[state]}")
        for point, (low, high), state in zip(points, edges, lanes.states, strict=True)
        if state
    ]
    parts.append(text(LEFT - 6, switch_lane.top + 10, "automation", "end"))
    parts += [
        switch_lane.bar(_inside(span.start, plot), _inside(span.end, plot), span.look, span.text)
        for span in lanes.spans
    ]
    named = points[::-1][:: -(-len(points) // _WEEKS_NAMED)]
    parts.append(switch_lane.x_axis([middle[p.window] for p in named], [p.window for p in named]))
    name = words.metric_name(trend.metric, trend.where)
    told = f"{name} over {count_of(len(points), 'week')}; the table of metrics has the numbers"
    return figure(WIDTH, switch_lane.top + LANE + 20, parts, told)


def _flags(plot: Plot, flags: Sequence[Flag]) -> Iterator[str]:
    """A line at each time with events; above it, in the first line with room, its number and name, else its number."""
    free = [0.0] * ROWS_OF_NAMES
    for at, same in groupby(flags, key=lambda flag: _inside(flag.at, plot)):
        here = list(same)
        yield plot.upright(at, "flag", "; ".join(flag.text for flag in here))
        number = f"{here[0].number}" if len(here) == 1 else f"{here[0].number}–{here[-1].number}"
        shown = next(iter(dict.fromkeys(flag.name for flag in here)))
        for words_of in (f"{number} {shown[:LONGEST]}", number):
            width = LETTER * len(words_of)
            left = min(plot.x(at), WIDTH - RIGHT - width)
            row = next((row for row in range(ROWS_OF_NAMES) if free[row] <= left), None)
            if row is not None:
                yield text(left, 12.0 + 14 * row, words_of, "start", "flagged")
                free[row] = left + width + 6
                break


def _inside(at: datetime, plot: Plot) -> float:
    return min(max(at.timestamp(), plot.x0), plot.x1)
