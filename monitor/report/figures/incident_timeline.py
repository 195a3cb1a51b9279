"""The timeline of incidents: a line for each label, a bar for each incident, marks for its changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from itertools import accumulate
from unicodedata import east_asian_width

from markupsafe import Markup, escape

from monitor.core.wording import count_of
from monitor.report.figures.svg import Plot, figure, number, text

LINE_HEIGHT, WIDTH, NAMES = 24, 1180, 210
_LANES = {"critical": 0.74, "warning": 0.42, "info": 0.16}
"""The height of a bar's middle in its line, so that incidents of one label at one time do not overlap."""
_WIDE, _BROAD, _USUAL = 11.5, 8.5, 6.5
"""How wide a letter of a name is at most, in pixels: one of Chinese, a capital or an m, and any other."""
_YEAR_MONTHS = 18


@dataclass(frozen=True, slots=True)
class IncidentBar:
    """One incident: its start, its end (None: it is not resolved), its look and its texts.

    ``marks`` are the times at which it was acknowledged, resolved or reopened, each with its words.
    """

    line: str
    start: datetime
    end: datetime | None
    look: str
    title: str
    link: str
    marks: Sequence[tuple[datetime, str, str]] = ()


def incident_timeline(bars: Sequence[IncidentBar], start: datetime, end: datetime, zone: tzinfo) -> Markup:
    """The drawing from ``start`` to ``end``, lines in the order in which their first bar comes."""
    lines = list(dict.fromkeys(bar.line for bar in bars))
    height = LINE_HEIGHT * len(lines)
    plot = Plot(NAMES, 6, WIDTH - NAMES - 10, height, start.timestamp(), end.timestamp(), 0, len(lines))
    parts = [_months(plot, start, end, zone)]
    for place, name in enumerate(lines):
        parts.append(text(NAMES - 8, 6 + LINE_HEIGHT * (place + 0.7), _fitting(name, NAMES - 12), "end", "ink"))
    parts += [_bar(plot, bar, len(lines) - lines.index(bar.line), start, end) for bar in bars]
    return figure(
        WIDTH, height + 30, parts, f"Timeline of {count_of(len(bars), 'incident')} of {count_of(len(lines), 'label')}"
    )


def _fitting(name: str, room: float) -> str:
    """The name, or as much of it as has room, in pixels.

    >>> _fitting("mail/complaint", 198), _fitting("tickets/" + "M" * 40, 198)
    ('mail/complaint', 'tickets/MMMMMMMMMMMMMMM…')
    """
    widths = list(accumulate(map(_width, name)))
    if not widths or widths[-1] <= room:
        return name
    return f"{name[: sum(width <= room - _WIDE for width in widths)]}…"


def _width(letter: str) -> float:
    if east_asian_width(letter) in "WF":
        return _WIDE
    return _BROAD if letter.isupper() or letter in "mw@%—" else _USUAL


def _bar(plot: Plot, bar: IncidentBar, above: int, start: datetime, end: datetime) -> str:
    left, right = max(bar.start, start).timestamp(), min(bar.end or end, end).timestamp()
    wide = 3 * (plot.x1 - plot.x0) / plot.width
    middle = above - 1 + _LANES[bar.look]
    drawn = plot.box(left, max(right, left + wide), middle - 0.13, middle + 0.13, bar.look, bar.title)
    marks = "".join(
        plot.point(at.timestamp(), middle, words, look, 3.2) for at, look, words in bar.marks if start <= at <= end
    )
    return f'<a href="{escape(bar.link)}" aria-label="{escape(bar.title)}">{drawn}</a>{marks}'


def _months(plot: Plot, start: datetime, end: datetime, zone: tzinfo) -> str:
    """An upright line at the first of each month (of a long span, each quarter), with its name below."""
    local = start.astimezone(zone)
    months = (end.astimezone(zone).year - local.year) * 12 + end.astimezone(zone).month - local.month
    step = 1 if months <= _YEAR_MONTHS else 3
    first = [
        datetime(local.year + (local.month - 1 + k) // 12, (local.month - 1 + k) % 12 + 1, 1, tzinfo=zone)
        for k in range(1, months + 1)
        if (local.month + k - 1) % step == 0
    ]
    bottom = plot.top + plot.height
    drawn = "".join(plot.upright(each.timestamp(), "grid") for each in first)
    names = [f"{each:%b %Y}" if each.month == 1 or k == 0 else f"{each:%b}" for k, each in enumerate(first)]
    texts = "".join(
        text(plot.x(each.timestamp()), bottom + 16, name, "middle") for each, name in zip(first, names, strict=True)
    )
    return f'<path class="axis" d="M{number(plot.left)} {number(bottom)}h{number(plot.width)}"/>{drawn}{texts}'
