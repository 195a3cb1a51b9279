"""What receivers beside Slack are told of an incident: that it calls somebody, and how it ends. In plain text.

They have no threads and no edits, so each notice says all of it, with the address of the label's page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from monitor.alerting.slack.blocks import hashed
from monitor.alerting.slack.links import links_of
from monitor.config.model import Route
from monitor.context import Monitor
from monitor.core.records import APPRISE, BURST, Delivery, Incident
from monitor.incidents.life import IncidentDecision
from monitor.story.gather import Teller
from monitor.story.incident import reason_words
from monitor.story.label import LabelStory, labels_words, story_lines

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


def notices_of(
    monitor: Monitor, teller: Teller, decision: IncidentDecision, incident: Incident, route: Route | None
) -> list[Delivery]:
    """The notices of a decision: a new one where people are called, and a last one to all who had one."""
    if decision.kind == "resolve":
        names = dict.fromkeys(each.apprise for each in monitor.config.routes if each.apprise is not None)
        told = [name for name in names if _is_stored(monitor, root_of(incident, name))]
        story = teller.of_incident(incident) if told else None
        return [] if story is None else [_ending(monitor, story, decision, incident, name) for name in told]
    if not decision.calls or route is None or route.apprise is None or incident.state != "open":
        return []
    story = teller.of_incident(incident)
    return [] if story is None else [_calling(monitor, story, incident, route.apprise)]


def untold(monitor: Monitor, teller: Teller, incident: Incident, route: Route | None) -> list[Delivery]:
    """The first notice of an open incident whose route had no receiver when it opened."""
    if route is None or route.apprise is None or incident.state != "open":
        return []
    if _is_stored(monitor, root_of(incident, route.apprise)):
        return []
    story = teller.of_incident(incident)
    return [] if story is None else [_calling(monitor, story, incident, route.apprise)]


def trial(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The notice that goes with a test message in Slack."""
    id = hashed(payload["metadata"]["event_payload"]["delivery_id"], name)
    return _payload(name, "Test of calmon", [payload["text"]], "info", id)


def root_of(incident: Incident, name: str) -> str:
    """The id of the first notice of an incident to a receiver, since it was opened or came back."""
    return hashed("apprise", name, incident.id, str(incident.reopened))


def _is_stored(monitor: Monitor, id: str) -> bool:
    return monitor.store.message(id)[0] is not None


def _calling(monitor: Monitor, story: LabelStory, incident: Incident, name: str) -> Delivery:
    first = root_of(incident, name)
    again = _is_stored(monitor, first)
    id = hashed(first, str(incident.version)) if again else first
    facts = story.known.removeprefix(": ")
    about = [labels_words(incident.labels)] if incident.kind == BURST else []
    lines = [*about, facts[:1].upper() + facts[1:], *story_lines(story)[1:]]
    return _notice(monitor, incident, name, story.headline, lines, id, first if again else None)


def _ending(monitor: Monitor, story: LabelStory, decision: IncidentDecision, incident: Incident, name: str) -> Delivery:
    first = root_of(incident, name)
    why = f": {decision.why}" if decision.why else ""
    switch = "" if story.switch is None else story.switch.short or story.switch.words
    lines = [f"{story.name} {reason_words(decision.reason)}{why}", switch]
    return _notice(monitor, incident, name, f"Over: {story.headline}", lines, hashed(first, "end"), first)


def _notice(
    monitor: Monitor, incident: Incident, name: str, top: str, lines: Sequence[str], id: str, root: str | None
) -> Delivery:
    url = links_of(monitor.settings).label(incident.source, incident.label)
    more = url or f"calmon incidents show {incident.id[:8]}"
    kind = _KINDS[incident.severity] if incident.is_open else "success"
    said = [f"{line[:1].upper()}{line[1:]}." for line in lines if line]
    payload = _payload(name, top, [*said, more], kind, id) | {"incidents": [incident.id], "calls": []}
    now = monitor.clock()
    return Delivery(
        id=id, kind="incidents", channel=f"{APPRISE}{name}", payload=payload, created_at=now, next_attempt_at=now,
        operation="post" if root is None else "reply", root=root,
    )  # fmt: skip


def _payload(name: str, top: str, lines: Sequence[str], kind: str, id: str) -> dict[str, Any]:
    about = {"event_payload": {"delivery_id": id}}
    return {"channel": f"{APPRISE}{name}", "text": top, "body": "\n".join(lines), "type": kind, "metadata": about}
