"""The parts of Slack messages, within Slack's limits. Pure.

The limits are 50 blocks, 3,000 characters in a section, 150 in a header, and a total that Slack does not document
(17,700 characters of JSON were refused, 15,600 accepted). Text from the data (labels, errors) is escaped, so that it
can neither mention anybody nor format the message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from monitor.config.model import Route
from monitor.core.records import Incident, Severity
from monitor.core.wording import clean

EVENT_TYPE = "calmon_delivery"
SECTION = 2_900
HEADER = 150
FALLBACK = 3_000

DONE = ":large_green_circle:"
EMOJI: dict[Severity, str] = {
    "critical": ":red_circle:",
    "warning": ":large_yellow_circle:",
    "info": ":large_blue_circle:",
}
Payload = dict[str, Any]
Block = dict[str, Any]

_LOOK_ALIKE = str.maketrans({"*": "∗", "~": "∼", "`": "ʼ"})
_EDGE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")  # not between two letters or digits
_EMOJI = re.compile(r"(?<!\w):(?=[\w+'-]*[a-z]|100:|1234:|[+-]1:)[\w+'-]+:(?:skin-tone-\d:)?(?!\w)", re.IGNORECASE)
_MENTION = re.compile(r"(?:<[!@][^<>\s]+>\s*)+")
_MENTION_AT_END = re.compile(rf"\s*{_MENTION.pattern}\Z")


def escape(text: str) -> str:
    """Text for a ``mrkdwn`` field, shown as it is: nothing in it mentions, links, formats or becomes an emoji.

    Slack has no escape for its marks, so a mark that could begin or end something is replaced by a letter that looks
    alike. A `_` inside a word formats nothing and stays, so that usual names can be copied.

    >>> escape("<!channel> & `rm`"), escape("*a* ~b~ _c_ snake_case :tada: 12:30:45")
    ('&lt;!channel&gt; &amp; ʼrmʼ', '∗a∗ ∼b∼ ＿c＿ snake_case ːtadaː 12:30:45')
    """
    shown = text.translate(_LOOK_ALIKE)
    shown = _EMOJI.sub(lambda found: found[0].replace(":", "ː"), _EDGE.sub("＿", shown))
    return shown.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def with_code(text: str) -> str:
    """Text of this program for a ``mrkdwn`` field: it keeps its code marks, and has nothing from the data."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def cut(text: str, length: int) -> str:
    """The text, cut at ``length`` without leaving half of an escaped character behind."""
    return text if len(text) <= length else re.sub(r"&\w{0,4}$", "", text[: length - 1]) + "…"


def hashed(*parts: str) -> str:
    """An id of 32 letters, the same for the same parts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def link(url: str, text: str) -> str:
    """A link that shows ``text``. In an address nothing is a mark, so it stays as it is.

    >>> link("https://calmon.example.org/label/mail/_a_%20b", "_a_ b")
    '<https://calmon.example.org/label/mail/_a_%20b|＿a＿ b>'
    """
    return f"<{with_code(quote(url, safe=':/?&=#%~+,;@!$()*[]'))}|{escape(text)}>"


def plain(text: str) -> str:
    """Text from the data for a plain-text field, where Slack would still draw ``:an_emoji:``.

    >>> plain("<!here> :red_circle:")
    '‹!here› ːred_circleː'
    """
    return text.replace("<", "‹").replace(">", "›").replace(":", "ː").replace("`", "ʼ")


def header(text: str) -> Block:
    """The first line of a message, plain text."""
    return {"type": "header", "text": {"type": "plain_text", "text": cut(text, HEADER), "emoji": True}}


def section(text: str) -> Block:
    """A paragraph."""
    # verbatim: Slack itself must not turn "@here", "#general" or an address in a label into a link
    return {"type": "section", "text": {"type": "mrkdwn", "text": cut(text, SECTION), "verbatim": True}}


def context(text: str) -> Block:
    """A line in small print."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": cut(text, SECTION), "verbatim": True}]}


def without_mention(payload: Payload) -> Payload:
    """The payload without the end of its text and the paragraph that call people; what mentions nobody stays.

    >>> found = without_mention({"text": "fine <!here>", "blocks": [section("<!here>"), section("fine")]})
    >>> found["text"], len(found["blocks"])
    ('fine', 1)
    """
    blocks = payload.get("blocks") or ()
    kept = [each for each in blocks if not _MENTION.fullmatch(str((each.get("text") or {}).get("text")))]
    return payload | {"text": _MENTION_AT_END.sub("", payload["text"]), "blocks": kept or None}


def incident_buttons(incident: Incident, *others: Block) -> Block:
    """The buttons of a message about an incident that is not over: acknowledge, ``others``, silence."""
    ack = [] if incident.state == "acknowledged" else [button("incident_ack", "Acknowledge", incident.id, "primary")]
    silence = [
        button("incident_silence_day", "Silence for a day", incident.id),
        button("incident_silence_week", "Silence for a week", incident.id),
    ]
    return {"type": "actions", "block_id": f"incident:{incident.id}"[:250], "elements": [*ack, *others, *silence]}


def button(action: str, text: str, incident: str, style: str | None = None) -> Block:
    """A button; its value is the id of the incident that it is about."""
    made = {"type": "button", "action_id": action, "text": {"type": "plain_text", "text": text}, "value": incident}
    return made if style is None else made | {"style": style}


def post_of(
    channel: str,
    top: str,
    paragraphs: Sequence[str],
    id: str,
    *,
    footer: str = "",
    buttons: Sequence[Block] = (),
    push: str = "",
    mention: str | None = None,
    change: str | None = None,
) -> Payload:
    """A message: header, whom it calls, paragraphs, buttons, small print; ``push`` is what a phone shows first."""
    called = (mention or "").strip()
    if called and not _MENTION.fullmatch(called):  # not as the routes file has it (``<!subteam^S0123>``): plain text
        called = escape(clean(called))
    blocks = [*([header(top)] if top else []), *(section(each) for each in (called, *paragraphs) if each)]
    blocks += [*buttons, *([context(footer)] if footer else [])]
    text = f"{cut(push or top, FALLBACK - len(called))} {called}".strip()
    return {"channel": channel, "text": text, "blocks": blocks, "metadata": metadata(id, change)}


def metadata(id: str, change: str | None) -> dict[str, Any]:
    """``change`` is edit, numbers, news, call (news that mentions people) or repeat; a root has none."""
    named = {"delivery_id": id} | ({"change": change} if change else {})
    return {"event_type": EVENT_TYPE, "event_payload": named}


def message_of(
    incident: Incident,
    route: Route,
    id: str,
    *,
    top: str,
    push: str,
    paragraphs: Sequence[str],
    footer: str,
    buttons: Sequence[Block] | None = (),
) -> Payload:
    """The living message of an incident, as it is now. It mentions people as long as nobody has taken the incident.

    ``push`` is the text of a notification. ``buttons`` are those beside acknowledge and silence; None: a press of a
    button would not be answered.
    """
    over = not incident.is_open
    made = post_of(
        route.channel, f"{DONE} {top}" if over else top, paragraphs, id, footer=footer, push=push,
        buttons=[] if over or buttons is None else [incident_buttons(incident, *buttons)],
        mention=route.mention if incident.state == "open" else None,
    )  # fmt: skip
    return made | {"incidents": [incident.id]}  # stored with the message, not sent


def reply_of(
    incident: Incident,
    text: str,
    *,
    channel: str,
    root: str,
    id: Sequence[str],
    change: str,
    mention: str | None,
    push: str = "",
) -> Payload:
    """A reply in the thread of ``root``; ``id`` tells it apart from others there, ``push`` is what a phone shows."""
    name = hashed(id[0], root, *id[1:])
    made = post_of(channel, "", [text], name, push=push or text, mention=mention, change=change)
    return made | {"incidents": [incident.id]}


def edited(message: Payload, root: str, sequence: int) -> Payload:
    """The new content of a living message as the ``sequence``-th edit of ``root``."""
    return message | {"metadata": metadata(hashed("edit", root, str(sequence)), "edit")}
