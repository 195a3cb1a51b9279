"""What is told of the monitor itself, in Slack's marks: its incident, what is new in it, and its end. Pure.

Every sentence is computed from the issues and the switches at the time of writing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from monitor.alerting.health.issues import HealthIssue, WatchReason
from monitor.alerting.slack.blocks import (
    DONE,
    EMOJI,
    Payload,
    cut,
    escape,
    hashed,
    link,
    message_of,
    post_of,
    reply_of,
    with_code,
)
from monitor.alerting.slack.links import Links
from monitor.automation.state import GateReason, allowed_of_each
from monitor.config.model import Route
from monitor.core.records import Identity, Incident, SwitchState
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean, count_of, duration, moment
from monitor.story.label import people_words

SHOWN, TO_DO = 8, 3
CLOSED = "Every gate is closed until somebody confirms the history: no label acts alone now."
CLOCK_BEHIND = "Every gate is closed, since the clock is behind the history: no label acts alone now."
_STATEMENT = re.compile(r"\n\[SQL: .*?(?:\n\(Background on this error at: [^)]*\)|\Z)", re.DOTALL)
"""What SQLAlchemy adds to a driver's error: the statement, with messages and data in it."""
_RUN = re.compile(r"`calmon run (weekly|daily)( --(week|date) [0-9W-]+)?`")


def title_of(reason: str, source: str) -> str:
    """What is wrong with the monitor, in a few words; a reason of another version as it is.

    >>> title_of("data_stale", "tickets"), title_of("run_missing", "")
    ('tickets has no rows', 'evaluations are missing')
    """
    words = WatchReason(reason).words if reason in set(WatchReason) else reason.replace("_", " ")
    return words.format(clean(source) or ("a channel" if "messages to" in words else "a source"))


def reasons_of(incident: Incident) -> str:
    """Everything that an incident of the monitor is about, in words."""
    return ", ".join(title_of(reason, incident.source) for reason in incident.reasons)


@dataclass(frozen=True, slots=True)
class MonitorStory:
    """What is told of the monitor as of a time: the ``issues`` that need somebody (none: it is over).

    ``automation`` is :func:`automation_now`, ``has_ended``: labels are off since their leases ended; ``was``: every
    reason that it has had, of one that is over.
    """

    issues: Sequence[HealthIssue]
    automation: str
    as_of: datetime
    has_ended: bool = False
    was: Sequence[str] = ()

    @property
    def answers_buttons(self) -> bool:
        """Whether a press of a button would be answered, as far as the issues say."""
        return all(issue.reason is not WatchReason.LISTENER_SILENT for issue in self.issues)

    @property
    def stages(self) -> list[str]:
        """The keys of the issues, each of which a thread reports once."""
        return sorted({stage_of(issue) for issue in self.issues})

    def title(self, incident: Incident) -> str:
        """What is wrong in a few words; of a resolved incident, how and when it ended."""
        if not incident.is_open:
            return f"Monitor: nothing is wrong since {moment(incident.resolved_at or self.as_of)}"
        first = self.issues[0] if self.issues else None
        subject = "" if first is None else first.source or first.channel
        more = f", and {len(self.issues) - 1} more" if len(self.issues) > 1 else ""
        return f"Monitor: {title_of(incident.reason if first is None else first.reason, subject)}{more}"


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


def ended_leases(switches: Iterable[SwitchState], now: datetime, identity: Identity | None = None) -> list[datetime]:
    """When the leases ended of labels that are off because of that, in order; none while every gate is closed."""
    return sorted(
        state.lease_until
        for state, allowed in allowed_of_each(switches, now, identity)
        if allowed.reason is GateReason.LEASE_ENDED and state.label is not None and state.lease_until is not None
    )


def message_of_monitor(story: MonitorStory, incident: Incident, route: Route, id: str, links: Links) -> Payload:
    """The living message of the monitor's incident."""
    title = story.title(incident)
    footer = f"since {moment(incident.opened_at)} · incident `{incident.id[:8]}` · as of {moment(story.as_of)}"
    if not incident.is_open:
        over = _was(story, incident), _automation_after(story)
        return message_of(incident, route, id, top=title, push=escape(title), paragraphs=over, footer=footer)
    runs: dict[str, list[str]] = {}  # what to do, each once; runs that follow the same check are one line
    for each in dict.fromkeys(issue.do_now for issue in story.issues):
        check, _, run = each.partition(", then ")
        is_run = _RUN.fullmatch(run) is not None
        runs.setdefault(check if is_run else each, []).extend([run] if is_run else [])
    do = [with_code(f"{check}, then {' and '.join(then)}" if then else check) for check, then in runs.items()][:TO_DO]
    listed = do[0] if len(do) == 1 else "".join(f"\n• {each}" for each in do)
    state = people_words(incident)  # who has taken it, or why it has not ended
    if not state and incident.quiet_since is not None:
        away = f"not seen since {moment(incident.quiet_since)}"
        state = f"{away}; it kept coming back, so it ends after 6 quiet hours"
    parts = (
        "\n".join(_issues(story.issues, links)),
        _automation(story),
        f"*Do now:*{'' if len(do) > 1 else ' '}{listed}" if do else "",
        f"*{escape(state[:1].upper() + state[1:])}*" if state else "",
    )
    push = f"{escape(title)}: {' '.join(escape(redacted(issue.text)) for issue in story.issues[:SHOWN])}"
    buttons = () if story.answers_buttons else None
    return message_of(incident, route, id, top=title, push=push, paragraphs=parts, footer=footer, buttons=buttons)


def news(
    story: MonitorStory, incident: Incident, new: Sequence[HealthIssue], *, mention: str | None, **thread: Any
) -> Payload:
    """A reply that says what is ``new`` in a trouble that goes on, that it came back, or that it is over.

    ``mention``: whom to call.
    """
    change, once = "call" if mention else "news", [stage_of(issue) for issue in new]
    if not incident.is_open:
        lines = [f"{DONE} *{escape(story.title(incident))}.*", _was(story, incident), _automation_after(story)]
        id = ["end", str(incident.reopened)]
    else:
        back = incident.reopened and not new
        first = replace(story, issues=new) if new else story  # what is new may be the lesser of two
        top = f"It is back: {story.title(incident)}" if back else f"New: {first.title(incident)}"
        lines = [f"*{escape(top)}*", *_issues(new or story.issues, None), _automation(story)]
        id = ["stage", *once] if once else ["news", str(incident.version)]
    made = reply_of(incident, "\n".join(lines), id=id, change=change, mention=mention, push=" ".join(lines), **thread)
    return made | {"stages": story.stages, "one_event": bool(once) or not incident.is_open}


def stage_of(issue: HealthIssue) -> str:
    """The key of an issue that a thread reports once."""
    return f"{issue.reason.value}:{issue.severity}:{issue.source}"


def notice_lines(story: MonitorStory) -> list[str]:
    """What receivers beside Slack are told, in plain text: what is wrong, what acts, and the first thing to do."""
    if not story.issues:
        return [story.automation]
    do = [f"do now: {redacted(issue.do_now)}" for issue in story.issues[:1] if issue.do_now]
    return [*(redacted(issue.text) for issue in story.issues), f"automation: {story.automation}", *do]


def _was(story: MonitorStory, incident: Incident) -> str:
    names = ", ".join(reason.replace("_", " ") for reason in story.was or incident.reasons)
    end = incident.resolved_at or story.as_of
    length = duration(max(end - incident.opened_at, timedelta(0)))
    return f"It was: {names}, from {moment(incident.opened_at)} to {moment(end)} ({length})."


def _issues(issues: Sequence[HealthIssue], links: Links | None) -> list[str]:
    lines = []
    for issue in issues[:SHOWN]:
        url, page = links and links.runbook(issue.reason.value), f"calmon docs {issue.reason.value}"
        runbook = link(url, "runbook") if url else f"(`{page}`)"
        lines.append(f"{EMOJI[issue.severity]} {escape(redacted(issue.text))} {runbook}")
    more = len(issues) - SHOWN
    return [*lines, f"and {more} more: `calmon health` lists all"] if more > 0 else lines


def _automation(story: MonitorStory) -> str:
    return f"*Automation:* {escape(story.automation)}"


def _automation_after(story: MonitorStory) -> str:
    """What automation does after the end of a trouble, and what brings back labels whose leases ended meanwhile."""
    back = (
        "\n*Do now:* `calmon automation status` lists them. The next window within the limits renews a lease; "
        "`calmon automation enable --all --reason TEXT` does so at once."
    )
    return f"{_automation(story)}{back if story.has_ended else ''}"


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
    top = "Monitor: the history cannot be used"
    return post_of(
        channel, "" if number else top, [again if number else what, f"```{reason}```", follows, do],
        outage_id(since, number), footer=f"{later} `calmon docs operations` · as of {moment(now)}",
        push=again if number else f"{top}: {reason}", mention=mention, change="repeat" if number else None,
    )  # fmt: skip


def outage_id(since: datetime, number: int) -> str:
    """The id of the ``number``-th message about an outage, by which it is found in its channel."""
    return hashed("outage", since.isoformat(), str(number))


def history_back(since: datetime, now: datetime, *, channel: str) -> tuple[Payload, Payload]:
    """The edit and the reply that say that the history can be used again."""
    title = f"The history can be used again (seen {moment(now)})"
    was = f"It could not be used since {moment(since)} ({duration(now - since)})."
    id, said = hashed("outage", since.isoformat(), "back"), f"{DONE} *{title}.* {was}"
    edit = post_of(channel, f"{DONE} {title}", [was], id, footer=f"as of {moment(now)}", push=title, change="edit")
    reply = post_of(channel, "", [said], id, push=said, change="news")
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
    return post_of(
        channel, top, [f"{what} {means}", f"```{reason}```"], hashed("monitor", channel, flow, run),
        footer=link(url, "the run") if url else "", push=f"{escape(top)}: {reason}", mention=mention,
    )  # fmt: skip


def redacted(text: str) -> str:
    """The text without secrets and unprintable characters."""
    return "".join(c for c in without_secrets(text) if c.isprintable() or c == "\n")
