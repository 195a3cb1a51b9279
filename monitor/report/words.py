"""Numbers and names as people read them; the same in the page, in Markdown and in the terminal."""

from __future__ import annotations

from datetime import datetime, timedelta, tzinfo

from monitor.alerts.words import title
from monitor.records import Verdict, Window


def metric_name(metric: str, where: str = "all") -> str:
    """The name of a metric and, unless it is all rows, of its population.

    >>> metric_name("shortfall", "automated")
    'shortfall (automated)'
    """
    return title(metric) if where == "all" else f"{title(metric)} ({where})"


def number(value: float | None, *, sign: bool = False) -> str:
    """Three decimals, an en dash for what is not known.

    >>> number(0.04321), number(None), number(0.02, sign=True), number(-0.0001, sign=True)
    ('0.043', '–', '+0.020', '−0.000')
    """
    if value is None:
        return "–"
    return (f"{value:+.3f}" if sign else f"{value:.3f}").replace("-", "−")


def interval(low: float | None, high: float | None, *, sign: bool = False) -> str:
    """``0.031 to 0.058``, or nothing where there is no interval."""
    return "" if low is None or high is None else f"{number(low, sign=sign)} to {number(high, sign=sign)}"


def p_text(value: float | None) -> str:
    """A p-value, never rounded to zero.

    >>> p_text(0.012), p_text(1e-9), p_text(None)
    ('0.012', '<0.0001', '–')
    """
    if value is None:
        return "–"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def reason_text(verdict: Verdict) -> str:
    """The named reason with spaces for underscores."""
    return str(verdict.reason).replace("_", " ")


def window_text(window: Window, zone: tzinfo) -> str:
    """``9 Nov 2026 to 15 Nov 2026``, both days included, in ``zone``; a day alone where it is one."""
    first, last = day_text(window.start, zone), day_text(window.end - timedelta(seconds=1), zone)
    return first if first == last else f"{first} to {last}"


def day_text(moment: datetime, zone: tzinfo) -> str:
    """``9 Nov 2026`` in ``zone``."""
    local = moment.astimezone(zone)
    return f"{local.day} {local:%b %Y}"


def moment_text(moment: datetime | None, zone: tzinfo) -> str:
    """``9 Nov 2026 14:05`` in ``zone``."""
    return "–" if moment is None else f"{day_text(moment, zone)} {moment.astimezone(zone):%H:%M}"
