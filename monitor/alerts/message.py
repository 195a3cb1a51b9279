"""What a Slack message says. Pure: findings in, a payload for ``chat.postMessage`` out.

Slack's bounds shape it: 50 blocks, 3,000 characters a section, 150 a header, and a total that Slack
does not document (17,700 characters of JSON were seen refused, 15,600 accepted). Whatever comes from
the data (labels, errors) is escaped, so that it can neither mention anybody nor format the message.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args
from urllib.parse import quote

from monitor.alerts.words import LABEL_LENGTH, advice, clean, count_of, news, percent, plain_words, standing, title
from monitor.records import (
    Action,
    Delivery,
    DeliveryKind,
    Incident,
    IncidentEvent,
    Interval,
    Operation,
    Severity,
    Verdict,
    Window,
)
from monitor.redaction import without_secrets
from monitor.rules.model import Route, Rule

__all__ = [
    "Finding", "WorstRange", "advice", "delivery_id", "delivery_of", "edited_message", "escape", "in_order",
    "incident_message",
    "mark_possible_repeat", "monitor_failed_message", "news_message", "picture", "plain_words", "repeat_message",
    "trial_message",
]  # fmt: skip

EVENT_TYPE = "calmon_delivery"
IN_FULL = 8  # each takes five blocks of Slack's fifty
BLOCKS_JSON = 12_000
SECTION = 2_900
HEADER = 150
FALLBACK = 3_000
ERROR_LENGTH = 1_500

_RANK = {"critical": 0, "warning": 1, "info": 2}
_STATES = {"acknowledged": ":eyes:", "silenced": ":mute:", "resolved": ":white_check_mark:"}
DONE = ":large_green_circle:"
_EMOJI = {"critical": ":red_circle:", "warning": ":large_yellow_circle:", "info": ":large_blue_circle:"}
_MENTION = re.compile(r"(?:<[!@][^<>\s]+>\s*)+")
_WHAT_A_FAILURE_MEANS = "This run may have judged nothing; a switch that is on stays on until its lease ends."
_AFTER_A_FAILURE = (
    "*Do now:* read the log of the run, mend what it names, and run the same again, from Prefect's page or in a "
    "terminal (`calmon run weekly`, `calmon run daily`): it picks up where it stopped."
)

_TURN_ON = (
    "See that the cause is mended, then turn automation on: this button, or `calmon automation enable`. "
    "It comes back by itself only where `re_enable` says so."
)

Payload = dict[str, Any]
Block = dict[str, Any]


class WorstRange(NamedTuple):
    """The score range (low, high] that is most wrong; ``gap`` is hit rate minus mean score."""

    low: float
    high: float
    n: int
    gap: float


@dataclass(frozen=True, slots=True)
class Finding:
    """One incident of a message with the verdict that opened it and what is known around it.

    ``switch_state`` is a phrase like "automation off since 2026-11-16 06:00 UTC"; ``excess_errors``
    how many more of the automated items were wrong than the scores promised; ``causes`` what may be
    behind it; ``last`` what happened to the incident last; ``automation`` what its switch says now
    (None: there is nothing to turn off or on).
    """

    verdict: Verdict
    incident: Incident
    rule: Rule | None = None
    baseline_interval: Interval | None = None
    switch_state: str = ""
    excess_errors: float | None = None
    worst: WorstRange | None = None
    causes: tuple[str, ...] = ()
    last: IncidentEvent | None = None
    automation: Literal["on", "off"] | None = None


def delivery_id(channel: str, window: Window, incident_ids: Sequence[str]) -> str:
    """The same for the same channel, window and incidents in any order: what makes a message go out once."""
    return _hash("incidents", channel, window.schedule, window.start.isoformat(), *sorted(incident_ids))


def _hash(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def escape(text: str) -> str:
    """Text for a ``mrkdwn`` field: no mention, link, or code mark of its own can come out of it.

    >>> escape("<!channel> & `rm`")
    '&lt;!channel&gt; &amp; ʼrmʼ'
    """
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "ʼ")


def incident_message(
    findings: Sequence[Finding],
    *,
    window: Window,
    route: Route,
    public_url: str | None = None,
    actions: Sequence[Action] = (),
) -> Payload:
    """The living message of all incidents that one evaluation opened on one route, as they are now.

    Returns ``{channel, text, blocks, metadata}``; raises ValueError without a finding. Critical
    findings come first, then those with the most wrong items, and what is resolved last; past eight
    (or when Slack's bounds are near) the rest get one line each.
    """
    if not findings:
        raise ValueError("a message needs at least one finding")
    ordered = in_order(findings)
    top = _headline(ordered, window)
    blocks = _opening(top, window, route.mention)
    told = 0
    for finding in ordered[:IN_FULL]:
        block = _finding_blocks(finding, window, public_url, actions)
        if told and _size(blocks) + _size(block) > BLOCKS_JSON - SECTION:
            break
        blocks += block
        told += 1
    blocks += _the_rest(ordered[told:])
    text = "\n".join([_mention(route.mention), top, *(_line(f) for f in ordered)]).strip()
    ids = [finding.incident.id for finding in findings]
    return _payload(route.channel, _cut(text, FALLBACK), blocks, delivery_id(route.channel, window, ids))


def edited_message(message: Payload, root: str, sequence: int) -> Payload:
    """A living message as it is to stand from now on: the ``sequence``-th edit of ``root``."""
    return message | {"metadata": _metadata(_hash("edit", root, str(sequence)), "edit")}


def news_message(
    lines: Sequence[str],
    *,
    window: Window,
    channel: str,
    root: str,
    changes: Sequence[str],
    mention: str | None = None,
    calls: bool = False,
) -> Payload:
    """The reply in a living message's thread that tells what one evaluation changed.

    ``lines`` are :func:`news_line`; ``changes`` name them (incident and version), so that the same news
    makes one reply. Where something came back it ``calls``: the ``mention`` is in it.
    """
    top = f"{window.name}: what is new"
    blocks = [_section(part) for part in _sections([f"*{escape(top)}*", *lines])]
    mention = mention if calls else None
    text = _cut(" ".join([_mention(mention), escape(top), *lines]).strip(), FALLBACK)
    id = _hash("news", root, window.schedule, window.start.isoformat(), *sorted(changes))
    return _payload(channel, text, [*_mention_block(mention), *blocks], id, "call" if calls else "news")


def news_line(finding: Finding, verdict: Verdict | None) -> str:
    """One incident in a reply: what happened to it, and what this evaluation saw (``verdict``)."""
    why = "" if finding.last is None else clean(str(finding.last.detail.get("why", "")), 300)
    seen = plain_words(verdict) if verdict is not None else why or plain_words(finding.verdict)
    what = news(finding.incident, finding.last)
    return _cut(f"{_emoji(finding)} *{escape(_rule_name(finding))}*: {escape(what)}\n{escape(seen)}", SECTION - 100)


def repeat_message(
    findings: Sequence[Finding], *, window: str, channel: str, root: str, number: int, mention: str | None
) -> Payload:
    """The ``number``-th call for somebody to acknowledge what is still open, as a reply in the thread."""
    waiting = [f for f in in_order(findings) if f.incident.state == "open"]
    top = f"Not acknowledged yet: {count_of(len(waiting), 'finding')} of {window}"
    lines = [f"• {_line(finding)}" for finding in waiting]
    last = "Press *Acknowledge* or *Silence* above, or write `calmon incidents ack ID`; that ends these reminders."
    blocks = [*_mention_block(mention), *map(_section, _sections([f"*{escape(top)}*", *lines, last]))]
    text = _cut(" ".join([_mention(mention), escape(top), *lines]).strip(), FALLBACK)
    return _payload(channel, text, blocks, _hash("repeat", root, str(number)), "repeat")


def picture(
    png: bytes, finding: Finding, *, window: Window, channel: str, root: str, shows: str
) -> tuple[str, Payload]:
    """(delivery id, payload) of the picture that goes into a living message's thread; ``shows`` says what it is."""
    id = _hash("picture", root)
    name = clean(finding.verdict.subject.name, 60)
    return id, {
        "channel": channel, "filename": f"calmon-{window.name}-{id}.png", "title": f"{name}, {window.name}",
        "alt": f"{shows} of {name}, {window.name}: {plain_words(finding.verdict)}",
        "png": base64.b64encode(png).decode("ascii"),
    }  # fmt: skip


def trial_message(channel: str, severity: Severity, by: str, now: datetime, mention: str | None = None) -> Payload:
    """A message that says it is a test; each one is another. The mention is named, not used: nobody is called."""
    top = f"Test of calmon: a {severity} incident would be told here"
    who = f" It would mention {escape(mention)}." if mention else ""
    what = f"Sent by {escape(clean(by))} at {now:%Y-%m-%d %H:%M} UTC. Nothing is wrong.{who}"
    id = _hash("test", channel, severity, by, now.isoformat())
    return _payload(channel, f"{top}. {what}", [_header(top), _section(what)], id)


def monitor_failed_message(
    flow: str,
    error: str,
    when: datetime,
    *,
    channel: str,
    run: str | None = None,
    url: str | None = None,
    mention: str | None = None,
) -> Payload:
    """The message that the *monitor* failed: nobody is being watched over until it runs again.

    ``run`` identifies the failed run, so that two hooks of one run make one message. Passwords in
    addresses and Slack tokens are blotted out of ``error``.
    """
    top = f"The calibration monitor itself failed: {clean(flow)}"
    stamp = when.strftime("%Y-%m-%d %H:%M %Z").strip()
    told = _cut(escape(_cut(_redact(error), ERROR_LENGTH)), SECTION - 10)
    what = f":warning: *{escape(top)}*\nAt {stamp}. {_WHAT_A_FAILURE_MEANS}"
    blocks = [_header(f"Monitor failed: {clean(flow)}"), *_mention_block(mention)]
    blocks += [_section(what), _section(f"```{told}```"), _section(_AFTER_A_FAILURE)]
    if url:
        blocks.append(_context(_link(url, "the run")))
    text = f"{_mention(mention)} {escape(top)} ({stamp}): {told}".strip()
    return _payload(channel, _cut(text, FALLBACK), blocks, _hash("monitor", channel, flow, run or when.isoformat()))


def delivery_of(
    payload: Payload,
    *,
    kind: str,
    now: datetime,
    operation: Operation = "post",
    root: str | None = None,
    sequence: int = 0,
    id: str | None = None,
) -> Delivery:
    """The pending delivery of a payload; its id is the one in the payload's metadata unless given."""
    if kind not in get_args(DeliveryKind):
        raise ValueError(f"{kind!r} is not a kind of delivery")
    return Delivery(
        id=id or payload["metadata"]["event_payload"]["delivery_id"], kind=kind, channel=payload["channel"],  # type: ignore[arg-type]  # checked above
        payload=payload, created_at=now, next_attempt_at=now, operation=operation, root=root, sequence=sequence,
    )  # fmt: skip


def mark_possible_repeat(payload: Mapping[str, Any]) -> Payload:
    """The payload, saying that it may be there already (nobody could look).

    >>> mark_possible_repeat({"channel": "#c", "text": "hello", "blocks": []})["text"]
    '(possible repeat) hello'
    """
    note = _context("Possible repeat: an earlier attempt got no answer, and the channel's history could not be read.")
    marked = dict(payload) | {"text": f"(possible repeat) {payload.get('text', '')}"}
    return marked | {"blocks": [note, *payload["blocks"]]} if payload.get("blocks") else marked


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """As a message tells them: critical ones first, then those with the most wrong items, resolved ones last."""
    return sorted(findings, key=_order)


def _order(finding: Finding) -> tuple[bool, int, float, str, str, str]:
    verdict = finding.verdict
    return (
        finding.incident.state == "resolved", _RANK[verdict.severity], -(finding.excess_errors or 0.0),
        verdict.subject.source, verdict.subject.label or "", verdict.rule,
    )  # fmt: skip


def _headline(findings: Sequence[Finding], window: Window) -> str:
    states = Counter(f.incident.state for f in findings)
    if states["resolved"] == len(findings):
        all_of = "resolved" if len(findings) == 1 else f"all {len(findings)} resolved"
        return f"{DONE} Calibration {window.name}: {all_of}"
    critical = sum(f.verdict.severity == "critical" and f.incident.state != "resolved" for f in findings)
    parts = [count_of(len(findings), "finding"), f"{critical} critical" if critical else ""]
    parts += [f"{states[state]} {state}" for state in ("acknowledged", "silenced", "resolved") if states[state]]
    return f"Calibration {window.name}: {', '.join(part for part in parts if part)}"


def _opening(top: str, window: Window, mention: str | None) -> list[Block]:
    span = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    return [_header(top), *_mention_block(mention), _context(f"{window.schedule} evaluation of {window.name} ({span})")]


def _finding_blocks(finding: Finding, window: Window, public_url: str | None, actions: Sequence[Action]) -> list[Block]:
    verdict = finding.verdict
    state = standing(finding.incident, verdict, finding.last)
    if not state and finding.incident.opened_window != window.name:  # it joined the message later
        state = f"Since {finding.incident.opened_window}"
    headline = f"*{_emoji(finding)} {escape(plain_words(verdict))}*"
    if finding.incident.state == "resolved":
        name = escape(_rule_name(finding))
        told = f"{_emoji(finding)} *{escape(state)}.* {name}, last breach: {escape(plain_words(verdict))}"
        return [_divider(), _section(told), *_left_off(finding)]
    facts = [headline, *([f"*{escape(state)}*"] if state else []), _numbers(finding)]
    facts += [line for line in (_worst(finding), _excess(finding), _causes(finding)) if line]
    doing = [f"*Done:* {escape(_done(finding, actions))}", f"*Do now:* {_with_code(_do_now(finding))}"]
    links = [_report(window, public_url), _runbook(verdict, public_url), f"`calmon explain {escape(verdict.id)}`"]
    return [
        _divider(), _section("\n".join(facts)), _section("\n".join(doing)),
        _context(" · ".join(link for link in links if link)), _buttons(finding),
    ]  # fmt: skip


def _left_off(finding: Finding) -> list[Block]:
    """What a resolved incident leaves behind: automation that went off by its rule is off until it is turned on."""
    if finding.automation != "off" or finding.rule is None or not finding.rule.acts:
        return []
    told = f"*Still:* {escape(clean(finding.switch_state, 300))}\n*Do now:* {_with_code(_TURN_ON)}"
    return [_section(told), _actions(finding, [_button("automation_on", "Turn automation on", finding)])]


def _do_now(finding: Finding) -> str:
    """What to do: by the last breach, unless the label has disappeared since, which nothing but a person ends."""
    last = finding.last
    if last is not None and last.kind == "continued" and last.reason.startswith("label disappeared"):
        id = finding.incident.id[:8]
        gone = f'If it is gone for good: `calmon incidents resolve {id} --reason "..."`.'
        return f"See whether outcomes of this label still reach the warehouse. {gone}"
    return advice(finding.verdict)


def _emoji(finding: Finding) -> str:
    return _STATES.get(finding.incident.state, _EMOJI[finding.verdict.severity])


def _rule_name(finding: Finding) -> str:
    return f"{clean(finding.verdict.subject.name, 2 * LABEL_LENGTH)}, {finding.verdict.rule}"


def _buttons(finding: Finding) -> Block:
    """What a person may do with the incident where it stands; the handler asks again whether they may."""
    state, elements = finding.incident.state, []
    if state in ("open", "silenced"):
        elements.append(_button("incident_ack", "Acknowledge", finding, "primary"))
    elements.append(_button("incident_silence_day", "Silence for a day", finding))
    elements.append(_button("incident_silence_week", "Silence for a week", finding))
    if finding.automation == "on":
        elements.append(_button("automation_off", "Turn automation off", finding, "danger"))
    if finding.automation == "off":
        elements.append(_button("automation_on", "Turn automation on", finding))
    return _actions(finding, elements)


def _actions(finding: Finding, elements: list[dict[str, Any]]) -> Block:
    return {"type": "actions", "block_id": f"incident:{_hash(finding.incident.id)[:16]}", "elements": elements}


def _button(action: str, text: str, finding: Finding, style: str | None = None) -> dict[str, Any]:
    button = {
        "type": "button", "action_id": action, "text": {"type": "plain_text", "text": text},
        "value": finding.incident.id,
    }  # fmt: skip
    return button if style is None else button | {"style": style}


def _causes(finding: Finding) -> str:
    if not finding.causes:
        return ""
    return f"*Likely causes:* {escape('; '.join(clean(cause, 300) for cause in finding.causes))}."


def _numbers(finding: Finding) -> str:
    """The numbers in one line: value with interval, baseline, change, n, what could have been seen."""
    verdict = finding.verdict
    parts = [
        f"{escape(clean(verdict.subject.name, 2 * LABEL_LENGTH))}, rule {escape(verdict.rule)} ({verdict.severity})"
    ]
    parts.append(f"{title(verdict.metric)} {_measured(verdict.value, verdict.low, verdict.high)}{_population(verdict)}")
    if verdict.baseline is not None:
        known = finding.baseline_interval
        parts.append(
            f"baseline {_measured(verdict.baseline, known.low if known else None, known.high if known else None)}"
        )
    if verdict.change is not None:
        parts.append(f"change {_measured(verdict.change, verdict.change_low, verdict.change_high, sign='+')}")
    parts.append(f"threshold {verdict.threshold:g}")
    pooled = f" of {verdict.windows} windows pooled" if verdict.windows > 1 else ""
    parts.append(f"n = {verdict.n:,}{pooled}")
    if verdict.detectable is not None:
        parts.append(f"detectable change {verdict.detectable:.3f}")
    if verdict.p_adjusted is not None:
        parts.append(f"adjusted p {verdict.p_adjusted:.2g}")
    return " · ".join(parts)


def _measured(value: float | None, low: float | None, high: float | None, *, sign: str = "") -> str:
    if value is None:
        return "unknown"
    told = format(value, f"{sign}.3f")
    return (
        told if low is None or high is None else f"{told} ({format(low, f'{sign}.3f')} to {format(high, f'{sign}.3f')})"
    )


def _population(verdict: Verdict) -> str:
    return "" if verdict.where == "all" else f" on {verdict.where} rows"


def _worst(finding: Finding) -> str:
    worst = finding.worst or _worst_of(finding.verdict)
    if worst is None:
        return ""
    direction = "less" if worst.gap < 0 else "more"
    off = percent(abs(worst.gap)).replace("%", " points")
    where = f"the score is {worst.low:.2f} to {worst.high:.2f}"
    return f"Worst where {where}: right {off} {direction} often than promised (n = {worst.n:,})"


def _worst_of(verdict: Verdict) -> WorstRange | None:
    detail = verdict.detail
    if detail.get("worst_range") is None or detail.get("worst_gap") is None:
        return None
    low, high = detail["worst_range"]
    return WorstRange(low, high, int(detail.get("worst_n", 0)), detail["worst_gap"])


def _excess(finding: Finding) -> str:
    if finding.excess_errors is None or finding.excess_errors < 0.5:
        return ""
    own = finding.verdict.metric == "shortfall" and finding.verdict.where == "automated"
    among = "" if own else " among the automated items"  # whose rows are not those of the numbers above
    return f"About {finding.excess_errors:,.0f} more wrong than promised{among}."


def _done(finding: Finding, actions: Sequence[Action]) -> str:
    if finding.switch_state:
        return clean(finding.switch_state, 300)
    subject = finding.verdict.subject
    mine = [a for a in actions if a.kind != "slack" and (a.source, a.label) == (subject.source, subject.label)]
    if not mine:
        return "nothing was switched; this rule only alerts"
    return "; ".join(clean(f"{action.kind.replace('_', ' ')}: {action.state}", 150) for action in mine)


def _runbook(verdict: Verdict, public_url: str | None) -> str:
    return _page(f"docs/runbook/{verdict.reason.value}.md", public_url, f"runbook: {verdict.reason.value}")


def _page(page: str, public_url: str | None, text: str = "") -> str:
    return _link(f"{public_url.rstrip('/')}/{page}", text or page) if public_url else f"runbook `{page}`"


def _report(window: Window, public_url: str | None) -> str:
    """The page of the week; a day has none of its own, so its link leads to the switches and the newest week."""
    if not public_url:
        return ""
    base = public_url.rstrip("/")
    return _link(f"{base}/report?week={window.name}" if window.schedule == "weekly" else f"{base}/", "dashboard")


def _the_rest(rest: Sequence[Finding]) -> list[Block]:
    if not rest:
        return []
    lines = [f"*and {len(rest)} more:*"]
    for number, finding in enumerate(rest):
        line = f"• {_line(finding)}"
        if sum(map(len, lines)) + len(lines) + len(line) > SECTION - 100:
            lines.append(f"... and {len(rest) - number} others: `calmon incidents list` shows all")
            break
        lines.append(line)
    return [_divider(), _section("\n".join(lines))]


def _line(finding: Finding) -> str:
    verdict = finding.verdict
    source = "" if verdict.subject.label is None else f"{clean(verdict.subject.source, 40)}: "
    return _cut(f"{_emoji(finding)} {escape(source)}{escape(plain_words(verdict))}", 400)


def _sections(lines: Sequence[str]) -> list[str]:
    """Lines put together to as few section texts as Slack's bounds allow; what passes them all is counted."""
    found = [""]
    for kept, line in enumerate(lines):
        if sum(map(len, found)) + len(line) > BLOCKS_JSON - SECTION:
            return [*found, f"... and {len(lines) - kept} more: `calmon incidents list` shows all"]
        if len(found[-1]) + len(line) + 1 > SECTION:
            found.append("")
        found[-1] = f"{found[-1]}\n{line}".strip()
    return found


def _with_code(text: str) -> str:
    """Our own sentences keep their code marks; they hold nothing that came from data."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _mention(mention: str | None) -> str:
    """A mention as the routes file has it (``<!subteam^S0123>``); anything else is plain text."""
    if not mention:
        return ""
    return mention.strip() if _MENTION.fullmatch(mention.strip()) else escape(clean(mention))


def _mention_block(mention: str | None) -> list[Block]:
    return [_section(_mention(mention))] if mention else []


def _redact(text: str) -> str:
    return "".join(c for c in without_secrets(text) if c.isprintable() or c == "\n")


def _link(url: str, text: str) -> str:
    return f"<{escape(quote(url, safe=':/?&=#%~+,;@!$()*[]'))}|{escape(text)}>"


def _cut(text: str, length: int) -> str:
    """The text, cut at ``length`` without leaving half of an escaped character behind."""
    return text if len(text) <= length else re.sub(r"&\w{0,4}$", "", text[: length - 1]) + "…"


def _payload(channel: str, text: str, blocks: list[Block], id: str, change: str | None = None) -> Payload:
    return {"channel": channel, "text": text, "blocks": blocks, "metadata": _metadata(id, change)}


def _metadata(id: str, change: str | None) -> dict[str, Any]:
    """``change`` tells edit, news, call (news that mentions people) and repeat apart; a root message has none."""
    told = {"delivery_id": id} | ({"change": change} if change else {})
    return {"event_type": EVENT_TYPE, "event_payload": told}


def _size(blocks: Sequence[Block]) -> int:
    return len(json.dumps(blocks))


def _header(text: str) -> Block:
    return {"type": "header", "text": {"type": "plain_text", "text": _cut(text, HEADER), "emoji": True}}


def _section(text: str) -> Block:
    # verbatim: Slack itself must not turn "@here", "#general" or an address in a label into a link
    return {"type": "section", "text": {"type": "mrkdwn", "text": _cut(text, SECTION), "verbatim": True}}


def _context(text: str) -> Block:
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": _cut(text, SECTION), "verbatim": True}]}


def _divider() -> Block:
    return {"type": "divider"}
