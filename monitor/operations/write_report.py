"""Reports from the history: the page of each run, and the data of the terminal's tables."""

from __future__ import annotations

from pathlib import Path

from monitor.context import Monitor
from monitor.core.files import write_whole
from monitor.core.records import Window
from monitor.report.collect import collect_report
from monitor.report.data import ReportData
from monitor.report.detail import TARGET_ACCURACY
from monitor.report.html import html_report


def report_of(monitor: Monitor, window: Window, *, target: float = TARGET_ACCURACY) -> ReportData:
    """All that the history has of one window, at one moment; ``target`` is the accuracy that thresholds shall reach."""
    with monitor.store.one_moment():  # a run may be writing
        return collect_report(monitor.store, monitor.config, window, monitor.clock(), target=target)


def write_report(monitor: Monitor, window: Window) -> tuple[Path, ReportData]:
    """Write the page of one window beside the run; returns its path and its data."""
    data = report_of(monitor, window)
    target = monitor.settings.report_dir / window.schedule / window.name / "report.html"
    write_whole(target, html_report(data))
    return target, data
