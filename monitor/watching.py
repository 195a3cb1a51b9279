"""The watch over the monitor, joined to its adapters: look, decide, and keep what must be told as messages.

``monitor.watch`` decides; this reads the history and writes pending messages, each of which comes once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from monitor import watch
from monitor.adapters import Monitor
from monitor.alerts.message import delivery_of, watch_message
from monitor.history.store import Store
from monitor.records import Delivery, DeliveryState
from monitor.rules.model import Config, Route
from monitor.watch import Finding, Observed, ReadingSeen, RunSeen

LOOKS_BACK = timedelta(weeks=12)
RUNS = 200
_UNSENT: tuple[DeliveryState, ...] = ("pending", "sending", "failed", "dead")


def observed(store: Store, config: Config, now: datetime) -> Observed:
    """What the history holds of the monitor's own work."""
    runs = [RunSeen(**{name: row[name] for name in RunSeen.__slots__}) for row in store.runs(limit=RUNS, until=now)]
    return Observed(
        zone=config.zone,
        scheduled=tuple(each for each in ("weekly", "daily") if config.rules_for(each)),
        sources=tuple(config.sources),
        runs=runs,
        readings=[ReadingSeen(**row) for row in store.readings_seen(now - LOOKS_BACK, now)],
        switches=store.switches(),
        deliveries=store.deliveries(_UNSENT),
        since=min((run.started_at for run in runs), default=None),
        rules_revision=config.revision,
        lease=config.automation.lease,
        identity=store.identity(),
    )


def watch_monitor(monitor: Monitor) -> list[Finding]:
    """What is wrong with the monitor now; what nobody has been told is written as a pending message."""
    now = monitor.clock()
    found = watch.findings(observed(monitor.store, monitor.config, now), now)
    for delivery in messages_of(found, monitor.config, now, monitor.settings.public_url):
        monitor.store.add_delivery(delivery)  # the same finding has the same id: it is kept once
    return found


def messages_of(found: Sequence[Finding], config: Config, now: datetime, public_url: str | None) -> list[Delivery]:
    """One message a finding, on the route that an incident of its severity would take."""
    told = []
    for finding in found:
        route = None if finding.told else route_for(finding, config)
        if route is not None:
            payload = watch_message(finding, now, channel=route.channel, mention=route.mention, public_url=public_url)
            told.append(delivery_of(payload, kind="monitor", now=now))
    return told


def route_for(finding: Finding, config: Config) -> Route | None:
    """The route of the severity, else the first; not the channel that does not take messages, if there is another."""
    taken = config.route_for(severity=finding.severity, source=finding.source, label=None, rule="")
    refused = finding.detail.get("channel")
    wanted = [route for route in (taken, *config.routes) if route is not None]
    return next((route for route in wanted if route.channel != refused), wanted[0] if wanted else None)
