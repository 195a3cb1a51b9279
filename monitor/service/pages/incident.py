"""``/incidents/<id>``: one incident, everything that happened to it, and its messages as they were sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.pages.incidents import what_of
from monitor.story.label import story_lines


def make(context: PageContext) -> PageContent:
    """The incident of that id. Raises NotFound or Ambiguous for an unknown one."""
    incident = context.store.incident(context.text("id"))
    story = None if incident.is_of_monitor else teller(context).of_incident(incident)
    found = context.store.thread(incident.root) if incident.root else []
    values = {
        "incident": incident, "story": story, "events": context.store.incident_events(incident.id),
        "lines": [what_of(incident)] if story is None else story_lines(story), "text_of": text_of,
        # the message itself, then what followed by time
        "messages": sorted(found, key=lambda d: d.operation != "post"),
        "pages": [*(f"rules/{rule}" for rule in incident.rules), *(f"runbook/{name}" for name in incident.reasons)],
    }  # fmt: skip
    return PageContent("incident.html.j2", f"Incident: {incident.name}", values)


def text_of(payload: Mapping[str, Any]) -> str:
    """The text of a message as Slack got it, block by block; for a file, its title.

    >>> text_of({"text": "short", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "*billing*"}}]})
    '*billing*'
    >>> text_of({"text": "short"}), text_of({"title": "Reliability", "png": "..."})
    ('short', 'Reliability')
    """
    return "\n".join(_texts(payload.get("blocks"))) or str(payload.get("text") or payload.get("title") or "")


def _texts(part: Any) -> Iterator[str]:
    """Every text of a block, in order; that of a button stands in brackets."""
    if isinstance(part, list):
        yield from (text for each in part for text in _texts(each))
    elif isinstance(part, Mapping):
        for text in _texts([part.get("text"), part.get("fields"), part.get("elements")]):
            yield f"[{text}]" if part.get("type") == "button" else text
    elif isinstance(part, str):
        yield part


PAGE = Page("/incidents/{id}", make)
