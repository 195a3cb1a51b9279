"""The page of a window for the service's list of weeks."""

from __future__ import annotations

from typing import Any

from monitor.report.data import ReportData
from monitor.report.html import html_report


def summary_html(data: ReportData, **_: Any) -> str:
    """The page of the window."""
    return html_report(data)
