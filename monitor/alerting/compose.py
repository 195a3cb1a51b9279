"""The messages about incidents: one living message each, its edits, one line in its thread, and a picture.

Composing only reads. Its result is stored in one transaction with the decisions, or not at all.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from monitor.alerting import notices
from monitor.alerting.health import message
from monitor.alerting.health.look import Look
from monitor.alerting.picture import picture_of
from monitor.alerting.slack.blocks import Payload, edited, hashed
from monitor.alerting.slack.incident_message import (
    Story,
    incident_message,
    news_message,
    repeat_message,
    window_of,
)
from monitor.alerting.slack.links import links_of
from monitor.alerting.slack.message import delivery_of
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core.diagnoses import DiagnosisState
from monitor.core.records import Delivery, DeliveryKind, Incident, IncidentEvent, IncidentReason
from monitor.core.wording import clean
from monitor.history.delivery_rows import Root
from monitor.incidents.life import WATCHDOG, IncidentDecision, event_of
from monitor.story.gather import Teller
from monitor.story.incident import reason_words
from monitor.story.label import LabelStory

log = logging.getLogger(__name__)

TRIES = 20
"""More than for switches: composing hundreds of incidents takes a second or two, while people press buttons."""
WEEK = timedelta(weeks=1)
_QUIET = (IncidentReason.CONTINUES, IncidentReason.SILENCE_ENDED, IncidentReason.ACKNOWLEDGED, IncidentReason.SILENCED)
"""Changes that only the message itself shows."""
_ON_ITS_WAY = ("pending", "sending", "sent", "failed")


@dataclass(frozen=True, slots=True)
class Composed:
    """What to store: incidents in the order in which they change, the messages and the events."""

    incidents: tuple[Incident, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    events: tuple[IncidentEvent, ...] = ()


class Contended(RuntimeError):
    """Somebody else changed the same incidents first, again and again."""


def stored(monitor: Monitor, make: Callable[[], Composed]) -> Composed:
    """Store what ``make`` composes at one moment, all or nothing.

    If a person or another process changed an incident or a message meanwhile, all is decided again. Raises
    :class:`Contended` after too many tries.
    """
    for _ in range(TRIES):
        with monitor.store.one_moment():
            made = make()
        if made == Composed() or (
            monitor.store.apply_incidents(made.incidents, made.deliveries, made.events) == "applied"
        ):
            return made
    raise Contended(f"the incidents kept changing under {TRIES} tries; try again")


def compose(monitor: Monitor, decisions: Sequence[IncidentDecision], look: Look | None = None) -> Composed:
    """The messages that report these decisions; called within the ``store.one_moment()`` in which they were made.

    ``look`` is the one at the monitor itself that made them: its message may change where its incident does not.
    """
    composer, now = _Composer.of(monitor, look), monitor.clock()
    incidents: list[Incident] = []
    deliveries: list[Delivery] = []
    newest = {each.incident.id: each for each in decisions if each.incident is not None and each.changes}
    for decision in decisions:
        incident = decision.incident
        if incident is None or not (decision.changes or look):
            continue
        if newest.get(incident.id, decision) is not decision:  # a silence that ended just before the window changed it
            incidents.append(incident)
            continue
        placed, made = composer.messages(decision, incident)
        deliveries += [*made, *composer.notices(decision, placed)]
        if decision.changes:
            incidents.append(placed)
    events = tuple(event for each in decisions if (event := event_of(each, now)) is not None)
    return Composed(tuple(incidents), tuple(deliveries), events)


def unsent(monitor: Monitor) -> Composed:
    """Messages of open incidents that no route, token or channel could take, and that can be sent now."""
    unresolved = [each for each in monitor.store.unresolved_incidents(of_monitor=None) if each.state != "silenced"]
    waiting = [each for each in unresolved if not _is_told(monitor, each)]
    composer = _Composer.of(monitor)
    beside = [each for i in unresolved for each in composer.calling(i, again=False)]
    made = [composer.posted(replace(each, version=each.version + 1)) for each in waiting]
    told = [(incident, deliveries) for incident, deliveries in made if deliveries]
    return Composed(
        tuple(incident for incident, _ in told),
        (*(each for _, deliveries in told for each in deliveries), *beside),
    )


def reminder(monitor: Monitor, incident: Incident, post: Delivery, mention: str | None, number: int) -> Delivery | None:
    """The ``number``-th reminder to acknowledge an incident; None where there is nothing to tell of it."""
    story = _Composer.of(monitor).story(incident)
    if story is None:
        return None
    made = repeat_message(story, incident, number=number, channel=post.channel, root=post.id, mention=mention)
    return _reply(monitor, incident, made)


def _is_told(monitor: Monitor, incident: Incident) -> bool:
    """Whether its message is in a channel, or on its way; one that was given up waits where there is a token."""
    if incident.root is None:
        return False
    found, _ = monitor.store.message(incident.root)
    return found is None or found.state not in ("not_sent", "superseded") or monitor.sender is None


@dataclass(frozen=True, slots=True)
class _Composer:
    """Composes the messages of incidents, of labels and of the monitor itself, from one look at the history."""

    monitor: Monitor
    teller: Teller
    look: Look

    @classmethod
    def of(cls, monitor: Monitor, look: Look | None = None) -> _Composer:
        return cls(monitor, Teller.of(monitor), look or Look(monitor, monitor.clock()))

    def story(self, incident: Incident) -> Story | None:
        return self.look.story(incident) if incident.is_of_monitor else self.teller.of_incident(incident)

    def messages(self, decision: IncidentDecision, incident: Incident) -> tuple[Incident, list[Delivery]]:
        """The incident with the id of its message, and what is sent about the decision."""
        post = _living(self.monitor, incident.root)
        if post is not None:
            return incident, self._changed(decision, incident, post)
        if not incident.is_open or incident.state == "silenced" or decision.kind not in ("open", "continue", "reopen"):
            return incident, []
        return self.posted(incident)

    def posted(self, incident: Incident) -> tuple[Incident, list[Delivery]]:
        """A new message with its picture; none where no route with a channel takes the incident.

        One that is posted once more, since the one before was deleted or never sent, has another id.
        """
        route = self.route_of(incident)
        story = None if route is None else self.story(incident)
        if route is None or not route.channel or story is None:
            return incident, []
        again = "" if incident.version == 1 else str(incident.version)
        payload = self._living(story, incident, route, again)
        post = delivery_of(payload, kind=_kind(incident), now=self.monitor.clock())
        return replace(incident, root=post.id), [post, *self._pictures(story, incident, post)]

    def _changed(self, decision: IncidentDecision, incident: Incident, post: Delivery) -> list[Delivery]:
        """The edit of the message where it changes, and the line in its thread if the decision is news."""
        story, route = self.story(incident), self.route_of(incident)
        if story is None:
            return []
        mention = route.mention if route is not None else None
        edit = self._edit(story, incident, post, mention, self.monitor.store.compositions({post.id}).get(post.id))
        is_silent = incident.silenced_until is not None and incident.silenced_until > self.monitor.clock()
        line = None if is_silent and incident.is_open else self._news(decision, story, incident, post, mention)
        reply = None if line is None else _reply(self.monitor, incident, line)
        return [each for each in (edit, reply) if each is not None]

    def switch_edit(self, incident: Incident, shown: Delivery | None) -> Delivery | None:
        """The edit of a message that shows other switches than there are now; ``shown`` is its newest composition."""
        post = _living(self.monitor, incident.root)
        if shown is None or post is None:
            return None
        against, *switches = shown.payload.get("switches", [False])
        story = None if switches == self._switches(incident, against=against) else self.story(incident)
        if story is None:
            return None
        route = route_of(self.monitor.config, incident)
        return self._edit(story, incident, post, None if route is None else route.mention, shown)

    def _edit(
        self, story: Story, incident: Incident, post: Delivery, mention: str | None, last: Delivery | None
    ) -> Delivery | None:
        """The edit of a message that shows something else than its ``last`` composition."""
        shown = self._living(story, incident, Route(channel=post.channel, mention=mention))
        # two that differ in the last block only, which names the window, are the same: a day like the one before
        if last is not None and shown["blocks"][:-1] == last.payload["blocks"][:-1]:
            return None
        sequence = self.monitor.store.last_edit(post.id) + 1
        return delivery_of(
            edited(shown, post.id, sequence), kind=_kind(incident), now=self.monitor.clock(), operation="edit",
            root=post.id, sequence=sequence,
        )  # fmt: skip

    def _living(self, story: Story, incident: Incident, route: Route, again: str = "") -> Payload:
        """The message as it is now, stored with the switches that it shows."""
        made = incident_message(story, incident, route, links_of(self.monitor.settings), again=again)
        if not isinstance(story, LabelStory):
            return made
        against = story.state is DiagnosisState.UNSAFE
        return made | {"switches": [against, *self._switches(incident, against=against)]}

    def _switches(self, incident: Incident, *, against: bool) -> list[list[Any] | None]:
        """What is said of each label's switch, as the history keeps it; not until when, which each run changes."""
        labels, tell = incident.labels or (incident.label,), self.teller.switch
        return [
            None
            if each is None
            else [
                each.state, "" if each.allowed and each.held_until is None else each.words, each.button,
                each.enable_helps, str(each.blocked), str(each.segments),
            ]
            for each in (tell(incident.source, label, against=against) for label in labels)
        ]  # fmt: skip

    def _news(
        self, decision: IncidentDecision, story: Story, incident: Incident, post: Delivery, mention: str | None
    ) -> Payload | None:
        """The line in the thread; None where nothing is new."""
        thread: dict[str, Any] = {"channel": post.channel, "root": post.id}
        if isinstance(story, LabelStory):
            return None if decision.reason in _QUIET else news_message(decision, story, mention=mention, **thread)
        if decision.actor != WATCHDOG:
            return None
        replies = self.monitor.store.thread(post.id)
        told = {stage for each in replies for stage in each.payload.get("stages", ())}
        new, calls = self.look.news(incident, told, calls=decision.calls)
        if not new and not calls and incident.is_open:
            return None
        called = mention if calls and incident.state == "open" else None
        return message.news(story, incident, new, mention=called, **thread)

    def _pictures(self, story: Story, incident: Incident, post: Delivery) -> list[Delivery]:
        """The picture of the trouble; one that cannot be drawn must not stop the message."""
        if not isinstance(story, LabelStory) or story.trouble is None:
            return []
        lead = self.teller.lead(story.trouble)
        try:
            drawn = None if lead is None else picture_of(self.monitor, lead)
        except Exception:  # any error of matplotlib or odd data: the text matters more than the picture
            log.exception("no picture of %s: the message goes out without it", incident.id)
            return []
        if drawn is None:
            return []
        shows, png = drawn
        id, window = hashed("picture", post.id), incident.window
        title = f"{clean(story.name, 60)}, {window}"
        payload = {
            "channel": post.channel, "filename": f"calmon-{window}-{id}.png", "title": title,
            "alt": f"{shows} of {title}: {story.sentence}", "png": base64.b64encode(png).decode("ascii"),
            "window": window_of(incident),
        }  # fmt: skip
        now = self.monitor.clock()
        return [delivery_of(payload, kind="incidents", now=now, operation="file", root=post.id, id=id)]

    def notices(self, decision: IncidentDecision, incident: Incident) -> list[Delivery]:
        """The notices of a decision: a new one where people are called, a last one to all who had one."""
        if decision.kind != "resolve":
            return self.calling(incident, again=True) if decision.calls else []
        roots = {name: notices.root_of(incident, name) for name in notices.receivers(self.monitor.config)}
        had = {name: root for name, root in roots.items() if self.monitor.store.message(root)[0] is not None}
        story = self.story(incident) if had else None
        if story is None:
            return []
        top, lines = notices.told(story, incident)
        if isinstance(story, LabelStory):
            why = f": {decision.why}" if decision.why else ""
            lines = [f"{story.name} {reason_words(decision.reason)}{why}", story.automation]
        return [
            notices.notice(self.monitor, incident, name, f"Over: {top}", lines, hashed(root, "end"))
            for name, root in had.items()
        ]

    def calling(self, incident: Incident, *, again: bool) -> list[Delivery]:
        """The notice of an open incident; with ``again`` also where its receiver had one already."""
        route = self.route_of(incident)
        if route is None or route.apprise is None or incident.state != "open":
            return []
        first = notices.root_of(incident, route.apprise)
        is_told = self.monitor.store.message(first)[0] is not None
        story = self.story(incident) if again or not is_told else None
        later = hashed(first, str(incident.version)) if is_told else ""
        if story is None:
            return []
        return [notices.notice(self.monitor, incident, route.apprise, *notices.told(story, incident), later)]

    def route_of(self, incident: Incident) -> Route | None:
        """The route that takes an incident; of the monitor's, one that refuses no messages, if there is any."""
        taken, config = route_of(self.monitor.config, incident), self.monitor.config
        if not incident.is_of_monitor:
            return taken
        refused = {issue.channel for issue in self.look.needing}
        routes = [route for route in (taken, *config.routes) if route is not None]
        return next((route for route in routes if route.addresses[0] not in refused), taken)


def _kind(incident: Incident) -> DeliveryKind:
    return "monitor" if incident.is_of_monitor else "incidents"


def _reply(monitor: Monitor, incident: Incident, payload: Payload) -> Delivery:
    return delivery_of(
        payload, kind=_kind(incident), now=monitor.clock(), operation="reply", root=incident.root
    )  # fmt: skip


def show_switches(monitor: Monitor, source: str | None = None, label: str | None = None) -> list[Delivery]:
    """Update the messages to the present switches; the edits are stored as pending, and the next drain sends them.

    Called wherever a switch changes, and before each drain for switches whose time ended. Never raises: the switch has
    changed already, and the next drain tries again.
    """
    try:
        made = stored(monitor, lambda: Composed(deliveries=tuple(switch_edits(monitor, source=source, label=label))))
        return list(made.deliveries)
    except Exception:  # the switch has changed already: a message that cannot be written must not undo or hide that
        log.exception("a message does not show the change of a switch yet; the next drain tries again")
    return []


def switch_edits(monitor: Monitor, *, source: str | None = None, label: str | None = None) -> list[Delivery]:
    """Edits that update living messages to the present switches.

    A switch may have been changed since by a person, a run, or time (a lease or an operator's enable has ended).
    ``source`` and ``label`` narrow it to one switch (label None: the source's own, which is about all of its labels).
    A message that is up to date gets no edit, so a second call does nothing. To be called within
    ``store.one_moment()``.
    """
    composer = _Composer.of(monitor)
    recent = monitor.store.unresolved_incidents(since=monitor.clock() - 8 * WEEK)
    newest = {incident.fingerprint: incident for incident in recent if incident.root is not None}
    current = [
        incident
        for incident in newest.values()
        if source in (None, incident.source) and label in (None, incident.label, *incident.labels)
    ]
    last = monitor.store.compositions({each.root for each in current if each.root is not None})
    edits = (composer.switch_edit(each, last.get(each.root or "")) for each in current)
    return [each for each in edits if each is not None]


def route_of(config: Config, incident: Incident) -> Route | None:
    """The route that takes an incident: the first that fits it, by any of the rules that are in breach.

    Any route is better than none for an incident of the monitor itself.
    """
    routes = [
        config.route_for(severity=incident.severity, source=incident.source, label=incident.label, rule=rule)
        for rule in incident.rules or ("",)
    ]
    found = [route for route in routes if route is not None]
    found += config.routes[:1] if incident.is_of_monitor and not found else ()
    return min(found, key=config.routes.index, default=None)


def _living(monitor: Monitor, root: str | None) -> Delivery | None:
    """A message that is in its channel, or on its way, and that nobody has deleted in Slack; else None."""
    found, is_deleted = (None, False) if root is None else monitor.store.message(root)
    return None if found is None or is_deleted or found.state not in _ON_ITS_WAY else found


def delivery_words(delivery: Root) -> str:
    """The delivery state of a message."""
    if delivery.state == "not_sent":
        return f"not sent: {delivery.error or 'no token'}"
    if delivery.state in ("failed", "dead"):
        again = "will be tried again" if delivery.state == "failed" else "will not be tried again"
        return f"{delivery.state}: {delivery.error or 'unknown'}; {again}"
    return delivery.state
