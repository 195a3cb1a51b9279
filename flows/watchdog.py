"""The watchdog: every quarter of an hour it checks the monitor itself, and sends what is due.

It needs the history and Slack but not the warehouse, so it reports while the warehouse is down. It stores the time of
its check (``calmon health`` reports a silent watchdog), and calls a heartbeat of its own.
"""

from __future__ import annotations

import os
from datetime import datetime

from prefect import flow, get_run_logger

from flows.hooks import report_monitor_failed
from flows.stages import opened
from flows.start import begin_again
from flows.waiting import note_waiting_runs
from monitor.alerting.health import outage
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.issues import FAILED_NOTE, SILENT, WATCHDOG_NOTE, not_heard
from monitor.alerting.health.watchdog import watch_monitor
from monitor.config.env_file import read_into
from monitor.core.records import Note
from monitor.history.errors import StoreMissing
from monitor.run import deliver


def has_just_begun(before: Note | None, now: datetime) -> bool:
    """Whether this is the first look since the scheduler was started again: what is late is just being made up for.

    Never twice in a row, so that a watchdog that is seldom run looks all the same.
    """
    return before is not None and now - before.at > SILENT and not before.detail.get("first")


@flow(
    name="calmon-watchdog",
    timeout_seconds=600,
    on_failure=[report_monitor_failed],
    on_crashed=[report_monitor_failed],
    description="Check that runs, data, messages and leases are as they should be; keep incidents of what is not.",
)
def watchdog() -> list[str]:
    """Check the monitor; returns each health issue as a line of text."""
    logger = get_run_logger()
    try:
        with opened(creates=False) as monitor:
            outage.refuse_full_still(monitor.settings, monitor.store, monitor.clock())
            before = monitor.store.notes().get(WATCHDOG_NOTE)
            first = has_just_begun(before, monitor.clock())
            since = {} if before is None else {"before": before.at.isoformat(), "first": first}
            monitor.store.put_note(Note(WATCHDOG_NOTE, monitor.clock(), since))
            monitor.store.drop_note(f"{FAILED_NOTE}calmon-watchdog")
            if first:
                begin_again(monitor.config, monitor.clock())
            note_waiting_runs(monitor.store, monitor.clock(), may_wait=first)
            found = [] if first else watch_monitor(monitor)
            deliver(monitor, due_only=True)
            beat(monitor.settings.watchdog_heartbeat_url, failed=not_heard(found))  # Slack cannot report this
    except StoreMissing as error:  # no history yet; a lost one fails this flow, and its hook reports that
        logger.warning("nothing to watch yet: %s", error)
        return []
    for issue in found:
        logger.warning("%s: %s", issue.reason.value, issue.text)
    return [f"{issue.reason.value}: {issue.text}" for issue in found]


if __name__ == "__main__":
    read_into(os.environ)
    watchdog()
