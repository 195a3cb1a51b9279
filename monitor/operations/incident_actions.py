"""What people and time do to incidents: acknowledge, silence, resolve, note, the end of a silence, reminders.

The command line, buttons in Slack and the drain call these functions. Each decides from the stored incidents, and
stores its decision with the edit of the living message in one transaction. If somebody else changed an incident first,
it decides again. The outbox sends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeAlias

from monitor.alerting import compose
from monitor.alerting.compose import Composed
from monitor.alerting.slack.client import CHANNEL_ERRORS
from monitor.alerting.slack.message import is_reminder, kept_reminders, last_call
from monitor.context import Monitor
from monitor.core.records import Delivery, Incident, IncidentEvent, Subject
from monitor.incidents import life
from monitor.incidents.life import IncidentDecision
from monitor.story.incident import reason_words, state_words

Decide: TypeAlias = Callable[[Incident, datetime], IncidentDecision]


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
    return _change(monitor, incident_id, lambda incident, now: life.acknowledge(incident, actor, now))


def silence(monitor: Monitor, incident_id: str, until: datetime, actor: str) -> Outcome:
    """Send no reminders of an incident until ``until`` (time zone aware). Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda incident, now: life.silence(incident, actor, until, now))


def resolve(monitor: Monitor, incident_id: str, actor: str, reason: str) -> Outcome:
    """End an incident, with a reason; refused for one of the monitor itself. Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda incident, now: life.resolve(incident, actor, reason, now))


def note(monitor: Monitor, incident_id: str, actor: str, text: str) -> Outcome:
    """Add a note to an incident; it is shown in the thread of its message. Raises NotFound or Ambiguous."""
    return _change(monitor, incident_id, lambda incident, _: life.note(incident, actor, text))


def refuse(monitor: Monitor, incident_id: str, actor: str, reason: str, why: str, *, key: str) -> None:
    """Store that somebody requested what they may not do, once for each ``key``. Raises NotFound or Ambiguous."""
    found = monitor.store.incident(incident_id)
    event = IncidentEvent(
        key, found.id, monitor.clock(), kind="refused", reason=reason, actor=actor, detail={"why": why}
    )
    monitor.store.apply_incidents([], [], [event])


def _words(decision: IncidentDecision) -> str:
    """The result in words, with its incident."""
    incident = decision.incident
    if incident is None:
        return reason_words(decision.reason)
    if incident.is_of_monitor:
        name = f"{incident.kind} {incident.source}".strip()
    else:
        name = Subject(incident.source, incident.label).name
    silenced = decision.changes and incident.state == "silenced"
    return f"{name}: {state_words(incident) if silenced else reason_words(decision.reason)}"


def _change(monitor: Monitor, incident_id: str, decide: Decide) -> Outcome:
    """Decide on an incident, and store the decision with the edit of its message."""
    made: list[IncidentDecision] = []

    def make() -> Composed:
        made[:] = [decide(monitor.store.incident(incident_id), monitor.clock())]
        return compose.compose(monitor, made)

    composed = compose.stored(monitor, make)
    return Outcome(made[0], _words(made[0]), composed.deliveries)


def due_repeats(monitor: Monitor, *, reminds: bool = True) -> list[Delivery]:
    """Messages that are due by time alone: ended silences, ended switches, reminders of unacknowledged incidents.

    Also those of open incidents that had no route, no token or no such channel, and have one now. Not ``reminds``:
    without reminders, as in the middle of a run, which may yet see that a trouble is over. They are stored as pending,
    each once, even if other processes do the same now. Call this before each drain: it also gives up messages in a
    channel that Slack refuses and no route names any more, which are then posted anew by their route; not where routes
    were read from a broken alerts.yaml.
    """
    if monitor.config.sources:
        monitor.store.leave_channels(CHANNEL_ERRORS, monitor.config.addresses)

    def woken() -> Composed:
        unresolved, now = monitor.store.unresolved_incidents(of_monitor=None), monitor.clock()
        ended = (life.wake(each, now) for each in unresolved if each.state == "silenced")
        return compose.compose(monitor, [decision for decision in ended if decision.changes])

    edits: list[Delivery] = []
    for make in (woken, partial(compose.unsent, monitor)):
        with suppress(compose.Contended):  # other processes do the same now: the next drain completes it
            edits += compose.stored(monitor, make).deliveries
    edits += compose.show_switches(monitor)
    if not reminds:
        return edits
    found = monitor.store.unresolved_incidents(of_monitor=None)
    still_open = [each for each in found if each.state == "open" and each.root is not None]
    calls = [call for each in still_open if (call := _repeat(monitor, each)) is not None]
    for call in calls:
        monitor.store.add_delivery(call)
    return edits + calls


def _repeat(monitor: Monitor, incident: Incident) -> Delivery | None:
    """The next reminder in the thread of an open incident, if it is due; None before its message has been sent."""
    thread = monitor.store.thread(incident.root or "", operations=["reply"])
    post = next((each for each in thread if each.id == incident.root), None)
    route = compose.route_of(monitor.config, incident)
    if post is None or post.sent_at is None or route is None:
        return None
    made = partial(compose.reminder, monitor, incident, post, route.mention)
    _correct(monitor, kept_reminders(thread), made)
    last = last_call(post.sent_at, thread, monitor.store.identity().restored_at, monitor.clock())
    is_due = life.repeat_is_due(incident, last, route.repeat, monitor.clock())
    return made(1 + sum(map(is_reminder, thread))) if is_due else None


def _correct(monitor: Monitor, kept: Sequence[Delivery], made: Callable[[int], Delivery | None]) -> None:
    """Compose kept reminders anew if they would say something else now than when they were composed.

    Each keeps its id, by which it is looked for if it may be in Slack already.
    """
    again = made(0) if kept else None
    for each in kept if again is not None else ():
        if again is not None and each.payload.get("blocks") != again.payload["blocks"]:
            monitor.store.recompose_delivery(each.id, {**again.payload, "metadata": each.payload["metadata"]})
