"""Once a week: remove old details from the history (docs/operations.md)."""

from __future__ import annotations

import os
from dataclasses import asdict

from prefect import flow, get_run_logger, task

from flows.hooks import report_monitor_failed
from flows.stages import IO, opened
from monitor.config.env_file import read_into
from monitor.context import Monitor
from monitor.core.redaction import secrets_hidden
from monitor.history.errors import StoreMissing
from monitor.operations.prune import Pruned, prune


@task(name="remove old details", timeout_seconds=3000, **IO)
@secrets_hidden()
def remove_old(monitor: Monitor) -> Pruned:
    """Remove old details, each window in one transaction. A second try continues where the first one ended."""
    return prune(monitor.store, monitor.config, monitor.clock())


@flow(
    name="calmon-prune",
    timeout_seconds=3600,
    on_failure=[report_monitor_failed],
    on_crashed=[report_monitor_failed],
    description="Remove counts and further estimates that are too old (history in alerts.yaml); give free space back.",
)
def prune_history() -> dict[str, int]:
    """Remove old details; returns how many rows and bytes of each kind were removed."""
    logger = get_run_logger()
    try:
        with opened(creates=False) as monitor:
            found = remove_old(monitor)
    except StoreMissing as error:  # no history yet; a lost one fails this flow, and its hook reports that
        logger.warning("nothing to remove yet: %s", error)
        return {}
    if found.in_the_way:
        logger.warning("%s", found.in_the_way)
    logger.info("the history takes %d bytes, %d before", found.after, found.before)
    return asdict(found.removed)


if __name__ == "__main__":
    read_into(os.environ)
    prune_history()
