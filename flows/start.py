"""After a pause the last ready window is judged at once if it was not, and late looks are dropped.

For the start of ``calmon serve``, and for the watchdog's first look where a worker was away.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from datetime import datetime

from prefect.client.orchestration import get_client
from sqlalchemy.exc import SQLAlchemyError

from flows.waiting import drop_late_looks, is_coming
from monitor.config.model import Config
from monitor.config.settings import load_settings
from monitor.core.records import SCHEDULES, Window
from monitor.core.schedules import next_time, schedules
from monitor.core.windows import SETTLE, last_ready
from monitor.history.errors import HistoryError
from monitor.operations.open import open_store

log = logging.getLogger(__name__)


def begin_again(config: Config, now: datetime) -> None:
    """The same for the watchdog, which goes on if the Prefect server does not answer."""
    try:
        for line in begin(config, now):
            log.info("%s", line)
    except Exception as error:  # noqa: BLE001 - the client may raise anything
        log.warning("what was missed waits for the next runs: %s", type(error).__name__)


def begin(config: Config, now: datetime) -> Iterator[str]:
    """Create the runs that are wanted now; yields a line on each schedule that has rules, with its next run."""
    drop_late_looks(now)
    due = schedules(config.timezone)
    for schedule in SCHEDULES:
        flow = f"calmon-{schedule}"
        if not config.rules_for(schedule):
            continue
        window = last_ready(schedule, now, config.zone)
        judged = is_judged(config, window)
        what = "was judged" if judged else f"was not judged yet: {make_up(flow, window.end + SETTLE, now)}"
        following = next_time(due[flow]["cron"], due[flow]["timezone"], now)
        yield (
            f"{schedule}: {window.name} {what}; next run {following:%A} {following:%Y-%m-%d %H:%M} "
            f"({due[flow]['timezone']})"
        )


def make_up(flow: str, ready: datetime, now: datetime) -> str:
    """Create a run of the window that was ready then, unless one is late: those of older windows do not judge it."""
    with get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name(f"{flow}/{flow}")
        if deployment.paused:
            return "its schedule is paused in Prefect"
        if not is_coming(flow, ready, now):
            client.create_flow_run_from_deployment(deployment.id)
    return "that is done now"


def is_judged(config: Config, window: Window) -> bool:
    """Whether the runs of all sources in this window are done. Where the history cannot say, the run reports why."""
    try:
        with open_store(load_settings(os.environ), writes=False, creates=False) as store:
            runs = store.runs_of(window)
    except (HistoryError, SQLAlchemyError):
        return False
    return all(source in runs and runs[source]["state"] == "done" for source in config.sources)
