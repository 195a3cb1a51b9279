"""The drain: every few minutes it sends pending deliveries, ends silences, and sends reminders.

Runs and presses of buttons send at once; the drain sends what Slack did not accept then. If the history or alerts.yaml
cannot be read, nothing is drained, and only the log says so: the watchdog and the runs notify people, and this flow
runs too often to do that. Where the watchdog itself is silent, this flow does its work.
"""

from __future__ import annotations

import os
from collections import Counter

from prefect import flow, get_run_logger

from flows.hooks import report_monitor_failed
from flows.stages import OUTSIDE, opened
from monitor.alerting.health.issues import FAILED_NOTE
from monitor.alerting.health.watchdog import stand_in
from monitor.config.env_file import read_into
from monitor.config.problems import ConfigProblems
from monitor.history.errors import HistoryLost, StoreMissing
from monitor.run import deliver


@flow(
    name="calmon-drain",
    timeout_seconds=240,
    on_failure=[report_monitor_failed],
    on_crashed=[report_monitor_failed],
    description="Send what is due: kept messages whose time has come, reminders, the end of silences.",
)
def drain_outbox() -> dict[str, int]:
    """Send what is due; returns state -> number of the deliveries that were handled."""
    logger = get_run_logger()
    try:
        with opened(creates=False) as monitor:
            monitor.store.drop_note(f"{FAILED_NOTE}calmon-drain")
            if stand_in(monitor):
                logger.warning("the watchdog is silent: the drain looked in its place")
            touched = deliver(monitor, due_only=True)
    except StoreMissing as error:  # no history yet: nothing can wait in it
        logger.info("nothing to send yet: %s", error)
        return {}
    except (*OUTSIDE, ConfigProblems, HistoryLost) as error:
        logger.error("nothing was drained: %s", error)
        return {}
    for delivery in touched:
        logger.info("%s %s to %s: %s", delivery.operation, delivery.id, delivery.channel, delivery.state)
    return dict(Counter(delivery.state for delivery in touched))


if __name__ == "__main__":
    read_into(os.environ)
    drain_outbox()
