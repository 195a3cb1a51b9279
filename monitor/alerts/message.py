"""What a message about the monitor itself says, and how a payload becomes a delivery. Pure.

What a message about incidents says is in :mod:`monitor.alerts.incident_message`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

from monitor.alerts.blocks import (
    FALLBACK,
    SECTION,
    Payload,
    context,
    cut,
    escape,
    hashed,
    header,
    link,
    mention_block,
    mention_text,
    payload_of,
    section,
)
from monitor.alerts.words import clean
from monitor.records import Delivery, DeliveryKind, Operation, Severity
from monitor.redaction import without_secrets

ERROR_LENGTH = 1_500

_WHAT_A_FAILURE_MEANS = "This run may have judged nothing; a switch that is on stays on until its lease ends."
_AFTER_A_FAILURE = (
    "*Do now:* read the log of the run, fix what it names, and run the same again, from Prefect's page or in a "
    "terminal (`calmon run weekly`, `calmon run daily`): it picks up where it stopped."
)


def trial_message(channel: str, severity: Severity, by: str, now: datetime, mention: str | None = None) -> Payload:
    """A message that says it is a test; each one is another. The mention is named, not used: nobody is called."""
    top = f"Test of calmon: a {severity} incident would be reported here"
    who = f" It would mention {escape(mention)}." if mention else ""
    what = f"Sent by {escape(clean(by))} at {now:%Y-%m-%d %H:%M} UTC. Nothing is wrong.{who}"
    id = hashed("test", channel, severity, by, now.isoformat())
    return payload_of(channel, f"{top}. {what}", [header(top), section(what)], id)


def monitor_failed_message(
    flow: str,
    error: str,
    when: datetime,
    *,
    channel: str,
    run: str | None = None,
    url: str | None = None,
    mention: str | None = None,
) -> Payload:
    """The message that the *monitor* failed: nobody is being watched over until it runs again.

    ``run`` identifies the failed run, so that two hooks of one run make one message. Passwords in
    addresses and Slack tokens are blotted out of ``error``.
    """
    top = f"The calibration monitor itself failed: {clean(flow)}"
    stamp = when.strftime("%Y-%m-%d %H:%M %Z").strip()
    told = cut(escape(cut(_redact(error), ERROR_LENGTH)), SECTION - 10)
    what = f":warning: *{escape(top)}*\nAt {stamp}. {_WHAT_A_FAILURE_MEANS}"
    blocks = [header(f"Monitor failed: {clean(flow)}"), *mention_block(mention)]
    blocks += [section(what), section(f"```{told}```"), section(_AFTER_A_FAILURE)]
    if url:
        blocks.append(context(link(url, "the run")))
    text = f"{mention_text(mention)} {escape(top)} ({stamp}): {told}".strip()
    return payload_of(channel, cut(text, FALLBACK), blocks, hashed("monitor", channel, flow, run or when.isoformat()))


def delivery_of(
    payload: Payload,
    *,
    kind: str,
    now: datetime,
    operation: Operation = "post",
    root: str | None = None,
    sequence: int = 0,
    id: str | None = None,
) -> Delivery:
    """The pending delivery of a payload; its id is the one in the payload's metadata unless given."""
    if kind not in get_args(DeliveryKind):
        raise ValueError(f"{kind!r} is not a kind of delivery")
    return Delivery(
        id=id or payload["metadata"]["event_payload"]["delivery_id"], kind=kind, channel=payload["channel"],  # type: ignore[arg-type]  # checked above
        payload=payload, created_at=now, next_attempt_at=now, operation=operation, root=root, sequence=sequence,
    )  # fmt: skip


def mark_possible_repeat(payload: Mapping[str, Any]) -> Payload:
    """The payload, saying that it may be there already (nobody could look).

    >>> mark_possible_repeat({"channel": "#c", "text": "hello", "blocks": []})["text"]
    '(possible repeat) hello'
    """
    note = context("Possible repeat: an earlier attempt got no answer, and the channel's history could not be read.")
    marked = dict(payload) | {"text": f"(possible repeat) {payload.get('text', '')}"}
    return marked | {"blocks": [note, *payload["blocks"]]} if payload.get("blocks") else marked


def _redact(text: str) -> str:
    return "".join(c for c in without_secrets(text) if c.isprintable() or c == "\n")
