"""What is said of a trouble of the monitor itself: one living message, its reminders, and its end. Pure.

Every sentence is computed from the findings and the switches of the time at which it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from monitor.alerts.blocks import EVENT_TYPE, Block, Payload, escape, link
from monitor.alerts.links import Links
from monitor.alerts.words import clean, count_of, moment
from monitor.automation.state import effective
from monitor.health.troubles import Trouble, is_trouble
from monitor.records import Incident, Severity, SwitchState
from monitor.watch import Finding, WatchReason

SECTION, HEADER, FALLBACK = 2_900, 150, 3_000
SHOWN, TO_DO = 8, 3
NAMES = 5
CLOSED = "Every gate is closed until somebody confirms the history: no label acts alone now."
DONE = ":large_green_circle:"
_EMOJI: Mapping[Severity, str] = {
    "critical": ":red_circle:", "warning": ":large_yellow_circle:", "info": ":large_blue_circle:",
}  # fmt: skip
_MENTION = re.compile(r"(?:<[!@][^<>\s]+>\s*)+")
_SECRETS = (
    re.compile(r"(?<=://)[^\s/]*:[^\s/]*(?=@)"),
    re.compile(r"\bxox[a-z]-[\w-]+|\bxapp-[\w-]+"),
    re.compile(r"(?i)(?<=password=)\S+|(?<=token=)\S+|(?<=secret=)\S+"),
)
_R = WatchReason
_TITLES: Mapping[WatchReason, str] = {
    _R.RUN_MISSING: "evaluations are missing", _R.RUN_FAILED: "an evaluation failed",
    _R.RUN_HUNG: "an evaluation does not end", _R.RUNS_WAITING: "runs wait", _R.FLOW_FAILED: "a flow fails",
    _R.WATCHDOG_SILENT: "the watchdog is silent", _R.HISTORY_RESTORED: "the history is not confirmed",
    _R.SOURCE_NOT_READ: "{} cannot be read",
    _R.DATA_STALE: "{} has no rows", _R.DATA_SMALL: "{} has few rows", _R.NOTHING_JUDGED: "nothing of {} was judged",
    _R.REJECTED_ROWS: "rows of {} were rejected", _R.SCORES_MOVED: "scores of {} moved",
    _R.DELIVERY_STUCK: "messages to {} wait", _R.DELIVERY_REFUSED: "Slack refused messages to {}",
    _R.LEASE_ENDING: "automation of {} is about to end", _R.LEASE_ENDED: "automation of {} ended",
    _R.TURNED_OFF: "automation of {} was turned off",
}  # fmt: skip
_ENDS: Mapping[Trouble, str] = {
    Trouble.NOT_RUNNING: "Back at work since {at}", Trouble.DATA: "Data of {subject}: nothing wrong since {at}",
    Trouble.HISTORY: "The history is confirmed since {at}",
    Trouble.SCORES: "Scores of {subject} can be compared again since {at}",
    Trouble.DELIVERY: "No message to {subject} waits since {at}",
    Trouble.AUTOMATION: "Automation of {subject}: no lease ends without an evaluation since {at}",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class View:
    """One incident of the monitor as a message shows it.

    ``findings`` are those of now (none: it is over), ``automation`` is :func:`automation_now`, ``since`` when it was
    over, ``gone``: its source is no longer in alerts.yaml.
    """

    incident: Incident
    findings: Sequence[Finding]
    automation: str
    now: datetime
    since: datetime | None = None
    gone: bool = False
    repeat: timedelta | None = None

    @property
    def title(self) -> str:
        """What is wrong, in a few words; of what is over, since when."""
        if self.incident.state == "resolved":
            return end_of(self)
        reason = self.findings[0].reason.value if self.findings else self.incident.reason.partition(",")[0]
        return f"Monitor: {_TITLES[WatchReason(reason)].format(clean(self.incident.source))}"


def end_of(view: View) -> str:
    """How a trouble ended, in one sentence without its full stop."""
    at, subject = moment(view.since or view.incident.resolved_at or view.now), clean(view.incident.source)
    if view.gone:
        return f"alerts.yaml has no source {subject} any more (seen {at})"
    trouble = next(each for each in Trouble if is_trouble(view.incident, each))
    return _ENDS[trouble].format(subject=subject, at=at)


def automation_now(switches: Iterable[SwitchState], now: datetime, source: str = "") -> str:
    """What may act alone at ``now``, and what has ended by itself: of one source, or ("") of all.

    >>> from datetime import UTC
    >>> noon = datetime(2026, 11, 16, 12, tzinfo=UTC)
    >>> on = SwitchState("tickets", "billing", "on", lease_until=noon + timedelta(hours=30))
    >>> automation_now([on], noon)
    'Automation is on for 1 label; without an evaluation it ends 2026-11-17 18:00 UTC.'
    >>> automation_now([on], noon + timedelta(days=2))
    'No label acts alone now: automation of 1 label ended with its lease, at 2026-11-17 18:00 UTC.'
    >>> automation_now([], noon)
    'No label acts alone now.'
    """
    known = list(switches)
    whole = {state.source: state for state in known if state.label is None}
    mine = [state for state in known if state.label is not None and source in ("", state.source)]
    found = [(state, effective(state, now, whole=whole.get(state.source))) for state in mine]
    ends = sorted(allowed.until for _, allowed in found if allowed.allowed and allowed.until is not None)
    over = sorted(
        s.lease_until for s in mine
        if s.state == "on" and s.lease_until and s.lease_until <= now and not _is_off(whole.get(s.source))
    )  # fmt: skip
    ended = f"automation of {count_of(len(over), 'label')} ended with its lease" if len(over) == 1 else (
        f"automation of {count_of(len(over), 'label')} ended with their leases"
    )  # fmt: skip
    last = f"{', the last' if len(set(over)) > 1 else ','} at {moment(over[-1])}" if over else ""
    if not ends:
        return f"No label acts alone now: {ended}{last}." if over else "No label acts alone now."
    when = moment(ends[0]) if ends[0] == ends[-1] else f"between {moment(ends[0])} and {moment(ends[-1])}"
    on = f"Automation is on for {count_of(len(ends), 'label')}; without an evaluation it ends {when}."
    return f"{on} {ended[0].upper()}{ended[1:]}{last}." if over else on


def _is_off(whole: SwitchState | None) -> bool:
    """Whether a source's own switch is off: then it is not by their leases that its labels are."""
    return whole is not None and whole.state == "off"


def living_message(view: View, *, channel: str, mention: str | None, links: Links) -> Payload:
    """The message of an incident as it is now: the post, and with another id each edit."""
    over = view.incident.state == "resolved"
    blocks = [_header(f"{DONE} {view.title}" if over else view.title)]
    blocks += _mention_block(mention) if view.incident.state == "open" else []
    blocks += _over(view) if over else _under_way(view, links)
    told = " ".join(escape(redacted(finding.text)) for finding in view.findings[:SHOWN])
    text = " ".join(part for part in (f"{escape(view.title)}{'' if over else f': {told}'}", _mention(mention)) if part)
    payload = _payload(channel, text, blocks, _hash("watch", view.incident.id, str(view.incident.version)))
    # kept beside, not sent
    return payload | {"incidents": [view.incident.id], "shows": _hash(json.dumps(blocks[:-1])), "stages": stages(view)}


def edited(payload: Payload, root: str, sequence: int) -> Payload:
    """A living message as it is to stand from now on: the ``sequence``-th edit of ``root``."""
    return payload | {"metadata": _metadata(_hash("edit", root, str(sequence)), "edit")}


def reminder(view: View, *, channel: str, root: str, number: int, mention: str | None) -> Payload:
    """The ``number``-th call for somebody to acknowledge, as a reply in the thread."""
    lines = [f"*Not acknowledged yet: {escape(view.title)}*", *_findings(view.findings, None), _automation(view)]
    lines.append(_how_to_end(view.incident))
    return _reply(view, lines, channel, _hash("repeat", root, str(number)), "repeat", mention)


def news(view: View, findings: Sequence[Finding], *, channel: str, root: str, mention: str | None) -> Payload:
    """A reply that says what is new in a trouble that goes on, or that it is back; with a mention it calls."""
    back = view.incident.reopened and not findings
    top = f"It is back: {escape(view.title)}" if back else f"New: {escape(view.title)}"
    lines = [f"*{top}*", *_findings(findings or view.findings, None), _automation(view)]
    id = _hash("news", root, str(view.incident.version), *(stage_of(finding) for finding in findings))
    return _reply(view, lines, channel, id, "call" if mention else "news", mention)


def back(view: View, *, channel: str, root: str) -> Payload:
    """The one reply that says that it is over."""
    lines = [f"{DONE} *{escape(view.title)}.*", *_was(view), _automation(view)]
    return _reply(view, lines, channel, _hash("back", root, str(view.incident.version)), "news", None)


def stage_of(finding: Finding) -> str:
    """What is told once in a thread: the first and the last warning of a lease, and its end."""
    return f"{finding.reason.value}:{finding.severity}:{finding.source}"


def stages(view: View) -> list[str]:
    """The stages that a message shows."""
    return sorted({stage_of(finding) for finding in view.findings if finding.until is not None})


def _under_way(view: View, links: Links | None) -> list[Block]:
    blocks = [_section("\n".join(_findings(view.findings, links)))] if view.findings else []
    blocks += [_section(_automation(view)), *_to_do(view)]
    blocks += [_section(f"*{escape(state)}*")] if (state := _state(view)) else []
    return [*blocks, _buttons(view.incident), _context(_footer(view))]


def _to_do(view: View) -> list[Block]:
    do = [_with_code(each) for each in dict.fromkeys(finding.do_now for finding in view.findings)][:TO_DO]
    if not do:
        return []
    return [_section(f"*Do now:* {do[0]}" if len(do) == 1 else "\n".join(["*Do now:*", *(f"• {each}" for each in do)]))]


def _over(view: View) -> list[Block]:
    return [_section("\n".join(_was(view))), _section(_automation(view)), _context(_footer(view))]


def _was(view: View) -> list[str]:
    incident = view.incident
    names = ", ".join(reason.replace("_", " ") for reason in incident.reason.split(", "))
    end = view.since or incident.resolved_at or view.now
    return [
        f"It was: {names}, from {moment(incident.opened_at)} to {moment(end)} ({_length(end - incident.opened_at)})."
    ]


def _length(span: timedelta) -> str:
    minutes = max(int(span.total_seconds()) // 60, 0)
    days, hours = minutes // 1440, minutes % 1440 // 60
    return f"{days} d {hours} h" if days else f"{hours} h {minutes % 60} min"


def _findings(findings: Sequence[Finding], links: Links | None) -> list[str]:
    lines = [
        f"{_EMOJI[f.severity]} {escape(redacted(f.text))}{_runbook(f, links)}" for f in findings[:SHOWN]
    ]  # fmt: skip
    more = len(findings) - SHOWN
    return [*lines, f"and {more} more: `calmon health` lists all"] if more > 0 else lines


def _runbook(finding: Finding, links: Links | None) -> str:
    page = f"docs/runbook/{finding.reason.value}.md"
    url = links.runbook(finding.reason.value) if links is not None else None
    return f" {link(url, 'runbook')}" if url else f" (`{page}`)"


def _automation(view: View) -> str:
    return f"*Automation:* {escape(view.automation)}"


def _state(view: View) -> str:
    incident = view.incident
    if incident.state == "acknowledged" and incident.acknowledged_at is not None:
        by = clean(incident.acknowledged_by or "somebody")
        return f"Acknowledged by {by} at {moment(incident.acknowledged_at)}: no more reminders"
    if incident.state == "silenced" and incident.silenced_until is not None:
        return f"Silenced until {moment(incident.silenced_until)} by {clean(incident.silenced_by or 'somebody')}"
    if incident.ok_windows:
        return (
            f"Not seen since {moment(incident.last_window_start)}; it kept coming back, so it ends after 6 quiet hours"
        )
    return ""


def _how_to_end(incident: Incident) -> str:
    return f"Press *Acknowledge* above, or write `calmon incidents ack {incident.id[:8]}`: that ends these reminders."


def _footer(view: View) -> str:
    id = view.incident.id[:8]
    return f"since {moment(view.incident.opened_at)} · incident `{id}` · as of {moment(view.now)}"


def _buttons(incident: Incident) -> Block:
    elements = []
    if incident.state in ("open", "silenced"):
        elements.append(_button("incident_ack", "Acknowledge", incident) | {"style": "primary"})
    elements.append(_button("incident_silence_day", "Silence for a day", incident))
    elements.append(_button("incident_silence_week", "Silence for a week", incident))
    return {"type": "actions", "block_id": f"incident:{_hash(incident.id)[:16]}", "elements": elements}


def _button(action: str, text: str, incident: Incident) -> dict[str, Any]:
    return {
        "type": "button", "action_id": action, "text": {"type": "plain_text", "text": text}, "value": incident.id,
    }  # fmt: skip


def _reply(view: View, lines: Sequence[str], channel: str, id: str, change: str, mention: str | None) -> Payload:
    text = " ".join([*lines, _mention(mention)]).strip()
    blocks = [*_mention_block(mention), _section("\n".join(lines))]
    return _payload(channel, text, blocks, id, change) | {"incidents": [view.incident.id], "stages": stages(view)}


def redacted(text: str) -> str:
    """Foreign text without secrets and unprintable characters."""
    for pattern in _SECRETS:
        text = pattern.sub("***", text)
    return "".join(c for c in text if c.isprintable() or c == "\n")


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def _payload(channel: str, text: str, blocks: list[Block], id: str, change: str | None = None) -> Payload:
    return {"channel": channel, "text": _cut(text, FALLBACK), "blocks": blocks, "metadata": _metadata(id, change)}


def _metadata(id: str, change: str | None) -> dict[str, Any]:
    return {
        "event_type": EVENT_TYPE, "event_payload": {"delivery_id": id} | ({"change": change} if change else {}),
    }  # fmt: skip


def _with_code(text: str) -> str:
    """Our own sentences keep their code marks; they hold nothing that came from data."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mention(mention: str | None) -> str:
    if not mention:
        return ""
    return mention.strip() if _MENTION.fullmatch(mention.strip()) else escape(clean(mention))


def _mention_block(mention: str | None) -> list[Block]:
    return [_section(_mention(mention))] if mention else []


def _cut(text: str, length: int) -> str:
    """The text, cut at ``length`` without leaving half of an escaped character behind."""
    return text if len(text) <= length else re.sub(r"&\w{0,4}$", "", text[: length - 1]) + "…"


def _header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": _cut(text, HEADER), "emoji": True}}


def _section(text: str) -> Block:
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, SECTION), "verbatim": True}}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": _cut(text, SECTION), "verbatim": True}]}
