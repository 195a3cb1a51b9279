"""Stores that a label has another name now: switch, evidence, baseline and incidents, all or nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, select
from sqlalchemy.exc import IntegrityError

from monitor.core.records import Delivery, Incident, IncidentEvent, RuleEvidence, SwitchEvent, SwitchState
from monitor.history import incident_rows, readings, tables
from monitor.history import switches as switch_rows
from monitor.history.errors import LostRace, VersionClash


@dataclass(frozen=True, slots=True)
class Renaming:
    """All that is stored. ``seen`` is the evidence on the old name as it was read, ``evidence`` that on the new one.

    ``switches`` are (before, after, event). Of ``incidents``, each has the version after the stored one's.
    """

    source: str
    old: str
    new: str
    at: datetime
    by: str
    why: str
    switches: Sequence[tuple[SwitchState, SwitchState, SwitchEvent]]
    seen: Sequence[RuleEvidence]
    evidence: Sequence[RuleEvidence]
    incidents: Sequence[Incident]
    deliveries: Sequence[Delivery]
    events: Sequence[IncidentEvent]


def apply(connection: Connection, renaming: Renaming) -> None:
    """Store it. Raises :class:`LostRace` if anything of it is no longer as it was read."""
    switch_rows.refuse_other_evidence(connection, renaming.source, renaming.old, renaming.seen)
    switch_rows.save_evidence(connection, renaming.source, renaming.evidence)
    for before, after, event in sorted(renaming.switches, key=lambda change: change[0].label or ""):
        switch_rows.apply(connection, before, after, event)
    try:
        _carry_baseline(connection, renaming)
        incident_rows.apply_incidents(connection, renaming.incidents, renaming.deliveries, renaming.events)
    except (IntegrityError, VersionClash) as error:  # a run opened an incident, or somebody pinned, just now
        raise LostRace from error


def _carry_baseline(connection: Connection, renaming: Renaming) -> None:
    """The newest baseline of the old name becomes the first one of the new name, which has none."""
    table = tables.baselines
    of_source = select(table).where(table.c.source == renaming.source).order_by(table.c.version.desc()).limit(1)
    old, new = (
        connection.execute(of_source.where(table.c.label == label)).mappings().first()
        for label in (renaming.old, renaming.new)
    )
    if old is not None and new is None:
        note = {"pinned_at": renaming.at, "pinned_by": renaming.by, "reason": f"renamed from {renaming.old}"}
        readings.save_baselines(connection, [{**old, "label": renaming.new, "version": 1, **note}])
