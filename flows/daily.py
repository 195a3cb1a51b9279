"""The daily evaluation."""

from __future__ import annotations

import os
from typing import Any

from prefect import flow

from flows.hooks import report_monitor_failed
from flows.stages import run_schedule
from monitor.config.env_file import read_into


@flow(
    name="calmon-daily",
    timeout_seconds=3600,
    on_failure=[report_monitor_failed],
    on_crashed=[report_monitor_failed],
    description="Judge the last ready day by the daily rules, switch and alert.",
)
def daily(date: str | None = None, sources: list[str] | None = None, act: bool = False) -> dict[str, Any]:
    """Evaluate ``date`` (2026-11-16), or the day that was ready at the scheduled time."""
    return run_schedule("daily", date, sources, act)


if __name__ == "__main__":
    read_into(os.environ)
    daily()
