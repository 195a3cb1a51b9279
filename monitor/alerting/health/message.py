"""The messages about a trouble of the monitor itself: one living message, its reminders, and its end. Pure.

Every sentence is computed from the findings and the switches at the time of writing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.slack.blocks import (
    DONE,
    EMOJI,
    FALLBACK,
    Block,
    Payload,
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
    section,
    with_code,
)
from monitor.alerting.slack.links import Links
from monitor.automation.state import GateReason, allowed_of_each
from monitor.core.records import Incident, SwitchState
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean, count_of, duration, moment
from monitor.story.label import people_words

SHOWN, TO_DO = 8, 3
CLOSED = "Every gate is closed until somebody confirms the history: no label acts alone now."
CLOCK_BEHIND = "Every gate is closed, since the clock is behind the history: no label acts alone now."
_STATEMENT = re.compile(r"\n\[SQL: .*?(?:\n\(Background on this error at: [^)]*\)|\Z)", re.DOTALL)
"""What SQLAlchemy adds to a driver's error: the statement, with messages and data in it."""
_RUN = re.compile(r"`calmon run (weekly|daily)( --(week|date) [0-9W-]+)?`")
_R = WatchReason
_TITLES: dict[WatchReason, str] = {
    _R.RUN_MISSING: "evaluations are missing", _R.RUN_FAILED: "an evaluation failed",
    _R.RUN_HUNG: "an evaluation does not end", _R.RUNS_WAITING: "runs wait", _R.FLOW_FAILED: "a flow fails",
    _R.WATCHDOG_SILENT: "the watchdog is silent", _R.HISTORY_RESTORED: "the history is not confirmed",
    _R.CLOCK_BEHIND: "the clock is behind",
    _R.SOURCE_NOT_READ: "{} cannot be read",
    _R.DATA_STALE: "{} has no rows", _R.DATA_SMALL: "{} has few rows", _R.NOTHING_JUDGED: "nothing of {} was judged",
    _R.UNRESOLVED_FAILED: "a part of {} cannot be read",
    _R.REJECTED_ROWS: "rows of {} were rejected", _R.SCORES_MOVED: "scores of {} moved",
    _R.DELIVERY_STUCK: "messages to {} wait", _R.DELIVERY_REFUSED: "Slack refused messages to {}",
    _R.DELIVERY_NOT_SENT: "messages to {} were not sent", _R.LISTENER_SILENT: "buttons of messages do not answer",
    _R.LEASE_ENDING: "automation of {} is about to end", _R.LEASE_ENDED: "automation of {} ended",
    _R.TURNED_OFF: "automation of {} was turned off",
}  # fmt: skip


def title_of(reason: str, source: str) -> str:
    """What is wrong with the monitor, in a few words; a reason of another version as it is.

    >>> title_of("data_stale", "tickets"), title_of("run_missing", "")
    ('tickets has no rows', 'evaluations are missing')
    """
    words = _TITLES.get(WatchReason(reason)) if reason in set(WatchReason) else None
    return (words or reason.replace("_", " ")).format(clean(source) if source else "the monitor")


@dataclass(frozen=True, slots=True)
class View:
    """One incident of the monitor as a message shows it.

    ``findings`` are the present ones (none: it is over), ``automation`` is :func:`automation_now`, ``since`` when it
    ended, ``has_ended``: labels are off since their leases ended; ``was``: every reason that it has had, of one that is
    over.
    """

    incident: Incident
    findings: Sequence[HealthIssue]
    automation: str
    now: datetime
    since: datetime | None = None
    has_ended: bool = False
    repeat: timedelta | None = None
    was: Sequence[str] = ()

    @property
    def answers_buttons(self) -> bool:
        """Whether a press of a button would be answered, as far as the findings say."""
        return all(finding.reason is not WatchReason.LISTENER_SILENT for finding in self.findings)

    @property
    def title(self) -> str:
        """What is wrong in a few words; of a resolved incident, how and when it ended."""
        if self.incident.state == "resolved":
            return f"Monitor: nothing is wrong since {moment(self.since or self.incident.resolved_at or self.now)}"
        first = self.findings[0] if self.findings else None
        reason = WatchReason(self.incident.reason) if first is None else first.reason
        subject = "" if first is None else first.source or first.channel
        more = f", and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
        return f"Monitor: {_TITLES[reason].format(clean(subject))}{more}"


def automation_now(switches: Iterable[SwitchState], now: datetime) -> str:
    """How many labels act alone at ``now``, and how many leases have ended.

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
    states = list(switches)
    labels = [allowed for state, allowed in allowed_of_each(states, now) if state.label is not None]
    ends = sorted(each.until for each in labels if each.allowed and each.until is not None)
    over = ended_leases(states, now)
    with_it = "its lease" if len(over) == 1 else "their leases"
    ended = f"automation of {count_of(len(over), 'label')} ended with {with_it}"
    last = f"{', the last' if len(set(over)) > 1 else ','} at {moment(over[-1])}" if over else ""
    if not ends:
        return f"No label acts alone now: {ended}{last}." if over else "No label acts alone now."
    first, final = moment(ends[0]), moment(ends[-1])
    when = first if first == final else f"between {first} and {final}"
    still = f"Automation is on for {count_of(len(ends), 'label')}; without an evaluation it ends {when}."
    return f"{still} {ended[0].upper()}{ended[1:]}{last}." if over else still


def ended_leases(switches: Iterable[SwitchState], now: datetime) -> list[datetime]:
    """When the leases ended of labels that are off because of that, in order."""
    return sorted(
        state.lease_until
        for state, allowed in allowed_of_each(switches, now)
        if allowed.reason is GateReason.LEASE_ENDED and state.label is not None and state.lease_until is not None
    )


def living_message(view: View, *, channel: str, mention: str | None, links: Links) -> Payload:
    """The present message of an incident: for the post and, with another id, for each edit."""
    over, mention = view.incident.state == "resolved", mention if view.incident.state == "open" else None
    blocks = [header(f"{DONE} {view.title}" if over else view.title), *mention_block(mention)]
    if over:
        blocks += [section("\n".join(_was(view))), section("\n".join(_automation_after(view))), context(_footer(view))]
    else:
        blocks += _under_way(view, links)
    findings = " ".join(escape(redacted(finding.text)) for finding in view.findings[:SHOWN])
    text = " ".join(
        part for part in (f"{escape(view.title)}{'' if over else f': {findings}'}", mention_text(mention)) if part
    )
    payload = payload_of(
        channel, cut(text, FALLBACK), blocks, hashed("watch", view.incident.id, str(view.incident.version))
    )
    # stored with the message, not sent
    return payload | {"incidents": [view.incident.id], "shows": hashed(json.dumps(blocks[:-1])), "stages": stages(view)}


def reminder(view: View, *, channel: str, root: str, number: int, mention: str | None) -> Payload:
    """The ``number``-th reminder to acknowledge, as a reply in the thread."""
    lines = [f"*Not acknowledged yet: {escape(view.title)}*", _automation(view)]
    command = f"`calmon incidents ack {view.incident.id[:8]}`"
    press = f"Press *Acknowledge* above, or write {command}" if view.answers_buttons else f"Write {command}"
    lines.append(f"{press}: that ends these reminders.")
    return _reply(view, lines, channel, hashed("repeat", root, str(number)), "repeat", mention)


def news(view: View, findings: Sequence[HealthIssue], *, channel: str, root: str, mention: str | None) -> Payload:
    """A reply that says what is new in a trouble that goes on, or that it came back; ``mention``: whom to call."""
    back = view.incident.reopened and not findings
    new = replace(view, findings=findings) if findings else view  # what is new may be the lesser of two
    top = f"It is back: {escape(view.title)}" if back else f"New: {escape(new.title)}"
    lines = [f"*{top}*", *_findings(findings or view.findings, None), _automation(view)]
    once = [stage_of(finding) for finding in findings]  # each is reported once in a thread
    id = hashed("stage", root, *once) if once else hashed("news", root, str(view.incident.version))
    return _reply(view, lines, channel, id, "call" if mention else "news", mention) | {"one_event": bool(once)}


def back(view: View, *, channel: str, root: str) -> Payload:
    """The one reply that reports the end."""
    lines = [f"{DONE} *{escape(view.title)}.*", *_was(view), *_automation_after(view)]
    id = hashed("end", root, str(view.incident.reopened))
    return _reply(view, lines, channel, id, "news", None) | {"one_event": True}


def stage_of(finding: HealthIssue) -> str:
    """The key of a finding that a thread reports once."""
    return f"{finding.reason.value}:{finding.severity}:{finding.source}"


def stages(view: View) -> list[str]:
    """The stages that a message shows."""
    return sorted({stage_of(finding) for finding in view.findings})


def _under_way(view: View, links: Links | None) -> list[Block]:
    blocks = [section("\n".join(_findings(view.findings, links)))] if view.findings else []
    blocks += [section(_automation(view))]
    do = [with_code(each) for each in _to_do(view.findings)][:TO_DO]
    if do:
        listed = do[0] if len(do) == 1 else "".join(f"\n• {each}" for each in do)
        blocks += [section(f"*Do now:*{'' if len(do) > 1 else ' '}{listed}")]
    blocks += [section(f"*{escape(state)}*")] if (state := _state(view)) else []
    buttons = [incident_buttons(view.incident)] if view.answers_buttons else []
    return [*blocks, *buttons, context(_footer(view))]


def _was(view: View) -> list[str]:
    incident = view.incident
    names = ", ".join(reason.replace("_", " ") for reason in view.was or incident.reasons)
    end = view.since or incident.resolved_at or view.now
    length = duration(max(end - incident.opened_at, timedelta(0)))
    return [f"It was: {names}, from {moment(incident.opened_at)} to {moment(end)} ({length})."]


def _findings(findings: Sequence[HealthIssue], links: Links | None) -> list[str]:
    lines = []
    for finding in findings[:SHOWN]:
        url, page = links and links.runbook(finding.reason.value), f"calmon docs {finding.reason.value}"
        runbook = link(url, "runbook") if url else f"(`{page}`)"
        lines.append(f"{EMOJI[finding.severity]} {escape(redacted(finding.text))} {runbook}")
    more = len(findings) - SHOWN
    return [*lines, f"and {more} more: `calmon health` lists all"] if more > 0 else lines


def _automation(view: View) -> str:
    return f"*Automation:* {escape(view.automation)}"


def _to_do(findings: Sequence[HealthIssue]) -> list[str]:
    """What to do, each once; runs that follow the same check are one line."""
    runs: dict[str, list[str]] = {}
    for each in dict.fromkeys(finding.do_now for finding in findings):
        check, _, run = each.partition(", then ")
        is_run = _RUN.fullmatch(run) is not None
        runs.setdefault(check if is_run else each, []).extend([run] if is_run else [])
    return [f"{check}, then {' and '.join(then)}" if then else check for check, then in runs.items()]


def _automation_after(view: View) -> list[str]:
    """What automation does after the end of a trouble, and what brings back labels whose leases ended meanwhile."""
    back = (
        "*Do now:* `calmon automation status` lists them. The next window within the limits renews a lease; "
        "`calmon automation enable` does so at once."
    )
    return [_automation(view), back] if view.has_ended else [_automation(view)]


def _state(view: View) -> str:
    """Who has taken it, or why it has not ended."""
    words, quiet = people_words(view.incident), view.incident.quiet_since
    if words or quiet is None:
        return words[:1].upper() + words[1:]
    return f"Not seen since {moment(quiet)}; it kept coming back, so it ends after 6 quiet hours"


def _footer(view: View) -> str:
    id = view.incident.id[:8]
    return f"since {moment(view.incident.opened_at)} · incident `{id}` · as of {moment(view.now)}"


def _reply(view: View, lines: Sequence[str], channel: str, id: str, change: str, mention: str | None) -> Payload:
    text = " ".join([*lines, mention_text(mention)]).strip()
    blocks = [*mention_block(mention), section("\n".join(lines))]
    return payload_of(channel, cut(text, FALLBACK), blocks, id, change) | {
        "incidents": [view.incident.id],
        "stages": stages(view),
    }


def history_down(
    flow: str,
    error: str,
    since: datetime,
    now: datetime,
    *,
    channel: str,
    mention: str | None,
    repeat: timedelta | None,
    number: int,
    ttl_s: int,
) -> Payload:
    """The message that the history cannot be used (``number`` 0), or a reminder of it in the thread."""
    reason = escape(cut(redacted(_STATEMENT.sub("", error)), 1_500))
    again = f"*Not over yet: the history cannot be used since {moment(since)}.*"
    what = f":red_circle: {escape(clean(flow))} failed at {moment(now)}: the history cannot be used."
    follows = (
        "*What follows:* nothing can be judged, stored or acknowledged until it answers. A gate that cannot read it "
        f"either refuses everything once what it knows is older than its TTL ({ttl_s} s where this was written), so "
        "automation is off there; leases that end meanwhile are not renewed."
    )
    later = f"Reminders come every {duration(repeat)} until the history answers." if repeat else "No reminder follows."
    do = (
        "*Do now:* check that the database at `CALMON_STORE_URL` is running and answers (`calmon health`). "
        "After an update: `calmon db upgrade`."
    )
    blocks = [] if number else [header("Monitor: the history cannot be used")]
    blocks += [*mention_block(mention), section(again if number else what), section(f"```{reason}```")]
    blocks += [section(follows), section(do), context(f"{later} `calmon docs operations` · as of {moment(now)}")]
    text = f"{again if number else f'Monitor: the history cannot be used: {reason}'} {mention_text(mention)}".strip()
    return payload_of(channel, cut(text, FALLBACK), blocks, outage_id(since, number), "repeat" if number else None)


def outage_id(since: datetime, number: int) -> str:
    """The id of the ``number``-th message about an outage, by which it is found in its channel."""
    return hashed("outage", since.isoformat(), str(number))


def history_back(since: datetime, now: datetime, *, channel: str) -> tuple[Payload, Payload]:
    """The edit and the reply that say that the history can be used again."""
    title = f"The history can be used again (seen {moment(now)})"
    was = f"It could not be used since {moment(since)} ({duration(now - since)})."
    blocks = [header(f"{DONE} {title}"), section(was), context(f"as of {moment(now)}")]
    id = hashed("outage", since.isoformat(), "back")
    edit = payload_of(channel, title, blocks, id, "edit")
    reply = payload_of(channel, f"{DONE} *{title}.* {was}", [section(f"{DONE} *{title}.* {was}")], id, "news")
    return edit, reply | {"title": title, "body": was, "type": "success"}  # of which Slack is sent nothing


def on_demand_failed(
    flow: str, error: str, now: datetime, *, channel: str, run: str, url: str | None, mention: str | None
) -> Payload:
    """The message that a flow which a person started (backfill, rebaseline) failed; one for each ``run``."""
    reason = escape(cut(redacted(error), 1_500))
    top = f"Monitor: {clean(flow)} failed"
    what = f":warning: {escape(clean(flow))}, which somebody started, failed at {moment(now)}."
    means = (
        "The schedules and the switch are not touched by it. "
        "*Do now:* read the log of the run, fix what it names, and start it again."
    )
    blocks = [header(top), *mention_block(mention), section(f"{what} {means}"), section(f"```{reason}```")]
    blocks += [context(link(url, "the run"))] if url else []
    text = f"{escape(top)}: {reason} {mention_text(mention)}".strip()
    return payload_of(channel, cut(text, FALLBACK), blocks, hashed("monitor", channel, flow, run))


def redacted(text: str) -> str:
    """The text without secrets and unprintable characters."""
    return "".join(c for c in without_secrets(text) if c.isprintable() or c == "\n")
