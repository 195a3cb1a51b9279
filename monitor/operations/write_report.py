"""Reports from the history: the page beside each run, and the tables of the terminal."""

from __future__ import annotations

from pathlib import Path

from monitor.context import Monitor
from monitor.core.files import write_whole
from monitor.core.records import Window
from monitor.report.collect import collect_report
from monitor.report.data import ReportData
from monitor.report.detail import TARGET_ACCURACY
from monitor.report.summary import summary_html


def report_of(monitor: Monitor, window: Window, *, target: float = TARGET_ACCURACY) -> ReportData:
    """Everything the history knows about one window; ``target`` is the accuracy that thresholds are to reach."""
    return collect_report(monitor.store, monitor.config, window, monitor.clock(), target=target)


def write_report(monitor: Monitor, window: Window, path: Path | None = None) -> tuple[Path, ReportData]:
    """Write the summary of one window (default: beside the run) and give back where it is."""
    data = report_of(monitor, window)
    target = path or monitor.settings.report_dir / window.schedule / window.name / "report.html"
    write_whole(target, summary_html(data))
    return target, data
