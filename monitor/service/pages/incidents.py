"""``/incidents``: one row a label, source or trouble of the monitor, open ones first, with what people did.

``/incidents/<id>``: one incident, everything that happened to it, and its messages as they were sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from statistics import median
from typing import Any

from monitor.alerting.health.message import reasons_of
from monitor.core.records import SEVERITY_RANK, UNCHECKED, Incident
from monitor.report.csv_table import Table
from monitor.service.pages.base import Page, PageContent, PageContext, teller
from monitor.story.label import labels_words, story_lines

SPANS = {"13": 13, "26": 26, "52": 52, "156": 156}
Key = tuple[str, str | None]
_NO_STORIES: Mapping[Key, str] = {}


def make(context: PageContext) -> PageContent:
    """The incidents of the span, those that are open first."""
    weeks = SPANS[context.choice("weeks", SPANS, "52")]
    state = context.choice("state", ("all", "open", "resolved"), "all")
    severity = context.choice("severity", ("", *SEVERITY_RANK), "")
    known = context.store.unresolved_incidents(since=context.now - timedelta(weeks=weeks), of_monitor=None)
    # the story after the name of its label, which stands before it as a link
    stories = {
        (story.source, story.label): story.sentence.removeprefix(story.name).lstrip(": ")
        for story in teller(context).of_all()
    }
    source, label = context.text("source"), context.text("label").casefold()
    selected = [
        incident
        for incident in known
        if (state == "all" or incident.is_open == (state == "open"))
        and severity in ("", incident.severity)
        and source in ("", incident.source)
        and label in (incident.label or "").casefold()
    ]
    shown = sorted(selected, key=_place)
    rows: dict[str, list[Incident]] = {}  # of each subject and kind, in the order of the first: the newest one is first
    for incident in shown:
        rows.setdefault(incident.fingerprint, []).append(incident)
    values = {
        "rows": list(rows.values()), "summary": summary(shown), "what": partial(what_of, stories=stories),
        "spans": SPANS, "weeks": str(weeks), "state": state, "severity": severity, "severities": SEVERITY_RANK,
    }  # fmt: skip
    columns = (
        "id", "source", "label", "kind", "severity", "state", "opened_at", "opened_window", "acknowledged_by",
        "hours_to_acknowledge=acknowledged_after", "resolved_at", "resolved_by", "hours_to_resolve=resolved_after",
        "reopened", "reason=reasons",
    )  # fmt: skip
    tables = {"incidents": lambda: Table.of(shown, *columns)}
    return PageContent("incidents.html.j2", "Incidents", values, tables)


def _place(incident: Incident) -> tuple[bool, int, float, str]:
    severity = SEVERITY_RANK[incident.severity] if incident.is_open else 0
    return not incident.is_open, severity, -incident.opened_at.timestamp(), incident.name


def what_of(incident: Incident, stories: Mapping[Key, str] = _NO_STORIES) -> str:
    """What is the matter: the story of a label that has an open one, else the named reason."""
    if incident.is_of_monitor:
        return reasons_of(incident)
    if incident.labels:
        what = "no truth of what acts alone" if incident.kind == UNCHECKED else "many labels at once"
        return f"{what}: {labels_words(incident.labels)}"
    told = stories.get((incident.source, incident.label), "") if incident.is_open else ""
    return told or incident.reasons_words


def summary(incidents: Sequence[Incident]) -> Mapping[str, object]:
    """The numbers of incidents, and the median times until they were acknowledged and resolved."""
    acknowledged = [each.acknowledged_after for each in incidents if each.acknowledged_after is not None]
    resolved = [each.resolved_after for each in incidents if each.resolved_after is not None]
    return {
        "count": len(incidents),
        "open": sum(each.is_open for each in incidents),
        "acknowledged": len(acknowledged),
        "to_acknowledge": _median(acknowledged),
        "resolved": len(resolved),
        "to_resolve": _median(resolved),
        "reopened": sum(each.reopened > 0 for each in incidents),
    }


def _median(lengths: Sequence[timedelta]) -> timedelta | None:
    return timedelta(seconds=median(each.total_seconds() for each in lengths)) if lengths else None


def make_one(context: PageContext) -> PageContent:
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


PAGE = Page("/incidents", make, nav="Incidents", query=frozenset({"weeks", "state", "severity", "source", "label"}))
ONE = Page("/incidents/{id}", make_one)
