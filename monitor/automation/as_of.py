"""The switch at a past time, and for how long it was on, from its stored events. Pure.

The events of one switch are in the order in which they were stored. Those of :data:`WHOLE_HISTORY` say when every gate
was closed, because an older copy of the history was put back: nothing was automated then, whatever the switches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from itertools import chain, pairwise
from typing import cast

from monitor.automation.state import closed_by_source
from monitor.automation.switch import DRY_RUN, WEEKLY_RUN
from monitor.core.records import (
    EVERY_SOURCE,
    GATES_CLOSED,
    GATES_CONFIRMED,
    Identity,
    Mark,
    SwitchEvent,
    SwitchState,
    SwitchValue,
)
from monitor.core.score_ranges import Ranges, merged

Key = tuple[str, str | None]
WHOLE_HISTORY: Key = (EVERY_SOURCE, None)
"""The key of the events about every gate."""
_RUNS = frozenset({WEEKLY_RUN, "daily run"})
# those of a dry run too: they change only the lease
_SEGMENTS = frozenset({"segment_disabled", "segment_enabled", "segment_held"})
_KEEPS = frozenset({"renewed", "not_renewed", "held", "counted", *_SEGMENTS, *(kind for kind, _ in DRY_RUN.values())})


def by_switch(events: Iterable[SwitchEvent]) -> dict[Key, list[SwitchEvent]]:
    """The events of each switch, by (source, label)."""
    found: dict[Key, list[SwitchEvent]] = {}
    for event in events:
        found.setdefault((event.source, event.label), []).append(event)
    return found


def switch_as_of(events: Sequence[SwitchEvent], at: datetime, *, source: str, label: str | None) -> SwitchState:
    """The state of one switch after its last event at or before ``at``; never set without such an event.

    Events do not have a run's counters (``ok_streak``, ``last_window_end``, ``version``), so these keep their defaults.
    """
    return reduce(_after, (event for event in events if event.at <= at), SwitchState(source, label))


def identity_as_of(events: Mapping[Key, Sequence[SwitchEvent]], at: datetime) -> Identity:
    """Whether the history was confirmed at that time; nothing else of its identity is known of the past."""
    spans = _closed_spans(events.get(WHOLE_HISTORY, ()))
    is_closed = any(since <= at and (until is None or at < until) for since, until in spans)
    return Identity(Mark("", 0, 0), confirmed=not is_closed)


def _closed_spans(steps: Iterable[SwitchEvent]) -> list[tuple[datetime, datetime | None]]:
    """From when until when every gate was closed; None: until now.

    The steps are taken by their time: a restore adds those of the history that it replaces behind the backup's own.
    """
    found: list[tuple[datetime, datetime | None]] = []
    for step in sorted(steps, key=lambda each: each.at):
        is_open = not found or found[-1][1] is not None
        if step.kind == GATES_CLOSED and is_open:
            found.append((step.at, None))
        elif step.kind == GATES_CONFIRMED and not is_open:
            found[-1] = found[-1][0], step.at
    return found


def time_on(events: Mapping[Key, Sequence[SwitchEvent]], key: Key, start: datetime, end: datetime) -> float:
    """The share of ``start <= t < end``, 0 to 1, in which automation was on for a label, for some scores at least."""
    return sum(times_on(events, key, start, end).values())


def times_on(
    events: Mapping[Key, Sequence[SwitchEvent]], key: Key, start: datetime, end: datetime
) -> dict[Ranges, float]:
    """The shares of ``start <= t < end`` in which automation was on for a label, by the scores that were blocked then.

    The source's own switch may block scores too. Segments that were off are not looked at.
    """
    steps = [events.get(each, ()) for each in dict.fromkeys((key, (key[0], None)))]
    found: dict[Ranges, float] = {}
    for since, until in _on(events, key, start, end):
        changes = sorted({step.at for of_switch in steps for step in of_switch if since < step.at < until})
        for low, high in pairwise([since, *changes, until]):
            newest = (next((step for step in reversed(of) if step.at <= low), None) for of in steps)
            blocked = merged(part for step in newest if step is not None for part in step.blocked)
            found[blocked] = found.get(blocked, 0.0) + (high - low) / (end - start)
    return found


def off_since(events: Mapping[Key, Sequence[SwitchEvent]], key: Key, now: datetime) -> datetime | None:
    """Since when a label that is off now has been off.

    None if it was never on, or if what turned it off has a later time, stored by a clock that is ahead of this one.
    """
    spans = _on(events, key, datetime.min.replace(tzinfo=UTC), now)
    return spans[-1][1] if spans and spans[-1][1] < now else None


def _on(
    events: Mapping[Key, Sequence[SwitchEvent]], key: Key, start: datetime, end: datetime
) -> list[tuple[datetime, datetime]]:
    by_source, by_all = events.get((key[0], None), ()), events.get(WHOLE_HISTORY, ())
    return on_spans(events.get(key, ()), by_source, by_all, start, end)


def on_spans(
    own: Sequence[SwitchEvent],
    whole: Sequence[SwitchEvent],
    history: Sequence[SwitchEvent],
    start: datetime,
    end: datetime,
) -> list[tuple[datetime, datetime]]:
    """The spans between ``start`` and ``end`` in which automation was on for a label, in one pass over its events.

    ``own`` are the events of the label's switch, ``whole`` those of its source's, and ``history`` those about every
    gate, in order. If ``own`` does not begin with the switch's first event, the switch counts as off before it.
    """
    copies = ((since, max(since, end) if until is None else until) for since, until in _closed_spans(history))
    closed = [*_closed_by_source(whole, end), *copies]
    return [
        (max(since, start), min(until, end))
        for since, until in _without(_on_by_itself(own, end), closed)
        if until > start and since < end
    ]


def lease_ends(own: Sequence[SwitchEvent], until: datetime) -> list[datetime]:
    """When a switch that was on turned off by itself, because its lease ended, up to ``until``."""
    changed = {step.at for step in own}
    return [end for _, end in _on_by_itself(own, until) if end < until and end not in changed]


def _on_by_itself(steps: Sequence[SwitchEvent], end: datetime) -> Sequence[tuple[datetime, datetime]]:
    """The spans in which a switch is on and its lease has not ended; adjacent spans are merged."""
    leases = ((since, min(until, state.lease_until or since)) for state, since, until in _states(steps, end)
              if state.state == "on")  # fmt: skip
    return merged((since, until) for since, until in leases if since < until)


def _closed_by_source(steps: Sequence[SwitchEvent], end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The spans in which the source's own switch stops all labels: off, or against a verdict after its lease."""
    for state, since, until in _states(steps, end):
        if closed_by_source(state, since) is not None:
            yield since, until
        elif state.verdict is not None and state.lease_until is not None and state.lease_until < until:
            yield state.lease_until, until


def _states(steps: Sequence[SwitchEvent], end: datetime) -> Iterator[tuple[SwitchState, datetime, datetime]]:
    """The state of a switch after each step, and from when until when it was so."""
    state = None
    for step, following in zip(steps, chain((each.at for each in steps[1:]), [end]), strict=False):
        state = _after(state or SwitchState("", None, cast(SwitchValue, step.from_state)), step)
        yield state, step.at, following


def _without(
    spans: Sequence[tuple[datetime, datetime]], holes: Sequence[tuple[datetime, datetime]]
) -> list[tuple[datetime, datetime]]:
    left = list(spans)
    for low, high in holes:
        cut = [((a, min(b, low)), (max(a, high), b)) for a, b in left]
        left = [part for parts in cut for part in parts if part[0] < part[1]]
    return left


def _after(state: SwitchState, event: SwitchEvent) -> SwitchState:
    if event.kind in _KEEPS:
        return replace(
            state, segments=event.segments, lease_until=event.lease_until, hold_until=event.until,
            blocked=event.blocked, verdict=_verdict(state, event),
        )  # fmt: skip
    return replace(
        state, state=cast(SwitchValue, event.to_state), segments=event.segments, blocked=event.blocked,
        lease_until=event.lease_until, hold_until=event.until, by_operator=event.actor not in _RUNS,
        actor=event.actor, reason=event.reason, verdict=event.verdict, changed_at=event.at,
    )  # fmt: skip


def _verdict(before: SwitchState, event: SwitchEvent) -> str | None:
    """The verdict against the switch after an event that did not change its state."""
    if event.kind == "renewed" and before.by_operator:
        return None
    if event.kind == "held" and event.until is not None and event.lease_until is not None:
        return event.verdict if event.lease_until <= event.until else None
    return before.verdict
