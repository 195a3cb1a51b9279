"""Which messages an evaluation makes: one per route that has newly opened incidents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from monitor.adapters import Monitor
from monitor.alerts.message import Finding, delivery_of, incident_message
from monitor.automation.state import effective
from monitor.records import Delivery, Estimate, Incident, Verdict, Window
from monitor.rules.model import Config, Route

Opened = tuple[Verdict, Incident]


def compose(
    monitor: Monitor, window: Window, opened: Sequence[Opened], estimates: Sequence[Estimate]
) -> list[Delivery]:
    """The pending deliveries for newly opened incidents, one a route."""
    told = [(verdict, incident) for verdict, incident in opened if "slack" in verdict.actions]
    rules = {rule.id: rule for rule in monitor.config.rules}
    found = []
    for route, members in by_route(monitor.config, told):
        findings = [
            Finding(
                verdict=verdict, incident=incident, rule=rules.get(verdict.rule),
                switch_state=_switch_words(monitor, verdict), excess_errors=excess_errors(verdict, estimates),
            )
            for verdict, incident in members
        ]  # fmt: skip
        payload = incident_message(findings, window=window, route=route, public_url=monitor.settings.public_url)
        # kept beside the message, not sent: tells which incidents it is about
        payload["incidents"] = [incident.id for _, incident in members]
        found.append(delivery_of(payload, kind="incidents", now=monitor.clock()))
    return found


def by_route(config: Config, opened: Iterable[Opened]) -> list[tuple[Route, list[Opened]]]:
    """Incidents by the route that takes them, in the order of the file."""
    groups: dict[int, list[Opened]] = {}
    for verdict, incident in opened:
        route = config.route_for(
            severity=verdict.severity, source=incident.source, label=incident.label, rule=incident.rule
        )
        if route is not None:
            groups.setdefault(config.routes.index(route), []).append((verdict, incident))
    return [(config.routes[index], groups[index]) for index in sorted(groups)]


def excess_errors(verdict: Verdict, estimates: Sequence[Estimate]) -> float | None:
    """How many more of the automated items were wrong than their scores promised."""
    for estimate in estimates:
        if (estimate.subject, estimate.metric, estimate.where) == (verdict.subject, "shortfall", "automated"):
            value = estimate.interval.value
            return None if value is None else value * estimate.n
    return None


def _switch_words(monitor: Monitor, verdict: Verdict) -> str:
    """What the switch says now, for the message: it has acted before the message is written."""
    dry = " (dry run: this finding has not touched the switch)" if monitor.config.automation.dry_run else ""
    return _state_words(monitor, verdict) + dry


def _state_words(monitor: Monitor, verdict: Verdict) -> str:
    source, label, now = verdict.subject.source, verdict.subject.label, monitor.clock()
    state = monitor.store.switch(source, label)
    whole = None if label is None else monitor.store.switch(source, None)
    found = effective(state, now, whole=whole)
    if not found.allowed:
        since = f" since {state.changed_at:%Y-%m-%d %H:%M} UTC" if state.changed_at and state.state == "off" else ""
        return f"automation is off{since} ({found.reason})"
    if found.blocked:
        ranges = ", ".join(f"{low:g} to {high:g}" for low, high in found.blocked)
        return f"automation is on, but blocked for scores {ranges}"
    return "automation is still on"


def delivery_states(deliveries: Iterable[Delivery]) -> Mapping[str, str]:
    """Incident id -> what became of its message, in words."""
    found = {}
    for delivery in deliveries:
        for incident in delivery.payload.get("incidents", ()):
            found[str(incident)] = _words(delivery)
    return found


def _words(delivery: Delivery) -> str:
    if delivery.state == "not_sent":
        return f"not sent: {delivery.error or 'no token'}"
    if delivery.state in ("failed", "dead"):
        again = "will be tried again" if delivery.state == "failed" else "will not be tried again"
        return f"{delivery.state}: {delivery.error or 'unknown'}; {again}"
    return delivery.state
