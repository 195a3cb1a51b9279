"""Which messages Slack may have already although the history does not say so: it was put back from a backup. Pure.

A run that is repeated after that composes what was sent since the backup again, with the same ids. A new history in
place of a lost one is the same case.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from monitor.alerting.slack.message import trouble_of
from monitor.core import windows
from monitor.core.records import Delivery

#: For how long after a restore the message of a trouble of the monitor is looked for: its first look may come late.
SOON = timedelta(days=1)
#: How much earlier than in UTC a window may end in the time zone of alerts.yaml.
ZONES_APART = timedelta(hours=14)
_UTC = ZoneInfo("UTC")


def may_be_sent(delivery: Delivery, restored: datetime | None) -> bool:
    """Whether the history that was replaced at ``restored`` (None: none was) may have sent this delivery.

    After that, only some ids name one event: those of what an evaluation found, and of the end
    of a trouble of the monitor, or of a lease in it (``one_event``). Those of reminders and of other messages about the
    monitor count: an equal one may be that of another message.
    """
    if restored is None:
        return False
    if delivery.created_at <= restored or delivery.payload.get("one_event"):
        return True
    if "window" not in delivery.payload:
        return False
    schedule, name = delivery.payload["window"]
    return windows.named(schedule, name, _UTC).end <= restored + ZONES_APART


def trouble_to_find(delivery: Delivery, restored: datetime | None) -> str:
    """The trouble of the monitor of which the replaced history may have a message in Slack; "" if none is expected.

    Its incident began at another time there, so the ids of the two messages differ.
    """
    is_soon = restored is not None and restored <= delivery.created_at <= restored + SOON
    return trouble_of(delivery) if is_soon else ""
