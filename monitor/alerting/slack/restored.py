"""Which messages Slack may have already although the history does not say so: it was put back from a backup. Pure.

A run that is repeated after that composes what was sent since the backup again, with the same ids. A new history in
place of a lost one is the same case.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.alerting.slack.message import change_of
from monitor.core import windows
from monitor.core.records import Delivery

#: How much earlier than in UTC a window may end in the time zone of alerts.yaml.
ZONES_APART = timedelta(hours=14)
_UTC = ZoneInfo("UTC")


def may_be_sent(delivery: Delivery, restored: datetime | None) -> bool:
    """Whether the history that was replaced at ``restored`` (None: none was) may have sent this delivery.

    After that, only some ids name one event: those of what an evaluation found, of an enable that ended, and of the end
    of a trouble of the monitor, or of a lease in it (``one_event``). Those of reminders and of other messages about the
    monitor count: an equal one may be that of another message.
    """
    if restored is None:
        return False
    if delivery.created_at <= restored or change_of(delivery) == "ended" or delivery.payload.get("one_event"):
        return True
    if "window" not in delivery.payload:
        return False
    schedule, name = delivery.payload["window"]
    return windows.named(schedule, name, _UTC).end <= restored + ZONES_APART
