"""Messages in a channel that Slack refuses, and that no route names any more, go to the channel of their route now.

A message stays in the channel in which it was posted, also where routes change: its thread is there. But where that
channel is archived or unknown, or the app is not in it, the remedy that the error names is another channel in routes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.alerting.compose import route_of
from monitor.alerting.slack.blocks import with_mention
from monitor.alerting.slack.client import CHANNEL_ERRORS
from monitor.alerting.slack.message import is_call
from monitor.config.model import Route
from monitor.context import Monitor
from monitor.core.records import SEVERITY_RANK, Delivery, Incident


def move_messages(monitor: Monitor) -> list[str]:
    """Move them, with what waits in their threads; returns their ids. The next drain posts them as they are now.

    A message that had been sent is posted anew. Where routes were read from a broken alerts.yaml, nothing is moved.
    """
    named = {route.channel for route in monitor.config.routes} if monitor.config.sources else set()
    shut = monitor.store.shut_messages(CHANNEL_ERRORS) if named else []
    return [post.id for post in shut if post.channel not in named and _move(monitor, post)]


def _move(monitor: Monitor, post: Delivery) -> bool:
    """Whether the message goes to another channel; a test of a channel that no route names is not needed any more."""
    if post.kind == "test":
        monitor.store.conclude_delivery(post.id, from_state=post.state, state="superseded")
        return False
    incidents = monitor.store.incidents_of([post.id])
    route = _route_now(monitor, incidents)
    if route is None:
        return False
    calls = not incidents or any(i.state == "open" for i in incidents)
    payload = _as_shown(monitor, post, route, calls=calls)
    if not monitor.store.move_message(post, channel=route.channel, payload=payload, now=monitor.clock()):
        return False
    for call in monitor.store.thread(post.id, operations=["reply"]):
        if is_call(call) and call.state in ("pending", "failed"):
            monitor.store.recompose_delivery(call.id, with_mention(dict(call.payload), route.mention))
    return True


def _route_now(monitor: Monitor, incidents: Sequence[Incident]) -> Route | None:
    """The route of the most severe incident that is not resolved, else of any; without one, that of critical ones."""
    ordered = sorted(incidents, key=lambda i: (i.state == "resolved", SEVERITY_RANK[i.severity]))
    routes = [route_of(monitor.config, incident) for incident in ordered] or [monitor.config.critical_route]
    return next((route for route in routes if route is not None), None)


def _as_shown(monitor: Monitor, post: Delivery, route: Route, *, calls: bool) -> dict[str, Any]:
    """The content of its newest edit; it mentions whom the route does, and only where somebody is waited for."""
    newest = monitor.store.compositions([post.id]).get(post.id, post).payload
    shown = {**post.payload, "text": newest["text"], "blocks": newest.get("blocks"), "channel": route.channel}
    return with_mention(shown, route.mention if calls else None)
