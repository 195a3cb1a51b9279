"""What receivers beside Slack are told of an incident: that it calls somebody, and how it ends. In plain text.

They have no threads and no edits, so each notice says all of it, with the address of its page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from monitor.alerting.slack.blocks import hashed
from monitor.alerting.slack.links import links_of
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core.records import APPRISE, Delivery, Incident
from monitor.incidents.life import IncidentDecision
from monitor.story.gather import Teller
from monitor.story.incident import reason_words
from monitor.story.label import labels_words, story_lines

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


def notices_of(
    monitor: Monitor, teller: Teller, decision: IncidentDecision, incident: Incident, route: Route | None
) -> list[Delivery]:
    """The notices of a decision about a label: a new one where people are called, a last one to all who had one."""
    if decision.kind != "resolve":
        return calling(monitor, teller, incident, route) if decision.calls else []
    story = teller.of_incident(incident) if told_of(monitor, incident) else None
    if story is None:
        return []
    why = f": {decision.why}" if decision.why else ""
    switch = "" if story.switch is None else story.switch.short or story.switch.words
    words = f"{story.name} {reason_words(decision.reason)}{why}"
    return ending(monitor, incident, story.headline, [words, switch])


def calling(
    monitor: Monitor, teller: Teller, incident: Incident, route: Route | None, *, again: bool = True
) -> list[Delivery]:
    """The notice of an open incident of a label; with ``again`` also where its receiver had one already."""
    name = receiver(monitor, incident, route, again=again)
    story = None if name is None else teller.of_incident(incident)
    if name is None or story is None:
        return []
    facts = story.known.removeprefix(": ")
    about = [labels_words(incident.labels)] if incident.labels else []
    return [beginning(monitor, incident, name, story.headline, [*about, facts, *story_lines(story)[1:]])]


def receiver(monitor: Monitor, incident: Incident, route: Route | None, *, again: bool) -> str | None:
    """Who is to be told of an open incident; None where nobody is, or (not ``again``) has been told already."""
    if route is None or route.apprise is None or incident.state != "open":
        return None
    return route.apprise if again or not _is_stored(monitor, root_of(incident, route.apprise)) else None


def beginning(monitor: Monitor, incident: Incident, name: str, top: str, lines: Sequence[str]) -> Delivery:
    """The first notice of an incident to a receiver, or one more."""
    first = root_of(incident, name)
    if _is_stored(monitor, first):
        return _notice(monitor, incident, name, top, lines, hashed(first, str(incident.version)), first)
    return _notice(monitor, incident, name, top, lines, first, None)


def ending(monitor: Monitor, incident: Incident, top: str, lines: Sequence[str]) -> list[Delivery]:
    """The last notice of an incident, to everyone who had one."""
    firsts = {name: root_of(incident, name) for name in told_of(monitor, incident)}
    return [
        _notice(monitor, incident, name, f"Over: {top}", lines, hashed(first, "end"), first)
        for name, first in firsts.items()
    ]


def told_of(monitor: Monitor, incident: Incident) -> list[str]:
    """The receivers of the routes that had a notice of an incident since it was opened or came back."""
    return [name for name in _receivers(monitor.config) if _is_stored(monitor, root_of(incident, name))]


def messages_of(config: Config, incident: Incident) -> list[str]:
    """The ids of the first messages about an incident: in Slack, and of every receiver that may have been told."""
    return [*filter(None, [incident.root]), *(root_of(incident, name) for name in _receivers(config))]


def _receivers(config: Config) -> list[str]:
    return list(dict.fromkeys(each.apprise for each in config.routes if each.apprise is not None))


def root_of(incident: Incident, name: str) -> str:
    """The id of the first notice of an incident to a receiver, since it was opened or came back."""
    return hashed("apprise", name, incident.id, str(incident.reopened))


def _is_stored(monitor: Monitor, id: str) -> bool:
    return monitor.store.message(id)[0] is not None


def _notice(
    monitor: Monitor, incident: Incident, name: str, top: str, lines: Sequence[str], id: str, root: str | None
) -> Delivery:
    kind = _KINDS[incident.severity] if incident.is_open else "success"
    said = [f"{line[:1].upper()}{line[1:].removesuffix('.')}." for line in lines if line]
    payload = _payload(name, top, [*said, _more(monitor, incident)], kind, id)
    now = monitor.clock()
    return Delivery(
        id=id, kind="monitor" if incident.is_of_monitor else "incidents", channel=f"{APPRISE}{name}",
        payload=payload | {"incidents": [incident.id], "calls": []}, created_at=now, next_attempt_at=now,
        operation="post" if root is None else "reply", root=root,
    )  # fmt: skip


def _more(monitor: Monitor, incident: Incident) -> str:
    """Where there is more: the address of a page, else a command."""
    links = links_of(monitor.settings)
    if incident.is_of_monitor:
        return "calmon health" if links.dashboard is None else f"{links.dashboard.rstrip('/')}/monitor"
    return links.label(incident.source, incident.label) or f"calmon incidents show {incident.id[:8]}"


def _payload(name: str, top: str, lines: Sequence[str], kind: str, id: str) -> dict[str, Any]:
    about = {"event_payload": {"delivery_id": id}}
    return {"channel": f"{APPRISE}{name}", "text": top, "body": "\n".join(lines), "type": kind, "metadata": about}
