"""The weekly evaluation."""

from __future__ import annotations

import os
from typing import Any

from prefect import flow

from flows.hooks import report_monitor_failed
from flows.stages import run_schedule
from monitor.config.env_file import read_into


@flow(
    name="calmon-weekly",
    timeout_seconds=3600,
    on_failure=[report_monitor_failed],
    on_crashed=[report_monitor_failed],
    description="Judge the last ready week, switch and alert.",
)
def weekly(week: str | None = None, sources: list[str] | None = None, act: bool = False) -> dict[str, Any]:
    """Evaluate ``week`` (2026-W46), or the week that was ready at the scheduled time.

    ``act`` acts even though a newer week has been evaluated. Returns the run's JSON document.
    """
    return run_schedule("weekly", week, sources, act)


if __name__ == "__main__":
    read_into(os.environ)
    weekly()
