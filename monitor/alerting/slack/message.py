"""Deliveries from payloads, and the test message. Pure.

The text of a message about incidents is in :mod:`monitor.alerting.slack.incident_message`, one about the monitor itself
in :mod:`monitor.alerting.health.message`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from monitor.alerting.slack.blocks import (
    Payload,
    context,
    escape,
    hashed,
    metadata,
    post_of,
    without_mention,
)
from monitor.core import windows
from monitor.core.records import Delivery, DeliveryKind, Operation, Severity
from monitor.core.wording import clean

WAITED = timedelta(minutes=1)
"""A message that is sent so long after it was written has waited for something."""


def trial_message(
    channel: str, severity: Severity, by: str, now: datetime, mention: str | None = None, *, calls: bool = False
) -> Payload:
    """A message that says it is a test; each call makes a new one. Unless it ``calls``, it only names the mention."""
    top = f"Test of calmon: a {severity} incident would be reported here"
    who = f" It {'mentions' if calls else 'would mention'} {mention if calls else escape(mention)}." if mention else ""
    what = f"Sent by {escape(clean(by))} at {now:%Y-%m-%d %H:%M} UTC. Nothing is wrong.{who}"
    id = hashed("test", channel, severity, by, now.isoformat())
    return post_of(channel, top, [what], id, push=f"{top}. {what}")


def delivery_of(
    payload: Payload,
    *,
    kind: DeliveryKind,
    now: datetime,
    operation: Operation = "post",
    root: str | None = None,
    sequence: int = 0,
    id: str | None = None,
) -> Delivery:
    """The pending delivery of a payload; its id is the one in the payload's metadata unless given."""
    return Delivery(
        id=id or payload["metadata"]["event_payload"]["delivery_id"], kind=kind, channel=payload["channel"],
        payload=payload, created_at=now, next_attempt_at=now, operation=operation, root=root, sequence=sequence,
    )  # fmt: skip


CALLS = ("repeat", "call")
"""The changes that mention people."""


def change_of(delivery: Delivery) -> str:
    """The kind of change that a delivery makes to a message; "" for the message itself."""
    return str(delivery.payload.get("metadata", {}).get("event_payload", {}).get("change", ""))


def is_call(delivery: Delivery) -> bool:
    """Whether a delivery is a reply that mentions people."""
    return delivery.operation == "reply" and change_of(delivery) in CALLS


def without_call(payload: Payload) -> Payload:
    """The payload of a reply that mentions nobody any more."""
    return without_mention(payload) | {
        "metadata": metadata(payload["metadata"]["event_payload"]["delivery_id"], "news")
    }


def last_call(sent_at: datetime, thread: Iterable[Delivery], restored: datetime | None, now: datetime) -> datetime:
    """When people were last called in a thread whose message was sent at ``sent_at``.

    What was superseded called nobody. After a history was put back (``restored``), its last call may be lost: the time
    is counted from then. A clock that was ahead left times in the future: they are passed over.
    """
    times = [sent_at, restored]
    for call in thread:
        if is_call(call) and call.state != "superseded":
            sent = call.sent_at or call.created_at
            # of one that waited, as after a run that was killed, when it was sent
            times.append(sent if sent - call.created_at > WAITED else call.created_at)
    return max((at for at in times if at is not None and at <= now), default=datetime.min.replace(tzinfo=UTC))


def is_reminder(delivery: Delivery) -> bool:
    """Whether a delivery is a reminder to acknowledge."""
    return delivery.operation == "reply" and change_of(delivery) == "repeat"


def kept_reminders(thread: Iterable[Delivery]) -> list[Delivery]:
    """The reminders of a thread that are not sent yet."""
    return [each for each in thread if is_reminder(each) and each.state in ("pending", "failed")]


def mark_possible_repeat(payload: Mapping[str, Any]) -> Payload:
    """The payload with the note that it may be in the channel already (which could not be searched).

    >>> mark_possible_repeat({"channel": "#c", "text": "hello", "blocks": []})["text"]
    '(possible repeat) hello'
    """
    note = context("Possible repeat: this may have been sent before, and the channel's history could not be read.")
    marked = dict(payload) | {"text": f"(possible repeat) {payload.get('text', '')}"}
    return marked | {"blocks": [note, *payload["blocks"]]} if payload.get("blocks") else marked


ZONES_APART = timedelta(hours=14)
"""How much earlier than in UTC a window may end in the time zone of alerts.yaml."""


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
    return windows.named(schedule, name, ZoneInfo("UTC")).end <= restored + ZONES_APART
