"""``/incidents/<id>``: one incident, everything that happened to it, and its messages as they were sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from monitor.core import documents
from monitor.core.records import Incident
from monitor.core.wording import duration
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.service.pages.incidents import line_of, what_of
from monitor.story.incident import event_words, state_words
from monitor.story.label import story_lines

MESSAGES_SHOWN = 60


def make(context: PageContext) -> PageContent:
    """The incident of that id. Raises NotFound or Ambiguous for an unknown one."""
    incident = context.store.incident(context.text("id"))
    story = None if incident.is_of_monitor else teller(context).of_incident(incident)
    found = context.store.thread(incident.root) if incident.root else []
    thread = sorted(found, key=lambda d: d.operation != "post")  # the message itself, then what followed by time
    values = {
        "incident": incident, "about": incident.name, "story": story, "line": line_of(incident, {}),
        "events": context.store.incident_events(incident.id),
        "lines": [what_of(incident, {})] if story is None else story_lines(story), "duration": duration,
        "state_of": state_words, "event_words": event_words, "text_of": text_of,
        "messages": thread[-MESSAGES_SHOWN:], "earlier": max(0, len(thread) - MESSAGES_SHOWN),
        "pages": [name for name in _documents(incident) if name in documents.pages()],
    }  # fmt: skip
    return PageContent("incident.html.j2", f"Incident: {incident.name}", values)


def _documents(incident: Incident) -> Iterator[str]:
    yield from (f"rules/{rule}" for rule in incident.rules)
    yield from (f"runbook/{reason}" for reason in incident.reasons)


def text_of(payload: Mapping[str, Any]) -> str:
    """The text of a message as Slack got it, block by block; for a file, its title.

    >>> text_of({"text": "short", "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "*billing*"}}]})
    '*billing*'
    >>> text_of({"text": "short"}), text_of({"title": "Reliability", "png": "..."})
    ('short', 'Reliability')
    """
    found = [text for block in payload.get("blocks") or () for text in _texts(block)]
    return "\n".join(found) or str(payload.get("text") or payload.get("title") or "")


def _texts(block: Mapping[str, Any]) -> Iterator[str]:
    parts = [block.get("text"), *(block.get("fields") or ()), *(block.get("elements") or ())]
    for part in parts:
        inner = part.get("text") if isinstance(part, Mapping) else None
        inner = inner.get("text") if isinstance(inner, Mapping) else inner  # a button's text is an object of its own
        if isinstance(inner, str):
            yield f"[{inner}]" if isinstance(part, Mapping) and part.get("type") == "button" else inner


PAGE = Page("/incidents/{id}", make)
