"""What receivers beside Slack are told of an incident: that it calls somebody, and how it ends. In plain text.

They have no threads and no edits, so each notice says all of it, with the address of its page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from monitor.alerting.health.message import notice_lines
from monitor.alerting.slack.blocks import hashed
from monitor.alerting.slack.incident_message import Story
from monitor.alerting.slack.links import links_of
from monitor.alerting.slack.message import delivery_of
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core.records import APPRISE, Delivery, Incident
from monitor.incidents.life import IncidentDecision
from monitor.story.incident import reason_words
from monitor.story.label import LabelStory, labels_words, story_lines

Tell: TypeAlias = Callable[[Incident], Story | None]
_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


def calling(monitor: Monitor, tell: Tell, incident: Incident, route: Route | None, *, again: bool) -> list[Delivery]:
    """The notice of an open incident to the receiver of its route; with ``again`` also where it had one already."""
    if route is None or route.apprise is None or incident.state != "open":
        return []
    first = root_of(incident, route.apprise)
    is_told = _is_stored(monitor, first)
    story = tell(incident) if again or not is_told else None
    later = hashed(first, str(incident.version)) if is_told else ""
    return [] if story is None else [_notice(monitor, incident, route.apprise, *_told(story, incident), later)]


def ending(monitor: Monitor, tell: Tell, decision: IncidentDecision, incident: Incident) -> list[Delivery]:
    """The last notice of an incident, to everyone who had one since it was opened or came back."""
    names = [name for name in _receivers(monitor.config) if _is_stored(monitor, root_of(incident, name))]
    story = tell(incident) if names else None
    if story is None:
        return []
    top, lines = _told(story, incident)
    if isinstance(story, LabelStory):
        why = f": {decision.why}" if decision.why else ""
        lines = [f"{story.name} {reason_words(decision.reason)}{why}", story.automation]
    return [
        _notice(monitor, incident, name, f"Over: {top}", lines, hashed(root_of(incident, name), "end"))
        for name in names
    ]


def _told(story: Story, incident: Incident) -> tuple[str, list[str]]:
    """(What is the matter, all that is told of it)."""
    if not isinstance(story, LabelStory):
        return story.title(incident), notice_lines(story)
    about = [labels_words(incident.labels)] if incident.labels else []
    return story.headline, [*about, story.known.removeprefix(": "), *story_lines(story)[1:]]


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


def _notice(monitor: Monitor, incident: Incident, name: str, top: str, lines: Sequence[str], later: str) -> Delivery:
    """One notice; ``later`` is the id of one that follows the first."""
    first = root_of(incident, name)
    said = [f"{line[:1].upper()}{line[1:].removesuffix('.')}." for line in lines if line]
    links = links_of(monitor.settings)
    if incident.is_of_monitor:
        more = "calmon health" if links.dashboard is None else f"{links.dashboard.rstrip('/')}/monitor"
    else:
        more = links.label(incident.source, incident.label) or f"calmon incidents show {incident.id[:8]}"
    payload = {
        "channel": f"{APPRISE}{name}", "text": top, "body": "\n".join([*said, more]),
        "type": _KINDS[incident.severity] if incident.is_open else "success", "incidents": [incident.id],
    }  # fmt: skip
    return delivery_of(
        payload, kind="monitor" if incident.is_of_monitor else "incidents", now=monitor.clock(), id=later or first,
        operation="reply" if later else "post", root=first if later else None,
    )  # fmt: skip
