"""A history that was lost: whoever answers for critical incidents is notified, although nothing can be stored."""

from __future__ import annotations

from monitor.alerting.health import outage
from monitor.alerting.health.heartbeat import beat
from monitor.alerting.health.outage import Recipient
from monitor.config.model import Config
from monitor.config.settings import Settings
from monitor.context import utc_now
from monitor.history.errors import HistoryLost


def report_lost(settings: Settings, config: Config, what: str, error: HistoryLost) -> None:
    """Send the message at once, or a reminder where its time has come, and fail the heartbeat. ``what`` needed it."""
    beat(settings.heartbeat_url, failed=str(error))
    route = config.route_for(severity="critical", source="", label=None, rule="")
    route = route or (config.routes[0] if config.routes else None)
    if route is not None:
        outage.report(settings, Recipient(route.channel, route.mention, route.repeat), what, str(error), utc_now())
