"""What a message about an incident shows: the fields of its story, as Slack's blocks. Pure.

A message is read on a phone at any hour: what is the matter, what automation does, what to do. Everything else is on
the label's page, to which it links.
"""

from __future__ import annotations

import base64

from monitor.alerting.slack.blocks import (
    DONE,
    EMOJI,
    FALLBACK,
    Block,
    Payload,
    button,
    context,
    cut,
    escape,
    hashed,
    header,
    incident_buttons,
    link,
    mention_block,
    mention_text,
    payload_of,
    plain,
    section,
    with_code,
)
from monitor.alerting.slack.links import Links
from monitor.config.model import Route
from monitor.core.records import BURST, Incident, IncidentReason
from monitor.core.wording import clean
from monitor.incidents.life import IncidentDecision
from monitor.story.incident import reason_words
from monitor.story.label import HEADLINES, LabelStory, labels_words, people_words

WORDS = 60
"""Before the buttons: what is read on a phone without scrolling."""
NOTE_LENGTH = 300
_NO_LINKS = Links()


def delivery_id(incident: Incident, again: str = "") -> str:
    """The id of an incident's message, the same for each composition; ``again``: why it is posted once more."""
    return hashed("incident", incident.id, again)


def incident_message(
    story: LabelStory, incident: Incident, route: Route, links: Links = _NO_LINKS, *, again: str = ""
) -> Payload:
    """The living message of an incident, as it is now: for the post and, with another id, for each edit."""
    over = not incident.is_open
    mention = route.mention if incident.state == "open" else None
    top = plain(story.headline)
    blocks = [header(f"{DONE} {top}" if over else top), *mention_block(mention)]
    blocks.append(section("\n".join(_lines(story, incident))))
    blocks += [] if over else [_buttons(story, incident)]
    blocks.append(context(_footer(story, incident, links)))
    push = " ".join(part for part in (escape(f"{story.sentence}."), _automation(story), mention_text(mention)) if part)
    payload = payload_of(route.channel, cut(push, FALLBACK), blocks, delivery_id(incident, again))
    # stored with the message, not sent
    return payload | {"incidents": [incident.id], "closed": bool(story.switch and not story.switch.enable_helps)}


def _lines(story: LabelStory, incident: Incident) -> list[str]:
    """The text under the header, one line a thought; what matters least is left out where it would be too long."""
    mark = DONE if not incident.is_open else EMOJI[incident.severity]
    kept = _most(_parts(story, incident), WORDS - _words(story.headline))
    first = "; ".join(text for of, text in kept if of == "first")
    lines = [f"{mark} {first}."] if first else []
    return lines + [text for of, text in kept if of != "first"] or [mark]


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


def _most(parts: list[tuple[int, str, str]], words: int) -> list[tuple[str, str]]:
    kept: set[int] = set()
    for rank, _, text in sorted(parts):
        words -= _words(text)
        if words >= 0 or not kept:
            kept.add(rank)
    return [(line, text) for rank, line, text in parts if rank in kept]


def _words(text: str) -> int:
    return len(text.split())


def _sentence(text: str) -> str:
    return f"{escape(text[:1].upper() + text[1:])}." if text else ""


def _automation(story: LabelStory) -> str:
    return "" if story.switch is None else f"{escape(story.switch.short or story.switch.words)}."


def _buttons(story: LabelStory, incident: Incident) -> Block:
    switch, others = story.switch, []
    if switch is not None and not incident.labels and switch.enable_helps:
        if switch.button == "on":
            others.append(button("automation_off", "Turn automation off", incident.id, "danger"))
        elif switch.button == "off":
            others.append(button("automation_on", "Turn automation on", incident.id))
    return incident_buttons(incident, *others)


def _footer(story: LabelStory, incident: Incident, links: Links) -> str:
    url = links.label(incident.source, incident.label)
    more = link(url, "more") if url else f"`calmon explain {story.evidence[0][:8]}`" if story.evidence else ""
    parts = [escape(clean(incident.source)), incident.window, f"incident `{incident.id[:8]}`", more]
    return " · ".join(part for part in parts if part)


def news_message(
    decision: IncidentDecision, story: LabelStory, *, channel: str, root: str, mention: str | None = None
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
    mention = mention if decision.calls else None
    line = f"{mark} {when}{escape(words)}."
    switch = _automation(story) if decision.calls or not incident.is_open else ""
    blocks = [*mention_block(mention), section(f"{line} {switch}".strip())]
    text = cut(f"{line} {mention_text(mention)}".strip(), FALLBACK)
    id = hashed("news", root, incident.window, decision.reason, incident.severity, incident.reason, decision.why)
    payload = payload_of(channel, text, blocks, id, "call" if decision.calls else "news")
    return payload | {"incidents": [incident.id], "calls": [incident.id] if decision.calls else [], "one_event": True}


def repeat_message(
    story: LabelStory, incident: Incident, *, channel: str, root: str, number: int, mention: str | None
) -> Payload:
    """The ``number``-th reminder to acknowledge an open incident, as a reply in the thread."""
    how = f"Press *Acknowledge* above, or run `calmon incidents ack {incident.id[:8]}`."
    blocks = [*mention_block(mention), section(f"*Not acknowledged yet:* {escape(story.headline)}.\n{how}")]
    text = cut(f"{escape(story.name)}: not acknowledged yet {mention_text(mention)}".strip(), FALLBACK)
    payload = payload_of(channel, text, blocks, hashed("repeat", root, str(number)), "repeat")
    return payload | {"incidents": [incident.id]}


def picture(png: bytes, story: LabelStory, *, window: str, channel: str, root: str, shows: str) -> tuple[str, Payload]:
    """(delivery id, payload) of the picture that goes into a living message's thread; ``shows`` says what it is."""
    id, name = hashed("picture", root), clean(story.name, 60)
    return id, {
        "channel": channel,
        "filename": f"calmon-{window}-{id}.png",
        "title": f"{name}, {window}",
        "alt": f"{shows} of {name}, {window}: {story.sentence}",
        "png": base64.b64encode(png).decode("ascii"),
    }
