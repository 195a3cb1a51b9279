"""What receivers beside Slack are told of an incident: that it calls somebody, and how it ends. In plain text.

They have no threads and no edits, so each notice says all of it, with the address of its page.
"""

from __future__ import annotations

from collections.abc import Sequence

from monitor.alerting.health.message import notice_lines
from monitor.alerting.slack.blocks import hashed
from monitor.alerting.slack.incident_message import Story
from monitor.alerting.slack.links import links_of
from monitor.alerting.slack.message import delivery_of
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import APPRISE, Delivery, Incident
from monitor.story.label import LabelStory, labels_words, story_lines

_KINDS = {"critical": "failure", "warning": "warning", "info": "info"}


def told(story: Story, incident: Incident) -> tuple[str, list[str]]:
    """(What is the matter, all that is told of it)."""
    if not isinstance(story, LabelStory):
        return story.title(incident), notice_lines(story)
    about = [labels_words(incident.labels)] if incident.labels else []
    return story.headline, [*about, story.known.removeprefix(": "), *story_lines(story)[1:]]


def messages_of(config: Config, incident: Incident) -> list[str]:
    """The ids of the first messages about an incident: in Slack, and of every receiver that may have been told."""
    return [*filter(None, [incident.root]), *(root_of(incident, name) for name in receivers(config))]


def receivers(config: Config) -> list[str]:
    """The receivers beside Slack that any route has."""
    return list(dict.fromkeys(each.apprise for each in config.routes if each.apprise is not None))


def root_of(incident: Incident, name: str) -> str:
    """The id of the first notice of an incident to a receiver, since it was opened or came back."""
    return hashed("apprise", name, incident.id, str(incident.reopened))


def notice(monitor: Monitor, incident: Incident, name: str, top: str, lines: Sequence[str], later: str) -> Delivery:
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
