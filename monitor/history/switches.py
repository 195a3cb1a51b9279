"""The switches: their states, and every change with its reason, stored exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Literal, TypeAlias

from sqlalchemy import Connection, RowMapping, func, or_, select

from monitor.core.records import (
    EVERY_SOURCE,
    GATES_CLOSED,
    GATES_CONFIRMED,
    KeptScores,
    RuleEvidence,
    SegmentSwitch,
    SwitchEvent,
    SwitchState,
)
from monitor.history import evidence_rows, tables
from monitor.history.connect import Row, filtered, is_added, one_at_a_time, put_version, row_of
from monitor.history.errors import LostRace
from monitor.history.values import ANY, LabelFilter, label_key

CHANGES = (
    "disabled", "enabled", "blocked", "unblocked", "segment_disabled", "segment_enabled", GATES_CLOSED, GATES_CONFIRMED,
)  # fmt: skip
"""The kinds of events that change what may act."""
Applied: TypeAlias = Literal["applied", "already", "conflict"]


def switches(connection: Connection) -> list[SwitchState]:
    """Every switch that was ever set, by source and label."""
    statement = select(tables.switches).order_by(tables.switches.c.source, tables.switches.c.label)
    return [_state(row) for row in connection.execute(statement).mappings()]


def switch(connection: Connection, source: str, label: str | None) -> SwitchState:
    """One switch. If it is not stored: never set, version 0."""
    table = tables.switches
    is_switch = (table.c.source == source, table.c.label == label)
    row = connection.execute(select(table).where(*is_switch)).mappings().first()
    return SwitchState(source, label) if row is None else _state(row)


def events(
    connection: Connection, source: str | None = None, label: LabelFilter = ANY, *, since: datetime | None = None
) -> list[SwitchEvent]:
    """Every event of the switches, in the order in which it happened.

    With ``since``, only the last event of each sort before it: what ``automation.as_of`` needs for any later time.
    """
    table = tables.switch_events
    statement = filtered(select(table), table, label, source=source)
    if since is not None:
        sort = (
            table.c.source,
            table.c.label,
            table.c.kind,
            table.c.from_state == table.c.to_state,
            table.c.lease_until.is_(None),
            table.c.until.is_(None),
        )
        before = filtered(select(func.max(table.c.id)), table, label, source=source)
        last = before.where(table.c.at <= since).group_by(*sort)
        statement = statement.where(or_(table.c.at > since, table.c.id.in_(last)))
    return [_event(row) for row in connection.execute(statement.order_by(table.c.id)).mappings()]


def changes(
    connection: Connection, source: str | None = None, label: LabelFilter = ANY, *, since: datetime
) -> list[SwitchEvent]:
    """The events from ``since`` on that changed what may act (:data:`CHANGES`), in order; no renewals of a lease.

    Those about every gate are among the changes of any source and label.
    """
    table = tables.switch_events
    conditions = [table.c.at >= since, table.c.kind.in_(CHANGES)]
    if source is not None:
        conditions.append(table.c.source.in_([source, EVERY_SOURCE]))
    if label is not ANY:
        conditions.append(or_(table.c.label == label, table.c.source == EVERY_SOURCE))
    return [_event(row) for row in connection.execute(select(table).where(*conditions).order_by(table.c.id)).mappings()]


def first_on(connection: Connection, source: str) -> dict[str | None, datetime]:
    """When each label of a source was turned on for the first time."""
    table = tables.switch_events
    found = select(table.c.label, func.min(table.c.at)).where(table.c.source == source, table.c.to_state == "on")
    return dict(connection.execute(found.group_by(table.c.label)).tuples().all())


def gate_events(connection: Connection) -> list[SwitchEvent]:
    """When every gate was closed, because an older copy of the history was put back, and when that was confirmed."""
    return events(connection, EVERY_SOURCE, None)


def note_gates(connection: Connection, kind: str, epoch: int, *, at: datetime, by: str, why: str) -> None:
    """Store that every gate was closed or confirmed in this epoch of the history, once."""
    is_closed = kind == GATES_CLOSED
    states = ("open", "closed") if is_closed else ("closed", "open")
    event = SwitchEvent(f"history:{epoch}:{kind}", EVERY_SOURCE, None, at, kind, *states, actor=by, reason=why)
    is_added(connection, tables.switch_events, event_row(event))


def events_of(connection: Connection, beginning: str) -> list[SwitchEvent]:
    """The events whose key begins with ``beginning``, in order."""
    table = tables.switch_events
    statement = select(table).where(table.c.key.startswith(beginning, autoescape=True)).order_by(table.c.id)
    return [_event(row) for row in connection.execute(statement).mappings()]


def apply(
    connection: Connection,
    before: SwitchState,
    after: SwitchState,
    event: SwitchEvent | None,
    once: str | None = None,
    evidence: Sequence[RuleEvidence] | None = None,
) -> Applied:
    """Store a change and its event together.

    Returns "already" if the event is stored, or with ``once`` any event whose key begins with it. Raises
    :class:`LostRace` if ``before`` is no longer the stored state, so that the event is rolled back too.
    If ``after`` equals ``before`` only the event is stored, such as that of a dry run. ``evidence`` is the basis of the
    decision: if it is no longer stored, that is a lost race too.
    """
    if evidence is not None:  # first, so that all callers take the locks in the same order
        evidence_rows.refuse_other(connection, before.source, before.label, evidence)
    if once is not None:
        one_at_a_time(connection, once)  # else two requests with one key could change two labels
        if events_of(connection, once):
            return "already"
    # before the event gets its id, so that the ids of a switch's events are in the order of their validity
    one_at_a_time(connection, f"switch {before.source} {label_key(before.label)}")
    if event is not None and not is_added(connection, tables.switch_events, event_row(event)):
        return "already"
    if after == before:
        if switch(connection, before.source, before.label).version != before.version:
            raise LostRace
        return "applied"
    changed = {
        "version": before.version + 1,
        "segments": _segment_rows(after.segments),
        "kept": None if after.kept is None else asdict(after.kept),
    }
    if not put_version(connection, tables.switches, row_of(tables.switches, after, **changed)):
        raise LostRace
    return "applied"


def _segment_rows(segments: Sequence[SegmentSwitch]) -> list[Any] | None:
    return [asdict(each) for each in segments] or None


def _segments(stored: list[dict[str, Any]] | None) -> tuple[SegmentSwitch, ...]:
    return tuple(SegmentSwitch(**{**row, **{name: _moment(row[name]) for name in _MOMENTS}}) for row in stored or ())


_MOMENTS = ("off_from", "hold_until")


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _fields(row: RowMapping) -> Row:
    blocked, segments = tuple((low, high) for low, high in row["blocked"]), _segments(row["segments"])
    return {**row, "blocked": blocked, "segments": segments}


def _state(row: RowMapping) -> SwitchState:
    kept = None if row["kept"] is None else KeptScores(**row["kept"])
    return SwitchState(**{**_fields(row), "counts": row["counts"] or "", "kept": kept})


def event_row(event: SwitchEvent) -> Row:
    """The row of an event."""
    return row_of(tables.switch_events, event, segments=_segment_rows(event.segments))


def _event(row: RowMapping) -> SwitchEvent:
    return SwitchEvent(**{name: value for name, value in _fields(row).items() if name != "id"})
