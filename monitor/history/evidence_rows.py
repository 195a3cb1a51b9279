"""The last evaluated outcomes of each acting rule on each label. A change is refused if another one came first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from monitor.core.records import RuleEvidence, WindowOutcome
from monitor.history import tables
from monitor.history.connect import Row, add_missing, filtered, one_at_a_time, put_versions, row_of
from monitor.history.errors import LostRace
from monitor.history.values import ANY, LabelFilter


def lock(connection: Connection, source: str) -> None:
    """Block every other change of a source's evidence until the end of this transaction."""
    one_at_a_time(connection, f"evidence {source}")


def read(connection: Connection, source: str | None = None, label: LabelFilter = ANY) -> list[RuleEvidence]:
    """The evidence of each acting rule on each label, by source, label and rule."""
    table = tables.evidence
    statement = select(table).order_by(table.c.source, table.c.label, table.c.rule)
    found = connection.execute(filtered(statement, table, label, source=source))
    return [_evidence(row) for row in found.mappings()]


def save(connection: Connection, source: str, changed: Sequence[RuleEvidence]) -> None:
    """Store changed evidence. Raises :class:`LostRace` if the stored ``version`` is no longer the one that was read."""
    lock(connection, source)
    table = tables.evidence
    versions = select(table.c.label, table.c.rule, table.c.version).where(table.c.source == source)
    stored = {(label, rule): version for label, rule, version in connection.execute(versions)}
    rows = [_row(each) for each in changed]
    if any(stored.get((row["label"], row["rule"]), 0) != row["version"] - 1 for row in rows):
        raise LostRace
    add_missing(connection, table, [row for row in rows if row["version"] == 1])
    put_versions(connection, table, [row for row in rows if row["version"] > 1])


def _row(evidence: RuleEvidence) -> Row:
    windows = [asdict(window) for window in evidence.windows]
    return row_of(tables.evidence, evidence, windows=windows, version=evidence.version + 1)


def refuse_other(connection: Connection, source: str, label: str | None, seen: Sequence[RuleEvidence]) -> None:
    """Raise :class:`LostRace` if the evidence in ``seen`` is no longer stored, row by row.

    Other rules are ignored: they may have been removed from alerts.yaml.
    """
    lock(connection, source)
    stored = {each.rule: each.version for each in read(connection, source, label)}
    if any(stored.get(each.rule, 0) != each.version for each in seen):
        raise LostRace


def _evidence(row: RowMapping) -> RuleEvidence:
    return RuleEvidence(**{**row, "windows": tuple(map(_outcome, row["windows"]))})


def _outcome(stored: dict[str, Any]) -> WindowOutcome:
    end, blocked = datetime.fromisoformat(stored["window_end"]), tuple(map(tuple, stored["blocked"]))
    segments = tuple(map(tuple, stored["segments"]))
    return WindowOutcome(**{**stored, "window_end": end, "blocked": blocked, "segments": segments})
