"""The picture of an incident: reliability diagram and trend side by side, as PNG bytes.

Drawn through matplotlib's object interface (no pyplot, no global state), so that the same data give the same
file. The title names the label and the window; letters that the font may lack become question marks. Axes show the
range of the data, since changes of a few points matter.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from monitor.report.figures.reliability import Reliability
from monitor.report.figures.trend import Trend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, VERMILION, GREY = "#3a87c2", "#d55e00", "#858c96"
"""Three colours that colour-blind people can distinguish (Okabe & Ito)."""
SIZE, DPI = (9.6, 3.8), 110  # inches, dots per inch: about as wide as Slack shows a picture
_TICKS = 6
_TITLE, _PANEL_TITLE = 90, 38  # letters
_IN_FONT = 0x0530  # Latin, Greek and Cyrillic letters lie before


def incident_png(reliability: Reliability | None, trend: Trend, title: str = "") -> bytes:
    """The PNG of both figures, or of the one that has data; the same bytes for the same data.

    >>> incident_png(None, Trend("ece", "all", ()), "billing, 2026-W46")[:4]
    b'\\x89PNG'
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415 - half a second, only for a message
    from matplotlib.figure import Figure  # noqa: PLC0415 - the same

    figure = Figure(figsize=SIZE, dpi=DPI, layout="constrained")
    canvas: Any = FigureCanvasAgg(figure)
    if title:
        figure.suptitle(printable(title), fontsize=12, parse_math=False)
    axes = list(figure.subplots(1, 2 if reliability is not None else 1, squeeze=False)[0])
    if reliability is not None:
        _draw_reliability(axes[0], reliability)
    _draw_trend(axes[-1], trend)
    written = io.BytesIO()
    # savefig would draw everything twice; stronger compression takes long and saves only 5%
    canvas.print_png(written, metadata={"Software": None}, pil_kwargs={"compress_level": 3})
    return written.getvalue()


def printable(title: str, longest: int = _TITLE) -> str:
    """A title in letters that the font has, at most ``longest`` of them.

    >>> printable("billing \\N{CJK UNIFIED IDEOGRAPH-8CB8}, 2026-W46"), printable("ece (channel=web chat)", 12)
    ('billing ?, 2026-W46', 'ece (chan...')
    """
    shown = "".join(c if ord(c) < _IN_FONT and c.isprintable() else "?" for c in " ".join(title.split()))
    return shown if len(shown) <= longest else f"{shown[: longest - 3]}..."


def _draw_reliability(axes: Axes, data: Reliability) -> None:
    scores, rates = [p.score for p in data.points], [p.rate for p in data.points]
    axes.axline((scores[0], scores[0]), slope=1, color=GREY, linewidth=1, linestyle="--")
    if data.baseline:
        then = [p.score for p in data.baseline], [p.rate for p in data.baseline]
        axes.plot(*then, "o-", color=GREY, markersize=3, linewidth=1, label="baseline")
    bars = [[p.rate - p.low for p in data.points], [p.high - p.rate for p in data.points]]
    look: dict[str, Any] = {"fmt": "o-", "color": BLUE, "markersize": 4, "linewidth": 1.5, "capsize": 2}
    axes.errorbar(scores, rates, yerr=bars, label=f"this window (n = {data.rows:,})", **look)
    axes.set(xlabel="mean score", ylabel="share correct")
    axes.legend(loc="best", fontsize=8, frameon=False)
    _plain(axes, "Reliability")


def _draw_trend(axes: Axes, trend: Trend) -> None:
    places = range(len(trend.points))
    numbers = np.array([[p.value, p.low, p.high] for p in trend.points], dtype=np.float64).reshape(-1, 3)
    value, low, high = numbers.T  # None is NaN, a gap
    axes.plot(places, value, "o-", color=BLUE, markersize=3, linewidth=1.5)
    axes.fill_between(places, low, high, color=BLUE, alpha=0.18, linewidth=0)
    breaches = [(i, p.value) for i, p in enumerate(trend.points) if p.breach and p.value is not None]
    axes.plot([i for i, _ in breaches], [v for _, v in breaches], "D", color=VERMILION, markersize=6, label="breach")
    for level in trend.limits.values():
        axes.axhline(level, color=VERMILION, linewidth=1, linestyle=":", label="threshold")
    if trend.baseline is not None:
        axes.axhline(trend.baseline, color=GREY, linewidth=1, linestyle="--", label="baseline")
    shown = list(places)[:: max(1, -(-len(trend.points) // _TICKS))]
    axes.set_xticks(shown, [trend.points[i].window for i in shown], rotation=30, ha="right", fontsize=8)
    where = "" if trend.where == "all" else f" ({trend.where})"
    name = trend.metric.replace("_", " ")
    axes.legend(loc="best", fontsize=8, frameon=False)
    _plain(axes, f"{name}{where}")


def _plain(axes: Any, title: str) -> None:
    """No frame, a faint grid."""
    axes.set_title(printable(title, _PANEL_TITLE), parse_math=False)
    axes.grid(color=GREY, alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
