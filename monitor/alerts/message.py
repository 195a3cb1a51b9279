"""What a Slack message says. Pure: findings in, a payload for ``chat.postMessage`` out.

Slack's bounds shape it: 50 blocks, 3,000 characters a section, 150 a header, and a total that Slack
does not document (17,700 characters of JSON were seen refused, 15,600 accepted). Whatever comes from
the data (labels, errors) is escaped, so that it can neither mention anybody nor format the message.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from urllib.parse import quote

from monitor.alerts.words import LABEL_LENGTH, advice, clean, percent, plain_words, title
from monitor.records import Action, Delivery, Incident, Interval, Verdict, Window
from monitor.rules.model import Route, Rule

__all__ = [
    "Finding", "WorstRange", "advice", "delivery_id", "delivery_of", "escape", "incident_message",
    "mark_possible_repeat", "monitor_failed_message", "plain_words",
]  # fmt: skip

EVENT_TYPE = "calmon_delivery"
IN_FULL = 10
BLOCKS_JSON = 12_000
SECTION = 2_900
HEADER = 150
FALLBACK = 3_000
ERROR_LENGTH = 1_500

_RANK = {"critical": 0, "warning": 1, "info": 2}
_EMOJI = {"critical": ":red_circle:", "warning": ":large_yellow_circle:", "info": ":large_blue_circle:"}
_MENTION = re.compile(r"(?:<[!@][^<>\s]+>\s*)+")
_SECRETS = (
    re.compile(r"(?<=://)[^\s/]*:[^\s/]*(?=@)"),
    re.compile(r"\bxox[a-z]-[\w-]+|\bxapp-[\w-]+"),
    re.compile(r"(?i)(?<=password=)\S+|(?<=token=)\S+|(?<=secret=)\S+"),
)

_WHAT_A_FAILURE_MEANS = "This run may have judged nothing; a switch that is on stays on until its lease ends."
_AFTER_A_FAILURE = (
    "*Do now:* read the log of the run, mend what it names, and run the same again, from Prefect's page or in a "
    "terminal (`calmon run weekly`, `calmon run daily`): it picks up where it stopped."
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
    how many more of the automated items were wrong than the scores promised.
    """

    verdict: Verdict
    incident: Incident
    rule: Rule | None = None
    baseline_interval: Interval | None = None
    switch_state: str = ""
    excess_errors: float | None = None
    worst: WorstRange | None = None


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
    """One message for all incidents that one evaluation opened on one route.

    Returns ``{channel, text, blocks, metadata}``; raises ValueError without a finding. Critical
    findings come first, then those with the most wrong items; past ten (or when Slack's bounds are
    near) the rest get one line each.
    """
    if not findings:
        raise ValueError("a message needs at least one finding")
    ordered = sorted(findings, key=_order)
    top = _headline(ordered, window)
    blocks = _opening(top, window, route.mention)
    told = 0
    for finding in ordered[:IN_FULL]:
        block = _finding_blocks(finding, public_url, actions)
        if told and _size(blocks) + _size(block) > BLOCKS_JSON - SECTION:
            break
        blocks += block
        told += 1
    blocks += _the_rest(ordered[told:])
    text = "\n".join([_mention(route.mention), top, *(_line(f) for f in ordered)]).strip()
    ids = [finding.incident.id for finding in findings]
    return _payload(route.channel, _cut(text, FALLBACK), blocks, delivery_id(route.channel, window, ids))


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


def delivery_of(payload: Payload, *, kind: str, now: datetime) -> Delivery:
    """The pending delivery of a payload; its id is the one in the payload's metadata."""
    if kind not in ("incidents", "monitor", "test"):
        raise ValueError(f"{kind!r} is not a kind of delivery")
    id = payload["metadata"]["event_payload"]["delivery_id"]
    return Delivery(id=id, kind=kind, channel=payload["channel"], payload=payload, created_at=now, next_attempt_at=now)  # type: ignore[arg-type]  # checked above


def mark_possible_repeat(payload: Mapping[str, Any]) -> Payload:
    """The payload, saying that it may be there already (nobody could look).

    >>> mark_possible_repeat({"channel": "#c", "text": "hello", "blocks": []})["text"]
    '(possible repeat) hello'
    """
    note = _context("Possible repeat: an earlier attempt got no answer, and the channel's history could not be read.")
    marked = dict(payload) | {"text": f"(possible repeat) {payload.get('text', '')}"}
    return marked | {"blocks": [note, *payload["blocks"]]} if payload.get("blocks") else marked


def _order(finding: Finding) -> tuple[int, float, str, str, str]:
    verdict = finding.verdict
    return (
        _RANK[verdict.severity], -(finding.excess_errors or 0.0),
        verdict.subject.source, verdict.subject.label or "", verdict.rule,
    )  # fmt: skip


def _headline(findings: Sequence[Finding], window: Window) -> str:
    critical = sum(f.verdict.severity == "critical" for f in findings)
    count = "1 finding" if len(findings) == 1 else f"{len(findings)} findings"
    worst = f", {critical} critical" if critical else ""
    return f"Calibration {window.name}: {count}{worst}"


def _opening(top: str, window: Window, mention: str | None) -> list[Block]:
    span = f"{window.start:%Y-%m-%d %H:%M} to {window.end:%Y-%m-%d %H:%M} UTC"
    return [_header(top), *_mention_block(mention), _context(f"{window.schedule} evaluation of {window.name} ({span})")]


def _finding_blocks(finding: Finding, public_url: str | None, actions: Sequence[Action]) -> list[Block]:
    verdict = finding.verdict
    facts = [f"*{_EMOJI[verdict.severity]} {escape(plain_words(verdict))}*", _numbers(finding)]
    facts += [line for line in (_worst(finding), _excess(finding)) if line]
    doing = [f"*Done:* {escape(_done(finding, actions))}", f"*Do now:* {_with_code(advice(verdict))}"]
    links = f"{_runbook(verdict, public_url)} · `calmon explain {escape(verdict.id)}`"
    return [_divider(), _section("\n".join(facts)), _section("\n".join(doing)), _context(links)]


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
    return f"About {finding.excess_errors:,.0f} more wrong than promised."


def _done(finding: Finding, actions: Sequence[Action]) -> str:
    if finding.switch_state:
        return clean(finding.switch_state, 300)
    subject = finding.verdict.subject
    mine = [a for a in actions if a.kind != "slack" and (a.source, a.label) == (subject.source, subject.label)]
    if not mine:
        return "nothing was switched; this rule only alerts"
    return "; ".join(clean(f"{action.kind.replace('_', ' ')}: {action.state}", 150) for action in mine)


def _runbook(verdict: Verdict, public_url: str | None) -> str:
    page = f"docs/runbook/{verdict.reason.value}.md"
    return (
        _link(f"{public_url.rstrip('/')}/{page}", f"runbook: {verdict.reason.value}")
        if public_url
        else f"runbook `{page}`"
    )


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
    return _cut(f"{_EMOJI[verdict.severity]} {escape(source)}{escape(plain_words(verdict))}", 400)


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
    for pattern in _SECRETS:
        text = pattern.sub("***", text)
    return "".join(c for c in text if c.isprintable() or c == "\n")


def _link(url: str, text: str) -> str:
    return f"<{escape(quote(url, safe=':/?&=#%~+,;@!$()*[]'))}|{escape(text)}>"


def _cut(text: str, length: int) -> str:
    """The text, cut at ``length`` without leaving half of an escaped character behind."""
    return text if len(text) <= length else re.sub(r"&\w{0,4}$", "", text[: length - 1]) + "…"


def _payload(channel: str, text: str, blocks: list[Block], id: str) -> Payload:
    metadata = {"event_type": EVENT_TYPE, "event_payload": {"delivery_id": id}}
    return {"channel": channel, "text": text, "blocks": blocks, "metadata": metadata}


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
