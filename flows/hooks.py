"""What happens when a flow fails or crashes: Slack is told that the *monitor* failed.

Prefect calls a hook with parameters named exactly ``flow, flow_run, state``: in the run's own
process where that still lives, else in the worker's.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import yaml
from prefect.utilities.urls import url_for
from sqlalchemy.exc import SQLAlchemyError

from monitor.adapters import open_store, sender_of, utc_now
from monitor.alerts.message import delivery_of, monitor_failed_message
from monitor.alerts.outbox import drain, worker_id
from monitor.alerts.slack import SlackSender, TransportError
from monitor.history.errors import HistoryError
from monitor.records import Delivery
from monitor.redaction import hide_at_the_edge
from monitor.rules.load import load_config, text_of
from monitor.rules.problems import ConfigProblems
from monitor.settings import Settings, load_settings

log = logging.getLogger(__name__)

EVERY_MINUTES = 15
"""How often the watchdog comes round."""

TOLD_BY_THE_RUN = "NothingEvaluatedTold"
_CHANNEL = re.compile(r"""(?m)^[^#\n]*\bchannel:\s*["'](#[\w-]+)""")
"""The first channel of a file that is not even YAML."""


_VARYING = re.compile(r"\b[0-9a-f-]{8,}\b|\d+")
"""What differs in an error from one time to the next: ids, times, addresses."""


class Recipient(NamedTuple):
    """Who is told that the monitor failed."""

    channel: str
    mention: str | None


def tell_monitor_failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Store and send one message for this failed run, however often the hook is called.

    A run that could read no source may have told so itself (:mod:`monitor.unjudged`): nobody is told twice.
    """
    if TOLD_BY_THE_RUN in (state.message or ""):
        log.warning("told by the run itself: %s", state.message)
        return
    _tell(flow, flow_run, state, once=str(flow_run.id), often=False)


def tell_once_a_day(flow: Any, flow_run: Any, state: Any) -> None:
    """The same for a flow that comes round every few minutes: one message a day (UTC) and error."""
    error = _VARYING.sub("#", state.message or "")
    _tell(flow, flow_run, state, once=f"{utc_now():%Y-%m-%d} {error}", often=True)


def _tell(flow: Any, flow_run: Any, state: Any, *, once: str, often: bool) -> None:
    hide_at_the_edge()
    settings = load_settings(os.environ)
    to = recipient(settings)
    if to is None:
        log.error("the monitor failed and no route says whom to tell: %s", state.message)
        return
    payload = monitor_failed_message(
        flow.name, state.message or "no message", utc_now(), channel=to.channel, run=once,
        url=url_for("flow-run", obj_id=flow_run.id), mention=to.mention,
    )  # fmt: skip
    delivery = delivery_of(payload, kind="monitor", now=utc_now())
    try:
        with open_store(settings, writes=True, creates=False) as store:
            store.add_delivery(delivery)
            drain(store, sender_of(settings), now=utc_now, worker=worker_id())
    except (HistoryError, SQLAlchemyError) as error:
        log.error("the history cannot keep the message: %s", error)
        _send_unstored(settings, delivery, often=often)


def _send_unstored(settings: Settings, delivery: Delivery, *, often: bool) -> None:
    """The history itself may be what failed: then the message goes out without being kept.

    Of a flow that fails ``often`` only the channel remembers what was told.
    """
    sender = sender_of(settings)
    if sender is None:
        log.error("not sent: no token: %s", delivery.payload["text"])
        return
    try:
        if not often or _is_to_be_told(sender, delivery):
            sender.send(delivery)
    except TransportError as error:
        log.error("not sent: %s: %s", error, delivery.payload["text"])


def _is_to_be_told(sender: SlackSender, delivery: Delivery) -> bool:
    """Whether the channel does not show it yet; where the token may not look, once an hour. Raises TransportError."""
    try:
        return sender.find(delivery) is None
    except TransportError as error:
        if not error.permanent:
            raise
        return delivery.created_at.minute < EVERY_MINUTES


def recipient(settings: Settings) -> Recipient | None:
    """Whom a critical incident of nothing in particular would reach.

    A broken alerts.yaml is the likeliest reason to be here, so its routes are read without the
    rest being right.
    """
    try:
        config = load_config(settings.config)
    except ConfigProblems:
        return _recipient_of_broken(settings)
    route = config.route_for(severity="critical", source="", label=None, rule="")
    if route is None:
        route = config.routes[0] if config.routes else None
    return None if route is None else Recipient(route.channel, route.mention)


def _recipient_of_broken(settings: Settings) -> Recipient | None:
    try:
        text = text_of(settings.config)
    except ConfigProblems:
        return None
    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError:
        found = _CHANNEL.search(text)
        return Recipient(found[1], None) if found else None
    routes = loaded.get("routes") if isinstance(loaded, Mapping) else None
    for route in routes if isinstance(routes, list) else ():
        if isinstance(route, Mapping) and isinstance(route.get("channel"), str):
            mention = route.get("mention")
            return Recipient(route["channel"], mention if isinstance(mention, str) else None)
    return None
