"""What people and time do to incidents: acknowledge, silence, resolve, the end of a silence, reminders.

The command line, buttons in Slack and the drain call these functions. Each decides from the stored incidents, and
stores its decision with the edit of the living message in one transaction. If somebody else changed an incident first,
it decides again. The outbox sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias

from monitor.alerting import compose, incidents
from monitor.alerting.compose import Composed
from monitor.alerting.health import watchdog
from monitor.alerting.incident_context import IncidentContext
from monitor.alerting.incidents import IncidentDecision, IncidentStep
from monitor.alerting.slack.incident_message import repeat_message
from monitor.alerting.slack.message import delivery_of, is_reminder, kept_reminders, last_call
from monitor.context import Monitor
from monitor.core.records import Delivery, Incident, IncidentEvent, IncidentReason, Subject
from monitor.operations.move_messages import move_messages

Decide: TypeAlias = Callable[[Incident, datetime], IncidentDecision]
TRIES = 20  # a try takes a second or two with hundreds of open incidents, and somebody else may be faster


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a person's action, in ``words``: what was done, or why not. ``deliveries`` are pending edits."""

    decision: IncidentDecision
    words: str
    deliveries: tuple[Delivery, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether the action is not allowed; an action that was done already is not refused."""
        return self.decision.kind == "refuse"


def acknowledge(monitor: Monitor, incident_id: str, actor: str) -> Outcome:
    """Acknowledge an incident: somebody works on it, and reminders end. Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda i, now: incidents.acknowledge(i, actor, now), actor)


def silence(monitor: Monitor, incident_id: str, until: datetime, actor: str) -> Outcome:
    """Send no reminders of an incident until ``until`` (time zone aware). Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda i, now: incidents.silence(i, actor, until, now), actor)


def resolve(monitor: Monitor, incident_id: str, actor: str, reason: str) -> Outcome:
    """End an incident, with a reason; refused for one of the monitor itself. Raises NotFound or Ambiguous."""

    def decide(incident: Incident, now: datetime) -> IncidentDecision:
        if incident.is_of_monitor:
            return IncidentDecision("refuse", IncidentReason.ENDS_BY_ITSELF, incident)
        return incidents.resolve(incident, actor, reason, now)

    return _change(monitor, incident_id, decide, actor, why=reason)


def refuse(monitor: Monitor, incident_id: str, actor: str, reason: str, *, key: str) -> None:
    """Store that somebody requested what they may not do, once for each ``key``. Raises NotFound or Ambiguous."""
    found = monitor.store.incident(incident_id)
    event = IncidentEvent(key, found.id, monitor.clock(), kind="refused", reason=reason, actor=actor)
    monitor.store.apply_incidents([], [], [], [event])


def acknowledge_label(monitor: Monitor, incident_id: str, actor: str) -> Outcome:
    """Acknowledge all of a label's incidents in the same message or on the same route. Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda i, now: incidents.acknowledge(i, actor, now), actor, whole_label=True)


def silence_label(monitor: Monitor, incident_id: str, until: datetime, actor: str) -> Outcome:
    """Silence all of a label's incidents in the same message or on the same route. Raises NotFound or Ambiguous."""
    return _change(
        monitor, incident_id, lambda i, now: incidents.silence(i, actor, until, now), actor, whole_label=True
    )


def _of_label(monitor: Monitor, first: Incident) -> list[Incident]:
    """The incidents that a label's button is about: ``first``, and its label's other unresolved ones beside it."""
    route = compose.route_of(monitor.config, first)
    beside = [
        each
        for each in monitor.store.unresolved_incidents(first.source)
        if each.id != first.id
        and each.label == first.label
        and (each.root == first.root or compose.route_of(monitor.config, each) == route)
    ]
    return [first, *beside]


def _words(decisions: Sequence[IncidentDecision]) -> str:
    """The result in words, with its incident, or its label and the rules concerned."""
    done = [each for each in decisions if each.changes] or decisions[:1]
    decision, found = done[0], done[0].incident
    if found is None:
        return decision.words
    if found.is_of_monitor:
        return f"{found.rule} {found.source}".strip() + f": {decision.words}"
    name = Subject(found.source, found.label).name
    if len(done) == 1:
        return f"{name}, {found.rule}: {decision.words}"
    rules = ", ".join(each.incident.rule for each in done if each.incident is not None)
    return f"{name}: {decision.words} ({rules})"


def _change(
    monitor: Monitor, incident_id: str, decide: Decide, actor: str, why: str = "", *, whole_label: bool = False
) -> Outcome:
    """Decide on an incident, or on all of its label that notify the same people, and store the decisions."""
    for _ in range(TRIES):
        with monitor.store.one_moment():
            first, now = monitor.store.incident(incident_id), monitor.clock()
            affected = _of_label(monitor, first) if whole_label and not first.is_of_monitor else [first]
            decisions = [decide(each, now) for each in affected]
            steps = [IncidentStep(each, actor=actor, why=why) for each in decisions]
            composed = (watchdog if first.is_of_monitor else compose).compose(monitor, steps)
        if _store(monitor, composed):
            decision = next((each for each in decisions if each.changes), decisions[0])
            return Outcome(decision, _words(decisions), composed.deliveries)
    raise RuntimeError(f"incident {incident_id} kept changing under {TRIES} tries; try again")


def _store(monitor: Monitor, composed: Composed) -> bool:
    """Store decisions with their events and messages; False if somebody else changed an incident first."""
    if not composed.events and not composed.deliveries:
        return True
    return (
        monitor.store.apply_incidents(composed.opened, composed.updated, composed.deliveries, composed.events)
        == "applied"
    )


def due_repeats(monitor: Monitor) -> list[Delivery]:
    """Messages that are due by time alone: ended silences, ended switches, reminders of unacknowledged incidents.

    They are stored as pending, each once, even if other processes do the same now. Call this before each drain: it
    also lets messages be posted where their route sends them now, if Slack refuses their channel.
    """
    move_messages(monitor)
    edits = [*end_silences(monitor), *compose.show_switches(monitor)]
    waiting = monitor.store.incidents("open")
    roots = dict.fromkeys(each.root for each in waiting if each.root is not None)
    found = [_repeat(monitor, root, [each for each in waiting if each.root == root]) for root in roots]
    calls = [each for each in (*found, *watchdog.reminders(monitor)) if each is not None]
    for call in calls:
        _end_older(monitor, call)
        monitor.store.add_delivery(call)
    return edits + calls


def _end_older(monitor: Monitor, call: Delivery) -> None:
    """End the reminders of a thread that were kept until the next one is due: only that one is sent."""
    thread = monitor.store.thread(call.root or "", operations=["reply"])
    for each in kept_reminders(thread):
        if each.id != call.id:  # another process may have stored the same one just now
            monitor.store.conclude_delivery(each.id, from_state=each.state, state="superseded")


def end_silences(monitor: Monitor) -> list[Delivery]:
    """End the silences that are over, and edit their messages."""
    for _ in range(TRIES):
        with monitor.store.one_moment():
            silent, now = monitor.store.incidents("silenced"), monitor.clock()
            steps = [IncidentStep(incidents.wake(each, now)) for each in silent]
            composed = compose.compose(monitor, [step for step in steps if step.decision.changes])
        if _store(monitor, composed):
            return list(composed.deliveries)
    return []  # other processes do the same now: the next drain completes it


def _repeat(monitor: Monitor, root: str, waiting: Sequence[Incident]) -> Delivery | None:
    """The next reminder in one thread, if it is due; None before the message itself has been sent."""
    thread = monitor.store.thread(root, operations=["reply"])
    post = next((each for each in thread if each.id == root), None)
    routes = [route for route in (compose.route_of(monitor.config, each) for each in waiting) if route is not None]
    route = min(routes, key=lambda r: (r.repeat is None, r.repeat), default=None)
    if post is None or post.sent_at is None or route is None:
        return None
    number = 1 + sum(map(is_reminder, thread))
    made = partial(_reminder, monitor, post, waiting, route.mention)
    _correct(monitor, kept_reminders(thread), made)
    last = last_call(post.sent_at, thread, monitor.store.identity().restored_at, monitor.clock())
    return made(number) if incidents.repeat_due(waiting, last, route.repeat, monitor.clock()) else None


def _correct(monitor: Monitor, kept: Sequence[Delivery], made: Callable[[int], Delivery]) -> None:
    """Compose kept reminders anew if they would say something else now than when they were composed.

    Each keeps its id, by which it is looked for if it may be in Slack already.
    """
    payload = made(0).payload if kept else {}
    for each in kept:
        if each.payload.get("blocks") != payload["blocks"]:
            monitor.store.recompose_delivery(each.id, {**payload, "metadata": each.payload["metadata"]})


def _reminder(
    monitor: Monitor, post: Delivery, waiting: Sequence[Incident], mention: str | None, number: int
) -> Delivery:
    context = IncidentContext(monitor)
    payload = repeat_message(
        [context.with_switch(context.brief(each, context.last(each))) for each in context.of_message(post.id)],
        channel=post.channel,
        root=post.id,
        number=number,
        mention=mention,
    )
    payload["incidents"] = [each.id for each in waiting]
    return delivery_of(payload, kind="incidents", now=monitor.clock(), operation="reply", root=post.id)
