"""Figures as SVG, drawn on the server from the data functions' records: no script, no inline style, texts escaped.

A :class:`Plot` places data in a box; each of its methods returns the text of one SVG element. Looks are
classes of ``monitor/service/static/page.css`` (value, band, limit, base, breach, missing, ...), so that light, dark
and print need one drawing. What a figure shows is in the ``title`` of its points, which browsers show and tests read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import floor, isfinite, log10

from markupsafe import Markup, escape

_TICK_STEPS = (1, 2, 2.5, 5, 10)


def number(value: float) -> str:
    """A coordinate with at most one decimal.

    >>> number(12.0), number(3.14159), number(-0.04)
    ('12', '3.1', '0')
    """
    return f"{round(value, 1) + 0.0:.1f}".removesuffix(".0")


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers between two limits, at most ``most`` steps apart.

    >>> ticks(0.0, 0.16), ticks(0.93, 1.0, 4)
    ([0.0, 0.05, 0.1, 0.15], [0.94, 0.96, 0.98, 1.0])
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** floor(log10(rough))
    step = next(step * power for step in _TICK_STEPS if step * power >= rough * (1 - 1e-9))
    first = -floor(-low / step + 1e-9)
    return [round(k * step, 12) for k in range(int(first), floor(high / step + 1e-9) + 1)]


def figure(width: float, height: float, parts: Iterable[str], label: str) -> Markup:
    """The whole drawing; ``label`` says in words what it shows."""
    wide, tall = number(width), number(height)
    head = f'<svg viewBox="0 0 {wide} {tall}" width="{wide}" height="{tall}" role="img" aria-label="{escape(label)}">'
    return Markup("".join((head, *parts, "</svg>")))  # noqa: S704 - parts of this module


@dataclass(frozen=True, slots=True)
class Plot:
    """A box of the drawing (``left``, ``top``, ``width``, ``height``) for x from ``x0`` to ``x1``, y from ``y0`` up."""

    left: float
    top: float
    width: float
    height: float
    x0: float
    x1: float
    y0: float
    y1: float

    def x(self, value: float) -> float:
        """The horizontal place of an x."""
        return self.left + self.width * (value - self.x0) / ((self.x1 - self.x0) or 1.0)

    def y(self, value: float) -> float:
        """The vertical place of a y; a value outside of the box is drawn at its edge."""
        inside = min(max(value, min(self.y0, self.y1)), max(self.y0, self.y1))
        return self.top + self.height * (1 - (inside - self.y0) / ((self.y1 - self.y0) or 1.0))

    def line(self, points: Sequence[tuple[float, float | None]], look: str) -> str:
        """A line through the points, broken where a y is None."""
        runs = [list(run) for known, run in groupby(points, key=lambda p: p[1] is not None and isfinite(p[1])) if known]
        path = "".join("M" + "L".join(self._at(x, y) for x, y in run if y is not None) for run in runs)
        return f'<path class="{look}" d="{path}"/>' if path else ""

    def area(self, points: Sequence[tuple[float, float | None, float | None]]) -> str:
        """The area between a lower and an upper line, left out where one is None."""
        path = ""
        for known, run in groupby(points, key=lambda p: p[1] is not None and p[2] is not None):
            here = [(x, low, high) for x, low, high in run if low is not None and high is not None] if known else []
            if here:
                upper = [self._at(x, high) for x, _, high in here]
                path += "M" + "L".join(upper + [self._at(x, low) for x, low, _ in reversed(here)]) + "Z"
        return f'<path class="band" d="{path}"/>' if path else ""

    def level(self, value: float, look: str) -> str:
        """A line from one side to the other."""
        return f'<path class="{look}" d="M{number(self.left)} {number(self.y(value))}h{number(self.width)}"/>'

    def upright(self, value: float, look: str, title: str = "") -> str:
        """A line from the bottom to the top."""
        path = f'<path class="{look}" d="M{number(self.x(value))} {number(self.top)}v{number(self.height)}"'
        return f"{path}><title>{escape(title)}</title></path>" if title else f"{path}/>"

    def point(self, x: float, y: float, title: str, look: str = "point", radius: float = 2.2) -> str:
        """A dot with its text."""
        at = f'cx="{number(self.x(x))}" cy="{number(self.y(y))}" r="{number(radius)}"'
        return f'<circle class="{look}" {at}><title>{escape(title)}</title></circle>'

    def diamond(self, x: float, y: float, title: str) -> str:
        """A diamond with its text, for a point that must be found without colour."""
        path = f"M{number(self.x(x))} {number(self.y(y) - 4.5)}l4.5 4.5l-4.5 4.5l-4.5 -4.5z"
        return f'<path class="breach" d="{path}"><title>{escape(title)}</title></path>'

    def box(self, x0: float, x1: float, y0: float, y1: float, look: str, title: str) -> str:
        """A filled box between two x and two y, with its text."""
        left, right = sorted((self.x(x0), self.x(x1)))
        top, bottom = sorted((self.y(y0), self.y(y1)))
        at = f'x="{number(left)}" y="{number(top)}" width="{number(right - left)}" height="{number(bottom - top)}"'
        return f'<rect class="{look}" {at}><title>{escape(title)}</title></rect>'

    def bar(self, x0: float, x1: float, look: str, title: str) -> str:
        """A box of the whole height."""
        return self.box(x0, x1, self.y0, self.y1, look, title)

    def y_axis(self, values: Sequence[float], texts: Sequence[str]) -> str:
        """Lines across with their numbers on the left."""
        grid = "".join(f"M{number(self.left)} {number(self.y(value))}h{number(self.width)}" for value in values)
        labels = "".join(
            text(self.left - 6, self.y(value) + 4, words, "end") for value, words in zip(values, texts, strict=True)
        )
        return f'<path class="grid" d="{grid}"/>{labels}'

    def x_axis(self, values: Sequence[float], texts: Sequence[str]) -> str:
        """Marks at the bottom with their texts."""
        bottom = self.top + self.height
        marks = "".join(f"M{number(self.x(value))} {number(bottom)}v4" for value in values)
        labels = "".join(
            text(self.x(value), bottom + 14, words, "middle") for value, words in zip(values, texts, strict=True)
        )
        return f'<path class="axis" d="M{number(self.left)} {number(bottom)}h{number(self.width)}{marks}"/>{labels}'

    def _at(self, x: float, y: float) -> str:
        return f"{number(self.x(x))} {number(self.y(y))}"


def text(x: float, y: float, words: str, anchor: str = "start", look: str = "") -> str:
    """A text at a place; ``anchor`` is start, middle or end."""
    look = f' class="{look}"' if look else ""
    anchored = "" if anchor == "start" else f' text-anchor="{anchor}"'
    return f'<text x="{number(x)}" y="{number(y)}"{anchored}{look}>{escape(words)}</text>'
