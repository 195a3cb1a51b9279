"""Plotly drawings of the data functions: plain dictionaries, no Plotly import, no names of labels.

A drawing is what ``Plotly.newPlot`` takes: ``data`` and ``layout``. Names from the data (labels, sources)
are not in it, since Plotly renders some HTML in its texts. It has three colours that colour-blind people can
distinguish (Okabe & Ito), readable on white and on black; the page colours the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from itertools import cycle, groupby, pairwise
from typing import Any

from monitor.report.figures.reliability import Reliability, ReliabilityPoint
from monitor.report.figures.scale import Scale
from monitor.report.figures.trend import Trend, TrendPoint

BLUE, VERMILION, GREY = "#3a87c2", "#d55e00", "#858c96"
BAND = "rgba(58, 135, 194, 0.22)"
GRID = "rgba(133, 140, 150, 0.22)"
CLEAR = "rgba(0, 0, 0, 0)"

Drawing = dict[str, Any]
Span = tuple[datetime, datetime]

_DASHES = ("dot", "dashdot", "longdash")


def trend_drawing(
    trend: Trend, zone: tzinfo, scale: Scale, *, baseline_span: Span | None = None, small: bool = False
) -> Drawing:
    """One metric over time: value, interval band, baseline, thresholds and breaches, on the metric's own scale.

    The trace named ``value`` has the debiased values as ``y`` and, for each window, its name, low,
    high, n and breaching verdicts as ``customdata``. ``baseline_span`` shades the time that the
    baseline was made from.
    """
    days = [_day(point, zone) for point in trend.points]
    traces = [_band(trend.points, zone), _value(trend, days), *_references(trend, days), *_breaches(trend, days)]
    layout = base_layout(height=190 if small else 330, legend=not small) | {
        "xaxis": _date_axis(days) | _ticks(trend.points, zone, at_most=4 if small else 7),
        "yaxis": _value_axis(scale),
        "hovermode": "x",
        "shapes": [] if baseline_span is None else [_shade(baseline_span, trend.points, zone)],
    }
    return {"data": traces, "layout": layout}


def reliability_drawing(data: Reliability, errors: Sequence[str] = ()) -> Drawing:
    """The mean score of each bin against its hit rate, above the bin sizes; the texts ``errors`` are in its corner.

    The trace named ``window`` has mean scores as ``x``, hit rates as ``y`` and each bin's lower and
    upper edge, low, high and n as ``customdata``; ``rows`` are the bin sizes.
    """
    traces = [lines("calibrated", [0, 1], [0, 1], {"color": GREY, "width": 1, "dash": "dash"})]
    if data.baseline:
        traces.append(_bins("baseline", data.baseline, GREY, "circle-open"))
    traces += [_bins("window", data.points, BLUE, "circle"), _sizes(data.points)]
    share = {"range": [-0.02, 1.02], "tickvals": [0, 0.2, 0.4, 0.6, 0.8, 1]}
    layout = base_layout(height=330, legend=True) | {
        "xaxis": axis("mean score") | share | {"anchor": "y2", "showgrid": True},
        "yaxis": axis("hit rate") | share | {"domain": [0.28, 1]},
        "yaxis2": axis("rows") | {"domain": [0, 0.2], "rangemode": "tozero", "nticks": 3},
        "hovermode": "closest",
        "bargap": 0,
        **({"annotations": [_corner("<br>".join(errors))]} if errors else {}),
    }
    return {"data": traces, "layout": layout}


def _corner(text: str) -> Drawing:
    """A text above the diagonal, where overconfident bins do not lie."""
    place = {"xref": "x", "yref": "y", "x": 0.02, "y": 0.98, "xanchor": "left", "yanchor": "top"}
    return place | {"text": text, "showarrow": False, "align": "left"}


def axis(title: str) -> Drawing:
    """The settings that all axes of numbers share."""
    return {"title": {"text": title, "standoff": 6}, "gridcolor": GRID, "zeroline": False}


def base_layout(*, height: int, legend: bool = True) -> Drawing:
    """The settings that all layouts share."""
    above = {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom", "bgcolor": CLEAR}
    font = {"family": "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif", "size": 12}
    margin = {"l": 58, "r": 14, "t": 44 if legend else 10, "b": 46}
    clear = {"paper_bgcolor": CLEAR, "plot_bgcolor": CLEAR, "dragmode": False}
    return clear | {"height": height, "margin": margin, "font": font, "showlegend": legend, "legend": above}


def lines(name: str, x: Sequence[Any], y: Sequence[Any], line: Drawing, **more: Any) -> Drawing:
    """A trace of lines without a hover text."""
    return {"type": "scatter", "name": name, "mode": "lines", "x": x, "y": y, "line": line, "hoverinfo": "skip"} | more


def _day(point: TrendPoint, zone: tzinfo) -> str:
    return point.start.astimezone(zone).date().isoformat()


def _value(trend: Trend, days: Sequence[str]) -> Drawing:
    trace = {"type": "scatter", "name": "value", "x": list(days), "y": list(trend.values), "connectgaps": False}
    look = {"mode": "lines+markers", "line": {"color": BLUE, "width": 2}, "marker": {"color": BLUE, "size": 5}}
    hover = {
        "customdata": [[p.window, p.low, p.high, p.n, ", ".join(p.verdicts)] for p in trend.points],
        "hovertemplate": "%{customdata[0]}: %{y:.4f} (%{customdata[1]:.4f} to %{customdata[2]:.4f})"
        "<br>n = %{customdata[3]:,}<extra></extra>",
    }
    return trace | look | hover


def _band(points: Sequence[TrendPoint], zone: tzinfo) -> Drawing:
    """One closed outline for each run of windows that have an interval, None between the outlines."""
    x: list[str | None] = []
    y: list[float | None] = []
    for has_interval, run in groupby(points, key=lambda p: p.low is not None and p.high is not None):
        if has_interval:
            part = list(run)
            days = [_day(point, zone) for point in part]
            x += [*([None] if x else []), *days, *reversed(days), days[0]]
            y += [*([None] if y else []), *(p.high for p in part), *(p.low for p in reversed(part)), part[0].high]
    return lines("95% interval", x, y, {"width": 0.5, "color": BAND}, fill="toself", fillcolor=BAND)


def _references(trend: Trend, days: Sequence[str]) -> list[Drawing]:
    if not days:
        return []
    found = [] if trend.baseline is None else [("baseline", trend.baseline, {"color": GREY, "dash": "dash"})]
    drawn = [(line.rule, line.level) for line in trend.thresholds if line.level is not None]
    found += [(*each, {"color": VERMILION, "dash": dash}) for each, dash in zip(drawn, cycle(_DASHES), strict=False)]
    ends = [days[0], days[-1]]
    return [lines(name, ends, [level, level], {"width": 1.5} | line) for name, level, line in found]


def _breaches(trend: Trend, days: Sequence[str]) -> list[Drawing]:
    marked = [(day, point.value) for day, point in zip(days, trend.points, strict=True) if point.breach]
    if not marked:
        return []
    x, y = ([*part] for part in zip(*marked, strict=True))
    diamond = {"symbol": "diamond", "color": VERMILION, "size": 10, "line": {"color": "white", "width": 1}}
    trace = {"type": "scatter", "name": "breach", "mode": "markers", "x": x, "y": y, "marker": diamond}
    return [trace | {"hoverinfo": "skip"}]


def _ticks(points: Sequence[TrendPoint], zone: tzinfo, *, at_most: int) -> Drawing:
    """Every k-th window, counted from the newest; the year is written where it changes."""
    step = max(1, -(-len(points) // at_most))
    chosen = list(points)[::-1][::step][::-1]
    texts: list[str] = []
    year = ""
    for point in chosen:
        week = point.window.partition("-W")[2]
        text = f"W{week}" if week else f"{point.start.astimezone(zone):%-d %b}"
        before, year = year, point.window[:4]
        texts.append(text if year == before else f"{text}<br>{year}")
    return {"tickvals": [_day(point, zone) for point in chosen], "ticktext": texts}


def _date_axis(days: Sequence[str]) -> Drawing:
    found = {"type": "date", "showgrid": False}
    found |= {"tickmode": "array", "ticks": "outside", "ticklen": 4, "tickcolor": GRID}
    if not days:
        return found
    first, last = (datetime.fromisoformat(days[k]) for k in (0, -1))
    room = timedelta(days=1) if len(days) < 2 else (last - first) * 0.02
    return found | {"range": [f"{end:%Y-%m-%d %H:%M}" for end in (first - room, last + room)]}


def _value_axis(scale: Scale) -> Drawing:
    """The scale of the metric, the same for every label; an interval may reach beyond it."""
    room = (scale.high - scale.low) * 0.04
    ends = [scale.low if scale.low == 0 else scale.low - room, scale.high + room]
    zero = {"zeroline": scale.low < 0 < scale.high, "zerolinecolor": GREY, "zerolinewidth": 1}
    return {"range": ends, "gridcolor": GRID, "nticks": 6, "automargin": False} | zero


def _shade(span: Span, points: Sequence[TrendPoint], zone: tzinfo) -> Drawing:
    """The span, moved half a window back: a point is at its window's start, not in its middle."""
    half = min((b.start - a.start for a, b in pairwise(points)), default=timedelta(0)) / 2
    start, end = (f"{(moment - half).astimezone(zone):%Y-%m-%d %H:%M}" for moment in span)
    place = {"xref": "x", "yref": "paper", "x0": start, "x1": end, "y0": 0, "y1": 1}
    return {"type": "rect", "fillcolor": GREY, "opacity": 0.1, "line": {"width": 0}, "layer": "below"} | place


def _bins(name: str, points: Sequence[ReliabilityPoint], color: str, symbol: str) -> Drawing:
    above, below = [p.high - p.rate for p in points], [p.rate - p.low for p in points]
    bars = {"type": "data", "symmetric": False, "array": above, "arrayminus": below}
    return {
        "type": "scatter",
        "name": name,
        "mode": "markers",
        "x": [p.score for p in points],
        "y": [p.rate for p in points],
        "customdata": [[p.lower, p.upper, p.low, p.high, p.n] for p in points],
        "error_y": bars | {"color": color, "thickness": 1.2, "width": 3},
        "marker": {"color": color, "symbol": symbol, "size": 7},
        "hovertemplate": "scores %{customdata[0]:.4f} to %{customdata[1]:.4f}<br>mean score %{x:.4f}, hit rate %{y:.4f}"
        " (%{customdata[2]:.4f} to %{customdata[3]:.4f})<br>n = %{customdata[4]:,}<extra></extra>",
    }


def _sizes(points: Sequence[ReliabilityPoint]) -> Drawing:
    return {
        "type": "bar",
        "name": "rows",
        "x": [(p.lower + p.upper) / 2 for p in points],
        "width": [max(p.upper - p.lower, 0.004) for p in points],
        "y": [p.n for p in points],
        "yaxis": "y2",
        "marker": {"color": BLUE, "opacity": 0.55, "line": {"width": 0.5, "color": BLUE}},
        "showlegend": False,
        "hovertemplate": "scores around %{x:.3f}: %{y:,} rows<extra></extra>",
    }
