"""What a message about incidents says: one block per label, and its numbers in the thread. Pure.

Findings in, payloads for ``chat.postMessage`` out. A message is read on a phone at any hour, so it says what happened,
what was done and what to do; the statistics are a reply.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from datetime import timedelta

from monitor.alerting.slack.blocks import (
    BLOCKS_JSON,
    DONE,
    EMOJI,
    FALLBACK,
    SECTION,
    Block,
    Payload,
    button,
    context,
    cut,
    divider,
    escape,
    hashed,
    header,
    link,
    mention_block,
    mention_text,
    payload_of,
    section,
    sections,
    size,
    with_code,
    with_ended,
)
from monitor.alerting.slack.labels import (
    AGAIN,
    AlertItem,
    LabelFindings,
    Now,
    by_label,
    headline,
    newest_window,
    tomorrow,
    tonight,
)
from monitor.alerting.slack.links import Links
from monitor.config.model import Route
from monitor.core import windows
from monitor.core.records import Delivery, IncidentReason, Verdict, Window
from monitor.core.wording import (
    LABEL_LENGTH,
    as_judged,
    by_whom,
    clean,
    count_of,
    ending,
    evidence_words,
    in_breach,
    incident_state,
    news,
    off_in_worst,
    plain_words,
    pooled,
    reason_of,
    reference,
    segment_name,
    title,
)

_SEGMENTS_ON = (
    "*Tomorrow:* check that the cause is fixed, then turn each segment on: "
    "`calmon automation enable --label LABEL --segment COLUMN=VALUE`."
)
_LEAST_P = 1e-15  # below it a p-value is a rounding error, and no chance is 0
IN_FULL = 5  # labels; the rest has one line each
_STATES = {"acknowledged": ":eyes:", "silenced": ":mute:", "resolved": ":white_check_mark:"}
_NO_LINKS = Links()
LABELS_IN_FULL = 3
"""A message of more labels does not name the other rules in breach: pages and `calmon incidents list` do."""
_DEFINED = "overconfidence (mean score minus accuracy)"


def delivery_id(channel: str, window: Window, incident_ids: Sequence[str]) -> str:
    """An id that is the same for the same channel, window and incidents in any order, so a message is sent once."""
    return hashed("incidents", channel, window.schedule, window.start.isoformat(), *sorted(incident_ids))


def incident_message(
    findings: Sequence[AlertItem], *, window: Window, route: Route, links: Links = _NO_LINKS
) -> Payload:
    """The living message of all incidents that the evaluation of ``window`` opened on one route, as they are now.

    Returns ``{channel, text, blocks, metadata}``; raises ValueError without a finding. Its header and its link name
    the newest window in which any of its incidents was seen. The worst labels come first, then those with the most
    wrong items, resolved ones last; after five (or near Slack's limits) the rest get one line each.
    """
    if not findings:
        raise ValueError("a message needs at least one finding")
    labels = by_label(findings)
    shown = newest_window(findings) or window
    top = headline(labels, shown)
    over = all(each.now == Now.RESOLVED and not each.is_resolved_in_part for each in labels)
    blocks = [header(f"{DONE} {top}" if over else top), *mention_block(route.mention), _about(labels, shown)]
    number = in_full(labels)
    shared = _shared_advice(labels[:number])
    for label in (each for each in labels[:number] if each.now != Now.RESOLVED):
        blocks += _label_blocks(label, labels, advised=not shared)
    blocks += [section(shared)] if shared else []  # about the labels above it, not about resolved ones
    for label in (each for each in labels[:number] if each.now == Now.RESOLVED):
        blocks += _label_blocks(label, labels, advised=False)
    blocks += _the_rest(labels[number:])
    blocks += _footer(labels[:number], findings, links)
    text = "\n".join([*map(_push, labels), mention_text(route.mention)]).strip()
    ids = [finding.incident.id for finding in findings]
    return payload_of(route.channel, cut(text, FALLBACK), blocks, delivery_id(route.channel, window, ids))


def in_full(labels: Sequence[LabelFindings]) -> int:
    """How many of the labels a message describes in full, and so with buttons: five, or fewer near Slack's limits."""
    used, number = 0, 0
    for label in labels[:IN_FULL]:
        used += size(_label_blocks(label, labels, advised=True))
        if number and used > BLOCKS_JSON - 2 * SECTION:
            break
        number += 1
    return number


def numbers_message(
    findings: Sequence[AlertItem], *, window: Window, channel: str, root: str, links: Links = _NO_LINKS
) -> Payload:
    """The reply with the statistics behind a message: they are not in the message itself."""
    lines, defined = [f"*Numbers of {window.name}*"], False
    for label in by_label(findings):
        lines.append(f"*{escape(_full_name(label.lead))}*")
        for each in label.findings:
            lines.append(_cut_line(f"• {_rule(each, links)}: {_numbers(each, defined=defined)}"))
            defined = defined or each.verdict.metric == "overconfidence"
        lines += [_cut_line(line) for line in _leads(label.lead)]
    text = f"Numbers of {window.name}: {', '.join(escape(label.name) for label in by_label(findings))}"
    blocks = [section(part) for part in sections(lines)]
    return payload_of(channel, cut(text, FALLBACK), blocks, hashed("numbers", root), "numbers")


def news_message(
    findings: Sequence[tuple[AlertItem, Verdict | None]],
    *,
    window: Window,
    channel: str,
    root: str,
    changes: Sequence[str],
    mention: str | None = None,
    calls: bool = False,
) -> Payload:
    """The reply in a living message's thread that says what one evaluation changed.

    ``findings`` are the incidents, each with its verdict of this evaluation (None: its rule was removed);
    ``changes`` name what it did to them, so that the same news is sent once. ``calls``: something came back, so the
    reply has the ``mention``, and says of the labels whose switch is known what automation does and what to do. Of a
    resolved label with a known switch it says whether automation is on. A label is resolved only if all of its rules
    are, also those of other messages; else the reply says which are, and which are not.
    """
    verdicts = {finding.incident.id: verdict for finding, verdict in findings}
    lines, push = [], []
    for label in by_label([finding for finding, _ in findings]):
        lines.append(f"{_emoji(label)} *{escape(_full_name(label.lead))}*")
        lines += [news_line(each, verdicts[each.incident.id]) for each in label.findings]
        over = label.now == Now.RESOLVED
        lines += _after_resolved(label) if over else _for_the_called(label) if calls else []
        push.append(_news_push(label))
    mention = mention if calls else None
    blocks = [*mention_block(mention), *(section(part) for part in sections([f"*{window.name}*", *lines]))]
    text = cut(f"{'; '.join(push)} ({window.name}) {mention_text(mention)}".strip(), FALLBACK)
    id = hashed("news", root, window.schedule, window.start.isoformat(), *sorted(changes))
    return payload_of(channel, text, blocks, id, "call" if calls else "news")


def _after_resolved(label: LabelFindings) -> list[str]:
    """Whether automation is on, and which rules are not resolved, if any."""
    if not label.is_resolved_in_part:
        return _switch_when_resolved(label)
    return [*_switch_lines(label), _cut_line(f"{escape(label.not_resolved_words)}.")]


def _news_push(label: LabelFindings) -> str:
    """A label in the notification of a reply."""
    lead = label.lead
    if not label.is_resolved_in_part:
        return escape(f"{label.name} {news(lead.incident, lead.last)}")
    switch = f". {lead.switch.words}" if lead.switch is not None else ""
    return cut(escape(f"{label.resolved_words(label.name)}. {label.not_resolved_words}{switch}"), 500)


def _for_the_called(label: LabelFindings) -> list[str]:
    """What automation does now, and what a person on call does; [] where the switch is not known."""
    switch = _switch_lines(label)
    return [*switch, f"*Tonight:* {with_code(tonight(label))}."] if switch else []


def news_line(finding: AlertItem, verdict: Verdict | None) -> str:
    """One incident in a reply: what happened to it, what this evaluation (``verdict``) found, and its numbers."""
    why = "" if finding.last is None else clean(str(finding.last.detail.get("why", "")), 300)
    result = plain_words(verdict) if verdict is not None else why or plain_words(finding.verdict)
    result += f". {why}" if verdict is not None and why else ""
    numbers = f" Numbers: {_measured_line(verdict)}." if verdict is not None and verdict.outcome == "breach" else ""
    what = news(finding.incident, finding.last)
    return _cut_line(f"• {escape(clean(finding.incident.rule))}: {escape(what)}. {escape(result)}.{escape(numbers)}")


def repeat_message(
    findings: Sequence[AlertItem], *, channel: str, root: str, number: int, mention: str | None
) -> Payload:
    """The ``number``-th reminder to acknowledge open incidents, as a reply in the thread.

    ``findings`` are all of the message: only the labels that it describes in full have buttons. Each label is
    followed by what automation does, where its switch is known.
    """
    labels = by_label(findings)
    with_buttons = {each.key for each in labels[: in_full(labels)]}
    waiting = [each for each in labels if each.state == "open"]
    opened = {each.key: each for each in by_label([one for one in findings if one.incident.state == "open"])}
    names = ", ".join(escape(_name(each, labels)) for each in waiting)
    lines = [f"*Not acknowledged yet: {count_of(len(waiting), 'label')}*"]
    for each in waiting:
        ids = ", ".join(f"`{one.incident.id[:8]}`" for one in opened[each.key].findings)
        lines += [f"• {_line(opened[each.key])}: {ids}", *_switch_lines(each)]
    presses = "Press *Acknowledge* above, or run" if {e.key for e in waiting} & with_buttons else "Run"
    which = "each" if sum(len(opened[each.key].findings) for each in waiting) > 1 else "the"
    last = f"{presses} `calmon incidents ack ID` with {which} id of this list; that ends these reminders."
    blocks = [*mention_block(mention), *map(section, sections([*lines, last]))]
    text = cut(f"{names}: not acknowledged yet {mention_text(mention)}".strip(), FALLBACK)
    return payload_of(channel, text, blocks, hashed("repeat", root, str(number)), "repeat")


def ended_message(labels: Sequence[LabelFindings], *, channel: str, root: str, mention: str | None) -> Payload:
    """The one reply that operators' enables have ended: in the thread of the incidents that they were against."""
    advice = list(dict.fromkeys(f"*Tonight:* {with_code(tonight(each))}." for each in labels))
    lines = [line for each in labels for line in _ended_lines(each, advised=len(advice) > 1)]
    lines += advice if len(advice) == 1 else []
    which = "it" if len(labels) == 1 else "one of them"
    lines.append(
        f"*Before {which} is turned on again:* fix the cause, or say for how long and why: "
        "`calmon automation enable --label LABEL --until TIME --reason TEXT`."
    )
    said = "; ".join(f"{escape(each.name)}: {escape(_switch_words(each))}" for each in labels)
    blocks = [*mention_block(mention), *map(section, sections(lines))]
    keys = [ended_key(each, root) for each in labels]
    payload = payload_of(
        channel, cut(f"{said} {mention_text(mention)}".strip(), FALLBACK), blocks, hashed(*sorted(keys)), "ended"
    )
    return with_ended(payload, keys) | {"ended": keys}  # stored with the message, not sent


def ended_key(label: LabelFindings, root: str) -> str:
    """The key of the end of a label's enable, which one reply in a thread reports."""
    return hashed("ended", root, *map(str, label.key), _switch_words(label))


def reported_ends(thread: Iterable[Delivery]) -> set[str]:
    """The keys of ends that a message said when it was written, or that a reply of its ``thread`` reports."""
    return {key for each in thread for key in each.payload.get("ended", ())}


def _ended_lines(label: LabelFindings, *, advised: bool) -> list[str]:
    state = [f"{escape(label.name)} is still {label.now.value}."] if label.now != Now.RESOLVED else []
    advice = [f"*Tonight:* {with_code(tonight(label))}."] if advised else []
    return [f"*{escape(label.name)}*: {escape(_switch_words(label))}.", *state, *advice]


def _switch_words(label: LabelFindings) -> str:
    return "" if label.lead.switch is None else label.lead.switch.words


def picture(
    png: bytes, finding: AlertItem, *, window: Window, channel: str, root: str, shows: str
) -> tuple[str, Payload]:
    """(delivery id, payload) of the picture that goes into a living message's thread; ``shows`` says what it is."""
    id = hashed("picture", root)
    name = clean(finding.verdict.subject.name, 60)
    return id, {
        "channel": channel,
        "filename": f"calmon-{window.name}-{id}.png",
        "title": f"{name}, {window.name}",
        "alt": f"{shows} of {name}, {window.name}: {plain_words(finding.verdict)}",
        "png": base64.b64encode(png).decode("ascii"),
    }


def _about(labels: Sequence[LabelFindings], window: Window) -> Block:
    """The dates of the window, both included, in the time zone of its name; and the sources."""
    sources = list(dict.fromkeys(clean(each.key[0], 40) for each in labels))
    first = windows.nominal(window)
    days = window.name if window.schedule == "daily" else f"{first} to {first + timedelta(days=6)}"
    return context(f"{days} · {escape(', '.join(sources))}")


def _label_blocks(label: LabelFindings, labels: Sequence[LabelFindings], *, advised: bool) -> list[Block]:
    """One label: what happened and what was done, what else fails, what to do, and one row of buttons."""
    if label.now == Now.RESOLVED:
        return _resolved_blocks(label, labels)
    lines = [_what(label, labels), *_state_lines(label), *_done_lines(label, several=len(labels) > LABELS_IN_FULL)]
    lines += _leads(label.lead) if label.now == Now.IN_BREACH else []  # of the last breach
    lines += [_advice(label)] if advised else []
    return [divider(), section("\n".join(lines)), _buttons(label)]


def _what(label: LabelFindings, labels: Sequence[LabelFindings]) -> str:
    """The result of the newest evaluation; where that is no breach, followed by the last breach."""
    lead, latest = label.lead, label.lead.latest
    name = f"{_emoji(label)} *{escape(_name(label, labels))}*"
    if lead.now == Now.IN_BREACH:
        return f"{name} {escape(ending(lead.verdict))} ({_when(lead.verdict)})."
    breach = f"{escape(_last_breach(lead.verdict))}."
    if reason_of(lead.last) == IncidentReason.NEWEST_WITHIN_OPEN:
        return f"{name} {lead.newest.name} alone is within the limit, pooled it is not.\nLast breach: {breach}"
    result = f"{lead.now.value} ({lead.newest.name})" if latest is None else f"{ending(latest)} ({_when(latest)})"
    return f"{name} {escape(result)}.\nLast breach: {breach}"


def _last_breach(verdict: Verdict) -> str:
    """A breach behind the words "last breach:": ``overconfident: 12 points less ... (2026-W14)``."""
    return f"{ending(verdict).removeprefix('is ')} ({_when(verdict)})"


def _name(label: LabelFindings, labels: Sequence[LabelFindings]) -> str:
    """The label, with its source where the message is about several."""
    several = len({each.key[0] for each in labels}) > 1 and label.key[1] is not None
    return f"{label.name} ({clean(label.key[0], 40)})" if several else label.name


def _when(verdict: Verdict) -> str:
    """The window of a verdict, and how many were pooled."""
    return ", ".join(part for part in (verdict.window.name, pooled(verdict)) if part)


def _state_lines(label: LabelFindings) -> list[str]:
    """Who works on it, how long the breach has lasted, and why it is open if the newest window was no breach."""
    lead = label.lead
    so_far = [by_whom(lead.incident), in_breach(lead.incident, lead.verdict)]
    words = "; ".join(part for part in so_far if part)
    found = [f"*{escape(words[:1].upper() + words[1:])}.*"] if words else []
    if reason_of(lead.last) == IncidentReason.NEWEST_WITHIN_OPEN:
        return [*found, "It stays open until the pooled value is within the limit too."]
    if lead.now == Now.HELD_BACK:
        return [*found, "It keeps coming back, so it stays open until one more window is within the limit."]
    if lead.now == Now.IN_BREACH:
        return found
    return [*found, "It stays open: only a window within the limit resolves it."]


def _done_lines(label: LabelFindings, *, several: bool) -> list[str]:
    """What was done and what it costs; of ``several`` labels only what is not failing too, so that it stays short."""
    lead = label.lead
    found = _switch_lines(label)
    if lead.harm is not None and lead.harm.excess >= 0.5 and lead.now == Now.IN_BREACH:
        short = lead.harm.short
        from_score, rows = lead.harm.counted_from or "`automate_at`", lead.harm.rows
        counted = f"{count_of(rows, 'item')} reached {from_score}: {short}" if rows else short[:1].upper() + short[1:]
        found.append(f"{counted}.")
    other_rules = label.others(failing=not several)
    return [*found, escape(other_rules)] if other_rules else found


def _switch_lines(label: LabelFindings) -> list[str]:
    """The state of automation, and why it does not come back by itself if alerts.yaml has lost the rules for that."""
    switch = label.lead.switch
    if switch is None:
        return []
    stays = [f"{switch.stays} (`calmon automation enable`)."] if switch.stays else []
    return [f"{escape(switch.words)}.", *stays]


def _switch_when_resolved(label: LabelFindings) -> list[str]:
    """Whether automation is on for a label that is well again; if not, the command that turns it on."""
    switch = label.lead.switch
    if switch is None:
        return []
    if switch.allowed:
        return [f"{escape(switch.short or switch.words)}."]
    by_command = switch.enable_helps and not switch.stays
    return [*_switch_lines(label), *(["To turn it on: `calmon automation enable`."] if by_command else [])]


def _acts(finding: AlertItem) -> bool:
    """Whether its rule may change a switch; of a rule that alerts.yaml has lost, whether its breach asked for that."""
    if finding.rule is not None:
        return finding.rule.acts
    return any(action != "slack" for action in finding.verdict.actions)


def _leads(finding: AlertItem) -> list[str]:
    """The segment that fails most."""
    return [f"*Worst in* {escape(finding.worst_segment)}."] if finding.worst_segment else []


def _advice(label: LabelFindings) -> str:
    soon, later = tonight(label), tomorrow(label)
    return f"*Tonight:* {with_code(soon)}.\n*Tomorrow:* {with_code(later).rstrip('.')}."


def _shared_advice(labels: Sequence[LabelFindings]) -> str:
    """The advice where it is the same for all labels that are not resolved; else ""."""
    advice = [_advice(each) for each in labels if each.now != Now.RESOLVED]
    return advice[0] if len(advice) > 1 and len(set(advice)) == 1 else ""


def _resolved_blocks(label: LabelFindings, labels: Sequence[LabelFindings]) -> list[Block]:
    """A resolved label and whether automation is on; where a rule turned it off, with a button that turns it on."""
    lead, ended = label.lead, label.ended
    state = incident_state(ended.incident, ended.verdict, ended.last)
    state = AGAIN if label.state_when_resolved == AGAIN else state[:1].lower() + state[1:]
    line = f"{_emoji(label)} *{escape(_name(label, labels))}*: {escape(state)}."
    switch = lead.switch
    if label.is_resolved_in_part:
        return [divider(), section("\n".join([line, *_switch_lines(label), f"{escape(label.elsewhere_words)}."]))]
    acts = any(_acts(each) for each in label.findings)
    if switch is None or switch.button != "off" or not acts:
        parts = [_SEGMENTS_ON] if switch is not None and switch.allowed and switch.segments and acts else []
        return [divider(), section("\n".join([line, *_switch_when_resolved(label), *parts]))]
    todo = "*Tomorrow:* check that the cause is fixed, then turn automation on."
    return [
        divider(),
        section("\n".join([line, *_switch_lines(label), todo])),
        _actions(label, [button("automation_on", "Turn on", label.lead_id)]),
    ]


def _emoji(label: LabelFindings) -> str:
    state = "" if label.is_resolved_in_part else label.state
    return _STATES.get(state, EMOJI[label.severity])


def _full_name(finding: AlertItem) -> str:
    return clean(finding.verdict.subject.name, 2 * LABEL_LENGTH)


def _buttons(label: LabelFindings) -> Block:
    """What a person may do with the label now; the handler checks again whether they may."""
    elements, id = [], label.lead_id
    if label.state in ("open", "silenced"):
        elements.append(button("incident_ack", "Acknowledge", id, "primary"))
    elements.append(button("incident_silence_day", "Silence 1d", id))
    elements.append(button("incident_silence_week", "Silence 1w", id))
    switch = label.lead.switch
    if switch is not None and switch.button == "on":
        elements.append(button("automation_off", "Turn off", id, "danger"))
    if switch is not None and switch.button == "off":
        elements.append(button("automation_on", "Turn on", id))
    return _actions(label, elements)


def _actions(label: LabelFindings, elements: list[Block]) -> Block:
    return {"type": "actions", "block_id": f"label:{hashed(*map(str, label.key))[:16]}", "elements": elements}


def _the_rest(rest: Sequence[LabelFindings]) -> list[Block]:
    if not rest:
        return []
    lines = [f"*and {count_of(len(rest), 'more label')}:*"]
    for number, label in enumerate(rest):
        line = f"• {_line(label)}"
        if sum(map(len, lines)) + len(lines) + len(line) > SECTION - 100:
            lines.append(f"... and {len(rest) - number} others: `calmon incidents list` shows all")
            break
        lines.append(line)
    return [divider(), section("\n".join(lines))]


def _line(label: LabelFindings) -> str:
    """A label in one line."""
    verdict, lead = label.lead.verdict, label.lead
    more = sum(each is not lead and each.now != Now.RESOLVED for each in label.findings)
    also = f", and {count_of(more, 'other rule')}" if more else ""
    words = f"{ending(verdict)} ({_when(verdict)}){also}"
    if label.now != Now.IN_BREACH:
        words = f"{label.now.value} ({lead.newest.name}); last breach: {_last_breach(verdict)}{also}"
    if label.now == Now.RESOLVED:
        words = label.state_when_resolved
    source = "" if label.key[1] is None else f"{clean(label.key[0], 40)}/"
    return cut(f"{_emoji(label)} *{escape(source + label.name)}* {escape(words)}", 400)


def _push(label: LabelFindings) -> str:
    """A label in the notification: it begins with the label, since a phone shows little more."""
    if label.now == Now.RESOLVED:
        return escape(label.resolved_words(label.name))
    lead = label.lead
    words = f"{ending(lead.verdict)} ({_when(lead.verdict)})"
    if lead.now != Now.IN_BREACH:
        words = f"{label.now.value} ({lead.newest.name}); last breach: {_last_breach(lead.verdict)}"
    done = f". {lead.switch.words}" if lead.switch is not None else ""
    return cut(escape(f"{label.name} {words}{done}."), 500)


def _footer(labels: Sequence[LabelFindings], findings: Sequence[AlertItem], links: Links) -> list[Block]:
    """The links: the report of the newest week, the page of each label, and the runbook page of each reason."""
    window = newest_window(findings, "weekly") or newest_window(findings)
    report = links.report(window) if window is not None else None
    parts = [] if report is None or window is None else [link(report, f"report {window.name}")]
    for each in labels:
        address = links.label(*each.key)
        parts += [link(address, f"label: {_name(each, labels)}")] if address is not None else []
    open_ones = [each.lead.verdict.reason.value for each in labels if each.now != Now.RESOLVED]
    for reason in dict.fromkeys(open_ones):
        page = links.runbook(reason)
        parts.append(link(page, f"runbook: {reason}") if page else f"runbook: `docs/runbook/{reason}.md`")
    return [context(" · ".join(parts))] if parts else []


def _rule(finding: AlertItem, links: Links) -> str:
    id = clean(finding.verdict.rule)
    page = links.rule(id)
    return f"{link(page, id) if page else escape(id)} ({finding.verdict.severity})"


def _numbers(finding: AlertItem, *, defined: bool) -> str:
    """The numbers in one line: value with interval, baseline, change, n, what could have been seen.

    ``defined``: overconfidence has been defined before.
    """
    verdict, known = finding.verdict, finding.baseline_interval
    parts = [_measured_line(verdict, defined=defined)]
    if verdict.baseline is not None:
        low, high = (known.low, known.high) if known is not None else (None, None)
        parts.append(f"{reference(verdict).removeprefix('the ')} {_measured(verdict.baseline, low, high)}")
    if verdict.change is not None:
        parts.append(f"change {_measured(verdict.change, verdict.change_low, verdict.change_high, sign='+')}")
    if verdict.detectable is not None:
        parts.append(f"detectable change {verdict.detectable:.3f}")
    worst = _worst(verdict)
    text = "; ".join([*parts, *([worst] if worst else [])])
    return f"{with_code(text)}; incident `{escape(finding.incident.id[:8])}`, `calmon explain {escape(verdict.id)}`"


def _measured_line(verdict: Verdict, *, defined: bool = True) -> str:
    """Value with interval, limit, rows and adjusted p of one verdict."""
    overconfidence = "overconfidence" if defined else _DEFINED
    name = overconfidence if verdict.metric == "overconfidence" else title(verdict.metric)
    textbook = [f"textbook {_measured(verdict.plug_in, None, None)}"] if as_judged(verdict) is not verdict else []
    found = f"{name} {_measured(verdict.value, verdict.low, verdict.high)}"
    parts = [found, *textbook, f"limit {verdict.threshold:g}"]
    parts.append(f"n = {verdict.n:,}{f' of {verdict.windows} windows' if verdict.windows > 1 else ''}")
    if verdict.p_adjusted is not None:
        small = verdict.p_adjusted < _LEAST_P
        parts.append(f"adjusted p below {_LEAST_P:.0e}" if small else f"adjusted p {verdict.p_adjusted:.2g}")
    if "evidence" in verdict.detail:
        parts.append(evidence_words(verdict))
    if verdict.detail.get("segment") is not None:
        parts.append(f"in {segment_name(*verdict.detail['segment'])}")
    return "; ".join(parts)


def _measured(value: float | None, low: float | None, high: float | None, *, sign: str = "") -> str:
    if value is None:
        return "unknown"
    form = f"{sign}.3f"
    limits = "" if low is None or high is None else f" ({low:{form}} to {high:{form}})"
    return f"{value:{form}}{limits}"


def _worst(verdict: Verdict) -> str:
    found, off = verdict.detail.get("worst_range"), off_in_worst(verdict)
    if found is None or not off:
        return ""
    return f"worst in scores {found[0]:.2f} to {found[1]:.2f}: {off} (n = {int(verdict.detail.get('worst_n', 0)):,})"


def _cut_line(line: str) -> str:
    return cut(line, SECTION - 100)
