"""What an operator may do to the switch, and which labels there are to do it to."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from monitor.alerting import compose
from monitor.automation.switch import operator_change, operator_segment_change
from monitor.config.model import Config
from monitor.context import Monitor
from monitor.core.records import SwitchEvent
from monitor.core.wording import segment_name
from monitor.history.store import Store
from monitor.operations.label_evidence import known_now
from monitor.operations.publish_thresholds import publish


class KeyReused(ValueError):
    """The key belongs to another change than this one."""


class ChangeRefused(ValueError):
    """The switch refuses the change: no name, no reason, or an end that is over."""


@dataclass(frozen=True, slots=True)
class SwitchChange:
    """What a person wants: one switch (label None: the source's own) on or off, by whom and why.

    ``until`` (time zone aware) is how long it holds against runs. With a ``key``, the same change asked
    for again is done once, whoever asks and whenever, and another change with that key is refused.
    With a ``segment`` (column, value) only the items of the label that have it.
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
    """The stored event of a change; ``already``: an earlier try stored it, and this one did nothing."""

    event: SwitchEvent
    already: bool

    @property
    def words(self) -> str:
        """The result, for a person."""
        event = self.event
        done = "turned on" if event.kind in ("enabled", "segment_enabled") else "turned off"
        done = f"already {done}" if self.already else done
        off = ", ".join(segment_name(*each.segment) for each in event.segments if each.is_off(event.at))
        return f"{done}, but not for {off}" if off and event.kind == "enabled" else done


def known_labels(opened: Monitor, source: str) -> list[str | None]:
    """Labels seen by a run, pinned in a baseline, configured, or switched before."""
    labels: set[str | None] = set(opened.config.sources[source].labels)
    labels |= opened.store.known_labels(source)
    return sorted(labels, key=lambda label: (label is None, label or ""))


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
    """One operator's change of a switch, or of a ``segment`` of its label, stored with its event; gives the result.

    With a ``key``, a retry changes nothing and says "already turned on"; raises :class:`KeyReused`
    where the key belongs to another change.
    """
    if not opened.store.thresholds():  # the gate needs them; else runs and the service publish, and no other command
        publish(opened.store, opened.config, opened.clock())
    change = SwitchChange(source, label, enable, by, reason, until, key, segment)
    done = operate(opened.store, opened.config, change, opened.clock)
    compose.show_switches(opened, source, label)
    return done.words if segment is None else f"{segment_name(*segment)} {done.words}"


def operate(store: Store, config: Config, change: SwitchChange, clock: Callable[[], datetime]) -> Changed:
    """Apply a change, once for each key, against whatever others do meanwhile.

    Raises :class:`ChangeRefused` or :class:`KeyReused`.
    """
    once, key = _event_key(change)
    while True:
        stored = store.switch_events_of(once) if once else []
        if stored and stored[0].key != key:
            raise KeyReused("the key belongs to another change")
        if stored:
            return Changed(stored[0], already=True)
        event, state = _try(store, config, change, key, once, clock())
        if state == "applied":
            return Changed(event, already=False)


def _try(
    store: Store, config: Config, change: SwitchChange, key: str, once: str | None, now: datetime
) -> tuple[SwitchEvent, str]:
    before = store.switch(change.source, change.label)
    known = known_now(store, config, change.source, change.label, now)
    try:
        decide = operator_change if change.segment is None else partial(operator_segment_change, segment=change.segment)
        decision = decide(
            before, enable=change.enable, by=change.by, reason=change.reason, now=now, until=change.until,
            automation=config.automation, key=key, known=known,
        )  # fmt: skip
    except ValueError as error:
        raise ChangeRefused(str(error)) from error
    assert decision.event is not None  # noqa: S101 - a person's change always has one
    return decision.event, store.apply_switch(before, decision.after, decision.event, once=once, evidence=known)


def _event_key(change: SwitchChange) -> tuple[str | None, str]:
    """(what all events of the change's key begin with, the key of its event).

    The second half of an event's key is a digest of what was asked, so that another request with the same
    key is known for one. Both halves are digests: a key of a client has any length and any letters.
    """
    if change.key is None:
        return None, f"operator:{uuid.uuid4().hex}"
    until = change.until.astimezone(UTC).isoformat() if change.until else None
    asked: list[object] = [change.source, change.label, change.enable, change.by, change.reason, until]
    asked += [] if change.segment is None else [list(change.segment)]
    once = f"operator:{_digest(change.key)}:"
    return once, once + _digest(json.dumps(asked))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
