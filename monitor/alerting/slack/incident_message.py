"""What a message about an incident shows: the fields of its story, as Slack's blocks. Pure.

A message is read on a phone at any hour: what is the matter, what automation does, what to do. Everything else is on
the label's page, to which it links.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from monitor.alerting.health.message import MonitorStory, message_of_monitor
from monitor.alerting.slack.blocks import (
    DONE,
    EMOJI,
    Payload,
    button,
    escape,
    hashed,
    link,
    message_of,
    plain,
    reply_of,
    with_code,
)
from monitor.alerting.slack.links import Links
from monitor.config.model import Route
from monitor.core.records import BURST, Incident, IncidentReason
from monitor.core.wording import clean
from monitor.incidents.life import IncidentDecision
from monitor.story.incident import reason_words
from monitor.story.label import HEADLINES, LabelStory, labels_words, people_words, title_of

Story: TypeAlias = LabelStory | MonitorStory
WORDS = 60
"""Before the buttons: what is read on a phone without scrolling."""
NOTE_LENGTH = 300
_NO_LINKS = Links()


def incident_message(
    story: Story, incident: Incident, route: Route, links: Links = _NO_LINKS, *, again: str = ""
) -> Payload:
    """The living message of an incident, as it is now: for the post and, with another id, for each edit.

    Its id is the same for each composition; ``again``: why it is posted once more.
    """
    id = hashed("incident", incident.id, again)
    if not isinstance(story, LabelStory):
        return message_of_monitor(story, incident, route, id, links) | {"stages": story.stages}
    title, switch, url = title_of(story, incident), story.switch, links.label(incident.source, incident.label)
    more = link(url, "more") if url else f"`calmon explain {story.evidence[0][:8]}`" if story.evidence else ""
    footer = [escape(clean(incident.source)), incident.window, f"incident `{incident.id[:8]}`", more]
    buttons = []
    if switch is not None and not incident.labels and switch.enable_helps and switch.button is not None:
        off = switch.button == "on"
        what = ("automation_off", "Turn automation off") if off else ("automation_on", "Turn automation on")
        buttons = [button(*what, incident.id, "danger" if off else None)]
    made = message_of(
        incident, route, id, top=plain(title), footer=" · ".join(filter(None, footer)),
        push=" ".join(filter(None, (escape(f"{title}{story.known}."), _automation(story)))),
        paragraphs=("\n".join(_lines(story, incident)),), buttons=buttons,
    )  # fmt: skip
    return made | {"window": window_of(incident)}  # stored with the message, not sent


def window_of(incident: Incident) -> list[str]:
    """The window that a message is about, which is stored with it."""
    return ["weekly" if "-W" in incident.window else "daily", incident.window]


def _lines(story: LabelStory, incident: Incident) -> list[str]:
    """The text under the header, one line a thought; what matters least is left out where it would be too long."""
    mark = DONE if not incident.is_open else EMOJI[incident.severity]
    parts, left = _parts(story, incident), WORDS - len(title_of(story, incident).split())
    kept: set[int] = set()
    for rank, _, text in sorted(parts):
        left -= len(text.split())
        if left >= 0 or not kept:
            kept.add(rank)
    first = "; ".join(text for rank, of, text in parts if rank in kept and of == "first")
    lines = [f"{mark} {first}."] if first else []
    return lines + [text for rank, of, text in parts if rank in kept and of != "first"] or [mark]


def _parts(story: LabelStory, incident: Incident) -> list[tuple[int, str, str]]:
    """(What matters most has the lowest number, the line it is in, text), in the order in which they are read."""
    people = _sentence(people_words(incident))
    if incident.kind == BURST:
        about = [(0, "first", escape(labels_words(incident.labels)))]
        return [part for part in (*about, (3, "people", people), (1, "automation", _automation(story))) if part[2]]
    is_open, facts = incident.is_open, escape(story.facts)
    known = [
        (9, "first", escape(labels_words(incident.labels)) if incident.labels else ""),
        (0, "first", facts if is_open or not facts else f"It was: {facts}"),
        (4, "first", escape(story.since)),
        (8, "first", escape(story.where) if is_open else ""),
        (5, "doubt", _sentence(story.doubt) if is_open else ""),
        (7, "cause", f"*Cause:* {escape(story.cause)}." if is_open and story.cause else ""),
        (3, "people", people),
        (1, "automation", _automation(story)),
        (2, "now", f"*Now:* {with_code(story.do_now)}." if is_open and story.do_now else ""),
        (6, "next", f"*Next:* {with_code(story.next_step)}." if is_open and story.next_step else ""),
    ]
    return [part for part in known if part[2]]


def _sentence(text: str) -> str:
    return f"{escape(text[:1].upper() + text[1:])}." if text else ""


def _automation(story: LabelStory) -> str:
    return f"{escape(story.automation)}." if story.switch is not None else ""


def news_message(
    decision: IncidentDecision, story: LabelStory, *, mention: str | None = None, **thread: Any
) -> Payload:
    """The one line in the thread that says what a window, or a person's note, changed."""
    incident = decision.incident
    assert incident is not None  # noqa: S101 - what has no incident is not reported
    name = labels_words(incident.labels) if incident.labels else story.name
    if decision.reason is IncidentReason.NOTED:
        words = f"{clean(decision.actor)}: {clean(decision.why, NOTE_LENGTH)}"
    elif decision.reason is IncidentReason.OTHER_PROBLEM and story.diagnosis.problem and not incident.labels:
        words = f"{HEADLINES[story.diagnosis.problem].format(name=name)} now"  # the numbers are in the message
    else:
        words = f"{name} {reason_words(decision.reason)}"
        measured = story.facts if story.diagnosis.is_trouble else story.doubt
        words += f": {measured}" if measured and incident.is_open and not incident.labels else ""
        words += f" ({clean(decision.why, NOTE_LENGTH)})" if decision.why else ""
    when = f"*{incident.window}* " if decision.window is not None else ""
    mark = DONE if not incident.is_open else EMOJI[incident.severity]
    line = f"{mark} {when}{escape(words)}."
    switch = _automation(story) if decision.calls or not incident.is_open else ""
    made = reply_of(
        incident, f"{line} {switch}".strip(), push=line, mention=mention if decision.calls else None,
        id=("news", incident.window, decision.reason, incident.severity, incident.reason, decision.why),
        change="call" if decision.calls else "news", **thread,
    )  # fmt: skip
    return made | {"one_event": True, "window": window_of(incident)}


def repeat_message(story: Story, incident: Incident, *, number: int, **thread: Any) -> Payload:
    """The ``number``-th reminder to acknowledge an open incident, as a reply in the thread."""
    answers = isinstance(story, LabelStory) or story.answers_buttons
    top = escape(story.headline if isinstance(story, LabelStory) else story.title(incident))
    how = "Press *Acknowledge* above, or run" if answers else "Run"
    text = f"*Not acknowledged yet:* {top}.\n{how} `calmon incidents ack {incident.id[:8]}`."
    push = f"Not acknowledged yet: {top}"
    return reply_of(incident, text, push=push, id=("repeat", str(number)), change="repeat", **thread)
