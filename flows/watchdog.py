"""The watchdog: every quarter of an hour, is the monitor itself at work? And what is due goes out.

It needs the history and Slack, not the warehouse, so it goes on telling while that is down.
"""

from __future__ import annotations

from prefect import flow, get_run_logger

from flows.hooks import tell_once_a_day
from flows.stages import opened
from monitor import alerting
from monitor.alerts.outbox import drain
from monitor.history.errors import StoreMissing
from monitor.watching import watch_monitor


@flow(
    name="calmon-watchdog",
    timeout_seconds=600,
    on_failure=[tell_once_a_day],
    on_crashed=[tell_once_a_day],
    description="Look whether runs, data, messages and leases are as they should be; tell what is not, once.",
)
def watchdog() -> list[str]:
    """Returns what was found, in words."""
    logger = get_run_logger()
    try:
        with opened(creates=False) as monitor:
            found = watch_monitor(monitor)
            alerting.due_repeats(monitor)
            drain(monitor.store, monitor.sender, now=monitor.clock, worker=monitor.worker, due_only=True)
    except StoreMissing as error:  # never made: one that was lost fails this flow, and its hook reports that
        logger.warning("nothing to watch yet: %s", error)
        return []
    for finding in found:
        logger.warning("%s: %s", finding.reason.value, finding.text)
    return [f"{finding.reason.value}: {finding.text}" for finding in found]


if __name__ == "__main__":
    watchdog()
