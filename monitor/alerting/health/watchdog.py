"""The watchdog: looks for health issues, and stores the incidents and messages about them.

``issues`` finds them, ``troubles`` makes one incident of them, and ``message`` writes the texts. This module reads the
history and stores the decisions with their messages in one transaction. The outbox sends them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from itertools import takewhile
from typing import Any

from monitor.alerting import notices
from monitor.alerting.compose import Composed
from monitor.alerting.health import issues, message, troubles
from monitor.alerting.health.issues import HealthIssue, JudgedSeen, Observed, ReadingSeen, RunSeen
from monitor.alerting.health.message import View, automation_now, ended_leases
from monitor.alerting.health.troubles import TroubleChange
from monitor.alerting.slack.blocks import Payload, edited
from monitor.alerting.slack.links import links_of
from monitor.alerting.slack.message import delivery_of, is_reminder, last_call
from monitor.automation.state import clock_behind, closed_history
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.diagnoses import NotTold
from monitor.core.records import (
    SCHEDULES,
    VANISHED,
    Delivery,
    DeliveryState,
    Incident,
    Note,
    Reason,
    Schedule,
    Window,
)
from monitor.core.redaction import without_secrets
from monitor.core.wording import clean
from monitor.history.store import Store
from monitor.incidents import life
from monitor.incidents.life import IncidentDecision

LOOKS_BACK = timedelta(weeks=12)
RUNS = 200
TOO_FEW_FOR = timedelta(weeks=3)
"""A diagnosis that is older says nothing of the present."""
SINCE_BACK = 26
"""How many windows back the start of a lasting condition is searched for."""
EXAMPLES = 3
TRIES = 20
STAND_IN_AFTER = timedelta(minutes=30)
"""For how long the drain sees a silent watchdog before it does its work: two of its looks."""
ERROR_LENGTH = 2_000
_REPORTED_BY_LABEL = (Reason.SCORES_MOVED, Reason.REJECTED_ROWS, Reason.UNRESOLVED_FAILED)
_ON_ITS_WAY: tuple[DeliveryState, ...] = ("pending", "sending", "failed", "sent", "dead")


def observed(
    store: Store,
    config: Config,
    now: datetime,
    *,
    since: datetime | None = None,
    of_replica: bool = False,
    has_buttons: bool = False,
) -> Observed:
    """What the history has about the monitor's work; readings of twelve weeks, or from an earlier ``since`` on.

    ``has_buttons``: both tokens of ``calmon slack`` are set here.

    Raises StoreUnreachable for a read replica, on which every gate is closed, whatever its switches say; unless the
    caller says so beside what it shows (``of_replica``).
    """
    if not of_replica:
        store.refuse_replica()
    begin = now - LOOKS_BACK if since is None else min(since, now - LOOKS_BACK)
    # a window that is not over was judged while a clock was ahead: its real run is still to come
    over = [row for row in store.runs(limit=RUNS, until=now) if row["window_end"] <= now]
    runs = [RunSeen(**{name: row[name] for name in RunSeen.__slots__}) for row in over]
    readings = [ReadingSeen(**row) for row in store.readings_seen(begin, now)]
    scheduled = tuple(each for each in SCHEDULES if config.rules_for(each))
    unresolved = store.unresolved_incidents()
    newest = store.newest_diagnoses(back=TOO_FEW_FOR, until=now)
    rare = [(each.source, each.label) for each in newest if each.reason is NotTold.TOO_FEW_ROWS]
    vanished = [(each.source, each.label) for each in unresolved if each.kind == VANISHED]
    return Observed(
        zone=config.zone,
        scheduled=scheduled,
        sources=tuple(config.sources),
        runs=runs,
        readings=[r for r in readings if windows.begun(r.schedule, r.window_start, config.zone).end <= now],
        switches=store.switches(),
        deliveries=store.undelivered(now - issues.RECENT),
        since=min((run.started_at for run in runs), default=None),
        rules_revision=config.revision,
        lease=config.automation.lease,
        identity=store.identity(),
        judged=[
            each
            for schedule in scheduled
            for source in config.sources
            for each in _judged(store, runs, schedule, source)
        ],
        notes=store.notes(),
        in_threads=frozenset((each.source, each.label) for each in unresolved if each.root is not None),
        untold=_untold(store, config, unresolved),
        with_scores=frozenset(source for source, _ in store.thresholds()),
        channels=frozenset(route.addresses[0] for route in config.routes),
        sent=store.sent_between(),
        has_buttons=has_buttons,
        not_news=frozenset({*rare, *vanished}),
        judged_at={
            (schedule, source): [at for at in starts if windows.begun(schedule, at, config.zone).end <= now]
            for (schedule, source), starts in store.judged_windows(now - LOOKS_BACK).items()
        },
    )


def _untold(store: Store, config: Config, unresolved: Sequence[Incident]) -> frozenset[tuple[str, str | None]]:
    """The labels with a critical incident of which no message was sent, or is on its way."""
    calling = [each for each in unresolved if (each.severity, each.state) == ("critical", "open")]
    messages = {each.id: notices.messages_of(config, each) for each in calling}
    found = store.delivery_roots({id for ids in messages.values() for id in ids}) if calling else {}
    told = {id for id, root in found.items() if root.state in _ON_ITS_WAY}
    return frozenset((each.source, each.label) for each in calling if told.isdisjoint(messages[each.id]))


def _judged(store: Store, runs: Sequence[RunSeen], schedule: Schedule, source: str) -> Iterator[JudgedSeen]:
    """The verdicts of a source in its newest window of a schedule, if there are any."""
    done = [run for run in runs if (run.schedule, run.source, run.state) == (schedule, source, "done")]
    rows = store.judged(schedule, done[0].window_start, source) if done else []
    if not rows:
        return
    newest, before = done[0], done[1 : SINCE_BACK + 1]
    reasons = {Reason(row["reason"]): int(row["verdicts"]) for row in rows if row["outcome"] == "not_evaluated"}
    evaluated = sum(int(row["verdicts"]) for row in rows if row["outcome"] != "not_evaluated")
    by_label = [reason for reason in _REPORTED_BY_LABEL if reason in reasons]
    keys = [*(reason.value for reason in by_label), *([] if evaluated else [""])]
    not_judged = {reason: store.not_judged(schedule, newest.window_start, source, reason) for reason in by_label}
    yield JudgedSeen(
        schedule,
        newest.window_name,
        source,
        evaluated,
        reasons,
        labels={
            reason: [(row["rule"], row["severity"], row["label"]) for row in rows]
            for reason, rows in not_judged.items()
        },
        since={key: _since(store, newest, before, key) for key in keys},
        **(_lost(store, newest) if Reason.REJECTED_ROWS in by_label else {}),
    )


def _lost(store: Store, run: RunSeen) -> dict[str, Any]:
    """Why rows of a source were rejected, with the items of some of them."""
    lost = store.rejections(run.schedule, run.window_start, run.source)
    reason = lost.gravest.reason if lost.gravest else None
    found = [q for q in store.quality(run.schedule, run.window_start, run.source) if q.reason == reason]
    items = [clean(str(row.get("item"))) for q in found for row in q.examples if row.get("item")]
    return {"lost": lost, "examples": tuple(dict.fromkeys(items))[:EXAMPLES]}


def _since(store: Store, newest: RunSeen, before: Sequence[RunSeen], key: str) -> str:
    """The first of the consecutive windows in which the reason ``key`` held ("": in which nothing was judged)."""

    def holds(run: RunSeen) -> bool:
        rows = store.judged(run.schedule, run.window_start, run.source)
        if key:
            return any(row["reason"] == key for row in rows)
        return bool(rows) and all(row["outcome"] == "not_evaluated" for row in rows)

    return next(iter(reversed([newest, *takewhile(holds, before)]))).window_name


def watch_monitor(monitor: Monitor) -> list[HealthIssue]:
    """What is wrong with the monitor now; its incident and its message are stored."""
    return _update(monitor)


def watch_run(monitor: Monitor, window: Window) -> list[HealthIssue]:
    """The same after a run of ``window``, which may be an old one, for what it has read and judged.

    Whether other runs and the watchdog itself work, is not for a run to say: it may be the first thing that happens
    after the machine has started.
    """
    return _update(monitor, about=troubles.OF_A_RUN, since=window.start)


def stand_in(monitor: Monitor) -> bool:
    """Do the watchdog's work where it is silent, as if somebody paused it; returns whether it was done.

    For the drain, which runs every five minutes. It waits for ``STAND_IN_AFTER`` of such calls: after a machine has
    started, the watchdog's first look may be still to come.
    """
    now, notes = monitor.clock(), monitor.store.notes()
    looked, seen = notes.get(issues.WATCHDOG_NOTE), notes.get(issues.SILENT_NOTE)
    if looked is None or now - looked.at <= issues.SILENT:
        if seen is not None:
            monitor.store.drop_note(issues.SILENT_NOTE)
        return False
    since = now if seen is None or not timedelta(0) <= now - seen.at <= STAND_IN_AFTER else _begun(seen)
    monitor.store.put_note(Note(issues.SILENT_NOTE, now, {"since": since.isoformat()}))
    if now - since < STAND_IN_AFTER:
        return False
    watch_monitor(monitor)
    return True


def _begun(seen: Note) -> datetime:
    """Since when the drain has seen a silent watchdog, without a pause of its own."""
    return datetime.fromisoformat(seen.detail["since"])


def watch_runs(monitor: Monitor) -> list[HealthIssue]:
    """The same for runs and flows only, for use where alerts.yaml may be broken: nothing ends by it."""
    return _update(monitor, about=troubles.NOT_RUNNING, ends=False)


def _update(
    monitor: Monitor, *, about: Collection[str] | None = None, ends: bool = True, since: datetime | None = None
) -> list[HealthIssue]:
    """Store what a look changes: one for everything, or for some reasons beside those that are reported already."""
    for _ in range(TRIES):
        look = WatchRound(monitor, monitor.clock(), since)
        with monitor.store.one_moment():
            reported = {reason for incident in look.known if incident.is_open for reason in incident.reasons}
            seen = [f for f in look.findings if about is None or f.reason in about or f.reason in reported]
            change = troubles.change_of(seen, look.known, look.now, ends=ends)
            made = Composed() if change is None else look.compose(change)
        if made == Composed() or (
            monitor.store.apply_incidents(made.opened, made.updated, made.deliveries, made.events) == "applied"
        ):
            return look.findings
    raise RuntimeError(f"the incident of the monitor kept changing under {TRIES} tries; try again")


def is_reported(monitor: Monitor) -> bool:
    """Whether the monitor's incident has a message, and says that something could not be read or judged."""
    return any(_messages_saying(monitor.store, monitor.config, troubles.NOT_JUDGED))


def _messages_saying(store: Store, config: Config, reasons: Collection[str]) -> Iterator[Delivery]:
    """The first messages of the monitor's incidents with one of these reasons."""
    for incident in store.unresolved_incidents(of_monitor=True):
        if not set(reasons).isdisjoint(incident.reasons):
            yield from filter(None, (store.message(id)[0] for id in notices.messages_of(config, incident)))


def is_not_running_reported(store: Store, config: Config, now: datetime) -> bool:
    """Whether a message says that the monitor does not work, and is no older than its route's ``repeat``."""
    route = config.critical_route
    repeat = (route.repeat if route is not None else None) or issues.RECENT
    posts = _messages_saying(store, config, troubles.NOT_RUNNING)
    return any(post.sent_at is not None and now - post.sent_at < repeat for post in posts)


def note_failure(store: Store, flow: str, error: str, now: datetime, sources: Sequence[str] = ()) -> None:
    """Store that a flow failed, for the next look; without secrets, and cut to what a message shows.

    ``sources`` are those that it was to judge: the failure is over when all of them have been.
    """
    detail = {"error": without_secrets(error)[:ERROR_LENGTH], "sources": list(sources)}
    store.put_note(Note(f"{issues.FAILED_NOTE}{flow}", now, detail))


def compose(monitor: Monitor, decisions: Sequence[IncidentDecision]) -> Composed:
    """A person's changes of incidents of the monitor, with the edits; to be stored as ``alerting.compose`` says."""
    look = WatchRound(monitor, monitor.clock())
    events = tuple(event for each in decisions if (event := life.event_of(each, look.now)) is not None)
    changed = tuple(i for each in decisions if each.changes and (i := each.incident) is not None)
    edits = tuple(edit for i in changed for edit in look.edit(TroubleChange(None, i, troubles.needing(look.findings))))
    return Composed(updated=changed, deliveries=edits, events=events)


def reminders(monitor: Monitor) -> list[Delivery]:
    """One reminder for each trouble that nobody has acknowledged, where the route's ``repeat`` has passed."""
    look = WatchRound(monitor, monitor.clock())
    found = (look.reminder(i) for i in monitor.store.unresolved_incidents(of_monitor=True) if i.state == "open")
    return [each for each in found if each is not None]


@dataclass(frozen=True)
class WatchRound:
    """One look at the history at one time, and the messages that it makes."""

    monitor: Monitor
    now: datetime
    since: datetime | None = None

    @cached_property
    def seen(self) -> Observed:
        """What the history has about the monitor's work."""
        monitor, has_buttons = self.monitor, self.monitor.settings.has_buttons
        return observed(monitor.store, monitor.config, self.now, since=self.since, has_buttons=has_buttons)

    @cached_property
    def findings(self) -> list[HealthIssue]:
        """All health issues."""
        return issues.findings(self.seen, self.now)

    @cached_property
    def known(self) -> list[Incident]:
        """The monitor's incidents that these findings may belong to, or come back to."""
        return self.monitor.store.unresolved_incidents(since=self.now - troubles.RECALL, of_monitor=True)

    def compose(self, change: TroubleChange) -> Composed:
        """A change with its messages."""
        placed, deliveries = self._messages(change)
        deliveries = [*deliveries, *self._notices(replace(change, after=placed))]
        if placed == change.before:
            return Composed(deliveries=tuple(deliveries))
        event = troubles.event_of(replace(change, after=placed), self.now)
        opened, updated = ((placed,), ()) if change.before is None else ((), (placed,))
        return Composed(opened, updated, tuple(deliveries), () if event is None else (event,))

    def _messages(self, change: TroubleChange) -> tuple[Incident, list[Delivery]]:
        """The incident with its message, and the deliveries."""
        incident, (post, thread) = change.after, self._thread(change.after)
        if incident.state == "resolved" and post is None:
            return incident, []
        if post is None or not (post.state in _ON_ITS_WAY or self.monitor.sender is None):
            return self._post(change)
        if incident.state == "silenced":
            return incident, self.edit(change)
        return incident, [*self.edit(change), *self._replies(change, thread, post)]

    def _post(self, change: TroubleChange) -> tuple[Incident, list[Delivery]]:
        route = route_for(change, self.monitor.config)
        if route is None or not route.channel or not change.findings or change.after.state != "open":
            return change.after, []
        version = change.after.version + (change.after == change.before)
        incident = replace(change.after, version=version)
        payload = self._living(replace(change, after=incident), route.channel, route.mention)
        post = delivery_of(payload, kind="monitor", now=self.now)
        return replace(incident, root=post.id), [post]

    def _notices(self, change: TroubleChange) -> list[Delivery]:
        """What receivers beside Slack are told: that people are called, and that nothing is wrong any more."""
        view, route = self._view(change), route_for(change, self.monitor.config)
        if change.event == "resolved":
            return notices.ending(self.monitor, change.after, view.title, [view.automation])
        name = notices.receiver(self.monitor, change.after, route, again=change.calls)
        if name is None or not change.findings:
            return []
        lines = [*(message.redacted(each.text) for each in change.findings), f"automation: {view.automation}"]
        do = [f"do now: {message.redacted(each.do_now)}" for each in change.findings[:1] if each.do_now]
        return [notices.beginning(self.monitor, change.after, name, view.title, [*lines, *do])]

    def edit(self, change: TroubleChange) -> list[Delivery]:
        """The new text of the message, where it differs from the present one."""
        root, (post, thread) = change.after.root, self._thread(change.after)
        if root is None or post is None:
            return []
        route = route_for(change, self.monitor.config)
        payload = self._living(change, post.channel, route.mention if route else None)
        last = [each for each in thread if each.operation == "edit" or each.id == root][-1]
        if last.payload.get("shows") == payload["shows"]:
            return []
        sequence = self.monitor.store.last_edit(root) + 1
        changed = edited(payload, root, sequence)
        return [delivery_of(changed, kind="monitor", now=self.now, operation="edit", root=root, sequence=sequence)]

    def _living(self, change: TroubleChange, channel: str, mention: str | None) -> Payload:
        links = links_of(self.monitor.settings)
        return message.living_message(self._view(change), channel=channel, mention=mention, links=links)

    def _replies(self, change: TroubleChange, thread: Sequence[Delivery], post: Delivery) -> list[Delivery]:
        """The replies: it is over, came back or got worse, and each finding once.

        Not that nothing reaches Slack: it would be read there when it does again.
        """
        view = self._view(change)
        if change.event == "resolved":
            return [self._reply(message.back(view, channel=post.channel, root=post.id), post)]
        known = {stage for each in thread for stage in each.payload.get("stages", ())}
        heard = [each for each in change.findings if issues.not_heard([each]) is None]
        stages = {
            message.stage_of(each): each for each in heard if not troubles.is_said_already(each, change, self.now)
        }
        new = [finding for stage, finding in stages.items() if stage not in known]
        calls = change.calls and any(finding.severity == change.after.severity for finding in heard)
        if not (new or calls):
            return []
        route = route_for(change, self.monitor.config)
        mention = route.mention if route and calls and change.after.state == "open" else None
        return [self._reply(message.news(view, new, channel=post.channel, root=post.id, mention=mention), post)]

    def reminder(self, incident: Incident) -> Delivery | None:
        """The next reminder in one thread, if it is due; never before the message itself has been sent."""
        post, thread = self._thread(incident)
        if post is None or post.sent_at is None:
            return None
        last = last_call(post.sent_at, thread, self.monitor.store.identity().restored_at, self.now)
        config = self.monitor.config
        usual = config.route_for(severity=incident.severity, source=incident.source, label=None, rule="")
        route = usual or next(iter(config.routes), None)
        if route is None or not life.repeat_is_due(incident, last, route.repeat, self.now):
            return None
        findings = troubles.needing(self.findings)
        if not findings:  # over: the next look of the watchdog says so
            return None
        payload = message.reminder(
            self._view(TroubleChange(incident, incident, findings)),
            channel=post.channel,
            root=post.id,
            mention=route.mention,
            number=1 + sum(map(is_reminder, thread)),
        )
        return self._reply(payload, post)

    def _view(self, change: TroubleChange) -> View:
        incident = change.after
        return View(
            incident,
            change.findings,
            automation_line(self.seen, self.now),
            self.now,
            since=self._since(incident),
            has_ended=_has_ended_leases(self.seen, self.now),
            was=self._reasons(incident) if incident.state == "resolved" else (),
        )

    def _reasons(self, incident: Incident) -> list[str]:
        """Every reason that an incident has had, in the order in which they came: the last ones are not all of them."""
        stored = (
            event.reason for event in self.monitor.store.incident_events(incident.id) if event.actor == "watchdog"
        )
        known = [reason for reasons in stored for reason in reasons.split(", ") if reason]
        return list(dict.fromkeys([*known, *incident.reasons]))

    def _since(self, incident: Incident) -> datetime | None:
        """When the incident ended; where a run has ended it, when that run was done."""
        by_runs = {"run_missing", "run_failed", "run_hung", "lease_ending", "lease_ended"}
        if incident.state != "resolved" or not set(incident.reasons) <= by_runs:
            return incident.resolved_at
        done = (run.finished_at for run in self.seen.runs if run.state == "done" and run.finished_at is not None)
        recent = [at for at in done if incident.opened_at < at <= self.now]
        return max(recent, default=incident.resolved_at)

    def _reply(self, payload: Payload, post: Delivery) -> Delivery:
        return delivery_of(payload, kind="monitor", now=self.now, operation="reply", root=post.id)

    def _thread(self, incident: Incident) -> tuple[Delivery | None, list[Delivery]]:
        """The message as it was posted, and all of its thread."""
        thread = self.monitor.store.thread(incident.root) if incident.root is not None else []
        return next((each for each in thread if each.id == incident.root), None), thread


def _has_ended_leases(records: Observed, now: datetime) -> bool:
    """Whether labels are off because their leases ended, and not because every gate is closed."""
    identity = records.identity
    if identity is not None and (closed_history(identity) or clock_behind(identity.newest_at, now)) is not None:
        return False
    return bool(ended_leases([s for s in records.switches if not records.is_lost(s.source)], now))


def automation_line(records: Observed, now: datetime) -> str:
    """Which labels may act alone at ``now``, in one sentence."""
    identity = records.identity
    if identity is not None and closed_history(identity) is not None:
        return message.CLOSED
    behind = None if identity is None else clock_behind(identity.newest_at, now)
    if behind is not None:
        return message.CLOCK_BEHIND
    return automation_now((s for s in records.switches if not records.is_lost(s.source)), now)


def route_for(change: TroubleChange, config: Config) -> Route | None:
    """The route of the severity, else the first; a channel that refuses messages only if there is no other."""
    taken = config.route_for(severity=change.after.severity, source="", label=None, rule="")
    refused = {finding.channel for finding in change.findings} - {""}
    candidates = [route for route in (taken, *config.routes) if route is not None]
    return next(
        (route for route in candidates if route.addresses[0] not in refused), candidates[0] if candidates else None
    )
