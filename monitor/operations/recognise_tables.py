"""Which of several tables holds what is needed: one by itself, or predictions with the table of what came true."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from monitor.operations.propose_source import NAMES, Proposal, Unclear, holds_dates, plain_name, propose, with_truth
from monitor.warehouse.reader import RelationError, Warehouse, WarehouseFailed
from monitor.warehouse.tables import ColumnSample

MOST_TABLES = 40
"""Tables that are looked at: of more, a person says which."""
_SHARED = 0.5

Columns = Sequence[ColumnSample]


@dataclass(frozen=True, slots=True)
class Found:
    """A table that can be read; ``truth`` is the table of what came true where that is another, joined by ``on``."""

    relation: str
    truth: str | None = None
    on: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.truth is None:
            return self.relation
        joined = ", ".join(f"{mine} = {its}" for mine, its in self.on.items())
        return f"{self.relation}, with what came true in {self.truth} ({joined})"


def recognised(
    warehouse: Warehouse, tables: Sequence[str], given: Mapping[str, str], *, files: bool = False
) -> list[Found]:
    """The tables of which it is clear how to read them; only where there is none, the pairs of two."""
    columns = {table: found for table in tables[:MOST_TABLES] if (found := _columns(warehouse, table))}
    alone = [Found(name) for name, mine in columns.items() if isinstance(propose(mine, given, files=files), Proposal)]
    if alone:
        return alone
    return [found for name in columns for found in truths_of(name, columns, given, files=files)]


def truths_elsewhere(
    warehouse: Warehouse, relation: str, tables: Sequence[str], given: Mapping[str, str], *, files: bool
) -> list[Found]:
    """The tables with which ``relation``, which has no truth, can be read."""
    names = [relation, *(table for table in tables[:MOST_TABLES] if table != relation)]
    columns = {table: found for table in names if (found := _columns(warehouse, table))}
    return truths_of(relation, columns, given, files=files)


def lacks_truth(found: Proposal | Unclear) -> bool:
    """Whether all that a table lacks is what came true, or when that was known."""
    return isinstance(found, Unclear) and found.wanted in ("true_label", "resolved_at")


def truths_of(relation: str, columns: Mapping[str, Columns], given: Mapping[str, str], *, files: bool) -> list[Found]:
    """The other tables of ``columns`` that say what came true of the predictions in ``relation``."""
    found: list[Found] = []
    if relation not in columns or not lacks_truth(propose(columns[relation], given, files=files)):
        return found
    for other, its in columns.items():
        on = None if other == relation else joined_by(columns[relation], its)
        if on is not None and isinstance(propose(with_truth(columns[relation], its), given, files=files), Proposal):
            found.append(Found(relation, other, on))
    return found


def joined_by(predictions: Columns, truths: Columns) -> dict[str, str] | None:
    """The columns by which two tables belong together, theirs: its; None where that is not clear.

    The column that both have, of several the one with the name of an item, else two columns with the same values.
    """
    its = {column.name for column in truths}
    shared = [column.name for column in predictions if column.name in its]
    if len(shared) > 1:
        shared = [name for name in shared if plain_name(name) in NAMES["item"]]
    if len(shared) == 1:
        return {shared[0]: shared[0]}
    pairs = [(mine.name, other.name) for mine in predictions for other in truths if _same_values(mine, other)]
    return dict(pairs) if len(pairs) == 1 else None


def _same_values(mine: ColumnSample, other: ColumnSample) -> bool:
    """Whether two columns hold the same items: no dates, hardly a value twice, and half of them shared."""
    if holds_dates(mine) or holds_dates(other):
        return False
    first, second = ({str(value) for value in column.values} for column in (mine, other))
    distinct = all(len(values) > 0.9 * len(column.values) for values, column in ((first, mine), (second, other)))
    return distinct and bool(first) and len(first & second) >= _SHARED * min(len(first), len(second))


def _columns(warehouse: Warehouse, table: str) -> Columns:
    """The columns of a table; none of one that cannot be read, such as a broken view."""
    try:
        return warehouse.samples(table)
    except (RelationError, WarehouseFailed):
        return ()
