"""The switches: their states, and every change with its reason, stored exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal, TypeAlias

from sqlalchemy import Connection, func, or_, select

from monitor.core.records import (
    EVERY_SOURCE,
    GATES_CLOSED,
    GATES_CONFIRMED,
    RuleEvidence,
    SwitchEvent,
    SwitchState,
)
from monitor.history import tables
from monitor.history.connect import filtered, is_added, one_at_a_time, put_versions, records, row_of
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
    return records(connection, SwitchState, statement)


def switch(connection: Connection, source: str, label: str | None) -> SwitchState:
    """One switch. If it is not stored: never set, version 0."""
    table = tables.switches
    is_switch = (table.c.source == source, table.c.label == label)
    return next(iter(records(connection, SwitchState, select(table).where(*is_switch))), SwitchState(source, label))


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
    return records(connection, SwitchEvent, statement.order_by(table.c.id))


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
    return records(connection, SwitchEvent, select(table).where(*conditions).order_by(table.c.id))


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
    is_added(connection, tables.switch_events, row_of(tables.switch_events, event))


def events_of(connection: Connection, beginning: str) -> list[SwitchEvent]:
    """The events whose key begins with ``beginning``, in order."""
    table = tables.switch_events
    statement = select(table).where(table.c.key.startswith(beginning, autoescape=True)).order_by(table.c.id)
    return records(connection, SwitchEvent, statement)


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
        refuse_other_evidence(connection, before.source, before.label, evidence)
    if once is not None:
        one_at_a_time(connection, once)  # else two requests with one key could change two labels
        if events_of(connection, once):
            return "already"
    # before the event gets its id, so that the ids of a switch's events are in the order of their validity
    one_at_a_time(connection, f"switch {before.source} {label_key(before.label)}")
    if event is not None and not is_added(connection, tables.switch_events, row_of(tables.switch_events, event)):
        return "already"
    if after == before:
        if switch(connection, before.source, before.label).version != before.version:
            raise LostRace
        return "applied"
    put_versions(connection, tables.switches, [row_of(tables.switches, after, version=before.version + 1)])
    return "applied"


def _lock_evidence(connection: Connection, source: str) -> None:
    """Block every other change of a source's evidence until the end of this transaction."""
    one_at_a_time(connection, f"evidence {source}")


def evidence(connection: Connection, source: str | None = None, label: LabelFilter = ANY) -> list[RuleEvidence]:
    """The evidence of each acting rule on each label, by source, label and rule."""
    table = tables.evidence
    statement = select(table).order_by(table.c.source, table.c.label, table.c.rule)
    return records(connection, RuleEvidence, filtered(statement, table, label, source=source))


def save_evidence(connection: Connection, source: str, changed: Sequence[RuleEvidence]) -> None:
    """Store changed evidence. Raises :class:`LostRace` if the stored ``version`` is no longer the one that was read."""
    _lock_evidence(connection, source)
    put_versions(
        connection, tables.evidence, [row_of(tables.evidence, each, version=each.version + 1) for each in changed]
    )


def refuse_other_evidence(connection: Connection, source: str, label: str | None, seen: Sequence[RuleEvidence]) -> None:
    """Raise :class:`LostRace` if the evidence in ``seen`` is no longer stored, row by row.

    Other rules are ignored: they may have been removed from alerts.yaml.
    """
    _lock_evidence(connection, source)
    stored = {each.rule: each.version for each in evidence(connection, source, label)}
    if any(stored.get(each.rule, 0) != each.version for each in seen):
        raise LostRace
