"""The messages about decisions on incidents: living messages, their edits, replies and pictures.

Composing only reads. Its result is stored in one transaction with the decisions, or not at all.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from monitor.alerting.incident_context import IncidentContext
from monitor.alerting.incidents import IncidentStep, event_of, last_reported, news_key
from monitor.alerting.slack.blocks import Payload, edited
from monitor.alerting.slack.incident_message import (
    IN_FULL,
    ended_key,
    ended_message,
    incident_message,
    news_message,
    numbers_message,
    picture,
    reported_ends,
)
from monitor.alerting.slack.labels import AlertItem, LabelFindings, by_label
from monitor.alerting.slack.links import Links, links_of
from monitor.alerting.slack.message import delivery_of
from monitor.automation.state import CLOCK_IS_BEHIND, CLOSED_HISTORY
from monitor.config.model import Config, Route
from monitor.context import Monitor
from monitor.core import windows
from monitor.core.records import (
    SEVERITY_RANK,
    Delivery,
    Incident,
    IncidentEvent,
    IncidentReason,
    Operation,
    SwitchState,
    Window,
)
from monitor.history.delivery_rows import Root

log = logging.getLogger(__name__)

SHOW_TRIES = 20


@dataclass(frozen=True, slots=True)
class Composed:
    """What to store: incidents in the order in which they change, the messages and the events."""

    opened: tuple[Incident, ...] = ()
    updated: tuple[Incident, ...] = ()
    deliveries: tuple[Delivery, ...] = ()
    events: tuple[IncidentEvent, ...] = ()


def compose(monitor: Monitor, steps: Sequence[IncidentStep], *, window: Window | None = None) -> Composed:
    """The messages that report these decisions; called within the ``store.one_moment()`` in which they were made.

    ``window`` is that of an evaluation, whose news are replies; an action of a person only shows in the message itself.
    """
    reported = [step for step in steps if not step.is_quiet]
    events = [event for event in (event_of(step, monitor.clock()) for step in reported) if event is not None]
    after = {incident.id: incident for incident in _incidents(reported)}
    composer = _Composer(monitor, IncidentContext(monitor), {event.incident: event for event in events}, after)
    roots, posts = composer.posts([step for step in reported if composer.wants_message(step)], window)
    placed = [_with_root(step, roots) for step in reported]
    new = {post.id for post in posts}
    remaining = [step for step in placed if step.decision.kind != "refuse" and _root(step) not in new]
    return Composed(
        opened=tuple(_incidents(step for step in placed if step.decision.kind == "open")),
        updated=tuple(_incidents(step for step in placed if step.decision.changes and step.decision.kind != "open")),
        deliveries=(*posts, *composer.changes(remaining, window)),
        events=tuple(events),
    )


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
    """(Edits that update living messages to the present switches, with their replies; ids of messages up to date).

    The ids are those of the newest message or edit. A switch may have been changed since a message was last compared by
    a person, a run, or time (a lease or an operator's enable has ended). ``source`` and ``label`` narrow it to one
    switch (label None: the source's own, which is about all of its labels). A message that is up to date gets no edit,
    so a second call does nothing. To be called within ``store.one_moment()``.
    """
    context = IncidentContext(monitor)
    switches = {(state.source, state.label): state for state in monitor.store.switches()}
    sources = {each for each, _ in switches} if source is None else {source}
    newest = [incident for each in sources for incident in monitor.store.newest_incidents(each)]
    current = [i for i in (*context.unresolved(), *newest) if i.source in sources and label in (None, i.label)]
    found: list[Delivery] = []
    alike: list[str] = []
    roots = {i.root for i in current if i.root is not None}
    context.look_up(roots)
    for root, last in monitor.store.compositions(roots).items():
        shown = [i for i in context.of_message(root) if i.source in sources and label in (None, i.label)]
        since = last.compared_at or last.created_at
        keys = {(i.source, i.label) for i in shown}
        moved = any(
            _has_moved(switches, key, since, monitor.clock()) or _segment_has_moved(monitor, switches, key, since)
            for key in keys
        )
        if (moved or _says_closed(last)) and context.lives(root):
            edits = _differing(_Composer(monitor, context, {}, {}).edit(root, {}), last)
            found += edits
            alike += [] if edits else [last.id]
    return found, alike


def _differing(made: Sequence[Delivery], last: Delivery) -> list[Delivery]:
    """The deliveries without an edit that would not change the message."""
    return [each for each in made if each.operation != "edit" or each.payload["blocks"] != last.payload["blocks"]]


def _has_moved(
    switches: Mapping[tuple[str, str | None], SwitchState], key: tuple[str, str | None], since: datetime, now: datetime
) -> bool:
    """Whether a label's switch, or that of its source, has changed or ended since then."""
    states = [switches[each] for each in {key, (key[0], None)} if each in switches]
    moments = [moment for state in states for moment in (state.changed_at, state.lease_until) if moment is not None]
    return any(since <= moment <= now for moment in moments)


def _says_closed(composed: Delivery) -> bool:
    """Whether a message says that every gate is closed: that ends without a change of any switch."""
    text = str(composed.payload.get("blocks"))
    return any(words in text for words in (*CLOSED_HISTORY.values(), CLOCK_IS_BEHIND))


def _segment_has_moved(
    monitor: Monitor,
    switches: Mapping[tuple[str, str | None], SwitchState],
    key: tuple[str, str | None],
    since: datetime,
) -> bool:
    """Whether a segment of a label was turned off or on since then, or an operator's enable of one has ended.

    The state does not say when: ``changed_at`` is that of the label. So events are asked for, where it has segments.
    """
    parts = switches[key].segments if key in switches else ()
    if any(part.off_from is not None and since <= part.off_from <= monitor.clock() for part in parts):
        return True
    return bool(parts) and any(event.at >= since for event in monitor.store.switch_events(*key, since=since))


def route_of(config: Config, incident: Incident) -> Route | None:
    """The route that takes an incident."""
    return config.route_for(
        severity=incident.severity, source=incident.source, label=incident.label, rule=incident.rule
    )


def _incidents(steps: Iterable[IncidentStep]) -> list[Incident]:
    return [step.decision.incident for step in steps if step.decision.incident is not None]


@dataclass(frozen=True, slots=True)
class _Composer:
    """One composition: where it reads, the new event of each incident, and the incidents ``after`` these events."""

    monitor: Monitor
    context: IncidentContext
    events: Mapping[str, IncidentEvent]
    after: Mapping[str, Incident]

    def wants_message(self, step: IncidentStep) -> bool:
        """Whether a breach has no living message: it is new, or its last message had no route or no token."""
        incident = step.decision.incident
        if incident is None or self._is_silent(step) or step.decision.kind not in ("open", "continue", "reopen"):
            return False
        return incident.root is None or not self.context.lives(incident.root)

    def posts(self, steps: Sequence[IncidentStep], window: Window | None) -> tuple[dict[str, str], list[Delivery]]:
        """(incident -> its living message, the new messages with their pictures).

        One message for each route. An incident of a label with an open message joins that message, so that one problem
        found by several rules, daily and weekly, is reported in one place.
        """
        notified = [s for s in steps if s.verdict is not None and "slack" in s.verdict.actions]
        roots, groups = self._placed(sorted(_incidents(notified), key=lambda i: SEVERITY_RANK[i.severity]))
        found: list[Delivery] = []
        for index, members in sorted(groups.items()):
            assert window is not None  # noqa: S101 - only an evaluation opens incidents
            route = self.monitor.config.routes[index]
            findings = self._findings(members)
            post = _with_ends(self._post(findings, window, route), findings)
            roots |= {incident.id: post.id for incident in members}
            payload = numbers_message(findings, window=window, channel=route.channel, root=post.id, links=self.links)
            found += [post, self._reply(payload, members, post.id, window=window)]
            found += self._pictures(findings, window, route.channel, post.id)
        return roots, found

    def _placed(self, opened: Sequence[Incident]) -> tuple[dict[str, str], dict[int, list[Incident]]]:
        """(incident -> the living message it joins, route -> the incidents of its new message), most severe first."""
        config, roots = self.monitor.config, dict[str, str]()
        leads: dict[tuple[str, str | None], int] = {}
        groups: dict[int, list[Incident]] = {}
        for incident in opened:
            route = route_of(config, incident)
            if route is None:
                continue
            host = self._host(incident, route)
            if host is not None:
                roots[incident.id] = host
                continue
            index = leads.setdefault((incident.source, incident.label), config.routes.index(route))
            groups.setdefault(index, []).append(incident)
        return roots, groups

    def _host(self, incident: Incident, route: Route) -> str | None:
        """The open message about this label: of the same or a higher severity, or in the same channel.

        One whose incident comes back in the same evaluation is open again.
        """
        key, again = (incident.source, incident.label), (i for i in self.after.values() if i.state != "resolved")
        for other in (*self.context.unresolved(), *again):
            if other.root is None or (other.source, other.label) != key or not self.context.lives(other.root):
                continue
            as_severe = SEVERITY_RANK[other.severity] <= SEVERITY_RANK[incident.severity]
            if as_severe or self.context.channel(other.root) == route.channel:
                return other.root
        return None

    def _post(self, findings: Sequence[AlertItem], window: Window, route: Route) -> Delivery:
        payload = incident_message(findings, window=window, route=route, links=self.links)
        # stored with the message, not sent
        payload |= {"incidents": [f.incident.id for f in findings], "window": _named(window)}
        return delivery_of(payload, kind="incidents", now=self.monitor.clock())

    @property
    def links(self) -> Links:
        """The addresses of the pages that messages link to."""
        return links_of(self.monitor.settings)

    def _reply(
        self,
        payload: Payload,
        incidents: Iterable[Incident],
        root: str,
        operation: Operation = "reply",
        id: str | None = None,
        window: Window | None = None,
        calling: Iterable[Incident] = (),
    ) -> Delivery:
        """A reply in the thread of a message.

        Its incidents, those for which it is ``calling`` people, and its evaluation are stored with it, not sent.
        """
        payload["incidents"], payload["calls"] = [each.id for each in incidents], [each.id for each in calling]
        payload |= {} if window is None else {"window": _named(window)}
        return delivery_of(payload, kind="incidents", now=self.monitor.clock(), operation=operation, root=root, id=id)

    def _pictures(self, findings: Sequence[AlertItem], window: Window, channel: str, root: str) -> list[Delivery]:
        """The picture of the worst finding; a picture that cannot be drawn must not stop the message."""
        worst = by_label(findings)[0].lead
        try:
            drawn = self.context.picture(worst.verdict)
        except Exception:  # any error of matplotlib or odd data: the text matters more than the picture
            log.exception("no picture of %s: the message goes out without it", worst.verdict.id)
            return []
        if drawn is None:
            return []
        id, payload = picture(drawn[1], worst, window=window, channel=channel, root=root, shows=drawn[0])
        return [self._reply(payload, [worst.incident], root, operation="file", id=id, window=window)]

    def changes(self, steps: Sequence[IncidentStep], window: Window | None) -> list[Delivery]:
        """The edits of every living message that shows one of the changed incidents, and the replies."""
        changed = {incident.id: incident for incident in _incidents(steps)}
        roots = dict.fromkeys(i.root for i in changed.values() if i.root is not None and self.context.message(i.root))
        found = []
        for root in roots:
            found += self.edit(root, changed)
            if window is not None:
                found += self._news(root, [s for s in steps if _root(s) == root], window)
        # messages that were resolved before another incident of the same label: they name it as open
        ended = [each for each in changed.values() if each.state == "resolved"]
        naming = {root for each in ended for root in self.monitor.store.messages_resolved_since(each)} - set(roots)
        for root, last in self.monitor.store.compositions(naming).items():
            found += _differing(self.edit(root, changed), last) if self.context.lives(root) else []
        return found

    def edit(self, root: str, changed: Mapping[str, Incident]) -> list[Delivery]:
        """The message's new text with all its incidents, ``changed`` ones in their new state."""
        stored = {i.id: i for i in self.context.of_message(root)}
        members = list((stored | {i.id: i for i in changed.values() if i.root == root}).values())
        if not members:
            return []
        findings = self._findings(members)
        first = self.context.message(root)  # names its evaluation; its first incident may be older
        known = first.payload.get("window") if first is not None else None
        schedule, name = known or (members[0].schedule, members[0].opened_window)
        window = windows.named(schedule, name, self.monitor.config.zone)
        payload = self._post(findings, window, self._route(root, members)).payload
        sequence = self.monitor.store.last_edit(root) + 1
        changed_payload, now = edited(dict(payload), root, sequence), self.monitor.clock()
        edit = delivery_of(changed_payload, kind="incidents", now=now, operation="edit", root=root, sequence=sequence)
        return [edit, *self._ended(root, findings, members)]

    def _ended(self, root: str, findings: Sequence[AlertItem], members: Sequence[Incident]) -> list[Delivery]:
        """The reply that operators' enables have ended: once for each, in the thread of its incident, with advice.

        Those that ended before a restore have a reply each, by which it is found if the lost history sent it.
        """
        over = [each for each in _ended_by_time(findings) if not self._is_reported_elsewhere(root, each)]
        if not over:
            return []
        known = reported_ends(self.monitor.store.thread(root, operations=["reply"]))
        new = [each for each in over if ended_key(each, root) not in known]
        if not new:
            return []
        restored = self.monitor.store.identity().restored_at
        apart = [[each] for each in new if _ended_before(each, restored)]
        together = [each for each in new if not _ended_before(each, restored)]
        return [self._end(root, labels, members) for labels in (*apart, together) if labels]

    def _is_reported_elsewhere(self, root: str, label: LabelFindings) -> bool:
        """Whether another message has the incident that an enable was against: this one is about no acting rule."""
        acting = {rule.id for rule in self.monitor.config.rules if rule.acts}
        if any(each.incident.rule in acting for each in label.unresolved):
            return False
        others = (i for i in self.context.unresolved() if (i.source, i.label) == label.key and i.rule in acting)
        return any(i.root not in (None, root) and self.context.lives(i.root) for i in others)

    def _end(self, root: str, new: Sequence[LabelFindings], members: Sequence[Incident]) -> Delivery:
        """One reply that the enables of these labels have ended."""
        keys, about = {each.key for each in new}, [each.incident for label in new for each in label.findings]
        route = self._route(root, [each for each in members if (each.source, each.label) in keys] or members)
        calling = [each for each in about if each.state == "open"]
        payload = ended_message(new, channel=route.channel, root=root, mention=route.mention if calling else None)
        return self._reply(payload, about, root, calling=calling)

    def _findings(self, incidents: Sequence[Incident]) -> list[AlertItem]:
        """The items of a message; the worst of each label that is described in full comes with its context."""
        labels = by_label(self._briefs(incidents))
        full = [self.context.finding(label.lead) for label in labels[:IN_FULL]]
        rest = [each for label in labels[:IN_FULL] for each in label.findings[1:]]
        return [*full, *rest, *(each for label in labels[IN_FULL:] for each in label.findings)]

    def _briefs(self, incidents: Sequence[Incident]) -> list[AlertItem]:
        """The items of these incidents without context; each knows which other rules of its label are not resolved."""
        open_rules = self._open_elsewhere({each.id for each in incidents})
        return [
            replace(
                self.context.brief(each, self._last(each)),
                open_elsewhere=tuple(open_rules.get((each.source, each.label), ())),
            )
            for each in incidents
        ]

    def _open_elsewhere(self, members: Collection[str]) -> dict[tuple[str, str | None], list[str]]:
        """(source, label) -> the rules of its incidents that are not resolved and not in ``members``."""
        found: dict[tuple[str, str | None], list[str]] = {}
        for each in ({i.id: i for i in self.context.unresolved()} | dict(self.after)).values():
            if each.id not in members and each.state != "resolved" and not each.is_of_monitor:
                found.setdefault((each.source, each.label), []).append(each.rule)
        return found

    def _last(self, incident: Incident) -> IncidentEvent | None:
        """The newest event that says the incident's state: of this evaluation, or stored."""
        return self.context.last(incident, self.events.get(incident.id))

    def _route(self, root: str, members: Sequence[Incident]) -> Route:
        """The message's channel, even if the routes have changed, and the mention of the most severe of ``members``."""
        routes = (route_of(self.monitor.config, i) for i in sorted(members, key=lambda i: SEVERITY_RANK[i.severity]))
        route = next((r for r in routes if r is not None), None)
        return Route(channel=self.context.channel(root), mention=route.mention if route else None)

    def _news(self, root: str, steps: Sequence[IncidentStep], window: Window) -> list[Delivery]:
        """The one reply to an evaluation, without incidents that are silenced or go on from day to day."""
        more_severe = {id(step) for step in steps if self._is_more_severe(step)}
        loud = [s for s in steps if (id(s) in more_severe or not self._is_routine(s)) and not self._is_silent(s)]
        members = _incidents(loud)
        if not members:
            return []
        calling = _incidents(s for s in loud if id(s) in more_severe or s.decision.kind in ("reopen", "open"))
        route = self._route(root, calling or members)
        called = {(each.source, each.label) for each in calling}
        known = called | {(each.source, each.label) for each in members if each.state == "resolved"}
        briefs = [self._with_switch(each, known) for each in self._briefs(members)]
        items = [(each, step.verdict) for each, step in zip(briefs, loud, strict=True)]
        payload = news_message(
            items,
            window=window,
            channel=route.channel,
            root=root,
            mention=route.mention,
            changes=[news_key(step) for step in loud],
            calls=bool(calling),
        )
        return [self._reply(payload, members, root, window=window, calling=calling)]

    def _with_switch(self, brief: AlertItem, known: Collection[tuple[str, str | None]]) -> AlertItem:
        """The item of a reply; with its switch if people are called for its label, or something of it is resolved."""
        key = brief.incident.source, brief.incident.label
        return self.context.with_switch(brief) if key in known else brief

    def _is_routine(self, step: IncidentStep) -> bool:
        """Whether only the message itself shows it: the end of a silence, or one more window with a known outcome.

        A breach that goes on is news once a week; a window that was not evaluated or not confirmed is news once.
        """
        kind, incident = step.decision.kind, step.decision.incident
        if kind == "nothing" and incident is not None:
            before = last_reported(incident, self.monitor.store.incident_events(incident.id))
            weekly = step.decision.reason == IncidentReason.UNCONFIRMED_OPEN and incident.schedule == "weekly"
            return not weekly and before is not None and before.reason == step.decision.reason
        goes_on = kind == "continue" and step.decision.reason is not IncidentReason.CORRECTED
        return kind == "wake" or (goes_on and incident is not None and incident.schedule == "daily")

    def _is_more_severe(self, step: IncidentStep) -> bool:
        """Whether the incident is more severe than when its message was written: its route may mention others."""
        incident = step.decision.incident
        before = next((i for i in self.context.unresolved() if incident is not None and i.id == incident.id), None)
        if incident is None or before is None:
            return False
        return SEVERITY_RANK[incident.severity] < SEVERITY_RANK[before.severity]

    def _is_silent(self, step: IncidentStep) -> bool:
        until = step.decision.incident.silenced_until if step.decision.incident else None
        return until is not None and until > self.monitor.clock()


def _with_root(step: IncidentStep, roots: Mapping[str, str]) -> IncidentStep:
    incident = step.decision.incident
    if incident is None or incident.id not in roots or step.decision.kind == "wake":
        return step
    rooted = replace(incident, root=roots[incident.id])
    return replace(step, decision=replace(step.decision, incident=rooted))


def _ended_by_time(findings: Sequence[AlertItem]) -> list[LabelFindings]:
    """The labels of which an operator's enable has ended by itself."""
    return [each for each in by_label(findings) if each.lead.switch is not None and each.lead.switch.ended_by]


def _ended_before(label: LabelFindings, restored: datetime | None) -> bool:
    """Whether its enable ended before a restore, so that the lost history may have reported it."""
    switch = label.lead.switch
    return restored is not None and switch is not None and switch.ended_at is not None and switch.ended_at <= restored


def _with_ends(post: Delivery, findings: Sequence[AlertItem]) -> Delivery:
    """A new message with the ends of operators' enables that it says: no reply says these again."""
    over = [ended_key(each, post.id) for each in _ended_by_time(findings)]
    return replace(post, payload={**post.payload, "ended": over}) if over else post


def _named(window: Window) -> list[str]:
    """How a payload names a window."""
    return [window.schedule, window.name]


def _root(step: IncidentStep) -> str | None:
    return step.decision.incident.root if step.decision.incident else None


def delivery_words(delivery: Root) -> str:
    """The delivery state of a message."""
    if delivery.state == "not_sent":
        return f"not sent: {delivery.error or 'no token'}"
    if delivery.state in ("failed", "dead"):
        again = "will be tried again" if delivery.state == "failed" else "will not be tried again"
        return f"{delivery.state}: {delivery.error or 'unknown'}; {again}"
    return delivery.state
