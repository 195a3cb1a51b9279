"""One metric of one label over the weeks, with its states, the state of automation and named events. As SVG."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
class LabelEvent:
    """An event of a label: its time and kind, its text, who caused it, its link ("": none), its number on the axis.

    ``name`` is what stands on the axis, "" if that is the text.
    """

    at: datetime
    kind: str
    text: str
    by: str = ""
    link: str = ""
    number: int = 0
    name: str = ""


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time with its state (``look``) and its text."""

    start: datetime
    end: datetime
    look: str
    text: str


def label_trend(
    trend: Trend, lanes: Mapping[str, Iterable[Span]], events: Sequence[LabelEvent], end: datetime
) -> Markup:
    """The trend up to ``end``, the end of its newest week, and below it ``lanes`` of spans by name.

    A week says its numbers where a pointer rests on it, and so does a span.
    """
    points = trend.points
    x0, x1 = points[0].start.timestamp(), end.timestamp()
    starts = [point.start.timestamp() for point in points]
    edges = list(zip(starts, [*starts[1:], x1], strict=True))
    middle = {point.window: (low + high) / 2 for point, (low, high) in zip(points, edges, strict=True)}
    drawn = [v for p in points for v in (p.value, p.low, p.high)] + [p.value for p in trend.expected]
    scale = scale_of(trend.metric, [*drawn, trend.baseline], trend.limits.values())
    plot = Plot(LEFT, TOP, WIDTH - LEFT - RIGHT, TALL, x0, x1, scale.low, scale.high)
    parts = [plot.bar(low, high, "hit", point_words(point)) for point, (low, high) in zip(points, edges, strict=True)]
    parts += trend_lines(trend, plot, middle)
    parts += _flags(plot, events)
    below = plot
    for place, (name, spans) in enumerate(lanes.items()):
        below = Plot(LEFT, TOP + TALL + 8 + place * (LANE + 4), plot.width, LANE, x0, x1, 0.0, 1.0)
        parts.append(text(LEFT - 6, below.top + 10, name, "end"))
        parts += [below.bar(_inside(s.start, plot), _inside(s.end, plot), s.look, s.text) for s in spans]
    named = points[::-1][:: -(-len(points) // _WEEKS_NAMED)]
    parts.append(below.x_axis([middle[p.window] for p in named], [p.window for p in named]))
    name = words.metric_name(trend.metric, trend.where)
    breaches = ", ".join(point.window for point in points if point.breach)
    told = f"{name} over {count_of(len(points), 'window')}: {f'breach in {breaches}' if breaches else 'no breach'}"
    return figure(WIDTH, below.top + below.height + 20, parts, told)


def _flags(plot: Plot, events: Sequence[LabelEvent]) -> Iterator[str]:
    """A line at each time with events; above it, in the first line with room, its number and name, else its number."""
    free = [0.0] * ROWS_OF_NAMES
    for at, same in groupby(events, key=lambda event: _inside(event.at, plot)):
        here = list(same)
        yield plot.upright(at, "flag", "; ".join(f"{event.kind}: {event.text}" for event in here))
        number = f"{here[0].number}" if len(here) == 1 else f"{here[0].number}–{here[-1].number}"
        for named in (f"{number} {(here[0].name or here[0].text)[:LONGEST]}", number):
            width = LETTER * len(named)
            left = min(plot.x(at), WIDTH - RIGHT - width)
            row = next((row for row in range(ROWS_OF_NAMES) if free[row] <= left), None)
            if row is not None:
                yield text(left, 12.0 + 14 * row, named, "start", "flagged")
                free[row] = left + width + 6
                break


def _inside(at: datetime, plot: Plot) -> float:
    return min(max(at.timestamp(), plot.x0), plot.x1)
