"""The score from which each label may act alone, by the newest rules revision that a run or the service published.

A gate reads only the history, not alerts.yaml, which may be on another machine. There may be several copies of that
file, and nothing in it says which is newer: a revision that is new to this history may be an old copy. So any copy may
raise a score at once, but a lower score takes effect only if a person publishes it explicitly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from datetime import datetime
from itertools import starmap
from typing import Literal, TypeAlias

from sqlalchemy import Connection, delete, exists, select

from monitor.history import tables
from monitor.history.connect import add_missing, one_at_a_time, record_of, row_of

Thresholds: TypeAlias = Mapping[tuple[str, str | None], float]
Kind = Literal["published", "raised", "refused"]
_PUBLISHED = tables.publications.c.kind == "published"


@dataclass(frozen=True, slots=True)
class Publisher:
    """Which alerts.yaml is published: its revision, the machine, and the system user."""

    revision: str
    host: str
    actor: str


@dataclass(frozen=True, slots=True)
class ThresholdChange:
    """A change of the score from which a label acts. A score of None: never, the gate is closed.

    A ``label`` of None means the labels without a score of their own.
    """

    source: str
    label: str | None
    before: float | None
    after: float | None

    @property
    def is_lowered(self) -> bool:
        """Whether the label would act from a lower score than before."""
        return _or_never(self.after) < _or_never(self.before)


@dataclass(frozen=True, slots=True)
class Publication:
    """One entry: *published* as the newest revision, *raised* by another file, or *refused* until a person confirms.

    The ``changes`` of a refused entry were not made.
    """

    sequence: int
    kind: Kind
    by: Publisher
    at: datetime
    reason: str
    changes: tuple[ThresholdChange, ...]

    @property
    def lowered(self) -> tuple[ThresholdChange, ...]:
        """The changes that were made to a lower score; not those of labels that had no score before."""
        done = self.kind != "refused"
        return tuple(c for c in self.changes if done and c.is_lowered and c.before is not None)


def read(connection: Connection) -> dict[tuple[str, str | None], float]:
    """(source, label) -> automate_at. Label None is the source's score, for labels without their own."""
    rows = connection.execute(select(tables.thresholds))
    return {(row.source, row.label): row.automate_at for row in rows}


def publications(connection: Connection, limit: int | None = None) -> list[Publication]:
    """The entries, newest first; at most ``limit``."""
    table = tables.publications
    rows = connection.execute(select(table).order_by(table.c.sequence.desc()).limit(limit)).mappings()
    return [
        record_of(
            Publication, row, by=record_of(Publisher, row), changes=tuple(starmap(ThresholdChange, row["changes"]))
        )
        for row in rows
    ]


def is_settled(connection: Connection, wanted: Thresholds, revision: str) -> bool:
    """Whether nothing is to be done: these scores are stored, and ``revision`` need not become the newest."""
    newest = _newest_revision(connection)
    return read(connection) == dict(wanted) and (newest == revision or _is_superseded(connection, revision, newest))


def publish(
    connection: Connection, wanted: Thresholds, by: Publisher, now: datetime, *, anyway: bool = False, reason: str = ""
) -> Publication | None:
    """Store these scores instead of all others, if none is lowered and ``by`` is no older revision.

    A label that is left out is closed. Otherwise only higher scores are stored; ``anyway``, which a person sets,
    stores all and makes it the newest revision. Returns None if nothing changes. Others that publish meanwhile wait
    for the end of this transaction, so that one whole set is stored.
    """
    one_at_a_time(connection, "thresholds")
    before, newest = read(connection), _newest_revision(connection)
    is_lowering = any(c.is_lowered and c.before is not None for c in _changes(before, wanted))
    if anyway or not before or not (is_lowering or _is_superseded(connection, by.revision, newest)):
        if before == dict(wanted) and newest == by.revision:
            return None
        _replace(connection, wanted, now)
        return _note(connection, "published", by, now, reason, _changes(before, wanted))
    raised = _raised(before, wanted)
    refused = [change for change in _changes(raised, wanted) if change.is_lowered]
    if raised != before:
        _replace(connection, raised, now)
        return _note(connection, "raised", by, now, reason, _changes(before, raised))
    return _refused(connection, by, now, refused) if refused else None


def _raised(before: Thresholds, wanted: Thresholds) -> dict[tuple[str, str | None], float]:
    """The stored scores, raised to those that are higher in ``wanted``, for sources that are in both."""
    shared = {source for source, _ in before} & {source for source, _ in wanted}
    found = dict(before)
    for key in {*before, *wanted}:
        score = _effective(wanted, *key)
        if key[0] in shared and _effective(before, *key) < score < math.inf:
            found[key] = score
    return found


def _refused(connection: Connection, by: Publisher, now: datetime, changes: list[ThresholdChange]) -> Publication:
    """The entry of a refusal. The same refusal twice in a row is one entry, whoever published."""
    last = next(iter(publications(connection, 1)), None)
    if last is not None and (last.kind, last.by.revision, last.changes) == ("refused", by.revision, tuple(changes)):
        return last
    return _note(connection, "refused", by, now, "not confirmed by a person", changes)


def _newest_revision(connection: Connection) -> str | None:
    published = select(tables.publications.c.revision).where(_PUBLISHED)
    return connection.execute(published.order_by(tables.publications.c.sequence.desc()).limit(1)).scalar_one_or_none()


def _is_superseded(connection: Connection, revision: str, newest: str | None) -> bool:
    """Whether this revision was published, and another one after it."""
    was_published = exists().where(_PUBLISHED, tables.publications.c.revision == revision)
    return newest != revision and bool(connection.scalar(select(was_published)))


def _effective(scores: Thresholds, source: str, label: str | None) -> float:
    of_label = scores.get((source, label))
    return _or_never(scores.get((source, None)) if of_label is None else of_label)


def _or_never(score: float | None) -> float:
    return math.inf if score is None else score


def _changes(before: Thresholds, after: Thresholds) -> list[ThresholdChange]:
    """The changes of effective scores: a label that loses its own score acts from its source's."""
    found = []
    for source, label in sorted({*before, *after}, key=lambda key: (key[0], key[1] or "")):
        old, new = _effective(before, source, label), _effective(after, source, label)
        if old != new:
            found.append(ThresholdChange(source, label, *(None if math.isinf(s) else s for s in (old, new))))
    return found


def _replace(connection: Connection, wanted: Thresholds, now: datetime) -> None:
    connection.execute(delete(tables.thresholds))
    rows = [
        {"source": source, "label": label, "automate_at": score, "published_at": now}
        for (source, label), score in wanted.items()
    ]
    add_missing(connection, tables.thresholds, rows)


def _note(
    connection: Connection, kind: Kind, by: Publisher, now: datetime, reason: str, changes: list[ThresholdChange]
) -> Publication:
    table, made = tables.publications, Publication(0, kind, by, now, reason, tuple(changes))
    row = row_of(table, made, **asdict(by), changes=[astuple(change) for change in changes])
    return replace(made, sequence=connection.execute(table.insert().returning(table.c.sequence), row).scalar_one())
