"""A history that was lost: whoever answers for critical incidents is notified, although nothing can be stored."""

from __future__ import annotations

import logging

from monitor.adapters import sender_of, utc_now
from monitor.alerts.message import delivery_of, monitor_failed_message
from monitor.alerts.slack import TransportError
from monitor.heartbeat import beat
from monitor.history.errors import HistoryLost
from monitor.rules.model import Config
from monitor.settings import Settings

log = logging.getLogger(__name__)


def report_lost(settings: Settings, config: Config, what: str, error: HistoryLost) -> bool:
    """Send the message at once and fail the heartbeat; whether Slack took the message. ``what``: who needed it."""
    beat(settings.heartbeat_url, failed=str(error))
    sender = sender_of(settings)
    route = config.route_for(severity="critical", source="", label=None, rule="")
    route = route or (config.routes[0] if config.routes else None)
    if sender is None or route is None:
        return False
    payload = monitor_failed_message(what, str(error), utc_now(), channel=route.channel, mention=route.mention)
    try:
        sender.send(delivery_of(payload, kind="monitor", now=utc_now()))
    except TransportError as failure:
        log.error("not sent: %s", failure)
        return False
    return True
