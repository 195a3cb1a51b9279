"""What each acting rule found last about each label, changed only where nobody else changed it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, and_, select, update

from monitor.core.records import RuleEvidence, WindowOutcome
from monitor.history import tables
from monitor.history.connect import Row, insert, one_at_a_time
from monitor.history.errors import LostRace
from monitor.history.values import ANY, LabelFilter, label_key, label_of, plain


def lock(connection: Connection, source: str) -> None:
    """Hold off every other change of a source's evidence until the end of this transaction."""
    one_at_a_time(connection, f"evidence {source}")


def read(connection: Connection, source: str | None, label: LabelFilter) -> list[RuleEvidence]:
    """The evidence by source, label and rule."""
    table = tables.evidence
    statement = select(table).order_by(table.c.source, table.c.label, table.c.rule)
    if source is not None:
        statement = statement.where(table.c.source == source)
    if label is not ANY:
        statement = statement.where(table.c.label == label_key(label))
    return [_evidence(row) for row in connection.execute(statement).mappings()]


def save(connection: Connection, source: str, changed: Sequence[RuleEvidence]) -> None:
    """Store evidence whose ``version`` is the one that was read; raises :class:`LostRace` where it is not any more."""
    lock(connection, source)
    for each in changed:
        if not _write(connection, each):
            raise LostRace


def refuse_other(connection: Connection, source: str, label: str | None, seen: Sequence[RuleEvidence]) -> None:
    """Raise :class:`LostRace` unless the evidence that was seen, row by row, is stored still.

    Rules that are not among them say nothing here: alerts.yaml may have lost them.
    """
    lock(connection, source)
    stored = {each.rule: each.version for each in read(connection, source, label)}
    if any(stored.get(each.rule, 0) != each.version for each in seen):
        raise LostRace


def _write(connection: Connection, evidence: RuleEvidence) -> bool:
    table, row = tables.evidence, _row(evidence)
    if evidence.version == 0:
        added = insert(connection, table).values(row).on_conflict_do_nothing().returning(table.c.version)
        return connection.execute(added).first() is not None
    same = and_(*(table.c[name] == row[name] for name in ("source", "label", "rule")))
    where = and_(same, table.c.version == evidence.version)
    return connection.execute(update(table).where(where).values(row)).rowcount == 1


def _row(evidence: RuleEvidence) -> Row:
    return {
        "source": evidence.source, "label": label_key(evidence.label), "rule": evidence.rule,
        "schedule": evidence.schedule, "windows": [_outcome_json(each) for each in evidence.windows],
        "judged_until": evidence.judged_until, "since": evidence.since, "version": evidence.version + 1,
    }  # fmt: skip


def _outcome_json(found: WindowOutcome) -> dict[str, Any]:
    return {
        "window_end": found.window_end.isoformat(), "outcome": found.outcome, "verdict": found.verdict,
        "blocked": plain(found.blocked),
    }  # fmt: skip


def _evidence(row: RowMapping) -> RuleEvidence:
    return RuleEvidence(
        source=row["source"], label=label_of(row["label"]), rule=row["rule"], schedule=row["schedule"],
        windows=tuple(_outcome(each) for each in row["windows"]), judged_until=row["judged_until"],
        since=row["since"], version=row["version"],
    )  # fmt: skip


def _outcome(found: dict[str, Any]) -> WindowOutcome:
    blocked = tuple((low, high) for low, high in found["blocked"])
    return WindowOutcome(datetime.fromisoformat(found["window_end"]), found["outcome"], found["verdict"], blocked)
