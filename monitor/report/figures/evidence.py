"""The data of an evidence figure: how the evidence of a rule that accumulates grew, against what is needed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, log10

from markupsafe import Markup

from monitor.core.records import Verdict
from monitor.core.wording import count_of
from monitor.report import words
from monitor.report.explanation import size
from monitor.report.figures.svg import Plot, figure, text

LEAST = 0.1
"""Smaller evidence is drawn as this much: evidence against a fault may be arbitrarily small."""
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 1100.0, 150.0, 58.0, 14.0, 10.0, 24.0


@dataclass(frozen=True, slots=True)
class EvidencePoint:
    """One window: the evidence after it, its rows, their mean score and hit rate.

    Of another metric than the overconfidence ``promised`` is None, and ``kept`` is the metric.
    """

    window: str
    evidence: float
    n: int
    promised: float | None
    kept: float


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """The evidence of one rule on one subject, oldest window first, and how much is ``needed``."""

    rule: str
    points: tuple[EvidencePoint, ...]
    needed: float


def evidence_data(verdicts: Iterable[Verdict]) -> list[EvidenceLine]:
    """A line for each verdict of a rule that accumulates, in their order; none for a verdict without evidence."""
    return [
        EvidenceLine(
            verdict.rule,
            tuple(EvidencePoint(name, found, n, promised, kept) for name, n, promised, kept, found in steps),
            float(verdict.detail["needed"]),
        )
        for verdict in verdicts
        if (steps := verdict.detail.get("path")) and verdict.detail.get("needed") is not None
    ]


def evidence_summary(line: EvidenceLine) -> str:
    """The figure in one sentence, for those who cannot see it."""
    first, last = line.points[0], line.points[-1]
    return (
        f"Evidence of {line.rule} from {first.window} to {last.window}: from {size(first.evidence)} to "
        f"{size(last.evidence)}, {size(line.needed)} needed."
    )


def evidence_svg(line: EvidenceLine) -> Markup:
    """The evidence by window on a logarithmic scale, and the level that it must reach."""
    highest = max(line.needed, *(point.evidence for point in line.points))
    low, high = log10(LEAST), float(ceil(log10(highest) + 0.2))
    places = range(len(line.points))
    plot = Plot(LEFT, TOP, WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM, -0.5, len(places) - 0.5, low, high)
    powers = range(round(low), round(high) + 1, max(1, round((high - low) / 5)))
    heights = [log10(max(point.evidence, LEAST)) for point in line.points]
    parts = [
        plot.y_axis([float(power) for power in powers], [f"{10.0**power:,g}".replace("e+0", "e") for power in powers]),
        plot.x_axis([float(place) for place in places], [point.window for point in line.points]),
        plot.level(log10(line.needed), "limit"),
        text(LEFT + 4, plot.y(log10(line.needed)) - 4, f"needed: {size(line.needed)}"),
        plot.line(list(zip(map(float, places), heights, strict=True)), "value"),
    ]
    for place, (point, height) in enumerate(zip(line.points, heights, strict=True)):
        draw = plot.diamond if point.evidence >= line.needed else plot.point
        parts.append(draw(float(place), height, point_words(point)))
    return figure(WIDTH, HEIGHT, parts, evidence_summary(line))


def point_words(point: EvidencePoint) -> str:
    """A point with its numbers.

    >>> point_words(EvidencePoint("2026-W46", 23150.0, 1200, 0.9, 0.71))
    '2026-W46: evidence 23,150; 1,200 rows, scores claimed 0.900, 0.710 correct'
    >>> point_words(EvidencePoint("2026-W46", 23150.0, 120, None, 0.31))
    '2026-W46: evidence 23,150; 120 rows, value 0.310'
    """
    rows, kept = (
        f"{point.window}: evidence {size(point.evidence)}; {count_of(point.n, 'row')}",
        words.number(point.kept),
    )
    if point.promised is None:
        return f"{rows}, value {kept}"
    return f"{rows}, scores claimed {words.number(point.promised)}, {kept} correct"
