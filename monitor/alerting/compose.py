"""The messages about incidents: one living message each, its edits, one line in its thread, and a picture.

Composing only reads. Its result is stored in one transaction with the decisions, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from monitor.alerting.notices import calling, notices_of
from monitor.alerting.picture import picture_of
from monitor.alerting.slack.blocks import Payload, edited
from monitor.alerting.slack.incident_message import incident_message, news_message, picture
from monitor.alerting.slack.links import links_of
from monitor.alerting.slack.message import delivery_of
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core.records import Delivery, Incident, IncidentEvent, IncidentReason, Operation, SwitchState
from monitor.history.delivery_rows import Root
from monitor.incidents.life import IncidentDecision, event_of
from monitor.story.gather import Teller
from monitor.story.label import LabelStory

log = logging.getLogger(__name__)

SHOW_TRIES = 20
WEEK = timedelta(weeks=1)
_QUIET = (IncidentReason.CONTINUES, IncidentReason.SILENCE_ENDED, IncidentReason.ACKNOWLEDGED, IncidentReason.SILENCED)
"""Changes that only the message itself shows."""
_ON_ITS_WAY = ("pending", "sending", "sent", "failed")


@dataclass(frozen=True, slots=True)
class Composed:
    """What to store: incidents in the order in which they change, the messages and the events."""

    opened: tuple[Incident, ...] = ()
    updated: tuple[Incident, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    events: tuple[IncidentEvent, ...] = ()


def compose(monitor: Monitor, decisions: Sequence[IncidentDecision]) -> Composed:
    """The messages that report these decisions; called within the ``store.one_moment()`` in which they were made."""
    teller, now = Teller.of(monitor), monitor.clock()
    opened: list[Incident] = []
    updated: list[Incident] = []
    deliveries: list[Delivery] = []
    events: list[IncidentEvent] = []
    newest = {each.incident.id: each for each in decisions if each.incident is not None and each.changes}
    for decision in decisions:
        event = event_of(decision, now)
        events += [event] if event is not None else []
        incident = decision.incident
        if incident is None or not decision.changes:
            continue
        if newest[incident.id] is not decision:  # a silence that ended just before the window did its own change
            updated.append(incident)
            continue
        placed, made = _messages(monitor, teller, decision)
        deliveries += [*made, *notices_of(monitor, teller, decision, placed, route_of(monitor.config, placed))]
        is_new = any(each.kind == "open" and each.incident and each.incident.id == placed.id for each in decisions)
        (opened if is_new else updated).append(placed)
    return Composed(tuple(opened), tuple(updated), tuple(deliveries), tuple(events))


def unsent(monitor: Monitor) -> Composed:
    """Messages of open incidents that no route, token or channel could take, and that can be sent now."""
    unresolved = [each for each in monitor.store.unresolved_incidents() if each.state != "silenced"]
    waiting = [each for each in unresolved if not _is_told(monitor, each)]
    teller = Teller.of(monitor)
    beside = [
        each for i in unresolved for each in calling(monitor, teller, i, route_of(monitor.config, i), again=False)
    ]
    made = [_posted(monitor, teller, replace(each, version=each.version + 1)) for each in waiting]
    told = [(incident, deliveries) for incident, deliveries in made if deliveries]
    return Composed(
        updated=tuple(incident for incident, _ in told),
        deliveries=(*(each for _, deliveries in told for each in deliveries), *beside),
    )


def _is_told(monitor: Monitor, incident: Incident) -> bool:
    """Whether its message is in a channel, or on its way; one that was given up waits where there is a token."""
    if incident.root is None:
        return False
    found, _ = monitor.store.message(incident.root)
    return found is None or found.state not in ("not_sent", "superseded") or monitor.sender is None


def _messages(monitor: Monitor, teller: Teller, decision: IncidentDecision) -> tuple[Incident, list[Delivery]]:
    """The incident with the id of its message, and what is sent about the decision."""
    incident = decision.incident
    assert incident is not None  # noqa: S101 - the caller has left these out
    if incident.root is not None and _lives(monitor, incident.root):
        return incident, _changed(monitor, teller, decision, incident, incident.root)
    if not incident.is_open or incident.state == "silenced" or decision.kind not in ("open", "continue", "reopen"):
        return incident, []
    return _posted(monitor, teller, incident)


def _posted(monitor: Monitor, teller: Teller, incident: Incident) -> tuple[Incident, list[Delivery]]:
    """A new message with its picture; none where no route with a channel takes the incident.

    One that is posted once more, since the one before was deleted or never sent, has another id.
    """
    route = route_of(monitor.config, incident)
    story = None if route is None else teller.of_incident(incident)
    if route is None or not route.channel or story is None:
        return incident, []
    again = "" if incident.version == 1 else str(incident.version)
    payload = incident_message(story, incident, route, links_of(monitor.settings), again=again)
    post = delivery_of(_of_window(payload, incident), kind="incidents", now=monitor.clock())
    return replace(incident, root=post.id), [post, *_pictures(monitor, teller, story, incident, post)]


def _changed(
    monitor: Monitor, teller: Teller, decision: IncidentDecision, incident: Incident, root: str
) -> list[Delivery]:
    """The edit of the message, and the line in its thread if the decision is news."""
    story, channel = teller.of_incident(incident), _channel(monitor, root)
    if story is None:
        return []
    route = route_of(monitor.config, incident)
    mention = route.mention if route is not None else None
    edit = _edit(monitor, story, incident, root, channel, mention)
    last = monitor.store.compositions({root}).get(root)
    if decision.reason is IncidentReason.CONTINUES and last is not None and _is_same(edit.payload, last.payload):
        return []
    made = [edit]
    is_silent = incident.silenced_until is not None and incident.silenced_until > monitor.clock()
    if decision.reason not in _QUIET and not (is_silent and incident.is_open):
        line = news_message(decision, story, channel=channel, root=root, mention=mention)
        made.append(_reply(monitor, _of_window(line, incident), root))
    return made


def _is_same(payload: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether two compositions differ in the last block only, which names the window: a day like the one before."""
    return bool(payload["blocks"][:-1] == shown["blocks"][:-1])


def _edit(
    monitor: Monitor, story: LabelStory, incident: Incident, root: str, channel: str, mention: str | None
) -> Delivery:
    shown = incident_message(story, incident, Route(channel=channel, mention=mention), links_of(monitor.settings))
    sequence = monitor.store.last_edit(root) + 1
    return delivery_of(
        edited(dict(_of_window(shown, incident)), root, sequence), kind="incidents", now=monitor.clock(),
        operation="edit", root=root, sequence=sequence,
    )  # fmt: skip


def _reply(monitor: Monitor, payload: Payload, root: str, id: str | None = None, *, file: bool = False) -> Delivery:
    operation: Operation = "file" if file else "reply"
    return delivery_of(
        payload, kind="incidents", now=monitor.clock(), operation=operation, root=root, id=id
    )  # fmt: skip


def _of_window(payload: Payload, incident: Incident) -> Payload:
    """The payload with the window that it is about, which is stored with it and not sent."""
    return payload | {"window": ["weekly" if "-W" in incident.window else "daily", incident.window]}


def _pictures(
    monitor: Monitor, teller: Teller, story: LabelStory, incident: Incident, post: Delivery
) -> list[Delivery]:
    """The picture of the trouble; one that cannot be drawn must not stop the message."""
    lead = None if story.trouble is None else teller.lead(story.trouble)
    try:
        drawn = None if lead is None else picture_of(monitor, lead)
    except Exception:  # any error of matplotlib or odd data: the text matters more than the picture
        log.exception("no picture of %s: the message goes out without it", incident.id)
        return []
    if drawn is None:
        return []
    shows, png = drawn
    id, payload = picture(png, story, window=incident.window, channel=post.channel, root=post.id, shows=shows)
    return [_reply(monitor, _of_window(payload, incident), post.id, id, file=True)]


def show_switches(monitor: Monitor, source: str | None = None, label: str | None = None) -> list[Delivery]:
    """Update the messages to the present switches; the edits are stored as pending, and the next drain sends them.

    Called wherever a switch changes, and before each drain for switches whose time ended. Never raises: the switch has
    changed already, and the next drain tries again.
    """
    try:
        for _ in range(SHOW_TRIES):
            now = monitor.clock()
            with monitor.store.one_moment():
                made, alike = switch_edits(monitor, source=source, label=label)
            if alike:  # else each drain would compose them again, as long as the label has no newer message
                monitor.store.note_compared(alike, now)
            if not made or monitor.store.apply_incidents([], [], made) == "applied":
                return made
    except Exception:  # the switch has changed already: a message that cannot be written must not undo or hide that
        log.exception("a message does not show the change of a switch yet; the next drain tries again")
    return []


def switch_edits(
    monitor: Monitor, *, source: str | None = None, label: str | None = None
) -> tuple[list[Delivery], list[str]]:
    """(Edits that update living messages to the present switches; ids of the messages that are up to date).

    A switch may have been changed since a message was last compared by a person, a run, or time (a lease or an
    operator's enable has ended). ``source`` and ``label`` narrow it to one switch (label None: the source's own, which
    is about all of its labels). A message that is up to date gets no edit, so a second call does nothing. To be called
    within ``store.one_moment()``.
    """
    teller = Teller.of(monitor)
    switches = {(state.source, state.label): state for state in monitor.store.switches()}
    current = [
        incident
        for incident in monitor.store.told_incidents(monitor.clock() - 8 * WEEK)
        if source in (None, incident.source) and label in (None, incident.label, *incident.labels)
    ]
    last = monitor.store.compositions({each.root for each in current if each.root is not None})
    made: list[Delivery] = []
    alike: list[str] = []
    for incident in current:
        shown = last.get(incident.root or "")
        if shown is None or incident.root is None or not _lives(monitor, incident.root):
            continue
        since = shown.compared_at or shown.created_at
        keys = [(incident.source, each) for each in incident.labels or (incident.label,)]
        moved = any(_has_moved(monitor, switches, key, since) for key in keys)
        story = teller.of_incident(incident) if moved or shown.payload.get("closed") else None
        if story is None:
            continue
        route = route_of(monitor.config, incident)
        mention = route.mention if route is not None else None
        edit = _edit(monitor, story, incident, incident.root, _channel(monitor, incident.root), mention)
        is_new = not _is_same(edit.payload, shown.payload)
        made += [edit] if is_new else []
        alike += [] if is_new else [shown.id]
    return made, alike


def _has_moved(
    monitor: Monitor,
    switches: Mapping[tuple[str, str | None], SwitchState],
    key: tuple[str, str | None],
    since: datetime,
) -> bool:
    """Whether a label's switch, that of its source, or one of its segments has changed or ended since then."""
    now, states = monitor.clock(), [switches[each] for each in {key, (key[0], None)} if each in switches]
    ends = [part.off_from for state in states for part in state.segments]
    moments = [moment for state in states for moment in (state.changed_at, state.lease_until)]
    if any(moment is not None and since <= moment <= now for moment in (*moments, *ends)):
        return True
    # the state does not say when a segment changed
    return any(s.segments for s in states) and any(
        e.at >= since for e in monitor.store.switch_events(*key, since=since)
    )  # fmt: skip


def route_of(config: Config, incident: Incident) -> Route | None:
    """The route that takes an incident: the first that fits it, by any of the rules that are in breach."""
    routes = [
        config.route_for(severity=incident.severity, source=incident.source, label=incident.label, rule=rule)
        for rule in incident.rules or ("",)
    ]
    found = [route for route in routes if route is not None]
    return min(found, key=config.routes.index, default=None)


def _lives(monitor: Monitor, root: str) -> bool:
    """Whether a message is in its channel, or on its way, and nobody has deleted it in Slack."""
    found, is_deleted = monitor.store.message(root)
    return found is not None and not is_deleted and found.state in _ON_ITS_WAY


def _channel(monitor: Monitor, root: str) -> str:
    """The channel of a living message, even if the routes have changed ("" where it is no longer known)."""
    found, _ = monitor.store.message(root)
    return "" if found is None else found.channel


def delivery_words(delivery: Root) -> str:
    """The delivery state of a message."""
    if delivery.state == "not_sent":
        return f"not sent: {delivery.error or 'no token'}"
    if delivery.state in ("failed", "dead"):
        again = "will be tried again" if delivery.state == "failed" else "will not be tried again"
        return f"{delivery.state}: {delivery.error or 'unknown'}; {again}"
    return delivery.state
