"""An operator's changes of a switch, and the labels of a source."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from monitor.alerting import compose
from monitor.automation.label_evidence import started_anew
from monitor.automation.segments import as_stored, open_breaches
from monitor.automation.switch import operator_change, operator_segment_change
from monitor.config.model import Config
from monitor.context import Monitor, known_now
from monitor.core.records import SwitchEvent, SwitchState, WrongRequest
from monitor.core.wording import segment_name
from monitor.history.store import Store
from monitor.operations.publish_thresholds import publish


class KeyReused(ValueError):
    """The key belongs to another change."""


class ChangeRefused(WrongRequest):
    """The switch refuses the change: no name, no reason, or an end in the past."""


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """A requested change: one switch (label None: the source's own) on or off, by whom and why.

    ``until`` (time zone aware) is when the change ceases to hold against runs. Requests with the same ``key`` are done
    once, and another change with that key is refused. A ``segment`` (column, value) limits the change to the label's
    items that have this value.
    """

    source: str
    label: str | None
    enable: bool
    by: str
    reason: str
    until: datetime | None = None
    key: str | None = None
    segment: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Changed:
    """The stored event of a change; ``already``: an earlier request stored it, and this one did nothing."""

    event: SwitchEvent
    already: bool

    @property
    def words(self) -> str:
        """The result in words."""
        event = self.event
        done = "turned on" if event.kind in ("enabled", "segment_enabled") else "turned off"
        done = f"already {done}" if self.already else done
        off = ", ".join(segment_name(*each.segment) for each in event.segments if each.is_off(event.at))
        return f"{done}, but not for {off}" if off and event.kind == "enabled" else done


def known_labels(opened: Monitor, source: str) -> list[str]:
    """Labels that were seen by a run, pinned in a baseline, configured or switched."""
    settings = opened.config.sources.get(source)  # None where alerts.yaml has lost the source
    configured = () if settings is None else settings.labels
    return sorted({*configured, *filter(None, opened.store.known_labels(source))})


def check_label(opened: Monitor, source: str, label: str) -> None:
    """Raise WrongRequest for a label that is not known: a mistyped name would be that of another one."""
    if label not in known_labels(opened, source):
        raise WrongRequest(f"neither alerts.yaml nor the history knows the label {label!r} of {source}")


def stored_sources(store: Store) -> set[str]:
    """Sources that gates may say yes for: with a switch or a published score, whether or not alerts.yaml has them."""
    return {source for source, _ in store.thresholds()} | {switch.source for switch in store.switches()}


def rules_against(opened: Monitor, state: SwitchState) -> list[str]:
    """The acting rules in breach that an enable of this switch would be against."""
    known = known_now(opened.store, opened.config, state.source, state.label, opened.clock())
    return [evidence.rule for evidence, _ in open_breaches(known, state.segments)]


def change_switch(
    opened: Monitor,
    source: str,
    label: str | None,
    *,
    enable: bool,
    by: str,
    reason: str,
    until: datetime | None = None,
    key: str | None = None,
    segment: tuple[str, str] | None = None,
) -> str:
    """Store an operator's change of a switch, or of a ``segment`` of its label, with its event; returns the result.

    With a ``key``, a retry changes nothing and returns "already turned on". Raises :class:`KeyReused` if the key
    belongs to another change, and :class:`ChangeRefused`.
    """
    if (
        opened.config.sources and not opened.store.thresholds()
    ):  # the gate needs thresholds; of commands only this one and runs publish them
        publish(opened.store, opened.config, opened.clock())
    change = SwitchChange(source, label, enable, by, reason, until, key, segment)
    done = operate(opened.store, opened.config, change, opened.clock)
    if opened.config.sources:  # else alerts.yaml could not be read, and the next drain shows it
        compose.show_switches(opened, source, label)
    return done.words if segment is None else f"{segment_name(*as_stored(segment, done.event.segments))} {done.words}"


def operate(store: Store, config: Config, change: SwitchChange, clock: Callable[[], datetime]) -> Changed:
    """Apply a change, once for each key; if others change the switch meanwhile, try again.

    Raises :class:`ChangeRefused` or :class:`KeyReused`.
    """
    prefix, key = _event_key(change)
    while True:
        stored = store.switch_events_of(prefix) if prefix else []
        if stored and stored[0].key != key:
            raise KeyReused("the key belongs to another change")
        if stored:
            return Changed(stored[0], already=True)
        event, state = _try(store, config, change, key, prefix, clock())
        if state == "applied":
            return Changed(event, already=False)


def _try(
    store: Store, config: Config, change: SwitchChange, key: str, once: str | None, now: datetime
) -> tuple[SwitchEvent, str]:
    before = store.switch(change.source, change.label)
    known = known_now(store, config, change.source, change.label, now)
    anew = started_anew(config, known, now) if change.enable and change.segment is None else known
    try:
        decide = (
            partial(operator_change, zone=config.zone)
            if change.segment is None
            else partial(operator_segment_change, segment=change.segment)
        )
        decision = decide(
            before, enable=change.enable, by=change.by, reason=change.reason, now=now, until=change.until,
            automation=config.automation, key=key, known=anew,
        )  # fmt: skip
    except ValueError as error:
        raise ChangeRefused(str(error)) from error
    assert decision.event is not None  # noqa: S101 - a person's change always has one
    return decision.event, store.apply_switch(before, decision.after, decision.event, once=once, evidence=known)


def _event_key(change: SwitchChange) -> tuple[str | None, str]:
    """The prefix of all event keys of this change's ``key`` (None without one), and the key of its event.

    The second half of an event's key is a digest of the request, which shows another request with the same key. The
    first half is a digest too, since a client's key has any length and any letters.
    """
    if change.key is None:
        return None, f"operator:{uuid.uuid4().hex}"
    until = change.until.astimezone(UTC).isoformat() if change.until else None
    request: list[object] = [change.source, change.label, change.enable, change.by, change.reason, until]
    request += [] if change.segment is None else [list(change.segment)]
    prefix = f"operator:{_digest(change.key)}:"
    return prefix, prefix + _digest(json.dumps(request))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
