"""The start of ``calmon serve``: the last ready window is judged at once if it was not, and late looks are dropped."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from uuid import UUID

from prefect.client.orchestration import get_client
from sqlalchemy.exc import SQLAlchemyError

from flows.waiting import drop_late_looks, is_coming
from monitor.config.model import Config
from monitor.config.settings import load_settings
from monitor.core.records import SCHEDULES, Window
from monitor.core.schedules import next_time
from monitor.core.windows import last_ready
from monitor.history.errors import HistoryError
from monitor.operations.open import open_store


def begin(
    config: Config, deployments: Mapping[str, UUID], due: Mapping[str, Mapping[str, str]], now: datetime
) -> Iterator[str]:
    """Create the runs that are wanted now; yields a line on each schedule that has rules, with its next run."""
    drop_late_looks(now)
    for schedule in SCHEDULES:
        flow = f"calmon-{schedule}"
        if not config.rules_for(schedule):
            continue
        window = last_ready(schedule, now, config.zone)
        judged = is_judged(config, window)
        if not judged and not is_coming(flow, now):
            with get_client(sync_client=True) as client:
                client.create_flow_run_from_deployment(deployments[flow])
        following = next_time(due[flow]["cron"], due[flow]["timezone"], now)
        what = "was judged" if judged else "was not judged yet: that is done now"
        yield (
            f"{schedule}: {window.name} {what}; next run {following:%A} {following:%Y-%m-%d %H:%M} "
            f"({due[flow]['timezone']})"
        )


def is_judged(config: Config, window: Window) -> bool:
    """Whether the runs of all sources in this window are done. Where the history cannot say, the run reports why."""
    try:
        with open_store(load_settings(os.environ), writes=False, creates=False) as store:
            runs = store.runs_of(window)
    except (HistoryError, SQLAlchemyError):
        return False
    return all(source in runs and runs[source]["state"] == "done" for source in config.sources)
