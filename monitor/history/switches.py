"""The switches: their states, and every change with its reason, applied exactly once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal, TypeAlias

from sqlalchemy import Connection, RowMapping, and_, func, or_, select, update

from monitor.core.records import RuleEvidence, SwitchEvent, SwitchState
from monitor.history import evidence_rows, tables
from monitor.history.connect import Row, insert, one_at_a_time
from monitor.history.errors import LostRace
from monitor.history.values import ANY, LabelFilter, label_key, label_of, plain

Applied: TypeAlias = Literal["applied", "already", "conflict"]


def switches(connection: Connection) -> list[SwitchState]:
    """Every switch that was ever set, by source and label."""
    table = tables.switches
    rows = connection.execute(select(table).order_by(table.c.source, table.c.label)).mappings()
    return [_state(row) for row in rows]


def switch(connection: Connection, source: str, label: str | None) -> SwitchState:
    """One switch; never set, version 0, where there is no row."""
    table = tables.switches
    where = and_(table.c.source == source, table.c.label == label_key(label))
    row = connection.execute(select(table).where(where)).mappings().first()
    return SwitchState(source, label) if row is None else _state(row)


def events(
    connection: Connection, source: str | None, label: LabelFilter, since: datetime | None = None
) -> list[SwitchEvent]:
    """Every change, in the order in which it happened.

    With ``since``, of those before only the last of each sort: what ``automation.as_of`` needs for any later time.
    """
    table = tables.switch_events
    mine = [] if source is None else [table.c.source == source]
    if label is not ANY:
        mine.append(table.c.label == label_key(label))
    statement = select(table).where(*mine)
    if since is not None:
        sort = (
            table.c.source, table.c.label, table.c.kind, table.c.from_state == table.c.to_state,
            table.c.lease_until.is_(None), table.c.until.is_(None),
        )  # fmt: skip
        last = select(func.max(table.c.id)).where(*mine, table.c.at <= since).group_by(*sort)
        statement = statement.where(or_(table.c.at > since, table.c.id.in_(last)))
    return [_event(row) for row in connection.execute(statement.order_by(table.c.id)).mappings()]


def events_of(connection: Connection, beginning: str) -> list[SwitchEvent]:
    """The changes whose key begins so, in order."""
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

    "already" where the event, or with ``once`` any event whose key begins so, was stored before; raises
    :class:`LostRace` where ``before`` is no longer the stored state, so that the event is rolled back with it.
    Where ``after`` is ``before`` only the event is stored: a dry run says what it would have done. ``evidence`` is what
    the decision was made on: where it is not stored any more, that is a lost race as well.
    """
    if evidence is not None:  # first, so that everybody takes the locks in the same order
        evidence_rows.refuse_other(connection, before.source, before.label, evidence)
    if once is not None:
        one_at_a_time(connection, once)  # else two requests with one key could each change another label
        if events_of(connection, once):
            return "already"
    # before the event gets its number: the events of a switch are numbered in the order in which they held
    one_at_a_time(connection, f"switch {before.source} {label_key(before.label)}")
    if event is not None and not _insert_event(connection, event):
        return "already"
    if after == before:
        _refuse_other_version(connection, before)
        return "applied"
    if not _write_state(connection, before, replace(after, version=before.version + 1)):
        raise LostRace
    return "applied"


def _refuse_other_version(connection: Connection, before: SwitchState) -> None:
    """Raise :class:`LostRace` unless ``before`` is stored still."""
    if switch(connection, before.source, before.label).version != before.version:
        raise LostRace


def _insert_event(connection: Connection, event: SwitchEvent) -> bool:
    table = tables.switch_events
    statement = insert(connection, table).values(event_row(event)).on_conflict_do_nothing().returning(table.c.id)
    return connection.execute(statement).first() is not None


def _write_state(connection: Connection, before: SwitchState, after: SwitchState) -> bool:
    table = tables.switches
    row = _state_row(after)
    if before.version == 0:
        added = insert(connection, table).values(row).on_conflict_do_nothing().returning(table.c.version)
        return connection.execute(added).first() is not None
    where = and_(table.c.source == row["source"], table.c.label == row["label"], table.c.version == before.version)
    return connection.execute(update(table).where(where).values(row)).rowcount == 1


def _state_row(state: SwitchState) -> Row:
    return {
        "source": state.source, "label": label_key(state.label), "state": state.state,
        "blocked": plain(state.blocked), "lease_until": state.lease_until, "hold_until": state.hold_until,
        "by_operator": state.by_operator, "actor": state.actor, "reason": state.reason, "verdict": state.verdict,
        "ok_streak": int(state.ok_streak), "last_window_end": state.last_window_end,
        "changed_at": state.changed_at, "version": state.version, "counts": state.counts,
        "not_evaluated": state.not_evaluated,
    }  # fmt: skip


def _ranges(stored: list[list[float]]) -> tuple[tuple[float, float], ...]:
    return tuple((low, high) for low, high in stored)


def _state(row: RowMapping) -> SwitchState:
    return SwitchState(
        source=row["source"], label=label_of(row["label"]), state=row["state"], blocked=_ranges(row["blocked"]),
        lease_until=row["lease_until"], hold_until=row["hold_until"], by_operator=row["by_operator"],
        actor=row["actor"], reason=row["reason"], verdict=row["verdict"], ok_streak=row["ok_streak"],
        last_window_end=row["last_window_end"], changed_at=row["changed_at"], version=row["version"],
        counts=row["counts"] or "", not_evaluated=row["not_evaluated"],
    )  # fmt: skip


def event_row(event: SwitchEvent) -> Row:
    """A change as it is stored."""
    return {
        "key": event.key, "source": event.source, "label": label_key(event.label), "at": event.at,
        "kind": event.kind, "from_state": event.from_state, "to_state": event.to_state,
        "blocked": plain(event.blocked), "lease_until": event.lease_until, "until": event.until,
        "actor": event.actor, "reason": event.reason, "verdict": event.verdict, "waits_for": event.waits_for,
    }  # fmt: skip


def _event(row: RowMapping) -> SwitchEvent:
    return SwitchEvent(
        key=row["key"], source=row["source"], label=label_of(row["label"]), at=row["at"], kind=row["kind"],
        from_state=row["from_state"], to_state=row["to_state"], actor=row["actor"], reason=row["reason"],
        blocked=_ranges(row["blocked"]), lease_until=row["lease_until"], until=row["until"], verdict=row["verdict"],
        waits_for=row["waits_for"],
    )  # fmt: skip
